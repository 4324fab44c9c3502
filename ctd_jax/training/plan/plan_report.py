"""The plan of a run as text: what a step needs, and how long it may take."""

from __future__ import annotations

import dataclasses
import math
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
    _print_line("compiled by", target.description)
    try:
      plan = step_plan.plan_step(self.config, self.workload, mesh)
    except MemoryError as error:
      _print_line("batch", f"{self.config.batch_size} queries do not fit")
      _print_line("", str(error))
    else:
      for name, text in self.describe_plan(plan):
        _print_line(name, text)
    for text in self._list_assumptions(target):
      _print_line("assumed", text)
    if finds_batch and self.memory_limit is not None:
      _print_line("largest batch", self._describe_largest_batch(mesh))

  def describe_plan(self, plan: StepPlan) -> Iterator[tuple[str, str]]:
    """Yields what each line is about, and what it says."""
    packs, rows, width = plan.packed_shape
    yield (
      "batch",
      f"{plan.batch_size:,} queries, {plan.texts:,} texts of {plan.tokens:,} "
      f"tokens in {packs} packs of {rows} rows of {width}",
    )
    yield "memory", self._describe_memory(plan)
    yield (
      "FLOPs",
      f"{_format_count(plan.model_flops)} of the model a step, "
      f"{_format_count(plan.computed_flops)} with what is computed again",
    )
    traffic = [
      f"{kind} {one.calls} times, {_format_bytes(one.sent_bytes)}"
      for kind, one in sorted(plan.traffic.items())
    ]
    yield "sent", "; ".join(traffic) or "nothing"
    yield "compiled in", f"{plan.compile_seconds:.0f} s on this machine"
    seconds = self.estimate_seconds(plan)
    if seconds is not None:
      lowest, expected = seconds
      yield (
        "step",
        f"{_format_seconds(lowest)} at the peak, {_format_seconds(expected)} "
        f"at {self.efficiency:.0%} of it: "
        f"{plan.batch_size / expected:,.4g} queries/s, "
        f"{plan.tokens / expected:,.0f} tokens/s",
      )

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

  def _describe_memory(self, plan: StepPlan) -> str:
    terms = ", ".join(
      f"{name} {_format_bytes(size)}"
      for name, size in (
        ("arguments", plan.arguments),
        ("temporaries", plan.temporaries),
        ("outputs", plan.outputs),
        ("program", plan.code),
      )
    )
    text = f"{_format_bytes(plan.memory)} a device ({terms})"
    if self.memory_limit is not None:
      verb = "fits" if plan.memory <= self.memory_limit else "does not fit"
      text += f"; {verb} in {_format_bytes(self.memory_limit)}"
    return text

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
        "the memory is that of a program for processors, which compute bf16 "
        "in fp32 and fuse less: more than a device needs"
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
      yield (f"nodes of {GPUS_PER_NODE} GPUs with an adapter of 400 Gb/s each")
    yield (
      "nothing is sent while something is computed; the input is never waited "
      f"for; products reach {self.efficiency:.0%} of the peak (--efficiency)"
    )
    if self.workload.encoder.dtype == "float32":
      yield "the peak is that of bf16; this config computes in fp32, slower"
    if is_gpu:
      yield f"JAX uses {_GPU_MEMORY_SHARE:.0%} of the memory, its default"

  def _describe_largest_batch(self, mesh: jax.sharding.Mesh) -> str:
    """Returns the largest batch that fits, and what it needs."""
    config = self.config.copy_and_resolve_references()
    needs: dict[int, float] = {}

    def fits(batch_size: int) -> bool:
      config.batch_size = batch_size
      try:
        plan = step_plan.plan_step(config, self.workload, mesh)
        needs[batch_size] = plan.memory
      except MemoryError:
        needs[batch_size] = math.inf
      return needs[batch_size] <= self.memory_limit

    unit = math.lcm(
      partitioning.count_batch_shards(mesh) * config.encode_chunks,
      config.loss.emulated_processes,
    )
    largest = step_plan.find_largest_batch(config.batch_size, unit, fits)
    if not largest:
      return f"none: not even {unit} queries fit"
    text = f"{largest:,} queries, {_format_bytes(needs[largest])} a device"
    too_large = min((size for size in needs if size > largest), default=None)
    if too_large is not None:
      text += f"; {too_large:,} do not fit"
    return f"{text} (with config.encode_chunks={config.encode_chunks})"


def _print_line(name: str, text: str) -> None:
  print(f"{name:<14} {text}", flush=True)


def _format_count(count: float) -> str:
  """Returns a large number with a prefix, e.g. "1.23 T"."""
  power = min(max(int(math.log10(max(count, 1))) // 3, 2), 5)
  return f"{count / 1000**power:.3g} {'MGTP'[power - 2]}"


def _format_bytes(count: float) -> str:
  """Returns bytes with a prefix, e.g. "1.23 GiB"."""
  power = min(max(int(math.log2(max(count, 1))) // 10, 2), 4)
  return f"{count / 1024**power:,.3g} {'MGT'[power - 2]}iB"


def _format_seconds(seconds: float) -> str:
  return f"{seconds * 1e3:.3g} ms" if seconds < 1 else f"{seconds:.3g} s"
