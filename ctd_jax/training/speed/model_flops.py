"""Model FLOPs: the matrix products of a loss, counted in its jaxpr.

The cost analysis of a compiled function counts the body of a loop once, and
what the compiler added besides. Here a product counts as often as the model
asks for it; what the backward pass computes again does not count.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import jax
from absl import logging
from jax.extend import core

# The gradient of a product has two products, one for each factor. Source:
# Kaplan et al. 2020, "Scaling Laws for Neural Language Models", section 2.1.
_PRODUCTS_PER_UPDATE = 3
# Nobody asks for the gradient of a frozen factor. What trained adapters add to
# this, and products of two activations, are left out: a few in a hundred.
_PRODUCTS_PER_FROZEN_UPDATE = 2
# Programs of other compilers, whose products no jaxpr shows.
_OPAQUE_PRIMITIVES = ("custom_call", "ffi_call", "tpu_custom_call")


class UpdateFlops:
  """FLOPs of an update of a loss, by the shapes of the batch."""

  def __init__(
    self,
    compute_loss: Callable[..., Any],
    params: Any,
    is_frozen: bool = False,
  ):
    """Counts nothing yet.

    Args:
      compute_loss: `(params, batch, dropout key) -> loss`, or more than it.
      params: parameters or their shapes.
      is_frozen: whether the encoder is not trained, but adapters of it.
    """
    self._products = (
      _PRODUCTS_PER_FROZEN_UPDATE if is_frozen else _PRODUCTS_PER_UPDATE
    )
    self._compute_loss = compute_loss
    self._params = _to_shapes(params)
    self._counts: dict[Any, float] = {}
    self._opaque_primitives: set[str] = set()

  @property
  def num_shapes(self) -> int:
    """Number of different shapes of batches so far, each compiled once."""
    return len(self._counts)

  def count(self, batch: Any) -> float:
    """Returns the FLOPs of an update on a global batch, over all devices."""
    shapes = _to_shapes(batch)
    leaves, structure = jax.tree.flatten(shapes)
    key = structure, tuple((leaf.shape, leaf.dtype) for leaf in leaves)
    if key not in self._counts:
      jaxpr = jax.make_jaxpr(self._compute_loss)(
        self._params, shapes, jax.random.key(0)
      )
      opaque_primitives: set[str] = set()
      forward = count_flops(jaxpr.jaxpr, opaque_primitives)
      self._counts[key] = self._products * forward
      if new_names := opaque_primitives - self._opaque_primitives:
        self._opaque_primitives |= new_names
        logging.warning(
          "model FLOPs do not have what is in %s",
          ", ".join(sorted(new_names)),
        )
    return self._counts[key]


def count_flops(jaxpr: core.Jaxpr, opaque_primitives: set[str]) -> float:
  """Returns the FLOPs of the products and convolutions of a jaxpr.

  A multiplication and an addition are two. What is computed elementwise does
  not count.

  Args:
    jaxpr: of a function.
    opaque_primitives: gets the names of what may hold products that are not
      counted, or not all of them.
  """
  flops = 0.0
  for equation in jaxpr.eqns:
    name = equation.primitive.name
    if name == "dot_general":
      flops += _count_product(equation)
    elif name == "conv_general_dilated":
      flops += _count_convolution(equation)
    elif name.startswith("dot_product_attention_fwd"):
      flops += _count_attention(equation)
    elif name in _OPAQUE_PRIMITIVES:
      opaque_primitives.add(name)
    else:
      inner = [
        count_flops(body, opaque_primitives)
        for body in _list_bodies(equation.params)
      ]
      if name == "cond":
        flops += max(inner)
      elif any(inner):
        flops += sum(inner) * _count_repeats(equation, opaque_primitives)
  return flops


def _to_shapes(tree: Any) -> Any:
  return jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), tree)


def _list_bodies(params: dict[str, Any]) -> Iterator[core.Jaxpr]:
  """Yields the jaxprs among the parameters of an equation."""
  for value in params.values():
    for item in value if isinstance(value, tuple | list) else (value,):
      if isinstance(item, core.ClosedJaxpr):
        yield item.jaxpr
      elif isinstance(item, core.Jaxpr):
        yield item


def _count_repeats(
  equation: core.JaxprEqn, opaque_primitives: set[str]
) -> float:
  """Returns how often the bodies of an equation run in all."""
  params, name = equation.params, equation.primitive.name
  if name == "scan":
    return params["length"]
  if name == "shard_map":  # shapes in it are those of one device
    return math.prod(
      params["mesh"].shape[axis] for axis in params["newly_manual_axes"]
    )
  if name == "pallas_call":
    grid = params["grid_mapping"].grid
    if all(isinstance(size, int) for size in grid):
      return math.prod(grid)
  if name in ("while", "pallas_call"):
    # How often it runs, the data say.
    opaque_primitives.add(name)
  return 1


def _count_product(equation: core.JaxprEqn) -> float:
  """Returns the FLOPs of a `dot_general`."""
  (contracted, _), _ = equation.params["dimension_numbers"]
  factor = equation.invars[0].aval
  depth = math.prod(factor.shape[axis] for axis in contracted)
  return 2.0 * depth * equation.outvars[0].aval.size


def _count_convolution(equation: core.JaxprEqn) -> float:
  """Returns the FLOPs of a `conv_general_dilated`."""
  kernel = equation.invars[1].aval
  # Every output sums over the kernel of its own output feature; the kernel
  # holds the input features of one group alone.
  out_axis = equation.params["dimension_numbers"].rhs_spec[0]
  return (
    2.0 * equation.outvars[0].aval.size * (kernel.size / kernel.shape[out_axis])
  )


def _count_attention(equation: core.JaxprEqn) -> float:
  """Returns the FLOPs of attention that is one program of cuDNN.

  All pairs of tokens count, also those that a mask leaves out, as they do in
  plain products.
  """
  query, key = (invar.aval for invar in equation.invars[:2])
  # [B, L, H, E], or [B, H, L, E] where `layout` says so: then the size of a
  # query, and the tokens of the keys, lie elsewhere.
  tokens_axis = 1 if equation.params["layout"] == 0 else 2
  return 4.0 * query.size * key.shape[tokens_axis]
