"""Pages on an index: search, timeline, records, months, dates of passages.

  python -m ctd_jax.serve --index=annals
  python -m ctd_jax.serve --index=annals --port=9000
  python -m ctd_jax.serve --index=annals --host=0.0.0.0 --token=...

The pages are read in a browser at the address that is printed. What they show
programs can ask for as JSON, see /api/docs there. The index may be built
further while it is served: its new state is shown when it is complete.

Readers can correct dates and have the index built further, unless --read_only
is given. Only this machine reaches the server, unless --host says otherwise;
then a --token is needed, which readers are asked for. Needs the extra [web].
"""

from __future__ import annotations

import pathlib

from absl import flags

from ctd_jax.utils import command_line


def main() -> None:
  """Serves the index of --index until it is interrupted."""
  # Here and not above: --help needs none of it.
  try:
    from ctd_jax.web import app
    from ctd_jax.web.served_index import WebSettings
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
    "Where the encoder lies that the vectors of the index were made with, or "
    "none, to look for words alone. By default where it lay then. Example: "
    "--encoder=exported",
  )
  flags.DEFINE_string(
    "host",
    "127.0.0.1",
    "Address to listen on; another than this machine's needs --token. Example: "
    "--host=0.0.0.0",
  )
  flags.DEFINE_integer("port", 8321, "Port to listen on. Example: --port=9000")
  flags.DEFINE_list(
    "host_names",
    [],
    "Names by which readers call the server, as behind a proxy; requests for "
    "others are refused. Example: --host_names=annals.example.org",
  )
  flags.DEFINE_string(
    "token",
    None,
    "Secret of 16 characters or more that readers are asked for. Example: "
    "--token=$(openssl rand -hex 16)",
  )
  flags.DEFINE_bool(
    "read_only",
    False,
    "Whether nobody can correct dates, bring texts or have the index built "
    "from the pages.",
  )
  flags.DEFINE_float(
    "seconds",
    20.0,
    "Time that an answer may take. Example: --seconds=5",
    lower_bound=0.1,
  )
  flags.DEFINE_integer(
    "requests_per_minute",
    None,
    "Requests that one client may make of a process in a minute, 0 for any "
    "number; by default any on this machine's address and 600 on others. "
    "Example: --requests_per_minute=120",
  )
  flags.DEFINE_integer(
    "processes",
    1,
    "Processes that answer; one serves few readers well, for many give one "
    "for each core. Each takes memory of its own. Example: --processes=4",
    lower_bound=1,
  )
  command_line.run_main(main, required=("index",))
