"""Speed of training: peaks of devices, FLOPs of the model, meter, profiler.

Utilisation (MFU) is the share of a device's dense bf16 peak, with sums in fp32,
that the model's own FLOPs reach. A run in fp32 is measured against it too.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import functools
import math
import os
import pathlib
import re
import resource
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import msgspec
import numpy as np
from absl import logging

from ctd_jax.models.encoders import attention
from ctd_jax.training import devices, packing
from ctd_jax.training.objective import Objective
from ctd_jax.training.run_folder import PROFILE_FOLDER, Folder
from ctd_jax.utils import files

CPU, GPU, TPU = "cpu", "gpu", "tpu"
_GIB = 2**30
# Seconds that a run waits at its end for the last update.
_CLOSE_SECONDS = 10.0


class Device(msgspec.Struct, frozen=True):
  """Figures of one JAX device, a line of device_speeds.tsv."""

  pattern: str  # part of the name that JAX has for the device
  # Dense bf16 TFLOP/s, sums in fp32. Data sheets of GPUs print twice as much,
  # "with sparsity".
  peak: float | None
  name: str | None  # in a topology; None = runs are not planned for it
  memory: float | None  # 10^9 bytes
  bandwidth: float | None  # 10^9 bytes a second to the memory
  # 10^9 bytes a second to other devices, in one direction, over all links.
  link: float | None
  per_chip: int  # JAX devices on a chip
  source: str  # where the figures stand

  @property
  def platform(self) -> str:
    """`CPU`, `GPU` or `TPU`."""
    if self.name == CPU:
      return CPU
    return TPU if "TPU" in self.pattern else GPU


@functools.cache
def list_devices() -> tuple[Device, ...]:
  """Returns the devices whose figures are known."""
  path = pathlib.Path(__file__).with_name("device_speeds.tsv")
  return tuple(row for _, row in files.read_csv_rows(path, Device, "\t"))


def find_device(device_kind: str) -> Device | None:
  """Returns the figures of a device kind of JAX; None = not known."""
  # A part of a GPU, e.g. "NVIDIA H100 80GB HBM3 MIG 3g.40gb", is not a GPU.
  if re.search(r"\bMIG\b", device_kind):
    return None
  # The first that matches counts: L4 comes after L40S.
  for device in list_devices():
    if re.search(rf"(?:^|\W)(?:{device.pattern})(?:\W|$)", device_kind):
      return device
  return None


def find_peak_flops(mesh: jax.sharding.Mesh) -> float | None:
  """Returns the peak of all devices in FLOP/s; None = not known, and told."""
  device = mesh.devices.flat[0]
  known = find_device(device.device_kind)
  if known is None and device.platform != CPU:
    logging.warning(
      "no peak FLOP/s known of %r: utilisation is left out "
      "(ctd_jax/training/speed.py)",
      device.device_kind,
    )
  if known is None or known.peak is None:
    return None
  return known.peak * 1e12 * mesh.size


def _find_processor() -> jax.Device | None:
  """Returns a processor of JAX, None with e.g. JAX_PLATFORMS=cuda."""
  try:
    return jax.local_devices(backend=CPU)[0]
  except RuntimeError:  # no such backend
    return None


def count_flops(function: Callable[..., Any], *arguments: Any) -> float:
  """Returns the FLOPs of a function as XLA counts them before it optimises.

  A loop body counts once; device kernels do not count. JAX must have a CPU
  backend.
  """
  # Other backends analyse compiled programs only, which hide products in calls
  # of libraries.
  with jax.default_device(_find_processor()):
    lowered = jax.jit(function).lower(*arguments)
  return lowered.cost_analysis().get("flops", 0.0)


class ModelFlops:
  """FLOPs of an update of the model, by the shapes of the batch.

  XLA counts a forward pass, with plain attention and without loops.

  Source: Chowdhery et al. 2022, "PaLM", appendix B.
  """

  def __init__(self, objective: Objective):
    """Counts nothing yet; warns once if it never can."""
    self._counts: dict[Any, float] = {}
    self._objective: Objective | None = None
    processor = _find_processor()
    if processor is None:
      logging.warning(
        "FLOPs and utilisation are left out: XLA counts them on a processor, "
        "and JAX has none; add it with JAX_PLATFORMS=%s,cpu",
        jax.default_backend(),
      )
      return
    config = objective.model.config
    encoder = dataclasses.replace(
      config.encoder, scan_layers=False, attention=attention.PLAIN
    )
    model = objective.model.clone(
      config=dataclasses.replace(config, encoder=encoder)
    )
    mesh = devices.make_mesh(1, devices=[processor])
    self._objective = dataclasses.replace(objective, model=model, mesh=mesh)
    # A gradient costs twice the forward pass; once with adapters, since frozen
    # matrices have no gradient of their own; nothing in a frozen encoder.
    self._passes, self._recomputed_passes = 1, 0
    if not objective.freezes_encoder:
      self._passes = 3 if encoder.lora is None else 2
      # Chunks of a batch and layers with `remat` are one inside the other.
      self._recomputed_passes = encoder.remat + (objective.encode_chunks > 1)

  def count(self, batch: Any) -> float | None:
    """Returns the FLOPs of an update on a global batch, over all devices.

    Recomputation does not count. None if JAX has no processor.
    """
    forward = self._count_forward(batch)
    return forward and self._passes * forward

  def count_computed(self, batch: Any) -> float | None:
    """Returns the same with what the backward pass computes again."""
    forward = self._count_forward(batch)
    return forward and (self._passes + self._recomputed_passes) * forward

  def _count_forward(self, batch: Any) -> float | None:
    if self._objective is None:
      return None
    shapes = jax.tree.map(
      lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), batch
    )
    leaves, structure = jax.tree.flatten(shapes)
    key = structure, tuple((leaf.shape, leaf.dtype) for leaf in leaves)
    if key not in self._counts:
      text = jax.ShapeDtypeStruct((1, 1), jnp.int32)
      dropout_key = jax.eval_shape(jax.random.key, 0)
      init = self._objective.model.init
      params = jax.eval_shape(init, dropout_key, text, text)["params"]
      with packing.in_one_chunk():
        self._counts[key] = count_flops(
          self._objective.compute_loss, params, shapes, dropout_key
        )
    return self._counts[key]


@dataclasses.dataclass(frozen=True)
class StepWork:
  """Size of an update, over all processes."""

  queries: int  # of the batch
  tokens: int  # of its texts, without padding
  columns: int  # of the rows that hold the texts, padding among them
  flops: float | None = None  # of the model, see `ModelFlops`

  @classmethod
  def of_rows(cls, segments: np.ndarray, queries: int) -> StepWork:
    """Returns the size of rows, each process taken to have as many.

    Args:
      segments: 0 where a column holds no token, of this process.
      queries: of this process.
    """
    processes = jax.process_count()
    return cls(
      queries=queries * processes,
      tokens=int(np.count_nonzero(segments)) * processes,
      columns=segments.size * processes,
    )


class SpeedMeter:
  """Speed of the steps between two readings.

  The clock runs while steps are trained and stands still while a run is
  validated.

  Attributes:
    compile_seconds: that this process compiled since the meter was made.
  """

  # XLA alone, or reading what the cache holds; tracing is not in it.
  _COMPILE_EVENT = "/jax/core/compile/backend_compile_duration"

  def __init__(self, peak_flops: float | None = None):
    """Stands still until the first step is done."""
    self._peak_flops = peak_flops
    self.compile_seconds = 0.0
    self._start_time: float | None = None
    # Sums of `seconds`, `steps`, `input_wait` and the fields of `StepWork`:
    # since the last reading, and of the readings since the last stop.
    self._sums: collections.Counter[str] = collections.Counter()
    self._read_sums: collections.Counter[str] = collections.Counter()
    self._update: _UpdateWatch | None = None
    jax.monitoring.register_event_duration_secs_listener(self._add_duration)

  def _add_duration(self, event: str, duration: float, **labels: Any) -> None:
    del labels
    if event == self._COMPILE_EVENT:
      self.compile_seconds += duration

  def close(self) -> None:
    """Ends the thread and the clock of compilations."""
    jax.monitoring.unregister_event_duration_listener(self._add_duration)
    if self._update is not None:
      # A thread that still waits when Python ends takes the process down with
      # it: a run that diverges would be aborted instead of ending with its
      # error. An update that waits for a dead process never ends.
      self._update.join(_CLOSE_SECONDS)

  @contextlib.contextmanager
  def wait_for_input(self) -> Iterator[None]:
    """Counts the time within in which the devices have nothing to do.

    That is none while the last update runs, however long the next batch takes.
    """
    start = time.perf_counter()
    yield
    end = time.perf_counter()
    update = self._update
    if self._start_time is not None and update and update.end_time is not None:
      idle_since = max(start, update.end_time)
      self._sums["input_wait"] += max(0.0, end - idle_since)

  def watch_update(self, output: jax.Array) -> None:
    """Notes, in a thread, when an update is done.

    Args:
      output: a result of it that the next update does not overwrite.
    """
    self._update = _UpdateWatch(output)

  def count_step(self, work: StepWork) -> None:
    """Counts a step that is done; the first one only starts the clock."""
    if self._start_time is None:
      # It may have been compiled before.
      self._start_time = time.perf_counter()
      self._sums.clear()
    else:
      self._sums["steps"] += 1
      sizes = dataclasses.asdict(work)
      if work.flops is None:
        del sizes["flops"]
      self._sums.update(sizes)

  def read(self) -> dict[str, float]:
    """Returns the speed since the last reading, as `stop` does."""
    sums = self._take_sums()
    self._read_sums.update(sums)
    return self._describe(sums)

  def stop(self) -> dict[str, float]:
    """Stops the clock and returns the speed since the last stop.

    Returns:
      speed/steps_per_second, queries_per_second, tokens_per_second;
      speed/row_fill, the share of columns that hold a token;
      speed/model_flops_per_second, over all devices, and
      speed/model_flops_utilization, their share of the peak where it is known;
      speed/input_wait_share, the share of the time in which the devices had
      nothing to do but wait for a batch; speed/compile_seconds of this process
      since it began to train; and what `read_peak_memory` returns. {} if no
      step was counted.
    """
    sums = self._read_sums + self._take_sums()
    self._read_sums.clear()
    self._start_time = None
    return self._describe(sums)

  def _take_sums(self) -> collections.Counter[str]:
    """Returns the sums since the last reading, and starts again."""
    sums, now = self._sums, time.perf_counter()
    if self._start_time is not None:
      sums["seconds"] = now - self._start_time
      self._start_time = now
    self._sums = collections.Counter()
    return sums

  def _describe(self, sums: Mapping[str, float]) -> dict[str, float]:
    if not sums["steps"]:
      return {}
    seconds = max(sums["seconds"], 1e-9)
    speed = {
      f"speed/{name}_per_second": sums[name] / seconds
      for name in ("steps", "queries", "tokens")
    }
    if "flops" in sums:
      rate = speed["speed/model_flops_per_second"] = sums["flops"] / seconds
      if self._peak_flops is not None:
        speed["speed/model_flops_utilization"] = rate / self._peak_flops
    return {
      **speed,
      "speed/row_fill": sums["tokens"] / sums["columns"],
      "speed/input_wait_share": min(1.0, sums["input_wait"] / seconds),
      "speed/compile_seconds": self.compile_seconds,
      **read_peak_memory(),
    }


class _UpdateWatch(threading.Thread):
  """Thread that notes when an update is done."""

  def __init__(self, output: jax.Array):
    # A daemon: the process can end though the update never does, as when
    # another process has died that it waits for.
    super().__init__(name="update", daemon=True)
    self.end_time: float | None = None
    self._output = output
    self.start()

  def run(self) -> None:
    # What failed raises where the loop reads its metrics.
    with contextlib.suppress(Exception):
      self._output.block_until_ready()
    self.end_time = time.perf_counter()


def read_peak_memory() -> dict[str, int]:
  """Returns the peaks since the process began, in bytes.

  Returns:
    speed/peak_host_bytes, the resident set; speed/peak_device_bytes of the
    fullest device of this process, left out where devices do not say it, e.g.
    on a processor, whose arrays are in the resident set.
  """
  # Of ru_maxrss, see getrusage(2): KiB under Linux, bytes under macOS.
  unit = 1 if sys.platform == "darwin" else 1024
  resident = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
  memory = {"speed/peak_host_bytes": resident * unit}
  device_stats = [device.memory_stats() for device in jax.local_devices()]
  peaks = [
    stats["peak_bytes_in_use"]
    for stats in device_stats
    if stats and "peak_bytes_in_use" in stats
  ]
  if peaks:
    memory["speed/peak_device_bytes"] = max(peaks)
  return memory


def format_postfix(speed: Mapping[str, float]) -> dict[str, str]:
  """Returns the figures of a speed that a progress line shows, by name."""
  figures = {"tokens/s": f"{speed['speed/tokens_per_second']:,.0f}"}
  utilization = speed.get("speed/model_flops_utilization")
  if utilization is not None:
    figures["MFU"] = f"{utilization:.1%}"
  figures["input wait"] = f"{speed['speed/input_wait_share']:.1%}"
  return figures


def format_speed(speed: Mapping[str, float]) -> str:
  """Returns the line of the log that tells a speed."""
  flops = ""
  rate = speed.get("speed/model_flops_per_second")
  if rate is not None:
    # G, T or P: what steps of any model and machine need.
    power = min(max(int(math.log10(max(rate, 1))) // 3, 3), 5)
    flops = f"{rate / 1000**power:.3g} {'GTP'[power - 3]}FLOP/s of the model"
    utilization = speed.get("speed/model_flops_utilization")
    if utilization is not None:
      flops += f" (MFU {utilization:.1%})"
    flops += ", "
  peaks = [
    f"{speed[name] / _GIB:.2f} GiB {place}"
    for name, place in (
      ("speed/peak_device_bytes", "device"),
      ("speed/peak_host_bytes", "host"),
    )
    if name in speed
  ]
  queries = ""
  if speed["speed/queries_per_second"]:  # pre-training has none
    queries = f"{speed['speed/queries_per_second']:,.4g} queries/s, "
  return (
    f"{speed['speed/steps_per_second']:.3g} steps/s, "
    f"{queries}{speed['speed/tokens_per_second']:,.0f} tokens/s, "
    f"rows {speed['speed/row_fill']:.0%} full, {flops}"
    f"waited for input {speed['speed/input_wait_share']:.1%}, "
    f"compiled {speed['speed/compile_seconds']:.1f} s, "
    f"peak memory {' and '.join(peaks)}"
  )


class StepProfiler:
  """Writer of the trace of a range of steps, by JAX's profiler."""

  def __init__(self, steps: range | None, workdir: Folder, resume_step: int):
    """Writes nothing yet; says so if there will be no trace."""
    self._steps: range | None = None
    self._folder = workdir / PROFILE_FOLDER
    self._local_folder: tempfile.TemporaryDirectory | None = None
    self._is_tracing = False
    self._last_step = 0
    if steps is None:
      return
    if steps.start <= resume_step:
      logging.info(
        "%s: step %d is already done, nothing is traced; the next step is %d",
        _name_flag(steps),
        steps.start,
        resume_step + 1,
      )
    elif devices.is_coordinator():
      self._steps = steps

  def begin_step(self, step: int) -> None:
    """Starts the trace if this is its first step."""
    if self._steps is not None and step == self._steps.start:
      folder: str | os.PathLike = self._folder
      if not isinstance(folder, pathlib.Path):
        # The profiler cannot write to a bucket.
        self._local_folder = tempfile.TemporaryDirectory()
        folder = self._local_folder.name
      jax.profiler.start_trace(folder)
      self._is_tracing = True
    self._last_step = step

  def end_step(self, step: int, outputs: Any) -> None:
    """Writes the trace if this was its last step."""
    if self._is_tracing and step == self._steps[-1]:
      jax.block_until_ready(outputs)
      self.close()

  def close(self) -> None:
    """Writes what was traced so far, if the run ends within the range."""
    if not self._is_tracing:
      return
    self._is_tracing = False
    jax.profiler.stop_trace()
    if self._local_folder is not None:
      source = pathlib.Path(self._local_folder.name)
      for path in filter(pathlib.Path.is_file, source.rglob("*")):
        copy = self._folder / path.relative_to(source).as_posix()
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(path.read_bytes())
      self._local_folder.cleanup()
    logging.info(
      "trace of the steps %d to %d is in %s",
      self._steps.start,
      self._last_step,
      self._folder,
    )


def check_profile(steps: range | None, total_steps: int) -> None:
  """Raises ValueError if a run does not have the steps."""
  if steps is not None and steps.start > total_steps:
    raise ValueError(f"{_name_flag(steps)}: the run has {total_steps} steps")


def _name_flag(steps: range) -> str:
  return f"--profile={steps.start}:{steps.stop}"
