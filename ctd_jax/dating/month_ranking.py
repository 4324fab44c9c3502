"""Ranking by posterior: the chance that a record answers a dated query.

The date of a query is read by the parser, that of a record is a distribution.
The score is the log of the mass inside the query's interval plus the log of the
chance that the text is of a kind that answers. A query whose date the parser
does not read is dated by its wording (`query_posterior`), and its score is that
of the records' mass in its months, and of their wording.

Axes: Q queries, N records, n a block of them, k results.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from jaxtyping import Float32

from ctd_jax.dating import query_posterior
from ctd_jax.dating.query_posterior import GalleryDates
from ctd_jax.retrieval import host_search

MIN_EVENT_LOG_P = -20.0  # so that no style excludes a record
_RECORD_BLOCK = 1024  # records whose months are held at once
_Ranking = tuple[np.ndarray, np.ndarray]  # indices and scores, [Q, k]


def rank_by_posterior(
  queries: Sequence[str],
  gallery: GalleryDates,
  k: int,
  masks: Mapping[str, np.ndarray],
) -> host_search.TopK:
  """Returns the k best records of every query, for every part of the gallery.

  Args:
    queries: [Q] texts.
    gallery: the records.
    k: results per query.
    masks: name of a part -> its records, [N] bool.

  Returns:
    name -> (indices [Q, k], scores [Q, k]), see `search.search_top_k`.
  """
  posterior = gallery.posterior
  style_scores = np.maximum(gallery.event_log_p, MIN_EVENT_LOG_P)

  def rank(score_rows: Callable[[np.ndarray], np.ndarray], size: int):
    return _rank_blocks(
      lambda rows: score_rows(rows) + style_scores[rows],
      (size, len(posterior)),
      k,
      masks,
    )

  read = query_posterior.read_queries(queries, posterior.axis.timeline)
  # Many queries ask for the same months, whose mass is computed once.
  intervals, interval_index = np.unique(
    read.intervals, axis=0, return_inverse=True
  )
  # Some versions of NumPy give [Q, 1].
  interval_index = interval_index.reshape(-1)
  ranked = rank(
    lambda rows: posterior.log_mass(rows, intervals), len(intervals)
  )
  top_k = {
    name: (indices[interval_index], scores[interval_index])
    for name, (indices, scores) in ranked.items()
  }
  read.log_counts()
  for open_rows in query_posterior.iterate_open_rows(read, len(posterior)):
    dates = query_posterior.date_open_queries(read.take(open_rows), gallery)
    ranked = rank(
      lambda rows, dates=dates: dates.score_records(
        rows, np.exp(posterior.log_p(rows))
      ),
      len(open_rows),
    )
    for name, (indices, scores) in ranked.items():
      top_k[name][0][open_rows] = indices
      top_k[name][1][open_rows] = scores
  return top_k


def _rank_blocks(
  score_rows: Callable[[np.ndarray], Float32[np.ndarray, "Q n"]],
  shape: tuple[int, int],
  k: int,
  masks: Mapping[str, np.ndarray],
) -> dict[str, _Ranking]:
  """Returns name -> ranking of queries by the scores of blocks of records.

  Args:
    score_rows: rows [n] -> scores.
    shape: number of queries and records.
    k: results per query.
    masks: name -> [N] bool.
  """
  num_queries, num_records = shape
  top_k = {
    name: (
      np.full((num_queries, k), -1, np.int32),
      np.full((num_queries, k), -np.inf, np.float32),
    )
    for name in masks
  }
  for start in range(0, num_records, _RECORD_BLOCK):
    rows = np.arange(start, min(start + _RECORD_BLOCK, num_records))
    scores = score_rows(rows)
    for name, mask in masks.items():
      members = np.flatnonzero(mask[rows])
      columns, values = host_search.select_top_k(scores[:, members], k)
      # Column -1 stands for no result; it becomes record -1.
      records = np.append(rows[members], -1)[columns]
      top_k[name] = _merge_top_k(top_k[name], (records, values), k)
  return top_k


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
