"""The model and train state of a config, and the jitted functions.

`make_train_step` updates parameters from a global batch; `make_encode_step`
turns a packed batch of texts into vectors and date beliefs. Every system (FT
baseline, TempDate, CTD and its ablations) is this one step under another
config. Called by `train`, `evaluate` and the tests.

Axes: B queries in the global batch, H hard negatives a query, L tokens.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import flax.struct
import jax
import jax.numpy as jnp
import ml_collections
import optax
from jax.sharding import Mesh

from ctd_jax.chronology.timelines import TimeKey, Timeline
from ctd_jax.models.dual_encoder import (
  SCORE_MODES,
  CTDConfig,
  DualEncoder,
  Encoding,
)
from ctd_jax.models.packing import PackedTexts
from ctd_jax.models.pretrained.geometry import EncoderConfig
from ctd_jax.training import objective, partitioning
from ctd_jax.training.objective import BIAS_COLUMNS, Batch


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
    tuple(class_number - 1 for class_number in key.triple)
    for key in timeline.months
  )


def _make_fresh_state(
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
  make_state = functools.partial(_make_fresh_state, model, optimizer)
  shapes = jax.eval_shape(make_state, jax.random.key(0))
  return jax.tree.map(
    lambda x, sharding: jax.ShapeDtypeStruct(
      x.shape, x.dtype, sharding=sharding
    ),
    shapes,
    partitioning.state_shardings(shapes, mesh),
  )


def get_shardings(abstract: Any) -> Any:
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
    functools.partial(_make_fresh_state, model, optimizer),
    out_shardings=get_shardings(abstract_state(model, optimizer, mesh)),
    donate_argnums=1,
  )
  return initialise(jax.random.key(seed), pretrained)


def make_train_step(
  model: DualEncoder,
  optimizer: optax.GradientTransformation,
  config: ml_collections.ConfigDict,
  mesh: Mesh,
) -> Callable[[TrainState, Batch], tuple[TrainState, dict[str, jax.Array]]]:
  """Returns the jitted update `(state, batch) -> (state, metrics)`.

  The dropout key depends on the seed and the step alone, so a resumed run
  draws what the uninterrupted one would have drawn. On another number of
  devices texts are packed anew, and the draws are others.

  Args:
    model: the dual encoder.
    optimizer: its transformation.
    config: the whole config.
    mesh: where the state lives.
  """
  frozen_config = ml_collections.FrozenConfigDict(config)

  def step(state: TrainState, batch: Batch):
    key = jax.random.fold_in(jax.random.key(frozen_config.seed), state.step)
    gradient = jax.grad(objective.loss_and_metrics, has_aux=True)
    grads, metrics = gradient(
      state.params, batch, key, model, frozen_config, mesh
    )
    updates, opt_state = optimizer.update(grads, state.opt_state, state.params)
    metrics["gradient_norm"] = optax.tree.norm(grads)
    new_state = TrainState(
      step=state.step + 1,
      params=optax.apply_updates(state.params, updates),
      opt_state=opt_state,
    )
    return new_state, metrics

  state_shardings = get_shardings(abstract_state(model, optimizer, mesh))
  return jax.jit(step, donate_argnums=0, out_shardings=(state_shardings, None))


def make_encode_step(
  model: DualEncoder,
) -> Callable[[Any, PackedTexts], Encoding]:
  """Returns the jitted `(params, texts) -> Encoding`, without dropout."""

  @jax.jit
  def encode(params: Any, texts: PackedTexts) -> Encoding:
    encoding = model.apply({"params": params}, texts, method="encode_packed")
    return jax.tree.map(lambda x: jax.lax.collapse(x, 0, 2), encoding)

  return encode


def make_score_function(
  model: DualEncoder, score_mode: str
) -> Callable[[Any, Encoding, Encoding], jax.Array]:
  """Returns `(variables, queries, records) -> scores [Q, N]` of one mode.

  The variables are the parameters and the tables of `DualEncoder.tables`.
  """

  def score(variables: Any, query: Encoding, record: Encoding) -> jax.Array:
    return model.apply(variables, query, record, score_mode, method="score")

  return score
