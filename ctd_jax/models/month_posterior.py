"""p(month | text) over the months that exist, and its mass in an interval.

Why: the three heads of the calendar are independent, so their product puts
mass on years that a reign does not have, and their expected codes blur what
is vague into what is certain. Here the same heads, and a smooth function of
the year, are normalised once over the real timeline, and a pair is scored by
the chance that query and record are of one month. `dual_encoder` scores with
it (mode "posterior"); `train_step` supervises it.

Axes: B texts, D width, G reigns, Y year numbers, M months of a year,
K months of the timeline (0 = its first), R regnal years, F features of a year.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn

from ctd_jax.models.calendar_heads import CalendarLogits

# The held-out blocks are of two and three years: a function of the year that
# is smooth over eight cannot learn which years were shown in training.
_MIN_PERIOD = 8.0  # years
_MIN_MASS = 1e-7
_PRECISION = jax.lax.Precision.HIGHEST


def regnal_years(month_classes: np.ndarray) -> np.ndarray:
  """Returns the regnal year of every month, from 0, int [K].

  Args:
    month_classes: reign, year number and month from 0, int [K, 3].
  """
  is_new_year = np.any(np.diff(month_classes[:, :2], axis=0) != 0, axis=1)
  return np.concatenate([[0], np.cumsum(is_new_year)])


def year_features(years: int, width: int) -> np.ndarray:
  """Returns sines and cosines of every regnal year, fp32 [R, width].

  Args:
    years: number of regnal years R.
    width: columns F, even; periods run geometrically from 8 to 2R years.
  """
  periods = np.geomspace(_MIN_PERIOD, 2.0 * years, width // 2)
  angles = 2 * np.pi * np.arange(years)[:, None] / periods
  return np.concatenate([np.sin(angles), np.cos(angles)], 1).astype(np.float32)


class MonthPosterior(nn.Module):
  """The month of a text as one distribution over the timeline.

  Attributes:
    month_classes: (reign, year number, month) of every month, from 0; K of
      them.
    width: features of a regnal year, F.
    weight_init: initial weight of the log mass in a score.
  """

  month_classes: tuple[tuple[int, int, int], ...]
  width: int = 64
  weight_init: float = 1.0

  def setup(self):
    """Makes the projection of texts and the weight."""
    self.project = nn.Dense(
      self.width, bias_init=nn.initializers.zeros, precision=_PRECISION
    )
    self.weight = self.param(
      "weight", nn.initializers.constant(self.weight_init), ()
    )

  def code(self, pooled: jax.Array) -> jax.Array:
    """Returns what a text says of its regnal year, fp32 [B, F].

    Args:
      pooled: text vectors, not normalised, [B, D].
    """
    return self.project(pooled.astype(jnp.float32))

  def log_p(self, logits: CalendarLogits, code: jax.Array) -> jax.Array:
    """Returns log p(month | text), fp32 [B, K].

    Args:
      logits: of reign [B, G], year number [B, Y] and month [B, M].
      code: from `code`, [B, F].
    """
    classes = np.array(self.month_classes)
    years = regnal_years(classes)
    features = year_features(int(years[-1]) + 1, self.width)
    year_scores = jnp.matmul(code, features.T, precision=_PRECISION)
    scores = year_scores[:, years]
    for head, values in enumerate(logits):
      scores += values.astype(jnp.float32)[:, classes[:, head]]
    return jax.nn.log_softmax(scores, axis=-1)

  def log_mass(self, query_p: jax.Array, record_p: jax.Array) -> jax.Array:
    """Returns weight * log of the chance of one month for both, [B, N].

    Args:
      query_p: distribution of each query, [B, K]; of an interval the uniform
        one, which makes this its mean posterior.
      record_p: distribution of each record, [N, K].
    """
    mass = jnp.matmul(query_p, record_p.T, precision=_PRECISION)
    return self.weight * jnp.log(mass + _MIN_MASS)


def uniform_over_interval(interval: jax.Array, num_months: int) -> jax.Array:
  """Returns the uniform distribution over each interval, fp32 [B, K].

  Args:
    interval: first and last ordinal month, int [B, 2].
    num_months: number of months K.
  """
  ordinals = jnp.arange(num_months)
  is_inside = (interval[:, :1] <= ordinals) & (ordinals <= interval[:, 1:])
  return is_inside / jnp.maximum(is_inside.sum(axis=1, keepdims=True), 1)
