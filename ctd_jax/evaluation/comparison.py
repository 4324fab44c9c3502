"""Paired comparison of two systems on the queries of one mode.

Queries about one year share records, so their values are not independent: the
tests and intervals that count take whole years as their units.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from ctd_jax.benchmark.dataset import Benchmark
from ctd_jax.evaluation import protocol, significance


@dataclasses.dataclass(frozen=True)
class SystemComparison:
  """A system minus another, in one mode.

  Attributes:
    system: name of the first.
    other_system: name of the other.
    by_query: paired randomisation over queries.
    by_year: the same, whole years swapped.
    interval: 95 % interval of the difference, by resampling whole years.
    corrected_p_value: p-value by years after Holm, over the pairs compared.
  """

  system: str
  other_system: str
  by_query: significance.PairedTest
  by_year: significance.PairedTest
  interval: tuple[float, float]
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
    measure: what is compared.

  Raises:
    ValueError: if the systems of a pair answer different queries.
  """
  comparisons = []
  for first, second in pairs:
    values = first.values[measure], second.values[measure]
    by_query = significance.run_paired_randomisation(*values)
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
        significance.run_paired_randomisation(*values, groups=years),
        significance.compute_bootstrap_interval(differences, years),
      )
    )
  # Of the tests by years; those by queries treat dependent values as
  # independent.
  corrected_p_values = significance.correct_by_holm(
    [comparison.by_year.p_value for comparison in comparisons]
  )
  return [
    dataclasses.replace(comparison, corrected_p_value=p_value)
    for comparison, p_value in zip(comparisons, corrected_p_values, strict=True)
  ]
