"""The metadata oracle: look the query's months up in the records' time keys.

Why: an answer is a record of the months asked for, so whoever is given the keys
has most of the benchmark solved; what is left is telling the chronicle from
its commentary. The row bounds what dating the texts can bring. Track T1: it
reads the key of every record, test months included, and is never ranked with
systems that read text only. Called by `baselines`.

A record of a month asked for comes before all others; within both BM25 decides,
as in `rules`.

Axes: Q queries, N records.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ctd_jax.chronology import query_dates
from ctd_jax.chronology.timelines import TimeKey, Timeline
from ctd_jax.retrieval import bm25, date_lookup, search

TRACK = "T1"
SCORE_MODE = "keys_lexical"


def rank_by_time_keys(
  queries: Sequence[str],
  records: Sequence[str],
  keys: Sequence[TimeKey],
  timeline: Timeline,
  k: int,
  galleries: Mapping[str, np.ndarray],
) -> search.TopK:
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
  intervals = query_dates.parse_query_intervals(queries, timeline)

  def rescore(block, members, scores):
    member_keys = [keys[index] for index in members]
    return date_lookup.combine_scores(
      date_lookup.assign_tiers(intervals[block], member_keys, timeline), scores
    )

  return bm25.rank_by_rescored_bm25(queries, records, k, galleries, rescore)
