"""Ranking by posterior: the chance that a record answers a dated query.

The date of a query is read by the parser, that of a record is a distribution.
The score is the log of the mass inside the query's interval plus the log of the
chance that the text is of a kind that answers.

Axes: Q queries, N records, n a block of them, k results.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Float

from ctd_jax.chronology import query_dates
from ctd_jax.dating.posterior import Posterior
from ctd_jax.retrieval import host_search

MIN_EVENT_LOG_P = -20.0  # so that no style excludes a record


def rank_by_posterior(
  queries: Sequence[str],
  posterior: Posterior,
  event_log_p: Float[np.ndarray, " N"],
  k: int,
  galleries: Mapping[str, np.ndarray],
  record_block: int = 1024,
) -> host_search.TopK:
  """Returns the k best records of every query, for every gallery.

  Args:
    queries: [Q] texts.
    posterior: of the records.
    event_log_p: log p(answering kind | text) of the records.
    k: results per query.
    galleries: name -> [N] bool.
    record_block: records whose months are held at once.

  Returns:
    gallery -> (indices [Q, k], scores [Q, k]), see `search.search_top_k`.
  """
  query_intervals = query_dates.read_query_intervals(
    queries, posterior.axis.timeline
  )
  # Many queries ask for the same months, whose mass is computed once.
  intervals, interval_index = np.unique(
    query_intervals, axis=0, return_inverse=True
  )
  # Some versions of NumPy give [Q, 1].
  interval_index = interval_index.reshape(-1)
  style_scores = np.maximum(event_log_p, MIN_EVENT_LOG_P)
  top_k = {
    name: (
      np.full((len(intervals), k), -1, np.int32),
      np.full((len(intervals), k), -np.inf, np.float32),
    )
    for name in galleries
  }
  for start in range(0, len(posterior), record_block):
    rows = np.arange(start, min(start + record_block, len(posterior)))
    scores = posterior.log_mass(rows, intervals) + style_scores[rows]
    for name, mask in galleries.items():
      members = np.flatnonzero(mask[rows])
      columns, values = host_search.select_top_k(scores[:, members], k)
      # Column -1 stands for no result; it becomes record -1.
      records = np.append(rows[members], -1)[columns]
      top_k[name] = _merge_top_k(top_k[name], (records, values), k)
  return {
    name: (indices[interval_index], scores[interval_index])
    for name, (indices, scores) in top_k.items()
  }


def _merge_top_k(
  top_k: tuple[np.ndarray, np.ndarray],
  candidates: tuple[np.ndarray, np.ndarray],
  k: int,
) -> tuple[np.ndarray, np.ndarray]:
  """Returns the k best of both; of equal scores the earlier record."""
  indices = np.concatenate([top_k[0], candidates[0]], axis=1)
  scores = np.concatenate([top_k[1], candidates[1]], axis=1)
  order = np.argsort(-scores, axis=1, kind="stable")[:, :k]
  return (
    np.take_along_axis(indices, order, 1).astype(np.int32),
    np.take_along_axis(scores, order, 1),
  )
