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

_WORKS = 3.4  # openings of a month with events, over the four works
_SPARE = 0.05  # room when all works have opened
_EMPTY = 0.01  # room in a month with a placeholder
_ROUNDS = 10
_STEP, _LEAST, _MOST = 3.0, -8.0, 4.0  # of the log factor of a month


def room(
  opened: np.ndarray, told: np.ndarray, empty: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
  """Returns room of every month, and whether it must be filled, both [K].

  Args:
    opened: known records that open each month, [K].
    told: known events of each month, [K].
    empty: whether the month has a placeholder, bool [K].
  """
  space = np.maximum(_WORKS - opened, _SPARE)
  return np.where(empty, _EMPTY, space), (told == 0) & ~empty


def log_factors(
  blocks: Callable[[], Iterable[np.ndarray]],
  space: np.ndarray,
  must_fill: np.ndarray,
) -> np.ndarray:
  """Returns what to add to log p of every month, float32 [K].

  Args:
    blocks: gives blocks of log p of the opening records [n, K], anew at each
      call, so that they need not all be held at once.
    space: from `room`.
    must_fill: from `room`; other months are only kept from overflowing.
  """
  factors = np.zeros(len(space), np.float32)
  for _ in range(_ROUNDS):
    filled = np.zeros(len(space))
    for block in blocks():
      scores = block + factors
      total = logsumexp(scores, axis=1, keepdims=True)
      filled += np.exp(scores - total).sum(axis=0, dtype=np.float64)
    lack = np.log(space) - np.log(filled + 1e-6)
    lack = np.clip(lack, -_STEP, np.where(must_fill, _STEP, 0))
    factors = np.clip(factors + lack, _LEAST, _MOST).astype(np.float32)
  return factors
