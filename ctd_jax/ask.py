"""Asks an index for records, dates and reasons.

  python -m ctd_jax.ask --index=annals 魯隱公元年五月
  python -m ctd_jax.ask --index=annals 722 BCE..719 BCE --k=20 --why
  python -m ctd_jax.ask --index=annals 僖公年間的日食 --html=answer.html
  python -m ctd_jax.ask --index=annals 五月，葬衛桓公。
  python -m ctd_jax.ask --index=annals --intent=passage - < passage.txt

A question is a time (reign dates, years of the common era, sexagenary days),
words to look for, both, or a passage to date. A passage need not be in the
index. The answer starts with how the question was understood; --intent
overrides that. If a name belongs to several reigns, all of them are searched.

A time is answered in order of time and text, and so are events and questions
for all (所有日食, all eclipses); other words by relevance. --sort changes that.
Records that have only parts of the words are counted, and shown with --near.
--group=event shows the records that tell one event together. --k is the number
of records, or events; --offset leaves out the first ones.

The answer is a table: the date of each record; p, the probability that the
record falls in the time you asked for (or in its month, if you asked for no
time); its text; and the strongest reason for its date, in log odds against a
random month. --why prints all reasons. For a passage you get years and months
with probabilities, the smallest sets of months that hold half and nine tenths
of the probability, reasons and parallels.

If the index has vectors, words are also compared by vector, with the encoder
that made the vectors; use --encoder if that has moved.

--json, --csv and --tsv print the answer for programs; --html saves it as a
page. --export=FILE saves all records of the answer in the format that the name
says: .csv, .tsv, .xlsx, .jsonl, .json, .xml (TEI), .bib, .ris, .csl.json or
.html. Build an index with python -m ctd_jax.index.

The exit status is 0 for an answer, 1 if nothing was found, 2 for an error.
"""

import json
import pathlib
import sys
from collections.abc import Sequence

from absl import flags

from ctd_jax.utils import command_line, files, notes

NOTHING_FOUND, ERROR = 1, 2
_DEFAULT_K = 10
_INTENTS = ("time", "words", "passage")
_SORTS, _GROUPS = ("time", "relevance"), ("event",)
_FORMATS = ("json", "csv", "tsv")


def main(arguments: Sequence[str]) -> int:
  """Answers the question in the arguments; returns the exit status.

  Args:
    arguments: words of the question; "-" alone is the standard input.
  """
  # Imported here so that --help is fast.
  from ctd_jax.index import answer_files, answers, asking

  values = flags.FLAGS
  formats = [name for name in _FORMATS if values[name].value]
  if len(formats) > 1:
    raise ValueError(
      f"--{formats[0]} and --{formats[1]} cannot be combined; choose one"
    )
  target = values.export and pathlib.Path(values.export).expanduser()
  suffix = target and answer_files.find_suffix(target.name)
  index = asking.Index.open(values.index, values.encoder, values.dense_weight)
  answer = index.ask(
    _read_question(arguments),
    k=values.k or (answer_files.MAX_RECORDS if target else _DEFAULT_K),
    works=values.works or None,
    intent=values.intent,
    kinds=values.kinds or None,
    offset=values.offset,
    sort=values.sort,
    near=values.near,
    group=values.group,
    why=bool(values.why or values.json or values.html),
  )
  answer = answers.write_citations(answer, values.lang)
  if values.html:
    path = pathlib.Path(values.html).expanduser()
    files.write_text(path, answer_files.format_page(answer))
  if target:
    records = asking.list_records(index, answer)
    content = answer_files.write_answer(answer, suffix, records, values.lang)
    with files.atomic_path(target) as path:
      path.write_bytes(content)
    if not formats:
      answers.print_saved(answer, len(records), target)
  elif not formats:
    answers.print_answer(answer, why=values.why)
  if formats == ["json"]:
    print(json.dumps(answer.to_dict(), ensure_ascii=False, indent=2))
  elif formats:
    print(answer_files.format_table(answer, formats[0]), end="")
  return NOTHING_FOUND if answer.is_empty else 0


def _read_question(arguments: Sequence[str]) -> str:
  """Returns the question of the arguments, or of the standard input."""
  if not arguments:
    raise ValueError(
      "the question is missing; write one after the flags, such as "
      "魯隱公元年五月, or - to read it from standard input"
    )
  if list(arguments) != ["-"]:
    return " ".join(arguments)
  content = sys.stdin.buffer.read()
  try:
    return content.decode("utf-8-sig")
  except UnicodeDecodeError as error:
    raise ValueError(
      f"standard input: not UTF-8 at byte {error.start}; expected UTF-8 text"
    ) from error


if __name__ == "__main__":
  flags.DEFINE_string(
    "index", None, "Folder of the index. Example: --index=annals"
  )
  flags.DEFINE_integer(
    "k",
    None,
    "Number of records, or of events, to print. Default: 10; with --export all "
    "of them, up to 10,000. Example: --k=20",
    lower_bound=1,
  )
  flags.DEFINE_integer(
    "offset",
    0,
    "Number of records, or events, to leave out, as on earlier pages. "
    "Example: --offset=10",
    lower_bound=0,
  )
  flags.DEFINE_enum(
    "sort",
    None,
    _SORTS,
    "Order of the records: time (and text), or relevance. Default: time for a "
    "time, events, and a question for all; relevance for other words. "
    "Example: --sort=time",
  )
  flags.DEFINE_bool(
    "near",
    False,
    "Also print records that have only parts of the words. Example: --near",
  )
  flags.DEFINE_enum(
    "group",
    None,
    _GROUPS,
    "Print the records that tell one event together. Example: --group=event",
  )
  flags.DEFINE_list(
    "works",
    [],
    "Works to search, by name. Default: all. Example: --works=zuozhuan",
  )
  flags.DEFINE_list(
    "kinds",
    [],
    "Kinds of records to search. Default: all but headings. "
    "Example: --kinds=event",
  )
  flags.DEFINE_enum(
    "intent",
    None,
    _INTENTS,
    "Kind of question, if it is not detected correctly. "
    "Example: --intent=passage",
  )
  flags.DEFINE_string(
    "encoder",
    None,
    "Path of the encoder that made the index's vectors, or none to search by "
    "words only. Default: its path when the index was built. "
    "Example: --encoder=exported",
  )
  flags.DEFINE_float(
    "dense_weight",
    None,
    "Weight of vectors against words, from 0 to 1. Default: 0.1, if the index "
    "has vectors. Example: --dense_weight=0.5",
    lower_bound=0,
    upper_bound=1,
  )
  flags.DEFINE_bool(
    "why", False, "Print all reasons for each date. Example: --why"
  )
  flags.DEFINE_bool(
    "json",
    False,
    "Print JSON; its schema is ctd_jax/index/answer.schema.json. "
    "Example: --json",
  )
  flags.DEFINE_bool("csv", False, "Print CSV with a header. Example: --csv")
  flags.DEFINE_bool("tsv", False, "Print TSV with a header. Example: --tsv")
  flags.DEFINE_string(
    "export",
    None,
    "Save all records of the answer to a file; its name says the format. "
    "Example: --export=eclipses.xlsx",
  )
  flags.DEFINE_enum(
    "lang",
    notes.ENGLISH,
    notes.LANGUAGES,
    "Language of citations in files, JSON and tables. Example: --lang=zh-Hant",
  )
  flags.DEFINE_string(
    "html",
    None,
    "Also save the answer as a self-contained HTML page. "
    "Example: --html=answer.html",
  )
  command_line.run_main(
    main, required=("index",), takes_arguments=True, error_status=ERROR
  )
