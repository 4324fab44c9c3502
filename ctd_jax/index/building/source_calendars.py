"""Calendar of a build, and the months that data sets give their records.

A month is a time key of the data set (1-2-12, 1-2-12L for a leap month), a year
of it (1-2), or a date that the index's calendar can read (「隱公三年春」,
0975-10, 311 CE). `start` and `end` are an interval.

Axes: n records of a work, K lunations of the calendar, T months of a timeline.
"""

import collections
import contextlib
import dataclasses
import pathlib
import re
from collections.abc import Collection, Mapping, Sequence

import numpy as np
from absl import logging
from jaxtyping import Int

from ctd_jax.chronology.reigns import Reign, TimeKey, Timeline
from ctd_jax.dating.chronicle import calendar as calendar_lib
from ctd_jax.dating.chronicle import (
  chronicle_dating,
  chronicle_input,
  western,
  written_dates,
)
from ctd_jax.dating.chronicle.calendar import Calendar, CalendarPart
from ctd_jax.dating.corpus import UNKNOWN
from ctd_jax.index import calendars, database
from ctd_jax.index.building import work_dating
from ctd_jax.index.building.sources import (
  REIGNS_MARK,
  SourceRecord,
  SourceWork,
  read_dated_with,
)
from ctd_jax.utils.notes import Note

_REGNAL_YEAR = re.compile(r"(\d{1,3})-(\d+)")
_TIME_KEY = re.compile(r"\d+-\d+-\d+L?")
_MAX_READ = 1_000  # entries read to find out the table of a text
# A table printed this often, against the most printed one, is as good.
_MAX_RIVAL = 0.5


@dataclasses.dataclass(frozen=True)
class BuildCalendar:
  """Calendar of an index, and the tables that it is made of."""

  calendar: Calendar
  spec: str  # value of --reigns
  # Name -> rows of its reigns; empty if the index has only one table.
  tables: Mapping[str, tuple[int, ...]]
  sources: tuple[str, ...] = ()  # of the works that are there, for --add

  def find_rows(self, name: str) -> frozenset[int]:
    """Returns the rows of the reigns of tables or polities.

    Raises:
      ValueError: if the calendar lacks some.
    """
    row_of = {reign: row for row, reign in enumerate(self._reigns)}
    rows: set[int] = set()
    for part in chronicle_input.split_reigns(name):
      if part in self.tables:
        rows.update(self.tables[part])
        continue
      reigns = chronicle_input.load_reigns(part).timeline.reigns
      if not row_of.keys() >= {*reigns}:
        raise ValueError(
          Note(
            "problem.calendar.lacking",
            name=part,
            calendar=self.spec,
            sources=",".join((*self.sources, "...")),
          )
        )
      rows.update(row_of[reign] for reign in reigns)
    return frozenset(rows)

  @property
  def _reigns(self) -> tuple[Reign, ...]:
    return self.calendar.timeline.reigns

  def find_own(
    self, work: SourceWork, reigns: str | None = None
  ) -> tuple[int, ...]:
    """Returns the rows of the reigns that a work is dated by; () for all.

    Args:
      reigns: --reigns, of works that name no calendar.

    Raises:
      ValueError: if the work prints the reigns of several tables.
    """
    request = work.request
    name = (request and request.reigns) or reigns
    rows = frozenset(range(len(self._reigns)))
    if request and request.reigns:
      rows = self.find_rows(request.reigns)
    elif work.timeline is not None:
      names = {(reign.state, reign.name) for reign in work.timeline.reigns}
      rows = frozenset(
        row
        for row, reign in enumerate(self._reigns)
        if (reign.state, reign.name) in names
      )
    elif name or self.tables:
      rows = self.find_rows(name) if name else rows
      tables = {
        table: rows_of_table
        for table, rows_of_table in self.tables.items()
        if rows.issuperset(rows_of_table)
      }
      if len(tables) > 1:
        table = _detect_table(work, self.calendar, tables)
        rows = frozenset(tables[table] if table else rows)
    is_all = len(rows) in (0, len(self._reigns))
    return () if is_all else tuple(sorted(rows))


def _detect_table(
  work: SourceWork,
  calendar: Calendar,
  tables: Mapping[str, Collection[int]],
) -> str | None:
  """Returns the table whose reigns a work prints; None if it prints none."""
  entries = work.entries or work_dating.make_entries(work.records)
  step = -(-len(entries) // _MAX_READ)
  names = chronicle_dating.count_reigns(
    chronicle_dating.read_all_sections(entries[::step], calendar)
  )
  counts = collections.Counter()
  for name, count in names.items():
    rows = {*calendar.find_reigns(name)}
    for table, rows_of_table in tables.items():
      if not rows.isdisjoint(rows_of_table):
        counts[table] += count
  if not counts:
    return None
  (table, most), *others = counts.most_common()
  rivals = [table, *(it for it, count in others if count > _MAX_RIVAL * most)]
  found = ", ".join(f"{it} ({counts[it]:,})" for it in rivals)
  if len(rivals) > 1:
    raise ValueError(
      Note(
        "problem.calendar.ambiguous",
        work=work.name,
        tables=found,
        flag=f"--add={work.source}{REIGNS_MARK}{table}",
      )
    )
  logging.info(
    "%s: dated by the table whose reigns it prints, %s", *(work.name, found)
  )
  return table


def open_calendar(
  folder: pathlib.Path,
  works: Sequence[SourceWork],
  reigns: str | None,
  is_first: bool,
) -> BuildCalendar:
  """Returns the calendar of the index; the first build writes it.

  Args:
    reigns: see `choose_calendar`.
    is_first: whether no build has finished in the folder yet.
  """
  if not is_first:
    calendar = calendars.load_index_calendar(folder)
    with contextlib.closing(database.open_database(folder)) as connection:
      requests = [
        read_dated_with(work).source for work in database.list_works(connection)
      ]
    sources = [it.format_argument(folder) for it in requests if it]
    opened = BuildCalendar(
      calendar,
      *calendars.load_spec(folder),
      tuple(dict.fromkeys(sources)),
    )
    if reigns:
      opened.find_rows(reigns)  # refused before any work is read
    return opened
  if not works:
    raise ValueError(f"--index={folder}: no index there; --add builds one")
  chosen = choose_calendar(works, reigns)
  calendars.write_index_calendar(
    folder, chosen.calendar, chosen.spec, chosen.tables
  )
  return chosen


def choose_calendar(
  works: Sequence[SourceWork], reigns: str | None
) -> BuildCalendar:
  """Returns the calendar of a new index, with the months of all its works.

  Args:
    reigns: see `chronicle_input.load_reigns`; several with commas between them.
      None if the works name it.
  """
  entries = [entry for work in works for entry in work.entries]
  asked = [work.request.reigns for work in works if work.request]
  parts: dict[str, Calendar] = {}
  for name in filter(None, dict.fromkeys((reigns, *asked))):
    for part in chronicle_input.split_reigns(name):
      calendar = chronicle_input.load_reigns(part, entries)
      present = {
        reign for other in parts.values() for reign in other.timeline.reigns
      }
      if not present.issuperset(calendar.timeline.reigns):
        parts[part] = calendar
  # A data set has a calendar of its own if no other has its months.
  for work in works:
    timeline = work.timeline
    if timeline is not None and not any(
      (calendar_lib.map_time_keys(timeline, part) < len(part)).any()
      for part in parts.values()
    ):
      parts[timeline.name] = calendar_lib.make_calendar(timeline)
  if len(parts) > 1:
    spec = ",".join(parts)
    if any(map(western.is_western, parts.values())):
      raise ValueError(Note("problem.calendar.western", names=spec))
    calendar, rows = calendar_lib.join_calendars([*parts.values()], spec)
    return BuildCalendar(calendar, spec, dict(zip(parts, rows, strict=True)))
  if parts:
    ((name, calendar),) = parts.items()
    return BuildCalendar(calendar, name, {})
  try:
    calendar = western.load_western_calendar(western.COMMON_ERA, entries)
  except ValueError:
    raise ValueError(Note("problem.calendar.none")) from None
  return BuildCalendar(calendar, calendar.timeline.name, {})


class DateReader:
  """Reads the dates of records, remembering those it has read."""

  def __init__(self, part: CalendarPart, timeline: Timeline | None):
    self._part = part
    self.timeline = timeline
    self.lunation_of = (
      None
      if timeline is None
      else part.months[calendar_lib.map_time_keys(timeline, part.calendar)]
    )
    self._spans: dict[str, tuple[int, int]] = {}

  def read_known_months(self, work: SourceWork) -> Int[np.ndarray, "n 2"]:
    """Returns the first and last known month of each record, or UNKNOWN."""
    months = np.full((len(work.records), 2), UNKNOWN)
    for row, record in enumerate(work.records):
      span = self.find_months(record)
      if span is not None:
        months[row] = span
    return months

  def find_months(self, record: SourceRecord) -> tuple[int, int] | None:
    """Returns a record's first and last known month; None if hidden or unknown.

    K is outside the calendar. An end without a start allows every month up to
    it.
    """
    if record.is_hidden or (record.start is None and record.end is None):
      return None
    first, last = 0, None
    if record.start is not None:
      first, last = self._find_span(record, "start", record.start)
    if record.end is not None:
      last = self._find_span(record, "end", record.end)[1]
    if last < first:
      raise ValueError(
        Note(
          "problem.at",
          place=f"{_locate(record)}: metadata.end",
          problem=Note(
            "problem.beir.before", end=record.end, start=record.start
          ),
        )
      )
    return first, last

  def find_ordinal(self, record: SourceRecord) -> int:
    """Returns a record's month on the timeline, UNKNOWN if not just one."""
    if (
      record.is_hidden
      or record.start is None
      or record.end not in (None, record.start)
      or not _TIME_KEY.fullmatch(record.start)
    ):
      return UNKNOWN
    return self.timeline.ordinal(TimeKey.parse(record.start))

  def _find_span(
    self, record: SourceRecord, field: str, date: str
  ) -> tuple[int, int]:
    if date not in self._spans:
      try:
        self._spans[date] = self._read_span(date)
      except ValueError as error:
        raise ValueError(
          Note(
            "problem.at",
            place=f"{_locate(record)}: metadata.{field}",
            problem=error,
          )
        ) from None
    return self._spans[date]

  def _read_span(self, date: str) -> tuple[int, int]:
    ordinals = _find_ordinals(date, self.timeline)
    if ordinals is None:
      is_named = written_dates.find_months(date, self._part.calendar)
      months = self._part.months[is_named.nonzero()[0]]
      return int(months[0]), int(months[-1])
    months = [int(self.lunation_of[ordinal]) for ordinal in ordinals]
    return min(months), max(months)


def _locate(record: SourceRecord) -> str:
  return record.location or f"record {record.record_id}"


def _find_ordinals(
  date: str, timeline: Timeline | None
) -> tuple[int, ...] | None:
  is_key = _TIME_KEY.fullmatch(date)
  match = _REGNAL_YEAR.fullmatch(date)
  if not (is_key or match):
    return None
  if timeline is None:
    raise ValueError(
      Note("problem.beir.reigns", date=date, forms=written_dates.FORMS)
    )
  try:
    if is_key:
      return (timeline.ordinal(TimeKey.parse(date)),)
    reign, year = map(int, match.groups())
    return timeline.interval_ordinals(timeline.year_interval(reign, year))
  except (KeyError, ValueError) as error:
    raise ValueError(
      Note("problem.beir.timeline", date=date, calendar=timeline.name)
    ) from error
