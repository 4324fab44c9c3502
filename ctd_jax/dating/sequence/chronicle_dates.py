"""Dates of a chronicle: records with their months, as a table and a summary.

Axes: n records, m months given for each: the most probable and the next.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Int

from ctd_jax.chronology import reign_tables
from ctd_jax.dating.sequence.month_calendar import Calendar

COLUMNS = (
  "line",
  "reign",
  "year",
  "month",
  "common_era",
  "probability",
  "second",
  "second_probability",
  "text",
)
MAX_TEXT_CHARS = 20  # of a record in dates.tsv
# Bounds of the summary: a date is certain from the one, doubtful below the
# other.
_CERTAIN, _DOUBTFUL = 0.9, 0.5


@dataclasses.dataclass(frozen=True)
class ChronicleDates:
  """The records of a chronicle with their months.

  Attributes:
    lines: number of each record's first line, from 1, [n].
    texts: the records, [n].
    months: ordinals of the most probable month and the next; a calendar of one
      month has no next.
    probabilities: of these months.
    calendar: names the ordinals.
    statement_counts: how often a month, a season, ... is printed.
    printed_reigns: rows of the reigns that the text names.
  """

  lines: list[int]
  texts: list[str]
  months: Int[np.ndarray, "n m"]
  probabilities: Float[np.ndarray, "n m"]
  calendar: Calendar
  statement_counts: dict[str, int]
  printed_reigns: frozenset[int] = frozenset()

  def name_month(self, ordinal: int | np.integer) -> tuple[str, int, str]:
    """Returns reign, regnal year and month, as the text would say it."""
    return self.calendar.name_month(ordinal, self.printed_reigns)


def format_dates_tsv(dates: ChronicleDates) -> str:
  """Returns a table of COLUMNS, a line for each record, tab-separated."""
  rows = ["\t".join(COLUMNS)]
  for line, text, months, chances in zip(
    dates.lines, dates.texts, dates.months, dates.probabilities, strict=True
  ):
    reign, year, month = dates.name_month(months[0])
    era = reign_tables.format_common_era_year(
      int(dates.calendar.years[months[0]])
    )
    # A table of one month has no second.
    second = "".join(
      f"{second_reign}{second_year}年{second_month}月"
      for second_reign, second_year, second_month in map(
        dates.name_month, months[1:]
      )
    )
    cells = (
      *(line, reign, year, month, era, f"{chances[0]:.4f}", second),
      "".join(f"{chance:.4f}" for chance in chances[1:]),
      " ".join(text[:MAX_TEXT_CHARS].split()),
    )
    rows.append("\t".join(map(str, cells)))
  return "\n".join(rows) + "\n"


def format_summary(dates: ChronicleDates, table_name: str) -> str:
  """Returns what was read and how sure the dates are, in aligned lines."""
  calendar, chances = dates.calendar, dates.probabilities[:, 0]
  years = calendar.years
  dated_years = years[dates.months[:, 0]]
  least_certain = int(np.argmin(chances))
  reign, year, month = dates.name_month(dates.months[least_certain, 0])
  printed_counts = ", ".join(
    f"{name} {count}" for name, count in sorted(dates.statement_counts.items())
  )
  computed_unit = "new moons" if calendar.day_spans is None else "days"
  rows = {
    "records": f"{len(chances)}",
    "they print": printed_counts,
    "calendar": f"{table_name}: {format_span(years)}, {len(calendar)} months, "
    f"{computed_unit} computed",
    "dated": format_span(dated_years),
    "certainty": f"{np.mean(chances >= _CERTAIN):.1%} of records at {_CERTAIN} "
    f"or more, {np.mean(chances < _DOUBTFUL):.1%} below {_DOUBTFUL}",
    "least sure": f"line {dates.lines[least_certain]}, "
    f"{reign}{year}年{month}月 at {chances[least_certain]:.2f}",
  }
  return "\n".join(f"{name:<11} {value}" for name, value in rows.items())


def format_span(years: Sequence[int] | np.ndarray) -> str:
  """Returns the first and last year, as in "300 CE to 329 CE"."""
  first, last = (
    reign_tables.format_common_era_year(int(year))
    for year in (min(years), max(years))
  )
  return f"{first} to {last}"
