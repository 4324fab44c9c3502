"""The ten periods of CTM and the arithmetic of years.

Years are written as by historians: -278 is 278 BCE, there is no year 0. The
published timeline has inconsistencies, which are settled here once:

- 先秦 runs to -206, so 秦 (-221..-206) lies in it.
- A boundary year belongs to two periods. A period is half-open here and the
  later one wins (220 is 六朝); grading accepts both (`list_acceptable_labels`).
- 六朝 and 隋 overlap from 581 to 589: the later one wins, both are accepted.
- 唐 ends in 906 and 五代 begins in 907. 唐 lasted into 907: 906 is 唐 only, 907
  is 五代 and accepted as 唐.
- 元 begins in 1279, with the end of 宋, not in 1271.
- 1912 belongs to 清, since no period comes after it.
- Regimes that share their time with a period of another name (辽, 金, 西夏,
  十国) are mapped by convention and marked; 新 and 南明 lie inside 汉 and 清.

Source: CTM paper, timeline table.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Sequence


@dataclasses.dataclass(frozen=True)
class Period:
  """One of the ten periods.

  Attributes:
    index: 0 (earliest) to 9.
    label: name in Simplified script.
    start: first year.
    end: year in which the period ended, also the first year of the next.
    traditional: name in Traditional script.
  """

  index: int
  label: str
  start: int
  end: int
  traditional: str


PERIODS = tuple(
  Period(index, *row)
  for index, row in enumerate(
    (
      ("先秦", -2100, -206, "先秦"),
      ("汉", -206, 220, "漢"),
      ("六朝", 220, 589, "六朝"),
      ("隋", 581, 618, "隋"),
      ("唐", 618, 907, "唐"),
      ("五代", 907, 960, "五代"),
      ("宋", 960, 1279, "宋"),
      ("元", 1279, 1368, "元"),
      ("明", 1368, 1644, "明"),
      ("清", 1644, 1912, "清"),
    )
  )
)
LABELS = tuple(period.label for period in PERIODS)
_BY_LABEL = {period.label: period for period in PERIODS}
FIRST_YEAR, LAST_YEAR = PERIODS[0].start, PERIODS[-1].end


def get_period(label: str) -> Period:
  """Returns the period of a label.

  Raises:
    ValueError: if there is no such label; the message lists all.
  """
  if label not in _BY_LABEL:
    raise ValueError(f"no period {label!r}; there are {'、'.join(LABELS)}")
  return _BY_LABEL[label]


def _to_astronomical(year: int) -> int:
  """Returns the astronomical year (1 BCE is 0), whose differences are true."""
  if year == 0:
    raise ValueError("year 0: there is none; 1 BCE is -1 and 1 CE is 1")
  return year if year > 0 else year + 1


def find_period(year: int) -> Period | None:
  """Returns the period of a year, None outside -2100..1912.

  Raises:
    ValueError: for year 0.
  """
  _to_astronomical(year)
  # From the latest: where two periods overlap the later one wins.
  for candidate in reversed(PERIODS):
    is_final_year = candidate is PERIODS[-1] and year == candidate.end
    if candidate.start <= year < candidate.end or is_final_year:
      return candidate
  return None


def list_acceptable_labels(year: int) -> tuple[str, ...]:
  """Returns the labels of all periods with a year, earliest first.

  Unlike `find_period`, both ends of a period count.

  Raises:
    ValueError: for year 0.
  """
  _to_astronomical(year)
  return tuple(p.label for p in PERIODS if p.start <= year <= p.end)


def list_span_labels(start: int, end: int) -> tuple[str, ...]:
  """Returns the labels of all years from `start` to `end`, earliest first.

  Raises:
    ValueError: for year 0 or an end before the start.
  """
  if _to_astronomical(end) < _to_astronomical(start):
    raise ValueError(f"{start}..{end}: the end lies before the start")
  touched = set()
  # A period is touched at an end of the span, or it begins inside.
  for candidate in PERIODS:
    for year in (start, end, candidate.start):
      if (
        start <= year <= end
        and (touched_period := find_period(year)) is not None
      ):
        touched.add(touched_period)
  return tuple(p.label for p in sorted(touched, key=lambda p: p.index))


def count_periods_between(first: str, second: str) -> int:
  """Returns how many periods apart two labels are: 0 same, 1 adjacent."""
  return abs(get_period(first).index - get_period(second).index)


def count_years_between(first: int, second: int) -> tuple[int, int]:
  """Returns the years from one to the other: true, and with a year 0.

  The paper adds the numbers of BCE and CE years, i.e. counts a year 0: from
  -278 to 701 there are 978 years, 979 by that convention.

  Raises:
    ValueError: for year 0.
  """
  true_years = abs(_to_astronomical(second) - _to_astronomical(first))
  return true_years, abs(second - first)


def sum_years_along(years: Sequence[int]) -> tuple[int, int]:
  """Returns `count_years_between`, summed over the steps of a chain."""
  steps = [count_years_between(a, b) for a, b in itertools.pairwise(years)]
  return sum(true_years for true_years, _ in steps), sum(
    naive_years for _, naive_years in steps
  )


def sort_labels(labels: Iterable[str]) -> tuple[str, ...]:
  """Returns labels without repetition, earliest first."""
  label_set = set(labels)
  return tuple(label for label in LABELS if label in label_set)
