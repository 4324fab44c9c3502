"""The train state, the loss a config asks for, and the two jitted functions.

`make_train_step` updates parameters from a global batch; `make_encode_step`
turns a padded batch of texts into vectors and date beliefs. Every system (FT
baseline, TempDate, CTD and its ablations) is this one step under another
config. Called by `train`, `evaluate` and the tests.

Axes: B queries in the global batch, H hard negatives a query, L tokens.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import flax.struct
import jax
import jax.numpy as jnp
import ml_collections
import numpy as np
import optax

from ctd_jax import losses
from ctd_jax.chronology.timekey import TimeKey, Timeline
from ctd_jax.models.dual_encoder import (
  SCORE_MODES,
  CTDConfig,
  DualEncoder,
  Encoding,
)
from ctd_jax.models.hf_config import EncoderConfig

Batch = Mapping[str, jax.Array]
BIAS_COLUMNS = ("all", "positives")


class TrainState(flax.struct.PyTreeNode):
  """What an update reads and writes.

  Attributes:
    step: number of updates made, int32 scalar.
    params: parameters, fp32.
    opt_state: state of the optimizer.
  """

  step: jax.Array
  params: Any
  opt_state: Any


def make_model(
  config: ml_collections.ConfigDict, encoder: EncoderConfig, timeline: Timeline
) -> DualEncoder:
  """Returns the dual encoder that `config.model` describes.

  Args:
    config: the whole config; `model`, `score_mode` and
      `loss.posterior_weight` are read.
    encoder: geometry of the text encoder.
    timeline: gives the class counts and where each reign starts.

  Raises:
    ValueError: if `score_mode` is unknown, or it or the loss asks for a
      module that `config.model` leaves out; the message names the field.
  """
  if config.score_mode not in SCORE_MODES:
    raise ValueError(
      f"config.score_mode={config.score_mode!r}: expected one of {SCORE_MODES}"
    )
  model = config.model
  if config.score_mode == "semantic" and (model.use_context or model.use_bias):
    raise ValueError(
      "config.score_mode='semantic' scores without the temporal modules that "
      "config.model.use_context or use_bias turn on; what is trained is what "
      "is scored"
    )
  if config.score_mode not in ("ctd", "posterior") and model.use_bias:
    raise ValueError(
      "config.model.use_bias needs config.score_mode='ctd' or 'posterior'"
    )
  if (config.score_mode == "posterior") != model.use_posterior:
    raise ValueError(
      "config.model.use_posterior and config.score_mode='posterior' need each "
      "other"
    )
  if config.loss.bias_columns not in BIAS_COLUMNS:
    raise ValueError(
      f"config.loss.bias_columns={config.loss.bias_columns!r}: expected one of "
      f"{BIAS_COLUMNS}"
    )
  if config.loss.bias_columns == "positives" and model.use_posterior:
    raise ValueError(
      "config.loss.bias_columns='positives': the posterior of the month has "
      "to rank hard negatives too; set it to 'all'"
    )
  if config.loss.posterior_weight and not model.use_posterior:
    raise ValueError(
      "config.loss.posterior_weight needs config.model.use_posterior"
    )
  starts = tuple(
    timeline.ordinal(TimeKey(reign, 1, 1))
    for reign in range(1, len(timeline.reigns) + 1)
  )
  temporal = {k: v for k, v in model.to_dict().items() if k != "encoder"}
  return DualEncoder(
    CTDConfig(
      encoder=encoder,
      class_counts=timeline.class_counts,
      reign_starts=starts,
      month_classes=month_classes(timeline),
      **temporal,
    )
  )


def month_classes(timeline: Timeline) -> tuple[tuple[int, int, int], ...]:
  """Returns (reign, year, month) of every month of a timeline, from 0."""
  return tuple(
    tuple(part - 1 for part in key.triple) for key in timeline.months
  )


def init_state(
  model: DualEncoder,
  optimizer: optax.GradientTransformation,
  seed: int,
  sharding: jax.sharding.Sharding,
  pretrained: Any = None,
) -> TrainState:
  """Returns a fresh state, placed by `sharding`.

  Args:
    model: the dual encoder.
    optimizer: its transformation.
    seed: of the parameters.
    sharding: where every leaf lives.
    pretrained: parameters of the text encoder, which are used up; None =
      random ones.
  """

  def init(key: jax.Array, pretrained: Any) -> TrainState:
    text = jnp.ones((1, 1), jnp.int32)
    params = model.init(key, text, text)["params"]
    if pretrained is not None:
      params = {**params, "encoder": pretrained}
    return TrainState(
      step=jnp.zeros((), jnp.int32),
      params=params,
      opt_state=optimizer.init(params),
    )

  initialise = jax.jit(init, out_shardings=sharding, donate_argnums=1)
  return initialise(jax.random.key(seed), pretrained)


def training_logits(
  apply: Callable[..., jax.Array],
  query: Encoding,
  record: Encoding,
  config: ml_collections.FrozenConfigDict,
) -> tuple[jax.Array, jax.Array]:
  """Returns the scores of the two directions of the contrastive loss.

  They are those of `config.score_mode`, unless a field of the loss asks for
  the released code's: `bias_columns="positives"` leaves the hard negatives
  without the temporal term, and `detach_gathered` keeps the gradient of a
  cosine from the side that is gathered, the columns of either direction.
  There the values do not change, and the temporal term keeps its gradient.

  Args:
    apply: `(query, record, mode, method=...)` of the dual encoder.
    query: of the global batch, B.
    record: its positives in order, then the hard negatives, B + B*H.
    config: the whole config.

  Returns:
    Queries against records, fp32 [B, B + B*H], and positives against queries,
    [B, B].

  Source: released code, in-batch loss and its form over processes.
  """
  mode, weights = config.score_mode, config.loss
  size = query.scalar.shape[0]
  positive = jax.tree.map(lambda x: x[:size], record)
  gathered = jax.lax.stop_gradient if weights.detach_gathered else lambda x: x
  biased = record if weights.bias_columns == "all" else positive
  temporal = apply(query, biased, mode, method="temporal")
  cosine = functools.partial(apply, method="cosine")
  columns = record.scalar.shape[0] - temporal.shape[1]
  forward = cosine(query, gathered(record), mode)
  backward = cosine(gathered(query), positive, mode)
  return (
    forward + jnp.pad(temporal, ((0, 0), (0, columns))),
    (backward + temporal[:, :size]).T,
  )


def loss_and_metrics(
  params: Any,
  batch: Batch,
  dropout_key: jax.Array,
  model: DualEncoder,
  config: ml_collections.FrozenConfigDict,
) -> tuple[jax.Array, dict[str, jax.Array]]:
  """Returns the weighted loss of a global batch and its parts.

  The logits are those of `training_logits`. Hard negatives are columns of the
  query-to-record direction; one that answers another query of the batch is
  left out of that query's denominator.

  Args:
    params: of `model`.
    batch: see `input_pipeline.training_batches`.
    dropout_key: fresh for each step.
    model: the dual encoder.
    config: the whole config; `loss` and `score_mode` are read.

  Source: paper, section 4, and the released code.
  """
  weights = config.loss
  encode = functools.partial(
    model.apply,
    {"params": params},
    deterministic=False,
    method="encode",
  )
  key_q, key_d = jax.random.split(dropout_key)
  query: Encoding = encode(
    batch["query_ids"], batch["query_mask"], rngs={"dropout": key_q}
  )
  record: Encoding = encode(
    jnp.concatenate([batch["positive_ids"], batch["negative_ids"]]),
    jnp.concatenate([batch["positive_mask"], batch["negative_mask"]]),
    rngs={"dropout": key_d},
  )
  size = batch["query_ids"].shape[0]
  if config.query_dates == "parser":
    query = query.replace(interval=batch["query_ends"])
  logits_qd, logits_dq = training_logits(
    functools.partial(model.apply, {"params": params}), query, record, config
  )
  starts, ends = batch["query_ends"][:, 0], batch["query_ends"][:, 1]
  month = batch["positive_month"]
  overlap = losses.interval_mask(starts, ends, month, month)
  negative = batch["negative_month"]
  answers = batch["negative_answers"] & losses.interval_mask(
    starts, ends, negative, negative
  )
  logits_qd = logits_qd.at[:, size:].add(
    jnp.where(answers, losses.MASKED_LOGIT, 0.0)
  )
  retrieval = losses.symmetric_nce(
    logits_qd,
    logits_dq,
    overlap if weights.multi_positive else None,
    weights.reduction,
  )
  parts = {"retrieval": retrieval}
  total = retrieval
  if weights.calendar_weight:
    parts["calendar"] = losses.calendar_cross_entropy(
      tuple(head[:size] for head in record.logits),
      batch["positive_classes"],
      weights.calendar_smoothing,
      weights.calendar_reduction,
    )
    total += weights.calendar_weight * parts["calendar"]
  if weights.query_calendar_weight:
    parts["query_calendar"] = losses.interval_calendar_cross_entropy(
      query.logits,
      (batch["query_reign"], batch["query_year"], batch["query_month"]),
      weights.calendar_reduction,
    )
    total += weights.query_calendar_weight * parts["query_calendar"]
  if weights.posterior_weight:
    log_months = functools.partial(
      model.apply, {"params": params}, method="log_months"
    )
    months = jnp.concatenate([month, negative])[:, None]
    parts["posterior"] = losses.interval_cross_entropy(
      log_months(record), jnp.concatenate([months, months], axis=1)
    )
    parts["query_posterior"] = losses.interval_cross_entropy(
      log_months(query), batch["query_ends"]
    )
    total += weights.posterior_weight * (
      parts["posterior"] + parts["query_posterior"]
    )
  best = jnp.argmax(logits_qd, axis=1)
  in_batch = jnp.take_along_axis(
    jnp.pad(overlap, ((0, 0), (0, logits_qd.shape[1] - size))),
    best[:, None],
    axis=1,
  )
  return total, {"loss": total, **parts, "batch_hit@1": jnp.mean(in_batch)}


def make_train_step(
  model: DualEncoder,
  optimizer: optax.GradientTransformation,
  config: ml_collections.ConfigDict,
  sharding: jax.sharding.Sharding,
) -> Callable[[TrainState, Batch], tuple[TrainState, dict[str, jax.Array]]]:
  """Returns the jitted update `(state, batch) -> (state, metrics)`.

  The dropout key depends on the seed and the step alone, so a resumed run
  draws what the uninterrupted one would have drawn.

  Args:
    model: the dual encoder.
    optimizer: its transformation.
    config: the whole config.
    sharding: of the new state.
  """
  frozen = ml_collections.FrozenConfigDict(config)

  def step(state: TrainState, batch: Batch):
    key = jax.random.fold_in(jax.random.key(frozen.seed), state.step)
    gradient = jax.grad(loss_and_metrics, has_aux=True)
    grads, metrics = gradient(state.params, batch, key, model, frozen)
    updates, opt_state = optimizer.update(grads, state.opt_state, state.params)
    metrics["gradient_norm"] = optax.tree.norm(grads)
    new = TrainState(
      step=state.step + 1,
      params=optax.apply_updates(state.params, updates),
      opt_state=opt_state,
    )
    return new, metrics

  return jax.jit(step, donate_argnums=0, out_shardings=(sharding, None))


def make_encode_step(
  model: DualEncoder,
) -> Callable[[Any, np.ndarray, np.ndarray], Encoding]:
  """Returns the jitted `(params, ids, mask) -> Encoding`, without dropout."""

  @jax.jit
  def encode(params: Any, ids: jax.Array, mask: jax.Array) -> Encoding:
    return model.apply({"params": params}, ids, mask, method="encode")

  return encode


def make_score(
  model: DualEncoder, score_mode: str
) -> Callable[[Any, Encoding, Encoding], jax.Array]:
  """Returns `(params, queries, records) -> scores [Q, N]` of one mode."""

  def score(params: Any, query: Encoding, record: Encoding) -> jax.Array:
    return model.apply(
      {"params": params}, query, record, score_mode, method="score"
    )

  return score
