"""Card of an exported folder: what it scores, how well, and without what.

An encoder in another library ranks by the cosine of its vectors alone. Where
the run was trained with more than that, the folder is another system there, and
the card says so with the figures of both.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import ml_collections
from absl import logging

from ctd_jax.evaluation import (
  comparison,
  protocol,
  result_tables,
  results,
  summary,
)
from ctd_jax.evaluation.results import ResultRow
from ctd_jax.retrieval import dense
from ctd_jax.retrieval.trained_system import TrainedSystem
from ctd_jax.training import experiment as experiments
from ctd_jax.training.experiment import Experiment

CARD_FILE = "README.md"
_METRICS = ("hit@1", "hit@5", "mrr@10")
_PARTS = {
  "use_context": "the calendar context, which moves a vector by the date that "
  "the model reads in the text",
  "use_bias": "the bias of the offset in time between query and record",
  "use_posterior": "the posterior over months of query and record",
  "use_gaussian": "the similarity in time of query and record",
}
_DATES_PART = (
  "the dates that stand before queries and records, which no other library "
  "reads in them; the figures below are with them"
)


def list_left_behind(
  config: ml_collections.ConfigDict, mode: str | None = None
) -> list[str]:
  """Returns what the score of a run has and that of a mode lacks.

  Args:
    config: of the run.
    mode: "semantic" or "absolute", an inner product of the run's vectors; None
      = the cosine in another library, which sees the texts as they are.
  """
  parts = {
    "semantic": (),
    "absolute": ("use_context",),
    "ctd": ("use_context", "use_bias"),
    "posterior": ("use_context", "use_bias", "use_posterior"),
    "temps": ("use_gaussian",),
  }
  left_behind = [
    _PARTS[part]
    for part in parts[config.eval.score_mode or config.score_mode]
    if part not in parts[mode or "semantic"] and config.model[part]
  ]
  if mode is None and config.dates.form:
    left_behind.append(_DATES_PART)
  return left_behind


def measure_system(
  experiment: Experiment, system: TrainedSystem
) -> list[ResultRow]:
  """Returns the figures of a run and those of its vectors alone.

  The former are those of its evaluation, where it has one on the data set that
  it was trained on. What is missing is measured here.

  Args:
    experiment: the run.
    system: its best checkpoint.
  """
  modes = dict.fromkeys((system.score_mode, "semantic"))
  path = experiment.evaluation / summary.RESULTS_FILE
  rows = results.read_result_rows(path) if path.exists() else []
  rows = [
    row
    for row in rows
    if (row.system, row.dataset) == (experiment.config.name, system.dataset)
    and (row.family, row.metric in _METRICS) == ("all", True)
    and row.mode in summary.REPORT_MODES
  ]
  for mode in modes:
    if not any(row.score_mode == mode for row in rows):
      logging.info("%s: measuring score %s", experiment.config.name, mode)
      rows += _measure_score(experiment, system, mode)
  return [row for mode in modes for row in rows if row.score_mode == mode]


def _measure_score(
  experiment: Experiment, system: TrainedSystem, mode: str
) -> list[ResultRow]:
  """Returns the figures of one score on the splits of the evaluation."""
  benchmark = experiment.benchmark
  config = experiment.config.copy_and_resolve_references()
  config.eval.score_mode = mode
  ranker = dense.Ranker(dataclasses.replace(experiment, config=config))
  records = ranker.encode_gallery(system.params)
  masks = protocol.gallery_masks(benchmark.kinds)
  kinds = {record.record_id: record.kind for record in benchmark.records}
  rows = []
  for split in experiments.evaluation_splits(benchmark, config.eval.splits):
    years = comparison.find_query_years(benchmark, split)
    for run in ranker.rank_split(
      system.params, split, masks, config.eval.depth, records
    ):
      for name in summary.REPORT_MODES:
        protocol_mode = protocol.get_mode(name)
        if protocol_mode.gallery == run.gallery:
          table = protocol.evaluate_run(
            run, benchmark.queries[split], kinds, protocol_mode
          )
          rows += results.make_result_rows(
            table, benchmark.name, years, ("all",), _METRICS
          )
  return rows


def format_card(
  system: TrainedSystem, rows: Sequence[ResultRow], folder_name: str
) -> str:
  """Returns the card in Markdown, with the header that hubs read.

  Args:
    system: that is in the folder.
    rows: from `measure_system`.
    folder_name: shown in examples.
  """
  config = system.config
  source = system.backbone.source or "random values"
  adapters = system.backbone.encoder.lora
  if adapters is not None:
    source += f" by adapters of rank {adapters.rank}, merged into it"
  table = "no figures: no split has queries\n"
  if rows:
    table = result_tables.format_table(
      rows, _METRICS, markdown=True, intervals=True
    )
  lines = [
    "---",
    "library_name: sentence-transformers",
    "pipeline_tag: sentence-similarity",
    "tags: [ctd_jax, sentence-transformers, feature-extraction]",
    "---",
    f"# {config.name}",
    "",
    f"An encoder that `ctd_jax` trained on `{system.dataset}`, from "
    f"{source}; checkpoint of step {system.step}, the best on the validation "
    "split.",
    "",
    "## What it scores",
    "",
    *_describe_scores(system, folder_name),
    "",
    "## Vectors",
    "",
    *_describe_vectors(system),
    "",
    "## Measured",
    "",
    f"Queries of `{system.dataset}` against all its records; modes of the "
    "protocol and intervals as in the documentation of `ctd_jax`.",
    "",
    table,
  ]
  return "\n".join(lines).rstrip() + "\n"


def _describe_scores(system: TrainedSystem, folder_name: str) -> list[str]:
  """Returns lines on what ranks here, and what elsewhere."""
  left_behind = list_left_behind(system.config)
  whole = f"`ctd_jax.Retriever.load({folder_name!r})` ranks with the "
  if not left_behind:
    return [
      f"{whole}cosine of the vectors over a temperature, "
      f"`{system.score_mode}`; so do sentence-transformers and other "
      "libraries. Nothing is left behind.",
    ]
  return [
    f"{whole}score of the run, `{system.score_mode}`.",
    "",
    "Everything else (sentence-transformers, transformers, "
    "`ctd_jax.TextEncoder`) has the vectors alone and ranks with their "
    "cosine, `semantic`. **That is another system.** Left behind there:",
    "",
    *(f"- {part}" for part in left_behind),
  ]


def _describe_vectors(system: TrainedSystem) -> list[str]:
  """Returns lines on how the vectors of both sides are made."""
  config, backbone = system.config, system.backbone
  sides = [
    f"- {name}: {length} tokens"
    + (f" behind the prefix `{prefix}`" if prefix else ", no prefix")
    for name, length, prefix in (
      ("query", config.query_length, backbone.query_prefix),
      ("record", config.record_length, backbone.record_prefix),
    )
  ]
  lines = [f"Pooling `{config.model.pooling}`, length 1.", "", *sides]
  if config.query_length != config.record_length:
    longest = max(config.query_length, config.record_length)
    lines += [
      "",
      "Libraries with one length for both sides read "
      f"{longest} tokens of either.",
    ]
  return lines
