"""Speed between readings: rates, utilisation, waiting for input."""

import threading

import jax
import jax.numpy as jnp
import pytest

from ctd_jax.training.speed import meter as meter_lib
from ctd_jax.training.speed.meter import SpeedMeter, StepWork

WORK = StepWork(queries=8, tokens=90, columns=100, flops=3e9)


class Clock:
  """Time that passes when a test says so."""

  def __init__(self):
    self.now = 10.0

  def __call__(self) -> float:
    return self.now


@pytest.fixture
def clock(monkeypatch):
  clock = Clock()
  monkeypatch.setattr(meter_lib.time, "perf_counter", clock)
  return clock


@pytest.fixture
def meter(clock):
  meter = SpeedMeter(peak_flops=12e9)
  yield meter
  meter.close()


class Update:
  """Result of an update that ends when a test says so."""

  def __init__(self):
    self._is_done = threading.Event()

  def block_until_ready(self) -> None:
    self._is_done.wait()

  def finish(self, meter: SpeedMeter) -> None:
    self._is_done.set()
    while meter._updates.end_time is None:
      pass


def count_steps(meter: SpeedMeter, clock: Clock, steps: int) -> None:
  """Counts steps of half a second."""
  for _ in range(steps):
    clock.now += 0.5
    meter.count_step(WORK)


def test_rates_are_those_of_the_steps_between_two_readings(meter, clock):
  assert meter.read() == {}
  meter.count_step(WORK)  # may have been compiled: starts the clock
  count_steps(meter, clock, 4)
  speed = meter.read()
  assert speed["speed/steps_per_second"] == 2
  assert speed["speed/queries_per_second"] == 16
  assert speed["speed/tokens_per_second"] == 180
  assert speed["speed/row_fill"] == 0.9
  assert speed["speed/model_flops_per_second"] == 6e9
  assert speed["speed/model_flops_utilization"] == 0.5
  assert meter.read() == {}


def test_the_clock_stands_still_during_a_validation(meter, clock):
  meter.count_step(WORK)
  count_steps(meter, clock, 3)
  meter.read()
  count_steps(meter, clock, 1)
  # All steps since the last stop, whether they were read or not.
  assert meter.stop()["speed/queries_per_second"] == 16
  clock.now += 60
  meter.count_step(WORK)
  assert meter.stop() == {}
  meter.count_step(WORK)
  clock.now += 1
  meter.count_step(WORK)
  assert meter.stop()["speed/steps_per_second"] == 1


def test_input_is_waited_for_only_while_no_update_runs(meter, clock):
  meter.count_step(WORK)  # the clock runs
  update = Update()
  meter.watch_update(update)
  with meter.wait_for_input():
    clock.now += 1  # the update runs all the time
  with meter.wait_for_input():
    clock.now += 1
    update.finish(meter)
    clock.now += 2  # nothing to do
  count_steps(meter, clock, 2)
  assert meter.read()["speed/input_wait_share"] == 2 / 5
  with meter.wait_for_input():
    clock.now += 1  # still nothing to do
  count_steps(meter, clock, 2)
  assert meter.read()["speed/input_wait_share"] == 1 / 2


def test_an_update_that_fails_does_not_end_the_watch(meter, clock):
  class Failure:
    def block_until_ready(self):
      raise RuntimeError("lost device")

  meter.watch_update(Failure())
  update = Update()
  meter.watch_update(update)
  update.finish(meter)


def test_compiling_and_memory_are_told(meter, clock):
  before = meter._compile_clock.seconds
  jax.jit(lambda x: x * 1.2345)(jnp.ones(3))
  meter.count_step(WORK)
  count_steps(meter, clock, 1)
  speed = meter.read()
  assert speed["speed/compile_seconds"] > before
  assert speed["speed/peak_host_bytes"] > 2**20
  assert "speed/peak_device_bytes" not in speed  # a processor


def test_without_a_peak_there_is_no_utilization(clock):
  meter = SpeedMeter()
  meter.count_step(WORK)
  count_steps(meter, clock, 1)
  speed = meter.read()
  meter.close()
  assert speed["speed/model_flops_per_second"] == 6e9
  assert "speed/model_flops_utilization" not in speed
  assert "MFU" not in meter_lib.format_speed(speed)
  assert "MFU" not in meter_lib.format_postfix(speed)


def test_the_line_of_the_log_has_every_figure():
  speed = {
    "speed/steps_per_second": 3.25,
    "speed/queries_per_second": 3328.0,
    "speed/tokens_per_second": 301_512.0,
    "speed/row_fill": 0.93,
    "speed/model_flops_per_second": 3.2e15,
    "speed/model_flops_utilization": 0.412,
    "speed/input_wait_share": 0.021,
    "speed/compile_seconds": 71.2,
    "speed/peak_device_bytes": 30 * 2**30,
    "speed/peak_host_bytes": 5 * 2**30,
  }
  assert meter_lib.format_speed(speed) == (
    "3.25 steps/s, 3,328 queries/s, 301,512 tokens/s, rows 93% full, "
    "3.2 PFLOP/s of the model (MFU 41.2%), waited for input 2.1%, "
    "compiled 71.2 s, peak memory 30.00 GiB device and 5.00 GiB host"
  )
  assert meter_lib.format_postfix(speed) == {
    "tokens/s": "301,512",
    "MFU": "41.2%",
    "input wait": "2.1%",
  }


def test_closing_waits_for_an_update_that_is_soon_done():
  # A thread that still waits when Python ends would abort the process.
  meter, update = SpeedMeter(), Update()
  meter.watch_update(update)
  threading.Timer(0.2, update._is_done.set).start()
  meter.close()
  assert not meter._updates.is_alive()


def test_closing_does_not_wait_for_an_update_that_never_ends(monkeypatch):
  monkeypatch.setattr(meter_lib, "_CLOSE_SECONDS", 0.05)
  meter, update = SpeedMeter(), Update()
  meter.watch_update(update)
  meter.close()
  assert meter._updates.is_alive()
  update._is_done.set()
