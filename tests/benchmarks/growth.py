"""Growth of every reader of questions, passages and uploads with its text.

  python -m tests.benchmarks.growth [--index=INDEX] [--reader=NAME ...]

Each reader reads a unit such as 「元年」 over and over, as one line: 10,000
characters, then 20,000. Twice the text may take three times the processor. It
prints what takes more, and the slowest text of each reader; the status is 1 if
anything takes more. Without an index it builds a small one.
"""

import argparse
import gc
import pathlib
import signal
import sys
import tempfile
import time
from collections.abc import Callable

from ctd_jax.chronology import (
  annals,
  dates,
  mentions,
  question_words,
  questions,
  western_dates,
  windows,
)
from ctd_jax.dating.chronicle import (
  chronicle_dating,
  dating_warnings,
  eras,
  western,
  written_dates,
)
from ctd_jax.dating.chronicle.calendar import Calendar
from ctd_jax.index import (
  asking,
  correction_checks,
  database,
  ranking,
)
from ctd_jax.index.asking import Index
from ctd_jax.index.building import sources, work_dating
from ctd_jax.index.question_calendar import PASSAGE, TIME, WORDS
from ctd_jax.index.question_reading import MAX_QUESTION
from ctd_jax.texts.works import Entry, Place
from ctd_jax.web import rendering
from tests.web import annals_index

UNITS = (
  *("元年", "正月", "甲子", "十", "年", "月", "初", "閏月", "春秋", "之"),
  *(
    "元年春王正月",
    "泰始元年",
    "泰始",
    "晉",
    "歲在甲子",
    "公元前311年",
    "二十八年",
  ),
  *("0", "12", "(", "[", "<a>", "&", '"', "「", "《", " ", "\n", "　", "、"),
  *("-", "1-", "1-1-1/", "a", "the ", "June 311 CE ", "第", "一百二十", "，"),
  *(
    "a\u0301",
    "\u200d",
    "\u202e",
    "\ue000",
    "の",
    "한",
    "𠀀",
    "元年，",
    "元年\n",
  ),
  *(
    "# ",
    "* ",
    "- ",
    "<b>元年</b>",
    "<l",
    "é",
    "¶",
    "¬",
    "○",
    "前",
    "年後",
    "至",
  ),
  *(
    "子曰",
    "是歲",
    "夏四月",
    "reign of Duke ",
    "in the 3rd century BC ",
    "年間",
  ),
)
SIZE = 10_000  # characters, and twice as many
MAX_RATIO = 3.0
FLOOR = 0.3  # seconds of processor below which growth cannot be seen
LIMIT = 5.0  # seconds after which reading is broken off


class _TooLongError(BaseException):
  """Reading took more than the limit."""


def list_readers(
  index: Index, folder: pathlib.Path
) -> dict[str, Callable[[str], object]]:
  """Returns name -> reader of a text."""
  calendar, months = index.calendar, index.question_reader._months
  timeline = calendar.timeline
  western_calendar = western.make_western_calendar(1, 400)
  work = index.works[0]
  first = database.fetch_records(index.connection, [work.first_row])[0]

  def read_entries(entries: list[Entry], calendar: Calendar) -> None:
    sections = chronicle_dating.read_all_sections(entries, calendar)
    dating_warnings.list_lacking(entries, sections, calendar)

  def read_file(name: str, start: str = "", end: str = ""):
    def read(text: str) -> None:
      path = folder / name
      path.write_text(start + text + end, encoding="utf-8")
      for each in sources.make_request(folder, str(path)).read(folder):
        work_dating.choose_manner(each, calendar)
        read_entries(list(each.entries), calendar)

    return read

  def ask(intent: str | None) -> Callable[[str], object]:
    return lambda text: index.question_reader.read(text, intent)

  def search(text: str) -> None:
    # No longer question is a search for words.
    ranking.search_words(index.connection, [text[:MAX_QUESTION]], 10)

  def highlight(text: str) -> None:
    for words in (["元年"], ["元年", "12", "a"], list("春王正月")):
      rendering.split_marks(text, ranking.find_highlights(words, text))
    rendering.write_exactly(text)

  return {
    "question": ask(None),
    "question of a time": ask(TIME),
    "question of words": ask(WORDS),
    "passage": lambda text: asking.date_passage(
      index, index.question_reader.read(text, PASSAGE)
    ),
    "quotations": question_words.take_quotations,
    "words": lambda text: question_words.find_words(text, frozenset()),
    "word splitting": question_words.split_words,
    "is question": question_words.is_question,
    "titles": lambda text: windows.BOOK_TITLE.sub("", text),
    "cues": lambda text: dates.find_date_cues(
      text, timeline, with_common_years=True
    ),
    "full dates": lambda text: dates.find_full_dates(text, timeline),
    "mentions": lambda text: questions.resolve_mentions(
      text[:MAX_QUESTION],
      mentions.find_mentions(text[:MAX_QUESTION], months),
      months,
    ),
    "western dates": western_dates.find_western_dates,
    "western years": western_dates.find_common_era_years,
    "eras": lambda text: eras.find_unknown_eras(text, calendar),
    "sections": lambda text: read_entries(
      [Entry(text, Place("a", 1))], calendar
    ),
    "western sections": lambda text: read_entries(
      [Entry(text, Place("a", 1))], western_calendar
    ),
    "annals": lambda text: (
      annals.find_opening_cues(text),
      annals.classify_printed_date(text),
      annals.split_entry_by_month(text, annals.MonthScanner()),
    ),
    "date": lambda text: written_dates.find_months(text, calendar),
    "western date": lambda text: written_dates.find_months(
      text, western_calendar
    ),
    "correction": lambda text: correction_checks.check_correction(
      index, work.name, first.record_id, first.record_id, text
    ),
    "full text": search,
    "highlights": highlight,
    "plain file": read_file("a.txt"),
    "markdown file": read_file("a.md", "# 元年\n\n"),
    "TEI file": read_file(
      "a.xml", "<TEI><text><body><p>", "</p></body></text></TEI>"
    ),
    "TEI file as is": read_file("b.xml", "<TEI>"),
    "Kanripo file": read_file(
      "a.org", "#+TITLE: 春秋\n#+PROPERTY: ID KR1\n<pb:KR1_1-1a>¶\n"
    ),
    "BEIR file": read_file("corpus.jsonl", '{"_id": "1", "text": "', '"}\n'),
  }


def time_reading(read: Callable[[str], object], text: str) -> float:
  """Returns the processor time of reading a text; infinite beyond `LIMIT`."""

  def stop(*_: object) -> None:
    raise _TooLongError

  signal.signal(signal.SIGVTALRM, stop)
  start = time.process_time()
  signal.setitimer(signal.ITIMER_VIRTUAL, LIMIT)
  try:
    read(text)
  except _TooLongError:
    return float("inf")
  except (ValueError, KeyError):  # refused
    pass
  finally:
    signal.setitimer(signal.ITIMER_VIRTUAL, 0)
  return time.process_time() - start


def measure(
  read: Callable[[str], object], unit: str, size: int = SIZE
) -> tuple[float, float]:
  """Returns the time of `size` characters and of twice as many."""
  text = unit * (2 * size // len(unit))
  longer = time_reading(read, text)
  if longer < FLOOR:
    return longer, longer
  shorter = time_reading(read, text[:size])
  if shorter * MAX_RATIO < longer < LIMIT:  # once more: others use the machine
    shorter = max(shorter, time_reading(read, text[:size]))
    longer = min(longer, time_reading(read, text))
  return shorter, longer


def main() -> int:
  """Measures every reader; returns 1 if one grows faster than its text."""
  parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
  parser.add_argument("--index")
  parser.add_argument("--reader", nargs="*")
  flags = parser.parse_args()
  num_failures = 0
  with tempfile.TemporaryDirectory() as name:
    folder = pathlib.Path(name)
    index = Index.open(flags.index or annals_index.build_index(folder))
    for name, read in list_readers(index, folder).items():
      if flags.reader and name not in flags.reader:
        continue
      time_reading(read, "春王正月，")  # loads what the first needs
      # Else a pass of the garbage collector over what is loaded takes .1 s, as
      # long as the shorter text, and falls into one reading or the other.
      gc.freeze()
      slowest = (0.0, "")
      for unit in UNITS:
        shorter, longer = measure(read, unit)
        slowest = max(slowest, (longer, unit))
        if longer > MAX_RATIO * shorter or longer == float("inf"):
          num_failures += 1
          print(
            f"{name}: {unit!r} {shorter:.2f} s, then {longer:.2f} s", flush=True
          )
      print(
        f"{name}: at most {slowest[0]:.2f} s, of {slowest[1]!r}", flush=True
      )
  print(f"{num_failures} grow too fast")
  return int(num_failures > 0)


if __name__ == "__main__":
  sys.exit(main())
