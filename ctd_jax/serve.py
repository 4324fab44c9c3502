"""Serves an index as web pages and a JSON API.

  python -m ctd_jax.serve --index=annals
  python -m ctd_jax.serve --index=annals --port=9000
  python -m ctd_jax.serve --index=annals --host=0.0.0.0 --token=...

Open the printed address in a browser. Programs can use the JSON API, which is
documented at /api/docs. You can extend the index while it is being served: the
pages switch to the new state when it is complete.

Readers can correct dates and add texts, unless you set --read_only. Only this
machine can reach the server unless you set --host, which requires a --token
that readers enter. Needs the extra [web].
"""

import pathlib

from absl import flags

from ctd_jax.utils import command_line


def main() -> None:
  """Serves the index of --index until it is interrupted."""
  # Imported here so that --help is fast.
  try:
    from ctd_jax.web import app
    from ctd_jax.web.settings import WebSettings
  except ModuleNotFoundError as error:
    raise ValueError(
      f"{error.name} is not installed: pip install 'ctd_jax[web]'"
    ) from error

  values = flags.FLAGS
  settings = WebSettings(
    index=pathlib.Path(values.index).expanduser(),
    encoder=values.encoder,
    host=values.host,
    port=values.port,
    host_names=tuple(values.host_names),
    token=values.token,
    read_only=values.read_only,
    seconds=values.seconds,
    requests_per_minute=values.requests_per_minute,
  )
  app.serve(settings, values.processes)


if __name__ == "__main__":
  flags.DEFINE_string(
    "index", None, "Folder of the index. Example: --index=annals"
  )
  flags.DEFINE_string(
    "encoder",
    None,
    "Path of the encoder that made the index's vectors, or none to search by "
    "words only. Default: its path when the index was built. "
    "Example: --encoder=exported",
  )
  flags.DEFINE_string(
    "host",
    "127.0.0.1",
    "Address to listen on. One that other machines can reach requires --token. "
    "Example: --host=0.0.0.0",
  )
  flags.DEFINE_integer("port", 8321, "Port to listen on. Example: --port=9000")
  flags.DEFINE_list(
    "host_names",
    [],
    "Host names of the server, for example behind a proxy; requests for other "
    "names are refused. Example: --host_names=annals.example.org",
  )
  flags.DEFINE_string(
    "token",
    None,
    "Secret that readers must enter, at least 16 characters. "
    "Example: --token=$(openssl rand -hex 16)",
  )
  flags.DEFINE_bool(
    "read_only",
    False,
    "Forbid corrections, uploads and builds from the pages. "
    "Example: --read_only",
  )
  flags.DEFINE_float(
    "seconds",
    20.0,
    "Time limit for an answer, in seconds. Example: --seconds=5",
    lower_bound=0.1,
  )
  flags.DEFINE_integer(
    "requests_per_minute",
    None,
    "Limit per client and process; 0 means no limit. Default: no limit if only "
    "this machine can reach the server, otherwise 600. "
    "Example: --requests_per_minute=120",
  )
  flags.DEFINE_integer(
    "processes",
    1,
    "Number of server processes. One is enough for a few readers; for many, "
    "use one per core. Each needs its own memory. Example: --processes=4",
    lower_bound=1,
  )
  command_line.run_main(main, required=("index",))
