"""Shared wording: the events whose rare strings a text holds too.

A citation, a comment and a parallel work tell an event in words that few other
events have. An `EventStringIndex` weighs the strings of all events by their
rarity; `overlap` is the weight of the strings that two texts share. Strings
that hundreds of events hold (「公會」) say little and are left out. That limit
is a number and no share of the events, so a string costs at most so many
matches in a corpus of any size and the cost is linear in the characters; of a
large corpus the rarer strings remain, the longer ones and the names.

Axes: T texts, t a block of them, E events, V strings, P pairs.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import scipy.sparse
from jaxtyping import Float32, Int, Num

from ctd_jax.dating.experts import ngrams
from ctd_jax.utils import progress

LENGTHS = (2, 3, 4, 5)  # of the strings, in characters
MAX_EVENTS = 300  # that may hold a string for it to count
_IDF_OFFSET = 1.5  # taken off, so that the commonest strings weigh little
_BREAK = "\n"  # no string of a plain text crosses it
_TEXTS_PER_BLOCK = 8192  # encoded at once
_MATCHES_PER_BLOCK = 10_000_000  # of texts with events, held at once


@dataclasses.dataclass(frozen=True)
class EventStringIndex:
  """The strings of the events.

  Attributes:
    strings: those that count, [V].
    idf: weight of each string, its inverse document frequency.
    event_strings: which event holds which string, sparse [E, V].
  """

  strings: ngrams.NgramVocabulary
  idf: Float32[np.ndarray, " V"]
  event_strings: scipy.sparse.csr_array

  @property
  def event_weights(self) -> Float32[np.ndarray, " E"]:
    """Weight of all strings of each event."""
    return self.event_strings @ self.idf

  @functools.cached_property
  def _string_events(self) -> scipy.sparse.csr_array:
    """Which string is held by which event, [V, E]."""
    return self.event_strings.T.tocsr()

  def encode(self, texts: Sequence[str]) -> scipy.sparse.csr_array:
    """Returns which of the strings `texts` hold, [T, V]."""
    return self.strings.encode(texts)

  def encode_without_spans(
    self, texts: Sequence[str], spans: Sequence[tuple[int, int]]
  ) -> scipy.sparse.csr_array:
    """Returns which of the strings `texts` hold outside a span, [T, V].

    What crosses the span does not count. A text that stands there with many
    spans is read once, so that the cost is linear in its characters.

    Args:
      texts: [T].
      spans: first character and end of what is left out of each.
    """
    unique_texts = list(dict.fromkeys(texts))
    row_of_text = {text: row for row, text in enumerate(unique_texts)}
    rows = [row_of_text[text] for text in texts]
    # Strings that touch a span lie within it and what is near to it.
    reach, nearby, rest = max(LENGTHS) - 1, [], []
    for text, (start, end) in zip(texts, spans, strict=True):
      before, after = text[max(start - reach, 0) : start], text[end:][:reach]
      nearby.append(before + text[start:end] + after)
      rest.append(f"{before}{_BREAK}{after}")
    count = self.strings.count_strings
    matrix = (count(unique_texts)[rows] - (count(nearby) - count(rest))).tocsr()
    matrix.eliminate_zeros()
    matrix.sort_indices()
    matrix.data[:] = 1
    return matrix

  def overlap(
    self, string_matrix: scipy.sparse.csr_array
  ) -> scipy.sparse.csr_array:
    """Returns the weight of the shared strings, sparse [T, E].

    Args:
      string_matrix: from `encode`.
    """
    weighed = string_matrix.copy()
    weighed.data = self.idf[string_matrix.indices]
    return weighed @ self._string_events

  def iter_blocks(
    self,
    size: int,
    *encoders: Callable[[slice], scipy.sparse.csr_array],
    max_matches: int = _MATCHES_PER_BLOCK,
  ) -> Iterator[tuple[slice, list[scipy.sparse.csr_array]]]:
    """Yields the slice of a block of texts, and their strings, [t, V] each.

    Args:
      size: number of texts, T.
      *encoders: each gives the strings of a slice of its T texts; they are
        read side by side.
      max_matches: matches that the overlaps of a block may have, roughly.
    """
    frequency = self.strings.text_counts
    for start in progress.Progress(
      range(0, size, _TEXTS_PER_BLOCK),
      "dating: shared wording",
      unit="block",
    ):
      stretch = slice(start, min(start + _TEXTS_PER_BLOCK, size))
      string_matrices = [encode(stretch) for encode in encoders]
      matches = sum(values @ frequency for values in string_matrices)
      for part in _cut_blocks(matches, max_matches):
        block = slice(start + part.start, start + part.stop)
        yield block, [values[part] for values in string_matrices]


def _cut_blocks(
  matches: Num[np.ndarray, " T"], max_matches: int
) -> Iterator[slice]:
  """Yields consecutive texts whose overlaps can be held at once.

  Args:
    matches: of each text, of its strings with those of events.
    max_matches: that a block may have, roughly.
  """
  # A block ends where the matches pass a multiple of the limit.
  numbers = np.cumsum(matches) // max_matches
  edges = np.flatnonzero(np.diff(numbers, prepend=-1)).tolist()
  for first, end in itertools.pairwise([*edges, len(matches)]):
    yield slice(first, end)


def build_string_index(event_texts: Sequence[str]) -> EventStringIndex:
  """Returns the strings of events.

  Args:
    event_texts: of the events, [E].
  """
  strings = ngrams.collect_ngrams(event_texts, LENGTHS)
  weights = weigh_strings(strings.text_counts, len(event_texts))
  columns = np.flatnonzero(weights)
  strings = strings.select_columns(columns)
  return EventStringIndex(
    strings, weights[columns], strings.encode(event_texts)
  )


def weigh_strings(
  event_counts: Int[np.ndarray, " V"], num_events: int
) -> Float32[np.ndarray, " V"]:
  """Returns the weight of strings, 0 for those that do not count.

  Args:
    event_counts: events that hold each string, 1 at least.
    num_events: number of events.
  """
  weights = np.log(max(num_events, 1) / event_counts) - _IDF_OFFSET
  is_rare = (weights > 0) & (event_counts <= MAX_EVENTS)
  return np.where(is_rare, weights, 0).astype(np.float32)


def select_top_entries(
  overlap: scipy.sparse.csr_array, max_entries: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
  """Returns rows, columns and values of the greatest entries of each row.

  About `max_entries` of a row. Equal entries are taken or left together, so
  that the order of the events plays no part: taken if fewer than `max_entries`
  are greater, left if that makes more than twice `max_entries`. Entries that
  are not stored do not count.

  Args:
    overlap: sparse [T, E].
    max_entries: of a row, roughly.
  """
  rows, columns = [np.zeros(0, np.int32)], [np.zeros(0, np.int32)]
  values = [np.zeros(0, np.float32)]
  for row in range(overlap.shape[0]):
    span = slice(overlap.indptr[row], overlap.indptr[row + 1])
    row_values, row_columns = overlap.data[span], overlap.indices[span]
    # One more than can be taken shows whether a run of equal entries ends.
    num_candidates = 2 * max_entries + 1
    if len(row_values) > num_candidates:
      threshold = np.partition(row_values, len(row_values) - num_candidates)[
        len(row_values) - num_candidates
      ]
      candidates = np.flatnonzero(row_values >= threshold)
      row_values, row_columns = row_values[candidates], row_columns[candidates]
    order = np.lexsort((row_columns, -row_values))[:num_candidates]
    negative_values = -row_values[order]
    num_greater = np.searchsorted(negative_values, negative_values, side="left")
    num_at_least = np.searchsorted(
      negative_values, negative_values, side="right"
    )
    selection = order[
      (num_greater < max_entries) & (num_at_least <= 2 * max_entries)
    ]
    rows.append(np.full(len(selection), row, np.int32))
    columns.append(row_columns[selection])
    values.append(row_values[selection])
  return tuple(map(np.concatenate, (rows, columns, values)))


def lookup_entries(
  overlap: scipy.sparse.csr_array,
  rows: Int[np.ndarray, " P"],
  columns: Int[np.ndarray, " P"],
) -> Float32[np.ndarray, " P"]:
  """Returns the entries at pairs of row and column, 0 where none is stored.

  Args:
    overlap: sparse [T, E].
    rows: ascending.
    columns: of any order.
  """
  # One dense row [E] is filled, read and cleared for each row in turn.
  result = np.zeros(len(rows), np.float32)
  row_values = np.zeros(overlap.shape[1], np.float32)
  ends = np.searchsorted(rows, np.arange(overlap.shape[0] + 1))
  for row, (start, end) in enumerate(itertools.pairwise(ends)):
    span = slice(overlap.indptr[row], overlap.indptr[row + 1])
    row_values[overlap.indices[span]] = overlap.data[span]
    result[start:end] = row_values[columns[start:end]]
    row_values[overlap.indices[span]] = 0
  return result


def row_max(overlap: scipy.sparse.csr_array) -> Float32[np.ndarray, " T"]:
  """Returns the greatest entry of each row, 0 for an empty one."""
  result = np.zeros(overlap.shape[0], np.float32)
  nonempty_rows = np.flatnonzero(np.diff(overlap.indptr))
  if len(nonempty_rows):
    result[nonempty_rows] = np.maximum.reduceat(
      overlap.data, overlap.indptr[nonempty_rows]
    )
  return result
