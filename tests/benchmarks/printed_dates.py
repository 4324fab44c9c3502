"""500 dates as books print them, converted and compared with a reading by eye.

  python -m tests.benchmarks.printed_dates [--all] [--rows=FILE]

printed_dates.tsv has the dates, drawn at random (seed 40) from 25 books by
patterns that know nothing of the product, the calendars they were read in, and
the days that a reader with the page before him gives: `-` if the date alone
says none, `*` if it says too little to choose, `?` and the year if the calendar
has none of it. Rows are right if the first reading has those days and none
without contradictions has others; `ambiguous` if they are those of another
reading, or the whole year, which a note gives, of an era that began within it.
"""

import argparse
import collections
import csv
import pathlib
import time

from ctd_jax.chronology import date_readings
from tests.benchmarks import result_rows

TABLE = pathlib.Path(__file__).with_name("printed_dates.tsv")
KINDS = ("right", "ambiguous", "unread", "wrong")


def judge(text: str, calendars: str, days: str) -> str:
  """Returns the kind of a date, one of `KINDS`."""
  try:
    readings = date_readings.parse_date(text, calendars)
  except ValueError:
    return KINDS[2]
  first, *others = readings
  found = {it.edtf for it in readings} | {
    dict(note.values).get("days") for it in readings for note in it.assumptions
  }
  if days == "*" or days in found:
    is_alone = all(it.contradictions for it in others)
    return KINDS[0 if first.edtf == days and is_alone else 1]
  return KINDS[3]


def main() -> None:
  """Prints how many dates of each book are of each kind, and those wrong."""
  parser = argparse.ArgumentParser(description=__doc__)
  parser.add_argument("--all", action="store_true", help="print every date")
  parser.add_argument("--rows", type=pathlib.Path, help="file of result rows")
  options = parser.parse_args()
  start = time.process_time()
  counts: dict[str, collections.Counter] = {}
  with TABLE.open(encoding="utf-8") as file:
    for row in csv.DictReader(file, delimiter="\t"):
      kind = judge(row["date"], row["calendars"], row["days"])
      counts.setdefault(row["book"], collections.Counter())[kind] += 1
      if options.all or kind == KINDS[3]:
        print(kind, *row.values(), sep="\t")
  counts["all"] = sum(counts.values(), collections.Counter())
  about = result_rows.describe_run("printed_dates", time.process_time() - start)
  rows = []
  for book, kinds in counts.items():
    figures = {"dates": kinds.total()} | {kind: kinds[kind] for kind in KINDS}
    rows += result_rows.make_test_rows(
      about, "conversions", book, "printed", figures
    )
  result_rows.print_rows(rows)
  result_rows.write_rows(options.rows, rows)


if __name__ == "__main__":
  main()
