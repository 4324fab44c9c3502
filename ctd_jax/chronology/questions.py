"""Dates of queries: the months that a question asks for.

A query names one date (a month, a year, a season of a year) or a range of two,
and the window around it, if any: `mentions` finds the dates,
`windows` the months that are meant. A question without a full date, such
as 「隱公時，衛桓公葬在何時？」, has a vague date: the set of the months that it
admits.

Axes: Q queries, K months."""

import dataclasses
import re
from collections.abc import Sequence

import numpy as np
from absl import logging
from jaxtyping import Bool, Int, Int32

from ctd_jax.chronology import dates, windows
from ctd_jax.chronology import mentions as mentions_lib
from ctd_jax.chronology.dates import FIRST_MONTH_OF_SEASON, DateCue
from ctd_jax.chronology.mentions import MentionSearch
from ctd_jax.chronology.numerals import DateError, fold_script
from ctd_jax.chronology.query_calendar import (
  Months,
  QueryCalendar,
  TimelineMonths,
)
from ctd_jax.chronology.reigns import MONTHS_PER_SEASON, Interval, Timeline
from ctd_jax.chronology.western_dates import find_open_window
from ctd_jax.utils.notes import Note


def parse_interval(text: str, timeline: Timeline) -> Interval:
  """Returns the interval that a query asks for.

  Raises:
    DateError: see `resolve_mentions`.
  """
  calendar = TimelineMonths(timeline)
  search = mentions_lib.find_mentions(text, calendar)
  first, last = resolve_mentions(text, search, calendar)
  return Interval(timeline.key_at(first), timeline.key_at(last))


def resolve_mentions(
  text: str, search: MentionSearch, calendar: QueryCalendar
) -> Months:
  """Returns the months that a query asks for.

  Args:
    search: the dates that it names.
    calendar: calendar of the months; the window is clipped to it.

  Raises:
    DateError: if there is no full date, one of several reigns, or the window
      cannot be read, runs backwards or is outside the calendar.
  """
  mentions = search.mentions
  num_full = sum(mention.is_full for mention in mentions)
  if len(search.years) == 1 and num_full == 1:
    months = _find_open_months(text, search, calendar)
    if months is not None:
      return months
  # Without any reign beside its year, one named elsewhere may be meant.
  if not num_full:
    mentions = mentions_lib.with_lone_reign(mentions, text, calendar.timeline)
  try:
    return windows.resolve_window(fold_script(text), mentions, calendar)
  except DateError as error:
    # The window was read in folded text; the error quotes the text as given.
    raise DateError(error.problem, text, error.position) from None


def _find_open_months(
  text: str, search: MentionSearch, calendar: QueryCalendar
) -> Months | None:
  """Returns the months on a side of a year, as "before 1069 CE" asks."""
  (year,) = search.years
  side = find_open_window(text, year)
  if side is None:
    return None
  (low, high) = next(
    mention.months
    for mention in search.mentions
    if mention.start == year.start and mention.months
  )
  months = {
    "before": Months(0, low - 1),
    "until": Months(0, high),
    "since": Months(low, len(calendar) - 1),
    "after": Months(high + 1, len(calendar) - 1),
  }[side]
  if months.last < months.first:
    raise DateError(
      Note("problem.date.window", calendar=calendar.timeline.name),
      text,
      year.start,
    )
  return months


def parse_query_interval(text: str, timeline: Timeline) -> Interval | None:
  """Returns the months a query asks for, or None if they cannot be read."""
  try:
    return parse_interval(text, timeline)
  except DateError:
    return None


def parse_query_intervals(
  queries: Sequence[str], timeline: Timeline
) -> list[Interval | None]:
  """Returns the months each query asks for, None if they cannot be read.

  A warning counts the unread queries and quotes the first.
  """
  intervals = [parse_query_interval(text, timeline) for text in queries]
  undated_queries = [
    text
    for text, interval in zip(queries, intervals, strict=True)
    if interval is None
  ]
  if undated_queries:
    logging.warning(
      "no date read in %d of %d queries; first: %s",
      len(undated_queries),
      len(queries),
      undated_queries[0],
    )
  return intervals


def read_query_intervals(
  queries: Sequence[str], timeline: Timeline
) -> Int32[np.ndarray, "Q 2"]:
  """Returns first and last ordinal month that each query asks for.

  Both ends are included, 0 is the first of the timeline. A query whose date
  cannot be read asks for the whole timeline.
  """
  return find_interval_bounds(
    parse_query_intervals(queries, timeline), timeline
  )


def find_interval_bounds(
  intervals: Sequence[Interval | None], timeline: Timeline
) -> Int32[np.ndarray, "Q 2"]:
  """Returns first and last ordinal month of intervals.

  Args:
    intervals: None stands for the whole timeline.
  """
  full_timeline = 0, len(timeline) - 1
  bounds = [
    timeline.interval_ordinals(interval) if interval else full_timeline
    for interval in intervals
  ]
  # Without queries the list is flat: the reshape gives it two columns.
  return np.array(bounds, np.int32).reshape(-1, 2)


# The year that is asked for: of 「哪一年的五月」 the month is known.
_ASKED_YEAR = re.compile("(?:哪一?|[何幾])年[的之]?")
# 夏天, 秋季; not 「秋天王」, 「冬季孫」.
SEASON_WORD = re.compile(
  "(?<=[春夏秋冬])(?:天(?![王子下])|季(?![孫子友姬札氏]))"
)
_PAIR_LENGTH = 2  # characters of a sexagenary day


@dataclasses.dataclass(frozen=True, eq=False)
class VagueDate:
  """The time that a question states."""

  # That it admits; None if it says nothing of them.
  months: Bool[np.ndarray, " K"] | None
  rest: str  # the question with blanks where it says so


def read_vague_date(text: str, timeline: Timeline) -> VagueDate:
  """Returns the months that a question without an interval admits.

  It reads reign, year, season and month. Anything that contradicts what was
  read before, such as a second date, is not treated as a date.
  """
  folded = fold_script(text)
  # A clause ends there, so that what follows opens one, as dates do.
  folded = _ASKED_YEAR.sub(lambda match: "。" * len(match[0]), folded)
  reign_of, year_of, month_of, is_leap = (
    np.array([getattr(key, name) for key in timeline.months])
    for name in ("reign", "year", "month", "leap")
  )
  admitted, spans = np.ones(len(timeline), bool), []
  for suffix in mentions_lib.REIGN_SUFFIX.finditer(folded):
    start, reigns = mentions_lib.find_named_reigns(
      folded, suffix.start(), timeline
    )
    if reigns:
      admitted = np.isin(reign_of, reigns)
      spans.append((start, suffix.end()))
      break
  for cue in dates.find_date_cues(folded, timeline):
    if any(cue.start < end and start < cue.end for start, end in spans):
      continue
    months = admitted.copy()
    if cue.reign:
      months &= np.isin(reign_of, _find_reigns(cue, text, timeline))
    if cue.year:
      months &= year_of == cue.year
    months &= match_cue(cue, month_of, is_leap, exact_leap=False)
    if months.any() and not np.array_equal(months, admitted):
      admitted = months
      # The day may be printed, so it stays a word.
      end = cue.end - (_PAIR_LENGTH if cue.day else 0)
      if cue.season and not (cue.month or cue.day):
        end += SEASON_WORD.match(folded, end) is not None
      spans.append((cue.start, end))
  if not spans:
    return VagueDate(None, text)
  characters = list(text)
  for start, end in spans:
    characters[start:end] = " " * (end - start)
  return VagueDate(admitted, "".join(characters))


def match_cue(
  cue: DateCue,
  month_of: Int[np.ndarray, " K"],
  is_leap: Bool[np.ndarray, " K"],
  exact_leap: bool,
  last_cue: DateCue | None = None,
) -> Bool[np.ndarray, " K"]:
  """Returns which months have the number, season and leap mark of a date.

  Args:
    month_of: number of each month in its year, 1-12.
    exact_leap: whether 「五月」 leaves out leap months, and 「閏月」 the others
      even in a calendar that marks none.
    last_cue: end of a range, whose months include leap months.
  """
  matches = np.ones(len(month_of), bool)
  if cue.month or cue.season:
    first, last = _month_numbers(cue)
    if last_cue is not None:
      last = _month_numbers(last_cue)[1]
    matches = (first <= month_of) & (month_of <= last)
  if exact_leap and last_cue is None and (cue.leap or cue.month):
    matches &= is_leap == cue.leap
  elif not exact_leap and cue.leap and is_leap.any():
    matches &= is_leap
  return matches


def _month_numbers(cue: DateCue) -> tuple[int, int]:
  if cue.month:
    return cue.month, cue.month
  first = FIRST_MONTH_OF_SEASON.get(cue.season, 1)
  return first, first + MONTHS_PER_SEASON - 1


def _find_reigns(cue: DateCue, text: str, timeline: Timeline) -> list[int]:
  """Returns the numbers of the reigns that a cue may mean."""
  try:
    search = mentions_lib.find_mentions(text, TimelineMonths(timeline))
  except DateError:
    return []
  return [
    number
    for mention in search.mentions
    if mention.start == cue.start
    for number in mention.reigns
  ]


# Date that a record states of itself, in a heading or where its text opens.


# A date further inside a text is a cross-reference, not the record's own.
_MAX_OPENING = 4  # characters that may come before the record's own date
# 「【晉紀 晉武帝泰始元年正月】…」: what is in it dates the record.
_HEADING = re.compile(r"\s*[【〔\[]([^】〕\]]*)[】〕\]]")


def find_stated_interval(text: str, timeline: Timeline) -> Interval | None:
  """Returns the months of the timeline that a record states of itself, or None.

  A heading in brackets may state a month, a season or a year; at the start of
  the text itself, a month.
  """
  heading = _HEADING.match(text)
  if heading:
    interval = parse_query_interval(heading[1], timeline)
    if interval is not None:
      return interval
  for start, _, key in dates.find_full_dates(text, timeline):
    if start <= _MAX_OPENING:
      return Interval.single_month(key)
    break
  return None
