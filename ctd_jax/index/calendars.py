"""Calendar of an index: its months on disk, by name, and those of data sets.

The time of an index is an integer: the ordinal of a lunation of its calendar, 0
for the first. The ordinal after the last, `len(calendar)`, stands for a time
outside of the calendar. The folder `calendar/` of an index holds the months
themselves and not only the name of a table, so that a table that is corrected
later does not move the dates of an index.

Axes: K lunations of the calendar, T months of a data set's timeline.
"""

from __future__ import annotations

import calendar as gregorian_names
import dataclasses
import hashlib
import json
import pathlib
from collections.abc import Collection
from typing import Any

import numpy as np
from jaxtyping import Int

from ctd_jax.chronology import civil_dates, numerals, reign_tables
from ctd_jax.chronology.timelines import Reign, TimeKey, Timeline
from ctd_jax.dating.chronicle import western_calendar
from ctd_jax.dating.chronicle.month_calendar import (
  Calendar,
  Memberships,
  Readings,
)
from ctd_jax.utils import files

CALENDAR_FOLDER = "calendar"
TIMELINE_FILE, MONTHS_FILE = "timeline.json", "months.npz"
_MAX_NUMERAL = 99  # of `numerals.format_numeral`


def write_index_calendar(
  folder: pathlib.Path, calendar: Calendar, spec: str
) -> dict[str, Any]:
  """Writes the calendar of an index and returns its entry of the manifest.

  Args:
    folder: of the index.
    calendar: its months.
    spec: what the calendar was asked for by, as of --reigns.

  Returns:
    spec, number of months, and sha256 of the arrays.
  """
  timeline = calendar.timeline
  files.write_text(
    folder / CALENDAR_FOLDER / TIMELINE_FILE,
    json.dumps(
      {
        "spec": spec,
        "name": timeline.name,
        "reigns": [dataclasses.asdict(reign) for reign in timeline.reigns],
        "leap_months": sorted(timeline.leap_months),
      },
      ensure_ascii=False,
    ),
  )
  arrays = _list_arrays(calendar)
  with files.atomic_path(folder / CALENDAR_FOLDER / MONTHS_FILE) as path:
    np.savez(path, **arrays)
  return {
    "spec": spec,
    "months": len(calendar),
    "sha256": hash_calendar(calendar),
  }


def load_index_calendar(folder: pathlib.Path) -> Calendar:
  """Returns the calendar of an index.

  Args:
    folder: of the index.

  Raises:
    FileNotFoundError: if the folder has no calendar.
    ValueError: naming the file that is damaged.
  """
  folder = folder / CALENDAR_FOLDER
  for name in (TIMELINE_FILE, MONTHS_FILE):
    if not (folder / name).is_file():
      raise FileNotFoundError(
        f"{folder / name}: missing; every index has one, build the index again"
      )
  try:
    table = json.loads(files.read_text(folder / TIMELINE_FILE))
    timeline = Timeline(
      table["name"],
      tuple(
        Reign(**reign | {"aliases": tuple(reign["aliases"])})
        for reign in table["reigns"]
      ),
      frozenset(map(tuple, table["leap_months"])),
    )
  except (KeyError, TypeError, ValueError) as error:
    raise ValueError(
      f"{folder / TIMELINE_FILE}: damaged ({error}); build the index again"
    ) from error
  try:
    with np.load(folder / MONTHS_FILE) as arrays:
      return _make_calendar(timeline, dict(arrays))
  except Exception as error:  # zip, zlib and numpy raise what they like
    raise ValueError(
      f"{folder / MONTHS_FILE}: damaged ({error}); build the index again"
    ) from error


def hash_calendar(calendar: Calendar) -> str:
  """Returns the sha256 of a calendar: of its months and its reigns."""
  digest = hashlib.sha256(repr(calendar.timeline.reigns).encode())
  for name, array in _list_arrays(calendar).items():
    digest.update(f"{name} {array.dtype.str} {array.shape}".encode())
    digest.update(np.ascontiguousarray(array).tobytes())
  return digest.hexdigest()


def _list_arrays(calendar: Calendar) -> dict[str, np.ndarray]:
  """Returns the arrays of a calendar by name; those that it lacks are left."""
  arrays = {"polities": calendar.polities}
  for part in (calendar.readings, calendar.memberships):
    prefix = type(part).__name__.lower()
    for field in dataclasses.fields(part):
      values = getattr(part, field.name)
      if values is not None:
        arrays[f"{prefix}_{field.name}"] = values
  return arrays


def _make_calendar(
  timeline: Timeline, arrays: dict[str, np.ndarray]
) -> Calendar:
  def take(part: type) -> dict[str, np.ndarray | None]:
    prefix = part.__name__.lower()
    return {
      field.name: arrays.get(f"{prefix}_{field.name}")
      for field in dataclasses.fields(part)
    }

  return Calendar(
    timeline,
    Readings(**take(Readings)),
    Memberships(**take(Memberships)),
    arrays["polities"],
  )


def map_time_keys(
  timeline: Timeline, calendar: Calendar
) -> Int[np.ndarray, " T"]:
  """Returns the lunation of every month of a timeline.

  A month is looked for under its reign, else under its year of the common era.
  A leap month that the calendar has not is the month before it, and so is a
  month that a reform left out. What lies outside of the calendar is K.

  Args:
    timeline: of a data set.
    calendar: of the index.
  """
  by_name, by_year = _number_months(calendar)
  lunations = np.full(len(timeline), len(calendar))
  for ordinal, key in enumerate(timeline.months):
    reign = timeline.reigns[key.reign - 1]
    named_year = (reign.state, reign.name, key.year)
    civil_year = reign_tables.astronomical_year_of(timeline, key)
    candidates = by_name.get(named_year) or by_year.get((civil_year,), {})
    lunations[ordinal] = _find_month(candidates, key, len(calendar))
  return lunations


_MonthTable = dict[tuple, dict[tuple[int, bool], int]]


def _number_months(calendar: Calendar) -> tuple[_MonthTable, _MonthTable]:
  """Returns (month, leap) -> lunation by regnal year, and by civil year."""
  readings, members = calendar.readings, calendar.memberships
  by_name: _MonthTable = {}
  by_year: _MonthTable = {}
  rows = zip(
    members.lunations.tolist(),
    members.readings.tolist(),
    members.reigns.tolist(),
    members.regnal_years.tolist(),
    strict=True,
  )
  for lunation, reading, reign_row, year in rows:
    reign = calendar.timeline.reigns[reign_row]
    month = int(readings.months[reading]), bool(readings.is_leap[reading])
    by_name.setdefault((reign.state, reign.name, year), {}).setdefault(
      month, lunation
    )
  for lunation, (year, month, is_leap) in enumerate(
    zip(
      calendar.years.tolist(),
      calendar.months.tolist(),
      calendar.is_leap.tolist(),
      strict=True,
    )
  ):
    by_year.setdefault((year,), {}).setdefault((month, is_leap), lunation)
  return by_name, by_year


def _find_month(
  months: dict[tuple[int, bool], int], key: TimeKey, outside: int
) -> int:
  """Returns the lunation of a month of a year, or of the last before it."""
  exact = months.get((key.month, key.leap))
  if exact is not None:
    return exact
  earlier = [month for month in months if month < (key.month, key.leap)]
  if earlier:
    return months[max(earlier)]
  return months[min(months)] if months else outside


def name_month(
  calendar: Calendar, ordinal: int, printed_reigns: Collection[int] = ()
) -> str:
  """Returns a month as a text would call it.

  「魯隱公元年五月」, 「宋太祖建隆二年閏三月」; "May 700 CE" of the common era;
  and "outside of the calendar" of the ordinal after the last.

  Args:
    calendar: of the index.
    ordinal: of the month.
    printed_reigns: rows of reigns that the work names; of several names of the
      month one of these is taken.
  """
  if ordinal >= len(calendar):
    return "outside of the calendar"
  reign, year, month = calendar.name_month(ordinal, printed_reigns)
  number = int(month.removesuffix("L"))
  if western_calendar.is_western(calendar):
    era_year = reign_tables.format_common_era_year(int(calendar.years[ordinal]))
    return f"{gregorian_names.month_name[number]} {era_year}"
  month_name = "正" if number == 1 else numerals.format_numeral(number)
  leap = "閏" * month.endswith("L")
  return f"{reign}{_name_year(year)}年{leap}{month_name}月"


def _name_year(year: int) -> str:
  if year == 1:
    return "元"
  return numerals.format_numeral(year) if year <= _MAX_NUMERAL else str(year)


def describe_month(
  calendar: Calendar, ordinal: int, printed_reigns: Collection[int] = ()
) -> dict[str, Any]:
  """Returns what an answer says of a month.

  Args:
    calendar: of the index.
    ordinal: of the month; the number of months is outside of the calendar.
    printed_reigns: as of `name_month`.

  Returns:
    ordinal, name, reign, year (regnal), month (1-12), leap, ce_year
    (astronomical, 0 = 1 BCE); first_day and last_day, ISO 8601 in the proleptic
    Gregorian calendar, first_julian_day and last_julian_day, Julian day
    numbers. None is what is not known: all but the name outside of the
    calendar, the days where the calendar has none.
  """
  result = dict.fromkeys(
    (
      "reign",
      "year",
      "month",
      "leap",
      "ce_year",
      "first_day",
      "last_day",
      "first_julian_day",
      "last_julian_day",
    )
  )
  name = name_month(calendar, ordinal, printed_reigns)
  result = {"ordinal": ordinal, "name": name} | result
  if ordinal >= len(calendar):
    return result
  reign, year, month = calendar.name_month(ordinal, printed_reigns)
  reading = calendar.find_reading(ordinal, printed_reigns)
  result |= {
    "reign": reign,
    "year": year,
    "month": int(month.removesuffix("L")),
    "leap": month.endswith("L"),
    "ce_year": int(calendar.readings.years[reading]),
  }
  if calendar.readings.day_spans is not None:
    first, length = calendar.readings.day_spans[reading].tolist()
    for name, day in (("first", first), ("last", first + length - 1)):
      result[f"{name}_day"] = _format_day(day)
      result[f"{name}_julian_day"] = day
  return result


def _format_day(julian_day: int) -> str:
  return civil_dates.format_date(
    civil_dates.to_gregorian_dates(np.array(julian_day))
  )


def match_months(
  narrowed: Calendar, calendar: Calendar
) -> Int[np.ndarray, " ordinals"]:
  """Returns the ordinals in a calendar of the months of a part of it.

  Dating leaves months out that a chronicle cannot be of, and puts its own
  readings first.

  Args:
    narrowed: of `Calendar.take` and `Calendar.weigh_readings`.
    calendar: the whole.

  Returns:
    Of every month of the part, and of what lies outside of it, [n + 1].
  """
  ordinals = np.searchsorted(_sort_key(calendar), _sort_key(narrowed))
  return np.append(ordinals, len(calendar))


def _sort_key(calendar: Calendar) -> Int[np.ndarray, " K"]:
  """Returns an ascending number for every month that tells it from others."""
  readings = calendar.readings
  if readings.day_spans is not None:
    return np.minimum.reduceat(readings.day_spans[:, 0], readings.starts)
  return 2 * (12 * calendar.years + calendar.months) + calendar.is_leap
