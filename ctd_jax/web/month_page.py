"""Pages of a month and of a year, with each event as every work tells it."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from ctd_jax.chronology import numerals, sexagenary
from ctd_jax.index import calendars, database, events, record_answers
from ctd_jax.index.date_levels import EVEN
from ctd_jax.web import corrections, rendering
from ctd_jax.web.requests import PageError, endpoint
from ctd_jax.web.served_index import ServedIndex

MAX_RECORDS = 300  # shown on the page of a month
MAX_DOUBTFUL = 40
_MIN_DOUBT = 0.05  # to be listed below the columns
_MAX_MONTHS = 96  # months in the cache, up to 200 kB each
router = APIRouter(include_in_schema=False)


@dataclasses.dataclass(frozen=True)
class MonthRecord:
  """A record of a month."""

  row: int  # in the index
  work: str  # name of the work
  text: str  # as printed
  kind: str
  probability: float  # that the record belongs to the month
  date_end: int  # end of the date that opens the text; 0 without one
  # Days of that date that the month does not have.
  absent_days: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class MissingWork:
  """A work without a record in a month."""

  name: str  # of the work
  title: str  # of the work
  is_silent: bool  # has records before and after the month
  span: str  # time of its records; "" without any


@dataclasses.dataclass(frozen=True)
class CalendarDay:
  """A day of a month."""

  number: int | None  # in the month, from 1; None if unknown
  name: str  # sexagenary name
  # Julian, Gregorian from 1582-10-15 on; "" if unknown.
  date: str
  chance: float  # probability that the month has this day
  rows: tuple[int, ...]  # records that print it


@dataclasses.dataclass(frozen=True, kw_only=True)
class EventTable:
  """Events as every work tells them."""

  works: tuple[tuple[str, str], ...]  # (name, title) of each column
  events: tuple[tuple[MonthRecord, ...], ...]  # records grouped by event

  @property
  def num_records(self) -> int:
    """Number of records shown in the table."""
    return sum(map(len, self.events))

  @property
  def table(self) -> list[list[list[MonthRecord]]]:
    """The records of each event, by column."""
    column_of = {name: column for column, (name, _) in enumerate(self.works)}
    rows = []
    for event in self.events:
      rows.append([[] for _ in self.works])
      for record in event:
        rows[-1][column_of[record.work]].append(record)
    return rows


@dataclasses.dataclass(frozen=True, kw_only=True)
class Month(EventTable):
  """Records, calendar and works of a month."""

  ordinal: int
  month: dict[str, Any]  # from `calendars.describe_month`
  common_era: str  # year
  names: tuple[str, ...]  # in other reigns
  # Less probable records, the likeliest first.
  doubtful: tuple[MonthRecord, ...]
  missing: tuple[MissingWork, ...]  # works without a record
  num_left: int  # records beyond the limits of the page
  days: tuple[CalendarDay, ...]

  @property
  def rows(self) -> list[int]:
    """Rows of all records shown, doubtful ones included."""
    events = (*self.events, self.doubtful)
    return [record.row for event in events for record in event]


def make_table(
  served: ServedIndex, events: Sequence[Sequence[MonthRecord]]
) -> EventTable:
  """Returns events with a column for each of their works."""
  names = {record.work for event in events for record in event}
  columns = sorted(
    (work for work in served.index.works if work.name in names),
    key=lambda work: served.index.work_order[work.work_id],
  )
  return EventTable(
    works=tuple((work.name, work.title or work.name) for work in columns),
    events=tuple(map(tuple, events)),
  )


def recall_month(served: ServedIndex, ordinal: int) -> Month:
  """Returns `read_month` from a cache of recent months."""
  return served.remember(read_month, ordinal, _MAX_MONTHS)


def read_month(served: ServedIndex, ordinal: int) -> Month:
  """Returns the records, calendar and works of a month, by its ordinal."""
  index = served.index
  certain, doubtful = _find_records(served, ordinal)
  days = events.list_days(index, ordinal)
  shown = [_mark_absent_days(record, days) for record in certain[:MAX_RECORDS]]
  table = make_table(served, _align(served, ordinal, shown))
  reigns = index.printed_reigns
  return Month(
    ordinal=ordinal,
    month=calendars.describe_month(index.calendar, ordinal, reigns),
    common_era=record_answers.format_years(index, ordinal, ordinal),
    names=_find_names(served, ordinal),
    works=table.works,
    events=table.events,
    doubtful=tuple(doubtful[:MAX_DOUBTFUL]),
    missing=_find_missing(served, ordinal, {name for name, _ in table.works}),
    num_left=len(certain) - len(shown) + max(len(doubtful) - MAX_DOUBTFUL, 0),
    days=_find_days(served, ordinal, days, table.events),
  )


def _find_records(
  served: ServedIndex, ordinal: int
) -> tuple[list[MonthRecord], list[MonthRecord]]:
  """Returns the records of a month, and the doubtful ones, likeliest first."""
  index = served.index
  chances: dict[int, float] = {}
  for work in index.works:
    postings = index.posteriors_of(work).postings
    entries = slice(postings.starts[ordinal], postings.starts[ordinal + 1])
    rows = (postings.records[entries] + work.first_row).tolist()
    values = postings.probabilities[entries].tolist()
    chances |= {
      row: value
      for row, value in zip(rows, values, strict=True)
      if value >= _MIN_DOUBT
    }
  certain, doubtful = [], []
  for row, text, kind, date_end, best_month in database.fetch_columns(
    index.connection,
    sorted(chances),
    *("text", "kind", "date_end", "best_month"),
  ):
    if kind == database.HEADING:
      continue
    chance = chances[row]
    is_best = best_month == ordinal
    (certain if is_best or chance >= EVEN else doubtful).append(
      MonthRecord(row, index.work_of(row).name, text, kind, chance, date_end)
    )
  return certain, sorted(doubtful, key=lambda it: (-it.probability, it.row))


def _mark_absent_days(record: MonthRecord, days: list[int]) -> MonthRecord:
  """Returns a record with the days of its date that are none of `days`."""
  printed = events.find_days(record.text[: record.date_end])
  absent = sorted(printed - set(days)) if days else ()
  names = tuple(map(sexagenary.format_cyclic_index, absent))
  return dataclasses.replace(record, absent_days=names)


def _align(
  served: ServedIndex, ordinal: int, records: list[MonthRecord]
) -> tuple[tuple[MonthRecord, ...], ...]:
  """Returns the records grouped by event."""
  index = served.index
  by_row = {record.row: record for record in records}
  texts = sorted(
    (
      events.make_text(index, record.row, record.text, record.date_end)
      for record in records
    ),
    key=lambda text: (text.column, text.row),
  )
  if not texts or texts[0].column == texts[-1].column:
    return tuple((by_row[text.row],) for text in texts)
  usual = index.remember(events.read_usual, ordinal // events.MONTHS_AT_ONCE)
  aligned = events.align_records(texts, usual, [ordinal])
  return tuple(tuple(by_row[text.row] for text in event) for event in aligned)


def _find_missing(
  served: ServedIndex, ordinal: int, present: set[str]
) -> tuple[MissingWork, ...]:
  missing = []
  for work in served.index.works:
    if work.name in present:
      continue
    first, last = served.coverage.get(work.work_id, (0, -1))
    span = ""
    if first <= last:
      span = record_answers.make_span(
        served.index, first, last, work.printed_reigns
      ).name
    missing.append(
      MissingWork(
        work.name, work.title or work.name, first <= ordinal <= last, span
      )
    )
  return tuple(missing)


def _find_names(served: ServedIndex, ordinal: int) -> tuple[str, ...]:
  """Returns the names of a month in the other reigns of its time."""
  calendar = served.index.calendar
  members = calendar.memberships
  start, end = np.searchsorted(members.lunations, (ordinal, ordinal + 1))
  names = [
    calendars.name_month(calendar, ordinal, (int(members.reigns[row]),))
    for row in range(start, end)
    if members.in_use[row]
  ]
  own = calendars.name_month(calendar, ordinal, served.index.printed_reigns)
  return tuple(name for name in dict.fromkeys(names) if name != own)


def _find_days(
  served: ServedIndex,
  ordinal: int,
  days: list[int],
  aligned: tuple[tuple[MonthRecord, ...], ...],
) -> tuple[CalendarDay, ...]:
  """Returns the days of a month; its possible days if they are unknown.

  Args:
    days: result of `events.list_days`. Without any, the days that the records
      print are listed.
  """
  calendar = served.index.calendar
  rows: dict[int, list[int]] = {}
  for event in aligned:
    for record in event:
      for day in events.find_days(record.text):
        rows.setdefault(day, []).append(record.row)
  first = None
  if span := calendar.find_days(ordinal, served.index.printed_reigns):
    first, _ = span
  found = []
  for number, day in enumerate(days or sorted(rows)):
    date, chance = "", 1.0
    if first is None:
      chance = float(served.index.day_chances[ordinal, day])
    else:
      civil = np.array(sexagenary.to_civil_date(first + number))
      date = sexagenary.format_date(civil)
    found.append(
      CalendarDay(
        None if first is None else number + 1,
        sexagenary.format_cyclic_index(day),
        date,
        chance,
        tuple(rows.get(day, ())),
      )
    )
  return tuple(found)


def name_day_number(number: int) -> str:
  """Returns a day of the month as texts count it, such as 初一."""
  return ("初" if number <= 10 else "") + numerals.format_numeral(number)


@router.get("/month/{ordinal}")
@router.get(rendering.SAVE_PREFIX + "/month/{ordinal}")
@endpoint
def show_month(request: Request, served: ServedIndex, ordinal: int) -> Response:
  """Returns the page of a month."""
  check_month(served, ordinal)
  month = recall_month(served, ordinal)
  return rendering.render_page(
    request,
    served,
    "month.html",
    permalink=served.pin_path(f"/month/{ordinal}"),
    can_export=True,
    rows=month.rows,
    month=month,
    marks=corrections.find_marks(served, month.rows),
    neighbours=_name_neighbours(served, ordinal, ordinal),
    year=calendars.name_year(
      served.index.calendar, ordinal, served.index.printed_reigns
    ),
    titles=served.titles,
    day_number=name_day_number,
  )


@router.get("/year/{ordinal}")
@router.get(rendering.SAVE_PREFIX + "/year/{ordinal}")
@endpoint
def show_year(request: Request, served: ServedIndex, ordinal: int) -> Response:
  """Returns the page of the year that holds a month."""
  check_month(served, ordinal)
  name, months = read_year(served, ordinal)
  first, last = months[0].ordinal, months[-1].ordinal
  rows = [row for month in months for row in month.rows]
  return rendering.render_page(
    request,
    served,
    "year.html",
    permalink=served.pin_path(f"/year/{ordinal}"),
    can_export=True,
    rows=rows,
    months=months,
    marks=corrections.find_marks(served, rows),
    neighbours=_name_neighbours(served, first, last),
    name=name,
    common_era=record_answers.format_years(served.index, first, last),
    first=first,
    last=last,
  )


def read_year(served: ServedIndex, ordinal: int) -> tuple[str, list[Month]]:
  """Returns the name and the months of the year that holds a month."""
  of_year = np.flatnonzero(served.years == served.years[ordinal]).tolist()
  name = calendars.name_year(
    served.index.calendar, of_year[0], served.index.printed_reigns
  )
  return name, [recall_month(served, month) for month in of_year]


def check_month(served: ServedIndex, ordinal: int) -> None:
  """Raises a 404 PageError if the calendar has no such month."""
  last = len(served.index.calendar) - 1
  if not 0 <= ordinal <= last:
    raise PageError(
      404, "error.month", {"ordinal": str(ordinal)[:20], "last": last}
    )


def _name_neighbours(
  served: ServedIndex, first: int, last: int
) -> dict[str, tuple[int, str]]:
  """Returns the months before and after a span, as (ordinal, name)."""
  calendar = served.index.calendar
  reigns = served.index.printed_reigns
  return {
    name: (month, calendars.name_month(calendar, month, reigns))
    for name, month in (("previous", first - 1), ("next", last + 1))
    if 0 <= month < len(calendar)
  }
