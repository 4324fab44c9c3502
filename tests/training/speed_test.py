"""Speed: peaks of devices, FLOPs of a model, the meter, traces of steps."""

import dataclasses
import pathlib
import threading

import jax.numpy as jnp
import pytest
from etils import epath

from ctd_jax import train
from ctd_jax.experiments import training_run
from ctd_jax.models.encoders.bert import BertConfig
from ctd_jax.models.encoders.layers import LoraConfig
from ctd_jax.training import devices, plan, train_step
from ctd_jax.training import speed as speed_lib
from ctd_jax.training.objective import Objective
from ctd_jax.training.speed import (
  ModelFlops,
  SpeedMeter,
  StepProfiler,
  StepWork,
)
from tests import synthetic
from tests.training import synthetic_run


@pytest.mark.parametrize(
  ("device_kind", "tera"),
  [
    ("NVIDIA H100 80GB HBM3", 989),
    ("NVIDIA H100 PCIe", 756),
    ("NVIDIA H100 NVL", 835),
    ("NVIDIA H200", 989),
    ("NVIDIA GH200 480GB", 989),
    ("NVIDIA B200", 2250),
    ("NVIDIA GB200", 2500),
    ("NVIDIA A100-SXM4-80GB", 312),
    ("NVIDIA A10G", 70),
    ("NVIDIA A10", 125),
    ("NVIDIA L40S", 362),
    ("NVIDIA L4", 121),
    ("NVIDIA GeForce RTX 4090", 165.2),
    ("AMD Instinct MI300X", 1307.4),
    ("TPU v2", 22.5),
    ("TPU v4", 275),
    ("TPU v5 lite", 197),
    ("TPU v5", 459),
    ("TPU v6 lite", 918),
    ("TPU7x", 1153.5),
  ],
)
def test_the_peak_is_that_of_one_device(device_kind, tera):
  assert speed_lib.find_device(device_kind).peak == tera


@pytest.mark.parametrize(
  "device_kind",
  [
    "Intel(R) Xeon(R) CPU",
    "NVIDIA H20",
    "NVIDIA L40",
    "Tesla T4",
    "TPU v9",
    # A seventh of it has no seventh of the table.
    "NVIDIA H100 80GB HBM3 MIG 1g.10gb",
  ],
)
def test_of_other_devices_no_peak_is_known(device_kind):
  assert speed_lib.find_device(device_kind) is None


SMALL_ENCODER = BertConfig(100, 128, 2, 2, 512, 128)


def make_objective(config, encoder, **fields) -> Objective:
  model = train_step.make_model(config.model, encoder, synthetic.TIMELINE)
  objective = Objective.from_config(config, model, devices.make_mesh(1))
  return dataclasses.replace(objective, **fields)


def count(config, encoder, **fields) -> tuple[float, tuple[int, int, int]]:
  """Returns the FLOPs of an update on a batch, and the shape of its packs."""
  workload = plan.Workload(encoder, synthetic.TIMELINE, 64, 128)
  objective = make_objective(config, encoder, **fields)
  batch = plan._abstract_batch(config, workload, objective.mesh, "cpu")
  return ModelFlops(objective).count(batch), batch["texts"].ids.shape


def test_the_flops_of_an_update_are_those_counted_by_hand():
  """BERT-base, three layers of it, and the products of queries and records."""
  width, mlp, layers, queries = 768, 3072, 3, 32
  encoder = BertConfig(21128, width, layers, 12, mlp, 512)
  config = synthetic_run.config("ft")
  config.query_length = config.record_length = 128
  config.batch_size = queries
  flops, (packs, rows, columns) = count(config, encoder)
  tokens = packs * rows * columns
  matrices = 4 * width**2 + 2 * width * mlp  # Q, K, V, output; two of the MLP
  attention = 2 * columns * width  # scores of all pairs, weighted values
  pairs = queries * queries * (1 + sum(config.negatives.values())) * width
  by_hand = 3 * 2 * (layers * tokens * (matrices + attention) + pairs)
  # XLA counts what is elementwise, too: softmax, GELU, norms.
  assert by_hand <= flops < 1.02 * by_hand


@pytest.mark.parametrize(
  ("encoder_fields", "fields", "share"),
  [
    ({"scan_layers": True}, {}, 1),
    ({"remat": True, "kept_activations": "products"}, {}, 1),
    ({}, {"encode_chunks": 2}, 1),
    ({"lora": LoraConfig(4, 8.0, 0.0, ("query",), "float32")}, {}, 2 / 3),
    ({}, {"freezes_encoder": True}, 1 / 3),
  ],
)
def test_flops_are_those_of_the_model_not_of_how_it_is_computed(
  encoder_fields, fields, share
):
  encoder = SMALL_ENCODER
  config = synthetic_run.config("ft")
  config.query_length = config.record_length = 128
  flops, _ = count(config, encoder)
  other, _ = count(
    config, dataclasses.replace(encoder, **encoder_fields), **fields
  )
  assert other == pytest.approx(share * flops, rel=0.03)


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
  monkeypatch.setattr(speed_lib.time, "perf_counter", clock)
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
    while meter._update.end_time is None:
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


@pytest.mark.parametrize(
  ("work", "rate"), [(WORK, 6e9), (dataclasses.replace(WORK, flops=None), None)]
)
def test_without_peak_or_flops_there_is_no_utilization(clock, work, rate):
  meter = SpeedMeter()
  for _ in range(2):
    meter.count_step(work)
    clock.now += 0.5
  clock.now -= 0.5
  speed = meter.read()
  meter.close()
  assert speed.get("speed/model_flops_per_second") == rate
  assert "speed/model_flops_utilization" not in speed
  assert ("FLOP/s" in speed_lib.format_speed(speed)) == (rate is not None)
  assert "MFU" not in speed_lib.format_speed(speed)
  assert "MFU" not in speed_lib.format_postfix(speed)


def test_without_a_processor_no_flops_are_counted_which_is_said_once(
  monkeypatch, caplog
):
  """With JAX_PLATFORMS=cuda or tpu JAX has no processor to count FLOPs on."""

  def find_accelerators(backend=None):
    raise RuntimeError(f"Unknown backend {backend}")

  monkeypatch.setattr(speed_lib.jax, "local_devices", find_accelerators)
  objective = make_objective(synthetic_run.config("ft"), SMALL_ENCODER)
  flops = ModelFlops(objective)
  for batch in ({}, {}):
    assert flops.count(batch) is None
    assert flops.count_computed(batch) is None
  (record,) = caplog.records
  assert "FLOPs and utilisation are left out" in record.message


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
  assert speed_lib.format_speed(speed) == (
    "3.25 steps/s, 3,328 queries/s, 301,512 tokens/s, rows 93% full, "
    "3.2 PFLOP/s of the model (MFU 41.2%), waited for input 2.1%, "
    "compiled 71.2 s, peak memory 30.00 GiB device and 5.00 GiB host"
  )
  assert speed_lib.format_postfix(speed) == {
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
  assert not meter._update.is_alive()


def test_closing_does_not_wait_for_an_update_that_never_ends(monkeypatch):
  monkeypatch.setattr(speed_lib, "_CLOSE_SECONDS", 0.05)
  meter, update = SpeedMeter(), Update()
  meter.watch_update(update)
  meter.close()
  assert meter._update.is_alive()
  update._is_done.set()


@pytest.fixture
def lines(monkeypatch):
  """Lines of the log."""
  log = []
  monkeypatch.setattr(
    speed_lib.logging, "info", lambda text, *args: log.append(text % args)
  )
  return log


def run_steps(profiler: StepProfiler, first: int, last: int) -> None:
  for step in range(first, last + 1):
    profiler.begin_step(step)
    profiler.end_step(step, jnp.ones(3) * step)
  profiler.close()


def trace_files(folder: pathlib.Path) -> list[pathlib.Path]:
  return list(folder.rglob("*.xplane.pb"))


@pytest.mark.parametrize(
  ("text", "message"),
  [
    ("20", "expected START:STOP, two step numbers such as 20:25"),
    ("a:b", "expected START:STOP, two step numbers"),
    ("20:25:30", "expected START:STOP, two step numbers"),
    ("-3:4", "expected START:STOP, two step numbers"),
    ("25:20", "expected 1 <= START < STOP"),
    ("20:20", "expected 1 <= START < STOP"),
    ("0:3", "expected 1 <= START < STOP; the first step is 1"),
  ],
)
def test_a_wrong_range_is_an_error_of_the_flag(text, message):
  parser = train.PROFILE_PARSER
  with pytest.raises(ValueError, match=message):
    parser.parse(text)
  assert parser.parse("20:25") == range(20, 25)


@pytest.mark.parametrize(
  ("steps", "last", "traced"),
  [(range(2, 4), 9, "2 to 3"), (range(2, 40), 5, "2 to 5")],
)
def test_steps_up_to_the_one_before_stop_are_traced(
  tmp_path, lines, steps, last, traced
):
  run_steps(StepProfiler(steps, tmp_path, 0), 1, last)
  assert len(trace_files(tmp_path / "profile")) == 1
  assert lines == [f"trace of the steps {traced} is in {tmp_path / 'profile'}"]


def test_without_a_range_nothing_is_written(tmp_path, lines):
  run_steps(StepProfiler(None, tmp_path, 0), 1, 9)
  assert not lines
  assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("resume_step", [2, 3, 8])
def test_a_run_resumed_behind_the_start_says_so(tmp_path, lines, resume_step):
  profiler = StepProfiler(range(2, 5), tmp_path, resume_step)
  run_steps(profiler, resume_step + 1, 9)
  assert lines == [
    "--profile=2:5: step 2 is already done, nothing is traced; the next step "
    f"is {resume_step + 1}"
  ]
  assert not list(tmp_path.iterdir())


def test_steps_that_the_run_does_not_have_are_refused(tmp_path):
  with pytest.MonkeyPatch.context() as patch:
    synthetic_run.install(patch.setattr)
    config = synthetic_run.config("ft")
    with pytest.raises(ValueError, match="--profile=20:22: the run has 13 ste"):
      training_run.train_and_evaluate(config, tmp_path, profile=range(20, 22))
  assert not (tmp_path / "config.json").exists()


def test_only_the_first_process_traces(tmp_path, monkeypatch):
  monkeypatch.setattr(speed_lib.devices, "is_coordinator", lambda: False)
  run_steps(StepProfiler(range(2, 4), tmp_path, 0), 1, 9)
  assert not list(tmp_path.iterdir())


def test_the_trace_of_a_run_in_a_bucket_is_copied_there(
  tmp_path, lines, monkeypatch
):
  local_folders = []
  start_trace = speed_lib.jax.profiler.start_trace
  monkeypatch.setattr(
    speed_lib.jax.profiler,
    "start_trace",
    lambda folder: (local_folders.append(folder), start_trace(folder)),
  )
  workdir = epath.Path(tmp_path)  # of the class that buckets have
  run_steps(StepProfiler(range(1, 2), workdir, 0), 1, 2)
  assert trace_files(tmp_path / "profile")
  assert not pathlib.Path(local_folders[0]).exists()


def test_a_validity_run_has_no_steps_to_trace(tmp_path):
  config = synthetic_run.config("ft")
  config.task = "validity"
  with pytest.raises(ValueError, match="--profile: config.task='validity' is"):
    training_run.run_task(config, tmp_path, range(2, 4))
