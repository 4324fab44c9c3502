"""Layers that the encoders of all families share.

Axes: B texts, L tokens, S tokens whose states are wanted, D features, F
features of a projection.
"""

import dataclasses
import functools
import math
from collections.abc import Callable, Mapping
from typing import Any, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn
from flax import traverse_util
from jax.ad_checkpoint import checkpoint_name
from jaxtyping import Array, Bool, Float, Int

# Low-rank adapters (LoRA) of an encoder's projections.
#
# A projection W becomes W + alpha/r A B with two narrow matrices. Only they
# are trained. B starts from 0, so that an adapted encoder starts as the
# encoder itself. The parameters of query/kernel's adapter are query_lora/a,
# [in, r], and query_lora/b, [r, out]; without them the tree is that of the
# encoder.
#
# Source: Hu et al. 2021, "LoRA: Low-Rank Adaptation of Large Language
# Models", section 4.1.


SUFFIX = "_lora"  # of the name of an adapter, behind that of its projection
A, B = "a", "b"
PROJECTIONS = (
  *("query", "key", "value", "out"),  # of the attention, in either family
  *("intermediate", "output"),  # feed-forward of a BERT
  *("gate", "up", "down"),  # feed-forward of a decoder
)


@dataclasses.dataclass(frozen=True)
class LoraConfig:
  """Adapters of an encoder."""

  rank: int  # columns of A, r
  alpha: float  # numerator of the scale; alpha / r times A B is added
  dropout: float = 0.0  # rate on an adapter's input
  # Of `PROJECTIONS`, () = all; those that the encoder lacks are skipped.
  targets: tuple[str, ...] = ()
  base_dtype: str = "float32"  # type of the encoder's own parameters

  def __post_init__(self):
    object.__setattr__(self, "targets", self.targets or PROJECTIONS)

  @property
  def scale(self) -> float:
    """Factor of A B."""
    return self.alpha / self.rank


class Adapter(nn.Module):
  """The term added to the output of one projection, [..., out]."""

  features: int
  lora: LoraConfig
  dtype: jnp.dtype
  precision: jax.lax.Precision | None

  @nn.compact
  def __call__(self, states: Float[Array, "*B I"]) -> Float[Array, "*B O"]:
    """Returns alpha/r x A B, [..., out], for states x, [..., in]."""
    rank = self.lora.rank
    # As in PEFT: A is uniform within 1/sqrt(in).
    init = nn.initializers.variance_scaling(1 / 3, "fan_in", "uniform")
    a = self.param(A, init, (states.shape[-1], rank))
    b = self.param(B, nn.initializers.zeros, (rank, self.features))
    # A training step gives a key for dropout, nothing else does.
    is_dropping = self.has_rng("dropout")
    states = nn.Dropout(self.lora.dropout)(states, not is_dropping)
    # One axis of tokens: see `layers.make_dense`.
    flat = states.reshape(-1, states.shape[-1])
    for matrix in (a, b):
      flat = jnp.matmul(
        flat.astype(self.dtype),
        matrix.astype(self.dtype),
        precision=self.precision,
      )
    flat *= self.lora.scale
    return flat.reshape(*states.shape[:-1], self.features)


def is_adapter(path: tuple[str, ...]) -> bool:
  """Returns whether a parameter belongs to an adapter."""
  return len(path) > 1 and path[-2].endswith(SUFFIX)


def split_adapters(params: Mapping[str, Any]) -> tuple[Any, Any]:
  """Returns (adapters, the encoder without them); {} without adapters."""
  flat = traverse_util.flatten_dict(dict(params))
  adapters = {path: leaf for path, leaf in flat.items() if is_adapter(path)}
  rest = {path: leaf for path, leaf in flat.items() if path not in adapters}
  return tuple(map(traverse_util.unflatten_dict, (adapters, rest)))


def join_params(*trees: Mapping[str, Any]) -> dict[str, Any]:
  """Returns one tree of parameters; for equal paths the last tree wins."""
  flat = {}
  for tree in trees:
    flat |= traverse_util.flatten_dict(dict(tree))
  return traverse_util.unflatten_dict(flat)


def merge_adapters(params: Mapping[str, Any], lora: LoraConfig) -> Any:
  """Returns the encoder's parameters with the adapters added in, fp32."""
  adapters, base = map(traverse_util.flatten_dict, split_adapters(params))
  merged = dict(base)
  for path, a in adapters.items():
    if path[-1] != A:
      continue
    kernel = (*path[:-2], path[-2].removesuffix(SUFFIX), "kernel")
    # The axis of the layers of a scan stays in front.
    product = jnp.matmul(
      a, adapters[*path[:-1], B], precision=jax.lax.Precision.HIGHEST
    )
    merged[kernel] = base[kernel].astype(jnp.float32) + lora.scale * product
  return traverse_util.unflatten_dict(merged)


# Array types that annotations of the models share.
#
# Axes: B texts of a batch, L tokens.


AnyArray = Array | np.ndarray  # on a device or on the host
TokenIds = Int[AnyArray, "B L"]
# 1 or True where a token stands. Where a row holds several texts, the number of
# the text of each token, from 1.
TokenMask = Int[AnyArray, "B L"] | Bool[AnyArray, "B L"]


# Names of the axes of devices, and the platform of these.
#
# The mesh itself is made by `training.devices`.


DATA, FSDP, TENSOR = "data", "fsdp", "tensor"


def find_platform() -> str:
  """Returns the platform of the mesh that is in use, else that of JAX."""
  # A plan is traced for devices that this machine does not have.
  device = jax.sharding.get_abstract_mesh().abstract_device
  return device.platform if device else jax.default_backend()


DTYPES = ("float32", "bfloat16")
# Name for `jax.checkpoint` of values that take long to compute; the stack of
# layers below keeps them.
PRODUCT = "product"


@runtime_checkable
class EncoderFields(Protocol):
  """Fields that the configurations of all encoders have."""

  hidden_size: int  # features D of a token's state
  num_layers: int
  max_length: int  # longest text in tokens
  attention: str  # one of `attention.IMPLEMENTATIONS`
  attention_dropout: float  # rate on the weights
  dtype: str  # of the blocks' computations, one of `DTYPES`
  initializer_range: float  # standard deviation of initial weights
  lora: LoraConfig | None
  scan_layers: bool  # one compiled layer runs over stacked parameters
  remat: bool  # the backward pass computes a layer's activations again
  kept_activations: str  # for the backward pass, without remat; one of `KEPT`

  @property
  def head_dim(self) -> int: ...  # noqa: D102


def get_precision(config: EncoderFields) -> jax.lax.Precision | None:
  """Returns the precision of a block's matrix products.

  In fp32 the operands must stay as they are: GPUs would round them to TF32 and
  TPUs to bf16. In bf16 there is nothing to round.
  """
  if config.dtype == "float32":
    return jax.lax.Precision.HIGHEST
  return None


def check_length(ids: TokenIds, config: EncoderFields) -> None:
  """Raises ValueError if texts are longer than `max_length`."""
  length = ids.shape[1]
  if length > config.max_length:
    raise ValueError(
      f"texts of {length} tokens exceed max_length {config.max_length} of "
      "the encoder"
    )


def token_positions(mask: TokenMask) -> Int[Array, "B L"]:
  """Returns the position of every column, 0 = first token of its text, [B, L].

  Padding after a text counts on: mask tokens that fill up a query have
  positions of their own.
  """
  # A text begins where the number of the text changes to another than 0.
  previous = jnp.pad(mask[:, :-1], ((0, 0), (1, 0)))
  is_first_token = (mask != previous) & (mask != 0)
  columns = jnp.arange(mask.shape[1])
  # Column of the first token of the text that a column is in or behind; -1
  # under padding on the left.
  first = jax.lax.cummax(jnp.where(is_first_token, columns, -1), axis=1)
  return jnp.where(first < 0, 0, columns - first)


def take_tokens(
  states: Float[AnyArray, "B L D"], columns: Int[AnyArray, "B S"] | None
) -> Float[AnyArray, "B S D"]:
  """Returns the states of the tokens in `columns`, [B, S, D]; None = all."""
  if columns is None:
    return states
  return jnp.take_along_axis(states, columns[:, :, None], axis=1)


@jax.custom_vjp
def gelu(x: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
  """Returns x Phi(x), of the shape of `x`: the exact GELU, by erf.

  Published BERTs are trained with it, not with the tanh approximation. On a CPU
  erf takes a third of the time of the erfc in `jax.nn.gelu`, and only `x` is
  kept for the gradient. Both compute in fp32: 1 + erf would lose the digits of
  a small Phi.

  Source: Hendrycks and Gimpel 2016, section 2.
  """
  wide = x.astype(jnp.float32)
  return (wide * _normal_distribution(wide)).astype(x.dtype)


def _normal_distribution(x: jax.Array) -> jax.Array:
  """Returns Phi(x) = (1 + erf(x / sqrt 2)) / 2."""
  return 0.5 * (1 + jax.lax.erf(x * math.sqrt(0.5)))


def _gelu_forward(x: jax.Array) -> tuple[jax.Array, jax.Array]:
  return gelu(x), x


def _gelu_backward(x: jax.Array, gradient: jax.Array) -> tuple[jax.Array]:
  wide = x.astype(jnp.float32)
  # d/dx x Phi(x) = Phi(x) + x phi(x)
  density = jnp.exp(-0.5 * wide * wide) * math.sqrt(0.5 / math.pi)
  slope = _normal_distribution(wide) + wide * density
  return ((gradient * slope).astype(x.dtype),)


gelu.defvjp(_gelu_forward, _gelu_backward)


def _multiply_tokens(
  states: Float[Array, "*batch D"],
  kernel: Float[Array, "D F"],
  dimension_numbers: tuple,
  **options: Any,
) -> Float[Array, "*batch F"]:
  """Returns `jax.lax.dot_general` of states and a kernel, as one matrix."""
  # The gradient of the kernel is then a product of two matrices. With several
  # token axes it would be transposed first on a CPU, in up to four times the
  # time.
  assert dimension_numbers == (((states.ndim - 1,), (0,)), ((), ()))
  multiply = functools.partial(jax.lax.dot_general, **options)
  flat = states.reshape(-1, states.shape[-1])
  if kernel.shape[0] > kernel.shape[1] and find_platform() == "cpu":
    flat = _multiply_to_narrow(flat, kernel, multiply)
  else:
    flat = multiply(flat, kernel, _contract(1, 0))
  return flat.reshape(*states.shape[:-1], kernel.shape[-1])


def _contract(left: int, right: int) -> tuple:
  """Returns the dimension numbers of a product over two axes."""
  return ((left,), (right,)), ((), ())


def _multiply_to_narrow(
  flat: Float[Array, "T D"],
  kernel: Float[Array, "D F"],
  multiply: Callable[..., jax.Array],
) -> Float[Array, "T F"]:
  """Returns the product of tokens with a kernel where F is below D."""
  # In the kernel's gradient the narrower operand comes first. On a CPU that
  # takes up to half the time of the other order, to which the compiler would
  # return without the first barrier. The second barrier fixes the layout for
  # all readers; each would transpose for itself, in four times the time.

  @jax.custom_vjp
  def project(flat, kernel):
    return multiply(flat, kernel, _contract(1, 0))

  def forward(flat, kernel):
    return project(flat, kernel), (flat, kernel)

  def backward(operands, gradient):
    flat, kernel = operands
    of_states = multiply(gradient, kernel, _contract(1, 1))
    of_kernel = multiply(gradient, flat, _contract(0, 0))
    keep = jax.lax.optimization_barrier
    return of_states, keep(keep(of_kernel).T)

  project.defvjp(forward, backward)
  return project(flat, kernel)


def make_dense(
  config: EncoderFields, features: int, name: str, bias: bool = True
) -> Callable[[jax.Array], jax.Array]:
  """Returns a projection of states, with its adapter if it has one."""
  dense = nn.Dense(
    features,
    use_bias=bias,
    dtype=jnp.dtype(config.dtype),
    precision=get_precision(config),
    kernel_init=nn.initializers.normal(config.initializer_range),
    dot_general=_multiply_tokens,
    name=name,
  )
  keep = functools.partial(checkpoint_name, name=PRODUCT)
  if config.lora is None or name not in config.lora.targets:
    return lambda states: keep(dense(states))
  adapter = Adapter(
    features,
    config.lora,
    dense.dtype,
    dense.precision,
    name=f"{name}{SUFFIX}",
  )
  return lambda states: keep(dense(states) + adapter(states))


def make_embedding(
  config: EncoderFields, rows: int, name: str
) -> Callable[[jax.Array], jax.Array]:
  """Returns a table of `rows` states of D features; look-ups are fp32.

  The caller rounds. The gradient of a row is a sum over all its tokens: in
  bf16, most of the thousands that a position has would be lost.
  """
  table = nn.Embed(
    rows,
    config.hidden_size,
    embedding_init=nn.initializers.normal(config.initializer_range),
    name=name,
  )
  return lambda numbers: table(numbers).astype(jnp.float32)


# Stack of an encoder's layers: unrolled, scanned or recomputed.
#
# Unrolled, a deep decoder compiles for minutes and keeps all activations for
# the backward pass. Scanning compiles one layer, and `remat` keeps only the
# states that enter each.
#
# Without `remat`, `kept_activations` decides: "all", or "products", the
# results of projections and attention kernels, which take long to compute. An
# accelerator computes the rest again sooner than it reads it from memory, and
# needs two fifths of the memory or less; "auto" is "products" there, and
# "all" on a CPU.
#
# If only some tokens' states are wanted, as for pooling by first or last
# token, the last layer computes no others.
#
# Axes: B texts, L tokens, S tokens whose states are wanted, D features.


SCANNED = "layers"  # parameters have the layer as first axis
UNROLLED = "layer_{}"
AUTO, ALL, PRODUCTS = "auto", "all", "products"
KEPT = (AUTO, ALL, PRODUCTS)


def _is_product(primitive: Any, *avals: Any, **params: Any) -> bool:
  """Returns whether an operation is a projection or an attention kernel."""
  # A policy of `jax.checkpoint`. The result of cuDNN's attention has no name.
  is_named = jax.checkpoint_policies.save_only_these_names(PRODUCT)
  return primitive.name.startswith("dot_product_attention_fwd") or is_named(
    primitive, *avals, **params
  )


def apply_layers(
  layer_type: Callable[..., nn.Module],
  config: EncoderFields,
  states: Float[Array, "B L D"],
  columns: Int[Array, "B S"] | None,
  *inputs: Any,
  **static: Any,
) -> Float[Array, "B S D"]:
  """Returns the states after the last layer, [B, S, D].

  Call it inside an encoder's compact method. Parameters are named `layer_<i>`,
  or `layers` if scanned.

  Args:
    layer_type: called with states, columns, inputs and static values, a layer
      returns the states of the tokens in `columns`.
    states: input of the first layer.
    columns: positions of the tokens whose states are wanted; None = all.
      Scanned layers all have one shape and compute the others too.
    *inputs: arrays, or trees of arrays, that all layers share.
    **static: other values that all layers share.
  """

  def apply(layer: nn.Module, states: jax.Array, columns, *inputs: Any):
    states = layer(states, columns, *inputs, **static)
    # Read by tests and analyses that make "intermediates" mutable.
    layer.sow("intermediates", "states", states)
    return states, None

  kept = config.kept_activations
  keeps_products = kept == PRODUCTS or (
    kept == AUTO and find_platform() != "cpu"
  )
  if config.remat or keeps_products:
    apply = nn.remat(
      apply,
      # Inside a scan the loop keeps XLA from merging the two computations.
      prevent_cse=not config.scan_layers,
      policy=None if config.remat else _is_product,
    )
  if not config.scan_layers:
    for index in range(config.num_layers):
      layer = layer_type(config, name=UNROLLED.format(index))
      is_last = index == config.num_layers - 1
      states, _ = apply(layer, states, columns if is_last else None, *inputs)
    return states
  # Parameters and sown states get the layer as their first axis; every layer
  # gets the same inputs and its own random keys.
  scan = functools.partial(
    nn.scan,
    variable_axes={"params": 0, "intermediates": 0},
    split_rngs={"params": True, "dropout": True},
    in_axes=nn.broadcast,
    length=config.num_layers,
  )
  layer = layer_type(config, name=SCANNED)
  states, _ = scan(apply)(layer, states, None, *inputs)
  return take_tokens(states, columns)
