"""Training objective: batch encoding, logits and the weighted sum of losses.

Every system is a choice of weights and switches in `config.loss`; `losses` has
the functions of arrays, `train_step` takes the gradient.

Axes: B queries in the global batch, H hard negatives a query, N = B + B*H
columns of the query-to-record direction.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import ml_collections
from jax.sharding import Mesh
from jaxtyping import Array, Bool, Float, Int

from ctd_jax.models import time_gaussian
from ctd_jax.models.dual_encoder import ENCODER, DualEncoder
from ctd_jax.models.encoding import Encoding
from ctd_jax.models.packing import PackedTexts
from ctd_jax.models.time_gaussian import Gaussians
from ctd_jax.training import losses, partitioning

# Pairs whose bias a device computes at once: their hidden units stay in the
# cache of a processor, and take little memory beside a chunk of texts.
_PAIRS_PER_BLOCK = 32_768
Batch = Mapping[str, Any]  # see `input_pipeline.training_batches`
Metrics = dict[str, jax.Array]
Logits = tuple[Float[Array, "B N"], Float[Array, "B B"]]


def map_in_chunks(
  function: Callable[..., Any], chunks: int, *trees: Any
) -> Any:
  """Returns `function(*trees)`, computed for one chunk of rows at a time.

  The backward pass computes a chunk again instead of keeping its activations,
  so that memory is that of one chunk, besides rows in and out: with an
  encoder, the cached gradients of large contrastive batches.

  Args:
    function: maps rows to rows, and none depends on another.
    chunks: number of chunks, which divides the rows; 1 = none are made.
    *trees: of arrays whose first axis counts the rows.

  Source: Gao et al., "Scaling Deep Contrastive Learning Batch Size under
    Memory Limited Setup" (2021), section 3; here by rematerialisation.
  """
  if chunks == 1:
    return function(*trees)

  # Strided: a chunk has rows of every device, so that no row moves where the
  # batch is sharded.
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


def count_pair_blocks(rows: int, columns: int, shards: int) -> int:
  """Returns in how many blocks of rows the bias of all pairs is computed.

  Args:
    rows: of the batch.
    columns: of the batch.
    shards: of the rows, over devices; divides them. A block has rows of each.
  """
  rows_per_shard = rows // shards
  limit = max(1, _PAIRS_PER_BLOCK // max(1, columns))
  # A block has `size` rows of a shard, and all blocks are alike.
  size = max(
    size
    for size in range(1, min(limit, rows_per_shard) + 1)
    if rows_per_shard % size == 0
  )
  return rows_per_shard // size


def take_columns(texts: Any, size: int, columns: slice) -> Any:
  """Returns some of each query's texts; none changes its device.

  Args:
    texts: tree of arrays [B*T, ...], T texts a query.
    size: B.
    columns: which of the T.
  """

  def take_from_array(x: jax.Array) -> jax.Array:
    grouped = x.reshape(size, len(x) // size, *x.shape[1:])[:, columns]
    return grouped.reshape(size * grouped.shape[1], *x.shape[1:])

  return jax.tree.map(take_from_array, texts)


def is_of_one_process(
  rows: int, columns: int, processes: int
) -> Bool[Array, "{rows} {columns}"]:
  """Returns whether a row and a column of a batch belong to one process.

  Args:
    rows: of the batch, which the processes share equally and in order.
    columns: likewise, e.g. those of the hard negatives.
    processes: divides both.
  """
  row_owners, column_owners = (
    jnp.arange(size) // (size // processes) for size in (rows, columns)
  )
  return row_owners[:, None] == column_owners[None, :]


@dataclasses.dataclass(frozen=True)
class Objective:
  """The loss that a training step minimises.

  Attributes:
    model: the dual encoder.
    mesh: devices over which the batch is split.
    loss: `config.loss`, weights and variants of the losses.
    score_mode: score of a query against a record, `config.score_mode`.
    encode_chunks: chunks in which a batch is encoded; the bias of its pairs is
      always computed in blocks.
    uses_query_dates: whether the interval of a query is given to the score;
      otherwise the model's own posterior dates it.
    freezes_encoder: whether the loss has no gradient by the text encoder.
  """

  model: DualEncoder
  mesh: Mesh
  loss: ml_collections.FrozenConfigDict
  score_mode: str
  encode_chunks: int = 1
  uses_query_dates: bool = True
  freezes_encoder: bool = False

  @classmethod
  def from_config(
    cls, config: ml_collections.ConfigDict, model: DualEncoder, mesh: Mesh
  ) -> Objective:
    """Returns the objective of a run's config."""
    return cls(
      model=model,
      mesh=mesh,
      loss=ml_collections.FrozenConfigDict(config.loss),
      score_mode=config.score_mode,
      encode_chunks=config.encode_chunks,
      uses_query_dates=config.query_dates == "parser",
      freezes_encoder=config.optimizer.freeze_encoder,
    )

  def compute_loss(
    self, params: Any, batch: Batch, dropout_key: jax.Array
  ) -> tuple[Float[Array, ""], Metrics]:
    """Returns the weighted loss of a global batch, and its terms by name.

    Args:
      params: of the model.
      batch: see `input_pipeline.training_batches`.
      dropout_key: fresh for each step.

    Source: paper, section 4, and the released code.
    """
    if self.freezes_encoder:
      # Its gradient would take time and count in the norm that is clipped.
      params = {**params, ENCODER: jax.lax.stop_gradient(params[ENCODER])}
    apply = functools.partial(self.model.apply, {"params": params})
    query, record = self.encode_batch(params, batch, dropout_key)
    size = len(query.scalar)
    logits = self.compute_logits(
      apply,
      query,
      take_columns(record, size, slice(0, 1)),
      take_columns(record, size, slice(1, None)),
    )
    total, accuracy = compute_retrieval_loss(*logits, batch, self.loss)
    metrics = {"retrieval": total}
    log_months = functools.partial(apply, method="log_months")
    date_losses = _date_losses(query, record, batch, log_months, self.loss)
    if self.loss.gaussian_weight:
      order_loss = self._compute_order_loss(query, record, batch)
      date_losses["time_order"] = self.loss.gaussian_weight, order_loss
    for name, (weight, loss) in date_losses.items():
      metrics[name] = loss
      total += weight * loss
    return total, {"loss": total, **metrics, "batch_hit@1": accuracy}

  def encode_batch(
    self, params: Any, batch: Batch, dropout_key: jax.Array
  ) -> tuple[Encoding, Encoding]:
    """Returns the encodings of the queries, [B], and of their records.

    All texts pass the encoder together.

    Args:
      params: of the model.
      batch: see `input_pipeline.training_batches`.
      dropout_key: fresh for each step.

    Returns:
      Of the queries, and of the records, [B*(1+H)]: a query's records stand
      together, its positive first.
    """

    def encode(texts: PackedTexts, number: jax.Array) -> Encoding:
      # Every chunk draws its own dropout, by the number of its first pack.
      rngs = {"dropout": jax.random.fold_in(dropout_key, number[0])}
      with partitioning.use_mesh(self.mesh):
        return self.model.apply(
          {"params": params}, texts, False, rngs=rngs, method="encode_packed"
        )

    texts = batch["texts"]
    pack_numbers = jnp.arange(len(texts.ids))
    encoded = map_in_chunks(encode, self.encode_chunks, texts, pack_numbers)
    # [packs, places of a pack, ...] -> [places, ...]
    encoded = jax.tree.map(lambda x: jax.lax.collapse(x, 0, 2), encoded)
    if len(texts.ids) > 1:  # one pack has them in order
      encoded = self._restore_order(encoded, batch["text_order"])
    size = len(batch["query_ends"])
    query = take_columns(encoded, size, slice(0, 1))
    if self.uses_query_dates:
      query = query.replace(interval=batch["query_ends"])
    return query, take_columns(encoded, size, slice(1, None))

  def _compute_order_loss(
    self, query: Encoding, record: Encoding, batch: Batch
  ) -> Float[Array, ""]:
    """Returns how far similarities in time are from the order of the months.

    Labels are similarities of the Gaussians with the moments of intervals. The
    order of a query's records is its own, so that queries are compared in
    chunks.

    Source: TEMPS, see `time_gaussian`.
    """
    record_ends = self._replicate(_record_ends(batch, len(query.scalar)))
    records = self._replicate(record.gaussian)

    def compare(ends: jax.Array, gaussians: Gaussians) -> Float[Array, " _"]:
      labels = time_gaussian.time_similarity(
        time_gaussian.match_intervals(ends),
        time_gaussian.match_intervals(record_ends),
      )
      similarities = time_gaussian.time_similarity(gaussians, records)
      return losses.cosent_loss(similarities, labels)

    rows = batch["query_ends"], query.gaussian
    return map_in_chunks(compare, self.encode_chunks, *rows).mean()

  def _replicate(self, columns: Any) -> Any:
    """Returns the rows of all devices on each of them."""
    sharding = partitioning.replicated_sharding(self.mesh)
    return jax.lax.with_sharding_constraint(columns, sharding)

  def _restore_order(
    self, encoded: Encoding, text_order: Int[Array, " N"]
  ) -> Encoding:
    """Returns texts beside their queries, [B*(2+H)], from where they were put.

    Args:
      encoded: of the places of all packs.
      text_order: place of each text.
    """
    # Vectors are few beside tokens: each device gets all, and takes its own.
    replicated = partitioning.replicated_sharding(self.mesh)
    sharding = partitioning.batch_sharding(self.mesh)

    def take(x: jax.Array) -> jax.Array:
      x = jax.lax.with_sharding_constraint(x, replicated)
      return jax.lax.with_sharding_constraint(x[text_order], sharding)

    return jax.tree.map(take, encoded)

  def compute_logits(
    self,
    apply: Callable[..., jax.Array],
    query: Encoding,
    positive: Encoding,
    negative: Encoding,
  ) -> Logits:
    """Returns the scores of the two directions of the contrastive loss.

    Rows stay on the devices that encoded them; the columns, which are the
    vectors of all devices, are gathered on each, with their gradient.

    Scores are those of the mode, unless a field of the loss asks for the
    released code's; of "temps" they are the cosines, since its similarity in
    time has a loss of its own. `bias_columns="positives"` leaves the hard
    negatives without the temporal term. `emulated_processes=W` gives loss and
    gradient of the release in W processes, on any number of devices: row i of
    the batch belongs to process i // (B / W), and

    - a process gathers the vectors of all, its own included, without their
      gradient, so that cosines pass it to the rows of either direction alone,
      and none to hard negatives;
    - only pairs of one process have a temporal term, with its whole gradient;
    - every row counts the same, since the processes have equally many and the
      release averages their gradients.

    Args:
      apply: `(query, record, mode, method=...)` of the dual encoder.
      query: of the global batch, B.
      positive: a record of each query, B.
      negative: its hard negatives, B*H.

    Returns:
      Queries against positives, then negatives; positives against queries.

    Source: released code, in-batch loss and its form over processes.
    """

    processes = self.loss.emulated_processes

    def cosine(rows: Encoding, columns: Encoding) -> jax.Array:
      columns = self._replicate(columns)
      if processes > 1:
        columns = jax.lax.stop_gradient(columns)
      return apply(rows, columns, self.score_mode, method="cosine")

    def temporal(record: Encoding) -> jax.Array:
      columns = self._replicate(record)
      chunks = self.encode_chunks
      if self.score_mode == "ctd":  # others have terms that cost the columns
        shards = partitioning.count_batch_shards(self.mesh)
        sizes = len(query.scalar), len(columns.scalar)
        chunks = count_pair_blocks(*sizes, shards)
      terms = map_in_chunks(
        lambda rows: apply(rows, columns, self.score_mode, method="temporal"),
        chunks,
        query,
      )
      if processes == 1:
        return terms
      return jnp.where(is_of_one_process(*terms.shape, processes), terms, 0)

    bias = temporal(positive)
    hard_logits = cosine(query, negative)
    if self.loss.bias_columns == "all":
      hard_logits += temporal(negative)
    forward = cosine(query, positive) + bias
    backward = cosine(positive, query) + bias.T  # a cosine is symmetric
    return jnp.concatenate([forward, hard_logits], axis=1), backward


def compute_retrieval_loss(
  logits_qd: Float[Array, "B N"],
  logits_dq: Float[Array, "B B"],
  batch: Batch,
  weights: ml_collections.FrozenConfigDict,
) -> tuple[Float[Array, ""], Float[Array, ""]]:
  """Returns the contrastive loss and the share of right first records.

  A hard negative that answers another query of the batch is left out of that
  query's denominator.

  Args:
    logits_qd: from `Objective.compute_logits`.
    logits_dq: likewise.
    batch: see `input_pipeline.training_batches`.
    weights: `config.loss`.
  """
  size = len(logits_dq)
  starts, ends = batch["query_ends"][:, 0], batch["query_ends"][:, 1]
  month, hard_month = batch["positive_month"], batch["negative_month"]
  overlap = losses.interval_mask(starts, ends, month, month)
  # Commentary lies in the interval too, but answers no query.
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
) -> dict[str, tuple[float, Float[Array, ""]]]:
  """Returns the losses of dates, those of weight 0 left out.

  Returns:
    Name -> (weight, loss).
  """
  weighted_losses = {}
  if weights.calendar_weight:
    # The heads of the positives alone, as in the release.
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
    weighted_losses["posterior"] = (
      weights.posterior_weight,
      losses.interval_cross_entropy(
        log_months(record), _record_ends(batch, len(query.scalar))
      ),
    )
    weighted_losses["query_posterior"] = (
      weights.posterior_weight,
      losses.interval_cross_entropy(log_months(query), batch["query_ends"]),
    )
  return weighted_losses


def _record_ends(batch: Batch, size: int) -> jax.Array:
  """Returns first and last month of all records, int [B*(1+H), 2].

  They are one month each, in the order of `Objective.encode_batch`.
  """
  negative_months = batch["negative_month"].reshape(size, -1)  # [B, H]
  months = jnp.column_stack([batch["positive_month"], negative_months]).reshape(
    -1, 1
  )
  return jnp.concatenate([months, months], axis=1)
