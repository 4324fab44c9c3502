"""MTEB and sentence-transformers give our figures for an encoder of ours.

Collected with --parity; needs the extra [parity].
"""

import jax
import mteb
import numpy as np
import pytest
import sentence_transformers
from sentence_transformers.evaluation import InformationRetrievalEvaluator

from ctd_jax.evaluation import mteb_task, protocol, scoring
from ctd_jax.models.dual_encoder import normalize_vectors
from ctd_jax.models.encoders import bert
from ctd_jax.models.pretrained import weights
from ctd_jax.models.pretrained.vector_settings import SideSettings
from ctd_jax.models.tokenizer import TextTokenizer
from ctd_jax_datasets import export
from tests import synthetic
from tests.models.published_folder import pool_tokens

BENCHMARK = synthetic.benchmark()
TEXTS = [record.text for record in BENCHMARK.records]
MODES = (protocol.OFFICIAL_MODE, protocol.EVENT_ONLY_MODE)
# Ours -> MTEB's, and that of sentence-transformers.
NAMES = {
  "hit@1": ("hit_rate_at_1", "accuracy@1"),
  "hit@5": ("hit_rate_at_5", "accuracy@5"),
  "hit@10": ("hit_rate_at_10", "accuracy@10"),
  "mrr@10": ("mrr_at_10", "mrr@10"),
  "ndcg@10": ("ndcg_at_10", "ndcg@10"),
  "recall@10": ("recall_at_10", "recall@10"),
}


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
  """Our vectors of texts, and the same encoder as others load it."""
  folder = tmp_path_factory.mktemp("encoder") / "exported"
  tokenizer = TextTokenizer.build(TEXTS)
  config = bert.BertConfig(tokenizer.vocab_size, initializer_range=0.2)
  one = np.ones((1, 1), np.int32)
  model = config.make_encoder()
  params = jax.jit(model.init)(jax.random.key(0), one, one)["params"]
  weights.export_encoder(
    folder, config, params, tokenizer, "mean", *[SideSettings("", 32)] * 2
  )

  forward = jax.jit(model.apply)

  def vectors(texts):
    ids, mask = tokenizer.encode(texts, 32)
    hidden = forward({"params": params}, ids, mask)
    return np.asarray(normalize_vectors(pool_tokens(hidden, mask, "mean")))

  theirs = sentence_transformers.SentenceTransformer(
    str(folder), device="cpu", local_files_only=True
  )
  return vectors, theirs


@pytest.fixture(scope="module")
def ours(encoder):
  """Mode -> measure -> mean over the test queries, through a run."""
  vectors, _ = encoder
  records = vectors(TEXTS)

  class Cosines:
    def search(self, queries, k):
      scores = vectors(queries) @ records.T
      return [
        [(BENCHMARK.record_ids[i], float(row[i])) for i in np.argsort(-row)[:k]]
        for row in scores
      ]

  result = scoring.evaluate(Cosines(), BENCHMARK)
  tables = {
    mode: {name: result.mean(name, mode) for name in NAMES} for mode in MODES
  }
  # Neither all nor nothing, or any order would do.
  assert 0 < tables[protocol.OFFICIAL_MODE]["mrr@10"] < 1
  return tables


@pytest.mark.parametrize("mode", MODES)
def test_mteb_gives_our_figures(encoder, ours, mode, tmp_path):
  folder = tmp_path / "data"
  export.export_benchmark(BENCHMARK, "beir", folder)
  task = mteb_task.make_task_class(f"beir:{folder}", mode)()
  task.filter_eval_splits(["test"])
  result = mteb.evaluate(
    encoder[1], tasks=[task], cache=None, show_progress_bar=False
  )
  (scores,) = result.task_results[0].scores["test"]
  for name, (theirs, _) in NAMES.items():
    assert scores[theirs] == pytest.approx(ours[mode][name], abs=1e-5), name
  assert scores["main_score"] == scores["hit_rate_at_1"]


@pytest.mark.parametrize("mode", MODES)
def test_sentence_transformers_gives_our_figures(encoder, ours, mode):
  evaluator = InformationRetrievalEvaluator(
    *mteb_task.build_retrieval_data(BENCHMARK, "test", mode),
    name="x",
    accuracy_at_k=[1, 5, 10],
    precision_recall_at_k=[10],
    write_csv=False,
  )
  scores = evaluator(encoder[1])
  for name, (_, theirs) in NAMES.items():
    value = scores[f"x_cosine_{theirs}"]
    assert value == pytest.approx(ours[mode][name], abs=1e-9), name
