"""Plan of a run on devices you do not have: memory, FLOPs, traffic, time.

The step is compiled ahead of time and not run. It needs shapes only, neither
data nor weights.

Axes: B queries in the global batch, H hard negatives a query, P packs.
"""

import collections
import dataclasses
import functools
import importlib.metadata
import math
import os
import pathlib
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import huggingface_hub
import jax
import ml_collections
import numpy as np
from jax.experimental import topologies

from ctd_jax.benchmark import variants
from ctd_jax.chronology.reigns import Timeline
from ctd_jax.models import packing
from ctd_jax.models.encoders import attention, layers
from ctd_jax.models.encoders.bert import BertConfig
from ctd_jax.models.pretrained import folders
from ctd_jax.models.pretrained.folders import EncoderConfig
from ctd_jax.training import backbone, devices, optimizer, speed, train_step
from ctd_jax.training import config as training_config
from ctd_jax.training import packing as packing_lib
from ctd_jax.training.objective import Objective
from ctd_jax.training.speed import CPU, GPU, TPU
from ctd_jax_datasets import build, load
from ctd_jax_datasets.common import beir

# NVLink joins eight GPUs in NVIDIA's own nodes. Between nodes each GPU has a
# network adapter of 400 Gb/s (DGX H100 data sheet), 50 x 10^9 bytes a second.
_GPUS_PER_NODE, _NETWORK = 8, 50
# JAX takes three quarters of a GPU by default (XLA_PYTHON_CLIENT_MEM_FRACTION
# in its page on GPU memory), and all of a TPU.
_GPU_MEMORY_SHARE = 0.75
_LARGEST_BATCH = 2**16  # queries; nobody looks for a larger one
_LEAST_BYTES = 1024  # smaller sizes get no line
_COLLECTIVES = (
  "all-gather",
  "all-reduce",
  "all-to-all",
  "collective-permute",
  "reduce-scatter",
)


class Topology(NamedTuple):
  """Devices of a run."""

  name: str  # as given, which is also libtpu's name, e.g. v5e:4x4
  device: speed.Device
  num_devices: int  # JAX devices, not chips

  @property
  def memory(self) -> float | None:
    """Bytes of a device; None if unknown."""
    return self.device.memory and self.device.memory * 1e9

  @property
  def link(self) -> float | None:
    """Speed from a device to the others in one direction, 10^9 bytes/s."""
    is_gpu = self.device.platform == GPU
    if is_gpu and self.num_devices > _GPUS_PER_NODE:
      return _NETWORK
    return self.device.link


def parse_topology(text: str) -> Topology:
  """Returns the topology of a name such as h100:8, v5e:4x4 or cpu:8."""
  name, _, shape = text.partition(":")
  known = {device.name: device for device in speed.list_devices()}
  known.pop(None, None)  # runs are not planned for these
  if name not in known:
    raise ValueError(
      f"--topology={text}: unknown device {name!r}; expected one of "
      f"{', '.join(known)}"
    )
  pattern, example = r"[1-9]\d*", f"{name}:8"
  if known[name].platform == TPU:
    # Chips of v5e and v6e form a plane, others a block.
    axes = 2 if name in ("v5e", "v6e") else 3
    pattern = "x".join([pattern] * axes)
    example = f"{name}:4x4" if axes == 2 else f"{name}:2x2x1"
  if not re.fullmatch(pattern, shape):
    raise ValueError(f"--topology={text}: expected e.g. {example}")
  chips = math.prod(map(int, shape.split("x")))
  return Topology(text, known[name], chips * known[name].per_chip)


class Workload(NamedTuple):
  """Model and texts of a planned step; all texts of a side are equally long."""

  encoder: EncoderConfig
  timeline: Timeline
  query_tokens: int
  record_tokens: int


def read_workload(
  config: ml_collections.ConfigDict,
  query_tokens: int | None = None,
  record_tokens: int | None = None,
  vocab_size: int = 8000,
) -> Workload:
  """Returns the workload of a config; its data set need not be built.

  Args:
    query_tokens: tokens of every query; None = config.query_length.
    record_tokens: tokens of every record; None = config.record_length.
    vocab_size: vocabulary size of an encoder made from scratch.
  """
  lengths = []
  for side, tokens in (("query", query_tokens), ("record", record_tokens)):
    longest = config[f"{side}_length"]
    lengths.append(longest if tokens is None else tokens)
    if not 1 <= lengths[-1] <= longest:
      raise ValueError(
        f"--{side}_tokens={tokens}: expected 1 to {longest}, which is "
        f"config.{side}_length"
      )
  fields, source_fields = backbone.split_encoder_fields(config.model)
  if source_fields["source"]:
    encoder = _read_geometry(source_fields["source"], fields)
  else:
    encoder = BertConfig(vocab_size, **fields)
  if config.dataset.startswith(beir.BEIR_PREFIX):
    timeline = load.load_benchmark(config.dataset).timeline
  else:
    builder = build.make_builder(
      variants.parse_name(config.dataset)[0], config.data_dir
    )
    timeline = builder.timeline
  return Workload(encoder, timeline, *lengths)


def _read_geometry(source: str, fields: Mapping[str, Any]) -> EncoderConfig:
  folder = pathlib.Path(source).expanduser()
  try:
    if not folder.is_dir() and folders.is_hub_id(source):
      # Not the weights, which may take gigabytes.
      path = huggingface_hub.hf_hub_download(source, folders.CONFIG_FILE)
      folder = pathlib.Path(path).parent
    return folders.read_encoder_config(folder, **fields)
  except ValueError:
    raise
  except Exception as error:  # network, proxy and hub errors share no base
    raise FileNotFoundError(
      f"config.model.encoder.source: {source} is not a folder here, nor a "
      f"model of the hub ({type(error).__name__}); name a folder with "
      f"{folders.CONFIG_FILE}: --config.model.encoder.source=FOLDER"
    ) from error


def find_devices(topology: Topology) -> tuple[Sequence[jax.Device], str]:
  """Returns the devices to compile for, and what compiles, in words.

  Call it before JAX is used.

  TPUs need libtpu, GPUs those of this machine. Otherwise as many processors
  stand in.
  """
  count, platform = topology.num_devices, topology.device.platform
  jax.config.update("jax_num_cpu_devices", count)
  if platform == GPU:
    try:
      gpus = jax.devices("gpu")
    except RuntimeError:  # no such backend
      gpus = []
    gpus = [
      g for g in gpus if speed.find_device(g.device_kind) is topology.device
    ]
    if len(gpus) >= count:
      return gpus[:count], "XLA for its GPUs"
    missing = f"this machine has {len(gpus)} {topology.device.name} of {count}"
  else:
    # Looking for a TPU takes minutes, and none is needed.
    jax.config.update("jax_platforms", CPU)
    if platform == CPU:
      return jax.devices(CPU), "XLA for processors"
    try:
      version = importlib.metadata.version("libtpu")
      return _describe_tpus(topology), f"libtpu {version}"
    except importlib.metadata.PackageNotFoundError:
      missing = "libtpu is not installed (pip install 'ctd_jax[tpu]')"
  return (
    jax.devices(CPU)[:count],
    f"XLA for {count} processors, because {missing}",
  )


def _describe_tpus(topology: Topology) -> Sequence[jax.Device]:
  # Without these libtpu asks the metadata server of a TPU machine and waits.
  os.environ.setdefault("TPU_SKIP_MDS_QUERY", "1")
  os.environ.setdefault("TPU_WORKER_HOSTNAMES", "localhost")
  os.environ.setdefault("TPU_ACCELERATOR_TYPE", "v5litepod-8")
  options: dict[str, Any] = {}
  if topology.device.name == "v4":  # its two cores are one device
    options["chip_config_name"] = "megacore"
  if topology.num_devices == topology.device.per_chip:
    # One chip; hosts have four by default.
    options["chips_per_host_bounds"] = (1, 1, 1)
  try:
    return topologies.get_topology_desc(
      topology.name, platform=TPU, **options
    ).devices
  except jax.errors.JaxRuntimeError as error:
    raise ValueError(
      f"--topology={topology.name}: libtpu refuses it: "
      f"{str(error).splitlines()[0]}"
    ) from error


class Traffic(NamedTuple):
  """Collectives of one kind in a step."""

  calls: int
  sent_bytes: float  # at most, by one device


@dataclasses.dataclass(frozen=True)
class StepPlan:
  """Needs of a step; bytes are those of one device."""

  batch_size: int  # queries, B
  texts: int
  tokens: int
  packed_shape: tuple[int, int, int]  # packs, rows of a pack, columns
  # State (parameters and moments), batch, temporaries, outputs that do not
  # replace arguments, program.
  sizes: Mapping[str, int]
  model_flops: float | None  # over all devices, see `speed.ModelFlops`
  computed_flops: float | None  # with what is computed again
  traffic: Mapping[str, Traffic]  # by kind of collective
  compile_seconds: float

  @property
  def memory(self) -> int:
    """Bytes that a device needs."""
    return sum(self.sizes.values())

  @property
  def sent_bytes(self) -> float:
    """Bytes that a device sends at most."""
    return sum(traffic.sent_bytes for traffic in self.traffic.values())


def plan_step(
  config: ml_collections.ConfigDict,
  workload: Workload,
  mesh: jax.sharding.Mesh,
  platform: str | None = None,
) -> StepPlan:
  """Returns the plan of a step, compiled for the devices of a mesh.

  Args:
    mesh: mesh of devices that may stand in for others.
    platform: platform of the run's devices; None = that of the mesh.
  """
  start_time = time.perf_counter()
  mesh_platform = mesh.devices.flat[0].platform
  platform = platform or mesh_platform
  encoder = workload.encoder
  if platform != mesh_platform:
    # CPUs that stand in do not have the kernels of the devices. Layers are
    # scanned: an unrolled program for a processor computes nothing again, and
    # so needs more memory than the run will.
    kept = encoder.kept_activations
    encoder = dataclasses.replace(
      encoder,
      attention=attention.PLAIN,
      kept_activations=layers.PRODUCTS if kept == layers.AUTO else kept,
      scan_layers=True,
    )
  batch = _abstract_batch(config, workload, mesh, platform)
  model = train_step.make_model(config.model, encoder, workload.timeline)
  adam = optimizer.make_optimizer(
    config.optimizer,
    10,  # any number of updates: the step is the same
    config.accumulate_steps,
  )
  objective = Objective.from_config(config, model, mesh)
  state = train_step.abstract_state(model, adam, mesh)
  update = train_step.make_train_step(objective, adam, config.seed)
  try:
    compiled = update.lower(state, batch).compile()
  except jax.errors.JaxRuntimeError as error:
    if "RESOURCE_EXHAUSTED" not in str(error):
      raise
    raise MemoryError(str(error).splitlines()[0]) from error
  memory = compiled.memory_analysis()
  state_bytes = sum(
    math.prod(leaf.sharding.shard_shape(leaf.shape)) * leaf.dtype.itemsize
    for leaf in jax.tree.leaves(state)
  )
  # The old state is donated, which not every backend reports.
  shared_bytes = max(memory.alias_size_in_bytes, state_bytes)
  texts_per_query = 2 + sum(config.negatives.values())
  flops = speed.ModelFlops(objective)
  return StepPlan(
    batch_size=config.batch_size,
    texts=config.batch_size * texts_per_query,
    tokens=config.batch_size
    * (workload.query_tokens + workload.record_tokens * (texts_per_query - 1)),
    packed_shape=batch["texts"].ids.shape,
    sizes={
      "state": state_bytes,
      "batch": memory.argument_size_in_bytes - state_bytes,
      "temporaries": memory.temp_size_in_bytes,
      "outputs": max(0, memory.output_size_in_bytes - shared_bytes),
      "program": memory.generated_code_size_in_bytes,
    },
    model_flops=flops.count(batch),
    computed_flops=flops.count_computed(batch),
    traffic=read_traffic(compiled.as_text(), mesh.size),
    compile_seconds=time.perf_counter() - start_time,
  )


def _abstract_batch(
  config: ml_collections.ConfigDict,
  workload: Workload,
  mesh: jax.sharding.Mesh,
  platform: str,
) -> dict[str, Any]:
  """Returns shapes and shardings of what `training_batches` yields."""
  size, negatives = config.batch_size, sum(config.negatives.values())
  packs = devices.count_batch_shards(mesh) * config.encode_chunks
  if size % packs:
    raise ValueError(
      f"config.batch_size={size} does not divide into {packs} packs: "
      "config.encode_chunks of them on each device that splits the batch"
    )
  lengths = [workload.query_tokens] + [workload.record_tokens] * (1 + negatives)
  max_length = workload.encoder.max_length
  longest = max(config.query_length, config.record_length)
  widths = packing.row_widths(
    packing.row_width(longest, max_length),
    max_length,
    packing_lib.width_multiple(platform),
  )
  # All packs are alike, and so are all batches.
  shape, _ = packing_lib.choose_shapes(
    [np.array([lengths] * (size // packs))], 1, widths
  )
  places = shape.texts
  if packing_lib.count_unit_packs(packs * places, packs) > 1:
    places = packing_lib.count_places(places, packs * places)
  array = functools.partial(
    jax.ShapeDtypeStruct, sharding=devices.batch_sharding(mesh)
  )
  packed_shape = packs, shape.rows, shape.width
  reigns, years, months = workload.timeline.class_counts
  records = (1 + negatives) * size
  teacher = {"teacher": array((size, records), np.float32)}
  return {
    **(teacher if config.loss.teacher else {}),
    "texts": packing.PackedTexts(
      ids=array(packed_shape, np.int32),
      segments=array(packed_shape, np.int32),
      slots=array((packs, places), np.int32),
    ),
    "text_order": array((len(lengths) * size,), np.int32),
    "query_ends": array((size, 2), np.int32),
    "query_reign": array((size, reigns), np.float32),
    "query_year": array((size, years), np.float32),
    "query_month": array((size, months), np.float32),
    "positive_month": array((size,), np.int32),
    "positive_classes": array((size, 3), np.int32),
    "negative_month": array((size * negatives,), np.int32),
    "negative_answers": array((size * negatives,), bool),
  }


def read_traffic(text: str, num_devices: int) -> dict[str, Traffic]:
  """Returns the traffic of a compiled program by kind of collective."""
  computations: dict[str, list[str]] = {}
  entry = ""
  for line in text.splitlines():
    if match := re.match(r"(ENTRY )?%?([\w.-]+) (?:\(.*\)|\{).*\{\s*$", line):
      lines = computations[match[2]] = []
      entry = match[2] if match[1] else entry
    elif computations:
      lines.append(line)
  calls: collections.Counter[str] = collections.Counter()
  sent_bytes: collections.Counter[str] = collections.Counter()
  channels: set[str] = set()
  # An array passes a device once, or twice if it is also summed. A result of
  # reduce-scatter is one part for each device.
  passes = {"all-reduce": 2, "reduce-scatter": num_devices}

  def visit(name: str, times: int) -> None:
    for line in computations.get(name, ()):
      # "%name = type operation(": the type of a tuple has brackets of its own.
      match = re.match(r".*? = (\(.*?\)|\S+) ([a-z][\w-]*)\(", line)
      if match is None:
        continue
      kind = match[2].removesuffix("-start")
      if kind in _COLLECTIVES:
        # One that runs beside other instructions is in several fusions,
        # under one channel.
        channel = re.search(r"\bchannel_id=\d+", line)
        if channel and channel[0] in channels:
          continue
        if channel:
          channels.add(channel[0])
        calls[kind] += times
        size = _count_bytes(*match.groups())
        sent_bytes[kind] += times * size * passes.get(kind, 1)
        continue
      trips = _count_trips(line, computations)
      for called in re.findall(
        r"\b(?:body|to_apply|calls|(?:true|false)_computation)=%?([\w.-]+)",
        line,
      ):
        visit(called, times * trips)

  visit(entry, 1)
  return {kind: Traffic(calls[kind], sent_bytes[kind]) for kind in calls}


def _count_trips(line: str, computations: Mapping[str, Sequence[str]]) -> int:
  """Returns the number of times an instruction's body runs, 1 if unknown."""
  if trips := re.search(r'"known_trip_count":\{"n":"(\d+)"\}', line):
    return int(trips[1])
  # libtpu leaves it out. The condition of a scan compares the counter, from 0,
  # with its only constant.
  condition = re.search(r"\bcondition=%?([\w.-]+)", line)
  lines = "\n".join(computations.get(condition[1], ())) if condition else ""
  constants = re.findall(r"= [su]\d+\[\]\S* constant\((\d+)\)", lines)
  is_scan = "direction=LT" in lines and len(constants) == 1
  return int(constants[0]) if is_scan else 1


def _count_bytes(result_type: str, operation: str) -> int:
  """Returns the bytes of a result, an array or a tuple of them."""
  sizes = []
  for bits, shape in re.findall(r"\b[a-z]+(\d+)\w*\[([\d,]*)\]", result_type):
    elements = math.prod(map(int, filter(None, shape.split(","))))
    sizes.append(elements * int(bits) // 8)
  # The tuple of an asynchronous start has the operand, too.
  return max(sizes, default=0) if operation.endswith("-start") else sum(sizes)


def find_largest_batch(
  first_batch: int,
  unit: int,
  limit: float,
  count_bytes: Callable[[int], float],
) -> int:
  """Returns the largest batch that fits, or one at most a tenth smaller.

  Args:
    first_batch: batch size to begin with, a multiple of `unit`.
    unit: batches are multiples of it.
    limit: bytes of a device.
    count_bytes: returns the bytes that a batch needs, more for a larger one.

  Returns:
    A multiple of the unit; 0 if not even the unit fits.
  """
  low, high = 0, _LARGEST_BATCH // unit * unit + unit
  batch = min(first_batch, high - unit)
  sizes: dict[int, float] = {}
  while high - low > max(unit, low / 10):
    size = count_bytes(batch)
    if size <= limit:
      low = batch
    else:
      high = batch
    if math.isfinite(size):
      sizes[batch] = size
    guess = 2 * low if low else high / 2
    nearest = sorted(sizes, key=lambda known: abs(sizes[known] - limit))[:2]
    if len({sizes[known] for known in nearest}) == 2:
      # The line through the two points that are nearest to the limit.
      a, b = nearest
      guess = a + (limit - sizes[a]) * (b - a) / (sizes[b] - sizes[a])
    # A tenth from what is known, so that this trial may be the last one.
    guess = min(max(guess, 1.1 * low), high / 1.1)
    if low:
      guess = min(guess, 8 * low)  # a line through two points may overshoot
    batch = min(max(int(guess) // unit * unit, low + unit), high - unit)
  return low


@dataclasses.dataclass(frozen=True)
class Planner:
  """Plans of a config on a topology."""

  config: ml_collections.ConfigDict
  topology: Topology
  workload: Workload
  efficiency: float  # share of its peak that a device reaches
  device_memory: float | None  # bytes; None = unknown

  @property
  def memory_limit(self) -> float | None:
    """Bytes of a device that JAX uses; None if unknown."""
    is_gpu = self.topology.device.platform == GPU
    share = _GPU_MEMORY_SHARE if is_gpu else 1
    return self.device_memory and self.device_memory * share

  def print_plan(self, finds_batch: bool) -> None:
    """Prints the plan of a step, then the largest batch that fits."""
    training_config.validate(self.config)
    compile_devices, compiler = find_devices(self.topology)
    mesh = devices.make_mesh(
      **self.config.mesh.to_dict(), devices=compile_devices
    )
    axes = ", ".join(f"{axis} {size}" for axis, size in mesh.shape.items())
    _print_line("run", f"{self.config.name} on {self.topology.name} ({axes})")
    _print_line("compiler", compiler)
    size = math.inf
    try:
      plan = self._plan(mesh, self.config)
    except MemoryError as error:
      _print_line("batch", f"{self.config.batch_size:,} queries do not fit")
      _print_line("", str(error))
    else:
      size = plan.memory
      for name, text in self.describe_plan(plan):
        _print_line(name, text)
    if finds_batch and self.memory_limit is not None:
      self._print_largest_batch(mesh, size)

  def _plan(
    self, mesh: jax.sharding.Mesh, config: ml_collections.ConfigDict
  ) -> StepPlan:
    platform = self.topology.device.platform
    return plan_step(config, self.workload, mesh, platform)

  def describe_plan(self, plan: StepPlan) -> Iterator[tuple[str, str]]:
    """Yields (name, text) of each line; name "" = as before."""
    yield "", f"took {plan.compile_seconds:.0f} s on this machine"
    packs, rows, width = plan.packed_shape
    yield (
      "batch",
      f"{plan.batch_size:,} queries, {plan.texts:,} texts of {plan.tokens:,} "
      f"tokens; {packs} packs of {rows} rows of {width}",
    )
    text = f"{_format_bytes(plan.memory)}  a device"
    if self.memory_limit is not None:
      verb = "fits" if plan.memory <= self.memory_limit else "does not fit"
      text += f", {verb} in {_format_bytes(self.memory_limit).strip()}"
    yield "memory", text
    for name, size in plan.sizes.items():
      if size >= _LEAST_BYTES:
        yield "", f"{_format_bytes(size)}  {name}"
    for name, flops, text in (
      ("FLOPs", plan.model_flops, "a step, as MFU counts them"),
      ("", plan.computed_flops, "with recomputation"),
    ):
      if flops is not None:
        amount = _scale(flops / 1e6, 1000, ("M", "G", "T", "P"))
        yield name, f"{amount}    {text}"
    sent = f"{_format_bytes(plan.sent_bytes)}  a device and step, at most"
    yield "sent", sent if plan.traffic else "nothing"
    for kind, (calls, size) in sorted(plan.traffic.items()):
      yield "", f"{_format_bytes(size)}  {kind}, {calls:,} times"
    seconds = self.estimate_seconds(plan)
    if seconds is not None:
      lowest, expected = (_scale(s * 1e3, 1000, ("ms", "s ")) for s in seconds)
      yield (
        "step",
        f"{expected}   at {self.efficiency:.0%} of the peak: "
        f"{_round(plan.batch_size / seconds[1])} queries/s, "
        f"{_round(plan.tokens / seconds[1])} tokens/s",
      )
      yield "", f"{lowest}   at the peak"

  def estimate_seconds(self, plan: StepPlan) -> tuple[float, float] | None:
    """Returns the seconds of a step at the peak and at the efficiency.

    None if the FLOPs or the figures of the device are unknown.
    """
    device = self.topology.device
    if device.peak is None or plan.computed_flops is None:
      return None
    compute = plan.computed_flops / (device.peak * 1e12)
    compute /= self.topology.num_devices
    # The state is read and written once, whatever the products take.
    memory = 2 * plan.sizes["state"] / (device.bandwidth * 1e9)
    # Nothing is sent while something is computed: the slower case.
    sending = plan.sent_bytes / (self.topology.link * 1e9)
    return (
      max(compute, memory) + sending,
      max(compute / self.efficiency, memory) + sending,
    )

  def _print_largest_batch(
    self, mesh: jax.sharding.Mesh, first_bytes: float
  ) -> None:
    """Prints what batches need, and the largest that fits."""
    config = self.config.copy_and_resolve_references()
    needs = {config.batch_size: first_bytes}

    def count_bytes(batch_size: int) -> float:
      if batch_size not in needs:
        config.batch_size = batch_size
        try:
          size = self._plan(mesh, config).memory
        except MemoryError:
          size = math.inf
        text = _format_bytes(size) if size < math.inf else "too much  "
        name = "" if len(needs) > 1 else "other batches"
        _print_line(name, f"{text}  {batch_size:,} queries")
        needs[batch_size] = size
      return needs[batch_size]

    unit = math.lcm(
      devices.count_batch_shards(mesh) * config.encode_chunks,
      config.loss.emulated_processes,
    )
    largest = find_largest_batch(
      config.batch_size, unit, self.memory_limit, count_bytes
    )
    too_large = [size for size in needs if size > largest]
    if not largest:
      text = f"none: not even {unit:,} queries fit"
    elif too_large:
      text = f"{largest:,} queries; {min(too_large):,} do not fit"
    else:
      text = f"{largest:,} queries; more were not tried"
    chunks = f"(with config.encode_chunks={config.encode_chunks})"
    _print_line("largest batch", f"{text} {chunks}")


def _print_line(name: str, text: str) -> None:
  print(f"{name:<14} {text}", flush=True)


def _format_bytes(count: float) -> str:
  """Returns bytes with a prefix, e.g. " 1.23 GiB"."""
  return _scale(count, 1024, ("B  ", "KiB", "MiB", "GiB", "TiB"))


def _scale(value: float, base: int, units: tuple[str, ...]) -> str:
  """Returns a value in the unit that leaves it below a thousand."""
  exponent = 0
  while value >= 999.5 and exponent < len(units) - 1:
    value, exponent = value / base, exponent + 1
  return f"{value:5.3g} {units[exponent]}"


def _round(rate: float) -> str:
  """Returns a number with three digits, e.g. "12,300"."""
  if rate < 999.5:
    return f"{rate:.3g}"
  return f"{round(rate, 2 - int(math.log10(rate))):,.0f}"
