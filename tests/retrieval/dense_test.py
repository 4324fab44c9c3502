"""Ranking a gallery whose vectors are in memory or in files."""

import numpy as np
import pytest

from ctd_jax.evaluation import protocol
from ctd_jax.retrieval import dense
from ctd_jax.training import experiment
from tests.training import synthetic_run

pytestmark = pytest.mark.usefixtures("quick_compile", "small_world")


@pytest.mark.slow
def test_files_rank_as_memory_does(tmp_path, monkeypatch):
  run = experiment.assemble_experiment(
    synthetic_run.config("ft"), tmp_path / "run"
  )
  params = run.init_state().params
  ranker = dense.Ranker(run)
  masks = protocol.gallery_masks(run.benchmark.kinds)
  expected = ranker.rank_split(params, "test", masks, 10)
  run.config.eval.vectors_dir = str(tmp_path / "vectors")
  mapped = ranker.encode_gallery(params)
  assert ranker.rank_split(params, "test", masks, 10, mapped) == expected
  monkeypatch.setattr(ranker, "encode_texts", None)
  np.testing.assert_array_equal(
    ranker.encode_gallery(params).semantic[:], mapped.semantic[:]
  )
  monkeypatch.undo()


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
