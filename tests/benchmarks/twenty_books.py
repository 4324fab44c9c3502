"""Published books, dated and checked by their printed heads.

  python -m tests.benchmarks.twenty_books --books=DIR --outside=DIR \\
    [--only=weishu,mingshi] [--rows=FILE]

--books holds the books, each in the folder that `books.BOOKS` names beside its
repository. For every book it measures

  sections     that are no headings
  sure         share of them with a probability of at least .9, of the month,
               or of the year in books that print little more
  judged       share whose right date is known
  right@sure   among the sure ones, share with the right month, and day where
               printed; the right year where the book prints no more
  right@unsure the same of those from .5 to .9
  lost         letters of the book that are in no section or heading
  seconds      of processor for reading and dating; seconds/1000 is for 1,000
               sections
"""

import argparse
import pathlib
import shutil
import tempfile
import time
from collections.abc import Sequence

import numpy as np

from ctd_jax.dating.chronicle import (
  chronicle_dating,
  chronicle_input,
  dated_sections,
)
from ctd_jax.dating.chronicle.dated_sections import DatedSection
from tests.benchmarks import book_gold, books, result_rows
from tests.benchmarks.book_gold import Truth

_MAX_HEAD = 16  # characters from a section's start to the end of its date
_MAX_AHEAD = 400  # characters searched for a short line
_FAR = 4000  # the same for a long line
_MIN_LONG = 12  # characters of a long line
_MAX_DAYS_APART = 2  # of first days of one month in two calendars
_SURE, _UNSURE = 0.9, 0.5


def align(lines: Sequence[str], printed: str) -> np.ndarray:
  """Returns where each character of the lines is in a text, -1 if nowhere.

  A line stands whole, behind the line before it.
  """
  places, cursor = [], 0
  for line, below in zip(lines, [*lines[1:], ""], strict=True):
    found = printed.find(line, cursor, cursor + _MAX_AHEAD)
    if found < 0 and len(line) >= _MIN_LONG:
      # What is between has no place; two lines cannot stand there by chance.
      far = printed.find(line + below[:_MIN_LONG], cursor)
      found = far if far >= 0 else printed.find(line, cursor, cursor + _FAR)
    if found < 0:
      # It may run back: a heading that is printed after its text.
      back = printed.find(line, max(0, cursor - _MAX_AHEAD), cursor)
      places.append(
        np.full(len(line), -1)
        if back < 0
        else np.arange(back, back + len(line))
      )
    else:
      places.append(np.arange(found, found + len(line)))
      cursor = found + len(line)
  return np.concatenate(places)


def judge_book(
  name: str, folder: pathlib.Path, outside: pathlib.Path, most_shown: int
) -> dict[str, float]:
  """Returns metric -> value of one book, and prints what is wrong in it."""
  book = books.BOOKS[name]
  right = book_gold.read_gold(book, folder, outside)
  files = books.list_files(book, folder)
  with tempfile.TemporaryDirectory() as temporary:
    path = pathlib.Path(temporary)
    for number, file in enumerate(files):
      # Files of one name stand in folders of their own.
      is_alone = len({file.name for file in files}) == len(files)
      shutil.copy(
        file, path / (file.name if is_alone else f"{number:03}{file.suffix}")
      )
    if len(files) == 1:
      path = next(path.iterdir())
    start_time = time.process_time()
    work = chronicle_input.read_chronicle(
      path, chronicle_input.LINE, book.columns
    )
    records = chronicle_input.list_records(work)
    calendar = chronicle_input.load_reigns(book.reigns, records)
    dates = chronicle_dating.date_records(records, calendar)
    rows = dated_sections.make_rows(dates)
    seconds = time.process_time() - start_time
  texts = [book_gold.find_letters(book, row.text) for row in rows]
  starts = np.cumsum([0, *map(len, texts)])[:-1]
  places = align(right.lines, "".join(texts))
  truth_of: dict[int, Truth] = {}
  for truth in right.truths:
    place = places[truth.position - 1]
    if place < 0:
      continue
    section = int(np.searchsorted(starts, place, "right")) - 1
    if place - starts[section] < _MAX_HEAD and not rows[section].is_heading:
      # The last date of a head is its most precise.
      known = truth_of.get(section)
      if known is None or (known.day is None and truth.day is not None):
        # A chance of a year is right or wrong as a year.
        truth_of[section] = (
          truth._replace(first_day=0) if book.prints_years else truth
        )
  find_chance = _find_chance_of_year if book.prints_years else _find_chance
  chances = [find_chance(row) for row in rows]
  verdicts: list[tuple[float, bool]] = []
  wrong = []
  for section, truth in truth_of.items():
    is_right = _is_right(
      truth,
      rows[section],
      int(dates.months[section, 0]),
      dates.calendar.day_spans,
      book.kind,
    )
    chance = chances[section]
    verdicts.append((chance, is_right))
    if not is_right and chance >= _UNSURE:
      wrong.append((chance, truth, rows[section]))
  _print_wrong(wrong, most_shown)
  _print_lost(right.lines, places, most_shown)
  real = [
    chance
    for chance, row in zip(chances, rows, strict=True)
    if not row.is_heading
  ]

  def share(low: float, high: float) -> float:
    of_band = [ok for chance, ok in verdicts if low <= chance < high]
    return float(np.mean(of_band)) if of_band else float("nan")

  return {
    "sections": len(real),
    "sure": float(np.mean(np.asarray(real) >= _SURE)),
    "judged": len(verdicts) / max(len(real), 1),
    "right@sure": share(_SURE, 2),
    "right@unsure": share(_UNSURE, _SURE),
    "lost": int((places < 0).sum()),
    "seconds": seconds,
    "seconds/1000": 1000 * seconds / max(len(real), 1),
  }


def _find_chance(row: DatedSection) -> float:
  """Returns the probability of the most probable month."""
  return row.months.probability


def _find_chance_of_year(row: DatedSection) -> float:
  """Returns the probability of the year of the most probable month."""
  if row.months.month is None:
    return row.months.probability
  year = row.months.month.common_era_year
  in_year = [
    month.probability
    for month in row.months.credible
    if month.common_era_year == year
  ]
  # What is left of a distribution is in months near those that are given.
  is_whole = len(in_year) == len(row.months.credible) and in_year
  return 1 - row.months.outside if is_whole else sum(in_year)


def _is_right(
  truth: Truth, row: DatedSection, month: int, spans, kind: str
) -> bool:
  """Returns whether a section has the right date."""
  given = row.months.month
  if given is None or month >= len(spans):
    return False
  if not truth.first_day:
    return given.common_era_year == truth.year
  julian_day = row.dates.julian_day
  # Days of the cycle are the same in every table, numbered ones not.
  apart = 0 if kind == books.ANNALS else _MAX_DAYS_APART
  if truth.day is not None and julian_day is not None:
    return abs(julian_day - truth.day) <= apart
  return abs(int(spans[month, 0]) - truth.first_day) <= _MAX_DAYS_APART


def _print_wrong(wrong, most_shown: int) -> None:
  """Prints the first sections that are wrong with confidence."""
  sure = [each for each in wrong if each[0] >= _SURE]
  for chance, truth, row in sure[:most_shown]:
    given = row.months.month
    place = f"{row.place.file}:{row.place.line}"
    known = (
      f"{given.reign}{given.year}年{given.month}月" if given else "outside"
    )
    print(
      f"  wrong at {chance:.4f}: {place} {row.text[:24]!r} given {known} "
      f"({given and given.common_era_year}) {row.dates.julian_day or ''}, "
      f"right {truth.year} {truth.first_day} {truth.day or ''}"
    )


def _print_lost(
  lines: Sequence[str], places: np.ndarray, most_shown: int
) -> None:
  """Prints the first lines that are in no section."""
  position, shown = 0, 0
  for line in lines:
    if places[position] < 0 and shown < most_shown:
      print(f"  lost: {line[:40]}")
      shown += 1
    position += len(line)


def main() -> None:
  """Measures every book."""
  parser = argparse.ArgumentParser(
    description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
  )
  parser.add_argument("--books", type=pathlib.Path, required=True)
  parser.add_argument("--outside", type=pathlib.Path, required=True)
  parser.add_argument("--only", default=",".join(books.BOOKS))
  parser.add_argument("--shown", type=int, default=0, help="faults printed")
  parser.add_argument("--rows", type=pathlib.Path, help="file of result rows")
  flags = parser.parse_args()
  rows = []
  for name in flags.only.split(","):
    figures = judge_book(name, flags.books, flags.outside, flags.shown)
    of_book = result_rows.make_test_rows(
      result_rows.describe_run("twenty_books", figures["seconds"]),
      "books",
      name,
      "printed",
      figures,
      books.BOOKS[name].kind,
      "T0+order",
    )
    result_rows.print_rows(of_book)
    rows += of_book
    result_rows.write_rows(flags.rows, rows)


if __name__ == "__main__":
  main()
