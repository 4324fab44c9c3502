"""Records of several works side by side, one row for one event.

Two records tell one event if they share wording that is rare around that time,
or print the same day. The measure of shared wording is that of the parallels
(`dating.experts.shared_wording`), with the texts of the years around as what is
usual. Records of one work keep their order.

Axes: n records, T texts.
"""

from __future__ import annotations

import bisect
import dataclasses
import re
import sys
from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Float, Int

from ctd_jax.chronology import numerals, sexagenary
from ctd_jax.dating.chronicle import date_glyphs
from ctd_jax.dating.experts import ngrams, shared_wording

# Weight of shared strings from which on two records are of one event. Two
# records of a month that share a name of three characters have about 15.
MIN_WEIGHT = 12.0
_DAY_WEIGHT = 8.0  # of a day that both print
# A short record that another holds nearly whole is of its event, too.
_MIN_CONTAINED, _MIN_CONTAINED_WEIGHT = 0.7, 4.0
_LAST_CHARACTER = chr(sys.maxunicode)
_MARKS = re.compile(r"[\W_]+")
_MARKS_WITHIN_LINE = re.compile(r"[^\w\n]+|_+")
_YEAR = re.compile(sexagenary.YEAR_PATTERN)
_PAIR = re.compile(sexagenary.PAIR_PATTERN)


@dataclasses.dataclass(frozen=True)
class WorkText:
  """A record to be aligned.

  Attributes:
    row: of the record.
    column: of its work.
    text: of the record.
    opening: its first words, without the date; "" if they are not known.
  """

  row: int
  column: int
  text: str
  opening: str = ""


@dataclasses.dataclass(frozen=True, eq=False)
class UsualWording:
  """Strings of the texts of some years.

  Attributes:
    months: of the texts.
    occurrences: of their strings.
  """

  months: Int[np.ndarray, " T"]
  occurrences: ngrams.Occurrences

  @classmethod
  def read(
    cls, texts: Sequence[str], months: Sequence[int] | Int[np.ndarray, " T"]
  ) -> UsualWording:
    """Returns the strings of texts."""
    return cls(
      np.array(months, int),
      ngrams.Occurrences.find(_prepare_all(texts), shared_wording.LENGTHS),
    )

  def count(
    self, strings: ngrams.NgramVocabulary, without_month: int
  ) -> tuple[Int[np.ndarray, " V"], int]:
    """Returns how many texts hold strings, and how many there are.

    Args:
      strings: that are counted.
      without_month: whose texts are left out.
    """
    is_other = self.months != without_month
    others = self.occurrences.select(is_other[self.occurrences.rows])
    return strings.count_texts(others), int(is_other.sum())


def align_records(
  records: Sequence[WorkText], usual: UsualWording, month: int
) -> list[list[WorkText]]:
  """Returns the records by event, in order of time as far as the works say.

  Args:
    records: by column, within it in order of the work.
    usual: of the time around, by which wording is rare or usual.
    month: of the records.
  """
  weights = _weigh_pairs(records, usual, month)
  events: list[list[int]] = []
  previous: int | None = None  # position of the event before, in this work
  columns = np.array([record.column for record in records], int)
  for index, column in enumerate(columns):
    if index and column != columns[index - 1]:
      previous = None
    shared = np.where(columns[:index] != column, weights[index, :index], 0)
    event = _find_event(events, shared)
    if event is None:
      event = len(events) if previous is None else previous + 1
      events.insert(event, [])
    events[event].append(index)
    previous = event
  return [[records[index] for index in event] for event in events]


def _find_event(
  events: Sequence[Sequence[int]], weights: Float[np.ndarray, " b"]
) -> int | None:
  """Returns the event that a record shares most with; None if with none.

  Args:
    events: of the records before it.
    weights: what it shares with each of these, 0 for those of its own work.
  """
  most = weights.max(initial=MIN_WEIGHT)
  if most <= MIN_WEIGHT:
    return None
  nearest = {*np.flatnonzero(weights == most).tolist()}
  return next(
    number
    for number, members in enumerate(events)
    if not nearest.isdisjoint(members)
  )


def _weigh_pairs(
  records: Sequence[WorkText], usual: UsualWording, month: int
) -> Float[np.ndarray, "n n"]:
  """Returns what every two records share."""
  texts = [_prepare(record.text) for record in records]
  # Strings of the usual texts alone are shared by no two records.
  strings = ngrams.collect_ngrams(texts, shared_wording.LENGTHS)
  usual_counts, num_usual = usual.count(strings, month)
  idf = shared_wording.weigh_strings(
    strings.text_counts + usual_counts, len(texts) + num_usual
  )
  held = strings.encode(texts)
  scaled = held.copy()
  scaled.data = idf[held.indices]
  weights = (scaled @ held.T).toarray()
  whole = np.minimum.outer(weights.diagonal(), weights.diagonal())
  is_contained = (weights >= _MIN_CONTAINED * whole) & (
    weights >= _MIN_CONTAINED_WEIGHT
  )
  weights = np.where(is_contained, weights + MIN_WEIGHT, weights)
  weights += _DAY_WEIGHT * _share_days([record.text for record in records])
  openings = [_prepare(record.opening) for record in records]
  lengths = np.array([len(opening) for opening in openings])
  quoted = _mark_quoted(openings)
  return weights + np.where(quoted, MIN_WEIGHT + lengths[:, None], 0)


def _share_days(texts: Sequence[str]) -> Bool[np.ndarray, "n n"]:
  """Returns which two texts print the same day."""
  has_day = np.zeros((len(texts), sexagenary.CYCLE_LENGTH), np.float32)
  for row, text in enumerate(texts):
    has_day[row, list(find_days(text))] = 1
  return has_day @ has_day.T > 0


def _mark_quoted(texts: Sequence[str]) -> Bool[np.ndarray, "n n"]:
  """Returns of which two texts one begins with the whole of the other."""
  begins = np.zeros((len(texts), len(texts)), bool)
  order = sorted(range(len(texts)), key=texts.__getitem__)
  ordered = [texts[row] for row in order]
  for row, text in enumerate(texts):
    if text:
      # What begins with it stands together.
      first = bisect.bisect_left(ordered, text)
      end = bisect.bisect_right(ordered, text + _LAST_CHARACTER)
      begins[row, order[first:end]] = True
  return begins | begins.T


def _prepare(text: str) -> str:
  """Returns a text in one script without its marks, which editions vary."""
  return _MARKS.sub("", numerals.fold_script(text))


def _prepare_all(texts: Sequence[str]) -> list[str]:
  """Returns many texts as `_prepare` does, at once."""
  joined = "\n".join(text.replace("\n", "") for text in texts)
  folded = numerals.fold_script(joined)
  return _MARKS_WITHIN_LINE.sub("", folded).split("\n")


def find_days(text: str) -> frozenset[int]:
  """Returns the sexagenary days that a text prints, 0 = 甲子."""
  folded = _YEAR.sub("", date_glyphs.fold_date_glyphs(text))
  return frozenset(
    sexagenary.parse_cyclic_index(pair) for pair in _PAIR.findall(folded)
  )
