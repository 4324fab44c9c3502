"""Optimizer of a run: learning rate schedule, and optax by parameter group.

Norms, biases and the scalar gates are not decayed, and the temporal modules,
which start from nothing, may learn faster than the encoder.

Source: the published recipe (linear warm-up over a tenth of the updates, linear
decay to 0, weight decay 0.01); the parameter groups are ours.
"""

import functools
import inspect
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import ml_collections
import optax

from ctd_jax.models.dual_encoder import ENCODER, QUERY_ENCODER
from ctd_jax.models.encoders.layers import SCANNED

TEMPORAL = "temporal"
FIXED = "fixed"  # validation chooses it, or nothing changes it
_CHOSEN = (("gaussian", "weight"),)  # paths of parameters without a gradient


def learning_rate_schedule(
  peak: float, total_steps: int, warmup_fraction: float, name: str = "linear"
) -> optax.Schedule:
  """Returns the learning rate by update: 0 -> peak, linear, then as named.

  Args:
    name: "linear" or "cosine" to 0, or "constant".
  """
  warmup = int(warmup_fraction * total_steps)  # updates
  if name == "cosine":
    decay = optax.schedules.cosine_decay_schedule(
      peak, max(total_steps - warmup, 1)
    )
  else:
    end = peak if name == "constant" else 0.0
    decay = optax.schedules.linear_schedule(peak, end, total_steps - warmup)
  return optax.schedules.join_schedules(
    [
      # A ramp of no updates divides by zero, even where it is never read.
      optax.schedules.linear_schedule(0.0, peak, max(warmup, 1)),
      decay,
    ],
    boundaries=[warmup],
  )


def decay_mask(params: Mapping[str, Any], kind: str = "matrices") -> Any:
  """Returns True for every parameter that weight decay applies to.

  Args:
    kind: "matrices" = matrices and embeddings, but no bias, norm or scalar (the
      gate of the context, the scale of the offset bias); an axis over scanned
      layers does not turn a bias into a matrix. "release" = all but biases and
      the scales of LayerNorm, which have a bias next to them: the scales of
      RMSNorm and the scalars are decayed.

  Source: released code, optimizer; "matrices" repairs it.
  """
  names = {
    tuple(entry.key for entry in path)
    for path, _ in jax.tree_util.tree_leaves_with_path(params)
  }

  def is_decayed(path: tuple[Any, ...], value: jax.Array) -> bool:
    *module, name = (entry.key for entry in path)
    if kind == "release":
      # RMSNorm has a scale alone, LayerNorm a bias beside it.
      layer_norm = name == "scale" and (*module, "bias") in names
      return "bias" not in name and not layer_norm
    # A scan stacks its layers: a bias then has two axes, a matrix three.
    return value.ndim - (SCANNED in module) > 1

  return jax.tree_util.tree_map_with_path(is_decayed, params)


def label_parameter_groups(
  params: Mapping[str, Any], freeze_encoder: bool = False
) -> Any:
  """Returns `encoder`, `temporal` or `fixed` for every parameter."""

  def find_group(path: tuple[Any, ...], _: jax.Array) -> str:
    if path[0].key in (ENCODER, QUERY_ENCODER):
      return FIXED if freeze_encoder else ENCODER
    is_chosen = tuple(entry.key for entry in path) in _CHOSEN
    return FIXED if is_chosen else TEMPORAL

  return jax.tree_util.tree_map_with_path(find_group, params)


def make_optimizer(
  section: ml_collections.ConfigDict,
  total_updates: int,
  accumulate_steps: int = 1,
) -> optax.GradientTransformation:
  """Returns the clipped optimizer, with a learning rate for each group.

  Args:
    section: `config.optimizer`.
    total_updates: number of updates of the whole run; without any nothing is
      kept for them, which would be twice the parameters.
    accumulate_steps: steps of which an update has the mean gradient, summed in
      fp32 and clipped as one; the other steps change no parameter.
  """
  if not total_updates:
    return optax.set_to_zero()
  mask = functools.partial(decay_mask, kind=section.decay)

  make = getattr(optax, section.name)
  options = {}
  # The second moment stays in fp32: an update moves it by a thousandth, which
  # bf16 would round away.
  if "mu_dtype" in inspect.signature(make).parameters:
    options["mu_dtype"] = jnp.dtype(section.moment_dtype)

  def make_group(factor: float) -> optax.GradientTransformation:
    schedule = learning_rate_schedule(
      section.learning_rate * factor,
      total_updates,
      section.warmup_fraction,
      section.schedule,
    )
    return make(
      schedule, weight_decay=section.weight_decay, mask=mask, **options
    )

  groups = {
    ENCODER: make_group(1.0),
    TEMPORAL: make_group(section.temporal_rate_factor),
    FIXED: optax.set_to_zero(),
  }
  update = optax.partition(
    groups,
    functools.partial(
      label_parameter_groups, freeze_encoder=section.freeze_encoder
    ),
  )
  if section.clip_norm:
    update = optax.chain(optax.clip_by_global_norm(section.clip_norm), update)
  if accumulate_steps > 1:
    steps = optax.MultiSteps(update, accumulate_steps)
    return steps.gradient_transformation()
  return update
