"""Training objective: encoding of a batch, and the weighted sum of its losses.

Every system is a choice of weights and switches in `config.loss`; `losses` has
the losses of pairs, `date_losses` those of dates, `train_step` takes the
gradient.

Axes: B queries in the global batch, H hard negatives a query.
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
from jaxtyping import Array, Float, Int

from ctd_jax.models import calendar_heads
from ctd_jax.models.calendar_heads import Gaussians
from ctd_jax.models.dual_encoder import (
  ENCODER,
  QUERY_ENCODER,
  DualEncoder,
  choose_query_tower,
  truncate_encoding,
)
from ctd_jax.models.encoding import Encoding
from ctd_jax.models.packing import PackedTexts
from ctd_jax.training import date_losses, devices
from ctd_jax.training.losses import Loss, make_loss
from ctd_jax.training.packing import map_in_chunks
from ctd_jax.training.pairs import PairLoss

Batch = Mapping[str, Any]  # see `input_pipeline.training_batches`
Metrics = dict[str, jax.Array]


def take_columns(texts: Any, size: int, columns: slice) -> Any:
  """Returns some of each query's texts; none changes its device."""

  def take_from_array(x: jax.Array) -> jax.Array:
    grouped = x.reshape(size, len(x) // size, *x.shape[1:])[:, columns]
    return grouped.reshape(size * grouped.shape[1], *x.shape[1:])

  return jax.tree.map(take_from_array, texts)


@dataclasses.dataclass(frozen=True)
class Objective:
  """The loss that a training step minimises."""

  model: DualEncoder  # the dual encoder
  mesh: Mesh  # devices over which the batch is split
  # `config.loss`, weights and variants of the losses.
  loss: ml_collections.FrozenConfigDict
  pair_loss: Loss  # that `loss` names
  score_mode: str  # score of a query against a record, `config.score_mode`
  encode_chunks: int = 1  # chunks in which a batch is encoded
  # Whether the interval of a query is given to the score; otherwise the model's
  # own posterior dates it.
  uses_query_dates: bool = True
  # Whether the loss has no gradient by the text encoder.
  freezes_encoder: bool = False

  @classmethod
  def from_config(
    cls, config: ml_collections.ConfigDict, model: DualEncoder, mesh: Mesh
  ) -> Objective:
    """Returns the objective of a run's config.

    Raises:
      ValueError: if vectors have too few dimensions for `loss.matryoshka`; or
        see `losses.make_loss`.
    """
    width = model.config.encoder.hidden_size
    if not all(0 < size < width for size in config.loss.matryoshka):
      raise ValueError(
        f"config.loss.matryoshka={config.loss.matryoshka}: expected numbers "
        f"from 1 to {width - 1}, since the vectors have {width} dimensions"
      )
    return cls(
      model=model,
      mesh=mesh,
      loss=ml_collections.FrozenConfigDict(config.loss),
      pair_loss=make_loss(config.loss),
      score_mode=config.score_mode,
      encode_chunks=config.encode_chunks,
      uses_query_dates=config.query_dates == "parser",
      freezes_encoder=config.optimizer.freeze_encoder,
    )

  def compute_loss(
    self, params: Any, batch: Batch, dropout_key: jax.Array
  ) -> tuple[Float[Array, ""], Metrics]:
    """Returns the weighted loss of a global batch, and its terms by name.

    Source: paper, section 4, and the released code.
    """
    if self.freezes_encoder:
      # Its gradient would take time and count in the norm that is clipped.
      towers = {k: params[k] for k in (ENCODER, QUERY_ENCODER) if k in params}
      params = {**params, **jax.lax.stop_gradient(towers)}
    apply = functools.partial(self.model.apply, {"params": params})
    query, record = self.encode_batch(params, batch, dropout_key)
    pair_loss = PairLoss(
      apply, self.mesh, self.loss, self.score_mode, self.pair_loss
    )
    total, pair_metrics = pair_loss.compute(query, record, batch)
    # Source: Kusupati et al., "Matryoshka Representation Learning" (2022).
    for dimension in self.loss.matryoshka:
      cut = [truncate_encoding(each, dimension) for each in (query, record)]
      total += pair_loss.compute(*cut, batch)[0]
    total /= 1 + len(self.loss.matryoshka)
    metrics = {"retrieval": total}
    log_months = functools.partial(apply, method="log_months")
    weighted_losses = _date_losses(query, record, batch, log_months, self.loss)
    if self.loss.gaussian_weight:
      order_loss = self._compute_order_loss(query, record, batch)
      weighted_losses["time_order"] = self.loss.gaussian_weight, order_loss
    for name, (weight, loss) in weighted_losses.items():
      metrics[name] = loss
      total += weight * loss
    return total, {"loss": total, **metrics, **pair_metrics}

  def encode_batch(
    self, params: Any, batch: Batch, dropout_key: jax.Array
  ) -> tuple[Encoding, Encoding]:
    """Returns the encodings of the queries, [B], and of their records.

    All texts pass the encoder together; of separate towers, either.

    Returns:
      Of the queries, and of the records, [B*(1+H)]: a query's records stand
      together, its positive first.
    """

    query = record = self._encode_texts(params, batch, dropout_key)
    if self.model.config.separate_towers:
      # A pack has texts of both sides.
      params = choose_query_tower(params)
      query = self._encode_texts(params, batch, dropout_key)
    size = len(batch["query_ends"])
    query = take_columns(query, size, slice(0, 1))
    if self.uses_query_dates:
      query = query.replace(interval=batch["query_ends"])
    return query, take_columns(record, size, slice(1, None))

  def _encode_texts(
    self, params: Any, batch: Batch, dropout_key: jax.Array
  ) -> Encoding:
    """Returns the encodings of all texts, those of a query together."""

    def encode(texts: PackedTexts, number: jax.Array) -> Encoding:
      # Every chunk draws its own dropout, by the number of its first pack.
      rngs = {"dropout": jax.random.fold_in(dropout_key, number[0])}
      with devices.use_mesh(self.mesh):
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
    return encoded

  def _compute_order_loss(
    self, query: Encoding, record: Encoding, batch: Batch
  ) -> Float[Array, ""]:
    """Returns how far time similarities are from the order of the months."""
    # Labels are similarities of the Gaussians with the moments of intervals.
    # The order of a query's records is its own, so that queries are compared in
    # chunks.
    # Source: TEMPS, see `calendar_heads`.
    record_ends = self._replicate(_record_ends(batch, len(query.scalar)))
    records = self._replicate(record.gaussian)

    def compare(ends: jax.Array, gaussians: Gaussians) -> Float[Array, " _"]:
      labels = calendar_heads.time_similarity(
        calendar_heads.match_intervals(ends),
        calendar_heads.match_intervals(record_ends),
      )
      similarities = calendar_heads.time_similarity(gaussians, records)
      return date_losses.cosent_loss(similarities, labels)

    rows = batch["query_ends"], query.gaussian
    return map_in_chunks(compare, self.encode_chunks, *rows).mean()

  def _replicate(self, columns: Any) -> Any:
    """Returns the rows of all devices on each of them."""
    sharding = devices.replicated_sharding(self.mesh)
    return jax.lax.with_sharding_constraint(columns, sharding)

  def _restore_order(
    self, encoded: Encoding, text_order: Int[Array, " N"]
  ) -> Encoding:
    """Returns texts, put anywhere in packs, beside their queries, [B*(2+H)]."""
    # Vectors are few beside tokens: each device gets all, and takes its own.
    replicated = devices.replicated_sharding(self.mesh)
    sharding = devices.batch_sharding(self.mesh)

    def take(x: jax.Array) -> jax.Array:
      x = jax.lax.with_sharding_constraint(x, replicated)
      return jax.lax.with_sharding_constraint(x[text_order], sharding)

    return jax.tree.map(take, encoded)


def _date_losses(
  query: Encoding,
  record: Encoding,
  batch: Batch,
  log_months: Callable[[Encoding], jax.Array],
  weights: ml_collections.FrozenConfigDict,
) -> dict[str, tuple[float, Float[Array, ""]]]:
  """Returns the losses of dates, those of weight 0 left out."""
  weighted_losses = {}
  if weights.calendar_weight:
    # The heads of the positives alone, as in the release.
    positive = take_columns(record, len(query.scalar), slice(0, 1))
    weighted_losses["calendar"] = (
      weights.calendar_weight,
      date_losses.calendar_cross_entropy(
        positive.logits,
        batch["positive_classes"],
        weights.calendar_smoothing,
        weights.calendar_reduction,
        weights.calendar_targets,
      ),
    )
  if weights.query_calendar_weight:
    weighted_losses["query_calendar"] = (
      weights.query_calendar_weight,
      date_losses.interval_calendar_cross_entropy(
        query.logits,
        (batch["query_reign"], batch["query_year"], batch["query_month"]),
        weights.calendar_reduction,
      ),
    )
  if weights.posterior_weight:
    weighted_losses["posterior"] = (
      weights.posterior_weight,
      date_losses.interval_cross_entropy(
        log_months(record), _record_ends(batch, len(query.scalar))
      ),
    )
    weighted_losses["query_posterior"] = (
      weights.posterior_weight,
      date_losses.interval_cross_entropy(
        log_months(query), batch["query_ends"]
      ),
    )
  return weighted_losses


def _record_ends(batch: Batch, size: int) -> jax.Array:
  """Returns first and last month of all records, int [B*(1+H), 2]."""
  # They are one month each, in the order of `Objective.encode_batch`.
  negative_months = batch["negative_month"].reshape(size, -1)  # [B, H]
  months = jnp.column_stack([batch["positive_month"], negative_months]).reshape(
    -1, 1
  )
  return jnp.concatenate([months, months], axis=1)
