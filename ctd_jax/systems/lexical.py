"""Lexical systems without parameters: BM25, and BM25 behind dates in texts.

Both read texts alone (track T0). The rankings are those of `retrieval.bm25`
and `retrieval.date_lookup`.
"""

from collections.abc import Sequence

from ctd_jax.benchmark.benchmark import Benchmark
from ctd_jax.retrieval import bm25, date_lookup
from ctd_jax.retrieval.host_search import Galleries, TopK
from ctd_jax.systems import registry


@registry.register("bm25")
def make_bm25(
  benchmark: Benchmark,
  config: registry.SystemConfig,
  context: registry.Context,
) -> registry.System:
  """Returns BM25 with the published constants."""
  texts = [record.text for record in benchmark.records]

  def search(queries: Sequence[str], k: int, galleries: Galleries) -> TopK:
    return bm25.rank_by_bm25(queries, texts, k, galleries)

  return registry.System(
    track=bm25.TRACK, score_mode=bm25.SCORE_MODE, search=search
  )


@registry.register("rules")
def make_date_rules(
  benchmark: Benchmark,
  config: registry.SystemConfig,
  context: registry.Context,
) -> registry.System:
  """Returns BM25 among the records that open with a date asked for."""
  texts = [record.text for record in benchmark.records]

  def search(queries: Sequence[str], k: int, galleries: Galleries) -> TopK:
    return date_lookup.rank_by_dates(
      queries, texts, benchmark.timeline, k, galleries
    )

  return registry.System(
    track=date_lookup.TRACK, score_mode=date_lookup.SCORE_MODE, search=search
  )
