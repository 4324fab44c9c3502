"""Plan of training batches: which queries, positives and negatives each has.

A plan consists of integers and follows from the seed, so every process knows
the plan of the whole batch and reads only its own texts. Batches are dealt so
that all have about as many tokens, and rows of one shape hold each.

Axes: B queries in a batch, H hard negatives a query, T train queries, G groups
of positives, V queries of a window.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from absl import logging
from jaxtyping import Bool, Int, Int32, Int64

from ctd_jax.benchmark.benchmark import (
  ANSWERING_KINDS,
  EVENT,
  NEG_COMMENT,
  NO_EVENT,
  Benchmark,
)
from ctd_jax.benchmark.runs import Ranking, Run

# Hard negatives: records of train months that do not answer a query.
#
# Axes: B queries, H hard negatives a query, D draws of a month, N records of
# one kind.


# Kind of record that each type of `config.negatives` draws.
RECORD_KINDS = {
  "same_month_comment": NEG_COMMENT,
  "near_placeholder": NO_EVENT,
  "near_event": EVENT,
  "any_comment": NEG_COMMENT,
  "release_comment": NEG_COMMENT,
}
MINED = "mined"  # type that is drawn from the lists of a system
# Distance of a near negative from the query's interval, in months: the
# neighbouring months, and the same month of the neighbouring years.
_NEAR_MONTHS = np.array([1, 2, 3, 12, 24])
_MAX_DRAWS = 8  # of a month, before any train record of the kind is taken
# Candidates of which the release takes one: comments on the queried months,
# filled up with others.
_RELEASE_POOL = 16


@dataclasses.dataclass(frozen=True)
class _RecordsByMonth:
  """Train records of one kind in the order of their months."""

  rows: Int64[np.ndarray, " N"]  # of the gallery
  # Position in `rows` of the first record of each month, and of the end of the
  # last month; K + 1.
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
    """Returns the number of records from month `first` to `last`, inclusive."""
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
      counts: negatives of each type for one query; their sum is H.
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
    """Returns rows of hard negatives, by first and last month of the query."""
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
  draws = np.argmax(counts > 0, axis=1)  # 0 if no month has a record
  count = counts[queries, draws]
  first = np.where(count, records.starts[months[queries, draws]], 0)
  count = np.where(count, count, len(records.rows))
  return records.rows[first + rng.integers(count)]


def _draw_released(
  records: _RecordsByMonth,
  ends: Int[np.ndarray, "B 2"],
  rng: np.random.Generator,
) -> Int64[np.ndarray, " B"]:
  """Returns one of the release's candidates each without listing them."""
  # months, topped up from the other ones, of which the collator takes one.
  # Source: released code, training data set: up to 16 comments of the target
  first, near = records.starts[ends[:, 0]], records.count(*ends.T)
  others = len(records.rows) - near
  is_near = (rng.integers(_RELEASE_POOL, size=len(ends)) < near) | (others == 0)
  draw = rng.integers(np.where(is_near, near, others))
  # The others stand on either side of those near.
  position = np.where(
    is_near, first + draw, np.where(draw < first, draw, draw + near)
  )
  return records.rows[position]


@dataclasses.dataclass(frozen=True)
class MinedNegatives:
  """Records that a system ranks high for a query and that do not answer it.

  A query without any draws from all train records instead.
  """

  count: int  # drawn for a query
  rows: Int32[np.ndarray, " _"]  # of the gallery; those of a query together
  # Position in `rows` of the first record of each query, and how many it has.
  starts: Int64[np.ndarray, " T"]
  sizes: Int64[np.ndarray, " T"]

  @classmethod
  def make(
    cls,
    benchmark: Benchmark,
    count: int,
    run: Run | None,
    margin: float | None = None,
  ) -> MinedNegatives:
    """Returns what is left of a run's rankings; logs what is left out.

    Left out are records of held-out months, records that answer the query or
    lie in one of its months, and those within the margin.

    Args:
      count: number drawn for a query.
      run: rankings of train queries; None = none are known yet.
      margin: a record that scores above the query's best positive less this is
        left out; None = the score does not matter. A positive that is not
        listed scores at most as the last that is.

    Raises:
      ValueError: if the run has ids that the benchmark lacks, no train query,
        or nothing is left of it.
    """
    is_train = np.array(benchmark.record_splits) == "train"
    lists = []
    if run is not None:
      lists = _filter_rankings(benchmark, run.rankings, is_train, margin)
    sizes = np.zeros(len(benchmark.queries["train"]), np.int64)
    sizes[: len(lists)] = [*map(len, lists)]
    if lists and not sizes.any():
      raise ValueError(
        "config.mining: no negative is left for any query; set config.mining."
        "depth higher or config.mining.margin lower"
      )
    # Behind all lists, for the queries that have none.
    every_row = np.flatnonzero(is_train)
    starts = np.where(sizes, np.cumsum(sizes) - sizes, sizes.sum())
    rows = np.concatenate([*lists, every_row]).astype(np.int32)
    return cls(count, rows, starts, np.where(sizes, sizes, len(every_row)))

  def draw(
    self, queries: Int[np.ndarray, " V"], rng: np.random.Generator
  ) -> Int32[np.ndarray, "V _"]:
    """Returns `count` records for each query."""
    places = rng.integers(
      self.sizes[queries, None], size=(len(queries), self.count)
    )
    return self.rows[self.starts[queries, None] + places]


def check_rankings(
  benchmark: Benchmark, rankings: Mapping[str, Ranking], field: str
) -> dict[str, int]:
  """Returns the row of each record of the gallery.

  Raises:
    ValueError: naming the field, if rankings have queries or records that the
      benchmark lacks, or no train query.
  """
  row_of = {name: row for row, name in enumerate(benchmark.record_ids)}
  queries = {
    split: {query.query_id for query in queries}
    for split, queries in benchmark.queries.items()
  }
  for kind, known, found in (
    (
      "queries",
      set().union(*queries.values()),
      [(name, name) for name in rankings],
    ),
    (
      "records",
      row_of,
      [(name, query) for query in rankings for name, _ in rankings[query]],
    ),
  ):
    unknown = [(name, query) for name, query in found if name not in known]
    if unknown:
      raise ValueError(
        f"{field}: {len(unknown)} {kind} are not in {benchmark.name}; the "
        f"first is {unknown[0][0]!r} in the ranking of {unknown[0][1]!r}"
      )
  if not queries["train"] & rankings.keys():
    raise ValueError(f"{field}: no train query of {benchmark.name} is in it")
  return row_of


def _filter_rankings(
  benchmark: Benchmark,
  rankings: Mapping[str, Ranking],
  is_train: Bool[np.ndarray, " N"],
  margin: float | None,
) -> list[Int[np.ndarray, " _"]]:
  """Returns the rows left for each train query; see `MinedNegatives.make`."""
  row_of = check_rankings(benchmark, rankings, "config.mining.source")
  timeline = benchmark.timeline
  months = np.array([timeline.ordinal(r.key) for r in benchmark.records])
  left_out = collections.Counter()
  lists = []
  for query in benchmark.queries["train"]:
    ranking = rankings.get(query.query_id, ())
    rows = np.array([row_of[name] for name, _ in ranking], np.int64)
    scores = np.array([score for _, score in ranking])
    start, end = timeline.interval_ordinals(query.interval)
    is_positive = np.isin(rows, [row_of[name] for name in query.positives])
    answers = is_positive | ((start <= months[rows]) & (months[rows] <= end))
    is_close = np.zeros(len(rows), bool)
    if margin is not None and len(rows):
      best = scores.max(where=is_positive, initial=scores.min())
      is_close = scores > best - margin
    is_left = is_train[rows] & ~answers & ~is_close
    left_out["in the query's months"] += (is_train[rows] & answers).sum()
    left_out["of held-out months"] += (~is_train[rows]).sum()
    left_out["within the margin"] += (
      is_train[rows] & ~answers & is_close
    ).sum()
    lists.append(rows[is_left])
  sizes = np.array([*map(len, lists)])
  logging.info(
    "mined negatives: %.1f for each of %d train queries, %d of which have none "
    "and draw any train record; left out: %s",
    sizes.mean(),
    len(lists),
    (sizes == 0).sum(),
    ", ".join(f"{number} {reason}" for reason, number in left_out.items()),
  )
  return lists


# Queries and batches that are drawn and dealt at once.
_WINDOW_QUERIES = 8192
_WINDOW_BATCHES = 64
# Numbers of independent streams of random numbers.
_ORDER, _WINDOW, _BETWEEN_EPOCHS = range(3)


class BatchTexts(NamedTuple):
  """Texts of a batch."""

  queries: Int64[np.ndarray, " B"]  # train queries, [B]
  # Rows of the gallery, the positive first, [B, 1 + H].
  records: Int32[np.ndarray, "B _"]


@dataclasses.dataclass(frozen=True)
class Positives:
  """Records that answer each train query, in groups."""

  rows: Int32[np.ndarray, " _"]  # of the gallery, those of a group together
  # Position in `rows` of each group, and of the end; G + 1.
  group_starts: Int64[np.ndarray, " _"]
  # First group of each query, and the end; T + 1.
  query_starts: Int64[np.ndarray, " _"]

  @classmethod
  def make(cls, benchmark: Benchmark, balance_kinds: bool) -> Positives:
    """Returns the positives of a data set, grouped by kind or all in one."""
    row_of = {record_id: i for i, record_id in enumerate(benchmark.record_ids)}
    kinds = benchmark.kinds
    groups, group_counts = [], []
    for query in benchmark.queries["train"]:
      rows = np.array([row_of[i] for i in query.positives], np.int32)
      query_groups = [rows]
      if balance_kinds:
        query_groups = [rows[kinds[rows] == kind] for kind in ANSWERING_KINDS]
      query_groups = [group for group in query_groups if len(group)]
      groups += query_groups
      group_counts.append(len(query_groups))
    return cls(
      np.concatenate(groups),
      np.cumsum([0, *map(len, groups)]),
      np.cumsum([0, *group_counts]),
    )

  def draw(
    self, queries: Int[np.ndarray, " V"], rng: np.random.Generator
  ) -> Int32[np.ndarray, " V"]:
    """Returns a record for each query: of a random group, a random one."""
    group = rng.integers(
      self.query_starts[queries], self.query_starts[queries + 1]
    )
    return self.rows[
      rng.integers(self.group_starts[group], self.group_starts[group + 1])
    ]


class BatchPlanner:
  """Plans any batch of an endless sequence.

  Every query comes once an epoch in a new order. A batch depends on the seed
  and on its number, not on those before.
  """

  def __init__(
    self,
    batch_size: int,
    seed: int,
    positives: Positives,
    negatives: NegativeSampler,
    mined: MinedNegatives,
    query_ends: Int[np.ndarray, "T 2"],
    query_lengths: Int[np.ndarray, " T"],
    record_lengths: Int[np.ndarray, " _"],
  ):
    """Plans nothing yet."""
    self.batch_size = batch_size
    self.window_batches = max(
      1, min(_WINDOW_BATCHES, _WINDOW_QUERIES // batch_size)
    )
    self._seed = seed % 2**64
    self._positives = positives
    self._negatives = negatives
    self._mined = mined
    self._query_ends = query_ends
    self._query_lengths = query_lengths
    self._record_lengths = record_lengths
    self._clear_caches()

  def _clear_caches(self) -> None:
    # Batches are read in order, or every n-th of them.
    self._read_order = functools.lru_cache(2)(self._make_order)
    self._read_window = functools.lru_cache(2)(self._make_window)

  def __getstate__(self) -> dict[str, object]:
    """Returns the data sent to a process that reads ahead."""
    return {
      name: value
      for name, value in vars(self).items()
      if name not in ("_read_order", "_read_window")
    }

  def __setstate__(self, state: dict[str, object]) -> None:
    """Takes what `__getstate__` returned."""
    vars(self).update(state)
    self._clear_caches()

  def count_tokens(self, texts: BatchTexts) -> Int[np.ndarray, "B _"]:
    """Returns the tokens of each query and its records, [B, 2 + H]."""
    return np.column_stack(
      [self._query_lengths[texts.queries], self._record_lengths[texts.records]]
    )

  def plan(self, number: int) -> BatchTexts:
    """Returns the texts of batch `number`, counted from 0."""
    size, num_queries = self.batch_size, len(self._query_ends)
    epoch, first = divmod(number * size, num_queries)
    if first + size > num_queries:
      queries = np.concatenate(
        [
          self._read_order(epoch)[first:],
          self._read_order(epoch + 1)[: first + size - num_queries],
        ]
      )
      return self._draw(queries, self._make_rng(_BETWEEN_EPOCHS, number))
    # Whole batches of the epoch begin behind what one before it has taken.
    batch = first // size
    window, place = divmod(batch, self.window_batches)
    dealt = self._read_window(epoch, first % size, window)
    return BatchTexts(*(array[place] for array in dealt))

  def _make_rng(self, *numbers: int) -> np.random.Generator:
    return np.random.default_rng([self._seed, *numbers])

  def _make_order(self, epoch: int) -> Int64[np.ndarray, " T"]:
    """Returns the queries of an epoch in a random order."""
    return self._make_rng(_ORDER, epoch).permutation(len(self._query_ends))

  def _draw(
    self, queries: Int64[np.ndarray, " V"], rng: np.random.Generator
  ) -> BatchTexts:
    """Returns queries with their positives and negatives."""
    positives = self._positives.draw(queries, rng)
    negatives = self._negatives.draw_negatives(self._query_ends[queries], rng)
    # From another stream: what else is drawn does not depend on the lists.
    mined = self._mined.draw(queries, rng.spawn(1)[0])
    return BatchTexts(queries, np.column_stack([positives, negatives, mined]))

  def _make_window(
    self, epoch: int, first: int, window: int
  ) -> tuple[Int64[np.ndarray, "_ B"], Int32[np.ndarray, "_ B _"]]:
    """Returns queries and records of some batches of an epoch."""
    size = self.batch_size
    order = self._read_order(epoch)[first:]
    first_batch = window * self.window_batches
    num_batches = min(self.window_batches, len(order) // size - first_batch)
    start = first_batch * size
    rng = self._make_rng(_WINDOW, epoch, window)
    texts = self._draw(order[start : start + num_batches * size], rng)
    # Lists that are mined again must not deal the queries of a window again.
    tokens = self.count_tokens(texts)[:, : 2 + len(self._negatives)]
    dealt = deal_evenly(tokens.sum(axis=1), num_batches, rng)
    return texts.queries[dealt], texts.records[dealt]


def deal_evenly(
  tokens: Int[np.ndarray, " V"], groups: int, rng: np.random.Generator
) -> Int64[np.ndarray, "{groups} _"]:
  """Returns the indices of groups of equally many with about equal sums.

  The longest go to a group each, the next longest to the group that has least
  so far, and so on. Groups, and what is in them, come in a random order.

  Args:
    tokens: tokens to sum; `groups` divides V.
  """
  strata = np.argsort(-tokens, kind="stable").reshape(-1, groups)
  dealt, sums = np.zeros_like(strata), np.zeros(groups, np.int64)
  for stratum, indices in zip(dealt, strata, strict=True):
    emptiest = np.argsort(sums, kind="stable")
    stratum[emptiest] = indices
    sums[emptiest] += tokens[indices]
  return rng.permuted(rng.permutation(dealt.T), axis=1)
