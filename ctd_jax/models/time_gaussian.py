"""Gaussian of a text over time, and how near in time two texts are.

The temporal module of TEMPS reads the states of an encoder and does not move
them. Attention pools the tokens anew, and two heads map the result to mean and
log variance of a diagonal Gaussian. The similarity of two texts falls with the
divergence of their Gaussians and is mixed with their cosine:

  ts(q, r) = 1 / (1 + KL(p_q || p_r)),  s(q, r) = (1 - w) cos(q, r) + w ts(q, r)

w is chosen on validation. It is a parameter without a gradient, so that every
checkpoint and export has it. Differences from the original:

- There the encoder is published and frozen. Here one that starts from scratch
  is trained by the cosines while the module learns; no gradient of the module
  enters it. `config.optimizer.freeze_encoder` freezes it altogether.
- There the date of publication is encoded beside the text, to resolve "last
  year". Neither queries nor records of track T0 have one.
- There both similarities are scaled to [0, 1] per query over its candidates.
  Here a pair has one score, whatever else the gallery holds.

Source: Hassani et al., "TEMPS: Temporal Sentence Embeddings for Temporal
  Information Retrieval" (EMNLP 2026), as the authors' model card gives
  architecture, score, labels and loss.

Axes: B texts, Q queries, N records, L tokens, D features of a state, Z
dimensions of a Gaussian.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from flax import linen as nn
from jaxtyping import Array, Float, Int

from ctd_jax.models.arrays import AnyArray
from ctd_jax.models.calendar_heads import PRECISION

INITIAL_WEIGHT = 0.5  # of the similarity in time, before a validation
# Log variances lie within +-8, so that a divergence, whose square the gradient
# has, stays far from the largest fp32.
_MAX_LOG_VARIANCE = 8.0


class Gaussians(NamedTuple):
  """Diagonal Gaussians of B texts, fp32 [B, Z] each."""

  mean: jax.Array
  log_variance: jax.Array


def kl_divergence(query: Gaussians, record: Gaussians) -> Float[Array, "Q N"]:
  """Returns KL(query || record) of every pair in nats, fp32 [Q, N]."""
  # The difference of means is formed before its square: as a matrix product of
  # the terms of the square it would cancel in fp32.
  offset = query.mean[:, None] - record.mean
  log_ratio = query.log_variance[:, None] - record.log_variance
  # 1/2 sum_z (var_q + (mean_q - mean_r)^2) / var_r - 1 - log(var_q / var_r)
  terms = jnp.exp(log_ratio) - 1 - log_ratio
  terms += jnp.square(offset) * jnp.exp(-record.log_variance)
  return 0.5 * terms.sum(axis=-1)


def time_similarity(query: Gaussians, record: Gaussians) -> Float[Array, "Q N"]:
  """Returns 1 / (1 + KL(query || record)) of every pair, fp32 [Q, N]."""
  return 1 / (1 + kl_divergence(query, record))


def match_intervals(ends: Int[AnyArray, "B 2"]) -> Gaussians:
  """Returns the Gaussians with the moments of intervals, [B, 1], in months.

  An interval [a, b], both included, has mean (a + b + 1) / 2 and variance
  (b - a + 1)^2 / 12, those of the uniform distribution on [a, b + 1].

  Args:
    ends: first and last ordinal month, 0 = first of the timeline.

  Source: TEMPS, training labels; days there.
  """
  first, last = ends[:, :1], ends[:, 1:]
  months = (last - first + 1).astype(jnp.float32)
  mean = (first + last + 1).astype(jnp.float32) / 2
  return Gaussians(mean, jnp.log(jnp.square(months) / 12))


class TimeGaussian(nn.Module):
  """Temporal module: a Gaussian over time, read off the tokens' states."""

  dimensions: int = 8  # of the Gaussian, Z

  def setup(self):
    """Makes the attention, the heads and the weight of the similarity."""
    self.attention = nn.Dense(1, precision=PRECISION)
    self.mean = nn.Dense(self.dimensions, precision=PRECISION)
    self.log_variance = nn.Dense(self.dimensions, precision=PRECISION)
    self.weight = self.param(
      "weight", nn.initializers.constant(INITIAL_WEIGHT), ()
    )

  def score_tokens(
    self, token_states: Float[Array, "*batch L D"]
  ) -> Float[Array, "*batch L"]:
    """Returns the scores by which attention pools tokens, fp32 [..., L]."""
    return self.attention(token_states.astype(jnp.float32))[..., 0]

  def __call__(self, pooled: Float[Array, "B D"]) -> Gaussians:
    """Returns the Gaussians of pooled states, [B, Z]."""
    pooled = pooled.astype(jnp.float32)
    log_variance = self.log_variance(pooled) / _MAX_LOG_VARIANCE
    return Gaussians(
      self.mean(pooled), _MAX_LOG_VARIANCE * jnp.tanh(log_variance)
    )

  def fuse(
    self, cosine: Float[Array, "Q N"], similarity: Float[Array, "Q N"]
  ) -> Float[Array, "Q N"]:
    """Returns cosine and similarity in time, mixed by the chosen weight.

    Both are over the same temperature.
    """
    weight = jax.lax.stop_gradient(self.weight)  # validation chooses it
    return (1 - weight) * cosine + weight * similarity
