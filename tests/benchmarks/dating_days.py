"""Sexagenary days: the Annals and 左傳 dated without their headings.

Every entry of an edition gets a month from what it prints and from its place.
The first entry of a year prints the year; it is taken out, so that only order
and days can tell it. What is right is the year of the edition's numbering, and
the month to which the scan of the data set comes that knows these years.

What is left of the text:

  years     taken out: 「元年春王正月」 is 「春王正月」
  seasons   and taken out where a month follows: 「王正月」
  half      years taken out, and every second entry

Each is dated without and with its sexagenary days, and without and with the
year of its first entry. Nothing is fitted to these texts but the motion, which
is learned from the path.

  python -m tests.benchmarks.dating_days --sources=DIR
"""

from __future__ import annotations

import dataclasses
import pathlib
import time
from collections.abc import Sequence

import numpy as np

from ctd_jax.chronology import annals, date_expressions, reign_tables
from ctd_jax.chronology.timelines import Timeline
from ctd_jax.dating.chronicle import month_calendar
from ctd_jax.dating.chronicle.printed_dates import DAY_STATEMENTS
from ctd_jax_datasets.chunqiutr import base_texts
from ctd_jax_datasets.common import source_files
from ctd_jax_datasets.zztj import audit
from tests.benchmarks import dating_transfer

TIMELINE = "lu"
EDITION = "zuozhuan_KR1e0001"
WORKS = {"春秋": "A", "左傳": "B"}
YEARS, SEASONS, HALF = CUTS = ("years", "seasons", "half")
DAYS = {"no": DAY_STATEMENTS, "yes": ()}


def read_work(
  folder: pathlib.Path, layer: str, timeline: Timeline
) -> list[audit.DatedParagraph]:
  """Returns the entries of one layer of the edition with what is right.

  Raises:
    SourceError: if a file of the edition is missing or not as known.
  """
  known = {
    name: info
    for name, info in source_files.read_file_infos().items()
    if name.startswith(EDITION)
  }
  files = source_files.check_folder_files(folder, known)
  scanner = annals.MonthScanner()
  found = []
  for path in source_files.select_folder_files(files, EDITION):
    for entry in base_texts.parse_numbered_entries(path, {layer: layer})[0]:
      scanner.enter_reign(entry.reign)
      scanner.enter_year(entry.year)
      # An entry that goes on over months is of the first of them.
      key = annals.split_entry_by_month(entry.text, scanner)[0][1]
      year = reign_tables.astronomical_year_of(timeline, key)
      found.append(
        audit.DatedParagraph(entry.text, entry.reign, year, key.month)
      )
  return found


def cut(
  entries: Sequence[audit.DatedParagraph], timeline: Timeline, how: str
) -> list[audit.DatedParagraph]:
  """Returns what one of `CUTS` leaves of the entries."""
  kept = entries[::2] if how == HALF else entries
  return [
    dataclasses.replace(entry, text=_cut(entry.text, timeline, how == SEASONS))
    for entry in kept
  ]


def _cut(text: str, timeline: Timeline, seasons: bool) -> str:
  for cue in reversed(date_expressions.find_date_cues(text, timeline)):
    date = text[cue.start : cue.end]
    if cue.year is not None:
      date = date.partition("年")[2]
    if seasons and cue.season and cue.month:
      date = date.replace(cue.season, "", 1)
    text = text[: cue.start] + date.lstrip("，、") + text[cue.end :]
  return text.lstrip("，、")


def report(
  entries: Sequence[audit.DatedParagraph], calendar: month_calendar.Calendar
) -> list[str]:
  """Returns lines of the table: what agrees, with and without days."""
  lines = []
  for how in CUTS:
    left = cut(entries, calendar.timeline, how)
    for first in (None, left[0].year):
      for days, without in DAYS.items():
        begun = time.time()
        keys, chances, _ = dating_transfer.decoded_months(
          left, calendar, without, first
        )
        shares = [
          f"{agreeing / count:7.1%}"
          for name, (agreeing, count) in audit.count_agreement(
            left, keys
          ).items()
          if name in ("year", "exact")
        ]
        off = [
          abs(entry.year - year)
          for entry, (year, _) in zip(left, keys, strict=True)
        ]
        lines.append(
          f"  {how:<8} {len(left):>7}  {'yes' if first else 'no':<5} "
          f"{days:<4} {' '.join(shares)} {np.mean(off):9.2f} "
          f"{chances.mean():6.2f} {time.time() - begun:8.0f}"
        )
  return lines


def main(folder: pathlib.Path) -> None:
  """Prints the table of each work."""
  table = reign_tables.reign_table_dir() / f"{TIMELINE}.tsv"
  calendar = month_calendar.read_calendar(table)
  for name, layer in WORKS.items():
    entries = read_work(folder, layer, calendar.timeline)
    print(
      f"{name}\n  cut      entries  first days    year   exact years off "
      "chance  seconds",
      flush=True,
    )
    print("\n".join(report(entries, calendar)), flush=True)


if __name__ == "__main__":
  source_files.run_on_sources(main)
