"""Retriever: a trained run or an exported encoder that answers queries.

  >>> from ctd_jax import Retriever
  >>> retriever = Retriever.load("runs/tiny")  # doctest: +SKIP
  >>> retriever.search(["桓公元年正月有何記事？"], k=3)  # doctest: +SKIP
  [[Hit(record_id='r000093', score=17.2, text='元年春王正月…'), ...]]

  >>> texts = {"a": "元年春王正月", "b": "夏五月鄭伯克段于鄢"}
  >>> encoder = Retriever.load("tests/golden/reranker", texts=texts)
  >>> [[hit.record_id for hit in hits] for hits in encoder.search(["夏五月"])]
  [['b', 'a']]

Axes: Q queries, N records, D width of a vector, k results.
"""

from __future__ import annotations

import dataclasses
import json
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import ml_collections
import numpy as np

from ctd_jax.training import run_folder

_GALLERY = "all"  # name of the one gallery: every record
# Files of an exported encoder, see `models.pretrained.folder_export`.
_POOLING_FILE = "1_Pooling/config.json"
_LENGTH_FILE = "sentence_bert_config.json"
_PROMPTS_FILE = "config_sentence_transformers.json"
_POOLING_FIELDS = {
  "pooling_mode_cls_token": "cls",
  "pooling_mode_mean_tokens": "mean",
  "pooling_mode_lasttoken": "last",
}


class Hit(NamedTuple):
  """A record that a search returned.

  Attributes:
    record_id: id of the record.
    score: of the pair, higher is better; comparable within a query alone.
    text: of the record.
  """

  record_id: str
  score: float
  text: str


@dataclasses.dataclass(frozen=True)
class Retriever:
  """A gallery of texts and the model that ranks it; `load` makes one.

  Attributes:
    name: of the system, in run files and tables.
    score_mode: name of the score that ranks.
    texts: record id -> text, the gallery.
    rank_rows: (queries [Q], k) -> rows of the gallery int32 [Q, k] with their
      scores float32 [Q, k], best first.
    track: what is read; "T0" = texts alone.
  """

  name: str
  score_mode: str
  texts: Mapping[str, str] = dataclasses.field(repr=False)  # thousands
  rank_rows: Callable[[Sequence[str], int], tuple[np.ndarray, np.ndarray]] = (
    dataclasses.field(repr=False)
  )
  track: str = "T0"

  @classmethod
  def load(
    cls,
    source: str | os.PathLike[str] | ml_collections.ConfigDict,
    *,
    dataset: str | None = None,
    data_dir: str | os.PathLike[str] | None = None,
    texts: Mapping[str, str] | Sequence[str] | None = None,
  ) -> Retriever:
    """Returns a retriever whose gallery is encoded.

    Args:
      source: workdir of a trained run, which ranks with its best checkpoint
        and its own score; folder of an encoder, exported or published, or hub
        id, which ranks with the cosine; or a config, whose model ranks as it
        is before training.
      dataset: whose records are the gallery; None = that of the run.
      data_dir: where the data set lies; None = where the config says.
      texts: the gallery instead of a data set: record id -> text, or texts
        whose ids are their numbers.

    Raises:
      FileNotFoundError: if the folder, its checkpoint or a file is missing.
      ValueError: if an encoder has no gallery, or a file does not fit.
    """
    if texts is not None and not isinstance(texts, Mapping):
      texts = {str(row): text for row, text in enumerate(texts)}
    if isinstance(source, ml_collections.ConfigDict):
      with tempfile.TemporaryDirectory() as workdir:
        return _load_run(source, workdir, dataset, data_dir, texts)
    if (run_folder.resolve_folder(source) / run_folder.TRAINING_FILE).exists():
      config = run_folder.read_config(source)
      return _load_run(config, source, dataset, data_dir, texts)
    if texts is None:
      if dataset is None:
        if not run_folder.resolve_folder(source).exists():
          raise FileNotFoundError(
            f"{source}: no such folder; expected the workdir of a trained run, "
            "or an encoder (a folder or a hub id) with dataset= or texts="
          )
        raise ValueError(
          f"{source}: no trained run there, and an encoder has no gallery of "
          "its own; give dataset= or texts="
        )
      texts = _read_texts(dataset, data_dir)
    return _load_encoder(source, texts)

  def search(self, queries: Sequence[str], k: int = 10) -> list[list[Hit]]:
    """Returns the k best records of every query, best first.

    Args:
      queries: texts [Q].
      k: results per query; fewer if the gallery is smaller.

    Raises:
      ValueError: if k is below 1.
    """
    if k < 1:
      raise ValueError(f"k must be at least 1, got {k}")
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


def _read_texts(
  dataset: str, data_dir: str | os.PathLike[str] | None
) -> dict[str, str]:
  """Returns record id -> text of a data set, which is built if need be."""
  from ctd_jax_datasets import load

  benchmark = load.build_benchmark(dataset, data_dir, None)
  return {record.record_id: record.text for record in benchmark.records}


def _load_run(
  config: ml_collections.ConfigDict,
  workdir: str | os.PathLike[str],
  dataset: str | None,
  data_dir: str | os.PathLike[str] | None,
  texts: Mapping[str, str] | None,
) -> Retriever:
  """Returns the retriever of a run; without a checkpoint it is not trained."""
  from ctd_jax.training import experiment as experiments
  from ctd_jax.training import input_pipeline, transfer

  experiment = experiments.assemble_experiment(config, workdir)
  if dataset:
    experiment = transfer.transfer_experiment(experiment, dataset, data_dir)
  if texts is None:
    records = experiment.benchmark.records
    texts = {record.record_id: record.text for record in records}
  else:
    tokens = input_pipeline.tokenize_texts(
      experiment.tokenizer,
      list(texts.values()),
      config.record_length,
      experiment.backbone.record_prefix,
    )
    experiment = dataclasses.replace(experiment, records=tokens)
  return Retriever(
    name=config.name,
    score_mode=config.eval.score_mode or config.score_mode,
    texts=texts,
    rank_rows=_make_run_ranker(experiment),
  )


def _make_run_ranker(
  experiment: Any,
) -> Callable[[Sequence[str], int], tuple[np.ndarray, np.ndarray]]:
  """Returns `Retriever.rank_rows` of a run, whose gallery is encoded now."""
  from ctd_jax.chronology import query_dates
  from ctd_jax.retrieval import dense
  from ctd_jax.training import input_pipeline

  config, backbone = experiment.config, experiment.backbone
  step = experiment.checkpoints.best_step
  if step is None:
    params = experiment.init_state().params
  else:
    state = experiment.checkpoints.restore(step, experiment.abstract_state())
    params = state.params
  ranker = dense.Ranker(experiment)
  records = ranker.encode_gallery(params)
  gallery = {_GALLERY: np.ones(len(experiment.records), bool)}

  def rank_rows(
    queries: Sequence[str], k: int
  ) -> tuple[np.ndarray, np.ndarray]:
    tokens = input_pipeline.tokenize_texts(
      experiment.tokenizer, queries, config.query_length, backbone.query_prefix
    )
    intervals = None
    if experiment.query_intervals:  # the parser dates the queries of this run
      intervals = query_dates.read_query_intervals(
        queries, experiment.benchmark.timeline
      )
    return ranker.search_queries(
      params, tokens, intervals, records, k, gallery
    )[_GALLERY]

  return rank_rows


def _load_encoder(
  source: str | os.PathLike[str], texts: Mapping[str, str]
) -> Retriever:
  """Returns the retriever of an encoder; its score is the cosine."""
  from ctd_jax.models.pretrained import hub_folders
  from ctd_jax.models.text_encoder import TextEncoder
  from ctd_jax.retrieval import host_search

  folder = hub_folders.find_model_folder(source)

  def read_settings(name: str) -> Mapping[str, Any]:
    path = folder / name
    return json.loads(path.read_text("utf-8")) if path.is_file() else {}

  pooling = next(
    (
      _POOLING_FIELDS[field]
      for field, value in read_settings(_POOLING_FILE).items()
      if value is True and field in _POOLING_FIELDS
    ),
    "mean",  # a published folder without the file, as sentence-transformers
  )
  prompts = read_settings(_PROMPTS_FILE).get("prompts", {})
  record_encoder = TextEncoder.load(
    folder,
    pooling=pooling,
    normalize=True,
    max_length=read_settings(_LENGTH_FILE).get("max_seq_length"),
    prefix=prompts.get("document", ""),
  )
  query_encoder = dataclasses.replace(
    record_encoder, prefix=prompts.get("query", "")
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
