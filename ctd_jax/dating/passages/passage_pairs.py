"""Pairs of a passage and the records that share its wording.

The features are those of `parallel_pairs`, and of the same meaning: the passage
stands as one event more beside those of the corpus.

Axes: D documents, N records, P pairs.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection

import numpy as np
import scipy.sparse
from jaxtyping import Bool, Float32, Int

from ctd_jax.dating.corpus import Corpus
from ctd_jax.dating.experts import parallel_pairs, shared_wording
from ctd_jax.dating.experts.parallel_pairs import ParallelPairs

_ROUNDING = 1e-5  # of an overlap
# What the features say of the printed dates of both.
_DATE_FIELDS = (("first_month", 0), ("first_day", -1), ("opening_year", 0))


@dataclasses.dataclass(frozen=True, eq=False)
class BestOverlaps:
  """Greatest overlap of every event with a record, and the next.

  Attributes:
    values: greatest and second, 0 where there is none.
    records: that has the greatest, -1 where there is none.
  """

  values: Float32[np.ndarray, "N 2"]
  records: Int[np.ndarray, " N"]

  @classmethod
  def from_pairs(
    cls,
    pairs: ParallelPairs,
    num_records: int,
    is_counted: Bool[np.ndarray, " N"] | None = None,
  ) -> BestOverlaps:
    """Returns the greatest overlaps among pairs.

    Args:
      pairs: of records and events.
      num_records: number of records, N.
      is_counted: records whose pairs count; all by default.
    """
    if is_counted is not None:
      pairs = pairs.take(is_counted[pairs.record_row])
    values = np.zeros((num_records, 2), np.float32)
    records = np.full(num_records, -1, np.int32)
    order = np.lexsort((-pairs.overlap, pairs.event_row))
    event = pairs.event_row[order]
    rank = np.arange(len(order))
    rank = rank - np.searchsorted(event, event)
    for column in range(2):
      chosen = order[rank == column]
      values[pairs.event_row[chosen], column] = pairs.overlap[chosen]
      if column == 0:
        records[pairs.event_row[chosen]] = pairs.record_row[chosen]
    return cls(values, records)

  def renumber(
    self, new_rows: Int[np.ndarray, " n"], num_records: int
  ) -> BestOverlaps:
    """Returns the overlaps in a larger corpus; see `RecordTable.renumber`."""
    values = np.zeros((num_records, 2), np.float32)
    records = np.full(num_records, -1, np.int32)
    values[new_rows] = self.values
    records[new_rows] = np.where(
      self.records < 0, -1, new_rows[np.maximum(self.records, 0)]
    )
    return BestOverlaps(values, records)

  def best_of(
    self, events: Int[np.ndarray, " P"], excluded: Collection[int]
  ) -> Float32[np.ndarray, " P"]:
    """Returns the greatest overlap of events with records that count."""
    is_out = np.isin(self.records[events], list(excluded))
    return np.where(is_out, self.values[events, 1], self.values[events, 0])


@dataclasses.dataclass(frozen=True, eq=False)
class RecordTable:
  """What pairs read of the records.

  Attributes:
    first_month: that a record prints, 0 if none.
    first_day: likewise, -1 if none.
    opening_year: likewise, 0 if none.
    weights: of all strings of each document.
    best_overlaps: of events with events.
    best_known: of known events with those that teach.
    comment_starts: where the events of each record begin in the lists below;
      only commentary has any.
    comment_events: events beside a comment, those of greatest overlap first.
    comment_overlaps: overlap with these.
  """

  first_month: Int[np.ndarray, " N"]
  first_day: Int[np.ndarray, " N"]
  opening_year: Int[np.ndarray, " N"]
  weights: Float32[np.ndarray, " D"]
  best_overlaps: BestOverlaps
  best_known: BestOverlaps
  comment_starts: Int[np.ndarray, " starts"]
  comment_events: Int[np.ndarray, " Q"]
  comment_overlaps: Float32[np.ndarray, " Q"]

  def renumber(
    self,
    new_rows: Int[np.ndarray, " n"],
    num_records: int,
    weights: Float32[np.ndarray, " D"],
  ) -> RecordTable:
    """Returns the table of a larger corpus, of whose other rows less is known.

    Args:
      new_rows: row there of each record, ascending.
      num_records: number of records there.
      weights: of all strings of each document there.
    """

    def spread(values: np.ndarray, missing_value: int) -> np.ndarray:
      result = np.full(num_records, missing_value, np.int32)
      result[new_rows] = values
      return result

    sizes = spread(np.diff(self.comment_starts), 0)
    return RecordTable(
      first_month=spread(self.first_month, 0),
      first_day=spread(self.first_day, -1),
      opening_year=spread(self.opening_year, 0),
      weights=weights,
      best_overlaps=self.best_overlaps.renumber(new_rows, num_records),
      best_known=self.best_known.renumber(new_rows, num_records),
      comment_starts=np.concatenate([[0], np.cumsum(sizes)]),
      comment_events=new_rows[self.comment_events].astype(np.int32),
      comment_overlaps=self.comment_overlaps,
    )

  def pair_events(
    self,
    passage: Corpus,
    overlap: Float32[np.ndarray, " D"],
    total_weight: float,
    best_overlaps: BestOverlaps,
    excluded: Collection[int],
  ) -> ParallelPairs:
    """Returns the passage beside the events nearest in wording.

    Args:
      passage: read as a corpus of one.
      overlap: with each event, 0 for other documents.
      total_weight: of all strings of the passage.
      best_overlaps: of the events with other records.
      excluded: records that do not count in these.
    """
    _, events, values = shared_wording.select_top_entries(
      scipy.sparse.csr_array(overlap[None]), parallel_pairs.NUM_CANDIDATES
    )
    size, zeros = len(events), np.zeros(len(events), int)
    best = values.max(initial=0)
    columns = parallel_pairs.make_overlap_columns(
      overlap=values,
      max_overlap=np.full(size, best, np.float32),
      max_event_overlap=np.maximum(
        values, best_overlaps.best_of(events, excluded)
      ),
      text_weight=np.full(size, total_weight, np.float32),
      event_weight=self.weights[events],
      num_rivals=np.full(
        size, (overlap >= max(parallel_pairs.RIVAL_SHARE * best, 1e-9)).sum()
      ),
      rank=parallel_pairs.rank_within_rows(zeros, values),
    )
    columns += self._agree(passage, events)
    return _make_pairs(zeros, events, columns)

  def pair_comments(
    self,
    passage: Corpus,
    overlap: Float32[np.ndarray, " D"],
    total_weight: float,
    excluded: Collection[int],
  ) -> ParallelPairs:
    """Returns the comments that have the passage among their nearest events.

    Args:
      passage: read as a corpus of one.
      overlap: with each comment, 0 for other documents.
      total_weight: of all strings of the passage.
      excluded: records that do not count.
    """
    comments = np.flatnonzero(overlap[: len(self.first_month)])
    best_of_passage = overlap[comments].max(initial=0)
    values = overlap[comments]
    # [c, 20]: overlap of every comment with the events beside it.
    lists = self._list_overlaps(comments, excluded)
    num_greater = count_greater(lists, values)
    is_near = num_greater < parallel_pairs.NUM_CANDIDATES
    comments, values, lists = comments[is_near], values[is_near], lists[is_near]
    best = np.maximum(values, lists.max(axis=1, initial=0))
    is_rival = lists >= parallel_pairs.RIVAL_SHARE * best[:, None]
    num_rivals = is_rival.sum(axis=1)
    num_rivals += values >= parallel_pairs.RIVAL_SHARE * best
    columns = parallel_pairs.make_overlap_columns(
      overlap=values,
      max_overlap=best,
      max_event_overlap=np.full(len(values), best_of_passage, np.float32),
      text_weight=self.weights[comments],
      event_weight=np.full(len(values), total_weight, np.float32),
      num_rivals=num_rivals,
      rank=num_greater[is_near],
    )
    columns += self._agree(passage, comments)
    return _make_pairs(np.zeros(len(comments), int), comments, columns)

  def _list_overlaps(
    self, comments: np.ndarray, excluded: Collection[int]
  ) -> np.ndarray:
    starts = self.comment_starts[comments]
    sizes = self.comment_starts[comments + 1] - starts
    width = max(int(sizes.max(initial=0)), 1)
    position = np.arange(width)
    is_entry = position < sizes[:, None]
    index = np.where(is_entry, starts[:, None] + position, 0)
    if not len(self.comment_events):
      return np.zeros(index.shape, np.float32)
    is_out = np.isin(self.comment_events[index], list(excluded))
    return np.where(is_entry & ~is_out, self.comment_overlaps[index], 0)

  def _agree(self, passage: Corpus, rows: np.ndarray) -> list[np.ndarray]:
    columns = []
    for name, missing_value in _DATE_FIELDS:
      value = np.full(len(rows), getattr(passage, name)[0])
      columns += parallel_pairs.make_agreement_columns(
        value, getattr(self, name)[rows], missing_value
      )
    return columns


def list_comment_events(
  pairs: ParallelPairs, num_records: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
  """Returns starts, events and overlaps of the events beside every comment.

  Args:
    pairs: of comments and events.
    num_records: number of records, N.
  """
  order = np.lexsort((-pairs.overlap, pairs.record_row))
  counts = np.bincount(pairs.record_row, minlength=num_records)
  starts = np.concatenate([[0], np.cumsum(counts)])
  return (
    starts,
    pairs.event_row[order].astype(np.int32),
    pairs.overlap[order].astype(np.float32),
  )


def count_greater(
  lists: Float32[np.ndarray, "n k"], values: Float32[np.ndarray, " n"]
) -> Int[np.ndarray, " n"]:
  """Returns how many of the events beside each text share more with it.

  Events in one wording share as much, but for the order in which the weights of
  their strings were added up.

  Args:
    lists: overlaps of each text with the events beside it.
    values: its overlap with the passage.
  """
  return (lists > (1 + _ROUNDING) * values[:, None]).sum(axis=1)


def _make_pairs(
  records: np.ndarray, events: np.ndarray, columns: list[np.ndarray]
) -> ParallelPairs:
  """Returns pairs whose record is row 0 and whose events are `events`."""
  return ParallelPairs(
    record_row=records.astype(np.int32),
    event_row=events.astype(np.int32),
    features=np.stack(columns, axis=1).astype(np.float32),
    pair_hashes=np.zeros(len(events), np.uint32),
  )
