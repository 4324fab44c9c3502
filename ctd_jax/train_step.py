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
from jax.sharding import Mesh

from ctd_jax import losses, partitioning
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


def _fresh_state(
  model: DualEncoder,
  optimizer: optax.GradientTransformation,
  key: jax.Array,
  pretrained: Any = None,
) -> TrainState:
  text = jnp.ones((1, 1), jnp.int32)
  params = model.init(key, text, text)["params"]
  if pretrained is not None:
    params = {**params, "encoder": pretrained}
  return TrainState(
    step=jnp.zeros((), jnp.int32),
    params=params,
    opt_state=optimizer.init(params),
  )


def abstract_state(
  model: DualEncoder, optimizer: optax.GradientTransformation, mesh: Mesh
) -> TrainState:
  """Returns shapes, types and places of a train state.

  Args:
    model: the dual encoder.
    optimizer: its transformation.
    mesh: where the state is to live, see `partitioning.state_shardings`.
  """
  fresh = functools.partial(_fresh_state, model, optimizer)
  shapes = jax.eval_shape(fresh, jax.random.key(0))
  return jax.tree.map(
    lambda x, place: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=place),
    shapes,
    partitioning.state_shardings(shapes, mesh),
  )


def shardings(abstract: Any) -> Any:
  """Returns where the arrays of an abstract state, or a part of it, live."""
  return jax.tree.map(lambda x: x.sharding, abstract)


def init_state(
  model: DualEncoder,
  optimizer: optax.GradientTransformation,
  seed: int,
  mesh: Mesh,
  pretrained: Any = None,
) -> TrainState:
  """Returns a fresh state, placed as `abstract_state` says.

  Args:
    model: the dual encoder.
    optimizer: its transformation.
    seed: of the parameters.
    mesh: where the state lives.
    pretrained: parameters of the text encoder, which are used up; None =
      random ones.
  """
  initialise = jax.jit(
    functools.partial(_fresh_state, model, optimizer),
    out_shardings=shardings(abstract_state(model, optimizer, mesh)),
    donate_argnums=1,
  )
  return initialise(jax.random.key(seed), pretrained)


def in_chunks(function: Callable[..., Any], chunks: int, *trees: Any) -> Any:
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
  def split(x: jax.Array) -> jax.Array:
    rows = len(x) // chunks
    return x.reshape(rows, chunks, *x.shape[1:]).swapaxes(0, 1)

  def join(x: jax.Array) -> jax.Array:
    rows = x.shape[0] * x.shape[1]
    return x.swapaxes(0, 1).reshape(rows, *x.shape[2:])

  part = jax.checkpoint(lambda rows: function(*rows))
  return jax.tree.map(join, jax.lax.map(part, jax.tree.map(split, trees)))


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

  def gather(encoding: Encoding) -> Encoding:
    everywhere = partitioning.replicated(mesh)
    return jax.lax.with_sharding_constraint(encoding, everywhere)

  def cosine(rows: Encoding, columns: Encoding) -> jax.Array:
    columns = gather(columns)
    if weights.detach_gathered:
      columns = jax.lax.stop_gradient(columns)
    return apply(rows, columns, mode, method="cosine")

  def temporal(record: Encoding) -> jax.Array:
    columns = gather(record)
    return in_chunks(
      lambda rows: apply(rows, columns, mode, method="temporal"),
      config.encode_chunks,
      query,
    )

  bias = temporal(positive)
  hard = cosine(query, negative)
  if weights.bias_columns == "all":
    hard += temporal(negative)
  forward = cosine(query, positive) + bias
  backward = cosine(positive, query) + bias.T  # a cosine is symmetric
  return jnp.concatenate([forward, hard], axis=1), backward


def loss_and_metrics(
  params: Any,
  batch: Batch,
  dropout_key: jax.Array,
  model: DualEncoder,
  config: ml_collections.FrozenConfigDict,
  mesh: Mesh,
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
    mesh: over which the batch is split.

  Source: paper, section 4, and the released code.
  """
  weights = config.loss
  size = batch["query_ids"].shape[0]
  key_q, key_d = jax.random.split(dropout_key)

  def encode(ids: jax.Array, mask: jax.Array, key: jax.Array) -> Encoding:
    def rows(ids: jax.Array, mask: jax.Array, row: jax.Array) -> Encoding:
      # A part draws its own dropout: by the first of its rows.
      rngs = {"dropout": jax.random.fold_in(key, row[0])}
      return model.apply(
        {"params": params}, ids, mask, False, rngs=rngs, method="encode"
      )

    counted = jnp.arange(len(ids))
    return in_chunks(rows, config.encode_chunks, ids, mask, counted)

  def with_negatives(name: str) -> jax.Array:
    # A query's records stand together, so that none changes its device.
    values, hard = batch[f"positive_{name}"], batch[f"negative_{name}"]
    hard = hard.reshape(size, len(hard) // size, *values.shape[1:])
    joined = jnp.concatenate([values[:, None], hard], axis=1)
    return joined.reshape(size * joined.shape[1], *values.shape[1:])

  query = encode(batch["query_ids"], batch["query_mask"], key_q)
  if config.query_dates == "parser":
    query = query.replace(interval=batch["query_ends"])
  record = encode(with_negatives("ids"), with_negatives("mask"), key_d)

  def part(x: jax.Array, columns: slice) -> jax.Array:
    grouped = x.reshape(size, len(x) // size, *x.shape[1:])[:, columns]
    return grouped.reshape(size * grouped.shape[1], *x.shape[1:])

  positive, negative = (
    jax.tree.map(functools.partial(part, columns=columns), record)
    for columns in (slice(0, 1), slice(1, None))
  )
  logits_qd, logits_dq = training_logits(
    functools.partial(model.apply, {"params": params}),
    query,
    positive,
    negative,
    config,
    mesh,
  )
  starts, ends = batch["query_ends"][:, 0], batch["query_ends"][:, 1]
  month, hard_month = batch["positive_month"], batch["negative_month"]
  overlap = losses.interval_mask(starts, ends, month, month)
  answers = batch["negative_answers"] & losses.interval_mask(
    starts, ends, hard_month, hard_month
  )
  answering = jnp.pad(answers, ((0, 0), (size, 0)))
  logits_qd = jnp.where(answering, losses.MASKED_LOGIT, logits_qd)
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
      positive.logits,
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
    months = with_negatives("month")[:, None]
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
  mesh: Mesh,
) -> Callable[[TrainState, Batch], tuple[TrainState, dict[str, jax.Array]]]:
  """Returns the jitted update `(state, batch) -> (state, metrics)`.

  The dropout key depends on the seed and the step alone, so a resumed run
  draws what the uninterrupted one would have drawn.

  Args:
    model: the dual encoder.
    optimizer: its transformation.
    config: the whole config.
    mesh: where the state lives.
  """
  frozen = ml_collections.FrozenConfigDict(config)

  def step(state: TrainState, batch: Batch):
    key = jax.random.fold_in(jax.random.key(frozen.seed), state.step)
    gradient = jax.grad(loss_and_metrics, has_aux=True)
    grads, metrics = gradient(state.params, batch, key, model, frozen, mesh)
    updates, opt_state = optimizer.update(grads, state.opt_state, state.params)
    metrics["gradient_norm"] = optax.tree.norm(grads)
    new = TrainState(
      step=state.step + 1,
      params=optax.apply_updates(state.params, updates),
      opt_state=opt_state,
    )
    return new, metrics

  places = shardings(abstract_state(model, optimizer, mesh))
  return jax.jit(step, donate_argnums=0, out_shardings=(places, None))


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
