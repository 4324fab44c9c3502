"""Ranking a gallery: from memory, from files, by an index."""

import numpy as np
import pytest

from ctd_jax.evaluation import protocol
from ctd_jax.retrieval import dense
from ctd_jax.systems import evaluation_run
from ctd_jax.training import experiment
from tests import synthetic
from tests.training import synthetic_run

pytestmark = pytest.mark.usefixtures("quick_compile", "small_world")


def rankings(ranker, params, run, records=None):
  masks = protocol.gallery_masks(run.benchmark.kinds)
  found = ranker.rank_split(params, "test", masks, 10, records)
  return {each.gallery: each.rankings for each in found}


@pytest.mark.slow
def test_files_and_a_flat_index_rank_as_memory_does(tmp_path, monkeypatch):
  run = experiment.assemble_experiment(
    synthetic_run.config("ft"), tmp_path / "run"
  )
  params = run.init_state().params
  ranker = dense.Ranker(run)
  expected = rankings(ranker, params, run, ranker.encode_gallery(params))

  run.config.eval.vectors_dir = str(tmp_path / "vectors")
  mapped = ranker.encode_gallery(params)
  assert rankings(ranker, params, run, mapped) == expected
  monkeypatch.setattr(ranker, "encode_texts", None)
  np.testing.assert_array_equal(
    ranker.encode_gallery(params).semantic[:], mapped.semantic[:]
  )
  monkeypatch.undo()

  run.config.eval.backend = "faiss:Flat"
  found = rankings(ranker, params, run, mapped)
  for gallery, of_query in expected.items():
    for query, ranked in of_query.items():
      # Texts that are all but alike may change places.
      np.testing.assert_allclose(
        [score for _, score in found[gallery][query]],
        [score for _, score in ranked],
        rtol=1e-5,
      )


@pytest.mark.slow
def test_validation_is_exact(tmp_path, monkeypatch):
  run = experiment.assemble_experiment(
    synthetic_run.config("ft"), tmp_path / "run"
  )
  params = run.init_state().params
  expected = dense.Ranker(run).compute_validation_metrics(params)
  run.config.eval.backend = "faiss:Flat"
  monkeypatch.setattr(dense.approximate, "search_approximate_top_k", None)
  assert dense.Ranker(run).compute_validation_metrics(params) == expected


@pytest.mark.parametrize(
  ("method", "backend", "message"),
  [
    ("ctd", "faiss:HNSW32", "the score 'ctd' has terms for every pair"),
    ("posterior", "faiss:Flat", "the score 'posterior' has terms"),
    ("ft", "annoy", "expected 'exact', or an index such as 'faiss:HNSW32'"),
  ],
)
def test_a_backend_that_cannot_rank_is_refused(method, backend, message):
  config = synthetic.config(method)
  config.eval.backend = backend
  with pytest.raises(ValueError, match=f"config.eval.backend=.*{message}"):
    evaluation_run.validate_evaluation(config)
  if method == "ctd":
    config.eval.score_mode = "absolute"
    evaluation_run.validate_evaluation(config)


@pytest.mark.slow
@pytest.mark.parametrize(
  ("method", "blocks"),
  [("ft", {}), ("posterior", {"query_block": 1024, "record_block": 4096})],
)
def test_a_posterior_is_made_for_few_blocks_of_queries(
  method, blocks, tmp_path, monkeypatch
):
  run = experiment.assemble_experiment(
    synthetic_run.config(method), tmp_path / "run"
  )
  taken = []
  search_top_k = dense.search.search_top_k

  def record_blocks(*args, **options):
    taken.append(options)
    return search_top_k(*args, **options)

  monkeypatch.setattr(dense.search, "search_top_k", record_blocks)
  dense.Ranker(run).compute_validation_metrics(run.init_state().params)
  assert taken == [blocks]
