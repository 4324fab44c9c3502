"""Trains a retriever and evaluates its best checkpoint; the main entry point.

  python -m ctd_jax.train --config=configs/tiny.py --workdir=runs/tiny

One loop for every system: build or reuse the data set, restore the latest
checkpoint of the workdir if there is one, update, validate with the score that
is trained, save, and at the end evaluate the best checkpoint on all splits. A
run that is told to stop (SIGTERM) saves and leaves with status 75; see
`preemption`, and `distributed` for several processes.
"""

from __future__ import annotations

import json
import pathlib
import time
from collections.abc import Mapping

import jax
import ml_collections
import numpy as np
import tensorboardX
import tqdm
from absl import flags, logging

from ctd_jax.retrieval.dense import Ranker
from ctd_jax.systems import evaluation_run
from ctd_jax.training import distributed, partitioning, preemption, train_step
from ctd_jax.training import experiment as experiments
from ctd_jax.training.experiment import Experiment
from ctd_jax.utils import command_line, files, provenance

# Values of `config.task`; a config without one is of retrieval.
RETRIEVAL, VALIDITY = "retrieval", "validity"


class DivergedError(ValueError):
  """The loss is no longer a number."""


class MetricsLog:
  """One JSON line and one TensorBoard point for every set of metrics.

  Lines hold nothing but the step and values that the seed determines, so the
  file of a resumed run equals that of an uninterrupted one.
  """

  def __init__(self, workdir: pathlib.Path, resume_step: int):
    """Opens the log; lines beyond `resume_step` are taken back.

    Of several processes the first one keeps it.
    """
    self._event_writer = None
    if not distributed.is_coordinator():
      return
    self._path = workdir / "metrics.jsonl"
    lines = self._path.read_text().splitlines() if self._path.exists() else []
    valid_lines = []
    for number, line in enumerate(lines, start=1):
      try:
        if json.loads(line)["step"] <= resume_step:
          valid_lines.append(line)
      except (json.JSONDecodeError, KeyError, TypeError):
        # The last line may have been cut off with the run.
        if number < len(lines):
          raise ValueError(
            f"{self._path}:{number}: not a line of metrics; remove it to resume"
          ) from None
    files.write_text(self._path, "".join(line + "\n" for line in valid_lines))
    self._event_writer = tensorboardX.SummaryWriter(
      str(workdir / "tensorboard"), purge_step=resume_step + 1
    )

  def write(self, step: int, metrics: Mapping[str, float]) -> None:
    """Appends `metrics` of `step`."""
    if self._event_writer is None:
      return
    values = {name: float(value) for name, value in metrics.items()}
    with self._path.open("a") as file:
      file.write(json.dumps({"step": step, **values}, sort_keys=True) + "\n")
    for name, value in values.items():
      self._event_writer.add_scalar(name, value, step)

  def close(self) -> None:
    """Flushes the events."""
    if self._event_writer is not None:
      self._event_writer.close()


def _check_finite(step: int, metrics: Mapping[str, float]) -> None:
  non_finite = [k for k, value in metrics.items() if not np.isfinite(value)]
  if non_finite:
    raise DivergedError(
      f"step {step}: {', '.join(non_finite)} is not finite. The last checkpoint is "
      "untouched; lower config.optimizer.learning_rate or set "
      "config.optimizer.clip_norm"
    )


class RunProvenance:
  """What this run has cost so far and where it came from, in a file.

  The seconds of an earlier part are kept when a run is resumed.
  """

  def __init__(self, experiment: Experiment):
    """Reads the record of an earlier part, if there is one."""
    self._path = experiment.workdir / experiments.TRAINING_FILE
    self._start_time = time.time()
    self._fields = {
      "command": provenance.command_line(),
      "commit": provenance.code_commit(),
      "seconds": 0.0,
      "seeds": [experiment.config.seed],
    }
    if self._path.exists():
      self._fields |= json.loads(self._path.read_text())
    self._previous_seconds = self._fields["seconds"]

  @property
  def seconds(self) -> float:
    """Wall time of all parts of the run."""
    return self._previous_seconds + time.time() - self._start_time

  def write(self) -> None:
    """Writes the record as of now."""
    self._fields["seconds"] = round(self.seconds, 1)
    text = json.dumps(self._fields, indent=2)
    if distributed.is_coordinator():
      files.write_text(self._path, text + "\n")


def train_and_evaluate(
  config: ml_collections.ConfigDict,
  workdir: pathlib.Path,
  stop_after: int | None = None,
) -> None:
  """Trains, then evaluates the best checkpoint and prints the tables.

  Args:
    config: see `configs/common.py`.
    workdir: created if absent; a run found there is resumed.
    stop_after: leave the loop after this many updates, as a cut-off would.

  Raises:
    DivergedError: if the loss stops being finite.
    checkpointing.CheckpointError: if the workdir holds a run of another
      config.
    preemption.Preempted: if a signal said so; the state has been saved.
  """
  with preemption.PreemptionWatch() as watch:
    experiment = experiments.assemble_experiment(config, workdir)
    run_provenance = RunProvenance(experiment)
    is_finished = _run_training(experiment, run_provenance, watch, stop_after)
    experiment.checkpoints.wait()
    run_provenance.write()
    watch.exit_if_requested()
    if is_finished:
      evaluation_run.evaluate_experiment(experiment)
    experiment.checkpoints.close()


def _run_training(
  experiment: Experiment,
  run_provenance: RunProvenance,
  watch: preemption.PreemptionWatch,
  stop_after: int | None,
) -> bool:
  """Runs the loop; returns whether it reached the last step."""
  config, total_steps = experiment.config, experiment.total_steps
  batches = experiment.training_batches()
  experiment.claim_workdir()
  checkpoint = experiment.checkpoints.resume(
    experiment.abstract_state(), batches
  )
  if checkpoint is None:
    first_step, state = 0, experiment.init_state()
  else:
    first_step, state = checkpoint
    logging.info("resuming %s at step %d", experiment.workdir, first_step)
  update = train_step.make_train_step(
    experiment.model,
    experiment.optimizer,
    config,
    experiment.mesh,
  )
  ranker = Ranker(experiment)
  log = MetricsLog(experiment.workdir, first_step)
  _log_start(experiment, state)

  def validate(step: int) -> None:
    scores = ranker.compute_validation_metrics(state.params)
    log.write(step, scores)
    logging.info(
      "step %d/%d, %.0f s: %s",
      step,
      total_steps,
      run_provenance.seconds,
      "  ".join(f"{k} {v:.4f}" for k, v in scores.items()),
    )
    experiment.checkpoints.save(step, state, batches, scores)
    run_provenance.write()

  if experiment.checkpoints.latest_step is None and not total_steps:
    validate(0)  # a run without updates
  unlogged = None
  watch.defers_signals = True
  bar = tqdm.tqdm(
    total=total_steps,
    initial=first_step,
    unit="step",
    disable=None,
    desc="train",
  )
  for step in range(first_step + 1, total_steps + 1):
    batch = partitioning.make_global_batch(next(batches), experiment.mesh)
    state, metrics = update(state, batch)
    # Read one step late: the device does not wait for the host.
    if unlogged is not None:
      _log_metrics(log, config, bar, *unlogged)
    unlogged = step, metrics
    stop_requested = watch.stop_requested(step)
    is_validation_step = step % config.eval_every == 0 or step == total_steps
    if is_validation_step or stop_requested:
      _log_metrics(log, config, bar, *unlogged)
      unlogged = None
    if is_validation_step:
      validate(step)
    elif stop_requested:
      experiment.checkpoints.save(step, state, batches)
    bar.update()
    if stop_requested or (stop_after is not None and step >= stop_after):
      break
  watch.defers_signals = False
  bar.close()
  log.close()
  return stop_after is None or stop_after >= total_steps


def _log_start(experiment: Experiment, state: train_step.TrainState) -> None:
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


def _log_metrics(
  log: MetricsLog,
  config: ml_collections.ConfigDict,
  bar: tqdm.tqdm,
  step: int,
  metrics: Mapping[str, jax.Array],
) -> None:
  """Checks the metrics of a step and logs them when they are due."""
  values = jax.device_get(metrics)
  _check_finite(step, values)
  if step % config.log_every == 0:
    log.write(step, values)
    bar.set_postfix(loss=f"{float(values['loss']):.3f}")


def train_validity(
  config: ml_collections.ConfigDict, workdir: pathlib.Path
) -> None:
  """Trains and evaluates a baseline of validity curves.

  Raises:
    ValueError: if the extra `baselines` is not installed, or with several
      processes.
  """
  try:
    # Here, so that retrieval does without the extra.
    from ctd_jax.tasks.chronocept import experiment
  except ModuleNotFoundError as error:
    raise ValueError(
      f"config.task={VALIDITY!r} needs {error.name}: "
      "pip install 'ctd_jax[baselines]'"
    ) from None
  if jax.process_count() > 1:
    raise ValueError(
      f"{jax.process_count()} processes: config.task={VALIDITY!r} takes one"
    )
  experiment.run_experiment(config, workdir)


def main() -> None:
  """Trains in --workdir and evaluates; what, `config.task` says."""
  distributed.initialize_processes()
  config = command_line.CONFIG.value
  task_runners = {RETRIEVAL: train_and_evaluate, VALIDITY: train_validity}
  task = config.get("task", RETRIEVAL)
  if task not in task_runners:
    raise ValueError(
      f"config.task={task!r}: expected one of {', '.join(task_runners)}"
    )
  task_runners[task](config, pathlib.Path(command_line.WORKDIR.value))


if __name__ == "__main__":
  flags.adopt_module_key_flags(command_line)  # shown by --help
  flags.adopt_module_key_flags(distributed)
  command_line.run_main(main)
