"""Calendar of a build, and the months that data sets give their records.

A month is a time key of the data set (1-2-12, 1-2-12L for a leap month), a year
of it (1-2), or a date that the index's calendar can read (「隱公三年春」,
0975-10, 311 CE). `start` and `end` are an interval.

Axes: n records of a work, K lunations of the calendar, T months of a timeline.
"""

import pathlib
import re
from collections.abc import Sequence

import numpy as np
from jaxtyping import Int

from ctd_jax.chronology.reigns import TimeKey, Timeline
from ctd_jax.dating.chronicle import calendar as calendar_lib
from ctd_jax.dating.chronicle import chronicle_input, western, written_dates
from ctd_jax.dating.chronicle.calendar import Calendar
from ctd_jax.dating.corpus import UNKNOWN
from ctd_jax.index import calendars
from ctd_jax.index.building.sources import SourceRecord, SourceWork
from ctd_jax.utils.notes import Note

_REGNAL_YEAR = re.compile(r"(\d{1,3})-(\d+)")
_TIME_KEY = re.compile(r"\d+-\d+-\d+L?")


def open_calendar(
  folder: pathlib.Path,
  works: Sequence[SourceWork],
  reigns: str | None,
  is_first: bool,
) -> Calendar:
  """Returns the calendar of the index; the first build writes it.

  Args:
    reigns: see `choose_calendar`.
    is_first: whether no build has finished in the folder yet.
  """
  if not is_first:
    calendar = calendars.load_index_calendar(folder)
    if reigns is not None:
      _, asked = choose_calendar(works, reigns)
      if calendars.hash_calendar(asked) != calendars.hash_calendar(calendar):
        raise ValueError(
          f"--reigns={reigns}: the index has another calendar, "
          f"{calendar.timeline.name}; omit the flag, or build a new index"
        )
    return calendar
  if not works:
    raise ValueError(f"--index={folder}: no index there; --add builds one")
  spec, calendar = choose_calendar(works, reigns)
  calendars.write_index_calendar(folder, calendar, spec)
  return calendar


def choose_calendar(
  works: Sequence[SourceWork], reigns: str | None
) -> tuple[str, Calendar]:
  """Returns the value of --reigns, or the timeline's name, and the calendar.

  Args:
    reigns: see `chronicle_input.load_reigns`; None if the works name it.
  """
  entries = [entry for work in works for entry in work.entries]
  if reigns is not None:
    return reigns, chronicle_input.load_reigns(reigns, entries)
  timelines = {
    work.timeline.name: work.timeline for work in works if work.timeline
  }
  if len(timelines) > 1:
    raise ValueError(
      Note("problem.calendar.several", names=", ".join(timelines))
    )
  if timelines:
    ((name, timeline),) = timelines.items()
    return name, calendar_lib.make_calendar(timeline)
  try:
    calendar = western.load_western_calendar(western.COMMON_ERA, entries)
  except ValueError:
    raise ValueError(Note("problem.calendar.none")) from None
  return calendar.timeline.name, calendar


class DateReader:
  """Reads the dates of records, remembering those it has read."""

  def __init__(self, calendar: Calendar, timeline: Timeline | None):
    self.calendar = calendar
    self.timeline = timeline
    self.lunation_of = (
      None
      if timeline is None
      else calendar_lib.map_time_keys(timeline, calendar)
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
      months = written_dates.find_months(date, self.calendar).nonzero()[0]
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
