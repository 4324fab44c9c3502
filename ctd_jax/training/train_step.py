"""Train state and jitted functions: the update, the encoding, the score.

`make_train_step` updates parameters from a global batch; `make_encode_step`
turns a packed batch of texts into vectors and date beliefs. Every system (FT
baseline, TempDate, CTD and its ablations) is this one step under another
config.

Axes: B queries in the global batch, N records.
"""

import functools
from collections.abc import Callable
from typing import Any

import flax.struct
import jax
import jax.numpy as jnp
import ml_collections
import optax
from jax.sharding import Mesh

from ctd_jax.chronology.reigns import TimeKey, Timeline
from ctd_jax.models.dual_encoder import (
  ENCODER,
  LOG_SCALE,
  QUERY_ENCODER,
  CTDConfig,
  DualEncoder,
  clip_temperature,
  truncate_encoding,
)
from ctd_jax.models.encoders import layers
from ctd_jax.models.encoding import Encoding
from ctd_jax.models.packing import PackedTexts
from ctd_jax.models.pretrained.folders import EncoderConfig
from ctd_jax.training import compilation, devices
from ctd_jax.training.objective import Batch, Metrics, Objective

TrainStep = Callable[["TrainState", Batch], tuple["TrainState", Metrics]]


class TrainState(flax.struct.PyTreeNode):
  """State of training, input and output of a step."""

  step: jax.Array  # number of steps made, int32 scalar
  params: Any  # parameters that are trained, fp32
  opt_state: Any  # state of the optimizer, which knows no others
  # The encoder that adapters adapt, which no step changes and no checkpoint
  # holds; {} where all parameters are trained.
  frozen: Any

  @property
  def model_params(self) -> Any:
    """All parameters of the model."""
    return layers.join_params(self.frozen, self.params)


def make_model(
  section: ml_collections.ConfigDict, encoder: EncoderConfig, timeline: Timeline
) -> DualEncoder:
  """Returns the dual encoder that a config describes.

  Args:
    section: `config.model`; its encoder and adapters are not read.
    encoder: geometry of the text encoder, with its adapters.
    timeline: gives the class counts and where each reign starts.
  """
  # Reigns count from 1 in a time key; every one starts with its first month.
  starts = tuple(
    timeline.ordinal(TimeKey(reign, 1, 1))
    for reign in range(1, len(timeline.reigns) + 1)
  )
  temporal = {
    name: value
    for name, value in section.to_dict().items()
    if name not in (ENCODER, "lora")
  }
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
  text = jnp.ones((1, 1), jnp.int32)  # one token: shapes do not depend on it
  params = model.init(key, text, text)["params"]
  if pretrained is not None:
    # Adapters and temporal modules keep their first values.
    adapters, _ = layers.split_adapters(params[ENCODER])
    params = {**params, ENCODER: layers.join_params(pretrained, adapters)}
  # A masked language model has no such field. Both towers start alike.
  if getattr(model.config, "separate_towers", False):
    params = {**params, QUERY_ENCODER: params[ENCODER]}
  trained, frozen = split_params(model, params)
  return TrainState(
    step=jnp.zeros((), jnp.int32),
    params=trained,
    opt_state=optimizer.init(trained),
    frozen=frozen,
  )


def split_params(model: DualEncoder, params: Any) -> tuple[Any, Any]:
  """Returns the parameters that are trained, and those that stay.

  Without adapters all are trained; with them the encoder itself stays, in the
  type that their configuration says.
  """
  config = model.config.encoder.lora
  if config is None:
    return params, {}
  adapters, base = layers.split_adapters(params[ENCODER])
  base = jax.tree.map(lambda x: x.astype(config.base_dtype), base)
  return {**params, ENCODER: adapters}, {ENCODER: base}


def abstract_state(
  model: DualEncoder, optimizer: optax.GradientTransformation, mesh: Mesh
) -> TrainState:
  """Returns shapes, types and shardings of a train state."""
  make_state = functools.partial(_make_fresh_state, model, optimizer)
  shapes = jax.eval_shape(make_state, jax.random.key(0))  # computes nothing
  return jax.tree.map(
    lambda x, sharding: jax.ShapeDtypeStruct(
      x.shape, x.dtype, sharding=sharding
    ),
    shapes,
    devices.state_shardings(shapes, mesh),
  )


def get_shardings(abstract: Any) -> Any:
  """Returns the shardings of an abstract state or of a subtree of it."""
  return jax.tree.map(lambda x: x.sharding, abstract)


def init_state(
  model: DualEncoder,
  optimizer: optax.GradientTransformation,
  seed: int,
  mesh: Mesh,
  pretrained: Any = None,
) -> TrainState:
  """Returns a fresh state with the shardings of `abstract_state`.

  Args:
    pretrained: parameters of the text encoder without adapters, which are
      donated; None = random ones.
  """
  initialise = jax.jit(
    functools.partial(_make_fresh_state, model, optimizer),
    out_shardings=get_shardings(abstract_state(model, optimizer, mesh)),
    donate_argnums=1,  # weights of a large encoder are not held twice
  )
  return initialise(jax.random.key(seed), pretrained)


def make_train_step(
  objective: Objective, optimizer: optax.GradientTransformation, seed: int
) -> TrainStep:
  """Returns the jitted step `(state, batch) -> (state, metrics)`.

  The dropout key depends on the seed and the step alone, so a resumed run
  draws what the uninterrupted one would have drawn. On another number of
  devices, texts are packed differently, and the draws differ.
  """

  def step(state: TrainState, batch: Batch) -> tuple[TrainState, Metrics]:
    key = jax.random.fold_in(jax.random.key(seed), state.step)

    def compute_loss(params: Any) -> tuple[jax.Array, Metrics]:
      # Of the frozen ones no gradient is computed.
      model_params = layers.join_params(state.frozen, params)
      return objective.compute_loss(model_params, batch, key)

    grads, metrics = jax.grad(compute_loss, has_aux=True)(state.params)
    updates, opt_state = optimizer.update(grads, state.opt_state, state.params)
    metrics["gradient_norm"] = optax.tree.norm(grads)
    params = clip_temperature(optax.apply_updates(state.params, updates))
    if LOG_SCALE in params:
      metrics["temperature"] = objective.model.read_temperature(params)
    new_state = state.replace(
      step=state.step + 1, params=params, opt_state=opt_state
    )
    return new_state, metrics

  state = abstract_state(objective.model, optimizer, objective.mesh)
  # The old state is given up: two of them would double the memory.
  return jax.jit(
    step,
    donate_argnums=0,
    out_shardings=(get_shardings(state), None),
    compiler_options=compilation.choose_options(objective.mesh.devices.flat[0]),
  )


def make_encode_step(
  model: DualEncoder, mesh: Mesh, dimension: int = 0
) -> Callable[[Any, PackedTexts], Encoding]:
  """Returns the jitted `(params, texts) -> Encoding`, without dropout.

  Args:
    dimension: see `truncate_encoding`.
  """

  @functools.partial(
    jax.jit,
    compiler_options=compilation.choose_options(mesh.devices.flat[0]),
  )
  def encode(params: Any, texts: PackedTexts) -> Encoding:
    with devices.use_mesh(mesh):
      encoding = model.apply({"params": params}, texts, method="encode_packed")
    # [packs, texts of a pack, ...] -> [texts, ...]
    encoding = jax.tree.map(lambda x: jax.lax.collapse(x, 0, 2), encoding)
    return truncate_encoding(encoding, dimension)

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
