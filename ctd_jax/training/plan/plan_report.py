"""The plan of a run as text: what a step needs, and how long it may take."""

from __future__ import annotations

import dataclasses
import math
import textwrap
from collections.abc import Iterator

import jax
import ml_collections

from ctd_jax.training import config as training_config
from ctd_jax.training import partitioning
from ctd_jax.training.plan import compile_devices, step_plan
from ctd_jax.training.plan.compile_devices import CompileDevices
from ctd_jax.training.plan.step_plan import StepPlan
from ctd_jax.training.plan.topologies import GPU, GPUS_PER_NODE, Topology
from ctd_jax.training.plan.workload import Workload

_LEAST_BYTES = 1024  # less has no line
_COLUMNS, _NAME = 80, 15  # of a line, and of the name before it
# JAX takes three quarters of a GPU, see XLA_PYTHON_CLIENT_MEM_FRACTION in its
# documentation of GPU memory, and all that a TPU has.
_GPU_MEMORY_SHARE = 0.75


@dataclasses.dataclass(frozen=True)
class Planner:
  """Plans of a config on a topology.

  Attributes:
    config: validated.
    topology: devices of the run.
    workload: of the config.
    efficiency: share of its peak that a device is taken to reach.
    device_memory: bytes of a device; None = not known.
  """

  config: ml_collections.ConfigDict
  topology: Topology
  workload: Workload
  efficiency: float
  device_memory: float | None

  @property
  def memory_limit(self) -> float | None:
    """Bytes of a device that JAX uses; None = not known."""
    if self.device_memory is None:
      return None
    is_gpu = self.topology.accelerator.platform == GPU
    return self.device_memory * (_GPU_MEMORY_SHARE if is_gpu else 1)

  def print_plan(self, finds_batch: bool) -> None:
    """Prints the plan of a step, then the largest batch that fits.

    Args:
      finds_batch: whether the latter is looked for, which compiles the step
        several times.

    Raises:
      ValueError: naming what is wrong in config or topology.
    """
    training_config.validate(self.config)
    target = compile_devices.find_devices(self.topology)
    mesh = partitioning.make_mesh(
      **self.config.mesh.to_dict(), devices=target.devices
    )
    axes = ", ".join(f"{axis} {size}" for axis, size in mesh.shape.items())
    _print_line(
      "run",
      f"{self.config.name} on {self.topology.num_devices} x "
      f"{self.topology.accelerator.kind} ({axes})",
    )
    _print_line("compiler", target.description)
    try:
      plan = self._plan_step(self.config, mesh)
    except MemoryError as error:
      size = math.inf
      _print_line("batch", f"{self.config.batch_size:,} queries do not fit")
      _print_line("", str(error))
    else:
      size = plan.memory
      for name, text in self.describe_plan(plan):
        _print_line(name, text)
    for number, text in enumerate(self._list_assumptions(target)):
      _print_line("" if number else "assumed", _wrap(text))
    if finds_batch and self.memory_limit is not None:
      self._print_largest_batch(mesh, size)

  def _plan_step(
    self, config: ml_collections.ConfigDict, mesh: jax.sharding.Mesh
  ) -> StepPlan:
    """Returns the plan of a step of a config on devices of the topology."""
    platform = self.topology.accelerator.platform
    return step_plan.plan_step(config, self.workload, mesh, platform)

  def describe_plan(self, plan: StepPlan) -> Iterator[tuple[str, str]]:
    """Yields what each line is about, "" = as before, and what it says."""
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
    for name, size in (
      ("state", plan.state),
      ("batch", plan.arguments - plan.state),
      ("temporaries", plan.temporaries),
      ("outputs", plan.outputs),
      ("program", plan.code),
    ):
      if size >= _LEAST_BYTES:
        yield "", f"{_format_bytes(size)}  {name}"
    yield (
      "FLOPs",
      f"{_format_count(plan.model_flops)}    a step, as MFU counts them",
    )
    yield "", f"{_format_count(plan.computed_flops)}    with recomputation"
    yield (
      "sent",
      f"{_format_bytes(plan.sent_bytes)}  a device and step"
      if plan.traffic
      else "nothing",
    )
    for kind, one in sorted(plan.traffic.items()):
      yield (
        "",
        f"{_format_bytes(one.sent_bytes)}  {kind}, {one.calls:,} times",
      )
    seconds = self.estimate_seconds(plan)
    if seconds is not None:
      lowest, expected = seconds
      yield (
        "step",
        f"{_format_seconds(expected)}   at {self.efficiency:.0%} of the peak: "
        f"{_round(plan.batch_size / expected)} queries/s, "
        f"{_round(plan.tokens / expected)} tokens/s",
      )
      yield "", f"{_format_seconds(lowest)}   at the peak"

  def estimate_seconds(self, plan: StepPlan) -> tuple[float, float] | None:
    """Returns the seconds of a step: at the peak, and at the efficiency.

    Products, or the reading and writing of the state where that takes longer,
    and after them what is sent. None if a figure of the device is not known.
    """
    accelerator, link = self.topology.accelerator, self.topology.link_bandwidth
    peak, bandwidth = accelerator.peak_flops, accelerator.memory_bandwidth
    if peak is None or bandwidth is None or link is None:
      return None
    compute = plan.computed_flops / (peak * self.topology.num_devices)
    memory = 2 * plan.state / bandwidth
    sending = plan.sent_bytes / link
    return (
      max(compute, memory) + sending,
      max(compute / self.efficiency, memory) + sending,
    )

  def _list_assumptions(self, target: CompileDevices) -> Iterator[str]:
    """Yields what the figures rest on."""
    yield (
      f"queries of {self.workload.query_tokens} tokens, records of "
      f"{self.workload.record_tokens} (--query_tokens, --record_tokens)"
    )
    if "source" not in self.config.model.encoder:
      yield (
        f"{self.workload.encoder.vocab_size:,} tokens in the vocabulary "
        "(--vocab_size)"
      )
    if not target.is_exact:
      yield (
        "memory and traffic are those of a program for processors, of layers "
        "that are scanned, which compute and send bf16 as fp32 and fuse less: "
        "more than a device needs, of an H200 about twice"
      )
      yield (
        "attention is by plain products, which keep their weights in memory, "
        "as no kernel of a device does"
      )
    accelerator = self.topology.accelerator
    if accelerator.peak_flops is None:
      yield "of a processor neither peak nor memory is known: no time"
      return
    yield (
      f"a device has {accelerator.peak_flops / 1e12:.0f} TFLOP/s in bf16, "
      f"{accelerator.memory_bandwidth / 1e9:,.0f} GB/s to its memory, "
      f"{self.topology.link_bandwidth / 1e9:.0f} GB/s to others"
    )
    is_gpu = accelerator.platform == GPU
    if is_gpu and self.topology.num_devices > GPUS_PER_NODE:
      yield f"nodes of {GPUS_PER_NODE} GPUs with an adapter of 400 Gb/s each"
    yield (
      "nothing is sent while something is computed; the input is never waited "
      f"for; products reach {self.efficiency:.0%} of the peak (--efficiency)"
    )
    if self.workload.encoder.dtype == "float32":
      yield "the peak is that of bf16; this config computes in fp32: slower"
    if is_gpu:
      yield f"JAX uses {_GPU_MEMORY_SHARE:.0%} of the memory, its default"

  def _print_largest_batch(
    self, mesh: jax.sharding.Mesh, first_bytes: float
  ) -> None:
    """Prints what batches need, and the largest that fits.

    Args:
      mesh: devices that are compiled for.
      first_bytes: what the batch of the config needs.
    """
    config = self.config.copy_and_resolve_references()
    needs = {config.batch_size: first_bytes}

    def count_bytes(batch_size: int) -> float:
      if batch_size not in needs:
        config.batch_size = batch_size
        try:
          needs[batch_size] = self._plan_step(config, mesh).memory
        except MemoryError:
          needs[batch_size] = math.inf
        size = needs[batch_size]
        text = _format_bytes(size) if size < math.inf else "too much  "
        _print_line(
          "" if len(needs) > 2 else "other batches",
          f"{text}  {batch_size:,} queries",
        )
      return needs[batch_size]

    unit = math.lcm(
      partitioning.count_batch_shards(mesh) * config.encode_chunks,
      config.loss.emulated_processes,
    )
    largest = step_plan.find_largest_batch(
      config.batch_size, unit, self.memory_limit, count_bytes
    )
    if not largest:
      text = f"none: not even {unit:,} queries fit"
    else:
      text = f"{largest:,} queries"
      too_large = [size for size in needs if size > largest]
      if too_large:
        text += f"; {min(too_large):,} do not fit"
      else:
        text += "; more were not tried"
    _print_line(
      "largest batch",
      f"{text} (with config.encode_chunks={config.encode_chunks})",
    )


def _print_line(name: str, text: str) -> None:
  print(f"{name:<{_NAME - 1}} {text}", flush=True)


def _wrap(text: str) -> str:
  """Returns an item of a list that stands behind a name."""
  lines = textwrap.wrap(text, _COLUMNS - _NAME - 2)
  return "- " + ("\n" + " " * (_NAME + 2)).join(lines)


def _format_count(count: float) -> str:
  """Returns a large number with a prefix, e.g. " 1.23 T"."""
  return _scale(count / 1e6, 1000, ("M", "G", "T", "P"))


def _format_bytes(count: float) -> str:
  """Returns bytes with a prefix, e.g. " 1.23 GiB"."""
  return _scale(count, 1024, ("B  ", "KiB", "MiB", "GiB", "TiB"))


def _format_seconds(seconds: float) -> str:
  return _scale(seconds * 1e3, 1000, ("ms", "s "))


def _scale(value: float, base: int, units: tuple[str, ...]) -> str:
  """Returns a value in the unit that leaves it below a thousand."""
  exponent = 0
  while value >= 999.5 and exponent < len(units) - 1:
    value, exponent = value / base, exponent + 1
  return f"{value:5.3g} {units[exponent]}"


def _round(rate: float) -> str:
  """Returns a number of three digits, e.g. "12,300"."""
  if rate < 999.5:
    return f"{rate:.3g}"
  return f"{round(rate, 2 - int(math.log10(rate))):,.0f}"
