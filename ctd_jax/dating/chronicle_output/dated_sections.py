"""Dated sections: all that is known of the date of a section, as one row.

The rows are what every format of a dated chronicle is made from, and what
other programs read. Months are numbers 1-12, and whether they are leap months
is said beside; years are astronomical, 0 = 1 BCE, beside the text that people
write; days are Julian day numbers beside dates of the proleptic Gregorian
calendar (ISO 8601) and of the Julian.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec
import numpy as np

from ctd_jax.chronology import reign_tables, sexagenary
from ctd_jax.dating.chronicle import contradictions, section_days
from ctd_jax.dating.chronicle.chronicle_dates import ChronicleDates
from ctd_jax.dating.chronicle.contradictions import Contradiction
from ctd_jax.dating.chronicle.section_days import SectionDays
from ctd_jax.dating.chronicle_output import edtf, section_precision

# Credible months that a row gives, the most probable ones.
MAX_CREDIBLE_MONTHS = 100
_DIGITS = 4  # of probabilities
# Around a printed date: blanks, circles that divide, marks of Markdown.
_MARKS_AROUND_DATE = " \t\u3000○◎●△▲#*，、：。；．,:;"


class NamedMonth(msgspec.Struct, frozen=True):
  """A month as a text would call it.

  Attributes:
    reign: with its state.
    year: regnal, from 1.
    month: 1-12.
    is_leap: whether it is the leap month after the one of this number.
    common_era_year: astronomical, by the calendar of the month.
    probability: that the section is of it; None if it was not kept.
  """

  reign: str
  year: int
  month: int
  is_leap: bool
  common_era_year: int
  probability: float | None = None


class DatedSection(msgspec.Struct, frozen=True):
  """A section with its date.

  Attributes:
    file: that its first character is printed in.
    line: of the file, from 1.
    page: as the edition names it; "" where it names none.
    record: number of the record, from 1.
    start: position of its first character in the record.
    stop: position after its last.
    is_heading: whether it holds nothing but a date or a heading.
    printed: the date at its head as it stands there, with the mark of a stream
      before it; "" without one.
    month: the most probable; None if that is none of the calendar.
    second: the next, likewise; None too if the calendar has one month.
    probability: of the most probable month, or that it is of none.
    outside: probability that the section is of no month of the calendar.
    is_fixed: whether the date was given by hand.
    contradicted: what is printed and the most probable month has not.
    common_era: year of the most probable month as people write it; "" if it is
      none.
    precision: of `section_precision.PRECISIONS`; None if the section is most
      probably of no month of the calendar.
    not_before: first day that the date can be, proleptic Gregorian calendar,
      with 90 %; None if no month of the calendar is probable.
    not_after: last day, likewise.
    not_before_julian: the first day in the Julian calendar.
    not_after_julian: the last, likewise.
    first_julian_day: Julian day number of the first day.
    last_julian_day: of the last.
    sexagenary_day: the day that the text fixes in the most probable month; None
      if it fixes none, as all of the day.
    julian_day: its Julian day number.
    gregorian_date: in the proleptic Gregorian calendar.
    julian_date: in the Julian calendar.
    edtf: as `edtf` describes it.
    num_credible: number of months that hold 90 % of the probability.
    credible: these in order of time; of more than `MAX_CREDIBLE_MONTHS` the
      most probable.
    text: of the section, whole.
  """

  file: str
  line: int
  page: str
  record: int
  start: int
  stop: int
  is_heading: bool
  printed: str
  month: NamedMonth | None
  second: NamedMonth | None
  probability: float
  outside: float
  is_fixed: bool
  contradicted: tuple[str, ...]
  common_era: str
  precision: str | None
  not_before: str | None
  not_after: str | None
  not_before_julian: str | None
  not_after_julian: str | None
  first_julian_day: int | None
  last_julian_day: int | None
  sexagenary_day: str | None
  julian_day: int | None
  gregorian_date: str | None
  julian_date: str | None
  edtf: str | None
  num_credible: int
  credible: tuple[NamedMonth, ...]
  text: str


def make_rows(
  dates: ChronicleDates,
  days: Sequence[SectionDays] | None = None,
  contradicted: Sequence[Contradiction] | None = None,
) -> list[DatedSection]:
  """Returns a row for every section.

  Args:
    dates: of the sections.
    days: as `section_days.locate_sections` gives them; made here if None.
    contradicted: as `contradictions.find_contradictions` gives them; found here
      if None.
  """
  if days is None:
    days = section_days.locate_sections(dates)
  if contradicted is None:
    contradicted = contradictions.find_contradictions(dates, days)
  statements: dict[int, list[str]] = {}
  for section, statement in contradicted:
    statements.setdefault(section, []).append(
      contradictions.format_statement(statement)
    )
  names = _MonthNames(dates)
  return [
    _make_row(dates, row, days[row], tuple(statements.get(row, ())), names)
    for row in range(len(dates))
  ]


def _make_row(
  dates: ChronicleDates,
  row: int,
  days: SectionDays,
  contradicted: tuple[str, ...],
  names: _MonthNames,
) -> DatedSection:
  section, text = dates.sections[row], dates.text_of(row)
  first_character = dates.place_of(row)
  printed = text[: section.date_end - section.start]
  month, second, *_ = (
    *(
      names.name(row, *candidate)
      for candidate in zip(
        dates.months[row].tolist(), dates.probabilities[row], strict=True
      )
    ),
    None,
  )
  probability = float(dates.probabilities[row, 0])
  return DatedSection(
    file=first_character.file,
    line=first_character.line,
    page=first_character.page,
    record=section.record + 1,
    start=section.start,
    stop=section.stop,
    is_heading=section.is_heading,
    printed=printed.strip(_MARKS_AROUND_DATE),
    month=month,
    second=second,
    probability=_round_chance(probability),
    outside=_round_chance(dates.outside[row]),
    is_fixed=bool(dates.is_fixed[row]),
    contradicted=contradicted,
    common_era=reign_tables.format_common_era_year(month.common_era_year)
    if month
    else "",
    precision=section_precision.find_precision(
      dates.calendar, days.spans, days.months
    ),
    not_before=_format_day(edtf.format_gregorian_day, days.not_before),
    not_after=_format_day(edtf.format_gregorian_day, days.not_after),
    not_before_julian=_format_day(edtf.format_julian_day, days.not_before),
    not_after_julian=_format_day(edtf.format_julian_day, days.not_after),
    first_julian_day=days.not_before,
    last_julian_day=days.not_after,
    sexagenary_day=_format_day(_format_sexagenary_day, days.day),
    julian_day=days.day,
    gregorian_date=_format_day(edtf.format_gregorian_day, days.day),
    julian_date=_format_day(edtf.format_julian_day, days.day),
    edtf=edtf.format_edtf(days.spans, probability, days.is_approximate) or None,
    num_credible=len(dates.credible.months_of(row)),
    credible=_list_credible(dates, row, names),
    text=text,
  )


def _format_day(
  format_day: Callable[[int], str], day: int | None
) -> str | None:
  return None if day is None else format_day(day)


def _format_sexagenary_day(julian_day: int) -> str:
  return sexagenary.format_cyclic_index(
    sexagenary.cyclic_index_of_day(julian_day)
  )


def _round_chance(chance: float | np.floating) -> float:
  return round(float(chance), _DIGITS)


class _MonthNames:
  """Names of months, each made once."""

  def __init__(self, dates: ChronicleDates):
    self._dates = dates
    self._names: dict[
      tuple[int, frozenset[int]], tuple[str, int, int, bool, int]
    ] = {}

  def name(
    self, row: int, month: int, chance: float | np.floating | None
  ) -> NamedMonth | None:
    """Returns a month of a section with its probability; None if outside."""
    if self._dates.is_outside(month):
      return None
    reigns = self._dates.find_naming_reigns(row, month)
    key = month, reigns
    if key not in self._names:
      calendar = self._dates.calendar
      reading = calendar.find_reading(month, reigns)
      reign, year, number = calendar.name_month(month, reigns)
      self._names[key] = (
        *(reign, year, int(number.removesuffix("L"))),
        number.endswith("L"),
        int(calendar.readings.years[reading]),
      )
    return NamedMonth(
      *self._names[key], None if chance is None else _round_chance(chance)
    )


def _list_credible(
  dates: ChronicleDates, row: int, names: _MonthNames
) -> tuple[NamedMonth, ...]:
  months = dates.credible.months_of(row).tolist()
  chances = dates.credible.probabilities_of(row)
  if chances is None:
    chances = [None] * len(months)
  elif len(months) > MAX_CREDIBLE_MONTHS:
    most_probable = np.argsort(-chances, kind="stable")[:MAX_CREDIBLE_MONTHS]
    months = [months[index] for index in np.sort(most_probable)]
    chances = chances[np.sort(most_probable)]
  named_months = (
    names.name(row, *candidate)
    for candidate in zip(months, chances, strict=True)
  )
  return tuple(filter(None, named_months))[:MAX_CREDIBLE_MONTHS]
