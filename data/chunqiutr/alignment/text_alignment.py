"""Alignment of an edition with the dated text of the annals, by n-grams.

Editions with commentary mark years badly (marks are missing, entries run on),
but they print the annotated text, and the anchor edition has that text with its
months. N-grams that occur once in both texts and stand in the same order tie
the two together over the whole work, so a missing year mark costs nothing.
"""

from __future__ import annotations

import bisect
import collections
import dataclasses
import itertools
import re
from collections.abc import Sequence

from ctd_jax.chronology import glyphs
from ctd_jax.chronology.timelines import TimeKey

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
_FOLD = str.maketrans(glyphs.CANONICAL_SPELLING | _CONFUSABLE)


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
  """The annotated text in segments that each have a month.

  Attributes:
    text: of all segments, folded.
    starts: position in `text` at which each segment begins.
    keys: month of each segment.
  """

  text: str
  starts: tuple[int, ...]
  keys: tuple[TimeKey, ...]

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
  """The segment of the anchor that a piece of commentary belongs to.

  Attributes:
    segment_index: its index; None if the month as a whole is meant.
    key: its month.
    score: fit, 0 to 1.
  """

  segment_index: int | None
  key: TimeKey
  score: float


@dataclasses.dataclass(frozen=True)
class Candidate:
  """Commentary that belongs to one segment, if that can be identified.

  Attributes:
    passages: unpunctuated, as printed; each is cut on its own.
    anchor_match: None if there is no match.
    reason: for the lack of a match, for the audit.
  """

  passages: tuple[str, ...]
  anchor_match: AnchorMatch | None
  reason: str = "before the first tie"


@dataclasses.dataclass(frozen=True)
class AlignedWork:
  """A work of commentary with the segments that its pieces belong to.

  Attributes:
    num_units: number of units that the edition prints.
    candidates: contents of these units, in order; one unit may hold several.
    num_years_checked: number of years that the edition prints and that were
      compared with the year matched without them.
    num_years_agreed: number of these that are the same.
  """

  num_units: int
  candidates: Sequence[Candidate]
  num_years_checked: int = 0
  num_years_agreed: int = 0


class Alignment:
  """Positions of an edition's text in the anchor.

  Args:
    anchor: dated text.
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
      position: of a note in the edition's folded text.

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
    # The note cannot stand behind the next tied character.
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

  Args:
    text: folded.
    other_text: folded.
    lengths: of the n-grams, falling.

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
  """Returns the longest run of `pairs` whose second members increase.

  Source: patience sorting; `pairs` are in order of the first member.
  """
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
