"""Systems of BM25 without parameters: alone, or behind dates.

`bm25` and `rules` read texts alone (track T0). `time_keys` is an oracle: it
looks for the query's months in the records' time keys, test months included
(track T1), and is never ranked with systems that read text only. An answer is a
record of the months asked for, so the keys solve most of the benchmark; what
remains is telling the chronicle from its commentary. Its row bounds what dating
the texts can gain.

The rankings are those of `retrieval.bm25` and `retrieval.date_lookup`.
"""

from collections.abc import Sequence

from ctd_jax.benchmark.benchmark import Benchmark
from ctd_jax.chronology import questions
from ctd_jax.chronology.reigns import Interval
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


@registry.register("rules", "time_keys")
def make_date_lookups(
  benchmark: Benchmark,
  config: registry.SystemConfig,
  context: registry.Context,
) -> dict[str, registry.System]:
  """Returns BM25 among records that state or have the date of a question."""
  texts = [record.text for record in benchmark.records]

  def search_texts(
    queries: Sequence[str], k: int, galleries: Galleries
  ) -> TopK:
    stated = [
      questions.find_stated_interval(text, benchmark.timeline) for text in texts
    ]
    return date_lookup.rank_by_dates(
      queries, texts, stated, benchmark.timeline, k, galleries
    )

  def search_keys(queries: Sequence[str], k: int, galleries: Galleries) -> TopK:
    # Every record has a key, so none is undated.
    months = [Interval.single_month(record.key) for record in benchmark.records]
    return date_lookup.rank_by_dates(
      queries, texts, months, benchmark.timeline, k, galleries
    )

  return {
    "rules": registry.System(
      track=date_lookup.TRACK,
      score_mode=date_lookup.SCORE_MODE,
      search=search_texts,
    ),
    "time_keys": registry.System(
      track="T1", score_mode="keys_lexical", search=search_keys
    ),
  }
