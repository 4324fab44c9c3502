"""CTM: answer questions, play the Ito game, compare verdicts.

  python -m ctd_jax.tasks.ctm qa --system=oracle --workdir=runs/oracle
  python -m ctd_jax.tasks.ctm qa --system=model --model=NAME --base_url=URL \\
    --arm=open_book --style=cot --workdir=runs/NAME
  python -m ctd_jax.tasks.ctm ito --agent=random --repeats=20 --workdir=runs/ito
  python -m ctd_jax.tasks.ctm judge --answers=ANSWERS.tsv --data=QUESTIONS.jsonl

qa    Answers questions. --system=eras knows the names of eras, dynasties and
      years; chronicles finds the years of names in reign-dated texts; oracle
      has the entity table; model asks a chat model, which first reads what
      --arm says. The workdir gets answers.jsonl and replies.jsonl (journals),
      verdicts.jsonl, results.json, report.md and plots.
ito   Plays the Ito game. --agent is a guesser (random, elimination,
      permutation, joint), oracle, knowing (with --accuracy) or model. The
      workdir gets games.jsonl (a journal of transcripts), results.json,
      report.md and passes.png. --check replays the transcripts.
judge Compares the judge's verdicts with those of people. ANSWERS.tsv has
      the columns question (id), batch, style (direct or cot), kind, correct
      (1 or 0) and answer (\\n for a new line).

To resume an interrupted command, start it again. `COMMAND --help` lists the
flags of a command.
"""

import pathlib
import sys

from absl import flags

from ctd_jax.tasks import chat_models
from ctd_jax.tasks.ctm import command_settings
from ctd_jax.utils import command_line


def answer_questions() -> None:
  """Runs `qa`."""
  settings = command_settings.read_qa_settings()
  from ctd_jax.tasks.ctm import qa

  qa.run_questions(settings)


def play_games() -> None:
  """Runs `ito`."""
  settings = command_settings.read_ito_settings()
  from ctd_jax.tasks.ctm import ito

  if flags.FLAGS.check:
    ito.check_transcripts(settings.workdir)
  else:
    ito.run_games(settings)


def compare_verdicts() -> None:
  """Runs `judge`."""
  from ctd_jax.tasks.ctm import grading

  values = flags.FLAGS
  grading.print_agreement(
    pathlib.Path(values.answers),
    values.data,
    command_settings.read_judge(),
    values.workers,
  )


# Command -> (definition of its flags, its function, its required flags).
COMMANDS = {
  "qa": (
    command_settings.define_qa_flags,
    answer_questions,
    ("system", "workdir"),
  ),
  "ito": (command_settings.define_ito_flags, play_games, ("agent", "workdir")),
  "judge": (
    command_settings.define_agreement_flags,
    compare_verdicts,
    ("answers", "data"),
  ),
}


def main() -> None:
  """Runs the command that the first argument names."""
  name = sys.argv[1] if len(sys.argv) > 1 else ""
  if name in ("-h", "--help", "--helpfull", "--helpshort"):
    print(__doc__)
    return
  if name not in COMMANDS:
    problem = f"{name!r} is not one of" if name else "name a command:"
    sys.exit(f"error: {problem} {', '.join(COMMANDS)} (--help describes them)")
  define_flags, run_command, required_flags = COMMANDS[name]
  define_flags()
  # --help lists the key flags of the main module.
  for module in (command_settings, chat_models):
    flags.adopt_module_key_flags(module)
  flags.declare_key_flag(command_line.WORKDIR.name)
  del sys.argv[1]
  command_line.run_main(run_command, required_flags)


if __name__ == "__main__":
  main()
