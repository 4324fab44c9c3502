"""Dates of queries: the months that a question asks for.

Axes: Q queries.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from absl import logging
from jaxtyping import Int32

from ctd_jax.chronology import date_expressions
from ctd_jax.chronology.timelines import Interval, Timeline


def parse_query_interval(text: str, timeline: Timeline) -> Interval | None:
  """Returns the months a query asks for, or None if they cannot be read."""
  try:
    return date_expressions.parse_interval(text, timeline)
  except date_expressions.DateError:
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
  full_timeline = 0, len(timeline) - 1
  bounds = [
    timeline.interval_ordinals(interval) if interval else full_timeline
    for interval in parse_query_intervals(queries, timeline)
  ]
  # Without queries the list is flat: the reshape gives it two columns.
  return np.array(bounds, np.int32).reshape(-1, 2)
