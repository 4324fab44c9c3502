"""Meter of the speed of training: rates, utilisation, waiting, memory.

The clock runs while steps are trained and stands still while a run is
validated.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import math
import queue
import threading
import time
from collections.abc import Iterator, Mapping

import jax

from ctd_jax.training.speed import memory
from ctd_jax.training.speed.compile_time import CompileClock

_GIB = 2**30
# Of the thread that waits for updates, when the run ends.
_CLOSE_SECONDS = 10.0


@dataclasses.dataclass(frozen=True)
class StepWork:
  """Size of an update, over all processes.

  Attributes:
    queries: of the batch.
    tokens: of its texts, without padding.
    columns: of the rows that hold the texts, padding among them.
    flops: of the model, see `model_flops`.
  """

  queries: int
  tokens: int
  columns: int
  flops: float


class SpeedMeter:
  """Speed of the steps between two readings."""

  def __init__(self, peak_flops: float | None = None):
    """Stands still until the first step is done.

    Args:
      peak_flops: FLOP/s of all devices; None = not known, and no utilisation.
    """
    self._peak_flops = peak_flops
    self._compile_clock = CompileClock()
    self._start_time: float | None = None
    # Sums of `seconds`, `steps`, `input_wait` and the fields of `StepWork`:
    # since the last reading, and of the readings since the last stop.
    self._sums: collections.Counter[str] = collections.Counter()
    self._read_sums: collections.Counter[str] = collections.Counter()
    self._updates = _UpdateWatch()
    self._updates.start()

  def close(self) -> None:
    """Ends the thread and the clock of compilations."""
    self._updates.close()
    self._compile_clock.close()

  @contextlib.contextmanager
  def wait_for_input(self) -> Iterator[None]:
    """Counts the time within in which the devices have nothing to do.

    That is none while the last update runs, however long the next batch takes.
    """
    start = time.perf_counter()
    yield
    end = time.perf_counter()
    end_of_updates = self._updates.end_time
    if self._start_time is not None and end_of_updates is not None:
      idle_since = max(start, end_of_updates)
      self._sums["input_wait"] += max(0.0, end - idle_since)

  def watch_update(self, output: jax.Array) -> None:
    """Notes when an update is done.

    Args:
      output: a result of it, which is not donated to the next one.
    """
    self._updates.add(output)

  def count_step(self, work: StepWork) -> None:
    """Counts a step that is done; the first one starts the clock.

    It is not counted itself, for it may have been compiled before.

    Args:
      work: its size.
    """
    if self._start_time is None:
      self._start_time = time.perf_counter()
      self._sums.clear()
    else:
      self._sums["steps"] += 1
      self._sums.update(dataclasses.asdict(work))

  def read(self) -> dict[str, float]:
    """Returns the speed since the last reading, {} without a step.

    Returns:
      See `stop`.
    """
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
      since it began to train; and what `memory.read_peak_memory` returns. {}
      if no step was counted.
    """
    sums = self._read_sums + self._take_sums()
    self._read_sums.clear()
    self._start_time = None
    return self._describe(sums)

  def _take_sums(self) -> collections.Counter[str]:
    """Returns the sums since the last reading, and starts anew."""
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
    rates = {
      f"speed/{name}_per_second": sums[key] / seconds
      for name, key in (
        ("steps", "steps"),
        ("queries", "queries"),
        ("tokens", "tokens"),
        ("model_flops", "flops"),
      )
    }
    if self._peak_flops is not None:
      rates["speed/model_flops_utilization"] = (
        rates["speed/model_flops_per_second"] / self._peak_flops
      )
    return {
      **rates,
      "speed/row_fill": sums["tokens"] / sums["columns"],
      "speed/input_wait_share": min(1.0, sums["input_wait"] / seconds),
      "speed/compile_seconds": self._compile_clock.seconds,
      **memory.read_peak_memory(),
    }


class _UpdateWatch(threading.Thread):
  """Thread that notes when the last update was done.

  A daemon: the process can end though an update never does, as when another
  process has died that it waits for.
  """

  def __init__(self):
    super().__init__(name="last update", daemon=True)
    self._outputs: queue.SimpleQueue[tuple[int, jax.Array] | None] = (
      queue.SimpleQueue()
    )
    self._num_updates = 0
    self._last_done = (0, 0.0)  # which update, when

  @property
  def end_time(self) -> float | None:
    """Returns when the last update was done; None while it runs."""
    number, seconds = self._last_done
    return seconds if 0 < number == self._num_updates else None

  def add(self, output: jax.Array) -> None:
    """Adds an update by a result of it."""
    self._num_updates += 1
    self._outputs.put((self._num_updates, output))

  def run(self) -> None:
    """Waits for one result after the other."""
    while (update := self._outputs.get()) is not None:
      number, output = update
      # What failed raises where the loop reads its metrics.
      with contextlib.suppress(Exception):
        output.block_until_ready()
      self._last_done = number, time.perf_counter()

  def close(self) -> None:
    """Ends the thread behind the last update, if that is done soon.

    A thread that still waits when Python ends takes the process down with it:
    a run that diverges would be aborted, not end with its error.
    """
    self._outputs.put(None)
    self.join(_CLOSE_SECONDS)


def format_postfix(speed: Mapping[str, float]) -> dict[str, str]:
  """Returns the figures that a line of progress has room for, by name.

  Args:
    speed: from `SpeedMeter`, not empty.
  """
  figures = {"tokens/s": f"{speed['speed/tokens_per_second']:,.0f}"}
  utilization = speed.get("speed/model_flops_utilization")
  if utilization is not None:
    figures["MFU"] = f"{utilization:.1%}"
  figures["input wait"] = f"{speed['speed/input_wait_share']:.1%}"
  return figures


def format_speed(speed: Mapping[str, float]) -> str:
  """Returns the line of the log that tells a speed.

  Args:
    speed: from `SpeedMeter`, not empty.
  """
  parts = [
    f"{speed['speed/steps_per_second']:.3g} steps/s",
    f"{speed['speed/queries_per_second']:,.4g} queries/s",
    f"{speed['speed/tokens_per_second']:,.0f} tokens/s",
    f"rows {speed['speed/row_fill']:.0%} full",
    f"{_format_flops(speed['speed/model_flops_per_second'])} of the model",
  ]
  utilization = speed.get("speed/model_flops_utilization")
  if utilization is not None:
    parts[-1] += f" (MFU {utilization:.1%})"
  parts += [
    f"waited for input {speed['speed/input_wait_share']:.1%}",
    f"compiled {speed['speed/compile_seconds']:.1f} s",
  ]
  peaks = [
    f"{speed[name] / _GIB:.2f} GiB {place}"
    for name, place in (
      ("speed/peak_device_bytes", "device"),
      ("speed/peak_host_bytes", "host"),
    )
    if name in speed
  ]
  return ", ".join(parts) + f", peak memory {' and '.join(peaks)}"


def _format_flops(rate: float) -> str:
  """Returns FLOP/s with a prefix, e.g. "312 TFLOP/s"."""
  power = min(max(int(math.log10(max(rate, 1))) // 3, 3), 5)
  return f"{rate / 1000**power:.3g} {'GTP'[power - 3]}FLOP/s"
