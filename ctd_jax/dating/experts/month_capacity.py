"""Room for the record that opens a month: each work opens a month once.

Why: 「秋七月」 stands once in a work's year. Of two records that open so, each
takes another year; a month that no known record opens and that has no
placeholder must be opened by somebody, and one that all works have opened
already takes no more. So the posteriors of the opening records are balanced
against the room in every month (Sinkhorn scaling of the columns, the rows being
probabilities). What is known of the known records enters only as room taken;
the expert can be switched off. Called by `dater`.

Axes: n records that open a month, K months.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
from scipy.special import logsumexp

_OPENINGS_PER_MONTH = (
  3.4  # openings of a month with events, over the four works
)
_MIN_CAPACITY = 0.05  # room when all works have opened
_PLACEHOLDER_CAPACITY = 0.01  # room in a month with a placeholder
_NUM_ROUNDS = 10
_MAX_STEP, _MIN_LOG_FACTOR, _MAX_LOG_FACTOR = (
  3.0,
  -8.0,
  4.0,
)  # of the log factor of a month


def compute_month_capacity(
  num_openers: np.ndarray, num_events: np.ndarray, has_placeholder: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
  """Returns room of every month, and whether it must be filled, both [K].

  Args:
    num_openers: known records that open each month, [K].
    num_events: known events of each month, [K].
    has_placeholder: whether the month has a placeholder, bool [K].
  """
  capacity = np.maximum(_OPENINGS_PER_MONTH - num_openers, _MIN_CAPACITY)
  return np.where(has_placeholder, _PLACEHOLDER_CAPACITY, capacity), (
    num_events == 0
  ) & ~has_placeholder


def fit_month_log_factors(
  iter_scores: Callable[[], Iterable[np.ndarray]],
  capacity: np.ndarray,
  must_fill: np.ndarray,
) -> np.ndarray:
  """Returns what to add to log p of every month, float32 [K].

  Args:
    iter_scores: gives blocks of log p of the opening records [n, K], anew at each
      call, so that they need not all be held at once.
    capacity: from `room`.
    must_fill: from `room`; other months are only kept from overflowing.
  """
  factors = np.zeros(len(capacity), np.float32)
  for _ in range(_NUM_ROUNDS):
    mass = np.zeros(len(capacity))
    for block in iter_scores():
      scores = block + factors
      total = logsumexp(scores, axis=1, keepdims=True)
      mass += np.exp(scores - total).sum(axis=0, dtype=np.float64)
    log_deficit = np.log(capacity) - np.log(mass + 1e-6)
    log_deficit = np.clip(
      log_deficit, -_MAX_STEP, np.where(must_fill, _MAX_STEP, 0)
    )
    factors = np.clip(
      factors + log_deficit, _MIN_LOG_FACTOR, _MAX_LOG_FACTOR
    ).astype(np.float32)
  return factors
