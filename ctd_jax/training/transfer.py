"""Transfer of a trained run to another data set, for its evaluation there."""

import dataclasses
import os
import re

import ml_collections
from absl import logging

from ctd_jax.benchmark.benchmark import Benchmark
from ctd_jax.chronology.reigns import Timeline
from ctd_jax.training import experiment as experiments
from ctd_jax.training.experiment import Experiment
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
  """
  config = experiment.config
  benchmark = experiments.build_benchmark(
    dataset, data_dir or config.data_dir, config.sources
  )
  backbone = experiment.backbone.move_to(benchmark.timeline)
  texts = experiments.tokenize_benchmark(benchmark, backbone, config)
  query_intervals = {}
  if reads_query_dates(
    config, experiment.benchmark.timeline, benchmark.timeline
  ):
    query_intervals = experiments.read_query_intervals(benchmark)
  for name, tokens in {"records": texts["records"], **texts["queries"]}.items():
    if len(tokens):
      num_unknown = (tokens.ids == backbone.tokenizer.unk_id).sum()
      logging.info(
        "%s, %s: %.1f %% of the tokens are unknown to %s",
        benchmark.name,
        name,
        100 * num_unknown / tokens.mask.sum(),
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
    timeline: timeline of the data set that it was trained on.
    asked: timeline of the data set that it is asked about; if it is another, a
      warning says that the model dates the queries.
  """
  if not experiments.asks_parser(config):
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


def transfer_folder(workdir: Folder, benchmark: Benchmark) -> Folder:
  """Returns the folder of a workdir for the evaluation on another data set."""
  # "chunqiutr/mini:2.0.0" -> "chunqiutr_mini_2.0.0", one folder.
  name = re.sub(r"[^\w.-]+", "_", benchmark.name)
  return workdir / EVALUATION_FOLDER / name
