"""Summary of a dated chronicle: what was read, how sure its dates are."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ctd_jax.dating.chronicle.chronicle_dates import (
  CERTAIN,
  DOUBTFUL,
  ChronicleDates,
  format_span,
)
from ctd_jax.dating.chronicle_output.date_tables import format_month
from ctd_jax.dating.chronicle_output.dated_sections import DatedSection

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
  "year": "years",
  "common year": "years of the common era",
  "cycle": "years of the cycle",
  "era": "eras without a year",
  "unknown era": "eras that the calendar lacks",
}


def format_summary(
  dates: ChronicleDates, rows: Sequence[DatedSection], reading: str = ""
) -> str:
  """Returns what was read and how sure the dates are, in aligned lines.

  Args:
    dates: of the sections.
    rows: of the same sections.
    reading: what was read and left out, in words; no line if empty.
  """
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
      f"{_count(num_outside, 'section')} of no month of the calendar",
    ),
    ("given", _count(num_fixed, "section") if num_fixed else ""),
    ("contradicted", _describe_contradictions(rows)),
    *(("warning", warning) for warning in dates.warnings),
  ]
  return "\n".join(
    f"{name:<{_LABEL_WIDTH}}{value}" for name, value in lines if value
  )


def _describe_contradictions(rows: Sequence[DatedSection]) -> str:
  """Returns how many printed dates the result has not, and the first."""
  contradicted = [row for row in rows if row.contradicted]
  if not contradicted:
    return "no printed date"
  num_dates = sum(len(row.contradicted) for row in contradicted)
  examples = (
    f"{row.place.file}:{row.place.line} prints {', '.join(row.contradicted)}, "
    f"dated {format_month(row.months.month)} at {row.months.probability:.2f}"
    for row in contradicted[:_NUM_EXAMPLES]
  )
  separator = "\n" + " " * _LABEL_WIDTH
  return separator.join(
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
