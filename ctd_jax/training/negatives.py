"""Hard negatives: records of train months that do not answer a query.

Axes: B queries, H hard negatives a query, D draws of a month, N records of one
kind.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import numpy as np
from jaxtyping import Int, Int32, Int64

from ctd_jax.benchmark.dataset import Benchmark
from ctd_jax.benchmark.records import EVENT, NEG_COMMENT, NO_EVENT

# Kind of record that each type of `config.negatives` draws.
RECORD_KINDS = {
  "same_month_comment": NEG_COMMENT,
  "near_placeholder": NO_EVENT,
  "near_event": EVENT,
  "any_comment": NEG_COMMENT,
  "release_comment": NEG_COMMENT,
}
# Distance of a mined negative from the query's interval, in months: the
# neighbouring months, and the same month of the neighbouring years.
_NEAR_MONTHS = np.array([1, 2, 3, 12, 24])
_MAX_DRAWS = 8  # of a month, before any train record of the kind is taken
# Candidates of which the release takes one: comments on the queried months,
# filled up with others.
_RELEASE_POOL = 16


@dataclasses.dataclass(frozen=True)
class _RecordsByMonth:
  """Train records of one kind in the order of their months.

  Attributes:
    rows: of the gallery.
    starts: position in `rows` of the first record of each month, and of the
      end of the last month; K + 1.
  """

  rows: Int64[np.ndarray, " N"]
  starts: Int64[np.ndarray, " _"]

  @classmethod
  def make(
    cls,
    rows: Int64[np.ndarray, " N"],
    months: Int64[np.ndarray, " N"],
    num_months: int,
  ) -> _RecordsByMonth:
    """Returns records sorted by their ordinal months."""
    order = np.argsort(months, kind="stable")
    starts = np.searchsorted(months[order], np.arange(num_months + 1))
    return cls(rows[order], starts)

  def count(
    self, first: Int[np.ndarray, "*axes"], last: Int[np.ndarray, "*axes"]
  ) -> Int64[np.ndarray, "*axes"]:
    """Returns how many records months have, from first to last."""
    return self.starts[last + 1] - self.starts[first]


class NegativeSampler:
  """Draws hard negatives for queries from the records of train months.

  Types, all of which share something with the query without answering it:
  `same_month_comment` (later exegesis on a queried month), `near_placeholder`
  and `near_event` (records 1-3 months, one or two years off the interval),
  `any_comment` (later exegesis on any month). A type with nothing to offer
  falls back to any train record of its kind. `release_comment` is what the
  released code draws: one of 16 comments, on the months asked for as far as
  they have so many.
  """

  def __init__(self, benchmark: Benchmark, counts: Mapping[str, int]):
    """Indexes the train records by kind and month.

    Args:
      benchmark: the data set.
      counts: negatives of each type for one query; their sum is H.

    Raises:
      ValueError: naming the type of which the data set has no train record.
    """
    self._types = [name for name, n in counts.items() for _ in range(n)]
    self._num_months = len(benchmark.timeline.months)
    is_train = np.array(benchmark.record_splits) == "train"
    months = np.array(
      [benchmark.timeline.ordinal(record.key) for record in benchmark.records],
      np.int64,
    )
    self._records = {}
    for name in dict.fromkeys(self._types):
      kind = RECORD_KINDS[name]
      rows = np.flatnonzero(is_train & (benchmark.kinds == kind))
      if not len(rows):
        raise ValueError(
          f"config.negatives.{name}={counts[name]}: {benchmark.name} has no "
          f"train record of the kind {kind}; set it to 0"
        )
      self._records[kind] = _RecordsByMonth.make(
        rows, months[rows], self._num_months
      )

  def __len__(self) -> int:
    """Number of negatives a query, H."""
    return len(self._types)

  def draw_negatives(
    self, ends: Int[np.ndarray, "B 2"], rng: np.random.Generator
  ) -> Int32[np.ndarray, "B H"]:
    """Returns rows of the gallery.

    Args:
      ends: first and last ordinal month of each query's interval.
      rng: advanced by the draws.
    """
    rows = np.zeros((len(ends), len(self._types)), np.int32)
    for column, name in enumerate(self._types):
      records = self._records[RECORD_KINDS[name]]
      if name == "release_comment":
        rows[:, column] = _draw_released(records, ends, rng)
      elif name == "any_comment":
        rows[:, column] = records.rows[
          rng.integers(len(records.rows), size=len(ends))
        ]
      else:
        months = self._draw_months(name, ends, rng)
        rows[:, column] = _draw_of_months(records, months, rng)
    return rows

  def _draw_months(
    self, name: str, ends: Int[np.ndarray, "B 2"], rng: np.random.Generator
  ) -> Int[np.ndarray, "B D"]:
    """Returns months to look into, one after the other; -1 = none."""
    start, end = ends[:, :1], ends[:, 1:]
    size = len(ends), _MAX_DRAWS
    if name == "same_month_comment":
      return rng.integers(start, end + 1, size)
    offsets = rng.choice(_NEAR_MONTHS, size)
    months = np.where(
      rng.integers(2, size=size), end + offsets, start - offsets
    )
    return np.where(months < self._num_months, months, -1).clip(-1)


def _draw_of_months(
  records: _RecordsByMonth,
  months: Int[np.ndarray, "B D"],
  rng: np.random.Generator,
) -> Int64[np.ndarray, " B"]:
  """Returns a record of the first month that has one, else any record."""
  counts = np.where(months < 0, 0, records.count(months, months))
  queries = np.arange(len(months))
  draws = np.argmax(counts > 0, axis=1)  # 0 where no month has a record
  count = counts[queries, draws]
  first = np.where(count, records.starts[months[queries, draws]], 0)
  count = np.where(count, count, len(records.rows))
  return records.rows[first + rng.integers(count)]


def _draw_released(
  records: _RecordsByMonth,
  ends: Int[np.ndarray, "B 2"],
  rng: np.random.Generator,
) -> Int64[np.ndarray, " B"]:
  """Returns one of the release's candidates each without listing them.

  Source: released code, training data set: up to 16 comments of the target
  months, topped up from the other ones, of which the collator takes one.
  """
  first, near = records.starts[ends[:, 0]], records.count(*ends.T)
  others = len(records.rows) - near
  is_near = (rng.integers(_RELEASE_POOL, size=len(ends)) < near) | (others == 0)
  draw = rng.integers(np.where(is_near, near, others))
  # The others stand on either side of those near.
  position = np.where(
    is_near, first + draw, np.where(draw < first, draw, draw + near)
  )
  return records.rows[position]
