"""Retriever: answers queries with a trained run (or its export) or an encoder.

  >>> from ctd_jax import Retriever
  >>> retriever = Retriever.load("runs/tiny")  # doctest: +SKIP
  >>> retriever.search(["桓公元年正月有何記事？"], k=3)  # doctest: +SKIP
  [[Hit(record_id='r000093', score=17.2, text='元年春王正月…'), ...]]

  >>> texts = {"a": "元年春王正月", "b": "夏五月鄭伯克段于鄢"}
  >>> encoder = Retriever.load(
  ...   "tests/golden/text_encoder", texts=texts, pooling="mean"
  ... )
  >>> [[hit.record_id for hit in hits] for hits in encoder.search(["夏五月"])]
  [['b', 'a']]

Axes: Q queries, N records, D width of a vector, k results.
"""

from __future__ import annotations

import dataclasses
import operator
import os
import pathlib
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import ml_collections
import numpy as np
from absl import logging

from ctd_jax.training import run_folder
from ctd_jax.utils import unicode_text

if TYPE_CHECKING:
  from ctd_jax.benchmark.benchmark import Benchmark
  from ctd_jax.retrieval.trained_system import TrainedSystem
  from ctd_jax.training.input_pipeline import Tokens

_GALLERY = "all"  # name of the one gallery: every record


class Hit(NamedTuple):
  """A record that a search returned."""

  record_id: str  # id of the record
  score: float  # of the pair, higher is better; comparable within a query alone
  text: str  # of the record


@dataclasses.dataclass(frozen=True)
class Retriever:
  """A gallery of texts and the model that ranks it; `load` makes one."""

  name: str  # of the system, in run files and tables
  score_mode: str  # name of the score that ranks
  # Record id -> text, the gallery.
  texts: Mapping[str, str] = dataclasses.field(repr=False)  # thousands
  # (queries [Q], k) -> rows of the gallery int32 [Q, k] with their scores
  # float32 [Q, k], best first.
  rank_rows: Callable[[Sequence[str], int], tuple[np.ndarray, np.ndarray]] = (
    dataclasses.field(repr=False)
  )
  # What is read, one of `runs.TRACKS`.
  track: str = "T0"

  @classmethod
  def load(
    cls,
    source: str | os.PathLike[str] | ml_collections.ConfigDict,
    *,
    dataset: str | None = None,
    data_dir: str | os.PathLike[str] | None = None,
    texts: Mapping[str, str] | Iterable[str] | None = None,
    pooling: str | None = None,
  ) -> Retriever:
    """Returns a retriever whose gallery is encoded.

    Args:
      source: workdir of a trained run, or the folder that it was exported to,
        which rank with the best checkpoint and the score of the run; folder of
        an encoder or hub id, which ranks with the cosine; or a config, whose
        model ranks as it is before training.
      dataset: data set whose records are the gallery; None = the run's own.
      data_dir: folder of the data set; None = as in the config.
      texts: the gallery instead of a data set: record id -> text, or texts
        whose ids are their numbers.
      pooling: pooling of an encoder; None = as its folder says.

    Raises:
      FileNotFoundError: if the folder, its checkpoint or a file is missing.
      TypeError: if a text is no string.
      ValueError: if an encoder has no gallery or the gallery no text, its
        folder does not say how its vectors are made and no pooling is given, or
        a file does not fit.
    """
    if texts is not None and not isinstance(texts, Mapping):
      texts = {
        str(row): text
        for row, text in enumerate(unicode_text.list_texts(texts))
      }
    if texts is not None:
      unicode_text.list_texts(texts.values())
      if not texts:
        raise ValueError("texts has no text; a gallery needs at least one")
    if isinstance(source, ml_collections.ConfigDict):
      with tempfile.TemporaryDirectory() as workdir:
        return _load_run(source, workdir, dataset, data_dir, texts)
    folder = run_folder.resolve_folder(source)
    has_gallery = texts is not None or dataset is not None
    if not folder.exists() and not has_gallery:
      raise FileNotFoundError(
        f"{source}: no such folder; expected the workdir of a trained run, or "
        "an encoder (a folder or a hub id) with dataset= or texts="
      )
    if not folder.exists():
      from ctd_jax.models.pretrained import folders

      folder = folders.find_model_folder(source)  # of a hub id
    is_run = (folder / run_folder.TRAINING_FILE).exists()
    if is_run or (folder / run_folder.SYSTEM_FILE).exists():
      if pooling is not None:
        raise ValueError(
          f"{source}: pooling={pooling!r}, but a run has its own"
        )
      if not is_run:
        return _load_exported(folder, dataset, data_dir, texts)
      return _load_run(
        run_folder.read_config(folder), folder, dataset, data_dir, texts
      )
    if not has_gallery:
      raise ValueError(
        f"{source}: no trained run there, and an encoder has no gallery of "
        "its own; give dataset= or texts="
      )
    if texts is None:
      from ctd_jax_datasets import load

      texts = _collect_texts(load.build_benchmark(dataset, data_dir, None))
    return _load_encoder(folder, texts, pooling)

  def search(
    self, queries: str | Iterable[str], k: int = 10
  ) -> list[list[Hit]]:
    """Returns the k best records of every query, best first.

    Args:
      queries: texts [Q]; a string is one query.
      k: results per query; fewer if the gallery is smaller.

    Raises:
      TypeError: if a query is no string, or k no whole number.
      ValueError: if k is below 1.
    """
    k = operator.index(k)
    if k < 1:
      raise ValueError(f"k must be at least 1, got {k}")
    queries = unicode_text.list_texts(queries, "queries")
    if not queries:
      return []
    ids = list(self.texts)
    rows, scores = self.rank_rows(queries, min(k, len(ids)))
    return [
      [
        Hit(ids[row], float(score), self.texts[ids[row]])
        for row, score in zip(query_rows, query_scores, strict=True)
        if row >= 0  # -1: nothing more
      ]
      for query_rows, query_scores in zip(rows, scores, strict=True)
    ]


def _collect_texts(benchmark: Benchmark) -> dict[str, str]:
  """Returns record id -> text."""
  return {record.record_id: record.text for record in benchmark.records}


def _load_run(
  config: ml_collections.ConfigDict,
  workdir: str | os.PathLike[str],
  dataset: str | None,
  data_dir: str | os.PathLike[str] | None,
  texts: Mapping[str, str] | None,
) -> Retriever:
  """Returns the retriever of a run; without a checkpoint it is not trained."""
  from ctd_jax.retrieval import trained_system
  from ctd_jax.training import experiment as experiments
  from ctd_jax.training import transfer

  experiment = experiments.assemble_experiment(config, workdir)
  system = trained_system.restore_system(experiment)
  if dataset:
    experiment = transfer.transfer_experiment(experiment, dataset, data_dir)
    system = dataclasses.replace(system, backbone=experiment.backbone)
  tokens = None
  if texts is None:
    texts, tokens = _collect_texts(experiment.benchmark), experiment.records
  return _make_retriever(
    system, texts, tokens, reads_dates=bool(experiment.query_intervals)
  )


def _load_exported(
  folder: run_folder.Folder,
  dataset: str | None,
  data_dir: str | os.PathLike[str] | None,
  texts: Mapping[str, str] | None,
) -> Retriever:
  """Returns the retriever of an exported run, which needs no data set."""
  from ctd_jax.retrieval import trained_system
  from ctd_jax.training import experiment as experiments
  from ctd_jax.training import transfer
  from ctd_jax_datasets import load

  system = trained_system.read_system(pathlib.Path(folder))
  config = system.config
  timeline, tokens = system.timeline, None
  if texts is None or dataset:
    benchmark = load.build_benchmark(
      dataset or config.dataset, data_dir, config.sources
    )
    timeline = benchmark.timeline
    if not dataset and benchmark.name != system.dataset:
      logging.warning(
        "%s was trained on %s; its gallery is %s",
        config.name,
        system.dataset,
        benchmark.name,
      )
    backbone = system.backbone.move_to(timeline)
    system = dataclasses.replace(system, backbone=backbone)
    if texts is None:
      texts = _collect_texts(benchmark)
      tokens = experiments.tokenize_side(
        "record",
        list(texts.values()),
        backbone,
        config,
        "records",
        [record.key for record in benchmark.records],
      )
  return _make_retriever(
    system,
    texts,
    tokens,
    transfer.reads_query_dates(config, system.timeline, timeline),
  )


def _make_retriever(
  system: TrainedSystem,
  texts: Mapping[str, str],
  records: Tokens | None,
  reads_dates: bool,
) -> Retriever:
  """Returns the retriever of a system, whose gallery is encoded now."""
  from ctd_jax.chronology import questions
  from ctd_jax.retrieval import dense
  from ctd_jax.training import date_marks
  from ctd_jax.training import experiment as experiments

  config, backbone = system.config, system.backbone
  if records is None:
    records = experiments.tokenize_side(
      "record", list(texts.values()), backbone, config, "records"
    )
  ranker = dense.TextRanker(config, system.model, system.mesh)
  encodings = ranker.encode_records(system.params, records)
  gallery = {_GALLERY: np.ones(len(records), bool)}

  def rank_rows(
    queries: Sequence[str], k: int
  ) -> tuple[np.ndarray, np.ndarray]:
    tokens = experiments.tokenize_side(
      "query", queries, backbone, config, "queries"
    )
    intervals = None
    if reads_dates:
      intervals = questions.read_query_intervals(queries, system.timeline)
    return ranker.search_queries(
      system.params, tokens, intervals, encodings, k, gallery
    )[_GALLERY]

  return Retriever(
    name=config.name,
    score_mode=system.score_mode,
    texts=texts,
    rank_rows=rank_rows,
    track=date_marks.find_track(config),
  )


def _load_encoder(
  folder: pathlib.Path,
  texts: Mapping[str, str],
  pooling: str | None,
) -> Retriever:
  """Returns the retriever of an encoder; its score is the cosine."""
  from ctd_jax.models.pretrained import vector_settings
  from ctd_jax.models.text_encoder import TextEncoder
  from ctd_jax.retrieval import host_search

  record_encoder = TextEncoder.load(
    folder, side="record", pooling=pooling, normalize=True
  )
  query_side = vector_settings.read_vector_settings(
    folder, reads_steps=False
  ).query
  max_tokens = record_encoder.config.max_length
  query_encoder = dataclasses.replace(
    record_encoder,
    prefix=query_side.prefix,
    max_length=min(query_side.max_length or max_tokens, max_tokens),
  )
  records = record_encoder.encode(list(texts.values()))  # [N, D], unit length

  def rank_rows(
    queries: Sequence[str], k: int
  ) -> tuple[np.ndarray, np.ndarray]:
    scores = query_encoder.encode(queries) @ records.T  # cosines [Q, N]
    return host_search.select_top_k(scores, k)

  return Retriever(
    name=folder.name, score_mode="semantic", texts=texts, rank_rows=rank_rows
  )
