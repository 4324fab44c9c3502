"""Calendar of an index: its months on disk, and their names.

A time in an index is the ordinal of a lunation of its calendar, from 0. The
ordinal after the last, `len(calendar)`, means outside the calendar. `calendar/`
holds the months themselves, so that correcting a reign table later moves no
dates of an index.

Axes: K lunations, S possible offsets of a calendar that is not known exactly.
"""

import calendar as gregorian_names
import dataclasses
import hashlib
import json
import pathlib
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from ctd_jax.chronology import numerals, reigns, sexagenary
from ctd_jax.chronology.reigns import Reign, Timeline
from ctd_jax.dating.chronicle import western
from ctd_jax.dating.chronicle.calendar import Calendar, Memberships, Readings
from ctd_jax.dating.experts import date_features
from ctd_jax.index.manifest import DamagedIndexError
from ctd_jax.utils import files

CALENDAR_FOLDER = "calendar"
TIMELINE_FILE, MONTHS_FILE = "timeline.json", "months.npz"
DAYS_FILE = "day_chances.npy"
# The database has copies of these; the chances of days are computed again.
COPIED_FILES = (
  f"{CALENDAR_FOLDER}/{TIMELINE_FILE}",
  f"{CALENDAR_FOLDER}/{MONTHS_FILE}",
)
OUTSIDE = "outside of the calendar"  # name of the ordinal after the last
_MAX_NUMERAL = 99  # of `numerals.format_numeral`
_MONTH_FIELDS = (
  *("reign", "year", "month", "leap", "ce_year"),
  *("first_day", "last_day", "first_julian_day", "last_julian_day"),
)


def write_index_calendar(
  folder: pathlib.Path,
  calendar: Calendar,
  spec: str,
  tables: Mapping[str, Sequence[int]] | None = None,
) -> dict[str, Any]:
  """Writes the calendar of an index; returns spec, months and sha256.

  Args:
    spec: value of --reigns.
    tables: rows of the reigns of each calendar of which it is made.
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
      }
      | ({"tables": tables} if tables else {}),
      ensure_ascii=False,
    ),
  )
  arrays = _list_arrays(calendar)
  with files.atomic_path(folder / CALENDAR_FOLDER / MONTHS_FILE) as path:
    np.savez(path, **arrays)
  if not calendar.readings.has_days.all():
    # The new moons of centuries take seconds to compute.
    write_day_chances(folder, calendar)
  return {
    "spec": spec,
    "months": len(calendar),
    "sha256": hash_calendar(calendar),
  }


def write_day_chances(folder: pathlib.Path, calendar: Calendar) -> None:
  """Writes the chance that a month has each sexagenary day."""
  with files.atomic_path(folder / CALENDAR_FOLDER / DAYS_FILE) as path:
    np.save(path, _find_day_chances(calendar).astype(np.float32))


def load_day_chances(
  folder: pathlib.Path, calendar: Calendar
) -> Float[np.ndarray, "K 60"]:
  """Returns the chance that a month has each sexagenary day."""
  path = folder / CALENDAR_FOLDER / DAYS_FILE
  if not path.is_file():
    return _find_day_chances(calendar)
  try:
    chances = files.map_array(path)
  except ValueError as error:
    raise DamagedIndexError(path, str(error)) from error
  if chances.shape != (len(calendar), sexagenary.CYCLE_LENGTH):
    raise DamagedIndexError(path, f"damaged, its shape is {chances.shape}")
  return chances.astype(np.float64)


def _find_day_chances(calendar: Calendar) -> Float[np.ndarray, "K 60"]:
  # [S, K, 3 x 60], the first 60 being any day of the month.
  by_offset = calendar.day_chances[:, :, : sexagenary.CYCLE_LENGTH]
  if len(by_offset) == 1:
    return by_offset[0]
  return np.tensordot(date_features.OFFSET_PRIOR, by_offset, axes=1)


def load_spec(
  folder: pathlib.Path,
) -> tuple[str, dict[str, tuple[int, ...]]]:
  """Returns the value of --reigns, and the rows of reigns of each calendar.

  There are no rows if the index has a single one.
  """
  path = folder / CALENDAR_FOLDER / TIMELINE_FILE
  table = json.loads(files.read_text(path))
  tables = table.get("tables", {})
  return table["spec"], {
    name: tuple(map(int, rows)) for name, rows in tables.items()
  }


def load_index_calendar(folder: pathlib.Path) -> Calendar:
  """Returns the calendar of an index."""
  folder = folder / CALENDAR_FOLDER
  for name in (TIMELINE_FILE, MONTHS_FILE):
    if not (folder / name).is_file():
      raise DamagedIndexError(folder / name, "missing")
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
    raise DamagedIndexError(
      folder / TIMELINE_FILE, f"damaged ({error})"
    ) from error
  path = folder / MONTHS_FILE
  try:
    return _make_calendar(timeline, files.load_arrays(path))
  except Exception as error:  # of arrays that do not belong together, anything
    problem = str(error).removeprefix(f"{path}: ")
    raise DamagedIndexError(path, problem) from error


def hash_calendar(calendar: Calendar) -> str:
  """Returns the sha256 of a calendar's months and reigns."""
  digest = hashlib.sha256(repr(calendar.timeline.reigns).encode())
  for name, array in _list_arrays(calendar).items():
    digest.update(f"{name} {array.dtype.str} {array.shape}".encode())
    digest.update(np.ascontiguousarray(array).tobytes())
  return digest.hexdigest()


def _list_arrays(calendar: Calendar) -> dict[str, np.ndarray]:
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


def name_month(
  calendar: Calendar, ordinal: int, printed_reigns: Collection[int] = ()
) -> str:
  """Returns a month as a text would call it.

  「魯隱公元年五月」, 「宋太祖建隆二年閏三月」, "May 700 CE" (common era), or
  `OUTSIDE`.

  Args:
    printed_reigns: rows of reigns that the work names; their names come first.
  """
  if ordinal >= len(calendar):
    return OUTSIDE
  reign, year, month = calendar.name_month(ordinal, printed_reigns)
  number = int(month.removesuffix("L"))
  if western.is_western(calendar):
    era_year = reigns.format_common_era_year(int(calendar.years[ordinal]))
    return f"{gregorian_names.month_name[number]} {era_year}"
  leap = "閏" * month.endswith("L")
  return f"{reign}{format_year(year)}{leap}{format_month(number)}"


def name_year(
  calendar: Calendar, ordinal: int, printed_reigns: Collection[int] = ()
) -> str:
  """Returns the year of a month as a text would call it, 「魯隱公元年」."""
  if western.is_western(calendar):
    return reigns.format_common_era_year(int(calendar.years[ordinal]))
  reign, year, _ = calendar.name_month(ordinal, printed_reigns)
  return f"{reign}{format_year(year)}"


def format_year(year: int) -> str:
  """Returns a regnal year as texts write it, 元年 or 二年."""
  if year > _MAX_NUMERAL:
    return f"{year}年"
  return f"{'元' if year == 1 else numerals.format_numeral(year)}年"


def format_month(number: int) -> str:
  """Returns a month of the year as texts write it, 正月 or 二月."""
  return f"{'正' if number == 1 else numerals.format_numeral(number)}月"


def describe_month(
  calendar: Calendar, ordinal: int, printed_reigns: Collection[int] = ()
) -> dict[str, Any]:
  """Returns the fields of an answer that describe a month.

  Returns:
    ordinal, name, reign, year (regnal), month (1-12), leap, ce_year
    (astronomical, 0 = 1 BCE), first_day and last_day (ISO 8601, proleptic
    Gregorian), first_julian_day and last_julian_day; None if not known.
  """
  name = name_month(calendar, ordinal, printed_reigns)
  result = {"ordinal": ordinal, "name": name} | dict.fromkeys(_MONTH_FIELDS)
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
  if days := calendar.find_days(ordinal, printed_reigns):
    first, length = days
    for name, day in (("first", first), ("last", first + length - 1)):
      date = sexagenary.to_gregorian_dates(np.array(day))
      result[f"{name}_day"] = sexagenary.format_date(date)
      result[f"{name}_julian_day"] = day
  return result
