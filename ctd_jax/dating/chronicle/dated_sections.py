"""Dated sections: all that is known about a section's date, as one row.

Every output format is made from these rows. Months are 1-12 with a leap mark,
years astronomical (0 = 1 BCE), days Julian day numbers.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import numpy as np

from ctd_jax.chronology import reigns, sexagenary
from ctd_jax.chronology.reigns import MONTHS_PER_SEASON, MONTHS_PER_YEAR
from ctd_jax.dating.chronicle import dating_warnings, western
from ctd_jax.dating.chronicle.calendar import Calendar
from ctd_jax.dating.chronicle.chronicle_dates import (
  CERTAIN,
  DOUBTFUL,
  ChronicleDates,
  DaySpan,
)

DAY, MONTH, SEASON, YEAR, INTERVAL = (
  "day",
  "month",
  "season",
  "year",
  "interval",
)


def find_precision(
  calendar: Calendar, spans: Sequence[DaySpan], months: Sequence[int]
) -> str | None:
  """Returns the smallest unit that holds a date, DAY to INTERVAL, or None."""
  if not spans:
    return None
  if spans[0][0] == spans[-1][1]:
    return DAY
  rows = list(months)
  if len(rows) == 1:
    return MONTH
  first_month = 3 if western.is_western(calendar) else 1
  # Months from the first of a season on: December stands with January.
  past_season = (
    calendar.years[rows] * MONTHS_PER_YEAR + calendar.months[rows] - first_month
  )
  if len(set((past_season // MONTHS_PER_SEASON).tolist())) == 1:
    return SEASON
  return YEAR if len(set(calendar.years[rows].tolist())) == 1 else INTERVAL


# EDTF holds what is true with 90 %: one day `0311-07-14`; an interval
# `0311-07-04/0311-08-01`; or one of several, `[0311-07-04..0311-08-01,...]`,
# which needs no mark because it shows that the date is not certain. Else `~`
# marks a month below `CERTAIN` or a computed new moon, `?` one below `DOUBTFUL`
# or more than `MAX_PARTS` parts joined to one interval.

MAX_PARTS = 12


def format_edtf(
  spans: Sequence[DaySpan], probability: float, is_approximate: bool = False
) -> str:
  """Returns spans of days in EDTF (ISO 8601-2, level 2); "" without any.

  Args:
    probability: probability of the most probable month.
    is_approximate: whether the ends of the spans may be a day off.
  """
  if not spans:
    return ""
  if 1 < len(spans) <= MAX_PARTS:
    return f"[{','.join(_format_span(span, '..') for span in spans)}]"
  if probability < DOUBTFUL or len(spans) > 1:
    mark = "?"
  else:
    mark = "~" if probability < CERTAIN or is_approximate else ""
  return _format_span((spans[0][0], spans[-1][1]), "/", mark)


def _format_span(span: DaySpan, separator: str, mark: str = "") -> str:
  days = span[:1] if span[0] == span[1] else span
  return separator.join(f"{format_gregorian_day(day)}{mark}" for day in days)


@functools.lru_cache(maxsize=1 << 16)
def format_gregorian_day(julian_day: int) -> str:
  """Returns a day as ISO 8601 writes it, -0721-02-22."""
  return sexagenary.format_date(sexagenary.to_gregorian_dates(julian_day))


def format_julian_day(julian_day: int) -> str:
  """Returns a day in the Julian calendar, in the same form."""
  return sexagenary.format_date(sexagenary.to_julian_dates(julian_day))


# Credible months that a row gives, the most probable ones.
MAX_CREDIBLE_MONTHS = 100
_DIGITS = 4  # of probabilities
# Around a printed date: blanks, circles that divide, marks of Markdown.
_MARKS_AROUND_DATE = " \t\u3000○◎●△▲#*，、：。；．,:;"


class NamedMonth(msgspec.Struct, frozen=True):
  """A month as a text would call it."""

  reign: str  # with its state
  year: int  # regnal, from 1
  month: int  # 1-12
  is_leap: bool  # whether it is the leap month after that number
  common_era_year: int  # astronomical, by the month's own calendar
  probability: float | None = None  # of the month; None if it was not kept


class SectionPlace(msgspec.Struct, frozen=True):
  """Place of a section in its text."""

  file: str  # of its first character
  line: int  # from 1
  page: str  # as the edition names it, or ""
  record: int  # number of the record, from 1
  start: int  # position of its first character in the record
  stop: int  # position after its last


class SectionMonths(msgspec.Struct, frozen=True):
  """Months that a section can be in."""

  # The most probable; None if that is outside the calendar.
  month: NamedMonth | None
  second: NamedMonth | None  # the next, likewise
  probability: float  # of the most probable month or of outside
  outside: float  # probability of no month of the calendar
  num_credible: int  # number of months that hold 90 % of the probability
  # These in order of time, at most `MAX_CREDIBLE_MONTHS`.
  credible: tuple[NamedMonth, ...]

  @property
  def common_era(self) -> str:
    """Year of the most probable month as people write it, or ""."""
    if self.month is None:
      return ""
    return reigns.format_common_era_year(self.month.common_era_year)


class SectionDates(msgspec.Struct, frozen=True):
  """Days that hold 90 % of a section's probability; None where not known."""

  precision: str | None  # `DAY` to `INTERVAL`
  first_julian_day: int | None  # Julian day number
  last_julian_day: int | None  # Julian day number
  # The day that the text fixes in the most probable month.
  julian_day: int | None
  edtf: str | None  # see `format_edtf`
  day_of_month: int | None = None  # number of that day, from 1

  @property
  def not_before(self) -> str | None:
    """First day, proleptic Gregorian calendar."""
    return _format_day(format_gregorian_day, self.first_julian_day)

  @property
  def not_after(self) -> str | None:
    """Last day, proleptic Gregorian calendar."""
    return _format_day(format_gregorian_day, self.last_julian_day)

  def list_fields(self) -> dict[str, str | int | None]:
    """Returns the dates by column, in both calendars."""
    first, last = self.first_julian_day, self.last_julian_day
    return {
      "precision": self.precision,
      "not_before": self.not_before,
      "not_after": self.not_after,
      "not_before_julian": _format_day(format_julian_day, first),
      "not_after_julian": _format_day(format_julian_day, last),
      "first_julian_day": first,
      "last_julian_day": last,
      "day_of_month": self.day_of_month,
      "sexagenary_day": _format_day(
        lambda day: sexagenary.format_cyclic_index(
          sexagenary.cyclic_index_of_day(day)
        ),
        self.julian_day,
      ),
      "julian_day": self.julian_day,
      "gregorian_date": _format_day(format_gregorian_day, self.julian_day),
      "julian_date": _format_day(format_julian_day, self.julian_day),
      "edtf": self.edtf,
    }


class DatedSection(msgspec.Struct, frozen=True):
  """A section with its date."""

  place: SectionPlace  # where it is
  is_heading: bool  # whether it holds only a date or a heading
  printed: str  # the date at its head as printed, or ""
  months: SectionMonths  # that it can be in
  is_fixed: bool  # whether the date was given by hand
  # Printed statements that the most probable month lacks.
  contradicted: tuple[str, ...]
  dates: SectionDates  # days that it can be
  text: str  # whole

  def to_object(self) -> dict[str, Any]:
    """Returns the section as one flat JSON object."""
    months = self.months
    return {
      **msgspec.structs.asdict(self.place),
      "is_heading": self.is_heading,
      "printed": self.printed,
      "month": months.month,
      "second": months.second,
      "probability": months.probability,
      "outside": months.outside,
      "is_fixed": self.is_fixed,
      "contradicted": self.contradicted,
      "common_era": months.common_era,
      **self.dates.list_fields(),
      "num_credible": months.num_credible,
      "credible": months.credible,
      "text": self.text,
    }

  @classmethod
  def from_object(cls, fields: dict[str, Any]) -> DatedSection:
    """Returns the section of an object that `to_object` made.

    Raises:
      msgspec.ValidationError: if a field is missing or wrong; the message names
        it.
    """
    # Each part takes the fields that it knows from the flat object.
    parts = {"place": fields, "months": fields, "dates": fields}
    return msgspec.convert(fields | parts, cls)


def make_rows(dates: ChronicleDates) -> list[DatedSection]:
  """Returns a row for every section."""
  contradicted: dict[int, list[str]] = {}
  for section, statement in dating_warnings.find_contradictions(dates):
    contradicted.setdefault(section, []).append(
      dating_warnings.format_statement(statement)
    )

  # Many sections share reigns and month.
  @functools.cache
  def name_month(own_reigns: frozenset[int], month: int) -> NamedMonth | None:
    """Returns a month as a section names it; None if outside."""
    if dates.is_outside(month):
      return None
    calendar = dates.calendar
    naming_reigns = dates.find_naming_reigns(own_reigns, month)
    reign, year, number = calendar.name_month(month, naming_reigns)
    return NamedMonth(
      reign,
      year,
      int(number.removesuffix("L")),
      number.endswith("L"),
      int(calendar.readings.years[calendar.find_reading(month, naming_reigns)]),
    )

  return [
    _make_row(dates, row, tuple(contradicted.get(row, ())), name_month)
    for row in range(len(dates))
  ]


def _make_row(
  dates: ChronicleDates,
  row: int,
  contradicted: tuple[str, ...],
  name_month: Callable[[frozenset[int], int], NamedMonth | None],
) -> DatedSection:
  section, days, text = dates.sections[row], dates.days[row], dates.text_of(row)
  place = dates.place_of(row)

  def name_months(
    months: np.ndarray, chances: np.ndarray
  ) -> list[NamedMonth | None]:
    own_reigns = dates.reigns_of_sections[row]
    return [
      named
      and msgspec.structs.replace(named, probability=_round_chance(chance))
      for named, chance in zip(
        (name_month(own_reigns, month) for month in months.tolist()),
        chances,
        strict=True,
      )
    ]

  month, second, *_ = (
    *name_months(dates.months[row], dates.probabilities[row]),
    None,
  )
  credible = dates.credible.months_of(row)
  chances = dates.credible.probabilities_of(row)
  shown = np.sort(np.argsort(-chances, kind="stable")[:MAX_CREDIBLE_MONTHS])
  probability = float(dates.probabilities[row, 0])
  return DatedSection(
    place=SectionPlace(
      file=place.file,
      line=place.line,
      page=place.page,
      record=section.record + 1,
      start=section.start,
      stop=section.stop,
    ),
    is_heading=section.is_heading,
    printed=text[: section.date_end - section.start].strip(_MARKS_AROUND_DATE),
    months=SectionMonths(
      month=month,
      second=second,
      probability=_round_chance(probability),
      outside=_round_chance(dates.outside[row]),
      num_credible=len(credible),
      credible=tuple(
        filter(None, name_months(credible[shown], chances[shown]))
      ),
    ),
    is_fixed=bool(dates.is_fixed[row]),
    contradicted=contradicted,
    dates=SectionDates(
      precision=find_precision(dates.calendar, days.spans, days.months),
      first_julian_day=days.not_before,
      last_julian_day=days.not_after,
      julian_day=days.day,
      edtf=format_edtf(days.spans, probability, days.is_approximate) or None,
      day_of_month=_find_day_of_month(dates, row),
    ),
    text=text,
  )


def _find_day_of_month(dates: ChronicleDates, row: int) -> int | None:
  """Returns the number of a section's day in its most probable month."""
  calendar, month = dates.calendar, int(dates.months[row][0])
  day, spans = dates.days[row].day, calendar.readings.day_spans
  if day is None or spans is None or dates.is_outside(month):
    return None
  reigns_here = dates.find_naming_reigns(dates.reigns_of_sections[row], month)
  first, length = spans[calendar.find_reading(month, reigns_here)].tolist()
  number = day - first + 1
  return number if 1 <= number <= length else None


def _format_day(
  format_day: Callable[[int], str], day: int | None
) -> str | None:
  return None if day is None else format_day(day)


def _round_chance(chance: float | np.floating) -> float:
  return round(float(chance), _DIGITS)
