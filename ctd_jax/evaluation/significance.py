"""Significance of differences: paired randomisation, bootstrap, Holm, Wilson.

Two systems differ on few of some thousand queries. Tests are paired over
queries, intervals are bootstrap intervals; both start from per-query values.
Queries about one year share their records: pass the years as `groups`, and
whole years are swapped or resampled.
"""

import dataclasses
from collections.abc import Hashable, Mapping, Sequence

import numpy as np
import scipy.stats

from ctd_jax.benchmark.benchmark import Benchmark
from ctd_jax.evaluation import protocol

DEFAULT_NUM_ROUNDS = 10_000  # random relabellings or resamples
_ROUNDS_PER_BATCH = 500  # of them held in memory at once


@dataclasses.dataclass(frozen=True)
class PairedTest:
  """Outcome of `run_paired_randomisation`."""

  difference: float  # mean of the first system minus mean of the second
  p_value: float  # two-sided
  num_queries: int  # how many were compared
  num_wins: int  # queries on which the first system is better
  num_losses: int  # queries on which it is worse

  def __str__(self) -> str:
    return (
      f"{self.difference:+.4f} over {self.num_queries} queries "
      f"({self.num_wins} better, {self.num_losses} worse), "
      f"p = {self.p_value:.4f}"
    )


@dataclasses.dataclass(frozen=True)
class Proportion:
  """A share of successes."""

  num_hits: int  # successes
  num_trials: int  # trials, at least one

  @property
  def ratio(self) -> float:
    """The share itself."""
    return self.num_hits / self.num_trials

  @property
  def interval(self) -> tuple[float, float]:
    """Low and high end of its 95 % Wilson interval."""
    test = scipy.stats.binomtest(self.num_hits, self.num_trials)
    low, high = test.proportion_ci(0.95, "wilson")
    return float(low), float(high)

  def __str__(self) -> str:
    low, high = self.interval
    return f"{100 * self.ratio:.2f} [{100 * low:.1f}, {100 * high:.1f}]"


def run_paired_randomisation(
  first: Mapping[str, float],
  second: Mapping[str, float],
  groups: Mapping[str, Hashable] | None = None,
  num_rounds: int = DEFAULT_NUM_ROUNDS,
  seed: int = 0,
) -> PairedTest:
  """Returns the paired randomisation test of two systems.

  Under the null hypothesis the two values of a query may be swapped. Queries
  with equal values cannot change the statistic and are left out of the draws.
  Where the differing queries have no more than `num_rounds` assignments of
  signs, all are enumerated and the p-value is exact.

  Args:
    first: query id -> value; `second` must have the same queries.
    groups: query id -> cluster, e.g. year of the query, swapped whole; by
      default every query is its own cluster.

  Raises:
    ValueError: if the queries differ or there are none.

  Source: Fisher's randomisation test as in Smucker, Allan and Carterette
    (CIKM 2007); for 0/1 measures it is McNemar's test.
  """
  differences = _paired_differences(first, second)
  swap_differences = differences
  if groups is not None:
    row_by_group: dict[Hashable, int] = {}
    group_rows = [
      row_by_group.setdefault(groups[q], len(row_by_group)) for q in first
    ]
    # Swapping a cluster flips the sign of the sum of its differences.
    swap_differences = np.bincount(group_rows, differences)
  nonzero_differences = swap_differences[swap_differences != 0]
  # One differing query proves nothing: both signs are equally likely.
  p_value = 1.0
  if len(nonzero_differences) > 1:
    p_value = scipy.stats.permutation_test(
      (nonzero_differences,),
      # The sum orders the swaps as the mean does; equal queries add nothing.
      lambda values, axis: values.sum(axis=axis),
      permutation_type="samples",
      vectorized=True,
      n_resamples=num_rounds,
      batch=_ROUNDS_PER_BATCH,
      alternative="two-sided",
      rng=np.random.default_rng(seed),
    ).pvalue
  return PairedTest(
    float(differences.mean()),
    float(p_value),
    len(differences),
    int((differences > 0).sum()),
    int((differences < 0).sum()),
  )


def compute_bootstrap_interval(
  values: Mapping[str, float],
  groups: Mapping[str, Hashable] | None = None,
  strata: Mapping[str, Hashable] | None = None,
  num_rounds: int = DEFAULT_NUM_ROUNDS,
  level: float = 0.95,
  seed: int = 0,
) -> tuple[float, float]:
  """Returns the percentile bootstrap interval of the mean.

  Args:
    values: query id -> value.
    groups: query id -> cluster, e.g. year of the query, resampled whole; by
      default every query is its own cluster.
    strata: query id -> stratum; the mean is then that of the strata's means,
      each over its queries in the resample.

  Returns:
    (low, high).

  Raises:
    ValueError: if there is no value, or a query has no group.
  """
  if not values:
    raise ValueError("no value to resample")
  # Without groups every query is a group; without strata all are one stratum.
  query_as_group = {query_id: query_id for query_id in values}
  group_rows = _number_labels(
    values, query_as_group if groups is None else groups
  )
  stratum_rows = _number_labels(values, strata or dict.fromkeys(values))
  # Sums and counts per (group, stratum): a resample of groups adds their rows.
  shape = max(group_rows) + 1, max(stratum_rows) + 1
  sums, counts = np.zeros(shape), np.zeros(shape)
  np.add.at(sums, (group_rows, stratum_rows), list(values.values()))
  np.add.at(counts, (group_rows, stratum_rows), 1)
  generator = np.random.default_rng(seed)
  means = []
  for start in range(0, num_rounds, _ROUNDS_PER_BATCH):
    size = min(_ROUNDS_PER_BATCH, num_rounds - start)
    resampled_rows = generator.integers(len(sums), size=(size, len(sums)))
    # counts[resampled_rows] is [rounds, groups, strata].
    resample_counts = counts[resampled_rows].sum(axis=1)
    stratum_means = sums[resampled_rows].sum(axis=1) / np.maximum(
      resample_counts, 1
    )
    # A stratum that a resample lacks has no mean and does not count in it.
    means.append(
      stratum_means.sum(axis=1) / np.count_nonzero(resample_counts, axis=1)
    )
  tail = (1 - level) / 2
  low, high = np.quantile(np.concatenate(means), [tail, 1 - tail])
  return float(low), float(high)


def correct_by_holm(p_values: Sequence[float]) -> list[float]:
  """Returns p-values corrected for their number, in the same order.

  Source: Holm, A simple sequentially rejective multiple test procedure
    (Scandinavian Journal of Statistics, 1979).
  """
  order = np.argsort(p_values, kind="stable")
  factors = np.arange(len(p_values), 0, -1)
  corrected = np.empty(len(p_values))
  # A p-value is never corrected below a smaller one: running maximum.
  corrected[order] = np.maximum.accumulate(
    np.minimum(np.asarray(p_values)[order] * factors, 1)
  )
  return corrected.tolist()


def _number_labels(
  values: Mapping[str, float], labels: Mapping[str, Hashable]
) -> list[int]:
  """Returns a number from 0 for the label of each query."""
  # Numbers follow the order of the values, not that of a set or a dict of
  # labels: equal seeds then give equal resamples.
  missing = values.keys() - labels.keys()
  if missing:
    raise ValueError(f"query {min(missing)} has no group")
  number_by_label: dict[Hashable, int] = {}
  return [
    number_by_label.setdefault(labels[query_id], len(number_by_label))
    for query_id in values
  ]


def _paired_differences(
  first: Mapping[str, float], second: Mapping[str, float]
) -> np.ndarray:
  if first.keys() != second.keys():
    unpaired_id = min(first.keys() ^ second.keys())
    raise ValueError(
      "the systems answer different queries; only one of them has "
      f"{unpaired_id}"
    )
  if not first:
    raise ValueError("no query to compare")
  return np.array([first[query_id] - second[query_id] for query_id in first])


# ----------------------------------------------------------------------------
# Paired comparison of two systems on the queries of one mode.
#
# Queries about one year share records, so their values are not independent:
# the tests and intervals that count take whole years as their units.


@dataclasses.dataclass(frozen=True)
class SystemComparison:
  """A system minus another, in one mode."""

  system: str  # name of the first
  other_system: str  # name of the other
  by_query: PairedTest  # paired randomisation over queries
  by_year: PairedTest  # the same, whole years swapped
  # 95 % interval of the difference, by resampling whole years.
  interval: tuple[float, float]
  # P-value by years after Holm, over the pairs compared.
  corrected_p_value: float = 1.0  # known once all pairs are tested

  def __str__(self) -> str:
    return (
      f"{self.by_query}; whole years swapped: p = {self.by_year.p_value:.4f}, "
      f"after Holm {self.corrected_p_value:.4f}"
    )


def find_query_years(
  benchmark: Benchmark, split: str
) -> dict[str, tuple[int, int]]:
  """Returns query id -> (reign, year) in which its interval begins."""
  return {
    query.query_id: query.interval.start.triple[:2]
    for query in benchmark.queries[split]
  }


def compare_system_pairs(
  pairs: Sequence[tuple[protocol.PerQueryScores, protocol.PerQueryScores]],
  years: Mapping[str, tuple[int, int]],
  measure: str = "hit@1",
) -> list[SystemComparison]:
  """Returns the first of each pair against the second.

  Args:
    pairs: tables of one mode.
    years: query id -> (reign, year), see `find_query_years`.

  Raises:
    ValueError: if the systems of a pair answer different queries.
  """
  comparisons = []
  for first, second in pairs:
    values = first.values[measure], second.values[measure]
    by_query = run_paired_randomisation(*values)
    # The interval is that of the mean difference, not of two means.
    differences = {
      query_id: values[0][query_id] - values[1][query_id]
      for query_id in values[0]
    }
    comparisons.append(
      SystemComparison(
        first.system,
        second.system,
        by_query,
        run_paired_randomisation(*values, groups=years),
        compute_bootstrap_interval(differences, years),
      )
    )
  # Of the tests by years; those by queries treat dependent values as
  # independent.
  corrected_p_values = correct_by_holm(
    [comparison.by_year.p_value for comparison in comparisons]
  )
  return [
    dataclasses.replace(comparison, corrected_p_value=p_value)
    for comparison, p_value in zip(comparisons, corrected_p_values, strict=True)
  ]
