"""What a config and a workdir stand for, assembled once.

`train` and `evaluate` both start here: the data set (built on first use), its
texts as tokens, the model, the optimizer and the checkpoints of the workdir.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import os
import pathlib
import re
from collections.abc import Mapping
from typing import Any

import flax.traverse_util
import grain
import jax
import ml_collections
import numpy as np
import optax
from absl import logging

from ctd_jax.benchmark.dataset import Benchmark
from ctd_jax.chronology import query_dates
from ctd_jax.models import packing
from ctd_jax.models.dual_encoder import DualEncoder
from ctd_jax.models.tokenizer import TextTokenizer
from ctd_jax.training import backbone as backbones
from ctd_jax.training import (
  config_checks,
  distributed,
  input_pipeline,
  optimizer,
  partitioning,
  train_step,
)
from ctd_jax.training.backbone import Backbone
from ctd_jax.training.checkpoints import (
  CheckpointError,
  Checkpoints,
  list_differences,
)
from ctd_jax.training.input_pipeline import Tokens
from ctd_jax.training.train_step import TrainState
from ctd_jax.utils import files
from ctd_jax_configs import common
from ctd_jax_datasets import load

SELECTION_METRIC = "validation/hit@1"
CONFIG_FILE = "config.json"
TOKENIZER_FOLDER = "tokenizer"
CHECKPOINT_FOLDER = "checkpoints"
EVALUATION_FOLDER = "evaluation"
# Command, commit, seconds and seeds of the training.
TRAINING_FILE = "training.json"
# Fields that may change between the parts of a run that is resumed.
_FREE_FIELDS = (
  *("data_dir", "sources", "keep_latest", "mesh"),
  *("dating", "maxsim", "pqr", "sparse", "rerank"),  # systems of their own
)
_FREE_EVAL_FIELDS = (
  *("splits", "baselines", "depth", "batch_size"),
  *("backend", "vectors_dir"),
)


@dataclasses.dataclass(frozen=True)
class Experiment:
  """A run, ready to be trained or evaluated.

  Attributes:
    config: the whole config.
    workdir: absolute folder of the run.
    evaluation: folder of its run files and tables.
    mesh: devices of the run.
    benchmark: records, queries, calendar.
    records: tokens of the gallery.
    queries: tokens of the queries, by split.
    query_intervals: ordinal months that the parser reads in the queries, by
      split, [Q, 2]; empty where the model itself has to.
    backbone: the text encoder, and the tokenizer that made them.
    model: the dual encoder.
    optimizer: its transformation.
    total_steps: number of updates of the whole run.
    checkpoints: of the workdir.
  """

  config: ml_collections.ConfigDict
  workdir: pathlib.Path
  evaluation: pathlib.Path
  mesh: jax.sharding.Mesh
  benchmark: Benchmark
  records: Tokens
  queries: Mapping[str, Tokens]
  query_intervals: Mapping[str, np.ndarray]
  backbone: Backbone
  model: DualEncoder
  optimizer: optax.GradientTransformation
  total_steps: int
  checkpoints: Checkpoints

  @property
  def tokenizer(self) -> TextTokenizer:
    """Vocabulary of the text encoder."""
    return self.backbone.tokenizer

  def init_state(self) -> TrainState:
    """Returns a fresh train state on the devices of the mesh.

    Raises:
      FileNotFoundError: if the weights that the config names are missing.
      ValueError: if they do not fit.
    """
    encoder_shardings = train_step.get_shardings(
      self.abstract_state().params["encoder"]
    )
    return train_step.init_state(
      self.model,
      self.optimizer,
      self.config.seed,
      self.mesh,
      self.backbone.load_params(encoder_shardings),
    )

  def claim_workdir(self) -> None:
    """Makes the workdir this run's: its config and its tokenizer.

    Raises:
      CheckpointError: if the run found there, with checkpoints, has another
        config; the message names each field that differs.
    """
    path = self.workdir / CONFIG_FILE
    config_fields = _to_json_types(self.config.to_dict())
    if self.checkpoints.latest_step is not None:
      saved_fields = json.loads(path.read_text())
      mismatches = list_differences(
        _fixed_fields(saved_fields), _fixed_fields(config_fields)
      )
      if mismatches:
        raise CheckpointError(
          f"{self.workdir} holds a run of another config: "
          f"{'; '.join(mismatches)}. Resume it with its own config, or give "
          "another --workdir."
        )
    # Nobody writes before all have read.
    distributed.wait_for_all("config of the workdir")
    if distributed.is_coordinator():
      files.write_text(path, json.dumps(config_fields, indent=2) + "\n")
      self.backbone.save(self.workdir / TOKENIZER_FOLDER)

  @property
  def row_width(self) -> int:
    """Columns of the rows that texts are packed in.

    Raises:
      ValueError: naming the field, if the encoder does not take such texts.
    """
    max_length = self.backbone.encoder.max_length
    for field in ("query_length", "record_length"):
      if self.config[field] > max_length:
        raise ValueError(
          f"config.{field}={self.config[field]}: the encoder takes {max_length} "
          "tokens at most"
        )
    longest = max(self.config.query_length, self.config.record_length)
    return packing.row_width(longest, max_length)

  def training_batches(self) -> grain.DatasetIterator:
    """Returns the iterator of `input_pipeline.training_batches`."""
    shards = partitioning.count_batch_shards(self.mesh)
    return input_pipeline.training_batches(
      self.benchmark,
      self.queries["train"],
      self.records,
      self.config,
      shards * self.config.encode_chunks,
      self.row_width,
    )

  def abstract_state(self) -> TrainState:
    """Returns shapes, types and places of the train state."""
    return train_step.abstract_state(self.model, self.optimizer, self.mesh)


def assemble_experiment(
  config: ml_collections.ConfigDict, workdir: pathlib.Path
) -> Experiment:
  """Returns the experiment of a config; builds the data set if need be.

  Args:
    config: see `configs/common.py`.
    workdir: of the run; nothing but an empty folder is written.

  Raises:
    ValueError: naming the field of the config, the source file or the data
      set at fault.
  """
  config_checks.check_config(config)
  workdir = workdir.expanduser().absolute()
  with distributed.coordinator_first("data set"):
    benchmark = load.build_benchmark(
      config.dataset, config.data_dir, config.sources
    )
  config_checks.check_trainable(benchmark)
  steps = count_total_steps(config, len(benchmark.queries["train"]))
  # What a checkpoint was trained with; a run not yet begun makes its own.
  checkpoint_folders = (workdir / CHECKPOINT_FOLDER).glob("[0-9]*")
  has_checkpoints = any(
    checkpoint_folder.name.isdigit() for checkpoint_folder in checkpoint_folders
  )
  saved_folder = workdir / TOKENIZER_FOLDER if has_checkpoints else None
  backbone = backbones.make_backbone(config, benchmark, saved_folder)
  model = train_step.make_model(config, backbone.encoder, benchmark.timeline)
  return Experiment(
    config=config,
    workdir=workdir,
    evaluation=workdir / EVALUATION_FOLDER,
    mesh=partitioning.make_mesh(**config.mesh.to_dict()),
    benchmark=benchmark,
    **_tokenize_benchmark(benchmark, backbone, config),
    backbone=backbone,
    model=model,
    optimizer=optimizer.make_optimizer(config.optimizer, steps),
    total_steps=steps,
    checkpoints=Checkpoints(
      workdir / CHECKPOINT_FOLDER,
      SELECTION_METRIC,
      _describe_architecture(config, benchmark, backbone.tokenizer),
      config.keep_latest,
    ),
  )


def read_config(workdir: pathlib.Path) -> ml_collections.ConfigDict:
  """Returns the config that the run of a workdir was trained with.

  Raises:
    FileNotFoundError: if no run was begun there.
    ValueError: if it lacks fields that configs have had since.
  """
  path = workdir / CONFIG_FILE
  if not path.exists():
    raise FileNotFoundError(f"{path}: no config of a run; give --config")
  config = ml_collections.ConfigDict(json.loads(path.read_text()))
  missing_fields = _field_names(common.base_config()) - _field_names(config)
  # The encoder is one that is made here, or a published one.
  missing_fields = {
    name for name in missing_fields if not name.startswith("model.encoder.")
  }
  if missing_fields:
    raise ValueError(
      f"{path} lacks {', '.join(sorted(missing_fields))}: the run was begun with "
      "another version; give its --config"
    )
  return config


def transfer_experiment(
  experiment: Experiment,
  dataset: str,
  data_dir: str | os.PathLike | None = None,
) -> Experiment:
  """Returns a trained run that is asked about another data set.

  Model, tokenizer and calendar heads stay what they are; what the tokenizer
  does not know or cuts off there is logged. Where the calendar is another one,
  the model dates the queries itself.

  Args:
    experiment: the run.
    dataset: name as in `config.dataset`; built if need be.
    data_dir: where it lies; None means where `config.data_dir` says.

  Raises:
    ValueError: naming the data set, or the source file or folder at fault.
  """
  config, tokenizer = experiment.config, experiment.tokenizer
  with distributed.coordinator_first("data set"):
    benchmark = load.build_benchmark(
      dataset, data_dir or config.data_dir, config.sources
    )
  texts = _tokenize_benchmark(benchmark, experiment.backbone, config)
  months = experiment.benchmark.timeline.months
  if texts["query_intervals"] and benchmark.timeline.months != months:
    # The posterior is over the months of the calendar it was trained on.
    texts["query_intervals"] = {}
    logging.warning(
      "%s has another calendar than %s was trained on: the model, not the "
      "parser, dates its queries",
      benchmark.name,
      config.name,
    )
  for name, tokens in (
    ("records", texts["records"]),
    *texts["queries"].items(),
  ):
    if len(tokens):
      logging.info(
        "%s, %s: %.1f %% of the tokens are unknown to %s, %.1f %% of the texts "
        "fill all %d places and may be cut",
        benchmark.name,
        name,
        100 * (tokens.ids == tokenizer.unk_id).sum() / tokens.mask.sum(),
        config.name,
        100 * tokens.mask.all(axis=1).mean(),
        tokens.mask.shape[1],
      )
  return dataclasses.replace(
    experiment,
    evaluation=transfer_folder(experiment.workdir, benchmark),
    benchmark=benchmark,
    **texts,
  )


def transfer_folder(
  workdir: pathlib.Path, benchmark: Benchmark
) -> pathlib.Path:
  """Returns where a workdir keeps what was measured on another data set."""
  name = re.sub(r"[^\w.-]+", "_", benchmark.name)
  return workdir / EVALUATION_FOLDER / name


def _tokenize_benchmark(
  benchmark: Benchmark,
  backbone: Backbone,
  config: ml_collections.ConfigDict,
) -> dict[str, Any]:
  """Returns what an experiment keeps of the texts of a benchmark."""
  query_intervals = {}
  if config.score_mode == "posterior" and config.query_dates == "parser":
    query_intervals = {
      split: query_dates.read_query_intervals(
        [q.text for q in queries], benchmark.timeline
      )
      for split, queries in benchmark.queries.items()
    }
  tokenize = functools.partial(
    input_pipeline.tokenize_texts, backbone.tokenizer
  )
  return {
    "records": tokenize(
      [record.text for record in benchmark.records],
      config.record_length,
      backbone.record_prefix,
    ),
    "queries": {
      split: tokenize(
        [query.text for query in queries],
        config.query_length,
        backbone.query_prefix,
      )
      for split, queries in benchmark.queries.items()
    },
    "query_intervals": query_intervals,
  }


def evaluation_splits(
  benchmark: Benchmark, config: ml_collections.ConfigDict
) -> list[str]:
  """Returns the splits of `config.eval.splits` that have queries.

  Raises:
    ValueError: if none has.
  """
  splits = [split for split in config.eval.splits if benchmark.queries[split]]
  if not splits:
    available_splits = [
      split for split, queries in benchmark.queries.items() if queries
    ]
    raise ValueError(
      f"config.eval.splits: {benchmark.name} has no queries of "
      f"{', '.join(config.eval.splits)}; it has {', '.join(available_splits) or 'none'}"
    )
  return splits


def count_total_steps(
  config: ml_collections.ConfigDict, num_queries: int
) -> int:
  """Returns the number of updates of a run.

  Args:
    config: num_epochs and batch_size are read; no epochs are no updates, and
      the initial parameters are evaluated as they are.
    num_queries: number of train queries.

  Raises:
    ValueError: if epochs are asked for that make less than one update.
  """
  steps = int(config.num_epochs * num_queries) // config.batch_size
  if steps < 1 and config.num_epochs != 0:
    raise ValueError(
      f"config.num_epochs={config.num_epochs} and "
      f"config.batch_size={config.batch_size} make no step of {num_queries} "
      "train queries"
    )
  return steps


def _field_names(config: ml_collections.ConfigDict) -> set[str]:
  """Returns the dotted names of all fields."""
  return set(flax.traverse_util.flatten_dict(config.to_dict(), sep="."))


def _fixed_fields(fields: dict[str, Any]) -> dict[str, Any]:
  """Returns the fields that a resumed run must share with its beginning."""
  fixed_fields = {k: v for k, v in fields.items() if k not in _FREE_FIELDS}
  fixed_fields["eval"] = {
    k: v for k, v in fields["eval"].items() if k not in _FREE_EVAL_FIELDS
  }
  return fixed_fields


def _to_json_types(value: Any) -> Any:
  """Returns `value` as JSON reads it back: tuples become lists."""
  return json.loads(json.dumps(value))


def _describe_architecture(
  config: ml_collections.ConfigDict,
  benchmark: Benchmark,
  tokenizer: TextTokenizer,
) -> dict[str, Any]:
  """Returns what a checkpoint must agree with to be loaded."""
  return _to_json_types(
    {
      "dataset": benchmark.name,
      "vocab_size": tokenizer.vocab_size,
      "vocabulary": tokenizer.fingerprint,
      "model": config.model.to_dict(),
    }
  )
