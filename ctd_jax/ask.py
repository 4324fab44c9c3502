"""Answers of an index: records, dates and reasons for a question or a passage.

  python -m ctd_jax.ask --index=annals 魯隱公元年五月
  python -m ctd_jax.ask --index=annals 722 BCE..719 BCE --k=20 --why
  python -m ctd_jax.ask --index=annals 僖公年間的日食 --html=answer.html
  python -m ctd_jax.ask --index=annals 五月，葬衛桓公。
  python -m ctd_jax.ask --index=annals --intent=passage - < passage.txt

A question is a time (in reigns, years of the common era, sexagenary days),
words to look for, both, or a passage: a text that need not be in the index, to
be dated by what is. What it was taken for is printed; --intent says it. A name
of several reigns is answered with all of them.

Printed is a table: the date of each record with its year, p, the probability
that it is of the time asked for (of its month, where no time is), its text, and
the weightiest reason for the date, in log odds against a month drawn at random;
--why prints them all. Of a passage: years and months with their probabilities,
the months that hold 50 and 90 %, the reasons, and the parallels.

Words are compared with the vectors of the records too, if the index has any;
the encoder that made them is opened where it lay, or where --encoder says.

--json, --csv and --tsv print the same for programs, --html writes a page to be
archived. python -m ctd_jax.index builds an index.

The status is 0 with an answer, 1 if nothing was found, 2 after an error.
"""

from __future__ import annotations

import json
import os
import pathlib
import sys
from collections.abc import Sequence

from absl import flags

from ctd_jax.utils import command_line

NOTHING_FOUND, ERROR = 1, 2
_INTENTS = ("time", "words", "passage")
_FORMATS = ("json", "csv", "tsv")


def main(arguments: Sequence[str]) -> int:
  """Answers the question in the arguments; returns the exit status.

  Args:
    arguments: words of the question; "-" alone is the standard input.
  """
  # Here and not above: --help needs none of it.
  from ctd_jax.index import answer_output, answers, asking

  values = flags.FLAGS
  formats = [name for name in _FORMATS if values[name].value]
  if len(formats) > 1:
    raise ValueError(
      f"--{formats[0]} and --{formats[1]} exclude each other: one form is "
      "printed"
    )
  index = asking.Index.open(values.index, values.encoder, values.dense_weight)
  answer = index.ask(
    _read_question(arguments),
    k=values.k,
    works=values.works or None,
    intent=values.intent,
    kinds=values.kinds or None,
    why=bool(values.why or values.json or values.html),
  )
  if values.html:
    answer_output.write_page(pathlib.Path(values.html).expanduser(), answer)
  if not formats:
    answers.print_answer(answer, why=values.why)
  elif formats[0] == "json":
    print(json.dumps(answer.to_dict(), ensure_ascii=False, indent=2))
  else:
    print(answer_output.format_table(answer, formats[0]), end="")
  return NOTHING_FOUND if answer.is_empty else 0


def _read_question(arguments: Sequence[str]) -> str:
  """Returns the question of the arguments, or of the standard input."""
  if not arguments:
    raise ValueError(
      "no question; expected one behind the flags, such as 魯隱公元年五月, "
      "or - to read it from the standard input"
    )
  if list(arguments) != ["-"]:
    return " ".join(arguments)
  content = sys.stdin.buffer.read()
  try:
    return content.decode("utf-8-sig")
  except UnicodeDecodeError as error:
    raise ValueError(
      f"standard input: not UTF-8 at byte {error.start}"
    ) from error


def run() -> None:
  """Runs the command; a reader that has closed the output is no error."""
  try:
    command_line.run_main(
      main, required=("index",), takes_arguments=True, error_status=ERROR
    )
    sys.stdout.flush()
  except BrokenPipeError:
    # As of `ask ... | head`; the interpreter would flush once more.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(0)


if __name__ == "__main__":
  flags.DEFINE_string(
    "index", None, "Folder of the index. Example: --index=annals"
  )
  flags.DEFINE_integer(
    "k", 10, "Number of records. Example: --k=20", lower_bound=1
  )
  flags.DEFINE_list(
    "works",
    [],
    "Names of the works to look in; all by default. Example: --works=zuozhuan",
  )
  flags.DEFINE_list(
    "kinds",
    [],
    "Kinds of records to look for; all but headings by default. Example: "
    "--kinds=event",
  )
  flags.DEFINE_enum(
    "intent",
    None,
    _INTENTS,
    "What the question is taken for, if not what it looks like. Example: "
    "--intent=passage",
  )
  flags.DEFINE_string(
    "encoder",
    None,
    "Where the encoder lies that the vectors of the index were made with, or "
    "none, to look for words alone. By default where it lay then. Example: "
    "--encoder=exported",
  )
  flags.DEFINE_float(
    "dense_weight",
    None,
    "Weight of the vectors beside the words, 0 to 1. Example: "
    "--dense_weight=0.5",
    lower_bound=0,
    upper_bound=1,
  )
  flags.DEFINE_bool("why", False, "Print all reasons. Example: --why")
  flags.DEFINE_bool(
    "json",
    False,
    "Print JSON, as ctd_jax/index/answer.schema.json has it. Example: --json",
  )
  flags.DEFINE_bool("csv", False, "Print CSV with a header. Example: --csv")
  flags.DEFINE_bool("tsv", False, "Print TSV with a header. Example: --tsv")
  flags.DEFINE_string(
    "html",
    None,
    "File to write as a page besides, complete in itself. Example: "
    "--html=answer.html",
  )
  run()
