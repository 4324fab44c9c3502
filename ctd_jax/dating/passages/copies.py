"""Copies: records with the words of a passage, and how much a copy proves.

A chronicle that tells nothing twice cannot teach how much a copy proves, since
its equal strings are formulas. But it shows how often a string of some length
stands in records of other years. That is the chance that a copy is a formula;
against it stands the chance that the passage comes from a text in the corpus.

Axes: N records, R copies, n characters of a passage, K months.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Float, Int, UInt32

from ctd_jax.dating.corpus import UNKNOWN, find_sorted, plain_text
from ctd_jax.dating.experts import wording
from ctd_jax.dating.passages.citations import TextTable

MIN_RUN = 4  # characters in a row that count as copied
# Share of a passage that a near copy has, in such runs.
MIN_SHARE = 0.6
_MAX_CANDIDATES = 32  # records whose texts are read
_MIN_OVERLAP = 0.2  # of these, against the greatest
_EQUAL = 0.999  # of the greatest overlap, but for rounding
_MAX_EQUAL = 256  # records of equal overlap whose texts are read

# Lengths of copies whose chances are learned, and the most years told apart.
LENGTHS = (4, 5, 6, 7, 8, 10, 12, 16, 20, 28, 40)
_MAX_YEARS = 4
_MAX_SAMPLES = 2000  # strings of each length
# Chance, before reading, that a passage comes from a text in the corpus: a
# reader may paste a sentence from anywhere.
_CORPUS_CHANCE = 0.5
# Least chance of copies that count where years are hidden.
_MIN_HIDDEN_CHANCE = 0.99


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Copies:
  """Records that have a passage's words, the best copies first."""

  rows: Int[np.ndarray, " R"]  # of the records
  is_exact: Bool[np.ndarray, " R"]  # whether they have all of it in a row
  runs: Int[np.ndarray, " R"]  # characters of the longest stretch they share
  covered: Bool[np.ndarray, "R n"]  # characters of the passage that they have

  @property
  def shares(self) -> Float[np.ndarray, " R"]:
    """Share of the passage that each copy has."""
    return self.covered.mean(axis=1) if len(self.rows) else np.zeros(0)

  def take(self, kept: np.ndarray) -> Copies:
    """Returns some of the copies."""
    return Copies(
      rows=self.rows[kept],
      is_exact=self.is_exact[kept],
      runs=self.runs[kept],
      covered=self.covered[kept],
    )


def find_copies(
  body: str,
  plain: str,
  overlap: Float[np.ndarray, " N"],
  texts: TextTable,
  is_event: Bool[np.ndarray, " D"],
) -> Copies:
  """Returns the records with the words of a passage.

  Args:
    body: plain text of the passage without its date.
    plain: with it; of copies those that have it too come first.
    overlap: weight of the strings of `body` that each record has.
  """
  greatest = overlap.max(initial=0)
  rows = np.flatnonzero(overlap > _MIN_OVERLAP * greatest)
  rows = rows[np.argsort(-overlap[rows], kind="stable")]
  # Formulas stand in many records, and the date tells which of them is meant.
  is_equal = overlap[rows] > _EQUAL * greatest
  size = min(max(int(is_equal.sum()), _MAX_CANDIDATES), _MAX_EQUAL)
  rows = rows[:size]
  shingles = [
    plain[start : start + MIN_RUN] for start in range(len(plain) - MIN_RUN + 1)
  ]
  found = []
  for row in rows.tolist() if shingles else ():
    text = plain_text(texts[row])
    of_text = {
      text[start : start + MIN_RUN] for start in range(len(text) - MIN_RUN + 1)
    }
    hits = np.fromiter((it in of_text for it in shingles), bool, len(shingles))
    # The passage may have a date that the record leaves to its heading.
    is_exact = plain in text or (len(body) >= MIN_RUN and body in text)
    if plain in text:
      run = len(plain)
    else:
      run = len(body) if is_exact else _longest_run(hits)
    if run:
      order = not is_exact, -run, not is_event[row], row
      found.append((order, row, is_exact, run, is_exact | _cover(hits)))
  found.sort(key=lambda copy: copy[0])
  covered = [copy[4] for copy in found]
  return Copies(
    rows=np.array([copy[1] for copy in found], int),
    is_exact=np.array([copy[2] for copy in found], bool),
    runs=np.array([copy[3] for copy in found], int),
    covered=np.array(covered, bool).reshape(len(found), len(plain)),
  )


def _longest_run(hits: Bool[np.ndarray, " s"]) -> int:
  """Returns the characters of the longest stretch of shared shingles."""
  stretches = (sum(hit) for is_hit, hit in itertools.groupby(hits) if is_hit)
  longest = max(map(int, stretches), default=0)
  return longest + MIN_RUN - 1 if longest else 0


def _cover(hits: Bool[np.ndarray, " s"]) -> Bool[np.ndarray, " n"]:
  """Returns the characters that are in a shared shingle."""
  return np.convolve(hits, np.ones(MIN_RUN, int)) > 0


def learn_chances(
  bodies: Sequence[str],
  years: Int[np.ndarray, " N"],
  is_event: Bool[np.ndarray, " N"],
  hashes: UInt32[np.ndarray, " N"],
  hides_years: bool = False,
) -> Float[np.ndarray, "2 lengths years"]:
  """Returns the chance that a copy in a comment or event has the same year.

  By the length of the copied string, and the number of years that have it.

  Args:
    bodies: plain texts without dates.
    years: of the records, UNKNOWN for those that teach nothing.
    hashes: of their texts, by which strings are sampled.
    hides_years: whether passages come only from years without labelled
      records. Then only copies count that no formula explains.
  """
  sizes = np.array([len(body) for body in bodies], int)
  order = np.argsort(hashes, kind="stable")
  order = order[(years[order] != UNKNOWN) & is_event[order]]
  chances = np.zeros((2, len(LENGTHS), _MAX_YEARS))
  for place, length in enumerate(LENGTHS):
    rows = order[sizes[order] >= length][:_MAX_SAMPLES]
    starts = hashes[rows].astype(int) % (sizes[rows] - length + 1)
    strings = [
      bodies[row][start : start + length]
      for row, start in zip(rows.tolist(), starts.tolist(), strict=True)
    ]
    string, copy = _find_holders(strings, bodies, length)
    is_other = (copy != rows[string]) & (years[copy] != UNKNOWN)
    if hides_years:
      is_other &= years[copy] != years[rows[string]]
    string, copy = string[is_other], copy[is_other]
    for kind in (0, 1):
      of_kind = is_event[copy] == kind
      chances[kind, place] = _count_chances(
        string[of_kind], years[copy[of_kind]], years[rows]
      )
  # A longer copy proves no less; one that more years have, no more.
  chances = np.maximum.accumulate(chances, axis=1)
  chances = np.minimum.accumulate(chances, axis=2)
  if hides_years:
    chances[chances < _MIN_HIDDEN_CHANCE] = 0
  return chances


def _find_holders(
  strings: Sequence[str], texts: Sequence[str], length: int
) -> tuple[np.ndarray, np.ndarray]:
  """Returns pairs of a string and a text that holds it."""
  hashes = wording.Occurrences.find(strings, (length,)).hashes
  order = np.argsort(hashes, kind="stable")
  unique, first, counts = np.unique(
    hashes[order], return_index=True, return_counts=True
  )
  occurrences = wording.Occurrences.find(texts, (length,))
  position, is_found = find_sorted(unique, occurrences.hashes)
  position, holders = position[is_found], occurrences.rows[is_found]
  # Equal strings of several records.
  sizes = counts[position]
  offset = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
  return order[np.repeat(first[position], sizes) + offset], np.repeat(
    holders, sizes
  )


def _count_chances(
  string: np.ndarray, copy_years: np.ndarray, own_years: np.ndarray
) -> np.ndarray:
  """Returns the chance of the same year by the number of years of copies."""
  pairs = np.unique(np.stack([string, copy_years]), axis=1)
  is_own = pairs[1] == own_years[pairs[0]]
  size = len(own_years)
  num_far = np.bincount(pairs[0][~is_own], minlength=size)
  has_own = np.bincount(pairs[0][is_own], minlength=size) > 0

  def share(is_one: np.ndarray) -> float:
    return (is_one.sum() + 1) / (size + 2)

  result = []
  for number in range(1, _MAX_YEARS + 1):
    last = number == _MAX_YEARS
    is_before = num_far >= number - 1 if last else num_far == number - 1
    is_equal = num_far >= number if last else num_far == number
    # The corpus has the text itself, beside other years; or another text of
    # that year; or of other years alone.
    same = _CORPUS_CHANCE * share(is_before)
    same += (1 - _CORPUS_CHANCE) * share(has_own & is_before)
    far = (1 - _CORPUS_CHANCE) * share(~has_own & is_equal)
    result.append(same / (same + far))
  return np.array(result)


_SURE_CHANCE = 0.99  # of a copy of part of a passage, to count
_RIVAL_SHARE = 0.8  # of the longest run


def weigh_copies(
  copies: Copies,
  years: Int[np.ndarray, " R"],
  is_event: Bool[np.ndarray, " R"],
  chances: Float[np.ndarray, "2 lengths years"],
) -> Float[np.ndarray, " R"]:
  """Returns the chance of each copy to be of the time of the passage.

  The rest to 1 is the chance that none of them is.
  """
  if not len(copies.rows):
    return np.zeros(0)
  length = np.searchsorted(LENGTHS, copies.runs, side="right") - 1
  # Years of the copies that are as long or longer.
  rivals = copies.runs[None] >= copies.runs[:, None]
  number = np.array([len({*years[it].tolist()}) for it in rivals], int)
  number = np.minimum(number, _MAX_YEARS) - 1
  chance = chances[is_event.astype(int), length, number]
  # A stretch of a passage may be copied anywhere in it. Looser copies are left
  # to `parallels`, which learns from retellings.
  num_places = 1 + (copies.covered.shape[1] - copies.runs) * ~copies.is_exact
  odds = chance / (1 - chance) / num_places
  chance = odds / (1 + odds)
  is_counted = copies.is_exact | (chance >= _SURE_CHANCE)
  chance = np.where(is_counted, chance, 0)
  # Where a copy has more in a row, shorter ones say nothing; characters that
  # several copies have are theirs by the odds of each.
  runs = copies.covered * (copies.runs * is_counted)[:, None]
  is_best = copies.covered & (runs >= _RIVAL_SHARE * runs.max(0, initial=0))
  covered = is_best * chance[:, None]
  odds = is_best * (chance / (1 - chance))[:, None]
  share = odds / np.maximum(odds.sum(axis=0), 1e-12)
  return (share * covered.max(axis=0, initial=0)).mean(axis=1)
