"""Training loop: restore, update, log, validate, save.

`train` is the life of a run from its workdir to its last checkpoint. Validation
is an argument, because ranking a gallery belongs to a higher layer.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import grain
import jax
import numpy as np
import optax
from absl import logging

from ctd_jax.training import metrics as metrics_lib
from ctd_jax.training import optimizer as optimizer_lib
from ctd_jax.training import partitioning, train_step
from ctd_jax.training.checkpoints import Checkpoints
from ctd_jax.training.experiment import Experiment
from ctd_jax.training.objective import Metrics, Objective
from ctd_jax.training.preemption import PreemptionWatch
from ctd_jax.training.run_record import RunRecord
from ctd_jax.training.train_step import TrainState
from ctd_jax.utils import progress

Validate = Callable[[Any], Mapping[str, float]]  # parameters -> metrics


def train(
  experiment: Experiment,
  validate: Validate,
  watch: PreemptionWatch,
  stop_after: int | None = None,
) -> bool:
  """Trains a run, or goes on with it from its latest checkpoint.

  Args:
    experiment: assembled from config and workdir.
    validate: returns the metrics of parameters, the selecting one among them.
    watch: entered; a signal ends the loop after the step at hand.
    stop_after: leave the loop after this many updates, as a cut-off would.

  Returns:
    Whether the last step was reached, so that the best checkpoint is final.

  Raises:
    DivergedError: if the loss stops being finite.
    CheckpointError: if the workdir holds a run of another config.
    Preempted: if a signal said so; the state has been saved.
  """
  config, total_steps = experiment.config, experiment.total_steps
  record = RunRecord(experiment.workdir, config.seed)  # the clock starts
  batches = experiment.training_batches()
  # Before the checkpoints are read: a run of another config is left alone.
  experiment.claim_workdir()
  first_step, state = _restore_or_init(experiment, batches)
  update = train_step.make_train_step(
    Objective.from_config(config, experiment.model, experiment.mesh),
    experiment.optimizer,
    config.seed,
  )
  writer = metrics_lib.MetricWriter(
    experiment.workdir, first_step, config.wandb_project, config.name
  )
  bar = progress.Progress(
    range(first_step + 1, total_steps + 1),
    total=total_steps,
    initial=first_step,
    unit="step",
    desc="train",
  )
  outputs = _RunOutputs(
    experiment.checkpoints,
    batches,
    writer,
    record,
    validate,
    bar,
    config.log_every,
    _make_schedule(experiment),
  )
  _log_start(experiment, state)
  with contextlib.closing(writer), _defer_signals(watch):
    if experiment.checkpoints.latest_step is None and not total_steps:
      outputs.validate_and_save(0, state)  # a run without updates
    for step in bar:
      host_batch = next(batches)
      batch = partitioning.make_global_batch(host_batch, experiment.mesh)
      state, metrics = update(state, batch)
      outputs.log_update(step, metrics, _count_tokens(host_batch))
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
  experiment: Experiment, batches: grain.DatasetIterator
) -> tuple[int, TrainState]:
  """Returns the step and state to start from; moves the batches there."""
  checkpoint = experiment.checkpoints.resume(
    experiment.abstract_state(), batches
  )
  if checkpoint is None:
    return 0, experiment.init_state()
  logging.info("resuming %s at step %d", experiment.workdir, checkpoint[0])
  return checkpoint


@contextlib.contextmanager
def _defer_signals(watch: PreemptionWatch) -> Iterator[None]:
  """Has signals noted while the loop runs, which stops after its step."""
  watch.defers_signals = True
  try:
    yield
  finally:
    watch.defers_signals = False


def _make_schedule(experiment: Experiment) -> optax.Schedule:
  """Returns the learning rate of the encoder by update, from 0."""
  section = experiment.config.optimizer
  return optimizer_lib.learning_rate_schedule(
    section.learning_rate,
    max(1, experiment.total_steps),  # a run without updates asks for none
    section.warmup_fraction,
  )


def _count_tokens(batch: Mapping[str, Any]) -> int:
  """Returns the tokens of a batch, those of other processes among them.

  Each process is taken to have as many as this one.
  """
  tokens = np.count_nonzero(batch["texts"].segments)
  return int(tokens) * jax.process_count()


@dataclasses.dataclass
class _RunOutputs:
  """What the loop leaves behind: metrics, checkpoints, the run's record.

  Attributes:
    checkpoints: of the workdir.
    batches: the training data, whose position is saved with the state.
    writer: of the metrics.
    record: seconds so far.
    validate: parameters -> metrics.
    bar: shows step and loss.
    log_every: steps.
    schedule: learning rate of the encoder by update, from 0.
    meter: of the speed.
    pending: step, metrics and number of tokens of the last update, not yet
      read.
  """

  checkpoints: Checkpoints
  batches: grain.DatasetIterator
  writer: metrics_lib.MetricWriter
  record: RunRecord
  validate: Validate
  bar: progress.Progress
  log_every: int
  schedule: optax.Schedule
  meter: metrics_lib.SpeedMeter = dataclasses.field(
    default_factory=metrics_lib.SpeedMeter
  )
  pending: tuple[int, Metrics, int] | None = None

  def log_update(self, step: int, metrics: Metrics, num_tokens: int) -> None:
    """Logs the update before this one.

    The values are read one step late: the host prepares the next batch while
    the device computes.
    """
    self.flush()
    self.pending = step, metrics, num_tokens

  def flush(self) -> None:
    """Checks the metrics of the last update, writes them where they are due."""
    if self.pending is None:
      return
    step, metrics, num_tokens = self.pending
    self.pending = None
    values = jax.device_get(metrics)  # waits for the device
    metrics_lib.check_finite(step, values)
    self.meter.count_step(num_tokens)
    if step % self.log_every == 0:
      rate = {"learning_rate": self.schedule(step - 1)}
      self.writer.write(step, values | rate)
      if speed := self.meter.read():
        self.writer.write_speed(step, speed)
      self.bar.set_postfix(loss=f"{float(values['loss']):.3f}")

  def save(self, step: int, state: TrainState) -> None:
    """Saves a checkpoint to go on from, which is never the best."""
    self.flush()
    self.checkpoints.save(step, state, self.batches)

  def validate_and_save(self, step: int, state: TrainState) -> None:
    """Validates the parameters and saves them with their metrics."""
    self.flush()
    self.meter.stop()  # what follows is no training
    scores = self.validate(state.params)
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


def _log_start(experiment: Experiment, state: TrainState) -> None:
  """Logs the size of the data, the model and the run."""
  benchmark = experiment.benchmark
  logging.info(
    "%s: %s, %d train queries, %d records, %d parameters, %d steps on %d %s",
    experiment.config.name,
    benchmark.name,
    len(benchmark.queries["train"]),
    len(benchmark.records),
    sum(x.size for x in jax.tree.leaves(state.params)),
    experiment.total_steps,
    experiment.mesh.size,
    jax.devices()[0].device_kind,
  )
