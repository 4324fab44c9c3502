"""Systems that date works by their order, registered; see `ordered_gallery`."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np

from ctd_jax.benchmark.dataset import Benchmark
from ctd_jax.retrieval.host_search import Galleries, TopK
from ctd_jax.systems import registry

# System -> whether records of train months have the months of their labels.
USES_LABELS = {"dating-order": True, "dating-order-strict": False}


@registry.register(*USES_LABELS)
def make_ordered_systems(
  benchmark: Benchmark,
  config: registry.SystemConfig,
  context: registry.Context,
) -> dict[str, registry.System]:
  """Returns the systems; nothing is dated before the first search."""
  return {
    name: _make_system(benchmark, use_labels)
    for name, use_labels in USES_LABELS.items()
  }


def _make_system(benchmark: Benchmark, use_labels: bool) -> registry.System:
  # Imported when used: they are slow, and `--help` reads this file.
  @functools.cache
  def date_gallery():
    from ctd_jax.systems import ordered_gallery

    return ordered_gallery.date_gallery(benchmark, use_labels)

  def search(queries: Sequence[str], k: int, galleries: Galleries) -> TopK:
    from ctd_jax.dating import month_ranking

    posterior, event_log_p, wording = date_gallery()
    return month_ranking.rank_by_posterior(
      queries, posterior, event_log_p, k, galleries, wording
    )

  def date_queries(queries: Sequence[str]) -> np.ndarray:
    from ctd_jax.dating import query_posterior

    return query_posterior.date_queries(queries, *date_gallery())

  return registry.System(
    track="T0+order",
    score_mode="posterior",
    search=search,
    log_months=lambda rows: date_gallery()[0].log_p(rows),
    log_query_months=date_queries,
  )
