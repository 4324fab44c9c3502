"""Run files of a trained model: its best checkpoint ranks every split.

Axes: n records of a split, K months.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from absl import logging

from ctd_jax.benchmark import runs
from ctd_jax.evaluation import dates, protocol
from ctd_jax.models.encoding import Encoding
from ctd_jax.retrieval import dense
from ctd_jax.training import distributed, train_step
from ctd_jax.training import experiment as experiments
from ctd_jax.training.experiment import Experiment


def write_model_runs(experiment: Experiment) -> None:
  """Ranks with the best checkpoint and writes the run files.

  Raises:
    FileNotFoundError: if the workdir has no checkpoint.
    checkpoints.CheckpointError: if it is of another architecture.
  """
  workdir, config = experiment.workdir, experiment.config
  step = experiment.checkpoints.best_step
  if step is None:
    raise FileNotFoundError(
      f"no checkpoint in {workdir}/checkpoints; train it to the first "
      "validation (config.eval_every)"
    )
  params = experiment.restore_params(step)
  logging.info("%s: evaluating the checkpoint of step %d", config.name, step)
  ranker = dense.Ranker(experiment)
  records = ranker.encode_gallery(params)
  masks = protocol.gallery_masks(experiment.benchmark.kinds)
  for split in experiments.evaluation_splits(
    experiment.benchmark, config.eval.splits
  ):
    split_runs = ranker.rank_split(
      params, split, masks, config.eval.depth, records
    )
    if distributed.is_coordinator():
      for run in split_runs:
        runs.write_run(run, experiment.evaluation)
    if experiment.model.config.use_posterior and _has_same_calendar(experiment):
      _write_dates(experiment, params, records, split)


def _has_same_calendar(experiment: Experiment) -> bool:
  """Returns whether the posterior is over the months of the data set."""
  model_months = experiment.model.config.month_classes
  return model_months == train_step.month_classes(experiment.benchmark.timeline)


def _write_dates(
  experiment: Experiment, params: Any, records: Encoding, split: str
) -> None:
  """Writes the model's dates of the records of a split."""
  rows = dates.find_split_rows(experiment.benchmark, split)
  if len(rows):
    log_p = experiment.model.apply(
      {"params": dense.select_scoring_params(params)},
      jax.tree.map(lambda leaf: jnp.asarray(leaf[rows]), records),
      method="log_months",
    )
    if not distributed.is_coordinator():
      return
    dates.write_dates(
      experiment.evaluation,
      experiment.config.name,
      split,
      experiment.benchmark,
      rows,
      np.asarray(log_p),
    )
