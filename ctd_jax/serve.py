"""Serves an index as web pages and a JSON API.

  python -m ctd_jax.serve --index=annals
  python -m ctd_jax.serve --index=annals --port=9000
  python -m ctd_jax.serve --index=annals --host=0.0.0.0 --token

Open the printed address in a browser. Programs can use the JSON API, which is
documented at /api/docs. You can extend the index while it is being served: the
pages switch to the new state when it is complete.

Readers can correct dates and add texts, unless you set --read_only. Only this
machine can reach the server unless you set --host, which requires a token that
readers enter: --token makes one and prints a link with it; --token_file=FILE
or the variable CTD_JAX_TOKEN holds yours. Needs the extra [web].
"""

import os
import pathlib
import secrets
import sys
from collections.abc import Sequence
from typing import Any

from absl import flags, logging

from ctd_jax.utils import command_line, files
from ctd_jax.web.settings import WebSettings

_TOKEN_VARIABLE = "CTD_JAX_TOKEN"
_MAX_TOKEN_FILE = 4_096  # bytes


def give_token_a_value(arguments: Sequence[str]) -> list[str]:
  """Returns arguments in which --token alone has an empty value."""
  # absl would take the flag that follows for the token.
  return [
    f"{argument}="
    if argument in ("--token", "-token") and following.startswith("-")
    else argument
    for argument, following in zip(
      arguments, [*arguments[1:], "-"], strict=True
    )
  ]


def find_token(given: str | None, path: str | None) -> tuple[str | None, bool]:
  """Returns the token and whether it was made here; None without a token.

  Args:
    given: value of --token; "" to make one.
    path: value of --token_file.
  """
  # Not handed down to builds.
  from_variable = os.environ.pop(_TOKEN_VARIABLE, None)
  from_variable = from_variable and from_variable.strip()
  if given is not None and path is not None:
    raise ValueError("--token, --token_file: expected one of them")
  if given:
    logging.warning(
      "--token=...: every user of this machine can read it in the list of "
      "processes; --token_file=FILE and $%s hide it",
      _TOKEN_VARIABLE,
    )
    return given.strip(), False
  if given is not None:
    return secrets.token_urlsafe(24), True
  if path is None:
    return from_variable, False
  file = pathlib.Path(path).expanduser()
  if not file.exists() or file.is_dir():  # may be a pipe: <(command)
    raise FileNotFoundError(f"--token_file={path}: no such file")
  if file.is_file() and file.stat().st_mode & 0o077:
    logging.warning(
      "--token_file=%s: other users can read it; chmod 600 %s", path, path
    )
  content = files.read_limited(file, _MAX_TOKEN_FILE)
  try:
    return content.decode("ascii").strip(), False
  except UnicodeDecodeError:
    raise ValueError(
      f"--token_file={path}: expected one line of letters, digits and signs"
    ) from None


def read_settings(**options: Any) -> tuple[WebSettings, bool]:
  """Returns the settings of the flags, and whether their token was made here.

  Args:
    **options: settings without a flag of `define_access_flags`.
  """
  values = flags.FLAGS
  token, is_new = find_token(values.token, values.token_file)
  settings = WebSettings(
    index=pathlib.Path(values.index).expanduser(),
    encoder=values.encoder,
    host=values.host,
    port=values.port,
    host_names=tuple(values.host_names),
    token=token,
    seconds=values.seconds,
    requests_per_minute=values.requests_per_minute,
    **options,
  )
  return settings, is_new


def main() -> None:
  """Serves the index of --index until it is interrupted."""
  # Imported here so that --help is fast.
  try:
    from ctd_jax.web import app
  except ModuleNotFoundError as error:
    raise ValueError(
      f"{error.name} is not installed: pip install 'ctd_jax[web]'"
    ) from error

  values = flags.FLAGS
  settings, is_new = read_settings(
    read_only=values.read_only,
    upload_space=values.upload_space << 20,
    fonts=tuple(pathlib.Path(it).expanduser() for it in values.font)
    if values.font is not None
    else None,
  )
  app.serve(settings, values.processes, shows_token=is_new)


def define_access_flags() -> None:
  """Defines the flags for serving an index: address, access, limits."""
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
    "Address to listen on. One that other machines can reach requires a token. "
    "Example: --host=0.0.0.0 --token",
  )
  flags.DEFINE_list(
    "font",
    None,
    "Fonts for rare characters; a page gets the part that it needs. Default: "
    "those of the Debian package fonts-hanazono, if installed; --font= for "
    "none. Example: --font=HanaMinA.ttf,HanaMinB.ttf",
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
    "Ask readers for a token. Without a value, one is made, and a link with it "
    "is printed. --token=VALUE, at least 16 characters, is visible to every "
    f"user of this machine: better --token_file or ${_TOKEN_VARIABLE}. "
    "Example: --token",
  )
  flags.DEFINE_string(
    "token_file",
    None,
    "File whose only line is the token that readers must enter. "
    "Example: --token_file=~/.config/ctd_token",
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


if __name__ == "__main__":
  define_access_flags()
  flags.DEFINE_bool(
    "read_only",
    False,
    "Forbid corrections, uploads and builds from the pages. "
    "Example: --read_only",
  )
  flags.DEFINE_integer(
    "upload_space",
    4_096,
    "Space for the uploads of readers in all, in MiB. "
    "Example: --upload_space=500",
    lower_bound=0,
  )
  flags.DEFINE_integer(
    "processes",
    1,
    "Number of server processes. One is enough for a few readers; for many, "
    "use one per core. Each needs its own memory. Example: --processes=4",
    lower_bound=1,
  )
  sys.argv[1:] = give_token_a_value(sys.argv[1:])
  command_line.run_main(main, required=("index",))
