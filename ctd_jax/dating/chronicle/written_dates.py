"""Written dates: the months of a calendar that a date names.

A date is written as in texts (「隱公元年三月」, "8 June 787"), as in tables
(開寶8年10L月), or in ISO 8601-2 (0975, 0975-10, 0975-10-12). Two with a slash
are an interval, which two full stops or nothing leave open at an end.
ISO dates are Gregorian and mean the months that share a day with them.

Axes: K months of the calendar, M memberships in reigns.
"""

import calendar as civil_calendar
import re
from collections.abc import Mapping

import numpy as np
from jaxtyping import Bool, Int

from ctd_jax.chronology import dates, reigns, sexagenary, western_dates
from ctd_jax.chronology.dates import SEASONS, DateCue
from ctd_jax.chronology.numerals import fold_script
from ctd_jax.chronology.reigns import MONTHS_PER_YEAR
from ctd_jax.chronology.western_dates import ISO_DATE
from ctd_jax.dating.chronicle import western
from ctd_jax.dating.chronicle.calendar import Calendar
from ctd_jax.utils.notes import Note
from ctd_jax.utils.unicode_text import normalize

FORMS = Note("problem.forms")
_LEAP_LABEL = re.compile(r"(\d{1,2})L(?=月)")
_LOOKS_ISO = re.compile(r"[-\d.~?%X{}\[\]]+")
_OPEN_ENDS = ("", "..")


class AmbiguousDateError(ValueError):
  """A date that may mean several; `choices` is date -> first month."""

  def __init__(self, message: Note, choices: Mapping[str, int]):
    super().__init__(message)
    self.choices = choices


def find_months(text: str, calendar: Calendar) -> Bool[np.ndarray, " K"]:
  """Returns which months of a calendar a date or interval names, at least one.

  Raises:
    AmbiguousDateError: if months of several reigns are possible.
    ValueError: if the text cannot be read or is outside the calendar.
  """
  text = normalize(text).text.strip()
  ends = [end.strip() for end in text.split("/")]
  if len(ends) == 1:
    is_named, _, _ = _find_months_of_date(text, calendar)
  elif len(ends) > 2 or all(end in _OPEN_ENDS for end in ends):
    raise ValueError(Note("problem.date.interval", text=text))
  else:
    iso_dates = [ISO_DATE.fullmatch(end) for end in ends]
    is_named = np.ones(len(calendar), bool)
    if all(iso_dates) and (
      _read_iso_days(iso_dates[0])[0] > _read_iso_days(iso_dates[1])[1]
    ):
      is_named[:] = False
    for number, end in enumerate(ends, start=1):
      if end not in _OPEN_ENDS:
        is_named &= _find_months_of_end(ends, number, calendar)
  if not is_named.any():
    problem = Note(
      "problem.date.outside",
      text=text,
      calendar=calendar.timeline.name,
      years=_format_years(calendar),
    )
    if meant := _find_other_era(ends, calendar):
      problem = Note("problem.date.meant", problem=problem, year=meant)
    raise ValueError(problem)
  return is_named


def _find_other_era(ends: list[str], calendar: Calendar) -> str:
  """Returns a year of the calendar that has the number of a date; or ""."""
  years = [int(it["year"]) for it in map(ISO_DATE.fullmatch, ends) if it]
  for end in ends:
    years += [it[2] for it in western_dates.find_common_era_years(end)]
  # 627 CE for 627 BCE, which is -626.
  others = (1 - year for year in years)
  found = next((it for it in others if it in calendar.years), None)
  return "" if found is None else reigns.format_common_era_year(found)


def _find_months_of_end(
  ends: list[str], number: int, calendar: Calendar
) -> Bool[np.ndarray, " K"]:
  """Returns the months on the inner side of one end of an interval."""
  try:
    return _find_months_of_date(ends[number - 1], calendar)[number]
  except AmbiguousDateError as error:
    choices = {
      "/".join((*ends[: number - 1], date, *ends[number:])): month
      for date, month in error.choices.items()
    }
    raise AmbiguousDateError(error.args[0], choices) from None


def _find_months_of_date(
  text: str, calendar: Calendar
) -> tuple[
  Bool[np.ndarray, " K"], Bool[np.ndarray, " K"], Bool[np.ndarray, " K"]
]:
  match = ISO_DATE.fullmatch(text)
  if match is not None:
    first, last = _read_iso_days(match)
    if match["day"] is None and western.is_western(calendar):
      # A month of the common era is the one of that name.
      month = int(match["month"] or 0)
      starts = _count_months(calendar.years, calendar.months)
      first = _count_months(int(match["year"]), month or 1)
      last = _count_months(int(match["year"]), month or MONTHS_PER_YEAR)
      stops = starts + 1
    else:
      starts, stops = calendar.readings.take(
        calendar.readings.starts
      ).bound_days()
    is_after, is_before = stops > first, starts <= last
    return is_after & is_before, is_after, is_before
  if _LOOKS_ISO.fullmatch(text):
    raise ValueError(Note("problem.date.doubt", text=text, forms=FORMS))
  if western.is_western(calendar):
    is_named = _find_western_months(text, calendar)
  else:
    is_named = _find_printed_months(text, calendar)
  return (
    is_named,
    np.logical_or.accumulate(is_named),
    np.logical_or.accumulate(is_named[::-1])[::-1],
  )


def _read_iso_days(match: re.Match[str]) -> tuple[int, int]:
  """Returns the first and last Julian day of a date of ISO 8601."""
  year = int(match["year"])
  months = [int(match["month"])] * 2 if match["month"] else [1, MONTHS_PER_YEAR]
  if not 1 <= months[0] <= MONTHS_PER_YEAR:
    raise ValueError(
      Note("problem.date.month", text=match[0], month_number=months[0])
    )
  # Leap years repeat after 400 years; the library knows none before year 1.
  _, num_days = civil_calendar.monthrange(2000 + year % 400, months[1])
  days = [int(match["day"])] * 2 if match["day"] else [1, num_days]
  if not 1 <= days[0] <= num_days:
    raise ValueError(
      Note("problem.date.day", text=match[0], day=days[0], last=num_days)
    )
  first, last = sexagenary.from_gregorian_dates(
    np.array([(year, *date) for date in zip(months, days, strict=True)])
  ).tolist()
  return first, last


def _count_months(
  year: Int[np.ndarray, " K"] | int, month: Int[np.ndarray, " K"] | int
) -> Int[np.ndarray, " K"] | int:
  """Returns months since the first of year 0."""
  return MONTHS_PER_YEAR * year + month - 1


def _find_western_months(
  text: str, calendar: Calendar
) -> Bool[np.ndarray, " K"]:
  """Returns which months of the common era a text names, "June 787"."""
  date = western_dates.parse_civil_date(text)
  if date is None:
    raise ValueError(Note("problem.date.western", text=text))
  is_named = calendar.years == date.year
  if date.month is not None:
    is_named &= calendar.months == date.month
  return is_named


def _find_printed_months(
  text: str, calendar: Calendar
) -> Bool[np.ndarray, " K"]:
  """Returns which months a date has as a text writes it, 「隱公元年三月」."""
  years = western_dates.find_common_era_years(text)
  if [year[:2] for year in years] == [(0, len(text))]:  # 685 BCE
    readings = calendar.readings
    return readings.find_lunations(readings.years == years[0].year)
  # As the tables of dates write a leap month: 光熙1年8L月.
  text = dates.join_parts(_LEAP_LABEL.sub(r"閏\1", text))
  matches = list(dates.iterate_matches(fold_script(text), calendar.timeline))
  if (
    len(matches) != 1
    or matches[0][1].start != 0
    or matches[0][1].end != len(text)
  ):
    raise ValueError(
      Note(
        "problem.date.none",
        text=text,
        calendar=calendar.timeline.name,
        forms=FORMS,
      )
    )
  match, cue = matches[0]
  if cue.day:
    raise ValueError(Note("problem.date.cycle_day", text=text, forms=FORMS))
  try:
    common_year = dates.read_common_year(match)
  except ValueError as error:
    raise ValueError(
      Note("problem.of_text", text=text, problem=error)
    ) from None
  if common_year is not None:
    readings = calendar.readings
    return readings.find_lunations(
      (readings.years == common_year)
      & _match_month(cue, readings.months, readings.is_leap, calendar)
    )
  bare_message = Note("problem.date.no_reign", text=text, forms=FORMS)
  if cue.year is None:
    raise ValueError(bare_message)
  is_match = _match_date(cue, calendar)
  if cue.reign is None:
    reigns = np.unique(calendar.memberships.reigns[is_match] + 1).tolist()
    raise AmbiguousDateError(
      bare_message, _list_choices(reigns, is_match, text, calendar)
    )
  reigns = dates.candidate_reigns(match, cue, calendar.timeline)
  months_of_reigns = {
    reign: calendar.find_members(
      is_match & (calendar.memberships.reigns == reign - 1)
    )
    for reign in reigns
  }
  months_of_reigns = {
    reign: is_named
    for reign, is_named in months_of_reigns.items()
    if is_named.any()
  }
  if not months_of_reigns:
    raise ValueError(
      Note(
        "problem.date.lacking",
        text=text,
        calendar=calendar.timeline.name,
        hint=_describe_year(reigns, cue, calendar),
      )
    )
  first, *others = months_of_reigns.values()
  if any((is_named != first).any() for is_named in others):
    stop = match.end("reign" if match["reign"] else "initial")
    choices = _list_choices(
      [*months_of_reigns], is_match, text[stop:], calendar
    )
    raise AmbiguousDateError(
      Note(
        "problem.date.ambiguous", text=text, dates=", ".join(sorted(choices))
      ),
      choices,
    )
  return first


def _match_date(cue: DateCue, calendar: Calendar) -> Bool[np.ndarray, " M"]:
  """Returns which memberships match the year and month of a date."""
  members, readings = calendar.memberships, calendar.readings
  is_match = (members.regnal_years == cue.year) & _match_month(
    cue,
    readings.months[members.readings],
    readings.is_leap[members.readings],
    calendar,
  )
  if cue.year_cycle:
    is_match &= sexagenary.cyclic_index_of_year(
      readings.years[members.readings]
    ) == sexagenary.parse_cyclic_index(cue.year_cycle)
  return is_match


def _list_choices(
  reigns: list[int],
  is_match: Bool[np.ndarray, " M"],
  rest: str,
  calendar: Calendar,
) -> dict[str, int]:
  """Returns whole date -> first month."""
  members = calendar.memberships
  first_months: dict[int, int] = {}
  for reign, month in zip(
    (members.reigns[is_match] + 1).tolist(),
    members.lunations[is_match].tolist(),
    strict=True,
  ):
    first_months[reign] = min(month, first_months.get(reign, month))
  return {
    calendar.timeline.full_reign_name(reign) + rest: first_months[reign]
    for reign in reigns
  }


def _match_month(
  cue: DateCue, months: np.ndarray, is_leap: np.ndarray, calendar: Calendar
) -> np.ndarray:
  """Returns which months have the number or season of a date."""
  if cue.leap and not calendar.readings.has_days.any():
    # Their leap months are not told apart and mostly followed the twelfth.
    return months == (cue.month or MONTHS_PER_YEAR)
  if cue.month or cue.leap:
    is_number = months == cue.month if cue.month else is_leap
    return is_number & (is_leap == cue.leap)
  if cue.season:
    return (months - 1) // 3 == SEASONS.index(cue.season)
  return np.ones(len(months), bool)


def _describe_year(
  reigns: list[int], cue: DateCue, calendar: Calendar
) -> list[Note]:
  """Returns the months that the year of a date has instead."""
  members = calendar.memberships
  described = []
  for reign in reigns:
    rows = np.flatnonzero(
      (members.reigns == reign - 1) & (members.regnal_years == cue.year)
    )
    name = calendar.timeline.full_reign_name(reign)
    if len(rows):
      labels = [
        f"{calendar.readings.months[reading]}"
        + "L" * bool(calendar.readings.is_leap[reading])
        for reading in members.readings[rows]
      ]
      described.append(
        Note(
          "problem.date.lacking.months",
          date=f"{name}{cue.year}年",
          months=", ".join(labels),
        )
      )
    else:
      last = members.regnal_years[members.reigns == reign - 1].max()
      described.append(Note("problem.date.lacking.years", name=name, last=last))
  return described or [Note("problem.date.lacking.reign")]


def _format_years(calendar: Calendar) -> Note:
  first, last = (
    reigns.format_common_era_year(int(year))
    for year in (calendar.years.min(), calendar.years.max())
  )
  return Note("note.years", first=first, last=last)
