"""Gives an index to agents: tools of the Model Context Protocol (MCP).

  python -m ctd_jax.mcp --index=annals
  python -m ctd_jax.mcp --index=annals --http --host=0.0.0.0 --token

The tools search by time and words, date a passage, read a month or a record,
and convert a date. They change nothing. The program talks over its standard
input and output, as most agents start it; --http serves the same at /mcp, with
the rules of `ctd-jax serve` for hosts and tokens: a client sends the token as
`Authorization: Bearer TOKEN`. Needs the extra [mcp].
"""

import functools
import sys

from absl import flags, logging

from ctd_jax import serve
from ctd_jax.utils import command_line


def main() -> None:
  """Gives the index of --index to agents until it is interrupted."""
  # Imported here so that --help is fast.
  try:
    from ctd_jax.web import agent_tools
  except ModuleNotFoundError as error:
    raise ValueError(
      f"{error.name} is not installed: pip install 'ctd_jax[mcp]'"
    ) from error

  settings, is_new_token = serve.read_settings()
  if not flags.FLAGS.http:
    agent_tools.make_server(settings).run()
    return
  from ctd_jax.web import app

  if is_new_token:
    logging.info("clients send: Authorization: Bearer %s", settings.token)
  make = functools.partial(agent_tools.make_http_app, settings)
  app.run_alone(make, settings, agent_tools.PATH)


if __name__ == "__main__":
  flags.DEFINE_bool(
    "http",
    False,
    "Serve at http://HOST:PORT/mcp instead of standard input and output. "
    "Example: --http --port=8322",
  )
  serve.define_access_flags()
  flags.adopt_module_key_flags(serve)
  sys.argv[1:] = serve.give_token_a_value(sys.argv[1:])
  command_line.run_main(main, required=("index",))
