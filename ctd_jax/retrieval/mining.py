"""Mined negatives: train records that a system ranks high for train queries.

`config.mining` names the system: BM25, another model, the model that is
trained, or a TREC run. A list that is made here is a TREC run too, in the
workdir: a run that is resumed reads the one that it was stopped with, and any
run may name it as its source.
"""

import dataclasses
from typing import Any

import numpy as np
from absl import logging

from ctd_jax.benchmark import runs
from ctd_jax.benchmark.runs import Run
from ctd_jax.retrieval import bm25
from ctd_jax.retrieval.dense import Ranker
from ctd_jax.retrieval.retriever import Retriever
from ctd_jax.training import devices
from ctd_jax.training.checkpoints import CheckpointError
from ctd_jax.training.experiment import Experiment
from ctd_jax.training.run_folder import NEGATIVES_FOLDER
from ctd_jax.utils import files

BM25, SELF = "bm25", "self"  # values of `config.mining.source`
_TRAIN = "train"  # split of the queries, and name of the gallery


def find_lists(
  experiment: Experiment,
  ranker: Ranker,
  step: int,
  mined_step: int,
  params: Any,
) -> Run:
  """Returns the rankings that the negatives behind a step are drawn from.

  Args:
    experiment: run whose train queries and train records are paired.
    ranker: its model.
    step: number of steps made.
    mined_step: step behind which the lists are made, at most `step`.
    params: parameters of the model after `step`.

  Raises:
    CheckpointError: if the lists of the model at an earlier step are gone.
    FileNotFoundError: if the source is missing.
    ValueError: if it cannot be read.
  """
  config, checkpoints = experiment.config, experiment.checkpoints
  source = config.mining.source
  folder = experiment.workdir / NEGATIVES_FOLDER

  def find_path(mined_step: int) -> files.AnyPath:
    name = f"{config.name}-{mined_step}"
    return folder / runs.run_file_name(name, _TRAIN, _TRAIN)

  path = find_path(mined_step)
  # Without a checkpoint, they may be those of a run of another config.
  is_made = checkpoints.latest_step is not None and path.exists()
  if not devices.is_true_in_all_processes(is_made):
    if source == SELF and step > mined_step:
      raise CheckpointError(
        f"no {path}: the run draws negatives that were mined at step "
        f"{mined_step} and cannot go on from step {step} without them; give "
        "another --workdir"
      )
    logging.info("mining negatives with %s", source)
    try:
      run = _rank(experiment, ranker, params)
    except (FileNotFoundError, ValueError) as error:
      raise type(error)(f"config.mining.source={source}: {error}") from error
    if devices.is_coordinator():
      path.unlink(missing_ok=True)
      name = f"{config.name}-{mined_step}"
      runs.write_run(dataclasses.replace(run, system=name), folder)
      # A list takes tens of megabytes: remove those that no checkpoint needs.
      if every := config.mining.refresh_every:
        for old_step in range(0, checkpoints.oldest_step - every + 1, every):
          find_path(old_step).unlink(missing_ok=True)
    devices.wait_for_all("mined negatives")
  # As they are written: a run that is resumed reads the same.
  return runs.read_run(path)


def _rank(experiment: Experiment, ranker: Ranker, params: Any) -> Run:
  """Returns the train records that the source ranks for the train queries."""
  config, benchmark = experiment.config, experiment.benchmark
  source, depth = config.mining.source, config.mining.depth
  is_train = np.array(benchmark.record_splits) == _TRAIN
  gallery = {_TRAIN: is_train}
  if source == SELF:
    return ranker.rank_split(params, _TRAIN, gallery, depth)[0]
  path = files.as_path(source)
  if source != BM25 and path.is_file():
    return runs.read_run(source, _TRAIN, _TRAIN)
  if path.suffix in (".trec", ".run", ".txt", ".tsv"):
    raise FileNotFoundError("no such file; expected a TREC run")
  queries = [query.text for query in benchmark.queries[_TRAIN]]
  texts = [record.text for record in benchmark.records]
  track, score_mode = bm25.TRACK, bm25.SCORE_MODE
  if source == BM25:
    top_k = bm25.rank_by_bm25(queries, texts, depth, gallery)
  else:
    members = np.flatnonzero(is_train)
    retriever = Retriever.load(source, texts=[texts[row] for row in members])
    track, score_mode = retriever.track, retriever.score_mode
    rows, scores = retriever.rank_rows(queries, min(depth, len(members)))
    top_k = {_TRAIN: (members[rows], scores)}
  ids = [query.query_id for query in benchmark.queries[_TRAIN]]
  (run,) = runs.make_runs(
    config.name, track, score_mode, _TRAIN, ids, benchmark.record_ids, top_k
  )
  return run
