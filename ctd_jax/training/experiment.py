"""Experiment: everything that a config and a workdir describe, assembled once.

Training, evaluation and export start here: the data set (built on first use),
its texts as tokens, the model, the optimizer and the checkpoints of the
workdir.

Axes: Q queries of a split.
"""

import contextlib
import dataclasses
import functools
import json
import os
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import ml_collections
import numpy as np
import optax
from flax import linen as nn
from jaxtyping import Int32

from ctd_jax.benchmark.benchmark import Benchmark
from ctd_jax.benchmark.runs import Run
from ctd_jax.chronology import questions
from ctd_jax.chronology.reigns import TimeKey
from ctd_jax.models import dual_encoder, packing, text_encoder
from ctd_jax.models.dual_encoder import ENCODER, DualEncoder
from ctd_jax.models.encoders import layers
from ctd_jax.models.tokenizer import TextTokenizer
from ctd_jax.training import backbone as backbones
from ctd_jax.training import config as training_config
from ctd_jax.training import (
  devices,
  input_pipeline,
  optimizer,
  run_folder,
  train_step,
)
from ctd_jax.training import packing as packing_lib
from ctd_jax.training.backbone import Backbone
from ctd_jax.training.checkpoints import (
  CheckpointError,
  Checkpoints,
  list_differences,
)
from ctd_jax.training.date_marks import DateMarks
from ctd_jax.training.input_pipeline import (
  BatchIterator,
  BatchSettings,
  Tokens,
)
from ctd_jax.training.objective import Objective
from ctd_jax.training.run_folder import (
  CHECKPOINT_FOLDER,
  CONFIG_FILE,
  EVALUATION_FOLDER,
  TOKENIZER_FOLDER,
  TOKENS_FOLDER,
  Folder,
)
from ctd_jax.training.speed import StepWork
from ctd_jax.training.train_step import TrainState
from ctd_jax.utils import files
from ctd_jax_datasets import load
from ctd_jax_datasets.common.source_files import SourceError

SELECTION_METRIC = "validation/hit@1"  # the best checkpoint has the highest


@dataclasses.dataclass(frozen=True)
class TrainingSetup:
  """What the training loop reads of a run, whatever its task.

  A task adds `training_batches`, `make_objective`, `count_work` and `describe`.
  """

  config: ml_collections.ConfigDict  # the whole config
  workdir: Folder  # folder of the run, absolute or in a bucket
  mesh: jax.sharding.Mesh  # devices of the run
  backbone: Backbone  # the text encoder, and the tokenizer that made them
  model: nn.Module  # has the encoder as a submodule of the name `ENCODER`
  optimizer: optax.GradientTransformation  # its transformation
  total_steps: int  # number of steps of the whole run, each of one batch
  checkpoints: Checkpoints  # of the workdir

  @property
  def tokenizer(self) -> TextTokenizer:
    """Vocabulary of the text encoder."""
    return self.backbone.tokenizer

  def init_state(self) -> TrainState:
    """Returns a fresh train state on the devices of the mesh."""
    return train_step.init_state(
      self.model,
      self.optimizer,
      self.config.seed,
      self.mesh,
      self._load_encoder(),
    )

  def _load_encoder(self) -> Any:
    """Returns the published parameters, None if they are random."""
    abstract = self.abstract_state()
    encoder = (abstract.frozen or abstract.params)[ENCODER]
    return self.backbone.load_params(train_step.get_shardings(encoder))

  def load_frozen(self) -> Any:
    """Returns the parameters that are not trained, see `TrainState.frozen`."""
    if self.backbone.encoder.lora is None:
      return {}
    return {ENCODER: self._load_encoder()}

  def restore_params(self, step: int) -> Any:
    """Returns all parameters of the model at a saved step."""
    trained = self.checkpoints.restore_params(
      step, self.abstract_state().params
    )
    return layers.join_params(self.load_frozen(), trained)

  def claim_workdir(self) -> None:
    """Writes config and tokenizer, or refuses the workdir of another run."""
    path = self.workdir / CONFIG_FILE
    config_fields = run_folder.to_json_types(self.config.to_dict())
    if self.checkpoints.latest_step is not None:
      mismatches = list_differences(
        run_folder.fixed_fields(json.loads(path.read_text())),
        run_folder.fixed_fields(config_fields),
      )
      if mismatches:
        raise CheckpointError(
          f"{self.workdir} holds a run of another config: "
          f"{'; '.join(mismatches)}. Resume it with its own config, or give "
          "another --workdir."
        )
    # A process that is late must not read what the first one writes here.
    devices.wait_for_all("config of the workdir")
    if devices.is_coordinator():
      files.write_text(path, json.dumps(config_fields, indent=2) + "\n")
      self.backbone.save(self.workdir / TOKENIZER_FOLDER)

  def has_stalled(self, step: int) -> bool:
    """Returns whether the last `config.patience` validations were no better."""
    best_step, every = self.checkpoints.best_step, self.config.eval_every
    if not self.config.patience or best_step is None:
      return False
    return step // every - best_step // every >= self.config.patience

  def abstract_state(self) -> TrainState:
    """Returns shapes, types and shardings of the train state."""
    return train_step.abstract_state(self.model, self.optimizer, self.mesh)


@dataclasses.dataclass(frozen=True)
class Experiment(TrainingSetup):
  """A run of a retriever, ready to be trained or evaluated."""

  model: DualEncoder  # the dual encoder
  evaluation: Folder  # folder of its run files and tables
  benchmark: Benchmark  # records, queries, calendar
  records: Tokens  # tokens of the gallery
  queries: Mapping[str, Tokens]  # tokens of the queries, by split
  # First and last ordinal month that the parser reads in the queries, by split;
  # empty if the model itself dates them.
  query_intervals: Mapping[str, Int32[np.ndarray, "Q 2"]]

  @property
  def row_width(self) -> int:
    """Columns of the rows that texts are packed in."""
    max_length = self.backbone.encoder.max_length
    for field in ("query_length", "record_length"):
      if self.config[field] > max_length:
        raise ValueError(
          f"config.{field}={self.config[field]}: the encoder takes "
          f"{max_length} tokens at most"
        )
    # Queries and records share the rows: the longer of the two decides.
    longest = max(self.config.query_length, self.config.record_length)
    return packing.row_width(longest, max_length)

  def training_batches(
    self,
    place: Callable[[dict[str, Any]], Any] | None = None,
    mined: Run | None = None,
  ) -> BatchIterator:
    """Returns the iterator of `input_pipeline.training_batches`."""
    config = self.config
    shards = devices.count_batch_shards(self.mesh)
    settings = BatchSettings.from_config(
      config,
      shards * config.encode_chunks,
      packing.row_widths(
        self.row_width,
        self.backbone.encoder.max_length,
        packing_lib.width_multiple(self.mesh.devices.flat[0].platform),
      ),
    )
    return input_pipeline.training_batches(
      self.benchmark,
      self.queries["train"],
      self.records,
      settings,
      place,
      mined,
      self._teacher,
    )

  def make_objective(self) -> Objective:
    """Returns the loss that a step minimises."""
    return Objective.from_config(self.config, self.model, self.mesh)

  @functools.cached_property
  def _teacher(self) -> input_pipeline.Teacher | None:
    """Scores that the loss reads; read once, lists may be mined again."""
    path = self.config.loss.teacher
    return input_pipeline.Teacher.read(path, self.benchmark) if path else None

  def count_work(self, batch: Mapping[str, Any]) -> StepWork:
    """Returns the size of a batch over all processes."""
    return StepWork.of_rows(batch["texts"].segments, len(batch["query_ends"]))

  def describe(self) -> str:
    """Returns what the run is trained on, for the log."""
    return (
      f"{self.benchmark.name}, {len(self.benchmark.queries['train'])} train "
      f"queries, {len(self.benchmark.records)} records"
    )


def assemble_experiment(
  config: ml_collections.ConfigDict, workdir: str | os.PathLike
) -> Experiment:
  """Returns the experiment of a config; builds the data set if need be.

  A value that cannot be meant, weights or source texts that cannot be had are
  errors before a data set is built or a text is tokenised.

  Args:
    config: see `training.config.base_config`.
    workdir: folder of the run; nothing but an empty folder and, where they are
      kept, tokens is written.
  """
  # Cheap checks come first, then weights, then source texts, then the rest.
  training_config.validate(config)
  workdir = run_folder.resolve_folder(workdir)
  # A run that was begun has its own vocabulary; a new one makes it.
  saved_folder = None
  if run_folder.has_checkpoints(workdir):
    saved_folder = workdir / TOKENIZER_FOLDER
  backbone = None
  if "source" in config.model.encoder:
    with devices.coordinator_first("weights"):  # which downloads them
      backbone = backbones.read_published_backbone(config.model, saved_folder)
    for side in ("query", "record"):
      text_encoder.check_prefix(
        backbone.tokenizer,
        getattr(backbone, f"{side}_prefix"),
        config[f"{side}_length"],
        f"config.model.encoder.{side}_prefix",
        f"config.{side}_length",
      )
  benchmark = build_benchmark(config.dataset, config.data_dir, config.sources)
  check_trainable(benchmark)
  date_marks = DateMarks.from_config(config, benchmark.timeline)
  if backbone is None:
    backbone = backbones.make_scratch_backbone(
      config.model, benchmark, saved_folder, date_marks
    )
  else:
    backbone = dataclasses.replace(backbone, date_marks=date_marks)
  tokens_folder = _find_tokens_folder(config.input, workdir)
  with contextlib.ExitStack() as stack:
    if tokens_folder is not None:  # where the first process writes them
      stack.enter_context(devices.coordinator_first("tokens"))
    tokens = tokenize_benchmark(benchmark, backbone, config, tokens_folder)
  check_tokens(benchmark, **tokens, config=config)
  steps = count_total_steps(
    config.num_epochs,
    config.batch_size,
    len(benchmark.queries["train"]),
    config.accumulate_steps,
  )
  return Experiment(
    **make_run_parts(
      config,
      workdir,
      steps,
      SELECTION_METRIC,
      _describe_architecture(config.model, benchmark, backbone),
    ),
    evaluation=workdir / EVALUATION_FOLDER,
    benchmark=benchmark,
    **tokens,
    query_intervals=read_query_intervals(benchmark)
    if asks_parser(config)
    else {},
    backbone=backbone,
    model=train_step.make_model(
      config.model, backbone.encoder, benchmark.timeline
    ),
  )


def make_run_parts(
  config: ml_collections.ConfigDict,
  workdir: Folder,
  steps: int,
  selection_metric: str,
  description: Mapping[str, Any],
) -> dict[str, Any]:
  """Returns the fields of `TrainingSetup` that are alike for all tasks.

  Args:
    config: the whole config.
    workdir: folder of the run.
    steps: number of steps of the whole run.
    selection_metric: validation metric whose highest value is the best.
    description: what a checkpoint must agree with to be restored.
  """
  return {
    "config": config,
    "workdir": workdir,
    "mesh": devices.make_mesh(**config.mesh.to_dict()),
    "optimizer": optimizer.make_optimizer(
      config.optimizer,
      steps // config.accumulate_steps,
      config.accumulate_steps,
    ),
    "total_steps": steps,
    "checkpoints": Checkpoints(
      workdir / CHECKPOINT_FOLDER,
      selection_metric,
      description,
      config.keep_latest,
    ),
  }


def build_benchmark(
  dataset: str,
  data_dir: str | os.PathLike | None,
  sources: str | os.PathLike | None,
) -> Benchmark:
  """Returns a data set; one process builds it, the others wait."""
  with devices.coordinator_first("data set"):
    try:
      return load.build_benchmark(dataset, data_dir, sources)
    except SourceError as error:
      # The builder's own command has the flag --sources.
      reason = str(error).replace("--sources", "--config.sources")
      raise SourceError(f"config.dataset={dataset}: {reason}") from None


def check_trainable(benchmark: Benchmark) -> None:
  """Raises ValueError if a data set cannot train or select a model."""
  missing = [
    f"{split} queries"
    for split in ("train", "validation")
    if not benchmark.queries[split]
  ]
  if "train" not in benchmark.record_splits:
    missing.append("train records")
  if missing:
    raise ValueError(
      f"{benchmark.name} has no {' and no '.join(missing)}: a run cannot be "
      "trained on it. It can be evaluated: python -m ctd_jax.evaluate "
      "--dataset=... --workdir=... with a run trained elsewhere, or with "
      "--baselines_only"
    )
  for query in benchmark.queries["train"]:
    if not query.positives:
      raise ValueError(
        f"{benchmark.name}: no record answers the train query {query.query_id}"
      )


def tokenize_benchmark(
  benchmark: Benchmark,
  backbone: Backbone,
  config: ml_collections.ConfigDict,
  folder: pathlib.Path | None = None,
) -> dict[str, Any]:
  """Returns the fields `records` and `queries` of an experiment."""
  return {
    "queries": {
      split: tokenize_side(
        "query",
        [query.text for query in queries],
        backbone,
        config,
        f"{benchmark.name}, {split} queries",
        folder=folder,
      )
      for split, queries in benchmark.queries.items()
    },
    "records": tokenize_side(
      "record",
      [record.text for record in benchmark.records],
      backbone,
      config,
      "records",
      [record.key for record in benchmark.records],
      folder,
    ),
  }


def _find_tokens_folder(
  section: ml_collections.ConfigDict, workdir: Folder
) -> pathlib.Path | None:
  """Returns the folder for tokens; None if none are kept, as in a bucket."""
  folder = None
  if section.tokens_dir is not None:
    folder = run_folder.resolve_folder(section.tokens_dir)
  elif jax.process_count() > 1 or section.workers:
    folder = workdir / TOKENS_FOLDER
  # What is in a bucket cannot be mapped.
  return folder if isinstance(folder, pathlib.Path) else None


def check_tokens(
  benchmark: Benchmark,
  records: Tokens,
  queries: Mapping[str, Tokens],
  config: ml_collections.ConfigDict,
) -> None:
  """Raises ValueError if tokens cannot tell most queries or records apart."""
  texts_by_name = {
    f"{split} queries": ("query_length", benchmark.queries[split], tokens)
    for split, tokens in queries.items()
  }
  texts_by_name["records"] = "record_length", benchmark.records, records
  for name, (field, texts, tokens) in texts_by_name.items():
    text_encoder.check_distinct(
      [text.text for text in texts],
      tokens.ids,
      f"{benchmark.name}, {name}",
      f"set config.{field}={config[field]} higher, or take an encoder that "
      "knows their characters",
    )


def tokenize_side(
  side: str,
  texts: Sequence[str],
  backbone: Backbone,
  config: ml_collections.ConfigDict,
  name: str,
  keys: Sequence[TimeKey] | None = None,
  folder: pathlib.Path | None = None,
) -> Tokens:
  """Returns queries, or records of a gallery, as tokens.

  Warnings count texts that are cut, and distinct texts with the same tokens.

  Args:
    side: "query" or "record", whose length is read in the config, and whose
      prefix and date marks in the backbone.
    name: name of the texts, in a warning.
    keys: months of records, which date marks of track T1 read.
    folder: folder that keeps tokens; None = memory.
  """
  field = f"{side}_length"
  marks = backbone.date_marks
  is_query = side == "query"
  tokens = input_pipeline.tokenize_texts(
    backbone.tokenizer,
    marks.mark_queries(texts) if is_query else marks.mark_records(texts, keys),
    config[field],
    getattr(backbone, f"{side}_prefix"),
    folder,
  )
  text_encoder.warn_of_cuts(
    tokens.full_lengths, config[field], name, f"config.{field}"
  )
  text_encoder.warn_of_collapse(texts, tokens.ids, name)
  return tokens


def read_query_intervals(
  benchmark: Benchmark,
) -> dict[str, Int32[np.ndarray, "Q 2"]]:
  """Returns the months that the parser reads in the queries, by split."""
  return {
    split: questions.read_query_intervals(
      [query.text for query in queries], benchmark.timeline
    )
    for split, queries in benchmark.queries.items()
  }


def asks_parser(config: ml_collections.ConfigDict) -> bool:
  """Returns whether a score reads dates that the parser finds in queries."""
  # Only the posterior scores intervals.
  return config.score_mode == "posterior" and config.query_dates == "parser"


def evaluation_splits(
  benchmark: Benchmark, requested_splits: Sequence[str]
) -> list[str]:
  """Returns the splits in `config.eval.splits` that have queries."""
  splits = [split for split in requested_splits if benchmark.queries[split]]
  if not splits:
    available_splits = [
      split for split, queries in benchmark.queries.items() if queries
    ]
    raise ValueError(
      f"config.eval.splits: {benchmark.name} has no queries of "
      f"{', '.join(requested_splits)}; it has "
      f"{', '.join(available_splits) or 'none'}"
    )
  return splits


def count_total_steps(
  num_epochs: float,
  batch_size: int,
  num_queries: int,
  accumulate_steps: int,
  unit: str = "train queries",
) -> int:
  """Returns the number of steps of a run, a multiple of `accumulate_steps`.

  Args:
    num_epochs: passes over the train queries; with 0 there are no updates, and
      the initial parameters are evaluated.
    batch_size: queries a step.
    accumulate_steps: steps of an update.
    unit: what an epoch is made of, for the error.
  """
  # The last part is cut.
  updates = int(num_epochs * num_queries) // (batch_size * accumulate_steps)
  if updates < 1 and num_epochs != 0:
    accumulation = ""
    if accumulate_steps > 1:
      accumulation = f" times config.accumulate_steps={accumulate_steps}"
    raise ValueError(
      f"config.num_epochs={num_epochs} and config.batch_size={batch_size}"
      f"{accumulation} make no step of {num_queries} {unit}"
    )
  return updates * accumulate_steps


def _describe_architecture(
  section: ml_collections.ConfigDict,
  benchmark: Benchmark,
  backbone: Backbone,
) -> dict[str, Any]:
  """Returns the description that a checkpoint must share to be loaded."""
  model = section.to_dict()
  # What a model lacks is left out: checkpoints from before know no such thing.
  if not model["use_gaussian"]:
    del model["use_gaussian"], model["gaussian_dim"]
  model = dual_encoder.drop_old_values(model)
  if backbone.encoder.lora is None:
    del model["lora"]
  else:
    model["encoder"]["source"] = f"sha256:{backbone.hash_weights()}"
  # With the data set, whose calendar gives the heads their classes.
  return run_folder.to_json_types(
    {
      "dataset": benchmark.name,
      "vocab_size": backbone.tokenizer.vocab_size,
      "vocabulary": backbone.tokenizer.fingerprint,
      "model": run_folder.fixed_model_fields(model),
    }
  )
