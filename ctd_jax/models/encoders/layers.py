"""Layers that the encoders of all families share.

Axes: B texts, L tokens, S tokens whose states are wanted, D features, F
features of a projection.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
from flax import linen as nn
from jax.ad_checkpoint import checkpoint_name
from jaxtyping import Array, Float, Int

from ctd_jax.models.arrays import AnyArray, TokenIds, TokenMask
from ctd_jax.models.encoders import lora
from ctd_jax.models.encoders.lora import LoraConfig
from ctd_jax.models.mesh_axes import find_platform

DTYPES = ("float32", "bfloat16")
# Name, for `jax.checkpoint`, of what takes long to compute; see `layer_stack`.
PRODUCT = "product"


@runtime_checkable
class BlockConfig(Protocol):
  """Fields of an encoder's configuration that layers read."""

  hidden_size: int  # features D of a token's state
  max_length: int  # longest text in tokens
  dtype: str  # of the blocks' computations, one of `DTYPES`
  initializer_range: float  # standard deviation of initial weights
  lora: LoraConfig | None


def check_dtype(dtype: str) -> None:
  """Raises ValueError if no encoder computes in this type."""
  if dtype not in DTYPES:
    raise ValueError(f"dtype must be one of {DTYPES}, got {dtype!r}")


def check_rates(**rates: float) -> None:
  """Raises ValueError if a dropout rate is outside [0, 1)."""
  for name, rate in rates.items():
    if not 0 <= rate < 1:
      raise ValueError(f"{name} must be at least 0 and below 1, got {rate}")


def get_precision(config: BlockConfig) -> jax.lax.Precision | None:
  """Returns the precision of a block's matrix products.

  In fp32 the operands must stay as they are: GPUs would round them to TF32 and
  TPUs to bf16. In bf16 there is nothing to round.
  """
  if config.dtype == "float32":
    return jax.lax.Precision.HIGHEST
  return None


def check_length(ids: TokenIds, config: BlockConfig) -> None:
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

  Args:
    mask: number of each token's text in its row, 0 = no token, [B, L].
  """
  # A text begins where the number of the text changes to another than 0.
  previous = jnp.pad(mask[:, :-1], ((0, 0), (1, 0)))
  is_first_token = (mask != previous) & (mask != 0)
  columns = jnp.arange(mask.shape[1])
  # Column of the first token of the text that a column stands in or behind; -1
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
  """Returns `jax.lax.dot_general` of states and a kernel, as one matrix.

  The gradient of the kernel is then a product of two matrices. With several
  token axes it would be transposed first on a CPU, in up to four times the
  time.
  """
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
  """Returns the product of tokens with a kernel where F is below D.

  In the kernel's gradient the narrower operand comes first. On a CPU that takes
  up to half the time of the other order, to which the compiler would return
  without the first barrier. The second barrier fixes the layout for all
  readers; each would transpose for itself, in four times the time.
  """

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
  config: BlockConfig, features: int, name: str, bias: bool = True
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
  adapter = lora.Adapter(
    features,
    config.lora,
    dense.dtype,
    dense.precision,
    name=f"{name}{lora.SUFFIX}",
  )
  return lambda states: keep(dense(states) + adapter(states))


def make_embedding(
  config: BlockConfig, rows: int, name: str
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
