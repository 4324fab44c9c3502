"""Training run of a retriever: train, validate by ranking, evaluate."""

import functools
import os

import jax
import ml_collections

from ctd_jax.experiments import evaluation_run
from ctd_jax.retrieval import dense, mining
from ctd_jax.training import devices, loop, losses, run_folder
from ctd_jax.training import experiment as experiments

# Values of `config.task`; a config without one is for retrieval.
RETRIEVAL, VALIDITY = "retrieval", "validity"


def run_task(
  config: ml_collections.ConfigDict,
  workdir: str | os.PathLike,
  profile: range | None = None,
) -> None:
  """Trains and evaluates a run for the task that its config names.

  Args:
    config: `task` is "retrieval", the default, or "validity".
    workdir: folder of the run.
    profile: steps of which a trace is written, in retrieval.

  Raises:
    ValueError: if there is no such task, or it is not traced.
  """
  task = config.get("task", RETRIEVAL)
  if task == RETRIEVAL:
    train_and_evaluate(config, workdir, profile=profile)
  elif task == VALIDITY:
    if profile is not None:
      raise ValueError(f"--profile: config.task={task!r} is not traced")
    train_validity(config, workdir)
  else:
    raise ValueError(
      f"config.task={task!r}: expected one of {RETRIEVAL}, {VALIDITY}"
    )


def train_and_evaluate(
  config: ml_collections.ConfigDict,
  workdir: str | os.PathLike,
  stop_after: int | None = None,
  profile: range | None = None,
) -> None:
  """Trains, then evaluates the best checkpoint and prints the tables.

  Args:
    config: see `training.config.base_config`.
    workdir: created if absent; a run found there is resumed.
    stop_after: leave the loop after this many updates, as a cut-off would.
    profile: steps of which a trace is written.

  Raises:
    DivergedError: if the loss stops being finite.
    CheckpointError: if the workdir holds a run of another config.
    FileNotFoundError: if weights are missing; the message names their field.
    Preempted: if a signal said so; the state has been saved.
    ValueError: if a field of the config is wrong, or the run does not have the
      steps of the profile; the message names them.
  """
  evaluation_run.validate_evaluation(config)
  losses.try_loss(config.loss)  # before a data set is built
  with devices.PreemptionWatch() as watch:
    experiment = experiments.assemble_experiment(config, workdir)
    ranker = dense.Ranker(experiment)
    is_finished = loop.train(
      experiment,
      ranker.validate,
      watch,
      stop_after,
      profile,
      functools.partial(mining.find_lists, experiment, ranker),
    )
    if is_finished:
      evaluation_run.evaluate_experiment(experiment)
    experiment.checkpoints.close()


def train_validity(
  config: ml_collections.ConfigDict, workdir: str | os.PathLike
) -> None:
  """Trains and evaluates a baseline of validity curves.

  Raises:
    ValueError: if the extra `chronocept` is not installed, or with several
      processes.
  """
  try:
    # Here, so that retrieval does without the extra.
    from ctd_jax.tasks.chronocept import experiment
  except ModuleNotFoundError as error:
    raise ValueError(
      f"config.task={VALIDITY!r} needs {error.name}: "
      "pip install 'ctd_jax[chronocept]'"
    ) from None
  if jax.process_count() > 1:
    raise ValueError(
      f"{jax.process_count()} processes: config.task={VALIDITY!r} takes one"
    )
  experiment.run_experiment(config, run_folder.resolve_folder(workdir))
