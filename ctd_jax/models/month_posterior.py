"""Posterior p(month | text) over the months that exist, and its overlaps.

The three calendar heads are independent: their product puts mass on years that
a reign does not have, and their expected codes turn an uncertain date into a
certain one between its candidates. `MonthPosterior` normalises the same heads,
and a smooth function of the year, once over the real timeline. A pair is scored
by the probability that query and record are of one month.

Axes: B texts, Q queries, N records, D features, G reigns, Y year numbers, M
months of a year, K months of the timeline (0 = its first), A regnal years of
the timeline, F features of a regnal year.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn
from jaxtyping import Array, Float, Int

from ctd_jax.models.arrays import AnyArray
from ctd_jax.models.calendar_heads import PRECISION, CalendarLogits

# The held-out blocks are of two and three years: a function of the year that
# is smooth over eight cannot learn which years were shown in training.
_MIN_PERIOD = 8.0  # years
# Keeps the log finite where two posteriors have no month in common; far below
# the overlap of two uniform posteriors, 1 / K = 3e-4 over 3,036 months.
_MIN_MASS = 1e-7


def number_regnal_years(
  month_classes: Int[np.ndarray, "K 3"],
) -> Int[np.ndarray, " K"]:
  """Returns the regnal year of every month, from 0, int [K].

  Args:
    month_classes: reign, year number and month, all from 0.
  """
  # A year begins where reign or year number changes.
  is_new_year = np.any(np.diff(month_classes[:, :2], axis=0) != 0, axis=1)
  return np.concatenate([[0], np.cumsum(is_new_year)])


def make_year_features(
  years: int, width: int
) -> Float[np.ndarray, "{years} {width}"]:
  """Returns sines and cosines of every regnal year, fp32 [A, F].

  F is even; periods run geometrically from 8 to 2A years.
  """
  periods = np.geomspace(_MIN_PERIOD, 2.0 * years, width // 2)
  angles = 2 * np.pi * np.arange(years)[:, None] / periods
  return np.concatenate([np.sin(angles), np.cos(angles)], 1).astype(np.float32)


class MonthPosterior(nn.Module):
  """The month of a text as one distribution over the timeline.

  Attributes:
    month_classes: (reign, year number, month) of every month, from 0.
    width: features of a regnal year, F.
    weight_init: initial weight of the log mass in a score.
  """

  month_classes: tuple[tuple[int, int, int], ...]
  width: int = 64
  weight_init: float = 1.0

  def setup(self):
    """Makes the projection of texts and the weight of the log mass."""
    self.project = nn.Dense(
      self.width, bias_init=nn.initializers.zeros, precision=PRECISION
    )
    self.weight = self.param(
      "weight", nn.initializers.constant(self.weight_init), ()
    )

  def code(self, pooled: Float[Array, "B D"]) -> Float[Array, "B F"]:
    """Returns the projections that score the regnal years, fp32 [B, F]."""
    return self.project(pooled.astype(jnp.float32))

  def log_p(
    self, logits: CalendarLogits, code: Float[AnyArray, "B F"]
  ) -> Float[Array, "B K"]:
    """Returns log p(month | text), fp32 [B, K]; `code` is from `code`."""
    classes = np.array(self.month_classes)
    years = number_regnal_years(classes)
    features = make_year_features(int(years[-1]) + 1, self.width)
    # score(k) = code . phi(year of k) + g[reign] + y[year] + m[month]
    year_scores = jnp.matmul(code, features.T, precision=PRECISION)
    scores = year_scores[:, years]  # [B, A] -> [B, K]
    for head, values in enumerate(logits):
      scores += values.astype(jnp.float32)[:, classes[:, head]]
    return jax.nn.log_softmax(scores, axis=-1)

  def log_mass(
    self, query_p: Float[AnyArray, "Q K"], record_p: Float[AnyArray, "N K"]
  ) -> Float[Array, "Q N"]:
    """Returns the weighted log probability of one month for both, fp32 [Q, N].

    Args:
      query_p: distribution of each query, [Q, K]; uniform over an interval that
        the query states, which makes the mass the mean posterior there.
      record_p: distribution of each record, [N, K].
    """
    # weight * log(sum_k p_q(k) p_r(k) + epsilon)
    mass = jnp.matmul(query_p, record_p.T, precision=PRECISION)
    return self.weight * jnp.log(mass + _MIN_MASS)


def uniform_over_interval(
  interval: Int[AnyArray, "B 2"], num_months: int
) -> Float[Array, "B {num_months}"]:
  """Returns the uniform distribution over each interval, fp32 [B, K].

  Args:
    interval: first and last ordinal month, int [B, 2]; -1 = none.
    num_months: number of months K.
  """
  # Both ends are included. The interval (-1, -1) has no month; the clamp keeps
  # its row at zero instead of NaN.
  ordinals = jnp.arange(num_months)
  is_inside = (interval[:, :1] <= ordinals) & (ordinals <= interval[:, 1:])
  return is_inside / jnp.maximum(is_inside.sum(axis=1, keepdims=True), 1)
