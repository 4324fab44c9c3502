"""What is known of a month: its records by work and event, its days, its names.

Axes: K months.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np

from ctd_jax.chronology import civil_dates, numerals, sexagenary
from ctd_jax.index import calendars
from ctd_jax.index.answers import record_answers
from ctd_jax.index.storage import database
from ctd_jax.web import event_alignment
from ctd_jax.web.event_alignment import UsualWording, WorkText

if TYPE_CHECKING:
  from ctd_jax.web.served_index import ServedIndex

MAX_RECORDS = 300  # of a month that are shown
MAX_DOUBTFUL = 40
_MIN_PROBABILITY = 0.5  # of the month, to stand in its columns
_MIN_DOUBT = 0.05  # to be named below them
_USUAL_MONTHS = 36  # on either side, for what wording is usual
_OPENING = 60  # characters of a text, for what it begins with
_MONTHS_AT_ONCE = 12  # that have the same wording as usual
_MAX_USUAL = 600  # texts of these; more say the same
_MIN_DAY_CHANCE = 0.05  # of a day, where calendars are not known to the day


@dataclasses.dataclass(frozen=True)
class MonthRecord:
  """A record of a month.

  Attributes:
    row: in the index.
    work: name of its work.
    text: as printed.
    kind: of the record.
    probability: that it is of the month.
    date_end: end of the date by which the text begins, 0 without one.
  """

  row: int
  work: str
  text: str
  kind: str
  probability: float
  date_end: int


@dataclasses.dataclass(frozen=True)
class MissingWork:
  """A work without a record of a month.

  Attributes:
    name: of the work.
    title: likewise.
    is_silent: whether it has records before and after the month.
    span: the time of its records; "" without any.
  """

  name: str
  title: str
  is_silent: bool
  span: str


@dataclasses.dataclass(frozen=True)
class CalendarDay:
  """A day of a month.

  Attributes:
    number: in the month, from 1; None if that is not known.
    name: sexagenary.
    date: of the Julian calendar, from 1582-10-15 on of the Gregorian; "" if
      that is not known.
    chance: that the month has it.
    rows: of the records that print it.
  """

  number: int | None
  name: str
  date: str
  chance: float
  rows: tuple[int, ...]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Month:
  """What is known of a month.

  Attributes:
    ordinal: of the month.
    month: as `calendars.describe_month` says it.
    common_era: its year.
    names: other names of it.
    works: (name, title) of the columns.
    events: records by event.
    doubtful: records that may be of the month, the likeliest first.
    missing: works without a record.
    num_left: records that are not shown, there being too many.
    days: of the month.
  """

  ordinal: int
  month: dict[str, Any]
  common_era: str
  names: tuple[str, ...]
  works: tuple[tuple[str, str], ...]
  events: tuple[tuple[MonthRecord, ...], ...]
  doubtful: tuple[MonthRecord, ...]
  missing: tuple[MissingWork, ...]
  num_left: int
  days: tuple[CalendarDay, ...]

  @property
  def num_records(self) -> int:
    """Number of records that are shown."""
    return sum(map(len, self.events))

  @property
  def table(self) -> list[list[list[MonthRecord]]]:
    """The records of each event by column."""
    column_of = {name: column for column, (name, _) in enumerate(self.works)}
    rows = []
    for event in self.events:
      rows.append([[] for _ in self.works])
      for record in event:
        rows[-1][column_of[record.work]].append(record)
    return rows

  @property
  def rows(self) -> list[int]:
    """Rows of the records that are shown, also of those that may be of it."""
    events = (*self.events, self.doubtful)
    return [record.row for event in events for record in event]


def read_month(served: ServedIndex, ordinal: int) -> Month:
  """Returns what is known of a month.

  Args:
    served: the index.
    ordinal: of the month, within the calendar.
  """
  index = served.index
  certain, doubtful = _find_records(served, ordinal)
  shown = certain[:MAX_RECORDS]
  columns = _order_columns(served, {record.work for record in shown})
  events = _align(served, ordinal, shown, columns)
  reigns = index.printed_reigns
  return Month(
    ordinal=ordinal,
    month=calendars.describe_month(index.calendar, ordinal, reigns),
    common_era=record_answers.format_years(index, ordinal, ordinal),
    names=_find_names(served, ordinal),
    works=tuple((work.name, work.title or work.name) for work in columns),
    events=events,
    doubtful=tuple(doubtful[:MAX_DOUBTFUL]),
    missing=_find_missing(served, ordinal, {work.name for work in columns}),
    num_left=len(certain) - len(shown) + max(len(doubtful) - MAX_DOUBTFUL, 0),
    days=_find_days(served, ordinal, events),
  )


def _find_records(
  served: ServedIndex, ordinal: int
) -> tuple[list[MonthRecord], list[MonthRecord]]:
  """Returns the records of a month, and those that may be of it."""
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
    (certain if is_best or chance >= _MIN_PROBABILITY else doubtful).append(
      MonthRecord(row, index.work_of(row).name, text, kind, chance, date_end)
    )
  return certain, sorted(doubtful, key=lambda it: (-it.probability, it.row))


def _order_columns(
  served: ServedIndex, names: set[str]
) -> list[database.IndexedWork]:
  """Returns works, those that tell events before those that explain them."""
  works = [work for work in served.index.works if work.name in names]
  return sorted(works, key=lambda work: work.work_id in served.commentaries)


def _align(
  served: ServedIndex,
  ordinal: int,
  records: list[MonthRecord],
  columns: list[database.IndexedWork],
) -> tuple[tuple[MonthRecord, ...], ...]:
  """Returns records by event."""
  number_of = {work.name: number for number, work in enumerate(columns)}
  by_row = {record.row: record for record in records}
  texts = sorted(
    (
      WorkText(
        record.row,
        number_of[record.work],
        record.text,
        record.text[record.date_end : _OPENING],
      )
      for record in records
    ),
    key=lambda text: (text.column, text.row),
  )
  if len(columns) < 2:
    return tuple((by_row[text.row],) for text in texts)
  events = event_alignment.align_records(
    texts, served.read_usual(ordinal // _MONTHS_AT_ONCE), ordinal
  )
  return tuple(tuple(by_row[text.row] for text in event) for event in events)


def read_usual(served: ServedIndex, stretch: int) -> UsualWording:
  """Returns the wording of the years around a stretch of months.

  Args:
    served: the index.
    stretch: number of the stretch, a year or so.
  """
  first = stretch * _MONTHS_AT_ONCE
  last = first + _MONTHS_AT_ONCE - 1
  months = served.best_months
  rows = np.flatnonzero(
    (months >= first - _USUAL_MONTHS) & (months <= last + _USUAL_MONTHS)
  )
  # Evenly drawn from all of the years.
  rows = rows[np.argsort(months[rows], kind="stable")]
  step = -(-len(rows) // _MAX_USUAL) or 1
  texts = database.fetch_columns(
    served.index.connection, rows[::step].tolist(), "text"
  )
  return UsualWording.read(
    [text for _, text in texts], months[[row for row, _ in texts]]
  )


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
  """Returns the names of a month in the reigns of its time but the first."""
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
  events: tuple[tuple[MonthRecord, ...], ...],
) -> tuple[CalendarDay, ...]:
  """Returns the days of a month; those that it may have, if not known."""
  calendar = served.index.calendar
  rows: dict[int, list[int]] = {}
  for event in events:
    for record in event:
      for day in event_alignment.find_days(record.text):
        rows.setdefault(day, []).append(record.row)
  if calendar.readings.day_spans is None:
    return _list_possible_days(served, ordinal, rows)
  reading = calendar.find_reading(ordinal, served.index.printed_reigns)
  first, length = calendar.readings.day_spans[reading].tolist()
  days = []
  for number in range(length):
    julian_day = first + number
    cyclic = sexagenary.cyclic_index_of_day(julian_day)
    date = np.array(civil_dates.to_civil_date(julian_day))
    days.append(
      CalendarDay(
        number + 1,
        sexagenary.format_cyclic_index(cyclic),
        civil_dates.format_date(date),
        1.0,
        tuple(rows.get(cyclic, ())),
      )
    )
  return tuple(days)


def _list_possible_days(
  served: ServedIndex, ordinal: int, rows: dict[int, list[int]]
) -> tuple[CalendarDay, ...]:
  """Returns the days that a month may have, in order of the cycle.

  Where it may have any, only those that its records print.
  """
  chances = served.index.day_chances[ordinal]
  possible = chances >= _MIN_DAY_CHANCE
  start = 0
  if possible.all():
    possible = np.isin(np.arange(sexagenary.CYCLE_LENGTH), list(rows))
  elif possible.any():
    # The cycle is cut where the month has no day.
    start = int(np.flatnonzero(possible & ~np.roll(possible, 1))[0])
  order = (start + np.arange(sexagenary.CYCLE_LENGTH)) % sexagenary.CYCLE_LENGTH
  return tuple(
    CalendarDay(
      None,
      sexagenary.format_cyclic_index(day),
      "",
      float(chances[day]),
      tuple(rows.get(day, ())),
    )
    for day in order[possible[order]].tolist()
  )


def name_day_number(number: int) -> str:
  """Returns a day of a month as texts count it, 初一."""
  return ("初" if number <= 10 else "") + numerals.format_numeral(number)
