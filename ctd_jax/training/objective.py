"""What a training step minimises: encodings of a batch, scores, losses.

Why: every system is a sum of the parts here, weighted by its config. Called by
`train_step`, which takes the gradient; `losses` has the functions of arrays.

Axes: B queries in the global batch, H hard negatives a query.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import ml_collections
from jax.sharding import Mesh

from ctd_jax.models.dual_encoder import DualEncoder, Encoding
from ctd_jax.models.packing import PackedTexts
from ctd_jax.training import losses, partitioning

Batch = Mapping[str, Any]  # arrays, and the texts
BIAS_COLUMNS = ("all", "positives")


def map_in_chunks(
  function: Callable[..., Any], chunks: int, *trees: Any
) -> Any:
  """Returns `function(*trees)`, computed a part of the rows at a time.

  The backward pass computes a part again instead of keeping what is inside
  it, so that memory is that of one part, besides rows in and out: with an
  encoder, the cached gradients of large contrastive batches.

  Args:
    function: maps rows to rows, and none depends on another.
    chunks: number of parts, which divides the rows; 1 = none are made.
    *trees: of arrays whose first axis counts the rows.

  Source: Gao et al., "Scaling Deep Contrastive Learning Batch Size under
    Memory Limited Setup" (2021), section 3; here by rematerialisation.
  """
  if chunks == 1:
    return function(*trees)

  # A part has rows of every device: no row moves where the batch is sharded.
  def split_rows(x: jax.Array) -> jax.Array:
    rows = len(x) // chunks
    return x.reshape(rows, chunks, *x.shape[1:]).swapaxes(0, 1)

  def join_rows(x: jax.Array) -> jax.Array:
    rows = x.shape[0] * x.shape[1]
    return x.swapaxes(0, 1).reshape(rows, *x.shape[2:])

  chunk_function = jax.checkpoint(lambda rows: function(*rows))
  return jax.tree.map(
    join_rows, jax.lax.map(chunk_function, jax.tree.map(split_rows, trees))
  )


def training_logits(
  apply: Callable[..., jax.Array],
  query: Encoding,
  positive: Encoding,
  negative: Encoding,
  config: ml_collections.FrozenConfigDict,
  mesh: Mesh,
) -> tuple[jax.Array, jax.Array]:
  """Returns the scores of the two directions of the contrastive loss.

  Rows stay on the devices that encoded them; the columns, which are the
  vectors of all devices, are gathered on each, with their gradient.

  They are those of `config.score_mode`, unless a field of the loss asks for
  the released code's: `bias_columns="positives"` leaves the hard negatives
  without the temporal term, and `detach_gathered` keeps the gradient of a
  cosine from the side that is gathered, the columns of either direction.
  There the values do not change, and the temporal term keeps its gradient.

  Args:
    apply: `(query, record, mode, method=...)` of the dual encoder.
    query: of the global batch, B.
    positive: a record of each query, B.
    negative: its hard negatives, B*H.
    config: the whole config.
    mesh: over which the batch is split.

  Returns:
    Queries against positives, then negatives, fp32 [B, B + B*H], and
    positives against queries, [B, B].

  Source: released code, in-batch loss and its form over processes.
  """
  mode, weights = config.score_mode, config.loss

  def replicate(encoding: Encoding) -> Encoding:
    sharding = partitioning.replicated_sharding(mesh)
    return jax.lax.with_sharding_constraint(encoding, sharding)

  def cosine(rows: Encoding, columns: Encoding) -> jax.Array:
    columns = replicate(columns)
    if weights.detach_gathered:
      columns = jax.lax.stop_gradient(columns)
    return apply(rows, columns, mode, method="cosine")

  def temporal(record: Encoding) -> jax.Array:
    columns = replicate(record)
    return map_in_chunks(
      lambda rows: apply(rows, columns, mode, method="temporal"),
      config.encode_chunks,
      query,
    )

  bias = temporal(positive)
  hard_logits = cosine(query, negative)
  if weights.bias_columns == "all":
    hard_logits += temporal(negative)
  forward = cosine(query, positive) + bias
  backward = cosine(positive, query) + bias.T  # a cosine is symmetric
  return jnp.concatenate([forward, hard_logits], axis=1), backward


def take_columns(texts: Any, size: int, columns: slice) -> Any:
  """Returns some of each query's texts; none changes its device.

  Args:
    texts: tree of arrays [B*N, ...], N texts a query.
    size: B.
    columns: which of the N.
  """

  def take_from_array(x: jax.Array) -> jax.Array:
    grouped = x.reshape(size, len(x) // size, *x.shape[1:])[:, columns]
    return grouped.reshape(size * grouped.shape[1], *x.shape[1:])

  return jax.tree.map(take_from_array, texts)


def encode_batch(
  params: Any,
  batch: Batch,
  dropout_key: jax.Array,
  model: DualEncoder,
  config: ml_collections.FrozenConfigDict,
) -> tuple[Encoding, Encoding]:
  """Returns the encodings of the queries, [B], and of their records.

  All pass the encoder together.

  Args:
    params: of `model`.
    batch: see `input_pipeline.training_batches`.
    dropout_key: fresh for each step.
    model: the dual encoder.
    config: the whole config; `encode_chunks` and `query_dates` are read.

  Returns:
    Of the queries, and of the records, [B*(1+H)]: a query's records stand
    together, its positive first.
  """

  def encode(texts: PackedTexts, number: jax.Array) -> Encoding:
    # A part draws its own dropout: by the first of its packs.
    rngs = {"dropout": jax.random.fold_in(dropout_key, number[0])}
    return model.apply(
      {"params": params}, texts, False, rngs=rngs, method="encode_packed"
    )

  texts = batch["texts"]
  pack_numbers = jnp.arange(len(texts.ids))
  encoded = map_in_chunks(encode, config.encode_chunks, texts, pack_numbers)
  encoded = jax.tree.map(lambda x: jax.lax.collapse(x, 0, 2), encoded)
  size = len(batch["query_ends"])
  query = take_columns(encoded, size, slice(0, 1))
  if config.query_dates == "parser":
    query = query.replace(interval=batch["query_ends"])
  return query, take_columns(encoded, size, slice(1, None))


def _retrieval_loss(
  logits_qd: jax.Array,
  logits_dq: jax.Array,
  batch: Batch,
  weights: ml_collections.FrozenConfigDict,
) -> tuple[jax.Array, jax.Array]:
  """Returns the contrastive loss and the share of right first records.

  A hard negative that answers another query of the batch is left out of that
  query's denominator.
  """
  size = len(logits_dq)
  starts, ends = batch["query_ends"][:, 0], batch["query_ends"][:, 1]
  month, hard_month = batch["positive_month"], batch["negative_month"]
  overlap = losses.interval_mask(starts, ends, month, month)
  answers = batch["negative_answers"] & losses.interval_mask(
    starts, ends, hard_month, hard_month
  )
  is_answer = jnp.pad(answers, ((0, 0), (size, 0)))
  logits_qd = jnp.where(is_answer, losses.MASKED_LOGIT, logits_qd)
  loss = losses.symmetric_nce(
    logits_qd,
    logits_dq,
    overlap if weights.multi_positive else None,
    weights.reduction,
  )
  top_columns = jnp.argmax(logits_qd, axis=1)
  is_correct = jnp.take_along_axis(
    jnp.pad(overlap, ((0, 0), (0, logits_qd.shape[1] - size))),
    top_columns[:, None],
    axis=1,
  )
  return loss, jnp.mean(is_correct)


def _date_losses(
  query: Encoding,
  record: Encoding,
  batch: Batch,
  log_months: Callable[[Encoding], jax.Array],
  weights: ml_collections.FrozenConfigDict,
) -> dict[str, tuple[jax.Array, jax.Array]]:
  """Returns the losses of what is said of dates: name -> (weight, loss)."""
  weighted_losses = {}
  if weights.calendar_weight:
    positive = take_columns(record, len(query.scalar), slice(0, 1))
    weighted_losses["calendar"] = (
      weights.calendar_weight,
      losses.calendar_cross_entropy(
        positive.logits,
        batch["positive_classes"],
        weights.calendar_smoothing,
        weights.calendar_reduction,
      ),
    )
  if weights.query_calendar_weight:
    weighted_losses["query_calendar"] = (
      weights.query_calendar_weight,
      losses.interval_calendar_cross_entropy(
        query.logits,
        (batch["query_reign"], batch["query_year"], batch["query_month"]),
        weights.calendar_reduction,
      ),
    )
  if weights.posterior_weight:
    size = len(query.scalar)
    negative_months = batch["negative_month"].reshape(size, -1)
    months = jnp.column_stack(
      [batch["positive_month"], negative_months]
    ).reshape(-1, 1)
    weighted_losses["posterior"] = (
      weights.posterior_weight,
      losses.interval_cross_entropy(
        log_months(record), jnp.concatenate([months, months], axis=1)
      ),
    )
    weighted_losses["query_posterior"] = (
      weights.posterior_weight,
      losses.interval_cross_entropy(log_months(query), batch["query_ends"]),
    )
  return weighted_losses


def loss_and_metrics(
  params: Any,
  batch: Batch,
  dropout_key: jax.Array,
  model: DualEncoder,
  config: ml_collections.FrozenConfigDict,
  mesh: Mesh,
) -> tuple[jax.Array, dict[str, jax.Array]]:
  """Returns the weighted loss of a global batch and its parts.

  The logits are those of `training_logits`; hard negatives are columns of the
  query-to-record direction.

  Args:
    params: of `model`.
    batch: see `input_pipeline.training_batches`.
    dropout_key: fresh for each step.
    model: the dual encoder.
    config: the whole config; `loss` and `score_mode` are read.
    mesh: over which the batch is split.

  Source: paper, section 4, and the released code.
  """
  apply = functools.partial(model.apply, {"params": params})
  query, record = encode_batch(params, batch, dropout_key, model, config)
  size = len(query.scalar)
  logits = training_logits(
    apply,
    query,
    take_columns(record, size, slice(0, 1)),
    take_columns(record, size, slice(1, None)),
    config,
    mesh,
  )
  total, accuracy = _retrieval_loss(*logits, batch, config.loss)
  metrics = {"retrieval": total}
  log_months = functools.partial(apply, method="log_months")
  date_losses = _date_losses(query, record, batch, log_months, config.loss)
  for name, (weight, loss) in date_losses.items():
    metrics[name] = loss
    total += weight * loss
  return total, {"loss": total, **metrics, "batch_hit@1": accuracy}
