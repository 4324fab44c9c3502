"""Export of a trained run: the system, its vectors or its adapters."""

import dataclasses
import json
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import huggingface_hub
import ml_collections
import numpy as np
import pyarrow as pa
from absl import logging
from pyarrow import parquet

from ctd_jax.chronology.reigns import TimeKey, Timeline
from ctd_jax.evaluation import (
  protocol,
  result_tables,
  results,
  significance,
  summary,
)
from ctd_jax.evaluation.results import ResultRow
from ctd_jax.models.dual_encoder import (
  ENCODER,
  INNER_PRODUCTS,
  choose_query_tower,
)
from ctd_jax.models.pretrained import folders, weights
from ctd_jax.retrieval import dense, trained_system
from ctd_jax.retrieval.trained_system import TrainedSystem
from ctd_jax.training import experiment as experiments
from ctd_jax.training.experiment import Experiment
from ctd_jax.utils import files

# ----------------------------------------------------------------------------
# Card of an exported folder: its scores, and what they leave out.
#
# An encoder in another library ranks by the cosine of its vectors alone.
# If the run was trained with more than that, the folder is a different system
# there; the card says so, with the figures of both.


CARD_FILE = "README.md"
_METRICS = ("hit@1", "hit@5", "mrr@10")
# Language of our data sets, as hubs name it: Literary Chinese.
_LANGUAGES = {"chunqiutr": "lzh", "zztj": "lzh"}
_TEMPLATE = """\
---
{{ card_data }}
---

# {{ name }}

{{ kind }} that `ctd_jax` trained on `{{ dataset }}`, from {{ source }};
checkpoint of step {{ step }}, the best on the validation split.

## What it scores

{% if adapters -%}
PEFT puts the adapters into the encoder. Its vectors rank with their cosine,
`semantic`
{%- if left_behind %}, without what the run also has:

{% for part in left_behind -%}
- {{ part }}
{% endfor %}
{%- else %}.
{% endif %}
{%- elif left_behind -%}
`ctd_jax.Retriever.load({{ folder }})` ranks with the score of the run,
`{{ score_mode }}`.

Everything else (sentence-transformers, transformers, `ctd_jax.TextEncoder`) has
the vectors alone and ranks with their {{ similarity }}, `semantic`.
**That is another system.** Left behind there:

{% for part in left_behind -%}
- {{ part }}
{% endfor %}
{%- else -%}
`ctd_jax.Retriever.load({{ folder }})` ranks with the {{ similarity }} of the
vectors over a temperature, `{{ score_mode }}`; so do sentence-transformers and
other libraries. Nothing is left behind.
{% endif %}
## Vectors

Pooling `{{ pooling }}`
{%- if similarity == "cosine" %}, length 1{% endif %}.
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
  """Returns the parts of a run's score that a mode lacks.

  Args:
    config: config of the run.
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
  if mode is None and config.eval.dimension:
    left_behind.append(
      f"the cut of vectors to {config.eval.dimension} dimensions, which "
      f"truncate_dim={config.eval.dimension} of sentence-transformers makes"
    )
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
    years = significance.find_query_years(benchmark, split)
    for run in ranker.rank_split(
      system.params, split, masks, config.eval.depth, records
    ):
      for name in summary.REPORT_MODES:
        protocol_mode = protocol.get_mode(name)
        if protocol_mode.gallery == run.gallery:
          rows += results.make_result_rows(
            protocol.evaluate_run(
              run, benchmark.queries[split], kinds, protocol_mode
            ),
            benchmark.name,
            years,
            ("all",),
            _METRICS,
          )
  return rows


def make_card(
  system: TrainedSystem,
  rows: Sequence[ResultRow],
  folder_name: str,
  adapters: bool = False,
) -> huggingface_hub.ModelCard:
  """Returns the card, with the metadata that hubs read.

  Args:
    system: system in the folder.
    rows: rows from `measure_system`.
    folder_name: shown in examples.
    adapters: whether the folder has adapters alone.
  """
  config, backbone = system.config, system.backbone
  source = "random values"
  if backbone.source:
    source = f"`{trained_system.portable_source(backbone.source)}`"
    if folders.find_hub_id(backbone.source) is None:
      source += " (a folder whose config.json names no model of a hub)"
  if backbone.encoder.lora is not None and not adapters:
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
    _make_metadata(system, rows, adapters),
    template_str=_TEMPLATE,
    adapters=adapters,
    kind="Adapters" if adapters else "An encoder",
    name=config.name,
    dataset=system.dataset,
    source=source,
    step=system.step,
    folder=repr(folder_name),
    score_mode=system.score_mode,
    left_behind=list_left_behind(config),
    pooling=config.model.pooling,
    similarity=config.model.similarity.replace("dot", "dot product"),
    sides=[
      ("query", lengths[0], backbone.query_prefix),
      ("record", lengths[1], backbone.record_prefix),
    ],
    longest=max(lengths) if lengths[0] != lengths[1] else None,
    table=table.rstrip(),
  )


def _make_metadata(
  system: TrainedSystem, rows: Sequence[ResultRow], adapters: bool
) -> huggingface_hub.ModelCardData:
  """Returns base model, data set, language, licence and figures."""
  source = system.backbone.source
  dataset = system.dataset.partition(":")[0]  # without its version
  fields = {"license": "apache-2.0"}
  if source:
    fields = {"license": "other", "license_name": "that-of-the-base-model"}
  if base := folders.find_hub_id(source) if source else None:
    fields |= {
      "base_model": base,
      "base_model_relation": "adapter" if adapters else "finetune",
      "license_link": f"https://huggingface.co/{base}",
    }
  library = "peft" if adapters else "sentence-transformers"
  return huggingface_hub.ModelCardData(
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
    library_name=library,
    model_name=system.config.name,
    pipeline_tag="sentence-similarity",
    tags=["ctd_jax", library, "feature-extraction"],
    **fields,
  )


# ----------------------------------------------------------------------------
# Export of a run's vectors as files that a vector database loads.
#
# The gallery can then be searched, and filtered by date, without ctd_jax.
# Vectors are plain .npy; row by row a parquet table describes them. The inner
# product of a query's vector with a record's is the score of the run's best
# checkpoint. Terms for every pair (offset bias, posterior) are left out,
# because no database computes them; vectors.json names them.
#
# Axes: N rows, D width of a vector.


_BLOCK_ROWS = 65_536  # rows written at once


def export_vectors(
  experiment: Experiment, params: Any, folder: pathlib.Path
) -> None:
  """Writes vectors and tables of all records and of the queries.

  records.npy, queries.SPLIT.npy (float32, [rows, D]); the same names with
  .parquet; and vectors.json, which describes the inner product.

  Args:
    experiment: a trained run; its score mode chooses the vectors, "semantic"
      or "absolute", those with the calendar context.
    params: parameters of the model.
    folder: made if needed.
  """
  config, benchmark = experiment.config, experiment.benchmark
  mode = config.eval.score_mode or config.score_mode
  if mode not in INNER_PRODUCTS:
    mode = "absolute"  # the nearest score that is an inner product
  temperature = float(experiment.model.read_temperature(params))
  ranker = dense.Ranker(experiment)
  records = ranker.encode_gallery(params).vectors(mode)
  # The temperature divides the queries: records stay of unit length.
  _write_vectors(folder / "records.npy", records, 1.0)
  # In the order of the vectors.
  columns = {
    "record_id": benchmark.record_ids,
    "kind": [record.kind for record in benchmark.records],
    "source": [record.source for record in benchmark.records],
    "split": list(benchmark.record_splits),
    "text": [record.text for record in benchmark.records],
    **_time_columns(
      [record.key for record in benchmark.records], benchmark.timeline
    ),
  }
  _write_table(folder / "records.parquet", columns)
  for split, queries in benchmark.queries.items():
    if not queries:
      continue
    query_encoding = ranker.encode_texts(
      choose_query_tower(params), experiment.queries[split], "encode queries"
    )
    name = f"queries.{split}"
    _write_vectors(
      folder / f"{name}.npy", query_encoding.vectors(mode), temperature
    )
    starts = [query.interval.start for query in queries]
    ends = [query.interval.end for query in queries]
    columns = {
      "query_id": [query.query_id for query in queries],
      "family": [query.family for query in queries],
      "text": [query.text for query in queries],
      **_time_columns(starts, benchmark.timeline, "start_"),
      **_time_columns(ends, benchmark.timeline, "end_"),
      "positives": [list(query.positives) for query in queries],
    }
    _write_table(folder / f"{name}.parquet", columns)
  description = {
    "dataset": benchmark.name,
    "system": config.name,
    "step": experiment.checkpoints.best_step,
    "inner_product": f"score {mode}: {config.model.similarity} over the "
    "temperature",
    "temperature": temperature,
    "left_behind": list_left_behind(config, mode),
    "records": len(benchmark.records),
    "dimensions": records.shape[1],
  }
  files.write_text(
    folder / "vectors.json", json.dumps(description, indent=2) + "\n"
  )


def _write_vectors(path: pathlib.Path, vectors: Any, divisor: float) -> None:
  """Writes vectors, which may be mapped from files, a block at a time."""
  with files.atomic_path(path) as temporary:
    output_array = np.lib.format.open_memmap(
      temporary, mode="w+", dtype=np.float32, shape=vectors.shape
    )
    for start in range(0, len(vectors), _BLOCK_ROWS):
      rows = slice(start, start + _BLOCK_ROWS)
      output_array[rows] = vectors[rows] / np.float32(divisor)
    output_array.flush()


def _write_table(path: pathlib.Path, columns: Mapping[str, Sequence]) -> None:
  with files.atomic_path(path) as temporary:
    parquet.write_table(pa.table(dict(columns)), temporary)


def _time_columns(
  keys: Sequence[TimeKey], timeline: Timeline, prefix: str = ""
) -> dict[str, list]:
  """Returns the columns of one month a row; all count from 1 but `ordinal`."""
  columns = {
    "reign": [key.reign for key in keys],
    "reign_name": [timeline.reigns[key.reign - 1].name for key in keys],
    "year": [key.year for key in keys],
    "month": [key.month for key in keys],
    "leap": [key.leap for key in keys],
    "ordinal": [timeline.ordinal(key) for key in keys],
  }
  return {prefix + name: values for name, values in columns.items()}


def export_run(
  experiment: Experiment,
  folder: pathlib.Path,
  vectors: bool = False,
  adapters: bool = False,
  hub_name: str | None = None,
) -> None:
  """Writes the best checkpoint as a folder that ranks as the run does.

  Its encoder, tokenizer and pooling load in other libraries, and README.md says
  what these leave behind.

  Args:
    experiment: a trained run.
    folder: must be new or empty.
    vectors: whether vectors and their tables are written instead.
    adapters: whether adapters alone are written instead.
    hub_name: repository "owner/name" that gets the folder; a new one is made
      if it does not exist, and is private.

  Raises:
    FileNotFoundError: if the run has no checkpoint.
    ValueError: if the folder is not empty, the run has no adapters, both are
      to be written, or the hub refuses.
  """
  best_step = experiment.checkpoints.best_step
  if best_step is None:
    raise FileNotFoundError(
      f"--workdir={experiment.workdir}: no checkpoint there; train first"
    )
  if vectors and adapters:
    raise ValueError("--vectors and --adapters cannot be combined; choose one")
  if not vectors and experiment.config.model.separate_towers:
    raise ValueError(
      f"{experiment.workdir}: the run has separate towers, and a folder holds "
      "one encoder; expected --vectors, or the workdir itself as the encoder "
      "of an index or a Retriever"
    )
  if adapters and experiment.backbone.encoder.lora is None:
    raise ValueError(
      f"--adapters: the run in {experiment.workdir} has none, since "
      "config.model.lora.rank=0 trains the encoder itself"
    )
  if folder.exists() and any(folder.iterdir()):
    raise ValueError(f"--output={folder}: not empty; name a new folder")
  if hub_name is not None:
    if vectors or not folders.is_hub_id(hub_name):
      raise ValueError(
        f"--push_to_hub={hub_name}: expected owner/name of a model, without "
        "--vectors"
      )
    # Before anything is measured.
    _call_hub("create_repo", hub_name, private=True, exist_ok=True)
  system = trained_system.restore_system(experiment)
  name = experiment.config.name
  if vectors:
    export_vectors(experiment, system.params, folder)
  elif adapters:
    backbone = system.backbone
    weights.write_adapters(
      folder,
      backbone.encoder,
      system.params[ENCODER],
      trained_system.portable_source(backbone.source),
    )
    if folders.find_hub_id(backbone.source) is None:
      logging.warning(
        "%s: its config.json names no model of a hub (_name_or_path); to load "
        "the adapters, you need this folder",
        backbone.source,
      )
  else:
    trained_system.write_system(folder, system)
  if not vectors:
    rows = measure_system(experiment, system)
    card = make_card(system, rows, folder.name, adapters)
    files.write_text(folder / CARD_FILE, str(card))
    _warn_of_loss(experiment, str(folder / CARD_FILE))
  logging.info("step %d of %s is in %s", best_step, name, folder)
  if hub_name is not None:
    _call_hub("upload_folder", hub_name, folder_path=folder)
    logging.info("%s is in https://huggingface.co/%s", folder, hub_name)


def _call_hub(method: str, name: str, **options: Any) -> None:
  """Calls the hub; its errors become one sentence."""
  try:
    getattr(huggingface_hub.HfApi(), method)(repo_id=name, **options)
  except (OSError, ValueError) as error:  # of its library
    reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
    raise ValueError(f"--push_to_hub={name}: {reason}") from error


def _warn_of_loss(experiment: Experiment, report: str) -> None:
  """Warns of what other libraries do not compute; `report` has the figures."""
  left_behind = list_left_behind(experiment.config)
  if left_behind:
    logging.warning(
      "other libraries read the vectors alone, without %s; %s says what that "
      "costs",
      " and without ".join(part.split(",")[0] for part in left_behind),
      report,
    )
