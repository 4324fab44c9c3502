"""The export as parquet, read by the libraries it is made for."""

import datasets
import pytest
from mteb.abstasks.retrieval_dataset_loaders import RetrievalDatasetLoader

from ctd_jax_datasets import export, load


@pytest.fixture(scope="module")
def benchmark(tmp_path_factory):
  return load.build_benchmark("chunqiutr/mini", tmp_path_factory.mktemp("mini"))


@pytest.fixture(scope="module")
def folder(benchmark, tmp_path_factory):
  folder = tmp_path_factory.mktemp("hf") / "mini"
  export.export_benchmark(benchmark, "hf", folder)
  return str(folder)


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
  monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path)


def test_load_dataset_opens_the_folder(benchmark, folder):
  (corpus,) = datasets.load_dataset(folder).values()
  assert corpus["text"] == [record.text for record in benchmark.records]
  assert corpus["start"] == [str(r.key) for r in benchmark.records]
  queries = datasets.load_dataset(folder, "queries", split="queries")
  by_id = dict(zip(queries["_id"], queries["text"], strict=True))
  qrels = datasets.load_dataset(folder, "qrels")
  assert list(qrels) == list(benchmark.queries)
  for split, asked in benchmark.queries.items():
    pairs = zip(
      qrels[split]["query-id"], qrels[split]["corpus-id"], strict=True
    )
    assert list(pairs) == [(q.query_id, p) for q in asked for p in q.positives]
    assert all(by_id[q.query_id] == q.text for q in asked)


def test_mteb_reads_it_as_a_retrieval_set(benchmark, folder):
  loaded = RetrievalDatasetLoader(folder, revision=None, split="test").load()
  asked = {q.query_id: q for q in benchmark.queries["test"]}
  assert set(loaded["queries"]["id"]) == set(asked)
  assert loaded["relevant_docs"] == {
    name: dict.fromkeys(query.positives, 1) for name, query in asked.items()
  }
  assert loaded["corpus"]["id"] == benchmark.record_ids
