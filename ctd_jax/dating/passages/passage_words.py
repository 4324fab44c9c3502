"""Words of a passage: the years that use its strings.

Axes: V strings, v those of a passage, Y years.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence

import numpy as np
import scipy.sparse
from jaxtyping import Float, Float32, Int, Int8, UInt64

from ctd_jax.dating.experts import ngrams, vocabulary, words

_MAX_NOTED_STRINGS = 5  # that a note names
_MIN_NOTED_SCORE = 0.05  # in nats, for a year, of a string that is named


@dataclasses.dataclass(frozen=True, eq=False)
class PassageWords:
  """Densities of strings over the years.

  Attributes:
    hashes: of the strings, ascending.
    groups: of each string, -1 for one that does not count.
    counts: how often each year has each string, saturated, sparse [V, Y].
    total_counts: of all strings.
    weights: of the groups by kernel.
  """

  hashes: UInt64[np.ndarray, " V"]
  groups: Int8[np.ndarray, " V"]
  counts: scipy.sparse.csr_array
  total_counts: Float32[np.ndarray, " Y"]
  weights: Float[np.ndarray, " f"]

  @classmethod
  def from_fitted(cls, fitted: words.FittedWords) -> PassageWords:
    """Returns the densities of a fitted expert, its texts left out."""
    strings = fitted.vocabulary.strings
    groups = np.full(len(strings), -1, np.int8)
    for group, columns in enumerate(fitted.vocabulary.groups):
      groups[columns] = group
    # A string that no known record holds says nothing of any year.
    groups[np.diff(fitted.counts.indptr) == 0] = -1
    return cls(
      hashes=strings.hashes,
      groups=groups,
      counts=fitted.counts.astype(np.float32),
      total_counts=np.asarray(fitted.counts.sum(axis=0), np.float32).ravel(),
      weights=np.asarray(fitted.weights),
    )

  @functools.cached_property
  def _densities(self) -> tuple[words.SmoothedDensity, ...]:
    return words.smooth_total_counts(self.total_counts)

  def find_strings(self, text: str) -> Int[np.ndarray, " v"]:
    """Returns the strings of a plain text that count, each once, ascending."""
    if not len(self.hashes):
      return np.zeros(0, np.int64)
    hashes = ngrams.hash_strings(text, vocabulary.NGRAM_LENGTHS)
    columns = np.minimum(
      np.searchsorted(self.hashes, hashes), len(self.hashes) - 1
    )
    columns = columns[self.hashes[columns] == hashes]
    return columns[self.groups[columns] >= 0]

  def share_unknown(self, text: str) -> float:
    """Returns the share of the characters of a plain text that are not known.

    Args:
      text: of one character at least.
    """
    hashes = ngrams.hash_strings(text, (1,))
    if not len(self.hashes):
      return 1.0
    columns = np.minimum(
      np.searchsorted(self.hashes, hashes), len(self.hashes) - 1
    )
    return float((self.hashes[columns] != hashes).mean())

  def score_strings(
    self,
    columns: Int[np.ndarray, " v"],
    excluded: Sequence[tuple[str, int]] = (),
  ) -> Float32[np.ndarray, "v Y"]:
    """Returns what each string adds to the score of every year.

    Args:
      columns: the strings.
      excluded: plain text and year of labelled records that do not count.
    """
    if not len(columns):
      return np.zeros((0, len(self.total_counts)), np.float32)
    counts = self.counts[columns]
    if excluded:
      counts = counts.toarray()
      raw = np.round(counts ** (1 / vocabulary.SATURATION_POWER))
      for text, year in excluded:
        raw[np.isin(columns, self.find_strings(text)), year] -= 1
      counts = np.maximum(raw, 0) ** vocabulary.SATURATION_POWER
      counts = scipy.sparse.csr_array(counts)
    return words.weigh_strings(
      counts, self.groups[columns], self._densities, self.weights
    )

  def note_strings(self, text: str, year: int) -> str:
    """Returns the strings of a plain text that speak most for a year."""
    column_of = {}
    for length in vocabulary.NGRAM_LENGTHS:
      strings = sorted(
        {
          text[start : start + length]
          for start in range(len(text) - length + 1)
        }
      )
      column_of |= self._find_columns(strings, length)
    columns = np.array(sorted(column_of), np.int64)
    scores = self.score_strings(columns)
    values = scores[:, year] - scores.mean(axis=1)
    return "、".join(
      f"{column_of[int(columns[index])]} {values[index]:+.2f}"
      for index in np.argsort(-values, kind="stable")[:_MAX_NOTED_STRINGS]
      if values[index] > _MIN_NOTED_SCORE
    )

  def _find_columns(
    self, strings: Sequence[str], length: int
  ) -> dict[int, str]:
    """Returns column -> string of those of some strings that count."""
    if not len(self.hashes):
      return {}
    hashes = ngrams.hash_whole_strings(strings, length)
    columns = np.searchsorted(self.hashes, hashes)
    columns = np.minimum(columns, len(self.hashes) - 1)
    is_counted = (self.hashes[columns] == hashes) & (self.groups[columns] >= 0)
    return {
      int(columns[index]): strings[index]
      for index in np.flatnonzero(is_counted)
    }
