"""Dates of queries: the months that a question asks for.

A query names one date (a month, a year, a season of a year) or a range of two,
and the window around it, if any: `query_mentions` finds the dates,
`query_windows` the months that are meant.

Axes: Q queries.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from absl import logging
from jaxtyping import Int32

from ctd_jax.chronology import query_mentions, query_windows
from ctd_jax.chronology.common_era_years import find_open_window
from ctd_jax.chronology.numerals import DateError, fold_script
from ctd_jax.chronology.query_calendar import (
  Months,
  QueryCalendar,
  TimelineMonths,
)
from ctd_jax.chronology.query_mentions import MentionSearch
from ctd_jax.chronology.timelines import Interval, Timeline


def parse_interval(text: str, timeline: Timeline) -> Interval:
  """Returns the interval that a query asks for.

  Args:
    text: a whole query, e.g. 「魯成公七年正月之前半年內，有何記事？」.
    timeline: calendar; the window is clipped to it.

  Raises:
    DateError: as `resolve_mentions`.
  """
  calendar = TimelineMonths(timeline)
  search = query_mentions.find_mentions(text, calendar)
  first, last = resolve_mentions(text, search, calendar)
  return Interval(timeline.key_at(first), timeline.key_at(last))


def resolve_mentions(
  text: str, search: MentionSearch, calendar: QueryCalendar
) -> Months:
  """Returns the months that a query asks for.

  Args:
    text: a whole query.
    search: the dates that it names.
    calendar: whose months are asked for; the window is clipped to it.

  Raises:
    DateError: if there is no full date, one of several reigns, or the window
      cannot be read, runs backwards or lies outside the calendar.
  """
  mentions = search.mentions
  num_full = sum(mention.is_full for mention in mentions)
  if len(search.years) == 1 and num_full == 1:
    months = _find_open_months(text, search, calendar)
    if months is not None:
      return months
  # Without any reign beside its year, one named elsewhere may be meant.
  if not num_full:
    mentions = query_mentions.with_lone_reign(mentions, text, calendar.timeline)
  try:
    return query_windows.resolve_window(fold_script(text), mentions, calendar)
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
      f"the window lies outside timeline {calendar.timeline.name!r}",
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
  """Returns the months each query asks for, None where they cannot be read.

  A warning counts the unread queries and quotes the first.

  Args:
    queries: texts [Q].
    timeline: their calendar.
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

  Args:
    queries: texts [Q].
    timeline: their calendar.

  Returns:
    Ordinal months, 0 = first of the timeline, both ends included. A query
    whose date cannot be read asks for the whole timeline.
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
    timeline: their calendar.
  """
  full_timeline = 0, len(timeline) - 1
  bounds = [
    timeline.interval_ordinals(interval) if interval else full_timeline
    for interval in intervals
  ]
  # Without queries the list is flat: the reshape gives it two columns.
  return np.array(bounds, np.int32).reshape(-1, 2)
