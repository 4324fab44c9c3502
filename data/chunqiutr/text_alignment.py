"""Alignment of an edition with the dated text of the annals.

N-grams that occur once in both texts tie them; between two ties shorter n-grams
do. So the place of a note in the annals is known even if characters differ.
A title or heading of a few words is matched fuzzily with the entries of its
year.
"""

from __future__ import annotations

import bisect
import collections
import dataclasses
import functools
import itertools
import math
import re
from collections.abc import Iterable, Sequence

from rapidfuzz import fuzz
from rapidfuzz.distance import LCSseq

from ctd_jax.chronology import numerals, reigns
from ctd_jax.chronology.reigns import TimeKey

# Seven characters are rarely repeated in 180,000 and rarely all garbled; three
# still match 「秋七月」 alone between two notes.
NGRAM_LENGTHS = (7, 3)
CLAUSE_LENGTH = (
  12  # characters before a note that are compared: a clause or two
)
# Least accepted score, for every work. For a note it means that five of the
# twelve characters before it are tied; for a title, that the names fit and the
# wording does not.
MIN_SCORE = 0.4
# Marks of notes; 注 opens one in large type. The text after it is not annals.
_NOTE_MARK = re.compile("注|音義|疏")
# Printed for one another so often that they distinguish nothing.
_CONFUSABLE = {"于": "於", "已": "己", "巳": "己"}
_FOLD = str.maketrans(numerals.CANONICAL_SPELLING | _CONFUSABLE)


def fold_text(text: str) -> str:
  """Returns the Chinese characters of `text`, spellings made one."""
  return "".join(
    character
    for character in text.translate(_FOLD)
    # Chinese characters begin at 㐀; full-width forms lie above them.
    if character >= "㐀" and not "\uff00" <= character <= "\uffef"
  )


@dataclasses.dataclass(frozen=True)
class Anchor:
  """The annotated text in segments that each have a month."""

  text: str  # of all segments, folded
  starts: tuple[int, ...]  # position in `text` at which each segment begins
  keys: tuple[TimeKey, ...]  # month of each segment

  @classmethod
  def from_segments(cls, segments: Sequence[tuple[str, TimeKey]]) -> Anchor:
    """Returns the anchor of dated segments in the order they are printed."""
    folded_texts = [fold_text(text) for text, _ in segments]
    ends = itertools.accumulate(map(len, folded_texts), initial=0)
    return cls(
      "".join(folded_texts), tuple(ends)[:-1], tuple(key for _, key in segments)
    )

  def segment_at(self, position: int) -> int:
    """Returns the index of the segment that holds the character `position`."""
    return bisect.bisect_right(self.starts, position) - 1

  def segment_text(self, index: int) -> str:
    """Returns the folded text of the segment `index`."""
    next_index = index + 1
    end = (
      self.starts[next_index]
      if next_index < len(self.starts)
      else len(self.text)
    )
    return self.text[self.starts[index] : end]


@dataclasses.dataclass(frozen=True)
class AnchorMatch:
  """The segment of the anchor that a piece of commentary belongs to."""

  segment_index: int | None  # its index; None if the month as a whole is meant
  key: TimeKey
  score: float  # fit, 0 to 1


@dataclasses.dataclass(frozen=True)
class Candidate:
  """Commentary that belongs to one segment, if that can be identified."""

  passages: tuple[str, ...]  # unpunctuated, as printed; each is cut on its own
  anchor_match: AnchorMatch | None  # None if there is no match
  reason: str = "before the first tie"  # for the lack of a match, for the audit


@dataclasses.dataclass(frozen=True)
class AlignedWork:
  """A work of commentary with the segments that its pieces belong to."""

  num_units: int  # number of units that the edition prints
  # Contents of these units, in order; one unit may hold several.
  candidates: Sequence[Candidate]
  # Number of years that the edition prints and that were compared with the year
  # matched without them.
  num_years_checked: int = 0
  num_years_agreed: int = 0  # number of these that are the same


class Alignment:
  """Positions of an edition's text in the anchor.

  Args:
    text: the edition's running text, folded; may hold more than the anchor.
    juan_starts: positions in `text` at which a juan begins, increasing.

  Attributes:
    ties: (position in the edition, position in the anchor) of the characters
      found to be the same, both increasing.
  """

  def __init__(
    self, anchor: Anchor, text: str, juan_starts: Sequence[int] = ()
  ):
    self._anchor = anchor
    self._text = text
    self._juan_starts = juan_starts
    self.ties = tie_texts(text, anchor.text)
    self._positions = [position for position, _ in self.ties]
    self._anchor_positions = [
      anchor_position for _, anchor_position in self.ties
    ]

  def match_at(self, position: int) -> AnchorMatch | None:
    """Returns the segment of the text that ends before `position`.

    A note on the heading of a juan, before its first annotated character,
    explains what begins there: the first segment of the juan.

    Args:
      position: position of a note in the edition's folded text.

    Returns:
      The segment of the last annotated character; its score is the share of
      the `CLAUSE_LENGTH` characters up to that one that are tied, of the first
      characters of the juan for a note on its heading. None before the first
      tie.
    """
    tie_index = bisect.bisect_left(self._positions, position) - 1
    if tie_index < 0:
      return None
    tied_position, anchor_position = self.ties[tie_index]
    juan_index = bisect.bisect_left(self._juan_starts, position) - 1
    if (
      juan_index >= 0
      and tied_position < self._juan_starts[juan_index]
      and tie_index + 1 < len(self.ties)
    ):
      return self._match_from(self.ties[tie_index + 1][1])
    # Characters between the last tie and the note: garbled annals (counted),
    # or an earlier note in large type (not counted).
    gap = _NOTE_MARK.split(
      self._text[tied_position + 1 : position], maxsplit=1
    )[0]
    last_position = anchor_position + len(gap)
    # The note cannot come after the next tied character.
    if tie_index + 1 < len(self.ties):
      last_position = min(last_position, self.ties[tie_index + 1][1] - 1)
    last_position = min(last_position, len(self._anchor.text) - 1)
    num_tied = bisect.bisect_right(
      self._anchor_positions, last_position
    ) - bisect.bisect_right(
      self._anchor_positions, last_position - CLAUSE_LENGTH
    )
    segment_index = self._anchor.segment_at(last_position)
    return AnchorMatch(
      segment_index,
      self._anchor.keys[segment_index],
      num_tied / min(CLAUSE_LENGTH, last_position + 1),
    )

  def _match_from(self, anchor_position: int) -> AnchorMatch:
    """Returns the segment of the text that begins at a tied character."""
    end = min(anchor_position + CLAUSE_LENGTH, len(self._anchor.text))
    num_tied = bisect.bisect_left(
      self._anchor_positions, end
    ) - bisect.bisect_left(self._anchor_positions, anchor_position)
    segment_index = self._anchor.segment_at(anchor_position)
    return AnchorMatch(
      segment_index,
      self._anchor.keys[segment_index],
      num_tied / (end - anchor_position),
    )


def tie_texts(
  text: str, other_text: str, lengths: Sequence[int] = NGRAM_LENGTHS
) -> list[tuple[int, int]]:
  """Returns the positions of the characters that two texts share, in order.

  N-grams that occur once in each are tied, longest first; the text between two
  ties is compared again with the next length.

  Returns:
    (position in `text`, position in `other_text`), both increasing.
  """
  if not lengths or not text or not other_text:
    return []
  length, *shorter = lengths
  other_positions = _unique_ngrams(other_text, length)
  pairs = _longest_increasing(
    sorted(
      (position, other_positions[ngram])
      for ngram, position in _unique_ngrams(text, length).items()
      if ngram in other_positions
    )
  )
  ties: list[tuple[int, int]] = []
  start = other_start = 0
  for position, other_position in [*pairs, (len(text), len(other_text))]:
    if position > start and other_position > other_start:
      inner = tie_texts(
        text[start:position], other_text[other_start:other_position], shorter
      )
      ties += [
        (start + offset, other_start + other_offset)
        for offset, other_offset in inner
      ]
    # N-grams may overlap the one before; those characters are tied already.
    num_tied = max(start - position, other_start - other_position, 0)
    if position < len(text):
      ties += [
        (position + step, other_position + step)
        for step in range(num_tied, length)
      ]
    start, other_start = (
      max(start, position + length),
      max(other_start, other_position + length),
    )
  return ties


def _unique_ngrams(text: str, length: int) -> dict[str, int]:
  """Returns the n-grams that occur exactly once, with their positions."""
  positions: dict[str, int] = {}
  repeated = set()
  for position in range(len(text) - length + 1):
    ngram = text[position : position + length]
    if ngram in positions:
      repeated.add(ngram)
    positions[ngram] = position
  return {
    ngram: position
    for ngram, position in positions.items()
    if ngram not in repeated
  }


def _longest_increasing(
  pairs: Sequence[tuple[int, int]],
) -> list[tuple[int, int]]:
  """Returns the longest run of `pairs` whose second members increase."""
  tails: list[int] = []  # least last member of a run of each length
  piles: list[int] = []  # index of the pair with that member
  predecessors: list[int] = []  # index of the pair before each pair
  for index, (_, second) in enumerate(pairs):
    pile = bisect.bisect_left(tails, second)
    predecessors.append(piles[pile - 1] if pile else -1)
    if pile == len(tails):
      tails.append(second)
      piles.append(index)
    else:
      tails[pile], piles[pile] = second, index
  chain = collections.deque()
  index = piles[-1] if piles else -1
  while index >= 0:
    chain.appendleft(pairs[index])
    index = predecessors[index]
  return list(chain)


# (reign, year), both from 1.
Year = tuple[int, int]

# An edition misprints a year now and then. Where no segment of the named years
# fits this well, a segment of another year is taken if that one fits very well.
MIN_NAMED_SCORE = 0.5
MIN_OTHER_SCORE = 0.75

_REIGNS = reigns.load_timeline("lu").reigns
_DUKES = "".join(reign.name[0] for reign in _REIGNS)
_DUKE = re.compile(f"([{_DUKES}])公")
_YEAR = re.compile(f"(?:([{_DUKES}])公?)?([元一二三四五六七八九十]+)年")
_SPAN = re.compile(f"{_YEAR.pattern}(?:至{_YEAR.pattern})?[上下]?")


def parse_duke(text: str) -> int | None:
  """Returns the reign if the folded `text` is nothing but 「隱公」."""
  match = _DUKE.fullmatch(text)
  return _DUKES.index(match[1]) + 1 if match else None


def parse_years(text: str, reign: int) -> list[Year]:
  """Returns the years that the folded `text` names, in order.

  Args:
    reign: reign of a year that comes first and has no duke.
  """
  years = []
  for duke, year in _YEAR.findall(text):
    reign = _DUKES.index(duke) + 1 if duke else reign
    years.append((reign, numerals.parse_numeral(year)))
  return years


def parse_year_span(text: str) -> list[Year]:
  """Returns all years of a heading such as 「閔元年至僖四年」, else nothing."""
  if not _SPAN.fullmatch(text):
    return []
  # Doubled: a heading of one year gives the same year twice.
  first, *_, last = parse_years(text, 0) * 2
  return [
    (reign, year)
    for reign in range(first[0], last[0] + 1)
    for year in range(1, _REIGNS[reign - 1].years + 1)
    if first <= (reign, year) <= last
  ]


class AnchorMatcher:
  """Matcher of a few words with the segment of an anchor they are about."""

  def __init__(self, anchor: Anchor):
    self._anchor = anchor
    self._segments = [
      anchor.segment_text(index) for index in range(len(anchor.keys))
    ]
    self._segments_by_year: dict[Year, list[int]] = collections.defaultdict(
      list
    )
    for index, key in enumerate(anchor.keys):
      self._segments_by_year[key.reign, key.year].append(index)
    self._counts = collections.Counter(
      character for segment in self._segments for character in set(segment)
    )

  def years_of_reign(self, reign: int) -> list[Year]:
    """Returns the years of a reign that have segments."""
    return sorted(year for year in self._segments_by_year if year[0] == reign)

  def best_match(self, words: str, years: Iterable[Year]) -> AnchorMatch | None:
    """Returns the best fit in `years`, the first of equals.

    Returns:
      None if there are no words or no segment in these years.
    """
    # Negated indices below: of equal scores the first segment wins.
    indices = [
      index for year in years for index in self._segments_by_year.get(year, ())
    ]
    if not indices or not words:
      return None
    weights = [self._character_weight(character) for character in words]
    score, negated_index = max(
      (self._fit_score(words, weights, index), -index) for index in indices
    )
    return AnchorMatch(-negated_index, self._anchor.keys[-negated_index], score)

  def find_match(
    self, words: str, named_years: Sequence[Year], other_years: Iterable[Year]
  ) -> AnchorMatch | None:
    """Returns the best fit in the years named, or one in others if it is good.

    Args:
      other_years: years to search next if nothing in these years fits.

    Returns:
      The best fit of the named years, however bad, if no other year fits.
    """
    anchor_match = self.best_match(words, named_years)
    if anchor_match is None or anchor_match.score < MIN_NAMED_SCORE:
      other_match = self.best_match(words, other_years)
      if other_match is not None and other_match.score >= MIN_OTHER_SCORE:
        return other_match
    return anchor_match

  def fit_score(self, words: str, segment_index: int) -> float:
    """Returns the fit of a segment to words that may be a summary, 0 to 1.

    The mean of two shares: of the words' characters that the segment holds in
    any
    order, weighted by inverse document frequency; and the similarity of its
    most
    similar stretch.
    """
    weights = [self._character_weight(character) for character in words]
    return self._fit_score(words, weights, segment_index)

  def _fit_score(
    self, words: str, weights: Sequence[float], segment_index: int
  ) -> float:
    """Returns `fit_score` for words whose characters have these weights."""
    text = self._segments[segment_index]
    matched_weight = sum(
      weight
      for character, weight in zip(words, weights, strict=True)
      if character in text
    )
    if len(text) >= len(words):
      similarity = fuzz.partial_ratio(words, text) / 100
    else:  # partial_ratio would look for the segment in the words
      similarity = LCSseq.similarity(words, text) / len(words)
    return (matched_weight / sum(weights) + similarity) / 2

  @functools.cached_property
  def _log_num_segments(self) -> float:
    return math.log(len(self._segments) + 1)

  def _character_weight(self, character: str) -> float:
    """Returns the inverse document frequency of a character, above 0."""
    return self._log_num_segments - math.log(self._counts[character] + 0.5)
