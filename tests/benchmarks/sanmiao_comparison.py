"""Days of the cycle in published annals: this dater beside sanmiao.

  pip install 'sanmiao==0.2.12'
  python -m tests.benchmarks.sanmiao_comparison --books=DIR --outside=DIR \\
    [--only=weishu,mingshi] [--juan=2] [--seed=0] [--rows=FILE]

Both read the same lines of a few juan, drawn with a seed; sanmiao's tables are
cut to the dynasty. The right days are those of `book_gold`. Of them it counts

  days       how many there are
  resolved   share for which a side gives one day
  agreed     share of the days resolved by a side that are right
  seconds    of a side

and prints the days that sanmiao has right and this dater has not.
"""

import argparse
import pathlib
import random
import shutil
import tempfile
import time
from collections.abc import Mapping, Sequence

import numpy as np

from ctd_jax.dating.chronicle import (
  chronicle_dating,
  chronicle_input,
  dated_sections,
)
from ctd_jax.evaluation import results
from tests.benchmarks import book_gold, books, result_rows, twenty_books

# Annals of one dynasty: name of a book -> sanmiao's names of the dynasty.
DYNASTIES: Mapping[str, tuple[str, ...]] = {
  "weishu": ("北魏", "東魏"),
  "jiutangshu": ("唐", "武周"),
  "xintangshu": ("唐", "武周"),
  "liaoshi": ("遼",),
  "jinshi": ("金",),
  "songshi": ("宋", "北宋", "南宋"),
  "yuanshi": ("元", "蒙古"),
  "mingshi": ("明",),
}
_MAX_HEAD = 16  # characters from the start of a date to its end


def draw_juan(
  files: Sequence[pathlib.Path], size: int, seed: int
) -> list[pathlib.Path]:
  """Returns files that follow one another, drawn with a seed."""
  start = random.Random(seed).randrange(max(len(files) - size, 0) + 1)
  return list(files[start : start + size])


def find_days(
  files: Sequence[pathlib.Path], reigns: str, lines: Sequence[str]
) -> tuple[dict[int, int], float]:
  """Returns position of a head in the lines -> its day here, and seconds.

  A position is the start of the section that the head opens.
  """
  with tempfile.TemporaryDirectory() as temporary:
    for file in files:
      shutil.copy(file, temporary)
    start_time = time.process_time()
    work = chronicle_input.read_chronicle(
      pathlib.Path(temporary), chronicle_input.LINE
    )
    records = chronicle_input.list_records(work)
    calendar = chronicle_input.load_reigns(reigns, records)
    rows = dated_sections.make_rows(
      chronicle_dating.date_records(records, calendar)
    )
    seconds = time.process_time() - start_time
  texts = [books.read_han(row.text) for row in rows]
  places = twenty_books.align(lines, "".join(texts))
  line_positions = {int(place): at for at, place in enumerate(places)}
  days = {}
  starts = np.cumsum([0, *map(len, texts)])[:-1].tolist()
  for row, start in zip(rows, starts, strict=True):
    day = row.dates.julian_day
    if day is not None and start in line_positions:
      days[line_positions[start]] = day
  return days, seconds


def find_sanmiao_days(
  text: str, names: Sequence[str], years: tuple[int, int]
) -> tuple[dict[int, int], float]:
  """Returns position of a date in a text -> the one day that it resolves to."""
  from sanmiao import bulk_processing, loaders, tagging, xml_utils

  eras, dynasties, rulers, *others = loaders.prepare_tables(civ=["c"])
  numbers = dynasties.dyn_id[dynasties.dyn_name.isin(names)]
  tables = (
    *(table[table.dyn_id.isin(numbers)] for table in (eras, dynasties, rulers)),
    *others,
  )
  start_time = time.process_time()
  tagged = tagging.consolidate_date(
    tagging.tag_date_elements(text, civ=["c"], fuzzy=False)
  )
  root = tagging.index_date_nodes(xml_utils.remove_lone_tags(tagged))
  positions = {}
  for node in root.iter("date"):
    before = node.xpath("preceding::text()")
    positions[int(node.get("index"))] = sum(map(len, before))
  _, found, *_ = bulk_processing.extract_date_table_bulk(
    root, civ=["c"], tables=tables, tpq=years[0], taq=years[1]
  )
  seconds = time.process_time() - start_time
  days = {}
  for index, group in found.groupby("date_index"):
    resolved = set(group.jdn.dropna())
    if len(resolved) == 1:
      # It counts days from midnight.
      days[positions[int(index)]] = int(resolved.pop() + 0.5)
  return days, seconds


def compare(
  name: str, folder: pathlib.Path, outside: pathlib.Path, size: int, seed: int
) -> dict[str, dict[str, float]]:
  """Returns side -> metric -> value of a book."""
  book = books.BOOKS[name]
  files = books.list_files(book, folder)
  right = book_gold.read_gold(book, folder, outside)
  drawn = draw_juan(files, size, seed)
  text = "".join(right.lines)
  lines = [
    line
    for file in drawn
    for line in map(books.read_han, books.read_raw_lines(file))
    if line
  ]
  drawn_text = "".join(lines)
  offset = text.index(drawn_text)
  truths = [
    truth
    for truth in right.truths
    if truth.day is not None
    and offset < truth.position <= offset + len(drawn_text)
  ]
  span = min(t.year for t in truths), max(t.year for t in truths)
  sides = {
    "ctd_jax": find_days(drawn, book.reigns, lines),
    "sanmiao": find_sanmiao_days(drawn_text, DYNASTIES[name], span),
  }
  given = {
    side: [_find_head(days, truth.position - offset) for truth in truths]
    for side, (days, _) in sides.items()
  }
  for truth, ours, theirs in zip(
    truths, given["ctd_jax"], given["sanmiao"], strict=True
  ):
    if theirs == truth.day != ours:
      head = text[truth.position - 12 : truth.position + 4]
      print(f"  sanmiao alone: {head!r} {truth.day}, here {ours}")
  return {
    side: {
      "days": len(truths),
      "resolved": np.mean([day is not None for day in given[side]]),
      "agreed": np.mean(
        [
          day == truth.day
          for day, truth in zip(given[side], truths, strict=True)
          if day is not None
        ]
      ),
      "seconds": seconds,
    }
    for side, (_, seconds) in sides.items()
  }


def _find_head(days: Mapping[int, int], end: int) -> int | None:
  """Returns the day of the date that ends at or just before a position."""
  for start in range(end - 1, max(end - _MAX_HEAD, -1), -1):
    if start in days:
      return days[start]
  return None


def main() -> None:
  """Compares on every book."""
  parser = argparse.ArgumentParser(
    description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
  )
  parser.add_argument("--books", type=pathlib.Path, required=True)
  parser.add_argument("--outside", type=pathlib.Path, required=True)
  parser.add_argument("--only", default=",".join(DYNASTIES))
  parser.add_argument("--juan", type=int, default=2, help="juan of a book")
  parser.add_argument("--seed", type=int, default=0)
  parser.add_argument("--rows", type=pathlib.Path, help="file of result rows")
  flags = parser.parse_args()
  rows: list[results.ResultRow] = []
  for name in flags.only.split(","):
    figures = compare(name, flags.books, flags.outside, flags.juan, flags.seed)
    of_book = []
    for side, values in figures.items():
      about = result_rows.describe_run("sanmiao_comparison", values["seconds"])
      of_book += [
        results.ResultRow(
          "books",
          name if side == "ctd_jax" else f"{name}-{side}",
          "T0+order",
          "posterior",
          "test",
          "days",
          books.BOOKS[name].kind,
          metric,
          float(value),
          **about,
        )
        for metric, value in values.items()
      ]
    result_rows.print_rows(of_book)
    rows += of_book
    result_rows.write_rows(flags.rows, rows)


if __name__ == "__main__":
  main()
