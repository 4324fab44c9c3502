"""Retrieval task of MTEB made from a data set of this project.

An encoder that is evaluated with MTEB is measured in the protocol's own modes;
the figures are those of `evaluate`. Needs the extra `mteb`.

  import mteb
  from ctd_jax.evaluation import mteb_task

  task = mteb_task.make_task_class("chunqiutr/rebuilt")()
  mteb.evaluate(sentence_transformer, tasks=[task])

MTEB's hit_rate_at_k is our hit@k, its recall_at_k our recall@k. What
`build_retrieval_data` returns fits InformationRetrievalEvaluator of
sentence-transformers.
"""

import functools
import os
import re

import datasets
from mteb.abstasks.retrieval import AbsTaskRetrieval
from mteb.abstasks.retrieval_dataset_loaders import RetrievalSplitData
from mteb.abstasks.task_metadata import TaskMetadata

from ctd_jax.benchmark.benchmark import Benchmark
from ctd_jax.evaluation import protocol
from ctd_jax_datasets import load

MAIN_SCORE = "hit_rate_at_1"
_CITATION = r"""
@article{wang2026chunqiutr,
  author = {Wang, Yihao and He, Zijian and Ren, Jie and Wang, Keze},
  journal = {arXiv preprint arXiv:2604.06997},
  title = {ChunQiuTR: Time-Keyed Temporal Retrieval in Classical Chinese
    Annals},
  year = {2026},
}
"""


def build_retrieval_data(
  benchmark: Benchmark, split: str, mode: str = protocol.OFFICIAL_MODE
) -> tuple[dict[str, str], dict[str, str], dict[str, set[str]]]:
  """Returns queries, gallery and positives of one mode of the protocol.

  Returns:
    Query id -> text, record id -> text, query id -> ids of its positives.
  """
  protocol_mode = protocol.get_mode(mode)
  positives_by_query = protocol.build_qrels(
    benchmark.queries[split],
    {record.record_id: record.kind for record in benchmark.records},
    protocol_mode,
  )
  gallery_kinds = protocol.GALLERY_KINDS[protocol_mode.gallery]
  queries = {
    query.query_id: query.text
    for query in benchmark.queries[split]
    if query.query_id in positives_by_query
  }
  corpus = {
    record.record_id: record.text
    for record in benchmark.records
    if record.kind in gallery_kinds
  }
  return (
    queries,
    corpus,
    {name: set(ids) for name, ids in positives_by_query.items()},
  )


def make_task_class(
  dataset: str = "chunqiutr/rebuilt",
  mode: str = protocol.OFFICIAL_MODE,
  data_dir: str | os.PathLike | None = None,
) -> type[AbsTaskRetrieval]:
  """Returns the class of the task, which MTEB instantiates and loads.

  Args:
    dataset: name as in `config.dataset`, or beir:FOLDER; built on first use.
    data_dir: folder of the data sets; the default of TFDS if None.
  """
  # MTEB loads each split by itself; the data set is read for the first.
  load_once = functools.cache(
    lambda: load.build_benchmark(dataset, data_dir, None)
  )
  name = re.sub(r"[^\w]+", "-", f"{dataset}-{mode}")

  class ReignDatedRetrieval(AbsTaskRetrieval):
    """Records of the month asked for, from a chronicle dated by reigns."""

    metadata = TaskMetadata(
      name=name,
      dataset={"path": dataset, "revision": mode},
      description=f"Records of the months asked for; {dataset}, mode {mode}.",
      reference="https://arxiv.org/abs/2604.06997",
      type="Retrieval",
      category="t2t",
      modalities=["text"],
      eval_splits=["validation", "test"],
      eval_langs=["zho-Hant"],
      main_score=MAIN_SCORE,
      date=("2026-01-01", "2026-12-31"),
      domains=["Written", "Non-fiction"],
      task_subtypes=["Question answering"],
      license="not specified",
      annotations_creators="derived",
      dialect=[],
      sample_creation="found",
      bibtex_citation=_CITATION,
      is_public=False,  # MTEB's hub does not hold it
    )

    def load_data(self, **unused) -> None:
      """Reads the data set; nothing is downloaded by MTEB."""
      if self.data_loaded:
        return
      self.dataset = {"default": {}}
      for split in self.eval_splits:
        self.dataset["default"][split] = _build_split_data(
          load_once(), split, mode
        )
      self.data_loaded = True

  return ReignDatedRetrieval


def _build_split_data(
  benchmark: Benchmark, split: str, mode: str
) -> RetrievalSplitData:
  queries, corpus, positives = build_retrieval_data(benchmark, split, mode)
  return RetrievalSplitData(
    corpus=_make_dataset(corpus),
    queries=_make_dataset(queries),
    relevant_docs={
      name: dict.fromkeys(sorted(ids), 1) for name, ids in positives.items()
    },
    top_ranked=None,
  )


def _make_dataset(texts: dict[str, str]) -> datasets.Dataset:
  return datasets.Dataset.from_dict(
    {"id": list(texts), "text": list(texts.values())}
  )
