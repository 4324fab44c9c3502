"""Month capacity: each work opens a month once.

「秋七月」 stands once in a work's year. Of two records that open so, each takes
another year; a month that no known record opens and that has no placeholder
must be opened by some record, and one that all works have opened takes no more.
So the posteriors of the opening records are balanced against the capacity of
every month: Sinkhorn scaling of the columns, the rows being probabilities.
Known records enter only as capacity taken.

Axes: n records, K months.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping

import numpy as np
from jaxtyping import Bool, Float, Float32, Int

from ctd_jax.dating.corpus import Labels
from ctd_jax.dating.experts import base
from ctd_jax.dating.features import CorpusFeatures

# Openings of a month with events, over the four works of the benchmark.
_OPENINGS_PER_MONTH = 3.4
_MIN_CAPACITY = 0.05  # when all works have opened
_PLACEHOLDER_CAPACITY = 0.01  # of a month with a placeholder
_NUM_ROUNDS = 10  # of balancing; near enough to the fixed point
_MAX_STEP = 3.0  # of a log factor in one round
_MIN_LOG_FACTOR, _MAX_LOG_FACTOR = -8.0, 4.0


@dataclasses.dataclass(frozen=True, kw_only=True)
class FittedMonthCapacity:
  """Capacity of the months.

  Attributes:
    capacity: records that may open each month.
    must_fill: whether some record must open the month.
  """

  capacity: Float[np.ndarray, " K"]
  must_fill: Bool[np.ndarray, " K"]
  name = "room"

  def explain(self, row: int, year: int) -> base.Evidence:
    """Returns the evidence of a record that opens a month."""
    del row, year
    return base.Evidence(note="opens a month, which each work does once")


@dataclasses.dataclass(frozen=True)
class MonthCapacity:
  """The expert of capacity, fitted last: it balances the others' scores."""

  name = "room"

  def fit(
    self,
    features: CorpusFeatures,
    labels: Labels,
    peers: Mapping[str, base.FittedExpert],
  ) -> FittedMonthCapacity:
    """Returns the capacity that the known records leave; see `base.Expert`."""
    del peers
    num_months = len(features.axis)
    is_known_event = labels.is_known & features.is_event
    is_known_opener = labels.is_known & features.opens_month
    capacity, must_fill = compute_month_capacity(
      np.bincount(labels.month[is_known_opener], minlength=num_months),
      np.bincount(labels.month[is_known_event], minlength=num_months),
      features.corpus.has_placeholder,
    )
    return FittedMonthCapacity(capacity=capacity, must_fill=must_fill)


def compute_month_capacity(
  num_openers: Int[np.ndarray, " K"],
  num_events: Int[np.ndarray, " K"],
  has_placeholder: Bool[np.ndarray, " K"],
) -> tuple[Float[np.ndarray, " K"], Bool[np.ndarray, " K"]]:
  """Returns the capacity of every month, and whether it must be filled.

  Args:
    num_openers: known records that open each month.
    num_events: known events of each month.
    has_placeholder: whether the month has a placeholder.
  """
  capacity = np.maximum(_OPENINGS_PER_MONTH - num_openers, _MIN_CAPACITY)
  capacity = np.where(has_placeholder, _PLACEHOLDER_CAPACITY, capacity)
  return capacity, (num_events == 0) & ~has_placeholder


def fit_month_log_factors(
  iter_scores: Callable[[], Iterable[np.ndarray]],
  capacity: Float[np.ndarray, " K"],
  must_fill: Bool[np.ndarray, " K"],
) -> Float32[np.ndarray, " K"]:
  """Returns what to add to log p of every month.

  Args:
    iter_scores: gives blocks of log p of the opening records [n, K], anew at
      each call, so that they need not all be held at once.
    capacity: from `compute_month_capacity`.
    must_fill: likewise; other months are only kept from overflowing.
  """
  factors = np.zeros(len(capacity), np.float32)
  for _ in range(_NUM_ROUNDS):
    mass = np.zeros(len(capacity))
    for block in iter_scores():
      scores = block + factors
      scores -= scores.max(axis=1, keepdims=True)
      chances = np.exp(scores, out=scores)
      # Divided by the sum of each record and added up over the records at once.
      mass += (1 / chances.sum(axis=1, dtype=np.float64)) @ chances
    log_deficit = np.log(capacity) - np.log(mass + 1e-6)
    # A month that need not be filled is never raised, only lowered.
    log_deficit = np.clip(
      log_deficit, -_MAX_STEP, np.where(must_fill, _MAX_STEP, 0)
    )
    factors = np.clip(
      factors + log_deficit, _MIN_LOG_FACTOR, _MAX_LOG_FACTOR
    ).astype(np.float32)
  return factors
