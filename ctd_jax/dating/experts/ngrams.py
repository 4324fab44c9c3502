"""Character n-grams of many texts as one sparse matrix.

Style, vocabulary and shared wording all need the short strings that a text
holds. A string is known by a 64-bit hash of its characters, so counting twenty
thousand texts is a sort of integers, without a dictionary of strings. Texts are
read in blocks, so that memory grows with the result alone.

Axes: N texts, V strings.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Sequence

import numpy as np
import scipy.sparse
from jaxtyping import Bool, Int, Int8, UInt64

# 2**64 over the golden ratio, odd: spreads characters over all bits (Knuth's
# multiplicative hashing).
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
_CHARS_PER_BLOCK = 2**20  # characters whose strings are held at once
_STRINGS_PER_STRETCH = 2**22  # of hashes that are merged at once, about
_BEGINNING_BITS = 20  # of a hash; a table of these fits into a cache


@dataclasses.dataclass(frozen=True)
class NgramVocabulary:
  """The strings that count, in the order of the columns.

  Attributes:
    hashes: of the strings, ascending.
    lengths: characters of each.
    text_counts: texts that hold it, of those the vocabulary was made of.
  """

  hashes: UInt64[np.ndarray, " V"]
  lengths: Int8[np.ndarray, " V"]
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
    """Returns how many texts hold each string.

    Quick where the strings are few: what the texts hold besides is not sorted.

    Args:
      occurrences: of strings in texts, of the lengths of these strings.
    """
    if not len(self):
      return np.zeros(0, np.int64)
    # What begins as none of the strings does is not looked up.
    is_beginning = np.zeros(1 << _BEGINNING_BITS, bool)
    shift = np.uint64(64 - _BEGINNING_BITS)
    is_beginning[self.hashes >> shift] = True
    likely = occurrences.select(is_beginning[occurrences.hashes >> shift])
    columns = np.searchsorted(self.hashes, likely.hashes)
    columns[columns == len(self)] = 0
    is_found = self.hashes[columns] == likely.hashes
    # A text may hold a string often.
    found = np.unique(likely.rows[is_found] * len(self) + columns[is_found])
    return np.bincount(found % len(self), minlength=len(self))

  def _count_block(self, texts: Sequence[str]) -> scipy.sparse.csr_array:
    rows, hashes, _ = _find_occurrences(texts, np.unique(self.lengths).tolist())
    # Looked up in ascending order, each once: the table is larger than a cache.
    unique, inverse = np.unique(hashes, return_inverse=True)
    positions = np.searchsorted(self.hashes, unique)
    positions[positions == len(self)] = 0
    if len(self):
      positions[self.hashes[positions] != unique] = -1
    columns = positions[inverse]  # -1 for a string that does not count
    is_in_vocabulary = columns >= 0 if len(self) else rows < 0
    return _make_count_matrix(
      rows[is_in_vocabulary], columns[is_in_vocabulary], (len(texts), len(self))
    )


@dataclasses.dataclass(frozen=True)
class Occurrences:
  """Strings of texts, one for each place where one stands.

  Attributes:
    rows: of the texts.
    hashes: of the strings.
  """

  rows: Int[np.ndarray, " o"]
  hashes: UInt64[np.ndarray, " o"]

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
  """Returns the strings of `texts` and which text holds which.

  Args:
    texts: [N].
    lengths: of the strings, in characters.
    min_texts: texts that must hold a string for it to count.

  Returns:
    The strings [V] and float32 [N, V] of ones.
  """
  all_ngrams = collect_ngrams(texts, lengths)
  vocabulary = all_ngrams.select_columns(
    np.flatnonzero(all_ngrams.text_counts >= min_texts)
  )
  return vocabulary, vocabulary.encode(texts)


def hash_strings(text: str, lengths: Sequence[int]) -> UInt64[np.ndarray, " v"]:
  """Returns the hashes of the strings of a text, ascending, each once.

  Args:
    text: of any length.
    lengths: of the strings, in characters.
  """
  return np.unique(_find_occurrences([text], lengths)[1])


def hash_whole_strings(
  strings: Sequence[str], length: int
) -> UInt64[np.ndarray, " n"]:
  """Returns the hash of each of some strings of one length, in their order.

  Args:
    strings: of `length` characters each.
    length: 1 or more.
  """
  return _find_occurrences(strings, (length,))[1]


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
  """Returns the strings of several sets of texts.

  They are merged in stretches of their hashes, so that little more than the
  sets and the result is held.
  """
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
