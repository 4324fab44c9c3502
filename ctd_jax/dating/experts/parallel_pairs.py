"""Pairs of records with shared wording, and what the two have in common.

Pairs are many times the records, so that what is made of them is made of a
block of records or pairs at a time.

Axes: N records, P pairs, E events, n records to compare, f features of a pair.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np
import scipy.sparse
from jaxtyping import Bool, Float32, Int, Num, UInt32

from ctd_jax.dating.corpus import UNKNOWN, Corpus
from ctd_jax.dating.experts import shared_wording

NUM_CANDIDATES = 20  # events that a record is paired with
_EVEN_OVERLAP = 5  # added to what an overlap is divided by
RIVAL_SHARE = 0.8  # share of the best overlap that makes a rival
_BLOCK = 65_536  # pairs whose features are made at once
# Of the hash of a pair's record, so that a pair differs from its reverse.
_HASH_MULTIPLIER = np.uint32(31)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ParallelPairs:
  """Records beside the events nearest in wording.

  Attributes:
    record_row: row of the record.
    event_row: row of the event, another record.
    features: of the pair.
    pair_hashes: made of the two texts.
  """

  record_row: Int[np.ndarray, " P"]
  event_row: Int[np.ndarray, " P"]
  features: Float32[np.ndarray, "P f"]
  pair_hashes: UInt32[np.ndarray, " P"]

  def __len__(self) -> int:
    return len(self.record_row)

  @property
  def overlap(self) -> Float32[np.ndarray, " P"]:
    """Weight of the strings that the two of each pair share."""
    return np.expm1(self.features[:, 0])

  def take(self, is_kept: Bool[np.ndarray, " P"]) -> ParallelPairs:
    """Returns some of the pairs."""
    return ParallelPairs(
      record_row=self.record_row[is_kept],
      event_row=self.event_row[is_kept],
      features=self.features[is_kept],
      pair_hashes=self.pair_hashes[is_kept],
    )


def make_parallel_pairs(
  corpus: Corpus,
  event_records: Int[np.ndarray, " E"],
  string_index: shared_wording.EventStringIndex,
  rows: Int[np.ndarray, " n"],
  texts: Sequence[str],
) -> ParallelPairs:
  """Returns `rows` beside the events nearest in wording, never themselves.

  Args:
    corpus: the texts.
    event_records: rows of the events, ascending.
    string_index: wording of those events.
    rows: of the records to compare.
    texts: what of them to compare, [n].
  """
  # Event that each record is itself, if it is one.
  event_position = np.minimum(
    np.searchsorted(event_records, rows), max(len(event_records) - 1, 0)
  )
  self_event = np.full(len(rows), UNKNOWN)
  if len(event_records):
    self_event = np.where(
      event_records[event_position] == rows, event_position, UNKNOWN
    )
  nearest_pairs, sums = _find_nearest_events(string_index, texts, self_event)
  text_index, event_index, overlap = nearest_pairs
  max_overlap, text_weight, max_event_overlap = sums
  is_rival = overlap >= RIVAL_SHARE * max_overlap[text_index]
  num_rivals = np.bincount(text_index, weights=is_rival, minlength=len(rows))
  ranks, event_weights = (
    rank_within_rows(text_index, overlap),
    string_index.event_weights,
  )
  record, event = (
    rows[text_index].astype(np.int32),
    event_records[event_index].astype(np.int32),
  )
  date_fields = (
    (corpus.first_month, 0),
    (corpus.first_day, -1),
    (corpus.opening_year, 0),
  )

  def make_features(block: slice) -> list[np.ndarray]:
    text_rows, event_rows, pair_overlap = (
      text_index[block],
      event_index[block],
      overlap[block],
    )
    columns = make_overlap_columns(
      overlap=pair_overlap,
      max_overlap=max_overlap[text_rows],
      max_event_overlap=max_event_overlap[event_rows],
      text_weight=text_weight[text_rows],
      event_weight=event_weights[event_rows],
      num_rivals=num_rivals[text_rows],
      rank=ranks[block],
    )
    for date_field, missing_value in date_fields:
      columns += make_agreement_columns(
        date_field[record[block]], date_field[event[block]], missing_value
      )
    return columns

  pair_hashes = hash_pairs(
    corpus.text_hashes[record], corpus.text_hashes[event]
  )
  return ParallelPairs(
    record_row=record,
    event_row=event,
    features=stack_features(make_features, len(record)),
    pair_hashes=pair_hashes,
  )


def hash_pairs(
  record_hashes: UInt32[np.ndarray, " #P"],
  event_hashes: UInt32[np.ndarray, " #P"],
) -> UInt32[np.ndarray, " #P"]:
  """Returns numbers made of the texts of each pair.

  Args:
    record_hashes: of the records, or of one record.
    event_hashes: of the events, or of one event.
  """
  return record_hashes * _HASH_MULTIPLIER + event_hashes


def make_overlap_columns(
  *,
  overlap: Float32[np.ndarray, " P"],
  max_overlap: Num[np.ndarray, " P"],
  max_event_overlap: Float32[np.ndarray, " P"],
  text_weight: Float32[np.ndarray, " P"],
  event_weight: Float32[np.ndarray, " P"],
  num_rivals: Num[np.ndarray, " P"],
  rank: Int[np.ndarray, " P"],
) -> list[np.ndarray]:
  """Returns the first features of pairs: what of their wording is shared.

  Args:
    overlap: weight of the strings that the two share.
    max_overlap: greatest overlap of the record with an event.
    max_event_overlap: greatest overlap of the event with a record.
    text_weight: weight of all strings of the record.
    event_weight: weight of all strings of the event.
    num_rivals: events that share with the record nearly as much as the best.
    rank: events that share more with the record.
  """
  return [
    np.log1p(overlap),
    overlap / (max_overlap + _EVEN_OVERLAP),
    overlap / (max_event_overlap + _EVEN_OVERLAP),
    overlap / (text_weight + _EVEN_OVERLAP),
    overlap / (event_weight + _EVEN_OVERLAP),
    np.log1p(num_rivals),
    rank,
    np.log1p(text_weight),
    np.log1p(event_weight),
    overlap < RIVAL_SHARE * max_overlap,
  ]


def make_agreement_columns(
  values: Int[np.ndarray, " P"],
  event_values: Int[np.ndarray, " P"],
  missing_value: int,
) -> list[np.ndarray]:
  """Returns whether what both of a pair print is the same, and is not.

  Args:
    values: of the record.
    event_values: of the event.
    missing_value: of a text that does not print it.
  """
  has_values = (values != missing_value) & (event_values != missing_value)
  is_same = values == event_values
  return [has_values & is_same, has_values & ~is_same]


def _find_nearest_events(
  string_index: shared_wording.EventStringIndex,
  texts: Sequence[str],
  self_event: np.ndarray,
) -> tuple[list[np.ndarray], tuple[np.ndarray, ...]]:
  """Returns the pairs of texts and events, with sums over all overlaps.

  Args:
    string_index: wording of the events.
    texts: what to compare, [n].
    self_event: event that each text is of, or UNKNOWN, [n].

  Returns:
    Text, event and overlap of each pair, [P]; the greatest overlap and the
    weight of each text, [n]; the greatest overlap of each event, [E].
  """
  max_overlap, text_weight = np.zeros((2, len(texts)), np.float32)
  max_event_overlap = np.zeros(string_index.event_strings.shape[0], np.float32)
  blocks = [(np.zeros(0, np.int32),) * 2 + (np.zeros(0, np.float32),)]
  for block, (string_matrix,) in string_index.iter_blocks(
    len(texts), lambda block: string_index.encode(texts[block])
  ):
    overlap = _drop_self_overlap(
      string_index.overlap(string_matrix), self_event[block]
    )
    text_index, event_index, value = shared_wording.select_top_entries(
      overlap, NUM_CANDIDATES
    )
    blocks.append((text_index + np.int32(block.start), event_index, value))
    max_overlap[block], text_weight[block] = (
      shared_wording.row_max(overlap),
      string_matrix @ string_index.idf,
    )
    np.maximum.at(max_event_overlap, overlap.indices, overlap.data)
  pairs = [np.concatenate(arrays) for arrays in zip(*blocks, strict=True)]
  return pairs, (max_overlap, text_weight, max_event_overlap)


def stack_features(
  make_features: Callable[[slice], list[np.ndarray]], size: int
) -> np.ndarray:
  """Returns the features of `size` pairs, float32 [P, f], made in blocks.

  Args:
    make_features: gives f columns of a block of the pairs.
    size: number of pairs, P.
  """
  result = np.zeros((size, len(make_features(slice(0, 0)))), np.float32)
  for start in range(0, size, _BLOCK):
    block = slice(start, start + _BLOCK)
    result[block] = np.stack(make_features(block), axis=1)
  return result


def rank_within_rows(rows: np.ndarray, values: np.ndarray) -> np.ndarray:
  """Returns how many pairs of the same row have a greater value, [P].

  Args:
    rows: ascending.
    values: falling within each row.
  """
  positions = np.arange(len(rows), dtype=np.int32)
  is_new_row = np.diff(rows, prepend=-1) != 0
  is_new_value = is_new_row | (np.diff(values, prepend=np.inf) != 0)
  value_starts = np.maximum.accumulate(np.where(is_new_value, positions, 0))
  return value_starts - np.maximum.accumulate(
    np.where(is_new_row, positions, 0)
  )


def _drop_self_overlap(
  overlap: scipy.sparse.csr_array, self_event: np.ndarray
) -> scipy.sparse.csr_array:
  """Returns the overlap without one event of each row, UNKNOWN for none."""
  self_event_of_entry = np.repeat(self_event, np.diff(overlap.indptr))
  overlap.data[overlap.indices == self_event_of_entry] = 0
  overlap.eliminate_zeros()
  return overlap
