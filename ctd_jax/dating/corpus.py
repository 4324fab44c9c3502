"""What the texts of a gallery say of themselves, before anything is learned.

Why: the experts share one reading of the texts: the date that opens a record,
the days it names, the month that a placeholder states, and its characters in
one spelling. Nothing but text goes in. `Labels` is all that may be known of
records besides; what is not there cannot leak. Called by every module of this
package.

Axes: N records, K months, Y regnal years of the timeline.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import re
import zlib
from collections.abc import Sequence

import numpy as np

from ctd_jax.chronology import (
  date_expressions,
  numerals,
  reign_tables,
  sexagenary,
)
from ctd_jax.chronology.timelines import Timeline

UNKNOWN = -1
# An opening date: a month 1-12, a season alone (13-16), a leap month without a
# number (17) or none of them.
NO_OPENING = 0
_LEAP = 17
OPENINGS = 18
# How an opening is put: with the season's name before a month, with nothing
# after it, and both.
MANNERS = 4
_OPENING_WITHIN = 2  # characters that may stand before a record's own date
_LONGEST_PLACEHOLDER = 30  # characters
_MOST_DAYS = 4
_MOST_YEARS = 100  # of a reign
_NOT_HAN = re.compile("[^\u3400-\u9fff\U00020000-\U0003ffff]")
# One name in two works; pairs of glyphs that prints confuse.
_NAMES = {"邾婁": "邾"}
_GLYPHS = str.maketrans({"已": "己", "巳": "己", "于": "於", "夘": "卯"})


@dataclasses.dataclass(frozen=True)
class Axis:
  """The months of a timeline, grouped by regnal years.

  Attributes:
    timeline: the calendar.
  """

  timeline: Timeline

  def __len__(self) -> int:
    """Number of months K."""
    return len(self.timeline)

  @functools.cached_property
  def month(self) -> np.ndarray:
    """Month of the year of every month, 1-12, int [K]."""
    return np.array([key.month for key in self.timeline.months])

  @functools.cached_property
  def _pairs(self) -> list[tuple[int, int]]:
    return list(
      dict.fromkeys((key.reign, key.year) for key in self.timeline.months)
    )

  @functools.cached_property
  def year_of(self) -> np.ndarray:
    """Index of the regnal year of every month, int [K]."""
    index = {pair: place for place, pair in enumerate(self._pairs)}
    return np.array(
      [index[key.reign, key.year] for key in self.timeline.months]
    )

  @functools.cached_property
  def starts(self) -> np.ndarray:
    """First month of every regnal year, int [Y]."""
    return np.flatnonzero(np.diff(self.year_of, prepend=-1))

  @functools.cached_property
  def reign(self) -> np.ndarray:
    """Reign of every regnal year, from 0, int [Y]."""
    return np.array([reign - 1 for reign, _ in self._pairs])

  @functools.cached_property
  def number(self) -> np.ndarray:
    """Number of every regnal year, 1 = 元年, int [Y]."""
    return np.array([year for _, year in self._pairs])

  @functools.cached_property
  def civil_year(self) -> np.ndarray:
    """Astronomical year of every regnal year, int [Y]."""
    return np.array(
      [
        reign_tables.year_of(self.timeline, self.timeline.key(int(start)))
        for start in self.starts
      ]
    )

  @property
  def years(self) -> int:
    """Number of regnal years Y."""
    return len(self.starts)

  @functools.cached_property
  def _indices(self) -> np.ndarray:
    table = np.full((self.reign.max() + 2, _MOST_YEARS + 2), UNKNOWN)
    table[self.reign, self.number] = np.arange(self.years)
    return table

  def index(self, reign: np.ndarray, number: np.ndarray) -> np.ndarray:
    """Returns indices of regnal years, UNKNOWN where there is none, int.

    Args:
      reign: from 0, or UNKNOWN.
      number: of the year, 1 = 元年; of the same shape, or one that spreads.
    """
    return self._indices[reign, np.minimum(number, _MOST_YEARS + 1)]

  def to_years(self, log_months: np.ndarray) -> np.ndarray:
    """Returns log masses of years [n, Y] from log masses of months [n, K]."""
    return np.logaddexp.reduceat(log_months, self.starts, axis=1)


@dataclasses.dataclass(frozen=True)
class Labels:
  """All that is known of records besides their texts.

  Attributes:
    month: ordinal month of each record, UNKNOWN where hidden, int [N].
    answers: 1 if the record is of a kind that can answer, 0 if commentary,
      UNKNOWN where hidden, int [N].
  """

  month: np.ndarray
  answers: np.ndarray

  @property
  def known(self) -> np.ndarray:
    """Whether the month of a record is known, bool [N]."""
    return self.month != UNKNOWN

  def hide(self, rows: np.ndarray) -> Labels:
    """Returns labels without those of `rows` (bool [N])."""
    return Labels(
      np.where(rows, UNKNOWN, self.month), np.where(rows, UNKNOWN, self.answers)
    )


@dataclasses.dataclass(frozen=True)
class Gallery:
  """The records of a gallery as their texts present them.

  Attributes:
    axis: the months that they may be of.
    texts: as given, [N].
    plain: Han characters alone, in one spelling, [N].
    bodies: `plain` without the date that opens a text, [N].
    opening: month (1-12), season (13-16) or leap month (17) that opens a text,
      int [N].
    manner: of the opening, 0-3: 1 if a season stands before the month, plus 2
      if the opening is all of the text, int [N].
    number: regnal year that opens a text, 0 if none, int [N].
    days: sexagenary days of a text's opening month, from 0 = 甲子, [N] tuples.
    mark: what the text says of the place of its first day, one of
      `cyclic_days.MARKS`, int [N].
    states: month that a text states in full at its opening and says little
      else, as a placeholder does; UNKNOWN for the others, int [N].
  """

  axis: Axis
  texts: tuple[str, ...]
  plain: tuple[str, ...]
  bodies: tuple[str, ...]
  opening: np.ndarray
  manner: np.ndarray
  number: np.ndarray
  days: tuple[tuple[int, ...], ...]
  mark: np.ndarray
  states: np.ndarray

  def __len__(self) -> int:
    return len(self.texts)

  @functools.cached_property
  def keys(self) -> np.ndarray:
    """A number made of each text, uint32 [N]."""
    return np.array(
      [zlib.crc32(text.encode()) for text in self.texts], np.uint32
    )

  def sample(self, most: int) -> np.ndarray:
    """Returns about `most` records, all if there are no more, ascending.

    Which ones is decided by their texts, so the order plays no part.
    """
    return np.flatnonzero(self.keys % np.uint32(max(1, len(self) // most)) == 0)

  @functools.cached_property
  def first_day(self) -> np.ndarray:
    """Sexagenary day that a text names first, UNKNOWN if none, int [N]."""
    return np.array([days[0] if days else UNKNOWN for days in self.days], int)

  @functools.cached_property
  def first_month(self) -> np.ndarray:
    """Month that opens a text, that of a season the first; 0 if none, [N]."""
    months = np.array([*range(13), 1, 4, 7, 10, 0])
    return months[self.opening]


def plain_text(text: str) -> str:
  """Returns the Han characters of `text` in one spelling."""
  text = numerals.fold(text)
  for name, other in _NAMES.items():
    text = text.replace(name, other)
  return _NOT_HAN.sub("", text.translate(_GLYPHS))


def read(texts: Sequence[str], timeline: Timeline) -> Gallery:
  """Returns what `texts` [N] say of themselves.

  Args:
    texts: of the records, in any order.
    timeline: the calendar they are dated in.
  """
  axis = Axis(timeline)
  openings, numbers, days, states, bodies = [], [], [], [], []
  manners, marks = [], []
  plain = tuple(map(plain_text, texts))
  for text, whole in zip(texts, plain, strict=True):
    cues = date_expressions.find_cues(text, timeline)
    first = cues[0] if cues and cues[0].start <= _OPENING_WITHIN else None
    openings.append(_opening_class(first))
    numbers.append(first.year or 0 if first else 0)
    own, mark = _own_days(cues, text) if first else ((), sexagenary.ANY)
    days.append(own)
    marks.append(mark)
    states.append(_stated_month(text, timeline))
    bodies.append(plain_text(text[first.end :]) if first else whole)
    manners.append(_manner(first, bodies[-1]))
  return Gallery(
    axis,
    tuple(texts),
    plain,
    tuple(bodies),
    np.array(openings, np.int32).reshape(-1),
    np.array(manners, np.int32).reshape(-1),
    np.array(numbers, np.int32).reshape(-1),
    tuple(days),
    np.array(marks, np.int32).reshape(-1),
    np.array(states, np.int32).reshape(-1),
  )


def _opening_class(cue: date_expressions.Cue | None) -> int:
  if cue is None or not (cue.month or cue.season or cue.leap):
    return NO_OPENING
  if cue.leap and not cue.month:
    return _LEAP
  return cue.month or 13 + date_expressions.SEASONS.index(cue.season)


def _manner(cue: date_expressions.Cue | None, body: str) -> int:
  if not _opening_class(cue):
    return 0
  return bool(cue.season and cue.month) + 2 * (not body)


def _names_no_month(cue: date_expressions.Cue) -> bool:
  return not (cue.reign or cue.year or cue.month or cue.season or cue.leap)


def _own_days(
  cues: Sequence[date_expressions.Cue], text: str
) -> tuple[tuple[int, ...], int]:
  """Returns the days before another month begins, and the mark of the first."""
  same_month = itertools.takewhile(_names_no_month, cues[1:])
  told = [cue for cue in (cues[0], *same_month) if cue.day][:_MOST_DAYS]
  mark = sexagenary.mark(text, told[0].end) if told else sexagenary.ANY
  return tuple(sexagenary.index(cue.day) for cue in told), mark


def _stated_month(text: str, timeline: Timeline) -> int:
  if len(text) > _LONGEST_PLACEHOLDER:
    return UNKNOWN
  dates = date_expressions.find_full_dates(text, timeline)
  if not dates or dates[0][0] > _OPENING_WITHIN + 2:
    return UNKNOWN
  return timeline.ordinal(dates[0][2])
