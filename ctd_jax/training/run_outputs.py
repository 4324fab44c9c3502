"""What the training loop leaves behind: metrics, speed, checkpoints."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import grain
import jax
import optax
from absl import logging

from ctd_jax.models.dual_encoder import ENCODER
from ctd_jax.training import metrics as metrics_lib
from ctd_jax.training import speed as speed_lib
from ctd_jax.training.checkpoints import Checkpoints
from ctd_jax.training.objective import Metrics
from ctd_jax.training.run_record import RunRecord
from ctd_jax.training.speed import SpeedMeter, StepWork
from ctd_jax.training.train_step import TrainState
from ctd_jax.utils import progress

# Parameters -> the same with what validation chooses among them, and metrics.
Validate = Callable[[Any], tuple[Any, Mapping[str, float]]]


@dataclasses.dataclass
class RunOutputs:
  """Metrics, speed, checkpoints and record of a run.

  Attributes:
    checkpoints: of the workdir.
    batches: the training data, whose position is saved with the state.
    writer: of the metrics.
    record: seconds so far.
    validate: parameters -> the same with what it chooses, and metrics.
    bar: shows step, loss and speed.
    log_every: steps.
    schedule: learning rate of the encoder by step, from 0.
    meter: of the speed.
    pending: step, metrics and size of the last update, not yet read.
  """

  checkpoints: Checkpoints
  batches: grain.DatasetIterator
  writer: metrics_lib.MetricWriter
  record: RunRecord
  validate: Validate
  bar: progress.Progress
  log_every: int
  schedule: optax.Schedule
  meter: SpeedMeter
  pending: tuple[int, Metrics, StepWork] | None = None

  def log_update(self, step: int, metrics: Metrics, work: StepWork) -> None:
    """Logs the update before this one.

    The values are read one step late: the host prepares the next batch while
    the device computes.
    """
    self.flush()
    self.pending = step, metrics, work

  def flush(self) -> None:
    """Checks the metrics of the last update, writes them where they are due."""
    if self.pending is None:
      return
    step, metrics, work = self.pending
    self.pending = None
    values = jax.device_get(metrics)  # waits for the device
    metrics_lib.check_finite(step, values)
    self.meter.count_step(work)
    if step % self.log_every == 0:
      rate = {"learning_rate": self.schedule(step - 1)}
      self.writer.write(step, values | rate)
      postfix = {"loss": f"{float(values['loss']):.3f}"}
      if speed := self.meter.read():
        self.writer.write_speed(step, speed)
        postfix |= speed_lib.format_postfix(speed)
      self.bar.set_postfix(postfix)

  def save(self, step: int, state: TrainState) -> None:
    """Saves a checkpoint to go on from, which is never the best."""
    self.flush()
    self.checkpoints.save(step, state, self.batches)

  def validate_and_save(self, step: int, state: TrainState) -> None:
    """Validates the parameters and saves them with their metrics.

    What validation chooses among them is saved; the next update does not read
    it.
    """
    self.flush()
    if speed := self.meter.stop():  # what follows is no training
      logging.info("speed: %s", speed_lib.format_speed(speed))
    params, scores = self.validate(state.model_params)
    # An encoder is nothing that validation chooses; a frozen one stays apart.
    state = state.replace(params={**params, ENCODER: state.params[ENCODER]})
    self.writer.write(step, scores)
    self.writer.flush()
    logging.info(
      "step %d/%d, %.0f s: %s",
      step,
      self.bar.total,
      self.record.seconds,
      "  ".join(f"{name} {value:.4f}" for name, value in scores.items()),
    )
    self.checkpoints.save(step, state, self.batches, scores)
    self.record.write()
