"""Losses of the retriever: contrastive and calendrical.

Why: every configuration (plain fine-tuning, TempDate, CTD and its ablations)
is a weighted sum of the functions here, put together by `train_step`. They
take arrays and give fp32 scalars; none knows a model.

Axes: B queries in batch (row i of the records is query i's own positive),
N = B + hard negatives, C classes of a calendar head, K months of a timeline.
"""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp

NCE_REDUCTIONS = ("sum_inside", "mean_outside")
HEAD_REDUCTIONS = ("mean", "sum")
# Finite, so that a masked entry has a zero gradient rather than a NaN.
MASKED_LOGIT = -1e9


def interval_mask(
  query_start: jax.Array,
  query_end: jax.Array,
  record_start: jax.Array,
  record_end: jax.Array,
) -> jax.Array:
  """Returns which records' intervals overlap which queries', bool [B, N].

  Intervals are closed; a pair of ends in the wrong order is swapped.

  Args:
    query_start: ordinal months (0 = first of the timeline), int [B].
    query_end: likewise, int [B].
    record_start: likewise, int [N].
    record_end: likewise, int [N].

  Source: paper, multi-positive objective, and the released code.
  """
  q_first = jnp.minimum(query_start, query_end)[:, None]
  q_last = jnp.maximum(query_start, query_end)[:, None]
  p_first = jnp.minimum(record_start, record_end)[None, :]
  p_last = jnp.maximum(record_start, record_end)[None, :]
  return (q_first <= p_last) & (q_last >= p_first)


def multi_positive_nce(
  logits_BxN: jax.Array,
  mask_BxB: jax.Array,
  reduction: str = "sum_inside",
) -> jax.Array:
  """Returns the mean over rows of a contrastive loss with many positives.

  Args:
    logits_BxN: scores already divided by the temperature; column i < B is
      row i's own record, columns from B on are hard negatives.
    mask_BxB: True where a column is positive for a row. A row without any
      positive gets its diagonal; columns from B on are never positive.
    reduction: "sum_inside" = -log of the summed probability of the positives,
      as released: one easy positive satisfies it. "mean_outside" = mean of
      -log p over the positives: every positive has to be found.

  Returns:
    Scalar, fp32.

  Raises:
    ValueError: if `reduction` is unknown or there are fewer columns than
      rows.
  """
  if reduction not in NCE_REDUCTIONS:
    raise ValueError(
      f"NCE reduction must be one of {NCE_REDUCTIONS}, got {reduction!r}"
    )
  rows, columns = logits_BxN.shape
  if columns < rows:
    raise ValueError(
      f"logits need a column per row first, got shape {logits_BxN.shape}"
    )
  logits = logits_BxN.astype(jnp.float32)
  mask = mask_BxB.astype(bool)
  fallback_diagonal = ~mask.any(axis=1, keepdims=True) & jnp.eye(
    rows, dtype=bool
  )
  mask = jnp.pad(mask | fallback_diagonal, ((0, 0), (0, columns - rows)))
  total = jax.nn.logsumexp(logits, axis=1)
  if reduction == "sum_inside":
    positive = jax.nn.logsumexp(jnp.where(mask, logits, MASKED_LOGIT), axis=1)
  else:
    positive = jnp.where(mask, logits, 0.0).sum(axis=1) / mask.sum(axis=1)
  return jnp.mean(total - positive)


def symmetric_nce(
  logits_qd: jax.Array,
  logits_dq: jax.Array,
  mask: jax.Array | None = None,
  reduction: str = "sum_inside",
) -> jax.Array:
  """Returns half the sum of the query-to-record and record-to-query losses.

  Args:
    logits_qd: scores of queries (rows) against the batch's records and then
      the hard negatives, [B, B + H].
    logits_dq: scores of records (rows) against queries, [B, B]; with a
      symmetric scorer the transpose of the first block of `logits_qd`.
    mask: which record is positive for which query, [B, B]; None = only the
      own one (plain InfoNCE).
    reduction: see `multi_positive_nce`.

  Returns:
    Scalar, fp32.

  Source: paper, retrieval objective, and the released code.
  """
  if mask is None:
    mask = jnp.eye(logits_qd.shape[0], dtype=bool)
  forward = multi_positive_nce(logits_qd, mask, reduction)
  backward = multi_positive_nce(logits_dq, mask.T, reduction)
  return 0.5 * (forward + backward)


def neighbour_targets(labels: jax.Array, classes: int, eps: float) -> jax.Array:
  """Returns target probabilities that leak to the adjacent classes, [B, C].

  Mass 1 - eps stays on the class, eps is shared by the neighbours that exist:
  half each inside, all to the only one at an end. Months do not wrap.

  Args:
    labels: classes counted from 0, int [B].
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
  logits: Sequence[jax.Array],
  labels: jax.Array,
  eps: float = 0.0,
  reduction: str = "mean",
) -> jax.Array:
  """Returns the loss of the three calendar heads on dated texts, fp32 scalar.

  Args:
    logits: of reign [B, G], year [B, Y] and month [B, M].
    labels: (reign, year, month), each counted from 0, int [B, 3]. A time key
      counts from 1: subtract one.
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
  logits: Sequence[jax.Array],
  targets: Sequence[jax.Array],
  reduction: str = "mean",
) -> jax.Array:
  """Returns the loss of the calendar heads against soft targets, fp32 scalar.

  For queries: the targets are the marginals of the uniform distribution over
  the months of the query's interval, made once by the input pipeline.

  Args:
    logits: of reign [B, G], year [B, Y] and month [B, M].
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


def interval_cross_entropy(log_p: jax.Array, ends: jax.Array) -> jax.Array:
  """Returns the loss of posteriors of the month, fp32 scalar.

  The mean of -log p over the months of each interval: for a dated text, whose
  interval is one month, its negative log-likelihood.

  Args:
    log_p: log p(month | text), [B, K].
    ends: first and last ordinal month, int [B, 2].
  """
  ordinals = jnp.arange(log_p.shape[1])
  is_inside = (ends[:, :1] <= ordinals) & (ordinals <= ends[:, 1:])
  return -(jnp.where(is_inside, log_p, 0).sum(1) / is_inside.sum(1)).mean()
