"""Stretches of a text that are of another time than its calendar.

The annals of 周 are none of Qin and Han, whatever months they print. A stretch
begins with a heading that names a state of another time, 「周本紀」, with a
year of a ruler or era of another time, or with one past the end of an era's
table; it ends where a reign of the calendar is printed, or the heading does.

Parallel states are no other time: the calendar of 曹魏 has the months of 黃武.
"""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Sequence

from ctd_jax.chronology import calendar_tables, rulers
from ctd_jax.chronology.name_patterns import build_names_pattern
from ctd_jax.chronology.numerals import fold_script
from ctd_jax.chronology.timelines import Timeline
from ctd_jax.dating.chronicle import emissions, unknown_eras
from ctd_jax.dating.chronicle.month_calendar import Calendar
from ctd_jax.dating.chronicle.printed_dates import (
  UNKNOWN_ERA_STATEMENT,
  DateStatement,
)
from ctd_jax.dating.chronicle.sections import Section
from ctd_jax.dating.sequence import section_kinds
from ctd_jax.texts.works import Entry


def mark_outside_stretches(
  records: Sequence[Entry], sections: Sequence[Section], calendar: Calendar
) -> list[Section]:
  """Returns the sections, those of another time marked as such.

  Args:
    records: in order of the text.
    sections: of the records, in order.
    calendar: that they are to be dated by.
  """
  marked = []
  stretch = _Stretch()
  for section in sections:
    record = records[section.record]
    if record.is_heading and not section.statements:
      # Another chapter, which may go on with the count of years.
      stretch = _Stretch(known_year=stretch.known_year)
    if _is_under_other_heading(record, calendar):
      stretch = _Stretch()
      is_other = True
    else:
      statement = _find_year(section)
      if statement is not None:
        stretch.read_year(statement, _is_of_other_time(statement, calendar))
      is_other = stretch.is_of_other_time
    marked.append(dataclasses.replace(section, is_of_other_time=is_other))
  return marked


@dataclasses.dataclass
class _Stretch:
  """Whose years are being read.

  Attributes:
    is_of_other_time: whether they are of no time of the calendar.
    known_year: the last year before a stretch of another time; None once that
      goes on.
    other_year: the last year of that stretch.
  """

  is_of_other_time: bool = False
  known_year: int | None = None
  other_year: int | None = None

  def read_year(self, statement: DateStatement, is_of_other_time: bool) -> None:
    """Goes on with a year that heads a section, of another time or not."""
    kind, name, year = statement
    is_misprint = (
      kind == UNKNOWN_ERA_STATEMENT
      and not self.is_of_other_time
      and _follows(year, self.known_year)
    )
    if is_misprint:
      # 「嘉平四年」 after 熹平三年.
      self.known_year = year
    elif is_of_other_time:
      self.is_of_other_time, self.other_year = True, year
    elif not self.is_of_other_time:
      self.known_year = year
    elif name is not None or (
      _follows(year, self.known_year) and not _follows(year, self.other_year)
    ):
      # An aside: 「十二年」, a year of another, 「十三年」.
      self.is_of_other_time, self.known_year = False, year
    else:
      self.known_year, self.other_year = None, year


def list_other_headings(
  records: Sequence[Entry], calendar: Calendar
) -> dict[str, int]:
  """Returns the headings of states of another time -> records under them.

  Args:
    records: in order of the text.
    calendar: that they are dated by.
  """
  counts: dict[str, int] = {}
  for record in records:
    if _is_under_other_heading(record, calendar):
      heading = next(
        heading
        for heading in _list_headings(record)
        if _names_other_state(heading, calendar)
      )
      counts[heading] = counts.get(heading, 0) + (not record.is_heading)
  return counts


def _find_year(section: Section) -> DateStatement | None:
  """Returns the year that heads a section, of an unknown era too."""
  if section.kind not in (section_kinds.YEAR, section_kinds.NAMED):
    return None
  return next(
    (
      statement
      for statement in section.statements
      if statement[0] in ("year", UNKNOWN_ERA_STATEMENT)
    ),
    None,
  )


def _follows(year: int, last_year: int | None) -> bool:
  """Returns whether a year is the last one, or the next."""
  return last_year is not None and year in (last_year, last_year + 1)


def _is_of_other_time(statement: DateStatement, calendar: Calendar) -> bool:
  """Returns whether a year lies outside of the years of the calendar."""
  name, *values = statement
  if name != UNKNOWN_ERA_STATEMENT:
    return emissions.is_past_calendar(statement, calendar)
  years = unknown_eras.find_years(*values)
  if not years:
    # A ruler of no table; an era may be a misprint.
    return values[0].endswith(unknown_eras.RANKS)
  return all(
    not calendar.years[0] <= year <= calendar.years[-1] for year in years
  )


def _is_under_other_heading(record: Entry, calendar: Calendar) -> bool:
  """Returns whether the nearest heading that names a state names another's."""
  for heading in _list_headings(record):
    is_other = _names_other_state(heading, calendar)
    if is_other is not None:
      return is_other
  return False


def _list_headings(record: Entry) -> tuple[str, ...]:
  """Returns the headings of a record, the nearest first, its own included."""
  own = (record.text,) if record.is_heading else ()
  return (*own, *reversed(record.headings))


def _names_other_state(heading: str, calendar: Calendar) -> bool | None:
  """Returns whether a heading names a state of another time than a calendar.

  None if it names no state.
  """
  years = calendar.years
  return _match_heading(
    heading, calendar.timeline, int(years[0]), int(years[-1])
  )


@functools.lru_cache(maxsize=1024)
def _match_heading(
  heading: str, timeline: Timeline, first_year: int, last_year: int
) -> bool | None:
  """Returns what `_names_other_state` does, of the years first..last."""
  match = _heading_pattern().match(fold_script(heading))
  if match is None:
    return None
  name = match["state"]
  return name not in _list_states(timeline) and all(
    last < first_year or first > last_year
    for first, last in _index_states()[name]
  )


@functools.cache
def _heading_pattern() -> re.Pattern[str]:
  """Returns the pattern of a heading 「周本紀第四」, folded."""
  states = build_names_pattern(_index_states())
  return re.compile(rf"[\W\d]*(?P<state>{states})[朝國]?[本帝]?[紀记]")


@functools.cache
def _index_states() -> dict[str, tuple[tuple[int, int], ...]]:
  """Returns folded name of a state -> first and last year of each of it."""
  spans: dict[str, set[tuple[int, int]]] = {}
  for state in calendar_tables.load_early_states():
    for name in state.names:
      spans.setdefault(fold_script(name), set()).add(
        (state.first_year, state.last_year)
      )
  for era in calendar_tables.load_eras():
    span = (era.first_year, era.first_year + era.years - 1)
    for name in calendar_tables.list_printed_names(era.polity):
      spans.setdefault(fold_script(name), set()).add(span)
  return {name: tuple(found) for name, found in spans.items()}


@functools.lru_cache(maxsize=8)
def _list_states(timeline: Timeline) -> frozenset[str]:
  """Returns the folded names of the states of a timeline."""
  states = {reign.state for reign in timeline.reigns} - {""}
  return frozenset(
    name for state in states for name in rulers.ruler_names(state).dynasties
  )
