"""Questions and the Ito game about Chinese dynasties: answer, play, judge.

  python -m ctd_jax.tasks.ctm qa --system=oracle --workdir=runs/oracle
  python -m ctd_jax.tasks.ctm qa --system=model --model=NAME --base_url=URL \
    --arm=open_book --style=cot --workdir=runs/NAME
  python -m ctd_jax.tasks.ctm ito --agent=random --repeats=20 --workdir=runs/ito
  python -m ctd_jax.tasks.ctm judge --answers=ANSWERS.tsv --data=QUESTIONS.jsonl

qa    --system=eras knows names of eras, dynasties and years; chronicles finds
      the years of names in reign-dated texts; oracle has the entity table;
      model asks a chat model, which may read first what --arm says.
ito   --agent is a guesser (random, elimination, permutation, joint), oracle,
      knowing (with --accuracy) or model.
judge compares the judge with answers that people have judged.

Started again, a command goes on where it was cut off.
"""

from __future__ import annotations

import sys

from ctd_jax.tasks.ctm import agreement, qa
from ctd_jax.tasks.ctm.ito import command as ito
from ctd_jax.utils import command_line

# Command -> module and the flags that it cannot do without.
COMMANDS = {
  "qa": (qa, ("system", "workdir")),
  "ito": (ito, ("agent", "workdir")),
  "judge": (agreement, ("answers", "data")),
}


def main() -> None:
  """Runs the command that comes first on the command line."""
  name = sys.argv[1] if len(sys.argv) > 1 else ""
  if name.startswith("--help"):
    sys.exit(__doc__)
  if name not in COMMANDS:
    sys.exit(f"error: {name!r} is not one of {', '.join(COMMANDS)}")
  module, required_flags = COMMANDS[name]
  module.define_flags()
  del sys.argv[1]
  command_line.run_main(module.main, required_flags)


if __name__ == "__main__":
  main()
