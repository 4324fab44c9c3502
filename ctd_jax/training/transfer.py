"""Transfer of a trained run to another data set, for its evaluation there."""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Mapping

from absl import logging

from ctd_jax.benchmark.dataset import Benchmark
from ctd_jax.training import experiment as experiments
from ctd_jax.training.experiment import Experiment
from ctd_jax.training.input_pipeline import Tokens
from ctd_jax.training.run_folder import EVALUATION_FOLDER, Folder


def transfer_experiment(
  experiment: Experiment,
  dataset: str,
  data_dir: str | os.PathLike | None = None,
) -> Experiment:
  """Returns a trained run with the queries and records of another data set.

  Model, tokenizer and calendar heads stay what they are; the share of unknown
  and cut tokens is logged. Where the calendar is another one, the model dates
  the queries itself.

  Args:
    experiment: the run.
    dataset: name as in `config.dataset`; built if need be.
    data_dir: where it lies; None means where `config.data_dir` says.

  Raises:
    ValueError: naming the data set, or the source file or folder at fault.
  """
  config = experiment.config
  benchmark = experiments.build_benchmark(
    dataset, data_dir or config.data_dir, config.sources
  )
  texts = experiments.tokenize_benchmark(
    benchmark, experiment.backbone, config.query_length, config.record_length
  )
  query_intervals = experiments.read_query_intervals(
    benchmark, config.score_mode, config.query_dates
  )
  months = experiment.benchmark.timeline.months
  if query_intervals and benchmark.timeline.months != months:
    # The posterior is over the months of the calendar it was trained on.
    query_intervals = {}
    logging.warning(
      "%s has another calendar than %s was trained on: the model, not the "
      "parser, dates its queries",
      benchmark.name,
      config.name,
    )
  _log_coverage(
    {"records": texts["records"], **texts["queries"]},
    experiment.tokenizer.unk_id,
    benchmark.name,
    config.name,
  )
  return dataclasses.replace(
    experiment,
    evaluation=transfer_folder(experiment.workdir, benchmark),
    benchmark=benchmark,
    **texts,
    query_intervals=query_intervals,
  )


def _log_coverage(
  tokens_by_name: Mapping[str, Tokens], unk_id: int, dataset: str, system: str
) -> None:
  """Logs how many tokens a tokenizer does not know, and how many it cut."""
  for name, tokens in tokens_by_name.items():
    if len(tokens):
      logging.info(
        "%s, %s: %.1f %% of the tokens are unknown to %s, %.1f %% of the texts "
        "fill all %d places and may be cut",
        dataset,
        name,
        100 * (tokens.ids == unk_id).sum() / tokens.mask.sum(),
        system,
        100 * tokens.mask.all(axis=1).mean(),
        tokens.mask.shape[1],
      )


def transfer_folder(workdir: Folder, benchmark: Benchmark) -> Folder:
  """Returns the folder of a workdir for the evaluation on another data set."""
  # "chunqiutr/mini:2.0.0" -> "chunqiutr_mini_2.0.0", one folder.
  name = re.sub(r"[^\w.-]+", "_", benchmark.name)
  return workdir / EVALUATION_FOLDER / name
