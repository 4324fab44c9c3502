"""Ranks a gallery by the chance that a record answers, its date from its text.

Why: this is what the posterior is for. A query's date is read by the parser, a
record's is a distribution, and the score is the log of the mass inside the
query's interval plus the log of the chance that the text is of a kind that
answers. Called by `system`.

Axes: Q queries, N records, n a block of them, k results.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ctd_jax.dating.posterior import Posterior
from ctd_jax.retrieval import date_lookup, search

_LEAST_ANSWERING = -20.0


def topk(
  queries: Sequence[str],
  posterior: Posterior,
  log_answers: np.ndarray,
  k: int,
  galleries: Mapping[str, np.ndarray],
  record_block: int = 1024,
) -> search.Found:
  """Returns the k best records of every query, for every gallery.

  Args:
    queries: [Q] texts.
    posterior: of the records.
    log_answers: log p(answering kind | text) of the records, [N].
    k: results per query.
    galleries: name -> [N] bool.
    record_block: records whose months are held at once.

  Returns:
    gallery -> (indices [Q, k], scores [Q, k]), see `search.topk`.
  """
  asked = date_lookup.asked_months(queries, posterior.axis.timeline)
  # Many questions ask for the same months.
  intervals, interval = np.unique(asked, axis=0, return_inverse=True)
  interval = interval.reshape(-1)  # some versions of numpy give [Q, 1]
  style = np.maximum(log_answers, _LEAST_ANSWERING)
  best = {
    name: (
      np.full((len(intervals), k), -1, np.int32),
      np.full((len(intervals), k), -np.inf, np.float32),
    )
    for name in galleries
  }
  for start in range(0, len(posterior), record_block):
    rows = np.arange(start, min(start + record_block, len(posterior)))
    scores = posterior.log_mass(rows, intervals) + style[rows]
    for name, mask in galleries.items():
      members = np.flatnonzero(mask[rows])
      places, values = search.topk_rows(scores[:, members], k)
      # Place -1, nothing found, becomes record -1.
      fresh = np.append(rows[members], -1)[places]
      best[name] = _merge(best[name], (fresh, values), k)
  return {
    name: (indices[interval], scores[interval])
    for name, (indices, scores) in best.items()
  }


def _merge(old, fresh, k: int) -> tuple[np.ndarray, np.ndarray]:
  """Returns the k best of both; of equal scores the earlier record."""
  indices = np.concatenate([old[0], fresh[0]], axis=1)
  scores = np.concatenate([old[1], fresh[1]], axis=1)
  order = np.argsort(-scores, axis=1, kind="stable")[:, :k]
  return (
    np.take_along_axis(indices, order, 1).astype(np.int32),
    np.take_along_axis(scores, order, 1),
  )
