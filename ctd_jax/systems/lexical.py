"""Systems of BM25 without parameters: alone, or behind dates.

`bm25` and `rules` read texts alone (track T0). `time_keys` is an oracle: it
looks for the query's months in the records' time keys, test months included
(track T1), and is never ranked with systems that read text only. An answer is a
record of the months asked for, so the keys solve most of the benchmark; what
remains is telling the chronicle from its commentary. Its row bounds what dating
the texts can gain.

`rules` looks up the date of the query in the texts of the records. Most of a
published score on this benchmark needs no learning, only the date in the query
and the date that a placeholder states in its own text; every neural figure is
shown next to this one. It never reads a record's key or kind.

A record gets a tier: 2 if it opens with a full date (reign, year and month)
inside the query's interval, 0 if it opens with one outside, 1 if it does not
state its date. A heading in brackets may also state a season or a year. Within
a tier BM25 decides:

  score = tier * (range of the query's BM25 + 1) + BM25 - lowest BM25

so that no BM25 score lifts a record over a tier. A query whose date cannot be
read puts every record into tier 1, which leaves plain BM25.

Axes: Q queries, b a block of them, N records, n records of a gallery, k
results.
"""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Int, Int8

from ctd_jax.benchmark.benchmark import Benchmark
from ctd_jax.chronology import questions, reigns
from ctd_jax.chronology.reigns import Interval
from ctd_jax.retrieval import bm25
from ctd_jax.retrieval.host_search import Galleries, TopK
from ctd_jax.systems import registry

INSIDE, UNDATED, OUTSIDE = 2, 1, 0  # tiers, higher is better


def assign_tiers(
  asked_intervals: Sequence[Interval | None],
  stated_intervals: Sequence[Interval | None],
  timeline: reigns.Timeline,
) -> Int8[np.ndarray, "Q N"]:
  """Returns the tiers: INSIDE, UNDATED or OUTSIDE.

  A record that states a year is inside a query about that year, and undated
  for one about a month of it.

  Args:
    asked_intervals: intervals of the queries; None if no date could be read.
    stated_intervals: intervals of the records; None if the text states none.
    timeline: the calendar of both.
  """
  has_date = np.array([stated is not None for stated in stated_intervals], bool)
  starts, ends = (
    np.array(
      [
        (0, 0) if stated is None else timeline.interval_ordinals(stated)
        for stated in stated_intervals
      ],
      np.int64,
    )
    .reshape(-1, 2)
    .T
  )
  tiers = np.full(
    (len(asked_intervals), len(stated_intervals)), UNDATED, np.int8
  )
  for row, asked in enumerate(asked_intervals):
    if asked is None:
      continue
    first, last = timeline.interval_ordinals(asked)
    tiers[row, has_date & (first <= starts) & (ends <= last)] = INSIDE
    tiers[row, has_date & ((ends < first) | (last < starts))] = OUTSIDE
  return tiers


def combine_scores(
  tier: Int[np.ndarray, "b n"], scores: Float[np.ndarray, "b n"]
) -> Float[np.ndarray, "b n"]:
  """Returns tier and score as one score, in float64.

  Args:
    tier: result of `assign_tiers`.
    scores: BM25.
  """
  lowest = scores.min(axis=1, keepdims=True).astype(np.float64)
  # One more than the range, so that the best of a tier stays below the next.
  return tier * (scores.max(axis=1, keepdims=True) - lowest + 1) + (
    scores - lowest
  )


def rank_by_dates(
  queries: Sequence[str],
  records: Sequence[str],
  stated_intervals: Sequence[Interval | None],
  timeline: reigns.Timeline,
  k: int,
  galleries: Galleries,
) -> TopK:
  """Returns the k best records by tier, then BM25.

  Args:
    queries: [Q] texts.
    records: [N] texts.
    stated_intervals: date of each record [N], e.g. that of its text.
    timeline: the calendar in which dates are read.
    k: results per query.
    galleries: masks over the records.

  Returns:
    gallery -> (indices [Q, k], scores [Q, k]), see `TopK`.
  """
  intervals = questions.parse_query_intervals(queries, timeline)

  def rescore(block, members, scores):
    member_intervals = [stated_intervals[index] for index in members]
    return combine_scores(
      assign_tiers(intervals[block], member_intervals, timeline), scores
    )

  return bm25.rank_by_rescored_bm25(queries, records, k, galleries, rescore)


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
    return rank_by_dates(
      queries, texts, stated, benchmark.timeline, k, galleries
    )

  def search_keys(queries: Sequence[str], k: int, galleries: Galleries) -> TopK:
    # Every record has a key, so none is undated.
    months = [Interval.single_month(record.key) for record in benchmark.records]
    return rank_by_dates(
      queries, texts, months, benchmark.timeline, k, galleries
    )

  return {
    "rules": registry.System(
      track=bm25.TRACK,
      score_mode="dates_lexical",
      search=search_texts,
    ),
    "time_keys": registry.System(
      track="T1", score_mode="keys_lexical", search=search_keys
    ),
  }
