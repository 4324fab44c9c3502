"""Whether a difference between two systems is more than chance.

Why: two systems differ on few of some thousand queries. Tests are paired over
queries, intervals are bootstrap intervals; both start from per-query values.
Called by `evaluate` and `evaluation.report`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable, Mapping, Sequence

import numpy as np
import scipy.stats

ROUNDS = 10_000  # random relabellings or resamples
_BATCH = 500  # of them held in memory at once


@dataclasses.dataclass(frozen=True)
class PairedTest:
  """Outcome of `paired_randomisation`.

  Attributes:
    difference: mean of the first system minus mean of the second.
    p_value: two-sided.
    queries: how many were compared.
    wins: queries on which the first system is better.
    losses: queries on which it is worse.
  """

  difference: float
  p_value: float
  queries: int
  wins: int
  losses: int

  def __str__(self) -> str:
    return (
      f"{self.difference:+.4f} over {self.queries} queries "
      f"({self.wins} better, {self.losses} worse), p = {self.p_value:.4f}"
    )


@dataclasses.dataclass(frozen=True)
class Share:
  """A share of successes.

  Attributes:
    hits: successes.
    total: trials, at least one.
  """

  hits: int
  total: int

  @property
  def value(self) -> float:
    """The share itself."""
    return self.hits / self.total

  @property
  def interval(self) -> tuple[float, float]:
    """Low and high end of its 95 % Wilson interval."""
    test = scipy.stats.binomtest(self.hits, self.total)
    low, high = test.proportion_ci(0.95, "wilson")
    return float(low), float(high)

  def __str__(self) -> str:
    low, high = self.interval
    return f"{100 * self.value:.2f} [{100 * low:.1f}, {100 * high:.1f}]"


def paired_randomisation(
  first: Mapping[str, float],
  second: Mapping[str, float],
  groups: Mapping[str, Hashable] | None = None,
  rounds: int = ROUNDS,
  seed: int = 0,
) -> PairedTest:
  """Returns the paired randomisation test of two systems.

  Under the null hypothesis the two values of a query may be swapped. Queries
  with equal values cannot change the statistic and are left out of the draws;
  few differing queries are enumerated, which makes the p-value exact.

  Args:
    first: query id -> value; `second` must have the same queries.
    second: query id -> value.
    groups: query id -> cluster (e.g. year of the query), swapped whole:
      queries about one year share their records. By default every query is
      its own cluster.
    rounds: random swaps.
    seed: of the swaps.

  Raises:
    ValueError: if the queries differ or there are none.

  Source: Fisher's randomisation test as in Smucker, Allan and Carterette
    (CIKM 2007); for 0/1 measures it is McNemar's test.
  """
  differences = _differences(first, second)
  units = differences
  if groups is not None:
    row: dict[Hashable, int] = {}
    members = [row.setdefault(groups[q], len(row)) for q in first]
    units = np.bincount(members, differences)
  changed = units[units != 0]
  # One differing query proves nothing: either sign is as likely.
  p_value = 1.0
  if len(changed) > 1:
    p_value = scipy.stats.permutation_test(
      (changed,),
      lambda values, axis: values.sum(axis=axis),
      permutation_type="samples",
      vectorized=True,
      n_resamples=rounds,
      batch=_BATCH,
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


def bootstrap_interval(
  values: Mapping[str, float],
  groups: Mapping[str, Hashable] | None = None,
  strata: Mapping[str, Hashable] | None = None,
  rounds: int = ROUNDS,
  level: float = 0.95,
  seed: int = 0,
) -> tuple[float, float]:
  """Returns the percentile bootstrap interval of the mean.

  Args:
    values: query id -> value.
    groups: query id -> cluster (e.g. year of the query), resampled whole:
      queries about one year share their records. By default every query is
      its own cluster.
    strata: query id -> stratum; the mean is then that of the strata's means,
      each over its queries in the resample.
    rounds: resamples.
    level: coverage.
    seed: of the resamples.

  Returns:
    (low, high).

  Raises:
    ValueError: if there is no value, or a query has no group.
  """
  if not values:
    raise ValueError("no value to resample")
  # Without groups every query is a group, without strata there is one.
  each = {query_id: query_id for query_id in values}
  group = _numbered(values, each if groups is None else groups)
  stratum = _numbered(values, strata or dict.fromkeys(values))
  shape = max(group) + 1, max(stratum) + 1
  sums, counts = np.zeros(shape), np.zeros(shape)
  np.add.at(sums, (group, stratum), list(values.values()))
  np.add.at(counts, (group, stratum), 1)
  random = np.random.default_rng(seed)
  means = []
  for start in range(0, rounds, _BATCH):
    size = min(_BATCH, rounds - start)
    drawn = random.integers(len(sums), size=(size, len(sums)))
    total = counts[drawn].sum(axis=1)
    parts = sums[drawn].sum(axis=1) / np.maximum(total, 1)
    # A stratum that a resample lacks has no mean and does not count in it.
    means.append(parts.sum(axis=1) / np.count_nonzero(total, axis=1))
  tail = (1 - level) / 2
  low, high = np.quantile(np.concatenate(means), [tail, 1 - tail])
  return float(low), float(high)


def holm(p_values: Sequence[float]) -> list[float]:
  """Returns p-values corrected for their number, in the order given.

  Source: Holm, A simple sequentially rejective multiple test procedure
    (Scandinavian Journal of Statistics, 1979).
  """
  order = np.argsort(p_values, kind="stable")
  factors = np.arange(len(p_values), 0, -1)
  corrected = np.empty(len(p_values))
  corrected[order] = np.maximum.accumulate(
    np.minimum(np.asarray(p_values)[order] * factors, 1)
  )
  return corrected.tolist()


def _numbered(
  values: Mapping[str, float], labels: Mapping[str, Hashable]
) -> list[int]:
  """Returns a number from 0 for the label of each query.

  In the order of the values, so that the seed alone decides.
  """
  missing = values.keys() - labels.keys()
  if missing:
    raise ValueError(f"query {min(missing)} has no group")
  seen: dict[Hashable, int] = {}
  return [seen.setdefault(labels[query_id], len(seen)) for query_id in values]


def _differences(
  first: Mapping[str, float], second: Mapping[str, float]
) -> np.ndarray:
  if first.keys() != second.keys():
    odd = min(first.keys() ^ second.keys())
    raise ValueError(
      f"the systems answer different queries; only one of them has {odd}"
    )
  if not first:
    raise ValueError("no query to compare")
  return np.array([first[query_id] - second[query_id] for query_id in first])
