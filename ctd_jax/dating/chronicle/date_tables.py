"""Tables of a dated chronicle: TSV, CSV and JSON Lines, one row per section.

TSV quotes nothing: tabs and line breaks in a text become spaces. JSON Lines
has all fields of `DatedSection` in a flat object.
"""

import calendar
import os
import re
from collections.abc import Iterable, Sequence

import msgspec
import numpy as np

from ctd_jax.chronology import reigns
from ctd_jax.dating.chronicle import western
from ctd_jax.dating.chronicle.chronicle_dates import (
  CERTAIN,
  DOUBTFUL,
  ChronicleDates,
  format_span,
)
from ctd_jax.dating.chronicle.dated_sections import DatedSection, NamedMonth
from ctd_jax.utils import files, output
from ctd_jax.utils.notes import Note

COLUMNS = (
  "file",
  "line",
  "record",
  "start",
  "stop",
  "heading",
  "printed",
  "reign",
  "year",
  "month",
  "leap_month",
  "astronomical_year",
  "common_era",
  "precision",
  "not_before",
  "not_after",
  "not_before_julian",
  "not_after_julian",
  "first_julian_day",
  "last_julian_day",
  "day_of_month",
  "sexagenary_day",
  "julian_day",
  "gregorian_date",
  "julian_date",
  "edtf",
  "probability",
  "second",
  "second_probability",
  "outside",
  "fixed",
  "contradicted",
  "text",
)
# Whatever some reader of lines takes for the end of one, and the tab.
_SEPARATORS = re.compile("[\t\n\v\f\r\x1c-\x1e\x85\u2028\u2029]")


def format_dates_tsv(rows: Iterable[DatedSection]) -> str:
  """Returns a table of `COLUMNS`, tab-separated, nothing quoted."""
  lines = (
    [_SEPARATORS.sub(" ", cell) for cell in _list_cells(row)] for row in rows
  )
  return output.format_delimited(COLUMNS, lines, quoted=False)


def format_dates_csv(rows: Iterable[DatedSection], bom: bool = False) -> str:
  """Returns a table of `COLUMNS` as CSV, with `bom` for some spreadsheets."""
  table = output.format_delimited(COLUMNS, map(_list_cells, rows), ",")
  return output.BYTE_ORDER_MARK * bom + table


def format_dates_jsonl(rows: Iterable[DatedSection]) -> str:
  """Returns an object for each section, a line each."""
  # JSON escapes \n; U+2028 and the like end no line of a file.
  encoder = msgspec.json.Encoder()
  return "".join(
    encoder.encode(row.to_object()).decode() + "\n" for row in rows
  )


def read_dates_jsonl(path: str | os.PathLike) -> list[DatedSection]:
  """Returns the rows of a file that `format_dates_jsonl` made.

  Raises:
    FileNotFoundError: if the file does not exist.
    ValueError: if a line is not a dated section; the message names file and
      line.
  """
  decoder = msgspec.json.Decoder(dict)
  rows = []
  for line, text in enumerate(files.read_text(path).split("\n"), start=1):
    if not text.strip():
      continue
    try:
      rows.append(DatedSection.from_object(decoder.decode(text)))
    except msgspec.MsgspecError as error:
      raise ValueError(
        f"{path}, line {line}: {error}; expected a section as "
        "`ctd-jax date` writes it to dates.jsonl"
      ) from error
  return rows


def format_month(month: NamedMonth | None) -> str:
  """Returns a month as people write it, 晉懷帝永嘉5年6L月 or March 787 CE."""
  if month is None:
    return ""
  if month.reign in western.ERAS:
    era_year = reigns.format_common_era_year(month.common_era_year)
    return f"{calendar.month_name[month.month]} {era_year}"
  return f"{month.reign}{month.year}年{month.month}{'L' * month.is_leap}月"


def _list_cells(row: DatedSection) -> list[str]:
  """Returns the cells of `COLUMNS`."""
  place, months = row.place, row.months
  month = months.month
  cells = (
    *(place.file, place.line, place.record, place.start, place.stop),
    *(int(row.is_heading), row.printed),
    *(
      (None,) * 5
      if month is None
      else (
        *(month.reign, month.year, month.month, int(month.is_leap)),
        month.common_era_year,
      )
    ),
    months.common_era,
    *row.dates.list_fields().values(),
    *(_format_chance(months.probability), format_month(months.second)),
    *(months.second and _format_chance(months.second.probability),),
    *(_format_chance(months.outside), int(row.is_fixed)),
    *("; ".join(row.contradicted), row.text),
  )
  return ["" if cell is None else str(cell) for cell in cells]


def _format_chance(chance: float | None) -> str:
  return "" if chance is None else f"{chance:.4f}"


_NUM_EXAMPLES = 5  # of contradictions
_LABEL_WIDTH = 13
# What is counted of the print, by the names of `emissions.LOG_ERROR_ODDS`.
PRINTED_NAMES = {
  "month": "months",
  "doubtful month": "months that may be spoken of",
  "leap": "leap months",
  "season": "seasons",
  "months": "parts of years",
  "day": "days of the cycle",
  "first day": "first days of months",
  "last day": "last days of months",
  "month day": "numbered days",
  "numbered day": "numbered days with their pair",
  "year": "years",
  "common year": "years of the common era",
  "common days": "months or days of the common era",
  "cycle": "years of the cycle",
  "era": "eras without a year",
  "unknown era": "eras not in the calendar",
}


def format_summary(
  dates: ChronicleDates,
  rows: Sequence[DatedSection],
  warnings: Sequence[Note | str] = (),
  reading: str = "",
) -> str:
  """Returns a summary of the records read and the certainty of their dates."""
  calendar, chances = dates.calendar, dates.probabilities[:, 0]
  num_headings = sum(row.is_heading for row in rows)
  printed_counts = ", ".join(
    f"{PRINTED_NAMES[name]} {count:,}"
    for name, count in sorted(
      dates.statement_counts.items(), key=lambda item: -item[1]
    )
  )
  computed_unit = "new moons" if calendar.day_spans is None else "days"
  dated_years = [
    row.months.month.common_era_year for row in rows if row.months.month
  ]
  num_outside = len(rows) - len(dated_years)
  num_days = sum(row.dates.julian_day is not None for row in rows)
  least_certain = rows[int(np.argmin(chances))]
  num_fixed = int(dates.is_fixed.sum())
  lines = [
    ("read", reading),
    ("records", f"{len(dates.records):,}"),
    ("sections", f"{len(rows):,}, of which {num_headings:,} headings"),
    ("they print", printed_counts),
    (
      "calendar",
      f"{calendar.timeline.name}: {format_span(calendar.years)}, "
      f"{len(calendar):,} months, {computed_unit} known",
    ),
    ("dated", format_span(dated_years) if dated_years else "nothing"),
    (
      "certainty",
      f"{np.mean(chances >= CERTAIN):.1%} of sections at {CERTAIN} or more, "
      f"{np.mean(chances < DOUBTFUL):.1%} below {DOUBTFUL}",
    ),
    (
      "least sure",
      f"{least_certain.place.file}:{least_certain.place.line}, "
      f"{format_month(least_certain.months.month) or 'outside of the calendar'}"
      f" at {least_certain.months.probability:.2f}",
    ),
    ("days", f"{_count(num_days, 'section')} dated to the day"),
    (
      "outside",
      f"{_count(num_outside, 'section')} in no month of the calendar",
    ),
    ("given", _count(num_fixed, "section") if num_fixed else ""),
    ("contradicted", _describe_contradictions(rows)),
    *(("warning", warning) for warning in warnings),
  ]
  return "\n".join(
    f"{name:<{_LABEL_WIDTH}}{value}" for name, value in lines if value
  )


def _describe_contradictions(rows: Sequence[DatedSection]) -> str:
  """Returns the number of contradicted printed dates, and the first few."""
  contradicted = [row for row in rows if row.contradicted]
  if not contradicted:
    return "no printed date"
  num_dates = sum(len(row.contradicted) for row in contradicted)
  examples = (
    f"{row.place.file}:{row.place.line} prints {', '.join(row.contradicted)}, "
    f"dated {format_month(row.months.month)} at {row.months.probability:.2f}"
    for row in contradicted[:_NUM_EXAMPLES]
  )
  return ("\n" + " " * _LABEL_WIDTH).join(
    (
      f"{_count(num_dates, 'printed date')} of "
      f"{_count(len(contradicted), 'section')}"
      + ("; the first:" if len(contradicted) > _NUM_EXAMPLES else ":"),
      *examples,
    )
  )


def _count(number: int, noun: str) -> str:
  """Returns a number with its noun, "1 section", "2 sections"."""
  return f"{number:,} {noun}" + "s" * (number != 1)
