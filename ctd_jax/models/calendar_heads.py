"""What a text's vector says about its date, and what that does to a score.

Why: the calendrical dual encoder (paper, section 4) reads three categorical
distributions (reign, year, month) off a text vector, turns them into one
position on a time axis, adds a code of the date to the vector (absolute
context) and a function of the offset between query and record to the score
(relative bias). `dual_encoder` puts the parts together.

Each part comes as "release", the published code's formula, and "index", the
same idea with frequencies at which months are visible: in the release all
positions lie in [0, 1] and all frequencies below 1, so no code completes a
sixth of a cycle.

Axes: B queries, N records, D width, G reigns, Y years, M months, F
frequencies, W width of the offset features and of the bias's hidden layer.
Months are ordinals of the timeline, 0 = its first month.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn

from ctd_jax.models import offset_table

CODEBOOKS = ("release", "index")
OFFSET_FEATURES = ("release", "index")
SCALAR_AXES = ("release", "timeline")
# Collection of variables with the table of the offset bias; see `OffsetBias`.
TABLES = "tables"
MONTHS_PER_YEAR = 12
_MIN_FREQUENCY = 1e-4  # slowest frequency of the release, radians per unit
_PRECISION = jax.lax.Precision.HIGHEST


class CalendarLogits(NamedTuple):
  """Unnormalised log-probabilities of a text's date.

  Attributes:
    reign: [B, G].
    year: [B, Y], entry 0 = first regnal year.
    month: [B, M], entry 0 = first month.
  """

  reign: jax.Array
  year: jax.Array
  month: jax.Array

  def probabilities(self) -> CalendarLogits:
    """Returns the three distributions, fp32, same shapes."""
    return CalendarLogits(
      *(jax.nn.softmax(x.astype(jnp.float32), axis=-1) for x in self)
    )


def fan_in_uniform(fan_in: int) -> Callable[..., jax.Array]:
  """Returns an initialiser U(-1/sqrt(fan_in), 1/sqrt(fan_in)).

  It serves kernel and bias alike, as in the release.
  """
  bound = 1.0 / math.sqrt(fan_in)

  def init(key, shape, dtype=jnp.float32):
    return jax.random.uniform(key, shape, dtype, -bound, bound)

  return init


class CalendarHeads(nn.Module):
  """Three independent affine maps from a text vector to its date.

  Attributes:
    class_counts: (G, Y, M).
  """

  class_counts: tuple[int, int, int]

  @nn.compact
  def __call__(self, pooled: jax.Array) -> CalendarLogits:
    """Returns the logits of reign, year and month.

    Args:
      pooled: text vectors, not normalised, [B, D].

    Source: paper, section 4, and the released code, heads.
    """
    init = fan_in_uniform(pooled.shape[-1])
    return CalendarLogits(
      *(
        nn.Dense(
          count,
          kernel_init=init,
          bias_init=init,
          precision=_PRECISION,
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
) -> jax.Array:
  """Returns the expected position of each text on the time axis, fp32 [B].

  Args:
    logits: of reign [B, G], year [B, Y] and month [B, M].
    axis: "release" = the padded grid G x Y x M, every reign as long as the
      longest: (g*Y*M + y*M + m) / (G*Y*M - 1) of the three expectations.
      "timeline" = months that exist: expected ordinal / (num_months - 1).
      As the marginals are independent, that is the sum of the expectations
      of the reign's first month, of 12 * year and of month.
    reign_starts: ordinal of each reign's first month, G of them; "timeline".
    num_months: months of the timeline; "timeline".

  Returns:
    u, in [0, 1]; on "timeline" a text that is put in a year its reign does
    not have may exceed 1 by that reign's missing years.

  Raises:
    ValueError: if `axis` is unknown or `reign_starts` does not fit.

  Source: released code, latent scalar; "timeline" repairs its padded axis.
  """
  probabilities = logits.probabilities()

  def expectation(probability: jax.Array, values: jax.Array) -> jax.Array:
    # Rounded operands would be off by months.
    values = values.astype(jnp.float32)
    return jnp.matmul(probability, values, precision=_PRECISION)

  expectations = [
    expectation(p, jnp.arange(p.shape[-1])) for p in probabilities
  ]
  reigns, years, months = (values.shape[-1] for values in logits)
  if axis == "release":
    reign, year, month = expectations
    cells = reigns * years * months
    position = reign * (years * months) + year * months + month
    return position / max(cells - 1, 1)
  if axis != "timeline":
    raise ValueError(f"scalar axis must be one of {SCALAR_AXES}, got {axis!r}")
  if len(reign_starts) != reigns or num_months < 2:
    raise ValueError(
      f"axis 'timeline' needs {reigns} reign starts and num_months > 1, got "
      f"{len(reign_starts)} and {num_months}"
    )
  first = expectation(probabilities.reign, jnp.asarray(reign_starts))
  ordinal = first + MONTHS_PER_YEAR * expectations[1] + expectations[2]
  return ordinal / (num_months - 1)


def max_latent_scalar(
  axis: str,
  reign_starts: Sequence[int],
  class_counts: tuple[int, int, int],
  num_months: int,
) -> float:
  """Returns the largest value of `latent_scalar`, whose smallest is 0.

  Args:
    axis: see `latent_scalar`; likewise `reign_starts` and `num_months`.
    class_counts: (G, Y, M).
  """
  if axis == "release":
    return 1.0
  _, years, months = class_counts
  last = max(reign_starts) + MONTHS_PER_YEAR * (years - 1) + months - 1
  return last / (num_months - 1)


def _geometric_series(first: float, last: float, count: int) -> np.ndarray:
  return np.geomspace(first, last, count) if count > 1 else np.array([first])


def codebook(classes: int, width: int, kind: str) -> np.ndarray:
  """Returns the fixed sinusoidal code of every class, fp32 [classes, width].

  The first half of a row holds sines, the second half cosines of the same
  angles; an odd width ends in a column of zeros, width 1 is the position.

  Args:
    classes: number of classes C.
    width: columns.
    kind: "release" = position c/(C-1) in [0, 1], frequencies 1 to 1e-4;
      "index" = position c, geometric periods from 2 to 2C steps;
      "circular" = position c, geometric periods from C to 2 steps, each
      rounded to a whole number of cycles in C (class C-1 is a neighbour of
      class 0). Low harmonics repeat, which weighs them more, and rows keep
      the length of the other codes.

  Raises:
    ValueError: if `kind` is unknown.

  Source: released code, codebooks; the other two repair its frequencies.
  """
  index = np.arange(classes, dtype=np.float64)
  half = width // 2
  position = index / max(classes - 1, 1)
  if kind == "release":
    angles = position[:, None] * _geometric_series(1.0, _MIN_FREQUENCY, half)
  elif kind == "index":
    periods = _geometric_series(2.0, 2.0 * classes, half)
    angles = 2 * np.pi * index[:, None] / periods
  elif kind == "circular":
    harmonics = np.rint(_geometric_series(1.0, max(classes // 2, 1), half))
    angles = 2 * np.pi * index[:, None] * harmonics / classes
  else:
    raise ValueError(
      f"codebook must be one of {(*CODEBOOKS, 'circular')}, got {kind!r}"
    )
  if width == 1:
    return position[:, None].astype(np.float32)
  code = np.concatenate([np.sin(angles), np.cos(angles)], axis=1)
  return np.pad(code, ((0, 0), (0, width % 2))).astype(np.float32)


class AbsoluteContext(nn.Module):
  """Text vectors with the code of their expected date added, [B, D].

  Attributes:
    kind: of the codebooks, "release" or "index"; with "index" the code of
      the month is circular.
    width: columns of each of the three codebooks.
    gate_init: initial value of the learned gate; 1.0 in the release.
  """

  kind: str
  width: int = 64
  gate_init: float = 1.0

  @nn.compact
  def __call__(self, pooled: jax.Array, logits: CalendarLogits) -> jax.Array:
    """Returns pooled + gate * (W [p_g E_g; p_y E_y; p_m E_m] + b), [B, D].

    Args:
      pooled: text vectors, not normalised, [B, D].
      logits: their dates.

    Source: paper, section 4, and the released code, absolute context.
    """
    month_kind = "circular" if self.kind == "index" else self.kind
    kinds = (self.kind, self.kind, month_kind)
    codes = [
      jnp.matmul(
        p, codebook(p.shape[-1], self.width, kind), precision=_PRECISION
      )
      for p, kind in zip(logits.probabilities(), kinds, strict=True)
    ]
    init = fan_in_uniform(3 * self.width)
    context = nn.Dense(
      pooled.shape[-1],
      kernel_init=init,
      bias_init=init,
      precision=_PRECISION,
      name="project",
    )(jnp.concatenate(codes, axis=-1))
    gate = self.param("gate", nn.initializers.constant(self.gate_init), ())
    return pooled + gate * context


def offset_frequencies(
  count: int, kind: str, num_months: int = 0
) -> np.ndarray:
  """Returns the angular frequencies of the offset features, float64 [F].

  Args:
    count: number of frequencies F.
    kind: "release" = 1 to 1e-4; "index" = geometric periods from 2 months to
      twice the timeline, so that the slowest phase differs for any two
      offsets.
    num_months: months of the timeline; "index".

  Returns:
    Radians per unit of the latent scalar (num_months - 1 months).

  Raises:
    ValueError: if `kind` is unknown or "index" lacks `num_months`.

  Source: released code, relative bias; "index" repairs its frequencies.
  """
  if kind == "release":
    return _geometric_series(1.0, _MIN_FREQUENCY, count)
  if kind != "index":
    raise ValueError(
      f"offset features must be one of {OFFSET_FEATURES}, got {kind!r}"
    )
  if num_months < 2:
    raise ValueError(
      f"offset features 'index' need num_months > 1, got {num_months}"
    )
  periods = _geometric_series(2.0, 2.0 * num_months, count)
  return 2 * np.pi * (num_months - 1) / periods


def offset_features(delta: jax.Array, frequencies: np.ndarray) -> jax.Array:
  """Returns sines, then cosines, of the offsets, fp32 [..., 2F].

  Args:
    delta: record's latent scalar less the query's, [...].
    frequencies: from `offset_frequencies`, [F].
  """
  angles = delta[..., None] * jnp.asarray(frequencies, jnp.float32)
  return jnp.concatenate([jnp.sin(angles), jnp.cos(angles)], axis=-1)


class OffsetBias(nn.Module):
  """A learned function of the offset between query and record, [B, N].

  scale * MLP(offset_features(u_record - u_query)), the MLP being
  W -> W, ReLU, W -> 1. The first layer is linear in sines and cosines of a
  difference, hence bilinear in those of its two terms: it is one matrix
  product of per-record and per-query codes, and neither a feature nor a sine
  is ever computed per pair. What remains is [B, N, W]; on a CPU blocks of
  about 32,000 pairs stay in its cache, and larger ones take up to four times
  as long per pair. The release clips the offset to [-1, 1], which
  changes nothing on its axis. A search passes the collection `TABLES`
  with an `OffsetTable` named "bias", which is looked up instead.

  Attributes:
    kind: of the features, "release" or "index".
    width: W, even; W/2 frequencies.
    num_months: months of the timeline; "index".
    scale_init: initial value of the learned scale; 0 in the release, where
      the bias starts at exactly 0 and only the scale has a gradient.
  """

  kind: str
  width: int = 32
  num_months: int = 0
  scale_init: float = 0.0

  @nn.compact
  def __call__(self, query: jax.Array, record: jax.Array) -> jax.Array:
    """Returns the bias of every pair, fp32 [B, N].

    Args:
      query: latent scalars of the queries, [B].
      record: latent scalars of the records, [N].

    Source: released code, relative bias, there on the positives alone.
    """
    if self.has_variable(TABLES, "bias"):
      offsets = record[None, :] - query[:, None]
      return offset_table.lookup_bias(
        self.get_variable(TABLES, "bias"), offsets
      )
    width = self.width
    init = fan_in_uniform(width)
    hidden_kernel = self.param("hidden_kernel", init, (width, width))
    hidden_bias = self.param("hidden_bias", init, (width,))
    out_kernel = self.param("out_kernel", init, (width, 1))
    out_bias = self.param("out_bias", init, (1,))
    scale = self.param("scale", nn.initializers.constant(self.scale_init), ())

    frequencies = offset_frequencies(width // 2, self.kind, self.num_months)
    sines, cosines = jnp.split(hidden_kernel, 2)
    sin_q, cos_q = jnp.split(offset_features(query, frequencies), 2, axis=-1)
    # sin(r-q) = sin r cos q - cos r sin q; cos(r-q) = cos r cos q + sin r sin q
    sin_weights = cos_q[..., None] * sines + sin_q[..., None] * cosines
    cos_weights = cos_q[..., None] * cosines - sin_q[..., None] * sines
    activations = jnp.einsum(
      "nf,bfw->bnw",
      offset_features(record, frequencies),
      jnp.concatenate([sin_weights, cos_weights], axis=1),
      precision=_PRECISION,
    )
    activations = nn.relu(activations + hidden_bias)
    value = jnp.matmul(activations, out_kernel, precision=_PRECISION) + out_bias
    return scale * value[..., 0]
