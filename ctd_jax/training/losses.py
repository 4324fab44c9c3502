"""Losses of the retriever: contrastive, calendrical, of posterior and order.

Plain fine-tuning, TempDate, CTD and the ablations are weighted sums of these
functions, which `objective` forms. They map arrays to fp32 scalars (that of the
order to one a query) and know no model.

Axes: B queries in a batch (row i of the records is query i's own positive),
N = B + hard negatives of the batch, C classes of a calendar head, K months of
the timeline.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from ctd_jax.training.config import HEAD_REDUCTIONS, NCE_REDUCTIONS

# Finite, so that a masked entry has a zero gradient rather than a NaN.
MASKED_LOGIT = -1e9
# Inverse temperature of the ranking loss, as its author and its users have it.
_COSENT_SCALE = 20.0


def interval_mask(
  query_start: Int[Array, " B"],
  query_end: Int[Array, " B"],
  record_start: Int[Array, " N"],
  record_end: Int[Array, " N"],
) -> Bool[Array, "B N"]:
  """Returns which records' intervals overlap which queries'.

  Intervals are closed; a pair of ends in the wrong order is swapped.

  Args:
    query_start: ordinal months, 0 = first of the timeline.
    query_end: likewise.
    record_start: likewise.
    record_end: likewise.

  Source: paper, multi-positive objective, and the released code.
  """
  q_first = jnp.minimum(query_start, query_end)[:, None]
  q_last = jnp.maximum(query_start, query_end)[:, None]
  p_first = jnp.minimum(record_start, record_end)[None, :]
  p_last = jnp.maximum(record_start, record_end)[None, :]
  return (q_first <= p_last) & (q_last >= p_first)


class NceSums(NamedTuple):
  """Sums over the logits of texts, of which the contrastive loss is made.

  Attributes:
    total: log of the summed exponentials of all logits.
    positive: the same of the positives ("sum_inside"), or the sum of their
      logits ("mean_outside").
  """

  total: jax.Array
  positive: jax.Array


def sum_logits(
  logits: Float[Array, "*texts N"],
  is_positive: Bool[Array, "*texts N"],
  reduction: str = "sum_inside",
) -> NceSums:
  """Returns the sums over the last axis of logits, fp32.

  Args:
    logits: scores already divided by the temperature.
    is_positive: True for those that the loss asks to be high.
    reduction: "sum_inside" = -log of the summed probability of the positives,
      as released: one easy positive satisfies it. "mean_outside" = mean of
      -log p over the positives: every positive has to be found.

  Raises:
    ValueError: if `reduction` is unknown.
  """
  if reduction not in NCE_REDUCTIONS:
    raise ValueError(
      f"NCE reduction must be one of {NCE_REDUCTIONS}, got {reduction!r}"
    )
  logits = logits.astype(jnp.float32)  # bf16 sums would lose small terms
  if reduction == "sum_inside":
    masked_logits = jnp.where(is_positive, logits, MASKED_LOGIT)
    positive = jax.nn.logsumexp(masked_logits, -1)
  else:
    positive = jnp.where(is_positive, logits, 0).sum(-1)
  return NceSums(jax.nn.logsumexp(logits, -1), positive)


def join_sums(
  sums: NceSums, axis: int | tuple[int, ...], reduction: str
) -> NceSums:
  """Returns the sums over all blocks of logits, from those over each.

  Args:
    sums: from `sum_logits`.
    axis: or axes, of the blocks.
    reduction: that of the sums.
  """
  join = jax.nn.logsumexp if reduction == "sum_inside" else jnp.sum
  return NceSums(jax.nn.logsumexp(sums.total, axis), join(sums.positive, axis))


def multi_positive_nce(
  sums: NceSums, num_positives: Int[Array, " B"], reduction: str = "sum_inside"
) -> Float[Array, ""]:
  """Returns the mean over texts of a contrastive loss with many positives.

  Args:
    sums: of the texts, [B].
    num_positives: of each; 0 = its own alone.
    reduction: that of the sums.
  """
  positive = sums.positive
  if reduction == "mean_outside":
    positive = positive / jnp.maximum(num_positives, 1)
  return jnp.mean(sums.total - positive)


def neighbour_targets(
  labels: Int[Array, " B"], classes: int, eps: float
) -> Float[Array, "B C"]:
  """Returns target probabilities that leak to the adjacent classes.

  Mass 1 - eps stays on the class, eps is shared by the neighbours that exist:
  half each inside, all to the only one at an end. Months do not wrap.

  Args:
    labels: classes counted from 0.
    classes: number of classes C.
    eps: mass that leaves the class, in [0, 1).

  Source: released code, calendar loss.
  """
  target = jax.nn.one_hot(labels, classes, dtype=jnp.float32)
  if classes == 1 or eps <= 0:
    return target
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
) -> Float[Array, ""]:
  """Returns the loss of the three calendar heads on dated texts.

  Args:
    logits: of reign, year and month; each head has its own classes.
    labels: (reign, year, month), each counted from 0. A time key counts from
      1: subtract one.
    eps: neighbour smoothing, see `neighbour_targets`; 0 = plain.
    reduction: over the heads, "mean" (the release) or "sum" (the paper).

  Source: paper, calendar objective, and the released code.
  """
  targets = [
    neighbour_targets(labels[:, head], values.shape[-1], eps)
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

  Args:
    logits: of reign, year and month; each head has its own classes.
    targets: probabilities of the same shapes; a row of zeros adds no loss, but
      counts in the mean over texts.
    reduction: over the heads, "mean" or "sum".

  Raises:
    ValueError: if `reduction` is unknown.
  """
  if reduction not in HEAD_REDUCTIONS:
    raise ValueError(
      f"head reduction must be one of {HEAD_REDUCTIONS}, got {reduction!r}"
    )
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

  Args:
    log_p: log p(month | text).
    ends: first and last ordinal month, 0 = first of the timeline.
  """
  ordinals = jnp.arange(log_p.shape[1])
  is_inside = (ends[:, :1] <= ordinals) & (ordinals <= ends[:, 1:])  # [B, K]
  # where, not a product: 0 * -inf of a month without mass would be NaN.
  return -(jnp.where(is_inside, log_p, 0).sum(1) / is_inside.sum(1)).mean()


def cosent_loss(
  similarities: Float[Array, "B N"], labels: Float[Array, "B N"]
) -> Float[Array, " B"]:
  """Returns the loss of pairs in the wrong order, of each row.

  It is log(1 + sum exp(20 (s_k - s_j))) over all pairs of columns with
  y_j > y_k: only the order of the labels counts. The original compares all
  pairs of texts in a batch; a ranking compares the records of one query. The
  sum over k is cumulative over sorted labels, so that the cost is N log N.

  Args:
    similarities: s, of queries (rows) and records.
    labels: y, of the same shape; equal ones are not compared.

  Source: Su, "CoSENT" (2022), the loss that TEMPS is trained with.
  """
  order = jnp.argsort(labels, axis=1)
  labels = jnp.take_along_axis(labels, order, axis=1)
  scores = _COSENT_SCALE * jnp.take_along_axis(
    similarities.astype(jnp.float32), order, axis=1
  )
  num_below = jax.vmap(jnp.searchsorted)(labels, labels)  # strictly, [B, N]
  sums = jax.lax.cumlogsumexp(scores, axis=1)
  sums = jnp.pad(sums, ((0, 0), (1, 0)), constant_values=MASKED_LOGIT)
  below = jnp.take_along_axis(sums, num_below, axis=1)
  # log(1 + sum_j exp(-s_j) sum_k exp(s_k))
  return jax.nn.softplus(jax.nn.logsumexp(below - scores, axis=1))
