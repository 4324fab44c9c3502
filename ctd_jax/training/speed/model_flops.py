"""Model FLOPs: the matrix products of a loss and its gradient, by its jaxpr.

The cost analysis of a compiled function counts the body of a loop once, and
what the compiler added besides. Here a product counts as often as the model
asks for it; what the backward pass computes again does not count.

The gradient of a product has a product for each factor that depends on what is
trained: two in most of a model, one where a frozen matrix meets activations
behind an adapter, none in a frozen encoder.

Source: Kaplan et al. 2020, "Scaling Laws for Neural Language Models", section
  2.1, where all factors depend on it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from absl import logging
from jax.extend import core

from ctd_jax.models.encoders import lora

# Programs of other compilers, whose products no jaxpr shows.
_OPAQUE_PRIMITIVES = ("custom_call", "ffi_call", "tpu_custom_call")
_STOP_GRADIENT = "stop_gradient"


class UpdateFlops:
  """FLOPs of an update of a loss, by the shapes of the batch."""

  def __init__(
    self, compute_loss: Callable[..., Any], params: Any, frozen: Any = None
  ):
    """Counts nothing yet.

    Args:
      compute_loss: `(params, batch, dropout key) -> loss`, or more than it.
      params: parameters that are trained, or their shapes.
      frozen: the others, which the loss reads with them; None = there are none.
    """
    self._compute_loss = compute_loss
    self._params = _to_shapes(params)
    self._frozen = _to_shapes(frozen)
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
      opaque_primitives: set[str] = set()
      self._counts[key] = self._count_shapes(shapes, opaque_primitives)
      if new_names := opaque_primitives - self._opaque_primitives:
        self._opaque_primitives |= new_names
        logging.warning(
          "model FLOPs do not have what is in %s",
          ", ".join(sorted(new_names)),
        )
    return self._counts[key]

  def _count_shapes(self, batch: Any, opaque_primitives: set[str]) -> float:
    """Returns the FLOPs of an update on a batch of shapes."""

    def compute_loss(params, frozen, batch, key):
      if frozen:
        params = lora.join_params(frozen, params)
      return self._compute_loss(params, batch, key)

    jaxpr = jax.make_jaxpr(compute_loss)(
      self._params, self._frozen, batch, jax.random.key(0)
    ).jaxpr
    num_trained = len(jax.tree.leaves(self._params))
    is_trained = [k < num_trained for k in range(len(jaxpr.invars))]
    return count_flops(jaxpr, opaque_primitives, is_trained)


def count_flops(
  jaxpr: core.Jaxpr,
  opaque_primitives: set[str],
  is_trained: Sequence[bool] | None = None,
) -> float:
  """Returns the FLOPs of the products and convolutions of a jaxpr.

  A multiplication and an addition are two. What is computed elementwise does
  not count.

  Args:
    jaxpr: of a function.
    opaque_primitives: gets the names of what may hold products that are not
      counted, or not all of them.
    is_trained: by which of its arguments its gradient is counted as well; None
      = by none.
  """
  flags = is_trained or [False] * len(jaxpr.invars)
  flops, _ = _count_jaxpr(jaxpr, flags, opaque_primitives)
  return flops


def _count_jaxpr(
  jaxpr: core.Jaxpr, is_trained: Sequence[bool], opaque_primitives: set[str]
) -> tuple[float, list[bool]]:
  """Returns the FLOPs of a jaxpr, and which results depend on the trained."""
  trained = {
    var
    for var, flag in zip(jaxpr.invars, is_trained, strict=True)
    if flag and _is_differentiable(var)
  }

  def depends(var: Any) -> bool:
    return isinstance(var, core.Var) and var in trained  # or a literal

  total = 0.0
  for equation in jaxpr.eqns:
    flops, flags = _count_equation(
      equation, [depends(var) for var in equation.invars], opaque_primitives
    )
    total += flops
    trained.update(
      var
      for var, flag in zip(equation.outvars, flags, strict=True)
      if flag and _is_differentiable(var)
    )
  return total, [depends(var) for var in jaxpr.outvars]


def _is_differentiable(var: core.Var) -> bool:
  # A reference of a kernel has the type of what it refers to, a token none.
  dtype = getattr(var.aval, "dtype", None)
  return dtype is not None and jnp.issubdtype(dtype, jnp.inexact)


def _count_equation(
  equation: core.JaxprEqn, flags: Sequence[bool], opaque_primitives: set[str]
) -> tuple[float, list[bool]]:
  """Returns the FLOPs of an equation, and which results depend on the trained.

  Args:
    equation: of a jaxpr.
    flags: which of its arguments do.
    opaque_primitives: see `count_flops`.
  """
  name = equation.primitive.name
  outputs = [any(flags) and name != _STOP_GRADIENT] * len(equation.outvars)
  if name == "dot_general":
    return _count_product(equation) * (1 + sum(flags)), outputs
  if name == "conv_general_dilated":
    return _count_convolution(equation) * (1 + sum(flags)), outputs
  if name.startswith("dot_product_attention_fwd"):
    return _count_attention(equation, flags), outputs
  if name in _OPAQUE_PRIMITIVES:
    opaque_primitives.add(name)
  if name in ("scan", "while"):
    flops, outputs = _count_loop(equation, flags, opaque_primitives)
  else:
    flops, outputs = _count_bodies(equation, flags, outputs, opaque_primitives)
  if flops:
    flops *= _count_repeats(equation, opaque_primitives)
  return flops, outputs


def _count_bodies(
  equation: core.JaxprEqn,
  flags: Sequence[bool],
  outputs: Sequence[bool],
  opaque_primitives: set[str],
) -> tuple[float, list[bool]]:
  """Returns the FLOPs of the bodies of an equation, and its flags, likewise.

  Args:
    equation: no loop.
    flags: see `_count_equation`.
    outputs: its flags where no body says them.
    opaque_primitives: see `count_flops`.
  """
  name = equation.primitive.name
  if name == "cond":
    flags = flags[1:]  # behind the number of the branch
  counts, branches = [], []
  for body in _list_bodies(equation.params):
    # Kernels have arguments of their own.
    is_plain = len(body.invars) == len(flags)
    body_flags = flags if is_plain else [any(flags)] * len(body.invars)
    flops, results = _count_jaxpr(body, body_flags, opaque_primitives)
    counts.append(flops)
    if len(results) == len(outputs):
      branches.append(results)
  if branches:
    outputs = [any(column) for column in zip(*branches, strict=True)]
  total = max(counts) if name == "cond" else sum(counts, 0.0)
  return total, list(outputs)


def _count_loop(
  equation: core.JaxprEqn, flags: Sequence[bool], opaque_primitives: set[str]
) -> tuple[float, list[bool]]:
  """Returns the FLOPs of one round of a loop, and its flags, likewise."""
  params, condition_flops = equation.params, 0.0
  if equation.primitive.name == "scan":
    body = params["jaxpr"].jaxpr
    num_consts, num_carry = _count_scan_arguments(equation, body)
  else:
    num_condition = params["cond_nconsts"]
    condition = params["cond_jaxpr"].jaxpr
    condition_flops = count_flops(condition, opaque_primitives)
    body, num_consts = params["body_jaxpr"].jaxpr, params["body_nconsts"]
    flags = flags[num_condition:]
    num_carry = len(flags) - num_consts
  flags, carry = list(flags), slice(num_consts, num_consts + num_carry)
  while True:
    flops, outputs = _count_jaxpr(body, flags, opaque_primitives)
    # What is carried depends on what any round before depends on.
    merged = [a or b for a, b in zip(flags[carry], outputs, strict=False)]
    if merged == flags[carry]:
      return condition_flops + flops, outputs
    flags[carry] = merged


def _count_scan_arguments(
  equation: core.JaxprEqn, body: core.Jaxpr
) -> tuple[int, int]:
  """Returns how many arguments of a scan are constant, and how many carried.

  What is scanned over, or stacked, has an axis more outside than in the body;
  parameters that say so have other names in each release of JAX.
  """

  def count_equal(outside: Sequence[Any], inside: Sequence[Any]) -> int:
    return sum(
      a.aval.ndim == b.aval.ndim for a, b in zip(outside, inside, strict=True)
    )

  num_carry = count_equal(equation.outvars, body.outvars)
  return count_equal(equation.invars, body.invars) - num_carry, num_carry


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


def _count_attention(equation: core.JaxprEqn, flags: Sequence[bool]) -> float:
  """Returns the FLOPs of attention that is one program of cuDNN.

  All pairs of tokens count, also those that a mask leaves out, as they do in
  plain products.
  """
  query, key = (invar.aval for invar in equation.invars[:2])
  # [B, L, H, E], or [B, H, L, E] where `layout` says so: then the size of a
  # query, and the tokens of the keys, lie elsewhere.
  tokens_axis = 1 if equation.params["layout"] == 0 else 2
  product = 2.0 * query.size * key.shape[tokens_axis]
  # Of queries and keys, then of its weights and values.
  weights = any(flags[:2])
  return product * (1 + sum(flags[:2])) + product * (1 + weights + flags[2])
