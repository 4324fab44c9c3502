"""Training loop: restore, update, log, validate, save.

`train` is the life of a run from its workdir to its last checkpoint. Validation
is an argument, because ranking a gallery belongs to a higher layer.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Iterator
from typing import Any, NamedTuple

import jax
import numpy as np
import optax
from absl import logging

from ctd_jax.training import metrics as metrics_lib
from ctd_jax.training import optimizer as optimizer_lib
from ctd_jax.training import (
  partitioning,
  speed,
  train_step,
  weights_and_biases,
)
from ctd_jax.training.batch_iterator import BatchIterator
from ctd_jax.training.experiment import Experiment
from ctd_jax.training.objective import Metrics, Objective
from ctd_jax.training.preemption import PreemptionWatch
from ctd_jax.training.run_outputs import RunOutputs, Validate
from ctd_jax.training.run_record import RunRecord
from ctd_jax.training.speed import ModelFlops, SpeedMeter, StepWork
from ctd_jax.training.train_step import TrainState, TrainStep
from ctd_jax.utils import progress


def train(
  experiment: Experiment,
  validate: Validate,
  watch: PreemptionWatch,
  stop_after: int | None = None,
  profile: range | None = None,
) -> bool:
  """Trains a run, or goes on with it from its latest checkpoint.

  Args:
    experiment: assembled from config and workdir.
    validate: returns the parameters with what it chooses among them, and their
      metrics, the selecting one among them.
    watch: entered; a signal ends the loop after the step at hand.
    stop_after: leave the loop after this many updates, as a cut-off would.
    profile: steps of which a trace is written.

  Returns:
    Whether the last step was reached, so that the best checkpoint is final.

  Raises:
    DivergedError: if the loss stops being finite.
    CheckpointError: if the workdir holds a run of another config.
    Preempted: if a signal said so; the state has been saved.
    ValueError: if the run has no such steps as `profile`.
  """
  config, total_steps = experiment.config, experiment.total_steps
  speed.check_profile(profile, total_steps)
  record = RunRecord(experiment.workdir, config.seed)  # the clock starts
  with contextlib.ExitStack() as stack:
    meter = SpeedMeter(speed.find_peak_flops(experiment.mesh))
    stack.enter_context(contextlib.closing(meter))
    batches = experiment.training_batches(
      functools.partial(_place_batch, mesh=experiment.mesh)
    )
    stack.enter_context(contextlib.closing(batches))
    # Before the checkpoints are read: a run of another config is left alone.
    experiment.claim_workdir()
    first_step, state = _restore_or_init(experiment, batches)
    profiler = speed.StepProfiler(profile, experiment.workdir, first_step)
    stack.enter_context(contextlib.closing(profiler))
    outputs = _open_outputs(
      experiment, batches, first_step, record, validate, meter
    )
    stack.enter_context(contextlib.closing(outputs.writer))
    updates = _Updates.make(experiment, batches, meter)
    _log_start(experiment, state)
    stack.enter_context(_defer_signals(watch))
    if experiment.checkpoints.latest_step is None and not total_steps:
      outputs.validate_and_save(0, state)  # a run without updates
    for step in outputs.bar:
      profiler.begin_step(step)
      with jax.profiler.StepTraceAnnotation("train", step_num=step):
        state, metrics, work = updates.run(state)
      profiler.end_step(step, metrics)
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


@dataclasses.dataclass(frozen=True)
class _Updates:
  """Updates of a state, each with the next batch, and measured.

  Attributes:
    batches: see `_PlacedBatch`.
    train_step: the jitted update.
    flops: counted by the shapes of a batch.
    meter: of the speed.
  """

  batches: BatchIterator
  train_step: TrainStep
  flops: ModelFlops
  meter: SpeedMeter

  @classmethod
  def make(
    cls,
    experiment: Experiment,
    batches: BatchIterator,
    meter: SpeedMeter,
  ) -> _Updates:
    """Returns the updates of an experiment."""
    config, mesh = experiment.config, experiment.mesh
    objective = Objective.from_config(config, experiment.model, mesh)
    return cls(
      batches=batches,
      train_step=train_step.make_train_step(
        objective, experiment.optimizer, config.seed
      ),
      flops=ModelFlops(objective),
      meter=meter,
    )

  def run(self, state: TrainState) -> tuple[TrainState, Metrics, StepWork]:
    """Returns the new state, which the devices may still compute."""
    with self.meter.wait_for_input():
      batch = next(self.batches)
    state, metrics = self.train_step(state, batch.arrays)
    self.meter.watch_update(metrics["loss"])
    flops = self.flops.count(batch.arrays)
    return state, metrics, dataclasses.replace(batch.work, flops=flops)


def _open_outputs(
  experiment: Experiment,
  batches: BatchIterator,
  first_step: int,
  record: RunRecord,
  validate: Validate,
  meter: SpeedMeter,
) -> RunOutputs:
  """Returns the outputs of a run that goes on behind `first_step`."""
  config, total_steps = experiment.config, experiment.total_steps
  return RunOutputs(
    checkpoints=experiment.checkpoints,
    batches=batches,
    writer=metrics_lib.MetricWriter(
      experiment.workdir,
      first_step,
      weights_and_biases.start_run(config, experiment.workdir),
    ),
    record=record,
    validate=validate,
    bar=progress.Progress(
      range(first_step + 1, total_steps + 1),
      total=total_steps,
      initial=first_step,
      unit="step",
      desc="train",
    ),
    log_every=config.log_every,
    schedule=_make_schedule(experiment),
    meter=meter,
  )


def _restore_or_init(
  experiment: Experiment, batches: BatchIterator
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


@contextlib.contextmanager
def _defer_signals(watch: PreemptionWatch) -> Iterator[None]:
  """Has signals noted while the loop runs, which stops after its step."""
  watch.defers_signals = True
  try:
    yield
  finally:
    watch.defers_signals = False


def _make_schedule(experiment: Experiment) -> optax.Schedule:
  """Returns the learning rate of the encoder by step, from 0."""
  section = experiment.config.optimizer
  accumulate_steps = experiment.config.accumulate_steps
  rate_of_update = optimizer_lib.learning_rate_schedule(
    section.learning_rate,
    # A run without updates asks for none.
    max(1, experiment.total_steps // accumulate_steps),
    section.warmup_fraction,
  )
  return lambda step: rate_of_update(step // accumulate_steps)


class _PlacedBatch(NamedTuple):
  """A batch on the devices.

  Attributes:
    arrays: global, see `input_pipeline.training_batches`.
    work: over all processes, without FLOPs. Each process is taken to have as
      many queries and tokens as this one.
  """

  arrays: dict[str, Any]
  work: StepWork


def _place_batch(
  batch: dict[str, Any], mesh: jax.sharding.Mesh
) -> _PlacedBatch:
  """Returns a batch of host arrays, this process's share, on the devices."""
  texts, processes = batch["texts"], jax.process_count()
  work = StepWork(
    queries=len(batch["query_ends"]) * processes,
    tokens=int(np.count_nonzero(texts.segments)) * processes,
    columns=texts.segments.size * processes,
    flops=0.0,
  )
  return _PlacedBatch(partitioning.make_global_batch(batch, mesh), work)


def _log_start(experiment: Experiment, state: TrainState) -> None:
  """Logs the size of the data, the model and the run."""
  benchmark = experiment.benchmark
  logging.info(
    "%s: %s, %d train queries, %d records, %d parameters, %d of them trained, "
    "%d steps on %d %s",
    experiment.config.name,
    benchmark.name,
    len(benchmark.queries["train"]),
    len(benchmark.records),
    sum(x.size for x in jax.tree.leaves(state.model_params)),
    sum(x.size for x in jax.tree.leaves(state.params)),
    experiment.total_steps,
    experiment.mesh.size,
    jax.devices()[0].device_kind,
  )
