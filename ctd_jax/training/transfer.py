"""Transfer of a trained run to another data set, for its evaluation there."""

import dataclasses
import os
import re
from collections.abc import Mapping

import ml_collections
from absl import logging

from ctd_jax.benchmark.benchmark import Benchmark
from ctd_jax.chronology.reigns import Timeline
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
  tokens is logged. Where the calendar is another one, the model dates the
  queries itself.

  Args:
    dataset: name as in `config.dataset`; built if need be.
    data_dir: where it lies; None means where `config.data_dir` says.

  Raises:
    ValueError: naming the data set, or the source file or folder at fault.
  """
  config = experiment.config
  benchmark = experiments.build_benchmark(
    dataset, data_dir or config.data_dir, config.sources
  )
  backbone = experiment.backbone.move_to(benchmark.timeline)
  texts = experiments.tokenize_benchmark(benchmark, backbone, config)
  query_intervals = experiments.read_query_intervals(
    benchmark, config.score_mode, config.query_dates
  )
  if not reads_query_dates(
    config, experiment.benchmark.timeline, benchmark.timeline
  ):
    query_intervals = {}
  _log_unknown_tokens(
    {"records": texts["records"], **texts["queries"]},
    experiment.tokenizer.unk_id,
    benchmark.name,
    config.name,
  )
  return dataclasses.replace(
    experiment,
    evaluation=transfer_folder(experiment.workdir, benchmark),
    benchmark=benchmark,
    backbone=backbone,
    **texts,
    query_intervals=query_intervals,
  )


def reads_query_dates(
  config: ml_collections.ConfigDict, timeline: Timeline, asked: Timeline
) -> bool:
  """Returns whether the parser, not the model, dates queries.

  Args:
    timeline: of the data set that it was trained on.
    asked: of the data set that it is asked about; where it is another, a
      warning says that the model dates the queries.
  """
  if not experiments.asks_parser(config.score_mode, config.query_dates):
    return False
  if asked.months != timeline.months:
    # The posterior is over the months of the calendar it was trained on.
    logging.warning(
      "%s has another calendar than %s was trained on: the model, not the "
      "parser, dates its queries",
      asked.name,
      config.name,
    )
    return False
  return True


def _log_unknown_tokens(
  tokens_by_name: Mapping[str, Tokens], unk_id: int, dataset: str, system: str
) -> None:
  """Logs how many tokens a tokenizer does not know."""
  for name, tokens in tokens_by_name.items():
    if len(tokens):
      logging.info(
        "%s, %s: %.1f %% of the tokens are unknown to %s",
        dataset,
        name,
        100 * (tokens.ids == unk_id).sum() / tokens.mask.sum(),
        system,
      )


def transfer_folder(workdir: Folder, benchmark: Benchmark) -> Folder:
  """Returns the folder of a workdir for the evaluation on another data set."""
  # "chunqiutr/mini:2.0.0" -> "chunqiutr_mini_2.0.0", one folder.
  name = re.sub(r"[^\w.-]+", "_", benchmark.name)
  return workdir / EVALUATION_FOLDER / name
