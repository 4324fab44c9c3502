"""Losses of dates: of calendar heads, of the posterior and of order.

`objective` weighs them and adds them to the loss of pairs (`losses`). They map
arrays to fp32 scalars (that of the order to one a query) and know no model.

Axes: B texts of a batch, N records, C classes of a calendar head, K months of
the timeline.
"""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int

from ctd_jax.training.losses import sum_below

# Inverse temperature of the ranking loss, as its author and its users have it.
_COSENT_SCALE = 20.0


def smoothed_targets(
  labels: Int[Array, " B"], classes: int, eps: float, kind: str = "neighbours"
) -> Float[Array, "B C"]:
  """Returns target probabilities; other classes share eps.

  Args:
    labels: right classes, from 0.
    classes: C.
    eps: mass taken from the right class; 0 = none.
    kind: "neighbours" = shared by the neighbours that exist: half each inside,
      all to the only one at an end; months do not wrap. "uniform" = shared by
      all classes, the right one too.

  Source: released code, calendar loss; "uniform" is the label smoothing that
  the paper names.
  """
  target = jax.nn.one_hot(labels, classes, dtype=jnp.float32)
  if classes == 1 or eps <= 0:
    return target
  if kind == "uniform":
    return optax.smooth_labels(target, eps)
  below = jax.nn.one_hot(labels - 1, classes, dtype=jnp.float32)
  above = jax.nn.one_hot(labels + 1, classes, dtype=jnp.float32)
  # one_hot of an index outside the classes is a zero row.
  neighbours = below + above
  neighbours /= jnp.maximum(neighbours.sum(axis=1, keepdims=True), 1.0)
  return (1.0 - eps) * target + eps * neighbours


def calendar_cross_entropy(
  logits: Sequence[Float[Array, "B _"]],
  labels: Int[Array, "B 3"],
  eps: float = 0.0,
  reduction: str = "mean",
  kind: str = "neighbours",
) -> Float[Array, ""]:
  """Returns the loss of the three calendar heads on dated texts.

  Args:
    logits: logits of reign, year and month; each head has its own classes.
    labels: (reign, year, month), each counted from 0. A time key counts from
      1: subtract one.
    eps: smoothing, see `smoothed_targets`; 0 = plain.
    reduction: over the heads, "mean" (the release) or "sum" (the paper).
    kind: of the smoothing.

  Source: paper, calendar objective, and the released code.
  """
  targets = [
    smoothed_targets(labels[:, head], values.shape[-1], eps, kind)
    for head, values in enumerate(logits)
  ]
  return interval_calendar_cross_entropy(logits, targets, reduction)


def interval_calendar_cross_entropy(
  logits: Sequence[Float[Array, "B _"]],
  targets: Sequence[Float[Array, "B _"]],
  reduction: str = "mean",
) -> Float[Array, ""]:
  """Returns the loss of the calendar heads against soft targets.

  For queries: the targets are the marginals of the uniform distribution over
  the months of the query's interval, made once by the input pipeline.
  """
  losses = []
  for values, target in zip(logits, targets, strict=True):
    log_p = jax.nn.log_softmax(values.astype(jnp.float32), axis=-1)
    losses.append(-(target * log_p).sum(axis=-1).mean())
  total = sum(losses)
  return total / len(losses) if reduction == "mean" else total


def interval_cross_entropy(
  log_p: Float[Array, "B K"], ends: Int[Array, "B 2"]
) -> Float[Array, ""]:
  """Returns the loss of posteriors of the month.

  The mean of -log p over the months of each interval: for a dated text, whose
  interval is one month, its negative log-likelihood.
  """
  ordinals = jnp.arange(log_p.shape[1])
  is_inside = (ends[:, :1] <= ordinals) & (ordinals <= ends[:, 1:])  # [B, K]
  # where, not a product: 0 * -inf of a month without mass would be NaN.
  return -(jnp.where(is_inside, log_p, 0).sum(1) / is_inside.sum(1)).mean()


def cosent_loss(
  similarities: Float[Array, "B N"], labels: Float[Array, "B N"]
) -> Float[Array, " B"]:
  """Returns the loss of pairs in the wrong order, of each row.

  Of similarities s and labels y it is log(1 + sum exp(20 (s_k - s_j))) over all
  pairs of columns with y_j > y_k: only the order of the labels counts. The
  original compares all pairs of texts in a batch; a ranking compares the
  records of one query.

  Source: Su, "CoSENT" (2022), the loss that TEMPS is trained with.
  """
  scores = _COSENT_SCALE * similarities.astype(jnp.float32)
  scores, below = sum_below(scores, labels)
  # log(1 + sum_j exp(-s_j) sum_k exp(s_k))
  return jax.nn.softplus(jax.nn.logsumexp(below - scores, axis=1))
