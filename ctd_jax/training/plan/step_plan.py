"""A training step compiled ahead of time, and what it will need.

Nothing is run, and neither data nor weights are read: shapes are enough.

Axes: B queries in the global batch, H hard negatives a query, P packs.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import ml_collections
import numpy as np

from ctd_jax.chronology.timelines import Timeline
from ctd_jax.models import packing
from ctd_jax.models.encoders import attention, layer_stack
from ctd_jax.models.pretrained.geometry import EncoderConfig
from ctd_jax.training import (
  optimizer,
  partitioning,
  row_shapes,
  train_step,
)
from ctd_jax.training.objective import Objective
from ctd_jax.training.plan import collectives
from ctd_jax.training.plan.collectives import Traffic
from ctd_jax.training.plan.workload import Workload
from ctd_jax.training.speed.model_flops import UpdateFlops, count_flops
from ctd_jax.training.train_step import TrainState, TrainStep

LARGEST_BATCH = 2**16  # queries; beyond it nobody looks for one that fits
_BATCH_PRECISION = 1.1  # between the largest that fits and the next
_LARGEST_STEP = 8  # from one batch that is tried to the next


@dataclasses.dataclass(frozen=True)
class StepPlan:
  """What a step needs; bytes are those of one device.

  Attributes:
    batch_size: queries, B.
    texts: of the batch.
    tokens: of its texts.
    packed_shape: packs, rows of a pack, columns.
    arguments: bytes of state and batch.
    temporaries: bytes.
    outputs: bytes that do not take the place of arguments.
    code: bytes of the program.
    state: bytes of parameters and moments, part of the arguments.
    model_flops: over all devices, see `model_flops`.
    computed_flops: of all products, recomputed ones among them.
    traffic: by the kind of collective.
    compile_seconds: tracing and compiling.
  """

  batch_size: int
  texts: int
  tokens: int
  packed_shape: tuple[int, int, int]
  arguments: int
  temporaries: int
  outputs: int
  code: int
  state: int
  model_flops: float
  computed_flops: float
  traffic: Mapping[str, Traffic]
  compile_seconds: float

  @property
  def memory(self) -> int:
    """Bytes that a device needs."""
    return self.arguments + self.temporaries + self.outputs + self.code

  @property
  def sent_bytes(self) -> float:
    """Bytes that a device sends."""
    return sum(traffic.sent_bytes for traffic in self.traffic.values())


def plan_step(
  config: ml_collections.ConfigDict,
  workload: Workload,
  mesh: jax.sharding.Mesh,
  platform: str | None = None,
) -> StepPlan:
  """Returns the plan of a step of a config, which is compiled for a mesh.

  Devices that stand in for those of the run have no kernel of theirs: attention
  is by plain products then, of rows as the run has them, and layers are scanned
  for the memory.

  Args:
    config: validated.
    workload: texts are as long as it says.
    mesh: of devices that need not be there.
    platform: of the devices of the run; None = that of the mesh.

  Raises:
    ValueError: if the batch does not divide into packs.
    MemoryError: if the compiler says that the memory does not suffice.
  """
  start_time = time.perf_counter()
  mesh_platform = mesh.devices.flat[0].platform
  platform = platform or mesh_platform
  encoder = compiled_encoder = workload.encoder
  if platform != mesh_platform:
    kept = encoder.kept_activations
    if kept == layer_stack.AUTO:
      kept = layer_stack.PRODUCTS
    encoder = dataclasses.replace(
      encoder, attention=attention.PLAIN, kept_activations=kept
    )
    # Unrolled for a processor, a program computes nothing again.
    compiled_encoder = dataclasses.replace(encoder, scan_layers=True)
  batch = _abstract_batch(config, workload, mesh, platform)
  make_step = functools.partial(_make_step, config, workload.timeline, mesh)
  objective, state, update = make_step(encoder)
  traced = update.trace(state, batch)
  compiled_step = traced
  if compiled_encoder != encoder:
    _, compiled_state, update = make_step(compiled_encoder)
    compiled_step = update.trace(compiled_state, batch)
  compiled = _compile(compiled_step.lower().compile)
  memory = compiled.memory_analysis()
  state_bytes = _count_device_bytes(state)
  # Not every backend says that outputs take the place of the old state, which
  # is given up.
  shared_bytes = max(memory.alias_size_in_bytes, state_bytes)
  sizes = [workload.query_tokens, workload.record_tokens]
  texts_per_query = 2 + sum(config.negatives.values())
  return StepPlan(
    batch_size=config.batch_size,
    texts=config.batch_size * texts_per_query,
    tokens=config.batch_size * (sizes[0] + sizes[1] * (texts_per_query - 1)),
    packed_shape=batch["texts"].ids.shape,
    arguments=memory.argument_size_in_bytes,
    temporaries=memory.temp_size_in_bytes,
    outputs=max(0, memory.output_size_in_bytes - shared_bytes),
    code=memory.generated_code_size_in_bytes,
    state=state_bytes,
    model_flops=UpdateFlops(
      objective.compute_loss, state.params, state.frozen
    ).count(batch),
    computed_flops=count_flops(traced.jaxpr.jaxpr, set()),
    traffic=collectives.read_traffic(compiled.as_text(), mesh.size),
    compile_seconds=time.perf_counter() - start_time,
  )


def _make_step(
  config: ml_collections.ConfigDict,
  timeline: Timeline,
  mesh: jax.sharding.Mesh,
  encoder: EncoderConfig,
) -> tuple[Objective, TrainState, TrainStep]:
  """Returns the objective, the abstract state and the step of an encoder."""
  model = train_step.make_model(config.model, encoder, timeline)
  adam = optimizer.make_optimizer(
    config.optimizer,
    10,  # any number of updates
    config.accumulate_steps,
  )
  objective = Objective.from_config(config, model, mesh)
  return (
    objective,
    train_step.abstract_state(model, adam, mesh),
    train_step.make_train_step(objective, adam, config.seed),
  )


def _compile(compile_step: Callable[[], Any]) -> Any:
  """Returns what is compiled; too little memory is a MemoryError."""
  try:
    return compile_step()
  except jax.errors.JaxRuntimeError as error:
    if "RESOURCE_EXHAUSTED" not in str(error):
      raise
    raise MemoryError(str(error).splitlines()[0]) from error


def _count_device_bytes(tree: Any) -> int:
  """Returns the bytes of abstract arrays that lie on one device."""
  return sum(
    math.prod(leaf.sharding.shard_shape(leaf.shape)) * leaf.dtype.itemsize
    for leaf in jax.tree.leaves(tree)
  )


def _abstract_batch(
  config: ml_collections.ConfigDict,
  workload: Workload,
  mesh: jax.sharding.Mesh,
  platform: str,
) -> dict[str, Any]:
  """Returns shapes, types and shardings of a batch of equally long texts.

  Its arrays are those of `input_pipeline.training_batches`.
  """
  size, negatives = config.batch_size, sum(config.negatives.values())
  packs = partitioning.count_batch_shards(mesh) * config.encode_chunks
  if size % packs:
    raise ValueError(
      f"config.batch_size={size} does not divide into {packs} packs: "
      "config.encode_chunks of them on each device that splits the batch"
    )
  lengths = [workload.query_tokens] + [workload.record_tokens] * (1 + negatives)
  width = packing.row_width(
    max(config.query_length, config.record_length), workload.encoder.max_length
  )
  widths = packing.row_widths(
    width, workload.encoder.max_length, row_shapes.width_multiple(platform)
  )
  # All packs are alike, and so are all batches.
  shape, _ = row_shapes.choose_shapes(
    [np.array([lengths] * (size // packs))], 1, widths
  )
  places = shape.texts
  if row_shapes.count_unit_packs(packs * places, packs) > 1:
    places = row_shapes.count_places(places, packs * places)
  array = functools.partial(
    jax.ShapeDtypeStruct, sharding=partitioning.batch_sharding(mesh)
  )
  packed_shape = packs, shape.rows, shape.width
  class_counts = workload.timeline.class_counts
  return {
    "texts": packing.PackedTexts(
      ids=array(packed_shape, np.int32),
      segments=array(packed_shape, np.int32),
      slots=array((packs, places), np.int32),
    ),
    "text_order": array((len(lengths) * size,), np.int32),
    "query_ends": array((size, 2), np.int32),
    **{
      f"query_{name}": array((size, count), np.float32)
      for name, count in zip(
        ("reign", "year", "month"), class_counts, strict=True
      )
    },
    "positive_month": array((size,), np.int32),
    "positive_classes": array((size, 3), np.int32),
    "negative_month": array((size * negatives,), np.int32),
    "negative_answers": array((size * negatives,), bool),
  }


def find_largest_batch(
  first_batch: int,
  unit: int,
  limit: float,
  count_bytes: Callable[[int], float],
) -> int:
  """Returns the largest batch that fits, or one at most a tenth smaller.

  Args:
    first_batch: to begin with, a multiple of `unit`.
    unit: that batches are multiples of.
    limit: bytes of a device.
    count_bytes: returns the bytes that a batch needs, more for a larger one;
      infinite where they are not known.

  Returns:
    A multiple of the unit; 0 if not even the unit itself fits, `LARGEST_BATCH`
    or a little less if that fits.
  """
  low, high = 0, LARGEST_BATCH // unit * unit + unit
  batch = min(first_batch, high - unit)
  points: list[tuple[int, float]] = []  # batches that a line is drawn through
  while low < batch < high:
    size = count_bytes(batch)
    if math.isfinite(size):
      points.append((batch, size))
    if size <= limit:
      low = batch
    else:
      high = batch
    if low and high <= max(_BATCH_PRECISION * low, low + unit):
      break
    batch = _choose_batch(low, high, unit, _cross_limit(points, limit))
  return low


def _cross_limit(
  points: Sequence[tuple[int, float]], limit: float
) -> float | None:
  """Returns the batch at which a line meets the limit, None without one.

  The line goes through the two points that are nearest to it.
  """
  nearest = sorted(points, key=lambda point: abs(point[1] - limit))[:2]
  if len(nearest) < 2 or nearest[0][1] == nearest[1][1]:
    return None
  (batch, size), (other_batch, other_size) = nearest
  slope = (size - other_size) / (batch - other_batch)
  return batch + (limit - size) / slope


def _choose_batch(low: int, high: int, unit: int, guess: float | None) -> int:
  """Returns the next batch to try.

  It is a tenth off what is known at least, so that its answer may be the last,
  and eight times at most.

  Args:
    low: largest that fits, 0 = none yet.
    high: smallest that does not.
    unit: that batches are multiples of.
    guess: where the limit may be; None = not known.
  """
  if guess is None:
    guess = 2 * low if low else high / 2
  lowest = max(low + unit, int(_BATCH_PRECISION * low) // unit * unit)
  highest = -(-int(high / _BATCH_PRECISION) // unit) * unit
  if low:
    highest = min(highest, _LARGEST_STEP * low)
  else:
    lowest = max(lowest, high // _LARGEST_STEP // unit * unit)
  batch = min(max(int(guess) // unit * unit, lowest), highest)
  return min(max(batch, low + unit), high - unit)
