"""Corpus of a dating model: texts, their printed dates, and known labels.

A `Corpus` is read from text alone: the date that opens a record, the days it
names, the month that a placeholder states, and its characters in one spelling.
`Labels` is all that may be known of records besides. No other key, kind or
order of a record reaches the experts, so none can leak.

Axes: N records, K months.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import re
import zlib
from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Int, UInt32

from ctd_jax.chronology import date_expressions, glyphs, numerals, sexagenary
from ctd_jax.chronology.timelines import Timeline
from ctd_jax.dating.month_axis import UNKNOWN, MonthAxis

# An opening date: a month 1-12, a season alone (13-16), a leap month without a
# number (17) or none of them.
NO_OPENING = 0
_FIRST_SEASON_OPENING = 13
_LEAP_OPENING = 17
NUM_OPENINGS = 18
# Manner of an opening, two bits: the season is named before the month (1), and
# nothing follows the date (2).
NUM_MANNERS = 4
_MAX_OPENING_START = 2  # characters that may stand before a record's own date
_MAX_PLACEHOLDER_CHARS = 30  # a longer text tells an event
_MAX_DAYS = 4  # of the opening month; later ones are rarely of that month
_NOT_HAN = re.compile("[^\u3400-\u9fff\U00020000-\U0003ffff]")
# One name in two works; pairs of glyphs that prints confuse.
_NAME_VARIANTS = {"邾婁": "邾"}
_fold_variants = glyphs.make_replacer(
  {"已": "己", "巳": "己", "于": "於", "夘": "卯"}
)


@dataclasses.dataclass(frozen=True)
class Labels:
  """All that is known of records besides their texts.

  Attributes:
    month: ordinal month of each record, UNKNOWN where hidden.
    event_labels: 1 if the record is of a kind that can answer, 0 if commentary,
      UNKNOWN where hidden.
  """

  month: Int[np.ndarray, " N"]
  event_labels: Int[np.ndarray, " N"]

  @property
  def is_known(self) -> Bool[np.ndarray, " N"]:
    """Whether the month of a record is known."""
    return self.month != UNKNOWN

  def hide_records(self, rows: Bool[np.ndarray, " N"]) -> Labels:
    """Returns labels without those of `rows`."""
    return Labels(
      np.where(rows, UNKNOWN, self.month),
      np.where(rows, UNKNOWN, self.event_labels),
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Corpus:
  """The records to be dated, as their texts present them; see `read_corpus`.

  Attributes:
    axis: the months that they may be of.
    texts: as printed, [N].
    plain_texts: Han characters alone, in one spelling, [N].
    bodies: `plain_texts` without the date that opens a text, [N].
    opening: month (1-12), season (13-16) or leap month (17) that opens a text.
    opening_manner: 0-3: 1 if a season stands before the month, plus 2 if the
      opening is all of the text.
    opening_year: regnal year that opens a text, 0 if none.
    opening_span: characters of `texts` that the opening date takes, (0, 0) if
      there is none.
    days: sexagenary days of a text's opening month, from 0 = 甲子, [N] tuples.
    first_day_mark: what the text says of the position of its first day in the
      month, one of `sexagenary.DAY_MARKS`.
    placeholder_month: ordinal month of a text that states it in full and says
      little else; UNKNOWN for the others.
    external_texts: texts that are no records; their citations count as well.
  """

  axis: MonthAxis
  texts: tuple[str, ...]
  plain_texts: tuple[str, ...]
  bodies: tuple[str, ...]
  opening: Int[np.ndarray, " N"]
  opening_manner: Int[np.ndarray, " N"]
  opening_year: Int[np.ndarray, " N"]
  opening_span: Int[np.ndarray, "N 2"]
  days: tuple[tuple[int, ...], ...]
  first_day_mark: Int[np.ndarray, " N"]
  placeholder_month: Int[np.ndarray, " N"]
  external_texts: tuple[str, ...] = ()

  def __len__(self) -> int:
    return len(self.texts)

  def take(self, rows: Int[np.ndarray, " n"]) -> Corpus:
    """Returns some of the records, in this order.

    Args:
      rows: of the records; one may come twice.
    """
    arrays = {
      field.name: getattr(self, field.name)[rows]
      for field in dataclasses.fields(self)
      if isinstance(getattr(self, field.name), np.ndarray)
    }
    tuples = {
      name: tuple(getattr(self, name)[row] for row in rows.tolist())
      for name in ("texts", "plain_texts", "bodies", "days")
    }
    return dataclasses.replace(self, **arrays, **tuples)

  @property
  def is_placeholder(self) -> Bool[np.ndarray, " N"]:
    """Whether a record states its month and tells no event."""
    return self.placeholder_month != UNKNOWN

  @functools.cached_property
  def has_placeholder(self) -> Bool[np.ndarray, " K"]:
    """Whether a month has a placeholder."""
    result = np.zeros(len(self.axis), bool)
    result[self.placeholder_month[self.is_placeholder]] = True
    return result

  @functools.cached_property
  def text_hashes(self) -> UInt32[np.ndarray, " N"]:
    """CRC-32 of each text; sampling by it does not depend on the order."""
    return np.array(
      [zlib.crc32(text.encode()) for text in self.texts], np.uint32
    )

  def sample_rows(self, max_records: int) -> Int[np.ndarray, " S"]:
    """Returns about `max_records` rows, ascending; all if there are no more.

    The choice depends on the texts, not on the order of the records.
    """
    return np.flatnonzero(
      self.text_hashes % np.uint32(max(1, len(self) // max_records)) == 0
    )

  @functools.cached_property
  def first_day(self) -> Int[np.ndarray, " N"]:
    """Sexagenary day that a text names first, UNKNOWN if none."""
    return np.array([days[0] if days else UNKNOWN for days in self.days], int)

  @functools.cached_property
  def first_month(self) -> Int[np.ndarray, " N"]:
    """Month that opens a text, the first of a season; 0 if none."""
    # By opening: none and months 1-12, the four seasons, a leap month.
    months = np.array([*range(13), 1, 4, 7, 10, 0])
    return months[self.opening]


def plain_text(text: str) -> str:
  """Returns the Han characters of `text` in one spelling."""
  text = numerals.fold_script(text)
  for name, common_name in _NAME_VARIANTS.items():
    text = text.replace(name, common_name)
  return _NOT_HAN.sub("", _fold_variants(text))


def read_corpus(
  texts: Sequence[str],
  timeline: Timeline,
  external_texts: Sequence[str] = (),
) -> Corpus:
  """Returns the records with the dates that their texts print.

  Args:
    texts: of the records, in any order, [N].
    timeline: the calendar they are dated in, its months the axis. For the
      calendars of a chronicle see `chronicle.labelled_corpus`.
    external_texts: texts that are no records and whose citations count as well
      (track T0+external).
  """
  return read_axis_corpus(
    texts, MonthAxis.from_timeline(timeline), external_texts
  )


def read_axis_corpus(
  texts: Sequence[str],
  axis: MonthAxis,
  external_texts: Sequence[str] = (),
) -> Corpus:
  """Returns the records as `read_corpus` does, for an axis made before.

  Args:
    texts: of the records, in any order, [N].
    axis: the months, of a timeline.
    external_texts: as of `read_corpus`.
  """
  readings = [_read_text(text, axis.timeline) for text in texts]
  openings, manners, years, spans, days, marks, placeholders, bodies = (
    zip(*readings, strict=True) if readings else ((),) * 8
  )

  def to_array(values: Sequence[int]) -> np.ndarray:
    return np.array(values, np.int32).reshape(-1)

  return Corpus(
    axis=axis,
    texts=tuple(texts),
    plain_texts=tuple(map(plain_text, texts)),
    bodies=tuple(bodies),
    opening=to_array(openings),
    opening_manner=to_array(manners),
    opening_year=to_array(years),
    opening_span=np.array(spans, np.int32).reshape(-1, 2),
    days=tuple(days),
    first_day_mark=to_array(marks),
    placeholder_month=to_array(placeholders),
    external_texts=tuple(external_texts),
  )


def _read_text(
  text: str, timeline: Timeline
) -> tuple[int, int, int, tuple[int, int], tuple[int, ...], int, int, str]:
  """Returns opening, manner, year, span, days, mark, placeholder and body."""
  cues = date_expressions.find_date_cues(text, timeline)
  # A date further inside the text is not the record's own.
  cue = cues[0] if cues and cues[0].start <= _MAX_OPENING_START else None
  body = plain_text(text[cue.end :] if cue else text)
  days, mark = (
    _read_opening_days(cues, text) if cue else ((), sexagenary.ANY_DAY)
  )
  return (
    _classify_opening(cue),
    _classify_manner(cue, body),
    (cue.year or 0) if cue else 0,
    (cue.start, cue.end) if cue else (0, 0),
    days,
    mark,
    _read_placeholder_month(text, timeline),
    body,
  )


def _classify_opening(cue: date_expressions.DateCue | None) -> int:
  if cue is None or not (cue.month or cue.season or cue.leap):
    return NO_OPENING
  if cue.leap and not cue.month:
    return _LEAP_OPENING
  return cue.month or _FIRST_SEASON_OPENING + date_expressions.SEASONS.index(
    cue.season
  )


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
