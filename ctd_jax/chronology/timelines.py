"""Months of a reign-dated calendar, as keys and as ordinals.

A chronicle writes 「隱公元年五月」, a model needs an integer. A `TimeKey` is a
month as a text names it; a `Timeline` is the calendar that numbers the months
(ordinal month, 0 = the first month of the first reign). Code outside `jit`
passes `TimeKey` and `Interval`; `input_pipeline` makes arrays of ordinals once.
"""

from __future__ import annotations

import bisect
import dataclasses
import functools
import re
from collections.abc import Iterator

from ctd_jax.utils.notes import Note

MONTHS_PER_YEAR = 12  # ordinary months; a leap month shares a number
# reign-year-month, L for a leap month.
_KEY_REGEX = re.compile(r"(\d+)-(\d+)-(\d+)(L?)")


@dataclasses.dataclass(frozen=True, order=True)
class TimeKey:
  """Month of a reign.

  Ordering is chronological within one timeline; a leap month (閏月) follows
  the ordinary month of the same number.

  Attributes:
    reign: index of the reign in its timeline, 1 = the first.
    year: regnal year, 1 = 元年.
    month: month of the year, 1-12 (1 = 正月).
    leap: whether this is the intercalary month after `month`.
  """

  reign: int
  year: int
  month: int
  leap: bool = False

  def __post_init__(self):
    for name in ("reign", "year"):
      if getattr(self, name) < 1:
        raise ValueError(
          f"{name} of a TimeKey counts from 1, got {getattr(self, name)}"
        )
    if not 1 <= self.month <= MONTHS_PER_YEAR:
      raise ValueError(f"month of a TimeKey is 1-12, got {self.month}")

  def __str__(self) -> str:
    """Returns `reign-year-month`, as in the released split map, e.g. 1-2-12."""
    return f"{self.reign}-{self.year}-{self.month}{'L' * self.leap}"

  @property
  def triple(self) -> tuple[int, int, int]:
    """(reign, year, month), all counting from 1; the leap mark is dropped."""
    return self.reign, self.year, self.month

  @classmethod
  def parse(cls, text: str) -> TimeKey:
    """Returns the key written as `reign-year-month`, e.g. `1-2-12`.

    Raises:
      ValueError: if `text` has another form; the message quotes it.
    """
    match = _KEY_REGEX.fullmatch(text)
    if match is None:
      raise ValueError(Note("problem.beir.key", text=text))
    reign, year, month, leap = match.groups()
    return cls(int(reign), int(year), int(month), bool(leap))


@dataclasses.dataclass(frozen=True, order=True)
class Interval:
  """Stretch of months, both ends included.

  Attributes:
    start: first month.
    end: last month, not before `start`.
  """

  start: TimeKey
  end: TimeKey

  def __post_init__(self):
    if self.end < self.start:
      raise ValueError(f"interval ends before it starts: {self}")

  def __str__(self) -> str:
    return f"{self.start}..{self.end}"

  def __contains__(self, key: TimeKey) -> bool:
    return self.start <= key <= self.end

  @classmethod
  def single_month(cls, key: TimeKey) -> Interval:
    """Returns the interval of one month."""
    return cls(key, key)

  def overlaps(self, second: Interval) -> bool:
    """Whether the two share at least one month. Symmetric."""
    return self.start <= second.end and second.start <= self.end


@dataclasses.dataclass(frozen=True)
class Reign:
  """Regnal years of one ruler or one era.

  Attributes:
    name: as queries write it, e.g. 「隱公」 or 「泰始」.
    state: stands before the name in a full date, e.g. 「魯」; may be "".
    accession: astronomical year of 元年 (0 = 1 BCE, -721 = 722 BCE).
    years: number of regnal years.
    aliases: other spellings (Simplified, glyph variants).
    first_month: month of 元年 in which the count began, 1-12.
  """

  name: str
  state: str
  accession: int
  years: int
  aliases: tuple[str, ...] = ()
  first_month: int = 1


@dataclasses.dataclass(frozen=True, repr=False)
class Timeline:
  """Calendar: the months that exist, in order.

  Attributes:
    name: by which configs and data sets refer to it.
    reigns: in order of time; `TimeKey.reign` is the index here plus one.
    leap_months: ordinary months that an intercalary month follows.
  """

  name: str
  reigns: tuple[Reign, ...]
  leap_months: frozenset[tuple[int, int, int]] = frozenset()

  @functools.cached_property
  def months(self) -> tuple[TimeKey, ...]:
    """Every month of the calendar in order; its index is its ordinal."""
    keys = []
    for reign, row in enumerate(self.reigns, start=1):
      for year in range(1, row.years + 1):
        for month in range(1, MONTHS_PER_YEAR + 1):
          keys.append(TimeKey(reign, year, month))
          if (reign, year, month) in self.leap_months:
            keys.append(TimeKey(reign, year, month, True))
    return tuple(keys)

  @functools.cached_property
  def _ordinal_by_key(self) -> dict[TimeKey, int]:
    return {key: ordinal for ordinal, key in enumerate(self.months)}

  def __repr__(self) -> str:
    """The name alone: rows of a table would fill a page of a traceback."""
    return f"Timeline({self.name!r})"

  def __hash__(self) -> int:
    """Hash of the name, which equal timelines share.

    Hashing thousands of months on every look-up in a cache would be slow.
    """
    return hash(self.name)

  def __len__(self) -> int:
    """Number of months."""
    return len(self.months)

  def __contains__(self, key: TimeKey) -> bool:
    return key in self._ordinal_by_key

  @property
  def class_counts(self) -> tuple[int, int, int]:
    """(reigns, longest reign in years, months per year): sizes of the heads."""
    # The year head counts regnal years of any reign, so the longest decides.
    max_years = max(reign.years for reign in self.reigns)
    return len(self.reigns), max_years, MONTHS_PER_YEAR

  def ordinal(self, key: TimeKey) -> int:
    """Returns the ordinal of a month, 0 = first month of the timeline.

    Raises:
      KeyError: if the timeline has no such month.
    """
    try:
      return self._ordinal_by_key[key]
    except KeyError:
      raise KeyError(f"timeline {self.name!r} has no month {key}") from None

  def key_at(self, ordinal: int) -> TimeKey:
    """Returns the month at `ordinal`; the inverse of `ordinal`.

    Raises:
      KeyError: if `ordinal` lies outside 0 ... len - 1.
    """
    if not 0 <= ordinal < len(self):
      raise KeyError(
        f"timeline {self.name!r} has ordinals 0..{len(self) - 1}, not {ordinal}"
      )
    return self.months[ordinal]

  def year_interval(self, reign: int, year: int) -> Interval:
    """Returns the months of a regnal year, leap months included.

    Raises:
      KeyError: if the timeline has no such year.
    """
    first = TimeKey(reign, year, 1)
    self.ordinal(first)
    # The last key that could be of this year; the one before it in order is.
    last = TimeKey(reign, year, MONTHS_PER_YEAR, True)
    position = bisect.bisect_right(self.months, last) - 1
    return Interval(first, self.months[position])

  def iterate_keys(self, interval: Interval) -> Iterator[TimeKey]:
    """Yields every month of `interval` in order."""
    first, last = self.ordinal(interval.start), self.ordinal(interval.end)
    return iter(self.months[first : last + 1])

  def interval_ordinals(self, interval: Interval) -> tuple[int, int]:
    """Returns the ordinals of both ends of `interval`."""
    return self.ordinal(interval.start), self.ordinal(interval.end)

  def full_reign_name(self, reign: int) -> str:
    """Returns state and name of a reign, e.g. 「魯隱公」."""
    row = self.reigns[reign - 1]
    return row.state + row.name
