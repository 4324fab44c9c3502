"""Extended Date/Time Format: what is known of a date as one string.

ISO 8601-2, level 2: days of the proleptic Gregorian calendar, years before the
common era as astronomical ones (-0721 is 722 BCE). A string says what holds
with 90 %:

- `0311-07-14`: one day;
- `0311-07-04/0311-08-01`: a month, or an interval of credible months;
- `[0311-07-04..0311-08-01,0313-06-11..0313-07-10]`: one of these.

Behind a day or both ends of an interval, `~` says that the most probable month
has a probability below `chronicle_dates.CERTAIN`, or that its new moon is not
known; `?`, that it is below `chronicle_dates.DOUBTFUL`. One of several needs no
mark: it says itself that the date is not certain. Of more than `MAX_PARTS`
parts the interval from first to last is written, marked with `?`.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

from ctd_jax.chronology import civil_dates
from ctd_jax.dating.chronicle.chronicle_dates import CERTAIN, DOUBTFUL
from ctd_jax.dating.chronicle.section_days import DaySpan

MAX_PARTS = 12


def format_edtf(
  spans: Sequence[DaySpan], probability: float, is_approximate: bool = False
) -> str:
  """Returns spans of days in EDTF; "" if there are none.

  Args:
    spans: first and last days, Julian day numbers, in order and disjoint.
    probability: of the most probable month.
    is_approximate: whether the ends of the spans are not known to the day.
  """
  if not spans:
    return ""
  if 1 < len(spans) <= MAX_PARTS:
    return f"[{','.join(_format_span(span, '..') for span in spans)}]"
  if probability < DOUBTFUL or len(spans) > 1:
    mark = "?"
  else:
    mark = "~" if probability < CERTAIN or is_approximate else ""
  return _format_span((spans[0][0], spans[-1][1]), "/", mark)


def _format_span(span: DaySpan, separator: str, mark: str = "") -> str:
  days = span[:1] if span[0] == span[1] else span
  return separator.join(f"{format_gregorian_day(day)}{mark}" for day in days)


@functools.lru_cache(maxsize=1 << 16)
def format_gregorian_day(julian_day: int) -> str:
  """Returns a day as ISO 8601 writes it, -0721-02-22."""
  return civil_dates.format_date(civil_dates.to_gregorian_dates(julian_day))


def format_julian_day(julian_day: int) -> str:
  """Returns a day in the Julian calendar, written likewise."""
  return civil_dates.format_date(civil_dates.to_julian_dates(julian_day))
