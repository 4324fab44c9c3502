"""Training loop: restore, update, log, validate, save.

`train` is the life of a run from its workdir to its last checkpoint. Validation
is an argument, because ranking a gallery belongs to a higher layer.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import importlib.metadata
import json
import platform
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import ml_collections
import numpy as np
from absl import logging

from ctd_jax.benchmark.runs import Run
from ctd_jax.models.dual_encoder import ENCODER
from ctd_jax.training import devices, losses, run_folder, train_step
from ctd_jax.training import metrics as metrics_lib
from ctd_jax.training import optimizer as optimizer_lib
from ctd_jax.training import speed as speed_lib
from ctd_jax.training.batches import MINED
from ctd_jax.training.devices import PreemptionWatch
from ctd_jax.training.experiment import TrainingSetup
from ctd_jax.training.input_pipeline import BatchIterator
from ctd_jax.training.objective import Metrics
from ctd_jax.training.run_folder import Folder
from ctd_jax.training.speed import ModelFlops, SpeedMeter, StepWork
from ctd_jax.training.train_step import TrainState
from ctd_jax.utils import files, output


class RunRecord:
  """Provenance and cost of a run, in a file of its workdir.

  A resumed run keeps the command and commit of its first part, and the seconds
  of all parts add up.
  """

  def __init__(self, workdir: Folder, config: ml_collections.ConfigDict):
    """Starts the clock; reads the record of an earlier part, if any."""
    self._path = workdir / run_folder.TRAINING_FILE
    self._start_time = time.time()
    self._fields = {
      "command": files.command_line(),
      "commit": files.code_commit(),
      "seconds": 0.0,  # wall time of the training, without evaluation
      "seeds": [config.seed],
      "environment": _describe_environment(),
    }
    loss_hash = losses.hash_module(config.loss.module)
    if loss_hash:
      self._fields["loss_module_sha256"] = loss_hash
    # A resumed run: what it was begun with stays.
    if self._path.exists():
      self._fields |= json.loads(self._path.read_text())
    if self._fields.get("loss_module_sha256", "") != loss_hash:
      logging.warning(
        "config.loss.module=%s has changed since %s began: finished steps were "
        "trained with the old code; to train with the new one, give another "
        "--workdir",
        config.loss.module,
        workdir,
      )
    self._previous_seconds = self._fields["seconds"]

  @property
  def seconds(self) -> float:
    """Wall time of all parts of the run."""
    return self._previous_seconds + time.time() - self._start_time

  def write(self) -> None:
    """Writes the record as of now."""
    self._fields["seconds"] = round(self.seconds, 1)
    text = json.dumps(self._fields, indent=2)
    if devices.is_coordinator():
      files.write_text(self._path, text + "\n")


def _describe_environment() -> dict[str, str]:
  """Returns the versions and devices that a run depends on."""
  names = ("ctd_jax", "jax", "jaxlib", "flax", "optax", "numpy")
  versions = {
    found.name.replace("-", "_"): found.version
    for found in importlib.metadata.distributions()
  }
  device = jax.devices()[0]
  return {
    "python": platform.python_version(),
    **{name: versions.get(name, "not installed") for name in names},
    "devices": f"{jax.device_count()} {device.platform} {device.device_kind}",
    "processes": str(jax.process_count()),
  }


# Parameters -> the same with what validation chooses among them, and metrics.
Validate = Callable[[Any], tuple[Any, Mapping[str, float]]]
# Steps made, the step behind which the lists are made, and parameters -> the
# rankings that mined negatives are drawn from.
FindLists = Callable[[int, int, Any], Run]


class RunOutputs:
  """Outputs of the loop: metrics, speed, checkpoints and record.

  Attributes:
    bar: yields the steps that are left; shows loss and speed.
  """

  def __init__(
    self,
    experiment: TrainingSetup,
    batches: BatchIterator,
    first_step: int,
    record: RunRecord,
    validate: Validate,
    meter: SpeedMeter,
  ):
    """Opens the files of a run that continues behind a step."""
    config, total_steps = experiment.config, experiment.total_steps
    self._record = record
    self.bar = output.Progress(
      range(first_step + 1, total_steps + 1),
      total=total_steps,
      initial=first_step,
      unit="step",
      desc="train",
    )
    self._checkpoints = experiment.checkpoints
    self._batches = batches
    self._writer = metrics_lib.MetricWriter(
      experiment.workdir,
      first_step,
      metrics_lib.start_run(config, experiment.workdir),
    )
    self._validate = validate
    self._log_every = config.log_every
    # Learning rate of the encoder by update. A run without updates asks for
    # none.
    self._rate_of_update = optimizer_lib.learning_rate_schedule(
      config.optimizer.learning_rate,
      max(1, total_steps // config.accumulate_steps),
      config.optimizer.warmup_fraction,
      config.optimizer.schedule,
    )
    self._accumulate_steps = config.accumulate_steps
    self._meter = meter
    # Of each step since the last validation, before it is clipped.
    self._gradient_norms: list[float] = []
    self._clip_norm = config.optimizer.clip_norm
    # Step, metrics and size of the last update, not yet read.
    self._pending: tuple[int, Metrics, StepWork] | None = None

  def log_update(self, step: int, metrics: Metrics, work: StepWork) -> None:
    """Logs the update before this one.

    The values are read one step late: the host prepares the next batch while
    the device computes.
    """
    self.flush()
    self._pending = step, metrics, work

  def flush(self) -> None:
    """Checks the metrics of the last update, writes them where they are due."""
    if self._pending is None:
      return
    step, metrics, work = self._pending
    self._pending = None
    values = jax.device_get(metrics)  # waits for the device
    metrics_lib.check_finite(step, values)
    self._gradient_norms.append(float(values["gradient_norm"]))
    self._meter.count_step(work)
    if step % self._log_every == 0:
      rate = self._rate_of_update((step - 1) // self._accumulate_steps)
      self._writer.write(step, values | {"learning_rate": rate})
      postfix = {"loss": f"{float(values['loss']):.3f}"}
      if speed := self._meter.read():
        self._writer.write(step, speed, is_speed=True)
        postfix |= speed_lib.format_postfix(speed)
      self.bar.set_postfix(postfix)

  def save(self, step: int, state: TrainState) -> None:
    """Saves a checkpoint to continue from, which is never the best."""
    self.flush()
    self._checkpoints.save(step, state, self._batches)

  def validate_and_save(self, step: int, state: TrainState) -> None:
    """Validates the parameters and saves them with their metrics.

    What validation chooses among them is saved; the next update does not read
    it.
    """
    self.flush()
    if speed := self._meter.stop():  # what follows is not training
      logging.info("speed: %s", speed_lib.format_speed(speed))
    self._log_gradients()
    params, scores = self._validate(state.model_params)
    # An encoder is nothing that validation chooses; a frozen one stays apart.
    state = state.replace(params={**params, ENCODER: state.params[ENCODER]})
    self._writer.write(step, scores)
    self._writer.flush()
    logging.info(
      "step %d/%d, %.0f s: %s",
      step,
      self.bar.total,
      self._record.seconds,
      "  ".join(f"{name} {value:.4f}" for name, value in scores.items()),
    )
    self._checkpoints.save(step, state, self._batches, scores)
    self._record.write()

  def _log_gradients(self) -> None:
    """Logs the norms of gradients since the last validation."""
    if not self._gradient_norms:
      return
    norms, clipped = np.array(self._gradient_norms), ""
    self._gradient_norms.clear()
    # The mean gradient of several steps is clipped as one.
    if self._clip_norm and self._accumulate_steps == 1:
      share = np.mean(norms > self._clip_norm)
      clipped = f", clipped to {self._clip_norm:g} in {100 * share:.0f}%"
    logging.info(
      "gradient norm: median %.3g, largest %.3g, of %d steps%s",
      np.median(norms),
      norms.max(),
      len(norms),
      clipped,
    )
    if not norms.any():
      logging.warning(
        "nothing was learned: the gradient was 0 in all these steps. With a "
        "teacher, check that it scores the records that are drawn"
      )

  def stop_early(self, step: int) -> None:
    """Says why the run ends before its last step."""
    logging.info(
      "stopped at step %d of %d: no validation was better than that of step %d "
      "(config.patience)",
      step,
      self.bar.total,
      self._checkpoints.best_step,
    )

  def close(self) -> None:
    """Closes the files of metrics."""
    self._writer.close()


def train(
  experiment: TrainingSetup,
  validate: Validate,
  watch: PreemptionWatch,
  stop_after: int | None = None,
  profile: range | None = None,
  find_lists: FindLists | None = None,
) -> bool:
  """Trains a run, or continues with it from its latest checkpoint.

  Args:
    experiment: assembled from config and workdir.
    validate: returns the parameters with what it chooses among them, and their
      metrics, the selecting one among them.
    watch: entered; a signal ends the loop after the current step.
    stop_after: leave the loop after this many updates, as a cut-off would.
    profile: steps of which a trace is written.
    find_lists: asked where negatives are mined.

  Returns:
    Whether the run has ended, so that the best checkpoint is final.
  """
  config, total_steps = experiment.config, experiment.total_steps
  speed_lib.check_profile(profile, total_steps)
  record = RunRecord(experiment.workdir, config)  # the clock starts
  with contextlib.ExitStack() as stack:
    meter = SpeedMeter(speed_lib.find_peak_flops(experiment.mesh))
    stack.enter_context(contextlib.closing(meter))
    place = functools.partial(_place_batch, experiment)
    batches = experiment.training_batches(place)
    stack.enter_context(contextlib.closing(batches))
    # Before the checkpoints are read: a run of another config is left alone.
    experiment.claim_workdir()
    first_step, state = _restore_or_init(experiment, batches)
    refresh_every = config.mining.refresh_every

    def take_lists(step: int) -> None:
      if config.negatives[MINED]:
        mined_step = step - step % refresh_every if refresh_every else 0
        lists = find_lists(step, mined_step, state.model_params)
        batches.read_as(experiment.training_batches(place, lists))

    if first_step < total_steps:
      take_lists(first_step)
    profiler = speed_lib.StepProfiler(profile, experiment.workdir, first_step)
    stack.enter_context(contextlib.closing(profiler))
    outputs = RunOutputs(
      experiment, batches, first_step, record, validate, meter
    )
    stack.enter_context(contextlib.closing(outputs))
    objective = experiment.make_objective()
    update = train_step.make_train_step(
      objective, experiment.optimizer, config.seed
    )
    flops = ModelFlops(objective)
    _log_start(experiment, state)
    # Signals are noted from here on; the loop stops after its step.
    stack.enter_context(watch.defer_signals())
    if experiment.checkpoints.latest_step is None and not total_steps:
      outputs.validate_and_save(0, state)  # a run without updates
    for step in outputs.bar:
      if experiment.has_stalled(step - 1):
        outputs.stop_early(step - 1)
        break
      if (
        refresh_every
        and step - 1 > first_step
        and not (step - 1) % refresh_every
      ):
        outputs.flush()
        meter.stop()  # what follows is not training
        take_lists(step - 1)
      profiler.begin_step(step)
      with jax.profiler.StepTraceAnnotation("train", step_num=step):
        with meter.wait_for_input():
          batch = next(batches)
        # The devices may still compute them.
        state, metrics = update(state, batch.arrays)
        meter.watch_update(metrics["loss"])
      profiler.end_step(step, metrics)
      work = dataclasses.replace(batch.work, flops=flops.count(batch.arrays))
      outputs.log_update(step, metrics, work)
      # Asked at every step: several processes agree on the step to stop at.
      stop_requested = watch.stop_requested(step)
      if step % config.eval_every == 0 or step == total_steps:
        outputs.validate_and_save(step, state)
      elif stop_requested:
        outputs.save(step, state)
      if stop_requested or (stop_after is not None and step >= stop_after):
        break
  # Checkpoints are written in the background; the run must not end before.
  experiment.checkpoints.wait()
  record.write()
  watch.exit_if_requested()
  return stop_after is None or stop_after >= total_steps


def _restore_or_init(
  experiment: TrainingSetup, batches: BatchIterator
) -> tuple[int, TrainState]:
  """Returns the step and state to start from; moves the batches there."""
  checkpoint = experiment.checkpoints.resume(
    experiment.abstract_state(), batches
  )
  if checkpoint is None:
    return 0, experiment.init_state()
  step, state = checkpoint
  logging.info("resuming %s at step %d", experiment.workdir, step)
  return step, state.replace(frozen=experiment.load_frozen())


class _PlacedBatch(NamedTuple):
  """A batch on the devices."""

  arrays: dict[str, Any]  # global, see `input_pipeline.training_batches`
  # Over all processes, without FLOPs. Each process is taken to have as many
  # queries and tokens as this one.
  work: StepWork


def _place_batch(
  experiment: TrainingSetup, batch: dict[str, Any]
) -> _PlacedBatch:
  """Returns a batch of host arrays, this process's share, on the devices."""
  return _PlacedBatch(
    devices.make_global_batch(batch, experiment.mesh),
    experiment.count_work(batch),
  )


def _log_start(experiment: TrainingSetup, state: TrainState) -> None:
  """Logs the size of the data, the model and the run."""
  logging.info(
    "%s: %s, %d parameters, %d of them trained, %d steps on %d %s",
    experiment.config.name,
    experiment.describe(),
    sum(x.size for x in jax.tree.leaves(state.model_params)),
    sum(x.size for x in jax.tree.leaves(state.params)),
    experiment.total_steps,
    experiment.mesh.size,
    jax.devices()[0].device_kind,
  )
