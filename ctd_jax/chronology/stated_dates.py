"""Date that a record states of itself, in a heading or where its text opens."""

from __future__ import annotations

import re

from ctd_jax.chronology import date_expressions, query_dates
from ctd_jax.chronology.timelines import Interval, Timeline

# A date further inside a text is a cross-reference, not the record's own.
_MAX_OPENING = 4  # characters that may stand before the record's own date
# 「【晉紀 晉武帝泰始元年正月】…」: what stands in it is of the record.
_HEADING = re.compile(r"\s*[【〔\[]([^】〕\]]*)[】〕\]]")


def find_stated_interval(text: str, timeline: Timeline) -> Interval | None:
  """Returns the months that a record states of itself, or None.

  A heading in brackets may state a month, a season or a year; at the start of
  the text itself, a month.

  Args:
    text: of a record.
    timeline: calendar in which the date is read.
  """
  heading = _HEADING.match(text)
  if heading:
    interval = query_dates.parse_query_interval(heading[1], timeline)
    if interval is not None:
      return interval
  for start, _, key in date_expressions.find_full_dates(text, timeline):
    if start <= _MAX_OPENING:
      return Interval.single_month(key)
    break
  return None
