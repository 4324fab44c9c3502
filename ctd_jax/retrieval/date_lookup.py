"""Rule baseline: the date of the query, looked up in the texts of the records.

Most of a published score on this benchmark needs no learning, only the date in
the query and the date that a placeholder states in its own text; every neural
figure is shown next to this one. Track T0: it reads the texts of queries and
gallery and a calendar, never a record's key or kind.

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

from ctd_jax.chronology import questions, reigns
from ctd_jax.retrieval import bm25
from ctd_jax.retrieval.host_search import Galleries, TopK

TRACK = "T0"
SCORE_MODE = "dates_lexical"
INSIDE, UNDATED, OUTSIDE = 2, 1, 0  # tiers, higher is better


def assign_tiers(
  asked_intervals: Sequence[reigns.Interval | None],
  stated_intervals: Sequence[reigns.Interval | None],
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
  stated_intervals: Sequence[reigns.Interval | None],
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
