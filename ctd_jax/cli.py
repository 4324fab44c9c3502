"""The console script `ctd-jax`: every command of the project as a subcommand.

  ctd-jax train --config=configs/tiny.py
  ctd-jax train --help

`ctd-jax NAME ...` is `python -m MODULE ...` with the module of `COMMANDS`.
"""

import difflib
import runpy
import sys
from collections.abc import Sequence

# Subcommand -> (module, one line of help), in the order of the help.
COMMANDS = {
  "build": (
    "ctd_jax_datasets.build",
    "build data sets and print their statistics",
  ),
  "train": ("ctd_jax.train", "train a retriever and evaluate it"),
  "pretrain": ("ctd_jax.pretrain", "pre-train an encoder on texts"),
  "plan": ("ctd_jax.plan", "estimate memory, FLOPs and time of a training run"),
  "evaluate": ("ctd_jax.evaluate", "evaluate a run or untrained systems"),
  "ablate": (
    "ctd_jax.ablate",
    "train a grid of methods, config values and seeds",
  ),
  "date": ("ctd_jax.date", "date the records of a chronicle"),
  "convert": ("ctd_jax.convert", "convert dates between calendars"),
  "ask": ("ctd_jax.ask", "ask an index for records, dates and reasons"),
  "serve": ("ctd_jax.serve", "serve an index as web pages and a JSON API"),
  "mcp": ("ctd_jax.mcp", "give an index to agents as tools (MCP)"),
  "index": (
    "ctd_jax.index",
    "build, extend, correct or check an index",
  ),
  "export": (
    "ctd_jax.export",
    "export a run as a folder, its vectors or its adapters",
  ),
  "export-data": (
    "ctd_jax_datasets.export",
    "export a data set as BEIR, Parquet, TREC or release files",
  ),
  "audit-sample": (
    "ctd_jax_datasets.audit_sample",
    "sample records for reading, and count the verdicts",
  ),
  "tables": (
    "ctd_jax.evaluation.result_tables",
    "update the result tables in Markdown files",
  ),
  "pseudo-queries": (
    "ctd_jax.systems.pseudo_queries",
    "generate pseudo-queries with a chat model",
  ),
  "ctm": (
    "ctd_jax.tasks.ctm",
    "CTM: questions and the Ito game on Chinese dynasties",
  ),
  "evidence-qa": (
    "ctd_jax.tasks.evidence_qa",
    "answer questions from sets of evidence records",
  ),
  "validity": (
    "ctd_jax.tasks.chronocept.validity",
    "predict how long statements stay valid",
  ),
  "fit-validity": (
    "ctd_jax.tasks.chronocept.fit_validity",
    "fit validity curves to annotated points",
  ),
  "compare-validity": (
    "ctd_jax.tasks.chronocept.compare",
    "compare runs of Chronocept baselines",
  ),
}


def format_help() -> str:
  """Returns the help of the console script."""
  width = max(map(len, COMMANDS))
  lines = [f"  {name:<{width}}  {text}" for name, (_, text) in COMMANDS.items()]
  return "\n".join(
    [
      "usage: ctd-jax COMMAND [FLAG...]",
      "",
      "commands:",
      *lines,
      "",
      "ctd-jax COMMAND --help lists the flags of a command.",
      "Example: ctd-jax train --config=configs/tiny.py --workdir=runs/tiny",
    ]
  )


def main(argv: Sequence[str] | None = None) -> None:
  """Runs the subcommand that the arguments name.

  Args:
    argv: arguments after the program's name; by default, the process's.
  """
  arguments = list(sys.argv[1:] if argv is None else argv)
  if not arguments or arguments[0] in ("-h", "--help", "--helpfull", "help"):
    print(format_help())
    return
  if arguments[0] == "--version":
    from ctd_jax import (
      __version__,
    )  # imported late: the console script stays light

    print(f"ctd_jax {__version__}")
    return
  name, *rest = arguments
  if name not in COMMANDS:
    nearest = difflib.get_close_matches(name, COMMANDS, n=1)
    hint = f"; did you mean {nearest[0]}?" if nearest else ""
    sys.exit(f"error: unknown command {name!r}{hint} (see ctd-jax --help)")
  # The module sees its own file as argv[0], as under python -m.
  sys.argv = [name, *rest]
  runpy.run_module(COMMANDS[name][0], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
  main()
