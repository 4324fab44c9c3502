"""Metadata oracle: the records' time keys are searched for the query's months.

An answer is a record of the months asked for, so the keys solve most of the
benchmark; what remains is telling the chronicle from its commentary. The row
bounds what dating the texts can bring. Track T1: it reads the key of every
record, test months included, and is never ranked with systems that read text
only.

A record of a month asked for comes before all others; within both groups BM25
decides, as in `retrieval.date_lookup`.

Axes: Q queries, N records, n records of a gallery, k results.
"""

from collections.abc import Sequence

from ctd_jax.benchmark.benchmark import Benchmark
from ctd_jax.chronology import questions
from ctd_jax.chronology.reigns import Interval, TimeKey, Timeline
from ctd_jax.retrieval import bm25, date_lookup
from ctd_jax.retrieval.host_search import Galleries, TopK
from ctd_jax.systems import registry

TRACK = "T1"
SCORE_MODE = "keys_lexical"


def rank_by_time_keys(
  queries: Sequence[str],
  records: Sequence[str],
  keys: Sequence[TimeKey],
  timeline: Timeline,
  k: int,
  galleries: Galleries,
) -> TopK:
  """Returns the k best records by key, then BM25.

  Args:
    queries: [Q] texts.
    records: [N] texts.
    keys: month of every record, [N].
    timeline: the calendar in which dates of queries are read.
    k: results per query.
    galleries: name -> [N] bool.

  Returns:
    gallery -> (indices [Q, k], scores [Q, k]), see `search.search_top_k`.
  """
  intervals = questions.parse_query_intervals(queries, timeline)

  def rescore(block, members, scores):
    # Every record has a key, so no tier is UNDATED.
    months = [Interval.single_month(keys[index]) for index in members]
    return date_lookup.combine_scores(
      date_lookup.assign_tiers(intervals[block], months, timeline), scores
    )

  return bm25.rank_by_rescored_bm25(queries, records, k, galleries, rescore)


@registry.register("time_keys")
def make_time_keys(
  benchmark: Benchmark,
  config: registry.SystemConfig,
  context: registry.Context,
) -> registry.System:
  """Returns the oracle."""
  texts = [record.text for record in benchmark.records]
  keys = [record.key for record in benchmark.records]

  def search(queries: Sequence[str], k: int, galleries: Galleries) -> TopK:
    return rank_by_time_keys(
      queries, texts, keys, benchmark.timeline, k, galleries
    )

  return registry.System(track=TRACK, score_mode=SCORE_MODE, search=search)
