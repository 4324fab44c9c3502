"""Published relatives of CTD on a built data set: trained, ranked, asked."""

import pytest

from ctd_jax import Retriever
from ctd_jax.benchmark import runs
from ctd_jax.evaluation import results
from ctd_jax.experiments import evaluation_run, training_run
from ctd_jax.training import experiment, run_folder
from ctd_jax_configs import tiny
from tests.training import synthetic_run

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("quick_compile")]
SCORES = {
  "temps": "temps",
  "time_tokens": "semantic",
}


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory):
  return tmp_path_factory.mktemp("data")


def make_config(method, data_dir):
  config = tiny.get_config(method)
  config.data_dir = str(data_dir)
  config.num_epochs = 0.1
  config.model.encoder.hidden_size = 16
  config.model.encoder.mlp_size = 32
  config.model.encoder.num_layers = 1
  config.eval.baselines = ()
  config.eval.splits = ("validation",)
  return config


@pytest.mark.parametrize("method", SCORES)
def test_a_relative_is_trained_evaluated_and_asked(
  method, data_dir, tmp_path, monkeypatch
):
  synthetic_run.use_one_device(monkeypatch.setattr)
  training_run.train_and_evaluate(make_config(method, data_dir), tmp_path)
  path = tmp_path / "evaluation" / "results.json"
  rows = results.select_rows(
    results.read_result_rows(path), system=f"{method}-tiny", family="all"
  )
  assert {(row.track, row.score_mode) for row in rows} == {
    ("T0+train", SCORES[method])
  }
  # Evaluated again from the workdir alone, the files are the same.
  name = f"run.{method}-tiny.validation.neg1_ne1.trec"
  before = (tmp_path / "evaluation" / name).read_bytes()
  run = experiment.assemble_experiment(
    run_folder.read_config(tmp_path), tmp_path
  )
  evaluation_run.evaluate_experiment(run)
  run.checkpoints.close()
  assert (tmp_path / "evaluation" / name).read_bytes() == before
  ranked = runs.read_run(tmp_path / "evaluation" / name).rankings
  query = run.benchmark.queries["validation"][0]
  (hits,) = Retriever.load(tmp_path).search([query.text], k=5)
  assert [hit.record_id for hit in hits] == [
    record_id for record_id, _ in ranked[query.query_id][:5]
  ]
