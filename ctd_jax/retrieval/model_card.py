"""Card of an exported folder: what it scores, how well, and without what.

An encoder in another library ranks by the cosine of its vectors alone. Where
the run was trained with more than that, the folder is another system there, and
the card says so with the figures of both.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import huggingface_hub
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
from ctd_jax.models.pretrained import hub_folders
from ctd_jax.retrieval import dense
from ctd_jax.retrieval.trained_system import TrainedSystem
from ctd_jax.training import experiment as experiments
from ctd_jax.training.experiment import Experiment

CARD_FILE = "README.md"
_METRICS = ("hit@1", "hit@5", "mrr@10")
# Language of our data sets, as hubs name it: Literary Chinese.
_LANGUAGES = {"chunqiutr": "lzh", "zztj": "lzh"}
_TEMPLATE = """\
---
{{ card_data }}
---

# {{ name }}

An encoder that `ctd_jax` trained on `{{ dataset }}`, from {{ source }};
checkpoint of step {{ step }}, the best on the validation split.

## What it scores

{% if left_behind -%}
`ctd_jax.Retriever.load({{ folder }})` ranks with the score of the run,
`{{ score_mode }}`.

Everything else (sentence-transformers, transformers, `ctd_jax.TextEncoder`) has
the vectors alone and ranks with their cosine, `semantic`.
**That is another system.** Left behind there:

{% for part in left_behind -%}
- {{ part }}
{% endfor %}
{%- else -%}
`ctd_jax.Retriever.load({{ folder }})` ranks with the cosine of the vectors over
a temperature, `{{ score_mode }}`; so do sentence-transformers and other
libraries. Nothing is left behind.
{% endif %}
## Vectors

Pooling `{{ pooling }}`, length 1.
{% for side, length, prefix in sides %}
- {{ side }}: {{ length }} tokens
{%- if prefix %} after the prefix `{{ prefix }}`{% else %}, no prefix{% endif %}
{%- endfor %}
{% if longest %}
Libraries with one length for both sides read {{ longest }} tokens of either.
{% endif %}
## Measured

Queries of `{{ dataset }}` against all its records; modes of the protocol and
intervals as in the documentation of `ctd_jax`.

{{ table }}
"""
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


def make_card(
  system: TrainedSystem, rows: Sequence[ResultRow], folder_name: str
) -> huggingface_hub.ModelCard:
  """Returns the card, with the metadata that hubs read.

  Args:
    system: that is in the folder.
    rows: from `measure_system`.
    folder_name: shown in examples.
  """
  config, backbone = system.config, system.backbone
  source = backbone.source or "random values"
  if backbone.encoder.lora is not None:
    source += (
      f" by adapters of rank {backbone.encoder.lora.rank}, merged into it"
    )
  lengths = config.query_length, config.record_length
  table = "no figures: no split has queries"
  if rows:
    table = result_tables.format_table(
      rows, _METRICS, markdown=True, intervals=True
    )
  return huggingface_hub.ModelCard.from_template(
    _make_metadata(system, rows),
    template_str=_TEMPLATE,
    name=config.name,
    dataset=system.dataset,
    source=source,
    step=system.step,
    folder=repr(folder_name),
    score_mode=system.score_mode,
    left_behind=list_left_behind(config),
    pooling=config.model.pooling,
    sides=[
      ("query", lengths[0], backbone.query_prefix),
      ("record", lengths[1], backbone.record_prefix),
    ],
    longest=max(lengths) if lengths[0] != lengths[1] else None,
    table=table.rstrip(),
  )


def _make_metadata(
  system: TrainedSystem, rows: Sequence[ResultRow]
) -> huggingface_hub.ModelCardData:
  """Returns base model, data set, language, licence and figures."""
  source = system.backbone.source
  dataset = system.dataset.partition(":")[0]  # without its version
  licence = {"license": "apache-2.0"}
  if source:
    licence = {"license": "other", "license_name": "that-of-the-base-model"}
  return huggingface_hub.ModelCardData(
    base_model=source if hub_folders.is_hub_id(source) else None,
    datasets=[dataset],
    eval_results=[
      huggingface_hub.EvalResult(
        task_type="information-retrieval",
        dataset_type=dataset,
        dataset_name=row.dataset,
        dataset_config=row.mode,
        dataset_split=row.split,
        metric_type=row.metric,
        metric_value=round(row.value, 4),
        metric_name=f"{row.metric} of score {row.score_mode}",
        metric_config=row.score_mode,
      )
      for row in rows
    ],
    language=_LANGUAGES.get(dataset.partition("/")[0]),
    library_name="sentence-transformers",
    model_name=system.config.name,
    pipeline_tag="sentence-similarity",
    tags=["ctd_jax", "sentence-transformers", "feature-extraction"],
    **licence,
  )
