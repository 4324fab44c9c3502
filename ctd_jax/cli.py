"""The console script `ctd-jax`: every command of the project as a subcommand.

  ctd-jax train --config=configs/tiny.py
  ctd-jax train --help

`ctd-jax NAME ...` is `python -m MODULE ...` with the module of `COMMANDS`.
"""

from __future__ import annotations

import difflib
import runpy
import sys
from collections.abc import Sequence

# Subcommand -> (module, one line of help), in the order of the help.
COMMANDS = {
  "build": ("ctd_jax_datasets.build", "build data sets and print their tables"),
  "train": ("ctd_jax.train", "train a retriever, then evaluate it"),
  "plan": ("ctd_jax.plan", "plan a run on devices: memory, FLOPs, time"),
  "evaluate": ("ctd_jax.evaluate", "evaluate a run, or untrained systems"),
  "ablate": ("ctd_jax.ablate", "train a grid of methods, fields and seeds"),
  "date": ("ctd_jax.date", "date the lines of a chronicle"),
  "ask": ("ctd_jax.ask", "ask an index for records, dates and reasons"),
  "serve": ("ctd_jax.serve", "serve an index as pages and a JSON API"),
  "index": (
    "ctd_jax.index",
    "build the index of a corpus, here or by Beam, or check one",
  ),
  "export": (
    "ctd_jax.export",
    "write a run as one folder, its vectors or its adapters",
  ),
  "export-data": (
    "ctd_jax_datasets.export",
    "write a data set as BEIR, parquet, TREC or release files",
  ),
  "audit-sample": (
    "ctd_jax_datasets.audit_sample",
    "draw records to read by eye; count the verdicts",
  ),
  "tables": (
    "ctd_jax.evaluation.result_tables",
    "renew the result tables of Markdown files",
  ),
  "pseudo-queries": (
    "ctd_jax.systems.pseudo_queries",
    "have a chat model write pseudo-queries",
  ),
  "ctm": ("ctd_jax.tasks.ctm", "questions and the Ito game of dynasties"),
  "evidence-qa": (
    "ctd_jax.tasks.evidence_qa",
    "answer questions from packs of records",
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
    argv: arguments behind the program's name; those of the process by default.
  """
  arguments = list(sys.argv[1:] if argv is None else argv)
  if not arguments or arguments[0] in ("-h", "--help", "--helpfull", "help"):
    print(format_help())
    return
  if arguments[0] == "--version":
    from ctd_jax import __version__  # not at import: keeps this file alone

    print(f"ctd_jax {__version__}")
    return
  name, *rest = arguments
  if name not in COMMANDS:
    nearest = difflib.get_close_matches(name, COMMANDS, n=1)
    hint = f"; did you mean {nearest[0]}?" if nearest else ""
    sys.exit(
      f"error: unknown command {name!r}{hint} (ctd-jax --help lists them)"
    )
  # The module sees its own file as argv[0], as under python -m.
  sys.argv = [name, *rest]
  runpy.run_module(COMMANDS[name][0], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
  main()
