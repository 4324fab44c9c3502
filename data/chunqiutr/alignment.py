"""Where in the annals a commentary stands: one edition against another.

Why: editions with commentary mark years badly (marks are missing, entries run
on), but they print the annotated text, and that text is known, with months,
from the anchor edition. N-grams that occur once in both, kept where they
run in the same order, tie the two together over the whole work, so a missing
year mark costs nothing. Called by the readers of commentary.
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
# find 「秋七月」 standing alone between two notes.
NGRAMS = (7, 3)
# Characters up to a note that should be tied: a clause or two.
CLAUSE = 12
# A place that fits worse than this is not accepted, of whatever work: of a
# note, five of the twelve characters before it are tied; of a title, the
# names fit and the wording does not.
MIN_SCORE = 0.4
# Marks of notes; 注 opens one in large type. What follows is not annals.
_NOTE_MARK = re.compile("注|音義|疏")
# Printed for one another so often that they tell nothing.
_CONFUSED = {"于": "於", "已": "己", "巳": "己"}
_FOLD = str.maketrans(glyphs.UNIFIED | _CONFUSED)


def fold(text: str) -> str:
  """Returns the Chinese characters of `text`, spellings made one."""
  return "".join(
    character
    for character in text.translate(_FOLD)
    if character >= "㐀" and not "\uff00" <= character <= "\uffef"
  )


@dataclasses.dataclass(frozen=True)
class Anchor:
  """The annotated text, in parts that each have a month.

  Attributes:
    text: of all parts, folded.
    starts: position in `text` at which each part begins.
    keys: month of each part.
  """

  text: str
  starts: tuple[int, ...]
  keys: tuple[TimeKey, ...]

  @classmethod
  def of(cls, parts: Sequence[tuple[str, TimeKey]]) -> Anchor:
    """Returns the anchor of dated parts in the order they are printed."""
    folded = [fold(text) for text, _ in parts]
    ends = itertools.accumulate(map(len, folded), initial=0)
    return cls(
      "".join(folded), tuple(ends)[:-1], tuple(key for _, key in parts)
    )

  def part_at(self, position: int) -> int:
    """Returns the index of the part that holds the character `position`."""
    return bisect.bisect_right(self.starts, position) - 1

  def part(self, index: int) -> str:
    """Returns the folded text of the part `index`."""
    after = index + 1
    end = self.starts[after] if after < len(self.starts) else len(self.text)
    return self.text[self.starts[index] : end]


@dataclasses.dataclass(frozen=True)
class Place:
  """A part of the anchor that a piece of commentary belongs to.

  Attributes:
    part: its index; None if no single part is meant, but the month.
    key: its month.
    score: how well it fits, 0 to 1.
  """

  part: int | None
  key: TimeKey
  score: float


@dataclasses.dataclass(frozen=True)
class Candidate:
  """Commentary on one place.

  Attributes:
    passages: unpunctuated, as printed; cut on their own.
    place: None if none was found.
    reason: why none was found, for the audit.
  """

  passages: tuple[str, ...]
  place: Place | None
  reason: str = "before the first tie"


@dataclasses.dataclass(frozen=True)
class Reading:
  """What the reader of a work found.

  Attributes:
    units: number of what the edition prints as one.
    candidates: what these units hold, in order; one unit may hold several.
    years_checked: how many years the edition prints were compared with the
      year found without them.
    years_agreed: how many of these are the same.
  """

  units: int
  candidates: Sequence[Candidate]
  years_checked: int = 0
  years_agreed: int = 0


class Alignment:
  """Positions of an edition's text in the anchor.

  Args:
    anchor: dated text.
    text: the edition's running text, folded; may hold more than the anchor.

  Attributes:
    ties: (position in the edition, position in the anchor) of the characters
      found to be the same, both increasing.
  """

  def __init__(self, anchor: Anchor, text: str):
    self._anchor = anchor
    self._text = text
    self.ties = tie(text, anchor.text)
    self._positions = [position for position, _ in self.ties]
    self._places = [place for _, place in self.ties]

  def place_at(self, position: int) -> Place | None:
    """Returns where the text stands that ends before `position`.

    Args:
      position: in the edition's folded text, where a note stands.

    Returns:
      The part of the last annotated character; its score is the share of
      the `CLAUSE` characters up to that one that are tied. None before the
      first tie.
    """
    found = bisect.bisect_left(self._positions, position) - 1
    if found < 0:
      return None
    here, there = self.ties[found]
    # Characters between the last tie and the note: garbled annals (counted),
    # or an earlier note in large type (not counted).
    gap = _NOTE_MARK.split(self._text[here + 1 : position], maxsplit=1)[0]
    last = there + len(gap)
    if found + 1 < len(self.ties):
      last = min(last, self.ties[found + 1][1] - 1)
    last = min(last, len(self._anchor.text) - 1)
    tied = bisect.bisect_right(self._places, last) - bisect.bisect_right(
      self._places, last - CLAUSE
    )
    part = self._anchor.part_at(last)
    return Place(part, self._anchor.keys[part], tied / min(CLAUSE, last + 1))


def tie(
  text: str, other: str, lengths: Sequence[int] = NGRAMS
) -> list[tuple[int, int]]:
  """Returns the positions of the characters that two texts share, in order.

  N-grams that occur once in each are tied, longest first; what lies between
  two ties is compared again with the next length.
  """
  if not lengths or not text or not other:
    return []
  length, *shorter = lengths
  there = _unique_ngrams(other, length)
  pairs = _longest_increasing(
    sorted(
      (position, there[ngram])
      for ngram, position in _unique_ngrams(text, length).items()
      if ngram in there
    )
  )
  ties: list[tuple[int, int]] = []
  here = beyond = 0
  for position, match in [*pairs, (len(text), len(other))]:
    if position > here and match > beyond:
      inner = tie(text[here:position], other[beyond:match], shorter)
      ties += [(here + one, beyond + two) for one, two in inner]
    known = max(here - position, beyond - match, 0)
    if position < len(text):
      ties += [(position + step, match + step) for step in range(known, length)]
    here, beyond = max(here, position + length), max(beyond, match + length)
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
  tails: list[int] = []
  piles: list[int] = []
  before: list[int] = []
  for index, (_, there) in enumerate(pairs):
    pile = bisect.bisect_left(tails, there)
    before.append(piles[pile - 1] if pile else -1)
    if pile == len(tails):
      tails.append(there)
      piles.append(index)
    else:
      tails[pile], piles[pile] = there, index
  chain = collections.deque()
  index = piles[-1] if piles else -1
  while index >= 0:
    chain.appendleft(pairs[index])
    index = before[index]
  return list(chain)
