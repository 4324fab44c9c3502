"""Days of the cycle in books, by sanmiao and by us, against the same gold.

  python -m tests.benchmarks.sanmiao_comparison --books=BOOKS \\
    --outside=OUTSIDE [--rows=FILE]

sanmiao (extra [calendars]) is slow, so --seed draws some juan of each book. Its
years are limited to those of the juan. We date the same juan. For each book:

  dates          days that the gold has
  found          dates that sanmiao finds where the gold has a day
  resolved       those for which it gives one day only
  right          those that are right
  ours           days that we give
  ours_right     those that are right
  alike          days that both give
  ours_alone     days that both give and only we have right
  sanmiao_alone  the same for sanmiao
  seconds, ours_seconds   of processor
"""

import argparse
import dataclasses
import math
import pathlib
import random
import shutil
import tempfile
import time
from collections.abc import Sequence

import numpy as np
import sanmiao

from ctd_jax.dating.chronicle import (
  chronicle_dating,
  chronicle_input,
  dated_sections,
)
from ctd_jax.evaluation import results
from tests.benchmarks import book_gold, books, result_rows, twenty_books

_BOOKS = ("weishu", "jiutangshu", "mingshi", "yuanshi")
_MAX_HEAD = 40  # letters of a date at the head of a section
_METRICS = (
  *("dates", "found", "resolved", "right", "seconds"),
  *("ours", "ours_right", "ours_seconds"),
  *("alike", "ours_alone", "sanmiao_alone"),
)
_MARGIN = 30  # years around a book's dates that sanmiao may use


def read_with_sanmiao(
  text: str, first_year: int, last_year: int
) -> dict[int, int | None]:
  """Returns end of each date -> its Julian day number; None for several."""
  days: dict[int, int | None] = {}
  position = 0
  for date in sanmiao.propose_dates(
    text, civ=["c"], tpq=first_year - _MARGIN, taq=last_year + _MARGIN
  ):
    start = text.find(date["date_string"], position)
    if start < 0:
      continue
    position = start + len(date["date_string"])
    # A Julian day begins at noon: 1891914.5 is the midnight before it.
    found = {
      candidate["attrs"].get("jdn") if "gz" in candidate["attrs"] else None
      for candidate in date["candidates"]
    }
    day = found.pop() if len(found) == 1 else None
    days[position] = math.ceil(float(day)) if day else None
  return days


def read_with_ours(
  book: books.Book, folder: pathlib.Path, lines: Sequence[str]
) -> dict[int, int]:
  """Returns position in the letters of a book -> day of the section there."""
  with tempfile.TemporaryDirectory() as temporary:
    for file in books.list_files(book, folder):
      shutil.copy(file, temporary)
    work = chronicle_input.read_chronicle(
      pathlib.Path(temporary), chronicle_input.LINE, book.columns
    )
    records = chronicle_input.list_records(work)
    calendar = chronicle_input.load_reigns(book.reigns, records)
    rows = dated_sections.make_rows(
      chronicle_dating.date_records(records, calendar)
    )
  texts = [book_gold.find_letters(book, row.text) for row in rows]
  starts = np.cumsum([0, *map(len, texts)])[:-1]
  days = {}
  for place, at in enumerate(twenty_books.align(lines, "".join(texts))):
    if at >= 0:
      section = int(np.searchsorted(starts, at, "right")) - 1
      # A date is at the head of its section.
      if at - starts[section] < _MAX_HEAD and rows[section].dates.julian_day:
        days[place + 1] = rows[section].dates.julian_day
  return days


def main() -> None:
  """Compares on every book."""
  parser = argparse.ArgumentParser(
    description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
  )
  parser.add_argument("--books", type=pathlib.Path, required=True)
  parser.add_argument("--outside", type=pathlib.Path, required=True)
  parser.add_argument("--only", default=",".join(_BOOKS))
  parser.add_argument("--juan", type=int, default=2, help="juan of a book")
  parser.add_argument("--seed", type=int, default=0)
  parser.add_argument("--rows", type=pathlib.Path, help="file of result rows")
  options = parser.parse_args()
  rows: list[results.ResultRow] = []
  for name in options.only.split(","):
    figures: dict[str, float] = dict.fromkeys(_METRICS, 0)
    book = books.BOOKS[name]
    chance = random.Random(options.seed)
    for juan in chance.sample(
      range(book.juan[0], book.juan[1] + 1), options.juan
    ):
      part = dataclasses.replace(book, juan=(juan, juan))
      compare_juan(part, options, figures)
    about = result_rows.describe_run("sanmiao_comparison", figures["seconds"])
    of_book = result_rows.make_test_rows(
      about, "conversions", name, "sanmiao", figures, track="T0+order"
    )
    result_rows.print_rows(of_book)
    rows += of_book
    result_rows.write_rows(options.rows, rows)


def compare_juan(
  book: books.Book, options: argparse.Namespace, figures: dict[str, float]
) -> None:
  """Adds a juan to the figures of a book."""
  gold = book_gold.read_gold(book, options.books, options.outside)
  truths = [truth for truth in gold.truths if truth.day is not None]
  if not truths:
    return
  start = time.process_time()
  theirs = read_with_sanmiao(
    "".join(gold.lines), gold.truths[0].year, gold.truths[-1].year
  )
  figures["seconds"] += time.process_time() - start
  start = time.process_time()
  ours = read_with_ours(book, options.books, gold.lines)
  figures["ours_seconds"] += time.process_time() - start
  for truth in truths:
    # 朔 may follow the pair.
    places = range(truth.position, truth.position + 2)
    found = [place for place in places if place in theirs]
    their_day = next((theirs[place] for place in found if theirs[place]), None)
    our_day = ours.get(truth.position)
    it, we = their_day == truth.day, our_day == truth.day
    decided = their_day is not None and our_day is not None
    figures["dates"] += 1
    figures["found"] += bool(found)
    figures["resolved"] += their_day is not None
    figures["right"] += it
    figures["ours"] += our_day is not None
    figures["ours_right"] += we
    figures["alike"] += decided and their_day == our_day
    figures["ours_alone"] += decided and we and not it
    figures["sanmiao_alone"] += decided and it and not we


if __name__ == "__main__":
  main()
