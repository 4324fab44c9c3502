"""Dating under all calendars: the narrowed calendar against the whole one.

  python -m tests.benchmarks.narrowed_calendar --outside=DIR --records=10000

The first records of a text of `tests.benchmarks.chronicle_texts` are dated with
`--reigns=all` twice, in a process each: as a user's run does, and with every
month of the three countries in the decoder. Printed are months of the
calendar, seconds of the wall and of the processor, peak memory, and how often
both give a section the same month.
"""

from __future__ import annotations

import argparse
import multiprocessing
import pathlib
import resource
import time

from tests.benchmarks import chronicle_texts


def date_records(
  folders: dict[str, pathlib.Path | None],
  text: str,
  num_records: int,
  is_narrowed: bool,
) -> tuple[list[tuple], dict[str, float]]:
  """Returns the name of each section's month, and what they cost."""
  from ctd_jax.dating.chronicle import (
    calendar_narrowing,
    chronicle_dating,
    chronicle_input,
  )

  gold = chronicle_texts.read_gold(text, folders)
  entries = [record.entry for record in gold.records[:num_records]]
  calendar = chronicle_input.load_reigns("all")
  if not is_narrowed:
    calendar_narrowing.MIN_MONTHS = len(calendar)
  start, start_processor = time.perf_counter(), time.process_time()
  dates = chronicle_dating.date_records(entries, calendar)
  cost = {
    "sections": len(dates),
    "months": len(dates.calendar),
    "seconds": time.perf_counter() - start,
    "processor": time.process_time() - start_processor,
    "MiB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
  }
  first_days = [*dates.calendar.day_spans[:, 0].tolist(), None]
  return [first_days[month] for month in dates.months[:, 0]], cost


def main() -> None:
  """Prints both costs and the agreement."""
  parser = argparse.ArgumentParser(
    description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
  )
  parser.add_argument("--text", default="changbian")
  parser.add_argument("--records", type=int, default=10000)
  parser.add_argument("--sources", type=pathlib.Path)
  parser.add_argument("--outside", type=pathlib.Path)
  flags = parser.parse_args()
  folders = {
    "sources": flags.sources,
    "outside": flags.outside,
    "complete": None,
  }
  months = {}
  for is_narrowed in (True, False):
    with multiprocessing.get_context("spawn").Pool(1) as pool:
      months[is_narrowed], cost = pool.apply(
        date_records, (folders, flags.text, flags.records, is_narrowed)
      )
    cells = "  ".join(f"{name} {value:,.0f}" for name, value in cost.items())
    print(f"{'narrowed' if is_narrowed else 'whole':<9} {cells}", flush=True)
  pairs = list(zip(months[True], months[False], strict=True))
  agreement = sum(a == b for a, b in pairs) / len(pairs)
  print(f"the same month in {agreement:.4f} of the sections")


if __name__ == "__main__":
  main()
