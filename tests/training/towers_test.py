"""Separate towers: what they start as, that both learn, who is refused."""

import jax
import numpy as np
import pytest

from ctd_jax import Retriever
from ctd_jax.benchmark import runs
from ctd_jax.experiments import training_run
from ctd_jax.index import encoders
from ctd_jax.models.dual_encoder import ENCODER, QUERY_ENCODER
from ctd_jax.retrieval import run_export
from ctd_jax.training import experiment
from tests import synthetic
from tests.training import synthetic_run

pytestmark = [
  pytest.mark.slow,
  pytest.mark.usefixtures("quick_compile", "small_world"),
]


def test_towers_start_alike_learn_apart_and_rank_together(tmp_path):
  config = synthetic_run.config("ft")
  config.model.separate_towers = True
  config.num_epochs = 1.0
  training_run.train_and_evaluate(config, tmp_path)
  run = experiment.assemble_experiment(config, tmp_path)
  start = run.init_state().params
  trained = run.restore_params(run.checkpoints.best_step)

  def is_equal(one, other):
    equal = jax.tree.map(np.array_equal, *map(jax.device_get, (one, other)))
    return all(jax.tree.leaves(equal))

  assert is_equal(start[ENCODER], start[QUERY_ENCODER])
  for tower in (ENCODER, QUERY_ENCODER):
    assert not is_equal(start[tower], trained[tower])
  assert not is_equal(trained[ENCODER], trained[QUERY_ENCODER])
  # Evaluation, retriever and index encode each side with its own.
  (path,) = (tmp_path / "evaluation").glob("run.*.test.neg1_ne1.trec")
  rankings = runs.read_run(path).rankings
  queries = synthetic.benchmark().queries["test"]
  retriever = Retriever.load(tmp_path)
  hits = retriever.search([query.text for query in queries], k=10)
  for query, found in zip(queries, hits, strict=True):
    expected = [name for name, _ in rankings[query.query_id][:10]]
    assert [hit.record_id for hit in found] == expected
  encoder = encoders.open_encoder(str(tmp_path))
  texts = [queries[0].text]
  vectors = (encoder.encode_records(texts), encoder.encode_questions(texts))
  assert not np.allclose(*vectors, atol=1e-3)
  with pytest.raises(ValueError, match="has separate towers, and a folder"):
    run_export.export_run(run, tmp_path / "exported")
  run_export.export_run(run, tmp_path / "vectors", vectors=True)
  run.checkpoints.close()
