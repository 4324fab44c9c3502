"""Calendar heads, position in time and the code of an expected date.

CTD (paper, section 4) reads three distributions (reign, year, month) off a text
vector. `latent_scalar` turns them into one position in time, and
`AbsoluteContext` adds a sinusoidal code of the expected date to the vector.

Each component has two variants: "release" is the formula of the published code;
"index" has frequencies at which months are visible. In the release all
positions lie in [0, 1] and all frequencies are at most 1, so no code completes
a sixth of a cycle.

Axes: B texts, D features, G reigns, Y year numbers, M months of a year, C
classes of a head, F columns of a codebook. Months of the timeline are ordinals,
0 = its first month.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn
from jaxtyping import Array, Float, Int, Num

from ctd_jax.models.encoders.layers import AnyArray

CODEBOOKS = ("release", "index")
SCALAR_AXES = ("release", "timeline")
MONTHS_PER_YEAR = 12
MIN_FREQUENCY = 1e-4  # slowest frequency of the release, radians per unit
# Default precision rounds operands to bf16 on TPU and tf32 on GPU: an expected
# ordinal among 3,036 months would be off by months.
PRECISION = jax.lax.Precision.HIGHEST


class CalendarLogits(NamedTuple):
  """Unnormalised log-probabilities of a text's date."""

  reign: jax.Array  # [B, G]
  year: jax.Array  # of the regnal year, [B, Y], entry 0 = first regnal year
  month: jax.Array  # [B, M], entry 0 = first month

  def probabilities(self) -> CalendarLogits:
    """Returns the three distributions, fp32."""
    return CalendarLogits(
      *(jax.nn.softmax(x.astype(jnp.float32), axis=-1) for x in self)
    )


def fan_in_uniform(fan_in: int) -> Callable[..., jax.Array]:
  """Returns an initialiser U(-1/sqrt(fan_in), 1/sqrt(fan_in)).

  For kernel and bias alike: the default of torch.nn.Linear, as in the release.
  """
  bound = 1.0 / math.sqrt(fan_in)

  def init(key, shape, dtype=jnp.float32):
    return jax.random.uniform(key, shape, dtype, -bound, bound)

  return init


class CalendarHeads(nn.Module):
  """Three independent affine maps from a text vector to its date."""

  class_counts: tuple[int, int, int]  # (G, Y, M)

  @nn.compact
  def __call__(self, pooled: Float[Array, "B D"]) -> CalendarLogits:
    """Returns the logits of text vectors that are not normalised.

    Source: paper, section 4, and the released code, heads.
    """
    init = fan_in_uniform(pooled.shape[-1])
    return CalendarLogits(
      *(
        nn.Dense(
          count,
          kernel_init=init,
          bias_init=init,
          precision=PRECISION,
          name=name,
        )(pooled)
        for name, count in zip(
          CalendarLogits._fields, self.class_counts, strict=True
        )
      )
    )


def latent_scalar(
  logits: CalendarLogits,
  axis: str,
  reign_starts: Sequence[int] = (),
  num_months: int = 0,
) -> Float[Array, " B"]:
  """Returns the expected position u of each text on the time axis, fp32 [B].

  u lies in [0, 1]. On "timeline", a text put in a year its reign does not have
  may exceed 1 by that reign's missing years.

  Args:
    axis: "release" = the padded grid G x Y x M, every reign as long as the
      longest: (g*Y*M + y*M + m) / (G*Y*M - 1) of the three expectations.
      "timeline" = months that exist: expected ordinal / (num_months - 1). As
      the marginals are independent, that is the sum of the expectations of the
      reign's first month, of 12 * year and of month.
    reign_starts: ordinal of each reign's first month, G of them; "timeline".
    num_months: months of the timeline; "timeline".

  Source: released code, latent scalar; "timeline" repairs its padded axis.
  """
  probabilities = logits.probabilities()

  def expectation(
    probability: Float[Array, "B C"], values: Num[Array, " C"]
  ) -> Float[Array, " B"]:
    values = values.astype(jnp.float32)
    return jnp.matmul(probability, values, precision=PRECISION)

  expectations = [
    expectation(p, jnp.arange(p.shape[-1])) for p in probabilities
  ]
  reigns, years, months = (values.shape[-1] for values in logits)
  if axis == "release":
    # u = (E[g] Y M + E[y] M + E[m]) / (G Y M - 1). Every reign has Y years
    # here, so u is not proportional to time across reigns.
    reign, year, month = expectations
    cells = reigns * years * months
    position = reign * (years * months) + year * months + month
    return position / max(cells - 1, 1)
  # u = (E[first month of g] + 12 E[y] + E[m]) / (K - 1).
  first = expectation(probabilities.reign, jnp.asarray(reign_starts))
  ordinal = first + MONTHS_PER_YEAR * expectations[1] + expectations[2]
  return ordinal / (num_months - 1)


def max_latent_scalar(
  axis: str,
  reign_starts: Sequence[int],
  class_counts: tuple[int, int, int],
  num_months: int,
) -> float:
  """Returns the largest value of `latent_scalar`, whose smallest is 0."""
  if axis == "release":
    return 1.0
  _, years, months = class_counts
  last = max(reign_starts) + MONTHS_PER_YEAR * (years - 1) + months - 1
  return last / (num_months - 1)


def geometric_series(
  first: float, last: float, count: int
) -> Float[np.ndarray, " F"]:
  """Returns a geometric series of F numbers from `first` to `last`."""
  return np.geomspace(first, last, count) if count > 1 else np.array([first])


def make_codebook(
  classes: int, width: int, kind: str
) -> Float[np.ndarray, "C F"]:
  """Returns the fixed sinusoidal code of every class, fp32 [C, F].

  The first half of a row holds sines, the second half cosines of the same
  angles; an odd width ends in a column of zeros, width 1 is the position.

  Args:
    kind: "release" = position c/(C-1) in [0, 1], frequencies 1 to 1e-4;
      "index" = position c, geometric periods from 2 to 2C steps;
      "circular" = position c, geometric periods from C to 2 steps, each
      rounded to a whole number of cycles in C, so that class C-1 is next to
      class 0. Low harmonics repeat, which weighs them more; rows keep the
      length of the other codes.

  Source: released code, codebooks; the other two repair its frequencies.
  """
  index = np.arange(classes, dtype=np.float64)
  half = width // 2
  position = index / max(classes - 1, 1)
  # Angles are [C, F/2].
  if kind == "release":
    angles = position[:, None] * geometric_series(1.0, MIN_FREQUENCY, half)
  elif kind == "index":
    periods = geometric_series(2.0, 2.0 * classes, half)
    angles = 2 * np.pi * index[:, None] / periods
  else:
    # Whole numbers of cycles in C, or class C-1 would not be a neighbour of 0.
    highest = float(max(classes // 2, 1))
    harmonics = np.rint(geometric_series(1.0, highest, half))
    angles = 2 * np.pi * index[:, None] * harmonics / classes
  if width == 1:
    return position[:, None].astype(np.float32)
  code = np.concatenate([np.sin(angles), np.cos(angles)], axis=1)
  # An odd width ends in a column of zeros.
  return np.pad(code, ((0, 0), (0, width % 2))).astype(np.float32)


class AbsoluteContext(nn.Module):
  """Text vectors with the code of their expected date added, [B, D]."""

  # Of the codebooks, "release" or "index"; the month's code is circular with
  # "index".
  kind: str
  width: int = 64  # columns of each of the three codebooks
  # Initial value of the learned gate; 1.0 in the release.
  gate_init: float = 1.0
  use_bias: bool = True  # b; the paper has none

  @nn.compact
  def __call__(
    self, pooled: Float[Array, "B D"], logits: CalendarLogits
  ) -> Float[Array, "B D"]:
    """Returns pooled + gate * (W [p_g E_g; p_y E_y; p_m E_m] + b), [B, D].

    Source: paper, section 4, and the released code, absolute context.
    """
    # The last month of a year is next to the first of another.
    month_kind = "circular" if self.kind == "index" else self.kind
    kinds = (self.kind, self.kind, month_kind)
    # Expected codes p E of reign, year and month, each [B, F].
    codes = [
      jnp.matmul(
        p, make_codebook(p.shape[-1], self.width, kind), precision=PRECISION
      )
      for p, kind in zip(logits.probabilities(), kinds, strict=True)
    ]
    init = fan_in_uniform(3 * self.width)
    context = nn.Dense(
      pooled.shape[-1],
      kernel_init=init,
      bias_init=init,
      use_bias=self.use_bias,
      precision=PRECISION,
      name="project",
    )(jnp.concatenate(codes, axis=-1))
    # h + gate * (W [p_g E_g; p_y E_y; p_m E_m] + b)
    gate = self.param("gate", nn.initializers.constant(self.gate_init), ())
    return pooled + gate * context


# Posterior p(month | text) over the months that exist, and its overlaps.
#
# The three calendar heads are independent: their product puts mass on years
# that a reign does not have, and their expected codes turn an uncertain date
# into a certain one between its candidates. `MonthPosterior` normalises the
# same heads, and a smooth function of the year, once over the real timeline.
# A pair is scored by the probability that query and record are from the same
# month.
#
# Axes: B texts, Q queries, N records, D features, G reigns, Y year numbers, M
# months of a year, K months of the timeline (0 = its first), A regnal years
# of the timeline, F features of a regnal year.


# The held-out blocks are two and three years long: a function of the year that
# is smooth over eight cannot learn which years were shown in training.
_MIN_PERIOD = 8.0  # years
# Keeps the log finite where two posteriors have no month in common; far below
# the overlap of two uniform posteriors, 1 / K = 3e-4 over 3,036 months.
_MIN_MASS = 1e-7


def number_regnal_years(
  month_classes: Int[np.ndarray, "K 3"],
) -> Int[np.ndarray, " K"]:
  """Returns the regnal year of every month, from 0, int [K]."""
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
  """The month of a text as one distribution over the timeline."""

  # (reign, year number, month) of every month, from 0.
  month_classes: tuple[tuple[int, int, int], ...]
  width: int = 64  # features of a regnal year, F
  weight_init: float = 1.0  # initial weight of the log mass in a score

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
    """Returns the weighted log probability of both being from one month."""
    # weight * log(sum_k p_q(k) p_r(k) + epsilon)
    mass = jnp.matmul(query_p, record_p.T, precision=PRECISION)
    return self.weight * jnp.log(mass + _MIN_MASS)


def uniform_over_interval(
  interval: Int[AnyArray, "B 2"], num_months: int
) -> Float[Array, "B {num_months}"]:
  """Returns the uniform distribution over each interval; -1 = none."""
  # Both ends are included. The interval (-1, -1) has no month; the clamp keeps
  # its row at zero instead of NaN.
  ordinals = jnp.arange(num_months)
  is_inside = (interval[:, :1] <= ordinals) & (ordinals <= interval[:, 1:])
  return is_inside / jnp.maximum(is_inside.sum(axis=1, keepdims=True), 1)


# Gaussian of a text over time, and how near in time two texts are.
#
# The temporal module of TEMPS reads the states of an encoder and does not
# move them. Attention pools the tokens anew, and two heads map the result to
# mean and log variance of a diagonal Gaussian. The similarity of two texts
# falls with the divergence of their Gaussians and is mixed with their cosine:
#
# ts(q, r) = 1 / (1 + KL(p_q || p_r)), s(q, r) = (1 - w) cos(q, r) + w ts(q,
# r)
#
# w is chosen on validation. It is a parameter without a gradient, so that
# every checkpoint and export has it. Differences from the original:
#
# - There the encoder is published and frozen. Here one that starts from
# scratch is trained by the cosines while the module learns; no gradient of
# the module enters it. `config.optimizer.freeze_encoder` freezes it
# altogether. - There the date of publication is encoded beside the text, to
# resolve "last year". Neither queries nor records of track T0 have one. -
# There both similarities are scaled to [0, 1] per query over its candidates.
# Here a pair has one score, whatever else the gallery holds.
#
# Source: Hassani et al., "TEMPS: Temporal Sentence Embeddings for Temporal
# Information Retrieval" (EMNLP 2026), as the authors' model card gives
# architecture, score, labels and loss.
#
# Axes: B texts, Q queries, N records, L tokens, D features of a state, Z
# dimensions of a Gaussian.


INITIAL_WEIGHT = 0.5  # of the similarity in time, before a validation
# Log variances are within +-8, so that a divergence, which is squared in the
# gradient, stays far from the largest fp32.
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
  """Temporal module: a Gaussian over time, computed from the tokens' states."""

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
