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
from jaxtyping import Array, Float, Num

CODEBOOKS = ("release", "index")
SCALAR_AXES = ("release", "timeline")
MONTHS_PER_YEAR = 12
MIN_FREQUENCY = 1e-4  # slowest frequency of the release, radians per unit
# Default precision rounds operands to bf16 on TPU and tf32 on GPU: an expected
# ordinal among 3,036 months would be off by months.
PRECISION = jax.lax.Precision.HIGHEST


class CalendarLogits(NamedTuple):
  """Unnormalised log-probabilities of a text's date.

  Attributes:
    reign: [B, G].
    year: of the regnal year, [B, Y], entry 0 = first regnal year.
    month: [B, M], entry 0 = first month.
  """

  reign: jax.Array
  year: jax.Array
  month: jax.Array

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
    logits: of the texts' dates.
    axis: "release" = the padded grid G x Y x M, every reign as long as the
      longest: (g*Y*M + y*M + m) / (G*Y*M - 1) of the three expectations.
      "timeline" = months that exist: expected ordinal / (num_months - 1). As
      the marginals are independent, that is the sum of the expectations of the
      reign's first month, of 12 * year and of month.
    reign_starts: ordinal of each reign's first month, G of them; "timeline".
    num_months: months of the timeline; "timeline".

  Raises:
    ValueError: if `axis` is unknown or `reign_starts` does not fit.

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
  if axis != "timeline":
    raise ValueError(f"scalar axis must be one of {SCALAR_AXES}, got {axis!r}")
  if len(reign_starts) != reigns or num_months < 2:
    raise ValueError(
      f"axis 'timeline' needs {reigns} reign starts and num_months > 1, got "
      f"{len(reign_starts)} and {num_months}"
    )
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
    classes: number of classes C.
    width: columns F.
    kind: "release" = position c/(C-1) in [0, 1], frequencies 1 to 1e-4;
      "index" = position c, geometric periods from 2 to 2C steps;
      "circular" = position c, geometric periods from C to 2 steps, each
      rounded to a whole number of cycles in C, so that class C-1 is next to
      class 0. Low harmonics repeat, which weighs them more; rows keep the
      length of the other codes.

  Raises:
    ValueError: if `kind` is unknown.

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
  elif kind == "circular":
    # Whole numbers of cycles in C, or class C-1 would be no neighbour of 0.
    highest = float(max(classes // 2, 1))
    harmonics = np.rint(geometric_series(1.0, highest, half))
    angles = 2 * np.pi * index[:, None] * harmonics / classes
  else:
    raise ValueError(
      f"codebook must be one of {(*CODEBOOKS, 'circular')}, got {kind!r}"
    )
  if width == 1:
    return position[:, None].astype(np.float32)
  code = np.concatenate([np.sin(angles), np.cos(angles)], axis=1)
  # An odd width ends in a column of zeros.
  return np.pad(code, ((0, 0), (0, width % 2))).astype(np.float32)


class AbsoluteContext(nn.Module):
  """Text vectors with the code of their expected date added, [B, D].

  Attributes:
    kind: of the codebooks, "release" or "index"; the month's code is circular
      with "index".
    width: columns of each of the three codebooks.
    gate_init: initial value of the learned gate; 1.0 in the release.
  """

  kind: str
  width: int = 64
  gate_init: float = 1.0

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
      precision=PRECISION,
      name="project",
    )(jnp.concatenate(codes, axis=-1))
    # h + gate * (W [p_g E_g; p_y E_y; p_m E_m] + b)
    gate = self.param("gate", nn.initializers.constant(self.gate_init), ())
    return pooled + gate * context
