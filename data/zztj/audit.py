"""How often the scan agrees with year headings that it has not read.

Why: the scanner was written for the Annals; whether it dates a chronicle that
nobody tuned it to can be counted where one edition prints the years and
another has lost them. The punctuated edition is scanned without its headings,
then collated with the edition that prints them. Run by people:

  python -m ctd_jax_datasets.zztj.audit --sources=DIR

What a reading may see, beside the text of the entries:

  start   the first year of the part, once
  title   what every juan says of itself, 「起旃蒙作噩」: its first year
  annals  the same, but with the scanner of the Annals as it is: a new year
          must be named, and here none is

What it is compared with: the year is that of the printed heading, over all
paragraphs. A month is only known where the print opens an entry with one
(「二月」, not a season or 閏月); there month and whole key are compared. Parts
cut inside a paragraph have no counterpart in a print without punctuation.
"""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ctd_jax.chronology import annals, reign_tables, sexagenary
from ctd_jax.chronology.timelines import Timeline
from ctd_jax_datasets.chunqiutr import fetch
from ctd_jax_datasets.zztj import records, scan

PARTS = {
  "魏紀": (69, 78),
  "晉紀": (79, 118),
  "宋紀": (119, 134),
  "齊紀": (135, 144),
}
START, TITLE, ANNALS = READINGS = ("start", "title", "annals")


@dataclasses.dataclass(frozen=True)
class Dated:
  """A paragraph with what the print says of its date.

  Attributes:
    text: punctuated, without any year heading.
    juan: number.
    year: astronomical year of the printed heading it stands under.
    month: with which the print opens the entry, None if with none.
  """

  text: str
  juan: int
  year: int
  month: int | None


def printed_dates(
  juans: Iterable[records.Collated], timeline: Timeline
) -> list[Dated]:
  """Returns the paragraphs of the annals with the dates of the print."""
  found = []
  for juan in juans:
    # Editions may differ in a character or two before the date.
    openings = {
      int(juan.places[position]) + shift: month
      for shift in (-1, 1, 0)
      for position, month in juan.printed.openings
    }
    for entry, start, year in zip(
      juan.juan.entries, juan.starts, juan.years, strict=False
    ):
      if not entry.remark:
        headed = reign_tables.year_of(timeline, year)
        month = openings.get(start)
        found.append(Dated(entry.text, juan.name, headed, month))
  return found


def scan_months(
  paragraphs: Sequence[Dated], titles: Mapping[int, int], reading: str
) -> list[tuple[int, int]]:
  """Returns (astronomical year, month) that the scan gives each paragraph.

  Args:
    paragraphs: of consecutive juan; only text and juan are read.
    titles: juan -> its first year.
    reading: one of `READINGS`.
  """
  scanner: annals.Scanner
  if reading == ANNALS:
    scanner = annals.Scanner()
  else:
    scanner = scan.ChronicleScanner(counts_years=True)
  scanner.enter_reign(1)
  juan = None
  found = []
  for paragraph in paragraphs:
    if paragraph.juan != juan and (juan is None or reading != START):
      scanner.year = 0  # even if a wrong count stands at this year already
      scanner.enter_year(titles[paragraph.juan])
    juan = paragraph.juan
    dated = (
      annals.split_entry(paragraph.text, scanner)
      if reading == ANNALS
      else scan.date_entry(paragraph.text, scanner)
    )
    key = dated[0][1]
    found.append((key.year, key.month))
  return found


def agreement(
  paragraphs: Sequence[Dated], scanned: Sequence[tuple[int, int]]
) -> dict[str, tuple[int, int]]:
  """Returns what is compared -> (agreeing, all).

  `year` over all paragraphs; `month` and `exact`, both at once, over those
  that the print opens with a month.
  """
  pairs = list(zip(paragraphs, scanned, strict=True))
  dated = [pair for pair in pairs if pair[0].month is not None]
  return {
    "year": (
      sum(printed.year == year for printed, (year, _) in pairs),
      len(pairs),
    ),
    "month": (
      sum(printed.month == month for printed, (_, month) in dated),
      len(dated),
    ),
    "exact": (
      sum((printed.year, printed.month) == key for printed, key in dated),
      len(dated),
    ),
  }


def title_years(
  juans: Sequence[records.Collated], timeline: Timeline
) -> dict[int, int]:
  """Returns juan -> its first year, from the juan's title alone.

  Sexagenary names come round every sixty years; that of the first juan is
  taken as the first of the timeline, each other as the next after it.
  """
  years, after = {}, timeline.reigns[0].accession
  last = timeline.reigns[-1].accession + timeline.reigns[-1].years
  for juan in juans:
    if juan.juan.first is not None:
      after = sexagenary.years_named(juan.juan.first, after, last + 60)[0]
    years[juan.name] = after
    after += juan.juan.years or 1
  return years


def audit(
  files: Mapping[str, pathlib.Path],
) -> dict[str, Any]:
  """Returns the counts of every part and reading, ready for JSON.

  Returns:
    `titles`: juan, and how many of them have the first year and the number of
    years that their printed headings give; `rows`: part, reading and
    `agreement`.

  Raises:
    SourceError: if a file is not what its parser expects.
  """
  timeline = reign_tables.timeline(records.TIMELINE)
  juans = list(records.collate(files, timeline))
  titles = title_years(juans, timeline)
  fitting = sum(
    juan.juan.first is not None
    and titles[juan.name]
    == reign_tables.year_of(timeline, juan.printed.years[0][1])
    and juan.juan.years == len(juan.printed.years)
    for juan in juans
  )
  paragraphs = printed_dates(juans, timeline)
  rows = []
  for part, (first, last) in PARTS.items():
    chosen = [p for p in paragraphs if first <= p.juan <= last]
    for reading in READINGS if chosen else ():
      scanned = scan_months(chosen, titles, reading)
      rows.append(
        {
          "part": part,
          "reading": reading,
          "agreement": agreement(chosen, scanned),
        }
      )
  return {"titles": {"juan": len(juans), "agree": fitting}, "rows": rows}


def text(counted: Mapping[str, Any]) -> str:
  """Returns the counts of `audit` as lines."""
  titles = counted["titles"]
  lines = [
    f"juan whose title fits the printed year headings: {titles['agree']} of "
    f"{titles['juan']}"
  ]
  for row in counted["rows"]:
    shares = [
      f"{name} {agreeing / max(total, 1):6.1%} ({agreeing}/{total})"
      for name, (agreeing, total) in row["agreement"].items()
    ]
    lines.append(f"{row['part']} {row['reading']:<6}  {'  '.join(shares)}")
  return "\n".join(lines)


def main(folder: pathlib.Path) -> None:
  """Prints how often scan and print agree.

  Args:
    folder: of source texts.
  """
  known = fetch.known_files(records.CHECKSUMS)
  files = fetch.files_of_folder(folder, known)
  print(text(audit(files)))


if __name__ == "__main__":
  fetch.run_on_sources(main)
