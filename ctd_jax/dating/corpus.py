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
_LEAP_OPENING = 17
NUM_OPENINGS = 18
# How an opening is put: with the season's name before a month, with nothing
# after it, and both.
NUM_MANNERS = 4
_MAX_OPENING_START = 2  # characters that may stand before a record's own date
_MAX_PLACEHOLDER_CHARS = 30  # characters
_MAX_DAYS = 4
_MAX_REGNAL_YEARS = 100  # of a reign
_NOT_HAN = re.compile("[^\u3400-\u9fff\U00020000-\U0003ffff]")
# One name in two works; pairs of glyphs that prints confuse.
_NAME_VARIANTS = {"邾婁": "邾"}
_GLYPH_VARIANTS = str.maketrans(
  {"已": "己", "巳": "己", "于": "於", "夘": "卯"}
)


@dataclasses.dataclass(frozen=True)
class MonthAxis:
  """The months of a timeline, grouped by regnal years.

  Attributes:
    timeline: the calendar.
  """

  timeline: Timeline

  def __len__(self) -> int:
    """Number of months K."""
    return len(self.timeline)

  @functools.cached_property
  def month_of_year(self) -> np.ndarray:
    """Month of the year of every month, 1-12, int [K]."""
    return np.array([key.month for key in self.timeline.months])

  @functools.cached_property
  def _regnal_years(self) -> list[tuple[int, int]]:
    return list(
      dict.fromkeys((key.reign, key.year) for key in self.timeline.months)
    )

  @functools.cached_property
  def year_of(self) -> np.ndarray:
    """Index of the regnal year of every month, int [K]."""
    index = {
      pair: year_index for year_index, pair in enumerate(self._regnal_years)
    }
    return np.array(
      [index[key.reign, key.year] for key in self.timeline.months]
    )

  @functools.cached_property
  def year_starts(self) -> np.ndarray:
    """First month of every regnal year, int [Y]."""
    return np.flatnonzero(np.diff(self.year_of, prepend=-1))

  @functools.cached_property
  def reign(self) -> np.ndarray:
    """Reign of every regnal year, from 0, int [Y]."""
    return np.array([reign - 1 for reign, _ in self._regnal_years])

  @functools.cached_property
  def year_number(self) -> np.ndarray:
    """Number of every regnal year, 1 = 元年, int [Y]."""
    return np.array([year for _, year in self._regnal_years])

  @functools.cached_property
  def civil_year(self) -> np.ndarray:
    """Astronomical year of every regnal year, int [Y]."""
    return np.array(
      [
        reign_tables.astronomical_year_of(
          self.timeline, self.timeline.key_at(int(start))
        )
        for start in self.year_starts
      ]
    )

  @property
  def num_years(self) -> int:
    """Number of regnal years Y."""
    return len(self.year_starts)

  @functools.cached_property
  def _year_table(self) -> np.ndarray:
    table = np.full((self.reign.max() + 2, _MAX_REGNAL_YEARS + 2), UNKNOWN)
    table[self.reign, self.year_number] = np.arange(self.num_years)
    return table

  def year_index(
    self, reign: np.ndarray, year_number: np.ndarray
  ) -> np.ndarray:
    """Returns indices of regnal years, UNKNOWN where there is none, int.

    Args:
      reign: from 0, or UNKNOWN.
      year_number: of the year, 1 = 元年; of the same shape, or one that spreads.
    """
    return self._year_table[
      reign, np.minimum(year_number, _MAX_REGNAL_YEARS + 1)
    ]

  def to_years(self, log_months: np.ndarray) -> np.ndarray:
    """Returns log masses of years [n, Y] from log masses of months [n, K]."""
    return np.logaddexp.reduceat(log_months, self.year_starts, axis=1)


@dataclasses.dataclass(frozen=True)
class Labels:
  """All that is known of records besides their texts.

  Attributes:
    month: ordinal month of each record, UNKNOWN where hidden, int [N].
    event_labels: 1 if the record is of a kind that can answer, 0 if commentary,
      UNKNOWN where hidden, int [N].
  """

  month: np.ndarray
  event_labels: np.ndarray

  @property
  def is_known(self) -> np.ndarray:
    """Whether the month of a record is known, bool [N]."""
    return self.month != UNKNOWN

  def hide_records(self, rows: np.ndarray) -> Labels:
    """Returns labels without those of `rows` (bool [N])."""
    return Labels(
      np.where(rows, UNKNOWN, self.month),
      np.where(rows, UNKNOWN, self.event_labels),
    )


@dataclasses.dataclass(frozen=True)
class Gallery:
  """The records of a gallery as their texts present them.

  Attributes:
    axis: the months that they may be of.
    texts: as given, [N].
    plain_texts: Han characters alone, in one spelling, [N].
    bodies: `plain_texts` without the date that opens a text, [N].
    opening: month (1-12), season (13-16) or leap month (17) that opens a text,
      int [N].
    opening_manner: of the opening, 0-3: 1 if a season stands before the month, plus 2
      if the opening is all of the text, int [N].
    opening_year: regnal year that opens a text, 0 if none, int [N].
    days: sexagenary days of a text's opening month, from 0 = 甲子, [N] tuples.
    first_day_mark: what the text says of the place of its first day, one of
      `sexagenary.DAY_MARKS`, int [N].
    placeholder_month: month that a text states in full at its opening and says little
      else, as a placeholder does; UNKNOWN for the others, int [N].
  """

  axis: MonthAxis
  texts: tuple[str, ...]
  plain_texts: tuple[str, ...]
  bodies: tuple[str, ...]
  opening: np.ndarray
  opening_manner: np.ndarray
  opening_year: np.ndarray
  days: tuple[tuple[int, ...], ...]
  first_day_mark: np.ndarray
  placeholder_month: np.ndarray

  def __len__(self) -> int:
    return len(self.texts)

  @functools.cached_property
  def text_hashes(self) -> np.ndarray:
    """A number made of each text, uint32 [N]."""
    return np.array(
      [zlib.crc32(text.encode()) for text in self.texts], np.uint32
    )

  def sample_rows(self, max_records: int) -> np.ndarray:
    """Returns about `max_records` records, all if there are no more, ascending.

    Which ones is decided by their texts, so the order plays no part.
    """
    return np.flatnonzero(
      self.text_hashes % np.uint32(max(1, len(self) // max_records)) == 0
    )

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
  text = numerals.fold_script(text)
  for name, common_name in _NAME_VARIANTS.items():
    text = text.replace(name, common_name)
  return _NOT_HAN.sub("", text.translate(_GLYPH_VARIANTS))


def read_gallery(texts: Sequence[str], timeline: Timeline) -> Gallery:
  """Returns what `texts` [N] say of themselves.

  Args:
    texts: of the records, in any order.
    timeline: the calendar they are dated in.
  """
  axis = MonthAxis(timeline)
  openings, opening_years, days, placeholder_months, bodies = [], [], [], [], []
  manners, marks = [], []
  plain_texts = tuple(map(plain_text, texts))
  for text, han_text in zip(texts, plain_texts, strict=True):
    cues = date_expressions.find_date_cues(text, timeline)
    opening_cue = (
      cues[0] if cues and cues[0].start <= _MAX_OPENING_START else None
    )
    openings.append(_classify_opening(opening_cue))
    opening_years.append(opening_cue.year or 0 if opening_cue else 0)
    opening_days, mark = (
      _read_opening_days(cues, text)
      if opening_cue
      else ((), sexagenary.ANY_DAY)
    )
    days.append(opening_days)
    marks.append(mark)
    placeholder_months.append(_read_placeholder_month(text, timeline))
    bodies.append(
      plain_text(text[opening_cue.end :]) if opening_cue else han_text
    )
    manners.append(_classify_manner(opening_cue, bodies[-1]))
  return Gallery(
    axis,
    tuple(texts),
    plain_texts,
    tuple(bodies),
    np.array(openings, np.int32).reshape(-1),
    np.array(manners, np.int32).reshape(-1),
    np.array(opening_years, np.int32).reshape(-1),
    tuple(days),
    np.array(marks, np.int32).reshape(-1),
    np.array(placeholder_months, np.int32).reshape(-1),
  )


def _classify_opening(cue: date_expressions.DateCue | None) -> int:
  if cue is None or not (cue.month or cue.season or cue.leap):
    return NO_OPENING
  if cue.leap and not cue.month:
    return _LEAP_OPENING
  return cue.month or 13 + date_expressions.SEASONS.index(cue.season)


def _classify_manner(cue: date_expressions.DateCue | None, body: str) -> int:
  if not _classify_opening(cue):
    return 0
  return bool(cue.season and cue.month) + 2 * (not body)


def _is_without_month(cue: date_expressions.DateCue) -> bool:
  return not (cue.reign or cue.year or cue.month or cue.season or cue.leap)


def _read_opening_days(
  cues: Sequence[date_expressions.DateCue], text: str
) -> tuple[tuple[int, ...], int]:
  """Returns the days before another month begins, and the mark of the first."""
  same_month_cues = itertools.takewhile(_is_without_month, cues[1:])
  day_cues = [cue for cue in (cues[0], *same_month_cues) if cue.day][:_MAX_DAYS]
  mark = (
    sexagenary.find_day_mark(text, day_cues[0].end)
    if day_cues
    else sexagenary.ANY_DAY
  )
  return tuple(sexagenary.parse_cyclic_index(cue.day) for cue in day_cues), mark


def _read_placeholder_month(text: str, timeline: Timeline) -> int:
  if len(text) > _MAX_PLACEHOLDER_CHARS:
    return UNKNOWN
  dates = date_expressions.find_full_dates(text, timeline)
  if not dates or dates[0][0] > _MAX_OPENING_START + 2:
    return UNKNOWN
  return timeline.ordinal(dates[0][2])
