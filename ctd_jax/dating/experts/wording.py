"""Strings of texts: n-grams, shared wording, and the years of strings.

Axes: N or T texts, t a block of them, E events, V strings, P pairs, S a sample
of the records, G groups of strings, Y years.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import scipy.sparse
from jaxtyping import Bool, Float32, Int, Int8, Num, UInt64

from ctd_jax.dating.corpus import Labels, MonthAxis, find_sorted
from ctd_jax.utils import output

# A string is known by a 64-bit hash of its characters, so that counting twenty
# thousand texts is a sort of integers, without a dictionary of strings.
# 2**64 over the golden ratio, odd: spreads characters over all bits (Knuth's
# multiplicative hashing).
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
_CHARS_PER_BLOCK = 2**20  # characters whose strings are held at once
_STRINGS_PER_STRETCH = 2**22  # of hashes that are merged at once, about
_BEGINNING_BITS = 20  # of a hash; a table of these fits into a cache


@dataclasses.dataclass(frozen=True)
class NgramVocabulary:
  """The strings that count, in the order of the columns."""

  hashes: UInt64[np.ndarray, " V"]  # of the strings, ascending
  lengths: Int8[np.ndarray, " V"]  # characters of each
  # Texts that hold it, of those the vocabulary was made of.
  text_counts: Int[np.ndarray, " V"]

  def __len__(self) -> int:
    return len(self.hashes)

  def select_columns(
    self, columns: Int[np.ndarray, " v"] | slice
  ) -> NgramVocabulary:
    """Returns the strings of some columns, which must ascend."""
    return NgramVocabulary(
      self.hashes[columns], self.lengths[columns], self.text_counts[columns]
    )

  def encode(self, texts: Sequence[str]) -> scipy.sparse.csr_array:
    """Returns float32 [N, V]: 1 where a text holds a string, else 0."""
    matrix = self.count_strings(texts)
    matrix.data[:] = 1  # a text holds a string or not, however often
    return matrix

  def count_strings(self, texts: Sequence[str]) -> scipy.sparse.csr_array:
    """Returns float32 [N, V]: how often a text holds a string."""
    blocks = [self._count_block(block) for block in _iter_blocks(texts)]
    if not blocks:
      return scipy.sparse.csr_array((0, len(self)), dtype=np.float32)
    return scipy.sparse.vstack(blocks, format="csr")

  def count_texts(self, occurrences: Occurrences) -> Int[np.ndarray, " V"]:
    """Returns the number of texts that contain each string."""
    if not len(self):
      return np.zeros(0, np.int64)
    # What begins as none of the strings does is not looked up.
    is_beginning = np.zeros(1 << _BEGINNING_BITS, bool)
    shift = np.uint64(64 - _BEGINNING_BITS)
    is_beginning[self.hashes >> shift] = True
    likely = occurrences.select(is_beginning[occurrences.hashes >> shift])
    columns, is_found = find_sorted(self.hashes, likely.hashes)
    # A text may hold a string often.
    found = np.unique(likely.rows[is_found] * len(self) + columns[is_found])
    return np.bincount(found % len(self), minlength=len(self))

  def _count_block(self, texts: Sequence[str]) -> scipy.sparse.csr_array:
    rows, hashes, _ = _find_occurrences(texts, np.unique(self.lengths).tolist())
    # Looked up in ascending order, each once: the table is larger than a cache.
    unique, inverse = np.unique(hashes, return_inverse=True)
    positions, is_known = find_sorted(self.hashes, unique)
    columns, is_counted = positions[inverse], is_known[inverse]
    return _make_count_matrix(
      rows[is_counted], columns[is_counted], (len(texts), len(self))
    )


@dataclasses.dataclass(frozen=True)
class Occurrences:
  """Strings of texts, one for each place where one stands."""

  rows: Int[np.ndarray, " o"]  # of the texts
  hashes: UInt64[np.ndarray, " o"]  # of the strings

  @classmethod
  def find(cls, texts: Sequence[str], lengths: Sequence[int]) -> Occurrences:
    """Returns all strings of texts, of some lengths in characters."""
    rows, hashes, _ = _find_occurrences(texts, lengths)
    return cls(rows, hashes)

  def select(self, is_wanted: Bool[np.ndarray, " o"]) -> Occurrences:
    """Returns some of them."""
    return Occurrences(self.rows[is_wanted], self.hashes[is_wanted])


def count_ngrams(
  texts: Sequence[str], lengths: Sequence[int], min_texts: int = 1
) -> tuple[NgramVocabulary, scipy.sparse.csr_array]:
  """Returns the strings of `texts` [V], and which text holds which, [N, V]."""
  all_ngrams = collect_ngrams(texts, lengths)
  vocabulary = all_ngrams.select_columns(
    np.flatnonzero(all_ngrams.text_counts >= min_texts)
  )
  return vocabulary, vocabulary.encode(texts)


def hash_strings(text: str, lengths: Sequence[int]) -> UInt64[np.ndarray, " v"]:
  """Returns the hashes of the strings of a text, ascending, each once."""
  return np.unique(_find_occurrences([text], lengths)[1])


def find_strings(
  hashes: UInt64[np.ndarray, " V"], text: str, lengths: Sequence[int]
) -> dict[int, str]:
  """Returns index -> string for those strings of a text that `hashes` hold."""
  result = {}
  for length in lengths:
    starts = range(len(text) - length + 1)
    strings = list({text[start : start + length] for start in starts})
    columns, is_found = find_sorted(
      hashes, _find_occurrences(strings, (length,))[1]
    )
    result |= {
      int(columns[index]): strings[index] for index in np.flatnonzero(is_found)
    }
  return result


def collect_ngrams(
  texts: Sequence[str], lengths: Sequence[int]
) -> NgramVocabulary:
  """Returns the strings of `texts`, of some `lengths` in characters."""
  vocabulary, block_vocabularies = _collect_block([], lengths), []
  for block in _iter_blocks(texts):
    block_vocabularies.append(_collect_block(block, lengths))
    # Rarely enough that all merges together cost what the last one does.
    if sum(map(len, block_vocabularies)) > max(
      len(vocabulary), 8 * _CHARS_PER_BLOCK
    ):
      vocabulary, block_vocabularies = (
        _merge_vocabularies([vocabulary, *block_vocabularies]),
        [],
      )
  return _merge_vocabularies([vocabulary, *block_vocabularies])


def _iter_blocks(texts: Sequence[str]) -> Iterator[Sequence[str]]:
  """Yields consecutive texts, of about `_CHARS_PER_BLOCK` characters."""
  block_ids = np.cumsum([len(text) for text in texts]) // _CHARS_PER_BLOCK
  starts = np.flatnonzero(np.diff(block_ids, prepend=-1))
  for start, end in itertools.pairwise([*starts, len(texts)]):
    yield texts[start:end]


def _collect_block(
  texts: Sequence[str], lengths: Sequence[int]
) -> NgramVocabulary:
  """Returns the strings of some texts."""
  rows, hashes, sizes = _find_occurrences(texts, lengths)
  unique, first, columns = np.unique(
    hashes, return_index=True, return_inverse=True
  )
  matrix = _make_count_matrix(rows, columns, (len(texts), len(unique)))
  text_counts = np.bincount(matrix.indices, minlength=len(unique))
  return NgramVocabulary(unique, sizes[first], text_counts.astype(np.int32))


def _merge_vocabularies(
  vocabularies: Sequence[NgramVocabulary],
) -> NgramVocabulary:
  """Returns the strings of several sets of texts."""
  # They are merged in stretches of their hashes, so that little more than the
  # sets and the result is held.
  num_stretches = 1 + sum(map(len, vocabularies)) // _STRINGS_PER_STRETCH
  bounds = (np.arange(1, num_stretches) * (2.0**64 / num_stretches)).astype(
    np.uint64
  )
  cuts = [
    [0, *np.searchsorted(each.hashes, bounds).tolist(), len(each)]
    for each in vocabularies
  ]
  merged = [
    _merge_stretch(
      [
        each.select_columns(slice(*cut[number : number + 2]))
        for each, cut in zip(vocabularies, cuts, strict=True)
      ]
    )
    for number in range(num_stretches)
  ]
  return NgramVocabulary(
    *(
      np.concatenate([getattr(stretch, field.name) for stretch in merged])
      for field in dataclasses.fields(NgramVocabulary)
    )
  )


def _merge_stretch(
  vocabularies: Sequence[NgramVocabulary],
) -> NgramVocabulary:
  hashes = np.concatenate([vocabulary.hashes for vocabulary in vocabularies])
  order = np.argsort(hashes, kind="stable")
  hashes = hashes[order]
  is_first = np.append(True, hashes[1:] != hashes[:-1])[: len(hashes)]
  starts = np.flatnonzero(is_first)
  lengths = np.concatenate([vocabulary.lengths for vocabulary in vocabularies])
  text_counts = np.concatenate(
    [vocabulary.text_counts for vocabulary in vocabularies]
  )[order]
  return NgramVocabulary(
    hashes[starts],
    lengths[order[starts]],
    np.add.reduceat(text_counts, starts, dtype=np.int32),
  )


def _find_occurrences(
  texts: Sequence[str], lengths: Sequence[int]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
  """Returns text, hash and length of every string of some lengths."""
  codes = np.frombuffer("".join(texts).encode("utf-32-le"), np.uint32)
  codes = codes.astype(np.uint64)
  text_of_character = np.repeat(
    np.arange(len(texts)), [len(text) for text in texts]
  )
  rows, hashes, sizes = (
    [text_of_character[:0]],
    [codes[:0]],
    [np.zeros(0, np.int8)],
  )
  for length in lengths:
    num_positions = max(len(codes) - length + 1, 0)
    hash_values = np.full(num_positions, length, np.uint64)
    # All strings of a length at once: one character more each round, [P].
    for shift in range(length):
      hash_values = (
        hash_values + codes[shift : shift + num_positions]
      ) * _MULTIPLIER
      hash_values ^= hash_values >> np.uint64(29)
    # Texts are joined; a string that crosses from one to the next is none.
    is_within_text = (
      text_of_character[:num_positions]
      == text_of_character[length - 1 : length - 1 + num_positions]
    )
    rows.append(text_of_character[:num_positions][is_within_text])
    hashes.append(hash_values[is_within_text])
    sizes.append(np.full(int(is_within_text.sum()), length, np.int8))
  return np.concatenate(rows), np.concatenate(hashes), np.concatenate(sizes)


def _make_count_matrix(
  rows: np.ndarray, columns: np.ndarray, shape: tuple[int, int]
) -> scipy.sparse.csr_array:
  ones = np.ones(len(rows), np.float32)
  return scipy.sparse.coo_array((ones, (rows, columns)), shape=shape).tocsr()


# Shared wording: the events whose rare strings a text holds too.
#
# A citation, a comment and a parallel work tell an event in words that few
# other events have. An `EventStringIndex` weighs the strings of all events by
# their rarity; `overlap` is the weight of the strings that two texts share.
# Strings that hundreds of events hold (「公會」) say little and are left out.
# That limit is a number and no share of the events, so a string costs at most
# so many matches in a corpus of any size and the cost is linear in the
# characters; of a large corpus the rarer strings remain, the longer ones and
# the names.

LENGTHS = (2, 3, 4, 5)  # of the strings, in characters
MAX_EVENTS = 300  # that may hold a string for it to count
_IDF_OFFSET = 1.5  # taken off, so that the commonest strings weigh little
_BREAK = "\n"  # no string of a plain text crosses it
_TEXTS_PER_BLOCK = 8192  # encoded at once
_MATCHES_PER_BLOCK = 10_000_000  # of texts with events, held at once


@dataclasses.dataclass(frozen=True)
class EventStringIndex:
  """The strings of the events."""

  strings: NgramVocabulary  # those that count, [V]
  # Weight of each string, its inverse document frequency.
  idf: Float32[np.ndarray, " V"]
  # Which event holds which string, sparse [E, V].
  event_strings: scipy.sparse.csr_array

  @property
  def event_weights(self) -> Float32[np.ndarray, " E"]:
    """Weight of all strings of each event."""
    return self.event_strings @ self.idf

  @functools.cached_property
  def _string_events(self) -> scipy.sparse.csr_array:
    """Whether each string is in each event, [V, E]."""
    return self.event_strings.T.tocsr()

  def encode(self, texts: Sequence[str]) -> scipy.sparse.csr_array:
    """Returns which of the strings `texts` hold, [T, V]."""
    return self.strings.encode(texts)

  def encode_without_spans(
    self, texts: Sequence[str], spans: Sequence[tuple[int, int]]
  ) -> scipy.sparse.csr_array:
    """Returns which of the strings `texts` hold outside a span, [T, V]."""
    # Strings that cross the span do not count. A text with many spans is read
    # once, so that the cost is linear in its characters.
    unique_texts = list(dict.fromkeys(texts))
    row_of_text = {text: row for row, text in enumerate(unique_texts)}
    rows = [row_of_text[text] for text in texts]
    # Strings that touch a span are within it and what is near to it.
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
    """Returns the weight of the shared strings, sparse [T, E]."""
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
      *encoders: each gives the strings of a slice of its T texts.
      max_matches: rough limit on the matches of texts with events in a block.
    """
    frequency = self.strings.text_counts
    for start in output.Progress(
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
  """Yields consecutive texts whose overlaps can be held at once."""
  # A block ends where the matches pass a multiple of the limit.
  numbers = np.cumsum(matches) // max_matches
  edges = np.flatnonzero(np.diff(numbers, prepend=-1)).tolist()
  for first, end in itertools.pairwise([*edges, len(matches)]):
    yield slice(first, end)


def build_string_index(event_texts: Sequence[str]) -> EventStringIndex:
  """Returns the strings of events."""
  strings = collect_ngrams(event_texts, LENGTHS)
  weights = weigh_strings(strings.text_counts, len(event_texts))
  columns = np.flatnonzero(weights)
  strings = strings.select_columns(columns)
  return EventStringIndex(
    strings, weights[columns], strings.encode(event_texts)
  )


def weigh_strings(
  event_counts: Int[np.ndarray, " V"], num_events: int
) -> Float32[np.ndarray, " V"]:
  """Returns the weight of strings, 0 for those that do not count."""
  weights = np.log(max(num_events, 1) / event_counts) - _IDF_OFFSET
  is_rare = (weights > 0) & (event_counts <= MAX_EVENTS)
  return np.where(is_rare, weights, 0).astype(np.float32)


def select_top_entries(
  overlap: scipy.sparse.csr_array, max_entries: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
  """Returns rows, columns and values of the largest entries of each row.

  About `max_entries` are kept per row; equal entries stay together.
  """
  # The order of the events must not matter: equal entries are taken if fewer
  # than `max_entries` are greater, left if that makes more than twice as many.
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
  """Returns the entries at (row, column), 0 if not stored; rows ascend."""
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


# Vocabulary of a corpus: the strings that records share, and their years.

NGRAM_LENGTHS = (1, 2, 3, 4)
KERNEL_WIDTHS = (2.0, 5.0, 14.0)  # years, standard deviation of each kernel
_RARITY_EDGES = (2, 4, 8, 20, 60, 200)  # texts with the string, lower edges
_MIN_GROUP_STRINGS = 100  # strings that make a group of their own
SATURATION_POWER = 0.5  # a string in n texts of a year counts n ** this


@dataclasses.dataclass(frozen=True)
class YearVocabulary:
  """Strings of a sample of the records, and the group of each."""

  texts: Sequence[str]  # of all records, [N]
  strings: NgramVocabulary  # those that count, [V]
  # Strings of each group, columns of `matrix`, G arrays.
  groups: tuple[np.ndarray, ...]
  # Records that densities are learned from, ascending.
  sample: Int[np.ndarray, " S"]
  matrix: scipy.sparse.csr_array  # which of them holds which string, [S, V]

  @property
  def num_scores(self) -> int:
    """Number of scores of a record and year: groups times kernels."""
    return len(self.groups) * len(KERNEL_WIDTHS)

  def count_by_year(
    self, axis: MonthAxis, labels: Labels, is_training: Bool[np.ndarray, " N"]
  ) -> scipy.sparse.csr_array:
    """Returns how often each year has each string, saturated, sparse [V, Y]."""
    training_rows = np.flatnonzero((labels.is_known & is_training)[self.sample])
    years = axis.year_of[labels.month[self.sample[training_rows]]]
    year_matrix = scipy.sparse.coo_array(
      (np.ones(len(training_rows), np.float32), (years, training_rows)),
      shape=(axis.num_years, len(self.sample)),
    ).tocsr()
    counts = (year_matrix @ self.matrix).T.tocsr()
    counts.data **= SATURATION_POWER
    return counts


def build_year_vocabulary(
  texts: Sequence[str], sample: Int[np.ndarray, " S"]
) -> YearVocabulary:
  """Returns the strings that several records of a sample share."""
  strings, matrix = count_ngrams(
    [texts[row] for row in sample], NGRAM_LENGTHS, min_texts=_RARITY_EDGES[0]
  )
  edges = np.searchsorted(_RARITY_EDGES, strings.text_counts, side="right")
  groups = []
  for length in NGRAM_LENGTHS:
    for edge in range(1, len(_RARITY_EDGES) + 1):
      columns = np.flatnonzero((strings.lengths == length) & (edges == edge))
      if len(columns) >= _MIN_GROUP_STRINGS:
        groups.append(columns)
  return YearVocabulary(texts, strings, tuple(groups), sample, matrix)


def make_year_kernels(num_years: int) -> list[Float32[np.ndarray, "Y Y"]]:
  """Returns a Gaussian smoothing matrix for each width; rows sum to 1."""
  positions = np.arange(num_years, dtype=np.float32)
  distance = np.abs(positions[:, None] - positions)
  weights = [np.exp(-0.5 * (distance / width) ** 2) for width in KERNEL_WIDTHS]
  return [weight / weight.sum(axis=1, keepdims=True) for weight in weights]
