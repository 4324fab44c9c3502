"""Grid search over hyperparameters, resumable.

The published choices were made on the published data and may not suit others.
Networks are compared by the validation MSE of the epoch that the protocol
selects. Regressors are compared by five-fold cross-validation on train under
the paper's protocol, and by validation MSE under the honest one.

Axes: N samples, T = 3 targets.

Source: Chronocept, arXiv 2505.07637v1, appendix on hyperparameters; the
criteria are those of the authors' code
(github.com/krishgoel/chronocept-baseline-models, fc375d6).
"""

from __future__ import annotations

import json
import pathlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import jax
import ml_collections
import numpy as np
from sklearn.model_selection import KFold, ParameterGrid

from ctd_jax.tasks.chronocept.baselines import systems
from ctd_jax.tasks.chronocept.baselines.features import FrozenFeatures
from ctd_jax.utils import files, progress

NUM_FOLDS = 5  # as in the authors' code
SEARCH_FILE = "search.json"
TargetsBySplit = Mapping[str, np.ndarray]
InputsBySplit = Mapping[str, Mapping[str, Any]]


def iterate_candidates(
  config: ml_collections.ConfigDict,
) -> Iterator[ml_collections.ConfigDict]:
  """Yields `config.model` with every combination of `config.grid`.

  Args:
    config: model and grid (field of the model -> values) are read.
  """
  for changes in ParameterGrid(config.grid.to_dict()):
    hyper = ml_collections.ConfigDict(config.model)
    hyper.update(changes)
    yield hyper


def choose_hyperparameters(
  config: ml_collections.ConfigDict,
  workdir: pathlib.Path,
  features: FrozenFeatures,
  inputs: Callable[[str], Mapping[str, Any]],
  targets: TargetsBySplit,
  selection: str,
) -> ml_collections.ConfigDict:
  """Returns `config.model` with the best values of the grid.

  Scores are written into the workdir, so an interrupted search resumes. Of
  candidates with equal scores the first one wins.

  Args:
    config: model, grid, protocol and the first of the seeds are read.
    workdir: of the run.
    features: of the frozen encoder.
    inputs: function of a split that returns the inputs of the system.
    targets: split -> [N, T], in the units that are trained on.
    selection: which epoch of a network counts.

  Raises:
    ValueError: if the config has no grid.
  """
  if not config.grid:
    raise ValueError(
      f"config.search=True: {config.model.kind} has no grid to search"
    )
  path = workdir / SEARCH_FILE
  scored_candidates = (
    json.loads(path.read_text("utf-8")) if path.exists() else []
  )
  # A candidate is identified by its hyperparameters, not by its position, so a
  # grid may be extended between two calls.
  scored_models = [candidate["model"] for candidate in scored_candidates]
  pending_candidates = [
    c for c in iterate_candidates(config) if c.to_dict() not in scored_models
  ]
  # Encoding is expensive: none where every candidate has its score.
  split_inputs = {
    split: inputs(split)
    for split in ("train", "validation")
    if pending_candidates
  }
  for hyper in progress.Progress(
    pending_candidates, "search", unit="candidate"
  ):
    system = systems.make_system(hyper, features)
    score = _score_candidate(
      system, split_inputs, targets, selection, config.seeds[0], config.protocol
    )
    scored_candidates.append({"mse": score, "model": hyper.to_dict()})
    files.write_text(path, json.dumps(scored_candidates, indent=1) + "\n")
  # `min` returns the first of equal candidates.
  best = min(scored_candidates, key=lambda candidate: candidate["mse"])
  return ml_collections.ConfigDict(best["model"])


def _score_candidate(
  system: systems.BaselineSystem,
  inputs: InputsBySplit,
  targets: TargetsBySplit,
  selection: str,
  seed: int,
  protocol: str,
) -> float:
  """Returns the MSE by which candidates are compared."""
  if protocol == "paper" and not system.has_epochs:
    # A regressor has no epochs, so the authors cross-validate on train.
    k_fold = KFold(NUM_FOLDS, shuffle=True, random_state=seed)
    folds = k_fold.split(targets["train"])
    return float(
      np.mean(
        [_score_fold(system, inputs, targets, *fold, seed) for fold in folds]
      )
    )
  arrays, _ = system.fit(inputs, targets, selection, seed)
  predictions = system.predict(arrays, inputs["validation"])
  return float(np.mean((predictions - targets["validation"]) ** 2))


def _score_fold(
  system: systems.BaselineSystem,
  inputs: InputsBySplit,
  targets: TargetsBySplit,
  train_rows: np.ndarray,
  held_out_rows: np.ndarray,
  seed: int,
) -> float:
  """Returns the MSE on held-out train samples of a fit to the others."""

  def take_rows(indices):
    return jax.tree.map(
      lambda array: np.asarray(array)[indices], dict(inputs["train"])
    )

  arrays, _ = system.fit(
    {"train": take_rows(train_rows)},
    {"train": targets["train"][train_rows]},
    "",
    seed,
  )
  predictions = system.predict(arrays, take_rows(held_out_rows))
  return float(np.mean((predictions - targets["train"][held_out_rows]) ** 2))
