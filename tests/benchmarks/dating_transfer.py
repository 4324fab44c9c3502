"""資治通鑑 dated without its year headings: the order decoder and the scan.

Every paragraph of the punctuated edition, which has lost the headings, gets a
month from its text and its place; what is right is what the other edition
prints (see `ctd_jax_datasets.zztj.audit`, whose counts and scan these are).
The decoder is not fitted to this book: its motion is learned from the path it
finds, the chances of misprints are those of `chronicle`.

What a reading may see, beside the text of the entries:

  order   nothing: any of the 282 years of the table may be the first
  cues    the first year of the part, once, and neither days nor eras; as much
          as the scan sees in its reading `start`
  start, title: the scan

  python -m tests.benchmarks.dating_transfer --sources=DIR
"""

from __future__ import annotations

import dataclasses
import pathlib
import resource
import time
from collections.abc import Sequence

import numpy as np

from ctd_jax.chronology import reign_tables
from ctd_jax.dating.chronicle import (
  chronicle_dating,
  emissions,
  month_calendar,
  section_reading,
)
from ctd_jax.dating.chronicle.printed_dates import DAY_STATEMENTS
from ctd_jax_datasets.common import source_files
from ctd_jax_datasets.common.errors import SourceError
from ctd_jax_datasets.zztj import audit, gallery

# Reading -> (what is not read of the text, whether the first year is given).
READINGS = {
  "order": ((), False),
  "cues": ((*DAY_STATEMENTS, "era", "leap"), True),
}


def decoded_months(
  paragraphs: Sequence[audit.DatedParagraph],
  calendar: month_calendar.Calendar,
  without: Sequence[str],
  first_year: int | None,
) -> tuple[list[tuple[int, int]], np.ndarray, int]:
  """Returns (astronomical year, month) of each paragraph, how sure it is, and
  the number of sections.

  Args:
    paragraphs: in order; only the text is read.
    calendar: months that they can stand in.
    without: names of `emissions.LOG_ERROR_ODDS` that are not read.
    first_year: of the first paragraph, None if any.
  """
  sections = [
    dataclasses.replace(
      section,
      statements=tuple(s for s in section.statements if s[0] not in without),
    )
    for number, paragraph in enumerate(paragraphs)
    for section in section_reading.read_sections(
      number, paragraph.text, calendar
    )
  ]
  evidence = emissions.RecordEmissions(sections, calendar)
  if evidence.statement_counts["year"] or evidence.statement_counts["cycle"]:
    raise SourceError("a paragraph prints a year; the headings should be gone")
  decoded = chronicle_dating.decode_sections(evidence, calendar, first_year)
  months = decoded.months[evidence.first_sections, 0]
  keys = zip(calendar.years[months], calendar.months[months], strict=True)
  return (
    [(int(year), int(month)) for year, month in keys],
    decoded.probabilities[evidence.first_sections, 0],
    len(sections),
  )


def reliability(
  paragraphs: Sequence[audit.DatedParagraph],
  keys: Sequence[tuple[int, int]],
  chances: np.ndarray,
) -> str:
  """Returns how often months are right, by how sure the decoder is of them."""
  dated = [i for i, p in enumerate(paragraphs) if p.month is not None]
  right = np.array(
    [(paragraphs[i].year, paragraphs[i].month) == keys[i] for i in dated]
  )
  sure = chances[dated]
  parts = []
  for low, high in ((0, 0.5), (0.5, 0.9), (0.9, 0.99), (0.99, 1.01)):
    chosen = (sure >= low) & (sure < high)
    if chosen.any():
      parts.append(
        f"{low:g}-{min(high, 1):g}: {right[chosen].mean():.1%} of "
        f"{chosen.sum()}"
      )
  return ", ".join(parts)


def main(folder: pathlib.Path) -> None:
  """Prints how often decoder, scan and print agree."""
  known = source_files.read_file_infos(gallery.CHECKSUMS)
  files = source_files.check_folder_files(folder, known)
  timeline = reign_tables.load_timeline(gallery.TIMELINE_NAME)
  juans = list(gallery.collate_editions(files, timeline))
  titles = audit.title_years(juans, timeline)
  everything = audit.extract_dated_paragraphs(juans, timeline)
  table = reign_tables.reign_table_dir() / f"{gallery.TIMELINE_NAME}.tsv"
  calendar = month_calendar.read_calendar(table)
  for part, (first, last) in audit.SECTIONS.items():
    paragraphs = [p for p in everything if first <= p.juan <= last]
    rows = []
    for reading in (audit.START, audit.TITLE):
      keys = audit.scan_months(paragraphs, titles, reading)
      rows.append((reading, audit.count_agreement(paragraphs, keys)))
    notes = []
    for reading, (without, started) in READINGS.items():
      begun = time.time()
      keys, chances, sections = decoded_months(
        paragraphs,
        calendar,
        without,
        paragraphs[0].year if started else None,
      )
      rows.append((reading, audit.count_agreement(paragraphs, keys)))
      notes.append(
        f"  {reading}: {sections} sections in {time.time() - begun:.0f} s; "
        f"month right at {reliability(paragraphs, keys, chances)}"
      )
    counted = [{"part": part, "reading": r, "agreement": a} for r, a in rows]
    shown = audit.format_audit(
      {"titles": {"juan": 0, "agree": 0}, "rows": counted}
    )
    print("\n".join([*shown.split("\n")[1:], *notes]), flush=True)
  used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
  print(f"peak memory {used:.0f} MB")


if __name__ == "__main__":
  source_files.run_on_sources(main)
