"""Published models: configs, errors, and reranking by scores that are given.

tests/parity/published_systems_test.py runs models, which needs torch.
"""

import sys

import numpy as np
import pytest

from ctd_jax.benchmark import runs
from ctd_jax.experiments import evaluation_run
from ctd_jax.systems import published, registry
from ctd_jax.training import transfer
from ctd_jax_configs import published as config_file
from tests import synthetic

BENCHMARK = synthetic.benchmark()
IDS = BENCHMARK.record_ids
QUERIES = BENCHMARK.queries["test"]
TEXT_LENGTH = {r.record_id: len(r.text) for r in BENCHMARK.records}
GALLERIES = {"all": np.ones(len(IDS), bool)}
TIME_AWARE = (
  "Instruct: Given a time-aware historical query about the Chunqiu corpus, "
  "retrieve relevant passages from the corpus.\nQuery: "
)
CLASSICAL = (
  "Instruct: Given a classical Chinese query about the Spring and Autumn "
  "Annals, retrieve relevant passages that describe the corresponding "
  "historical events.\nQuery:"
)
BGE = "为这个句子生成表示以用于检索相关文章："
# Config -> kind, prompts of queries and records, lengths, pooling.
PAPER = {
  "me5_large": ("dense", "query: ", "passage: ", 128, 256, "mean"),
  "me5_large_instruct": ("dense", TIME_AWARE, "", 128, 256, "mean"),
  "gte_large_zh": ("dense", "", "", 128, 256, "cls"),
  "bge_large_zh": ("dense", BGE, "", 128, 256, "cls"),
  "bge_m3": ("dense", "", "", 128, 256, "cls"),
  "gte_qwen2_1_5b": ("dense", TIME_AWARE, "", 128, 256, "last"),
  "e5_mistral_7b": ("dense", CLASSICAL + " ", "", 128, 256, "last"),
  "qwen3_embedding_0_6b": ("dense", CLASSICAL, "", 128, 256, "last"),
  "qwen3_embedding_4b": ("dense", CLASSICAL, "", 128, 256, "last"),
  "sentence_t5": ("dense", "", "", None, None, None),
  "splade_idf": ("sparse", None, None, 128, 256, None),
  "splade_l0": ("sparse", None, None, 128, 256, None),
  "jina_colbert_v2": ("maxsim", None, None, None, None, None),
  "lfm2_colbert": ("maxsim", None, None, None, None, None),
}


@pytest.mark.parametrize("name", PAPER)
def test_a_row_of_the_paper_is_read_as_the_authors_did(name):
  config = config_file.get_config(name)
  registry.validate(config)
  p = config.published
  assert (
    *(p.kind, p.query_prompt, p.record_prompt),
    *(p.query_length, p.record_length, p.pooling),
  ) == PAPER[name]
  assert not p.run_model_code
  assert p.name == f"zs-{name.replace('_', '-')}"


def test_other_configs():
  with pytest.raises(ValueError, match="unknown model 'sbert' after"):
    config_file.get_config("sbert")
  p = config_file.get_config("maxsim_e5_small").published
  assert (p.name, p.query_prompt, p.record_length) == ("maxsim", "query: ", 40)
  p = config_file.get_config("pqr").pqr
  assert (p.source, p.pooling, p.query_prompt) == ("BAAI/bge-m3", "cls", "")
  assert (p.query_length, p.record_length) == (128, 256)
  system = registry.make_systems(
    BENCHMARK, config_file.get_config("maxsim_e5_small")
  )["maxsim"]
  assert (system.track, system.score_mode) == ("T0", "late_interaction")


@pytest.mark.parametrize(
  ("fields", "message"),
  [
    ({"source": None}, r"published\.source: the system published needs"),
    ({"kind": "colbert"}, r"kind='colbert': expected one of dense, sparse"),
    ({"dtype": "int8"}, r"dtype='int8': expected one of float32"),
    ({"pooling": "max"}, r"pooling='max': expected one of cls, mean, last"),
    ({"query_length": 0}, r"query_length=0: expected at least 1"),
    ({"pruning": 1.5}, r"pruning=1\.5: expected 0 to 1"),
    ({"name": "bm25"}, r"published\.name='bm25': a system has this name"),
    ({"kind": "rerank"}, r"runs=None: a reranker needs a folder"),
    ({"kind": "rerank", "runs": "/no"}, r"runs=/no: no such path"),
    ({"temperature": np.nan}, r"published\.temperature=nan: expected a finite"),
    ({"mixing": -0.5}, r"mixing=-0\.5: expected 0 to 1"),
  ],
)
def test_a_wrong_value_is_named(fields, message):
  config = config_file.get_config()
  config.published.update(fields)
  with pytest.raises(ValueError, match=message):
    registry.validate(config)


def test_without_the_extra_it_says_what_to_install(monkeypatch):
  monkeypatch.setitem(sys.modules, "sentence_transformers", None)
  config = config_file.get_config("bge_m3")
  system = registry.make_systems(BENCHMARK, config)["zs-bge-m3"]
  with pytest.raises(ValueError, match=r"pip install 'ctd_jax\[baselines\]'"):
    system.search(["元年"], 1, GALLERIES)


def rerank_config(**fields):
  config = config_file.get_config("rerank")
  config.published.update({"source": "x", "first": "first", **fields})
  return config


def write_runs(folder, rankings, gallery="all", split="test", track="T0"):
  """Writes the rankings of the first system, one for each query."""
  ids = [query.query_id for query in BENCHMARK.queries[split]]
  found = dict(zip(ids, rankings, strict=False))
  run = runs.Run("first", track, "semantic", split, gallery, found)
  runs.write_run(run, folder)


def rank(config, queries=QUERIES, k=50):
  system = registry.make_systems(BENCHMARK, config)["rerank"]
  texts = [query.text for query in queries]
  indices, scores = system.search(texts, k, GALLERIES)["all"]
  return [[IDS[i] for i in row if i >= 0] for row in indices], scores


@pytest.fixture
def by_length(monkeypatch):
  """A pair scores by the length of the record."""

  def score_pairs(config, pairs):
    return np.array([1 / len(record) for _, record in pairs], np.float32)

  monkeypatch.setattr(published, "score_pairs", score_pairs)


def test_candidates_are_ordered_by_score_then_record_id(tmp_path, by_length):
  ranking = [(name, 20.0 - row) for row, name in enumerate(IDS)]
  write_runs(tmp_path, [ranking, ranking[5:8], []])
  found, scores = rank(rerank_config(runs=str(tmp_path), depth=20))
  key = lambda name: (TEXT_LENGTH[name], name)  # noqa: E731
  assert found[0] == sorted(IDS[:20], key=key)
  assert len({TEXT_LENGTH[name] for name in found[0]}) < 20  # there are ties
  assert found[1] == sorted(IDS[5:8], key=key)
  assert found[2] == []
  expected = [1 / TEXT_LENGTH[name] for name in found[1]]
  np.testing.assert_allclose(scores[1, :3], expected)
  assert np.isneginf(scores[1, 3:]).all()


def test_the_cosine_of_the_first_system_can_be_mixed_in(
  tmp_path, by_length, monkeypatch
):
  ranking = [(IDS[0], 16.0), (IDS[1], 4.0), (IDS[2], -20.0)]
  write_runs(tmp_path, [ranking] * len(QUERIES))
  fields = {"runs": str(tmp_path), "mixing": 0.25}
  found, scores = rank(rerank_config(**fields, temperature=0.05), QUERIES[:1])
  expected = {
    name: 0.75 / TEXT_LENGTH[name] + 0.25 * (score / 20 + 1) / 2
    for name, score in ranking
  }
  assert found[0] == sorted(expected, key=lambda name: -expected[name])
  values = [expected[name] for name in found[0]]
  np.testing.assert_allclose(scores[0, :3], values, rtol=1e-6)
  monkeypatch.setattr(published, "score_pairs", None)  # is not asked
  with pytest.raises(ValueError, match=r"needs cosines.* is 20"):
    rank(rerank_config(**fields), QUERIES[:1])


@pytest.mark.slow
def test_evaluate_writes_run_files_under_the_name(tmp_path, by_length, capsys):
  for split in ("validation", "test"):
    for gallery in ("neg0_ne0", "neg0_ne1", "neg1_ne0", "neg1_ne1"):
      events = [r.record_id for r in BENCHMARK.records if r.kind == "event"]
      ranking = [(name, -float(row)) for row, name in enumerate(events[:12])]
      write_runs(tmp_path, [ranking] * len(QUERIES), gallery, split, "T0+order")
  config = rerank_config(runs=str(tmp_path), name="zs-some-reranker")
  evaluation_run.evaluate_systems(BENCHMARK, config, tmp_path / "run")
  out = transfer.transfer_folder(tmp_path / "run", BENCHMARK)
  run = runs.read_run(out / "run.zs-some-reranker.test.neg1_ne1.trec")
  assert (run.track, run.score_mode) == ("T0+order", "reranked")
  assert {len(found) for found in run.rankings.values()} == {12}
  assert "zs-some-reranker" in capsys.readouterr().out


def test_what_the_first_system_lacks_is_named(tmp_path, by_length):
  config = rerank_config(runs=str(tmp_path))
  with pytest.raises(FileNotFoundError, match=r"expected run\.first\.\*\.trec"):
    registry.make_systems(BENCHMARK, config)
  write_runs(tmp_path, [[(IDS[0], 1.0)]] * len(QUERIES))
  with pytest.raises(ValueError, match="first was not asked over all: 滄乙"):
    rank(config, BENCHMARK.queries["validation"])
  write_runs(tmp_path, [[("r9", 1.0)]] * len(QUERIES), "other")
  with pytest.raises(ValueError, match=r"other\.trec: r9 is not a record of s"):
    rank(config)
