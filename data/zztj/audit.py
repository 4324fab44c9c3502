"""Compares the scan's dates with year headings that the scanner did not see.

The scanner was written for the Annals. Its accuracy on a chronicle that nobody
tuned it for can be measured if one edition prints the years and another has
lost them: the punctuated edition is scanned without its headings, then collated
with the edition that prints them.

  python -m ctd_jax_datasets.zztj.audit --sources=DIR

The reading modes differ in what they know besides the text of the entries:

  start   the first year of the part, once
  title   the title of every juan, 「起旃蒙作噩」: its first year
  annals  the same as title, but with the scanner of the Annals as it is: a new
          year must be named, and in this text none is

The true year is that of the printed heading, over all paragraphs. A month is
known only where the print opens an entry with one (「二月」, not a season or
閏月); there month and whole key are compared. Segments cut inside a paragraph
have no counterpart in a print without punctuation and are not compared.
"""

import pathlib
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from absl import app, flags

from ctd_jax.chronology import annals, reigns, sexagenary
from ctd_jax.chronology.reigns import Timeline
from ctd_jax_datasets.common import source_files
from ctd_jax_datasets.common.source_files import SourceError
from ctd_jax_datasets.zztj import gallery

# Annals of one dynasty -> (first juan, last juan).
SECTIONS = {
  "魏紀": (69, 78),
  "晉紀": (79, 118),
  "宋紀": (119, 134),
  "齊紀": (135, 144),
}
START, TITLE, ANNALS = READING_MODES = ("start", "title", "annals")


class DatedParagraph(NamedTuple):
  """A paragraph with its date according to the print."""

  text: str  # punctuated, without any year heading
  juan: int
  year: int  # astronomical year of the printed heading it is under
  month: int | None  # with which the print opens the entry, None if with none


def extract_dated_paragraphs(
  juans: Iterable[gallery.CollatedJuan], timeline: Timeline
) -> list[DatedParagraph]:
  """Returns the paragraphs of the annals with the dates of the print."""
  paragraphs = []
  for juan in juans:
    # Editions may differ in a character or two before the date.
    openings = {
      int(juan.text_positions[position]) + shift: month
      for shift in (-1, 1, 0)
      for position, month in juan.printed_juan.month_openings
    }
    for entry, start, year in zip(
      juan.punctuated_juan.entries,
      juan.entry_starts,
      juan.entry_years,
      strict=False,
    ):
      if not entry.is_remark:
        printed_year = reigns.astronomical_year_of(timeline, year)
        month = openings.get(start)
        paragraphs.append(
          DatedParagraph(entry.text, juan.number, printed_year, month)
        )
  return paragraphs


def scan_months(
  paragraphs: Sequence[DatedParagraph],
  titles: Mapping[int, int],
  reading_mode: str,
) -> list[tuple[int, int]]:
  """Returns (astronomical year, month) that the scan gives each paragraph.

  `titles` is juan -> its first year, `reading_mode` one of `READING_MODES`.
  """
  scanner: annals.MonthScanner
  if reading_mode == ANNALS:
    scanner = annals.MonthScanner()
  else:
    scanner = gallery.ChronicleScanner(counts_years=True)
  scanner.enter_reign(1)
  juan = None
  scanned_months = []
  for paragraph in paragraphs:
    if paragraph.juan != juan and (juan is None or reading_mode != START):
      # Reset, so that entering works even if a wrong count is at this year.
      scanner.year = 0
      scanner.enter_year(titles[paragraph.juan])
    juan = paragraph.juan
    dated_segments = (
      annals.split_entry_by_month(paragraph.text, scanner)
      if reading_mode == ANNALS
      else gallery.date_entry(paragraph.text, scanner)
    )
    key = dated_segments[0][1]
    scanned_months.append((key.year, key.month))
  return scanned_months


def count_agreement(
  paragraphs: Sequence[DatedParagraph],
  scanned_months: Sequence[tuple[int, int]],
) -> dict[str, tuple[int, int]]:
  """Returns measure -> (number that agree, number compared).

  `year` over all paragraphs; `month` and `exact`, both at once, over those
  that the print opens with a month.
  """
  pairs = [
    ((paragraph.year, paragraph.month), key)
    for paragraph, key in zip(paragraphs, scanned_months, strict=True)
  ]
  month_pairs = [pair for pair in pairs if pair[0][1] is not None]
  return {
    "year": (sum(a[0] == b[0] for a, b in pairs), len(pairs)),
    "month": (sum(a[1] == b[1] for a, b in month_pairs), len(month_pairs)),
    "exact": (sum(a == b for a, b in month_pairs), len(month_pairs)),
  }


def title_years(
  juans: Sequence[gallery.CollatedJuan], timeline: Timeline
) -> dict[int, int]:
  """Returns juan -> its first year, from the juan's title alone.

  Sexagenary names come round every sixty years; that of the first juan is
  taken as the first of the timeline, each other as the next after it.
  """
  years, first_year = {}, timeline.reigns[0].accession
  end_year = timeline.reigns[-1].accession + timeline.reigns[-1].years
  for juan in juans:
    if juan.punctuated_juan.first_sexagenary is not None:
      first_year = sexagenary.years_with_cyclic_index(
        juan.punctuated_juan.first_sexagenary, first_year, end_year + 60
      )[0]
    years[juan.number] = first_year
    first_year += juan.punctuated_juan.num_years or 1
  return years


def audit_scan(
  files: Mapping[str, pathlib.Path],
) -> dict[str, Any]:
  """Returns the counts of every part and reading, ready for JSON.

  `titles` counts the juan, and those with the first year and the number of
  years of their printed headings; `rows` have part, reading and `agreement`.
  """
  timeline = reigns.load_timeline(gallery.TIMELINE_NAME)
  juans = list(gallery.collate_editions(files, timeline))
  titles = title_years(juans, timeline)
  num_agreeing = sum(
    juan.punctuated_juan.first_sexagenary is not None
    and titles[juan.number]
    == reigns.astronomical_year_of(
      timeline, juan.printed_juan.year_headings[0][1]
    )
    and juan.punctuated_juan.num_years == len(juan.printed_juan.year_headings)
    for juan in juans
  )
  paragraphs = extract_dated_paragraphs(juans, timeline)
  rows = []
  for section, (first, last) in SECTIONS.items():
    section_paragraphs = [p for p in paragraphs if first <= p.juan <= last]
    for reading_mode in READING_MODES if section_paragraphs else ():
      scanned_months = scan_months(section_paragraphs, titles, reading_mode)
      rows.append(
        {
          "part": section,
          "reading": reading_mode,
          "agreement": count_agreement(section_paragraphs, scanned_months),
        }
      )
  return {"titles": {"juan": len(juans), "agree": num_agreeing}, "rows": rows}


def format_audit(audit_counts: Mapping[str, Any]) -> str:
  """Returns the counts of `audit_scan` as lines."""
  titles = audit_counts["titles"]
  lines = [
    f"juan whose title fits the printed year headings: {titles['agree']} of "
    f"{titles['juan']}"
  ]
  for row in audit_counts["rows"]:
    shares = [
      f"{name} {num_agreeing / max(total, 1):6.1%} ({num_agreeing}/{total})"
      for name, (num_agreeing, total) in row["agreement"].items()
    ]
    lines.append(f"{row['part']} {row['reading']:<6}  {'  '.join(shares)}")
  return "\n".join(lines)


def main(argv: Sequence[str]) -> None:
  """Prints how often scan and print agree."""
  if len(argv) != 1:
    raise app.UsageError("no arguments, only --sources")
  try:
    folder = source_files.resolve_sources_folder(flags.FLAGS.sources, True)
    file_infos = source_files.read_file_infos(gallery.CHECKSUMS)
    files = source_files.check_folder_files(folder, file_infos)
    print(format_audit(audit_scan(files)))
  except SourceError as error:
    sys.exit(f"error: {error}")


if __name__ == "__main__":
  flags.DEFINE_string(
    "sources",
    None,
    "Folder of the source texts; the default is the environment variable "
    f"{source_files.ENVIRONMENT_VARIABLE}. Example: --sources=corpus/raw",
  )
  app.run(main)
