"""Hard negatives: records of train months that do not answer a query.

Axes: H hard negatives a query.
"""

from __future__ import annotations

import collections
from collections.abc import Mapping

import numpy as np
from jaxtyping import Int32

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
_NEAR_MONTHS = (1, 2, 3, 12, 24)
_MAX_DRAWS = 8  # of a month, before any train record of the kind is taken
# Candidates of which the release takes one: comments on the queried months,
# filled up with others.
_RELEASE_POOL = 16


class NegativeSampler:
  """Draws hard negatives for a query from the records of train months.

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
    self._timeline = benchmark.timeline
    self._by_month = collections.defaultdict(list)
    self._by_kind = collections.defaultdict(list)
    for row, (record, split) in enumerate(
      zip(benchmark.records, benchmark.record_splits, strict=True)
    ):
      if split == "train":
        month = self._timeline.ordinal(record.key)
        self._by_month[record.kind, month].append(row)
        self._by_kind[record.kind].append(row)
    for name in self._types:
      if RECORD_KINDS[name] not in self._by_kind:
        raise ValueError(
          f"config.negatives.{name}={counts[name]}: {benchmark.name} has no "
          f"train record of the kind {RECORD_KINDS[name]}; set it to 0"
        )

  def __len__(self) -> int:
    """Number of negatives a query, H."""
    return len(self._types)

  def draw_negatives(
    self, ends: tuple[int, int], rng: np.random.Generator
  ) -> Int32[np.ndarray, " H"]:
    """Returns rows of the gallery.

    Args:
      ends: first and last ordinal month of the query's interval.
      rng: advanced by the draws.
    """
    rows = [self._draw_one(name, *ends, rng) for name in self._types]
    return np.array(rows, np.int32)

  def _draw_one(
    self, name: str, start: int, end: int, rng: np.random.Generator
  ) -> int:
    kind = RECORD_KINDS[name]
    if name == "release_comment":
      return self._draw_released(start, end, rng)
    for _ in range(_MAX_DRAWS if name != "any_comment" else 0):
      if name == "same_month_comment":
        month = int(rng.integers(start, end + 1))
      else:
        offset = int(rng.choice(_NEAR_MONTHS))
        month = end + offset if rng.integers(2) else start - offset
      rows = self._by_month.get((kind, month))
      if rows:
        return rows[int(rng.integers(len(rows)))]
    # No such record near by: any of its kind.
    rows = self._by_kind[kind]
    return rows[int(rng.integers(len(rows)))]

  def _draw_released(
    self, start: int, end: int, rng: np.random.Generator
  ) -> int:
    """Returns one of the release's candidates without listing them.

    Source: released code, training data set: up to 16 comments of the target
    months, topped up from the other ones, of which the collator takes one.
    """
    near_rows = [
      row
      for month in range(start, end + 1)
      for row in self._by_month.get((NEG_COMMENT, month), ())
    ]
    rows = self._by_kind[NEG_COMMENT]
    if rng.integers(_RELEASE_POOL) < len(near_rows) or len(near_rows) == len(
      rows
    ):
      return near_rows[int(rng.integers(len(near_rows)))]
    # Rejection: rows outside the interval are the bulk, listing them is not
    # worth it for one draw.
    near_row_set = set(near_rows)
    while True:
      row = rows[int(rng.integers(len(rows)))]
      if row not in near_row_set:
        return row
