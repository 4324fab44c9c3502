"""Reranker: golden probabilities, order and ties, candidates, bad files."""

import json
import pathlib
import shutil

import numpy as np
import pytest
from safetensors import numpy as safetensors_numpy

from ctd_jax.benchmark import runs
from ctd_jax.models.pretrained import hub_folders
from ctd_jax.retrieval import llm_reranker
from ctd_jax.systems import evaluation_run, registry, rerank
from ctd_jax.training import transfer
from ctd_jax_configs import rerank as rerank_config
from tests import synthetic
from tests.models import published_folder

# Most of the time goes into compilation.
pytestmark = pytest.mark.usefixtures("quick_compile")
GOLDEN = pathlib.Path(__file__).parents[1] / "golden" / "reranker"
BENCHMARK = synthetic.benchmark()
IDS = BENCHMARK.record_ids
QUERIES = BENCHMARK.queries["test"]
GALLERIES = {"all": np.ones(len(IDS), bool)}


def config_of(folder=GOLDEN, **fields):
  config = rerank_config.get_config()
  config.rerank.source = str(folder)
  config.rerank.first = "first"
  config.rerank.max_length = 512
  config.rerank.dtype = "float32"
  config.rerank.instruction = "求記事"
  config.rerank.update(fields)
  return config


def reranker_of(folder=GOLDEN, max_length=512, batch_size=8):
  return llm_reranker.Reranker(
    str(folder),
    instruction="求記事",
    max_length=max_length,
    batch_size=batch_size,
    dtype="float32",
  )


def golden():
  found = json.loads((GOLDEN / "p_yes.json").read_text("utf-8"))
  return [tuple(pair) for pair in found["questions"]], found["p_yes"]


def write_runs(folder, rankings, gallery="all", split="test", track="T0"):
  """Writes the rankings of the first system, one for each query."""
  ids = [query.query_id for query in BENCHMARK.queries[split]]
  found = dict(zip(ids, rankings, strict=False))
  runs.write_run(
    runs.Run("first", track, "semantic", split, gallery, found), folder
  )


def rank(config, queries=QUERIES, k=50):
  section = registry.read_section(config, rerank.RerankConfig)
  system = rerank.make_rerank(BENCHMARK, section, None)
  indices, scores = system.search([q.text for q in queries], k, GALLERIES)[
    "all"
  ]
  return [[IDS[i] for i in row if i >= 0] for row in indices], scores


def copied(folder, change):
  """Writes the golden model with other tensors."""
  shutil.copytree(GOLDEN, folder)
  tensors = safetensors_numpy.load_file(folder / hub_folders.WEIGHTS_FILE)
  change(tensors)
  safetensors_numpy.save_file(tensors, folder / hub_folders.WEIGHTS_FILE)
  return folder


@pytest.fixture
def by_length(monkeypatch):
  """The probability of yes is given by the text of the record."""

  class ByLength:
    def __init__(self, source, **options):
      pass

    def score_pairs(self, pairs):
      return np.array([1 / len(record) for _, record in pairs], np.float32)

  monkeypatch.setattr(llm_reranker, "Reranker", ByLength)


@pytest.mark.slow
@pytest.mark.parametrize("batch_size", [1, 4])
def test_probabilities_are_the_published_ones(batch_size):
  questions, expected = golden()
  reranker = reranker_of(batch_size=batch_size)
  np.testing.assert_allclose(
    reranker.score_pairs(questions), expected, atol=1e-5
  )


@pytest.mark.slow
def test_a_long_record_loses_its_end_and_the_prompt_nothing():
  reranker = reranker_of(max_length=350)
  long, other = ("元年春王正月" * n for n in (60, 61))
  p_yes = reranker.score_pairs(
    [("春", long), ("春", other), ("春", long + "盟")]
  )
  np.testing.assert_allclose(p_yes, p_yes[0], rtol=1e-6)
  short = [("春", "元年春王正月")]
  assert reranker_of().score_pairs(short)[0] == pytest.approx(
    reranker.score_pairs(short)[0], abs=1e-6
  )


def test_a_prompt_that_would_be_cut_is_named():
  with pytest.raises(ValueError, match=r"max_length=200: the prompt alone has"):
    reranker_of(max_length=200)


@pytest.mark.slow
def test_an_output_layer_of_its_own_is_used(tmp_path):
  def double(tensors):
    table = tensors["model.embed_tokens.weight"]
    tensors["lm_head.weight"] = 2 * table

  questions, expected = golden()
  folder = copied(tmp_path / "untied", double)
  odds = (np.array(expected) / (1 - np.array(expected))) ** 2
  got = reranker_of(folder).score_pairs(questions)
  np.testing.assert_allclose(got, odds / (1 + odds), atol=1e-5)

  folder = copied(tmp_path / "absent", lambda tensors: None)
  config = json.loads((folder / "config.json").read_text())
  config["tie_word_embeddings"] = False
  (folder / "config.json").write_text(json.dumps(config))
  with pytest.raises(ValueError, match=r"absent: no tensor lm_head\.weight"):
    reranker_of(folder)


def test_a_vocabulary_without_an_answer_is_named(tmp_path):
  folder = copied(tmp_path / "silent", lambda tensors: None)
  published_folder.write_tokenizer(folder, ["求"], ends=False, words=("no",))
  with pytest.raises(ValueError, match="silent: 'yes' is not one token of"):
    reranker_of(folder)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["bert", "qwen2"])
def test_what_does_not_guess_the_next_token_is_named(kind, tmp_path):
  published_folder.write(tmp_path, ["求"], kind)
  with pytest.raises(ValueError, match=f"{tmp_path}: expected a causal langu"):
    reranker_of(tmp_path, max_length=64)


def test_candidates_are_ordered_by_score_then_record_id(tmp_path, by_length):
  ranking = [(name, 20.0 - row) for row, name in enumerate(IDS)]
  write_runs(tmp_path, [ranking, ranking[5:8], []])
  config = config_of(runs=str(tmp_path), depth=20)
  found, scores = rank(config)
  length = {r.record_id: len(r.text) for r in BENCHMARK.records}
  assert found[0] == sorted(IDS[:20], key=lambda name: (length[name], name))
  assert len({length[name] for name in found[0]}) < 20  # there are ties
  assert found[1] == sorted(IDS[5:8], key=lambda name: (length[name], name))
  assert found[2] == []
  np.testing.assert_allclose(scores[1, :3], [1 / length[x] for x in found[1]])
  assert np.isneginf(scores[1, 3:]).all()


def test_the_cosine_of_the_first_system_can_be_mixed_in(
  tmp_path, by_length, monkeypatch
):
  ranking = [(IDS[0], 16.0), (IDS[1], 4.0), (IDS[2], -20.0)]
  write_runs(tmp_path, [ranking] * len(QUERIES))
  config = config_of(runs=str(tmp_path), mixing=0.25)
  found, scores = rank(config, QUERIES[:1])
  length = {r.record_id: len(r.text) for r in BENCHMARK.records}
  expected = {
    name: 0.75 / length[name] + 0.25 * (score / 20 + 1) / 2
    for name, score in ranking
  }
  assert found[0] == sorted(expected, key=lambda name: -expected[name])
  np.testing.assert_allclose(
    scores[0, :3], [expected[name] for name in found[0]], rtol=1e-6
  )
  config.rerank.temperature = 1.0
  monkeypatch.setattr(llm_reranker, "Reranker", None)  # is not asked
  with pytest.raises(ValueError, match=r"needs cosines.* is -20"):
    rank(config, QUERIES[:1])
  config.eval.baselines = ("rerank",)
  config.rerank.runs = str(tmp_path / "nowhere")
  with pytest.raises(ValueError, match="rerank.runs=.*nowhere: there is no"):
    registry.validate(config)
  config.rerank.mixing = 1.5
  with pytest.raises(ValueError, match=r"mixing=1\.5: expected 0 to 1"):
    registry.validate(config)


@pytest.mark.slow
def test_evaluate_writes_its_run_files(tmp_path, by_length, capsys):
  for split in ("validation", "test"):
    for gallery in ("neg0_ne0", "neg0_ne1", "neg1_ne0", "neg1_ne1"):
      events = [r.record_id for r in BENCHMARK.records if r.kind == "event"]
      ranking = [(name, -float(row)) for row, name in enumerate(events[:12])]
      write_runs(tmp_path, [ranking] * len(QUERIES), gallery, split, "T0+order")
  config = config_of(runs=str(tmp_path))
  evaluation_run.evaluate_systems(BENCHMARK, config, tmp_path / "run")
  out = transfer.transfer_folder(tmp_path / "run", BENCHMARK)
  run = runs.read_run(out / "run.rerank.test.neg1_ne1.trec")
  assert (run.track, run.score_mode) == ("T0+order", "reranked")
  assert {len(found) for found in run.rankings.values()} == {12}
  assert "rerank" in capsys.readouterr().out


def test_what_the_first_system_lacks_is_named(tmp_path, by_length):
  config = config_of()
  with pytest.raises(ValueError, match=r"config\.rerank\.runs: the system rer"):
    evaluation_run.evaluate_systems(BENCHMARK, config, tmp_path)
  config = config_of(runs=str(tmp_path))
  with pytest.raises(FileNotFoundError, match=r"expected run\.first\.\*\.trec"):
    registry.make_systems(BENCHMARK, config)
  write_runs(tmp_path, [[(IDS[0], 1.0)]] * len(QUERIES))
  with pytest.raises(ValueError, match="first was not asked over all: 滄乙"):
    rank(config, BENCHMARK.queries["validation"])
  write_runs(tmp_path, [[("r9", 1.0)]] * len(QUERIES), "other")
  with pytest.raises(
    ValueError, match=r"other\.trec: r9 is no record of synth"
  ):
    rank(config)
