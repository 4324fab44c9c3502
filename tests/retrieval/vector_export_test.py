"""Vectors for a vector database: read back, they rank as the run does."""

import dataclasses
import json

import numpy as np
import pytest
from pyarrow import parquet

from ctd_jax.retrieval import dense, run_export
from ctd_jax.training import experiment
from tests.training import synthetic_run

pytestmark = pytest.mark.usefixtures("quick_compile", "small_world")


def check_rankings(run, params, folder, mode):
  """The inner products of the files against the run's own ranking."""
  queries, records = (
    np.load(folder / f"{name}.npy") for name in ("queries.test", "records")
  )
  assert queries.dtype == records.dtype == np.float32
  scores = queries @ records.T
  query_ids, record_ids = (
    parquet.read_table(folder / f"{name}.parquet")[column].to_pylist()
    for name, column in (("queries.test", "query_id"), ("records", "record_id"))
  )
  run.config.eval.score_mode = mode
  everything = {"all": np.ones(len(records), bool)}
  (found,) = dense.Ranker(run).rank_split(params, "test", everything, 10)
  assert list(found.rankings) == query_ids
  for line, ranked in zip(scores, found.rankings.values(), strict=True):
    ours = [line[record_ids.index(record_id)] for record_id, _ in ranked]
    np.testing.assert_allclose(ours, [s for _, s in ranked], rtol=1e-5)
    np.testing.assert_allclose(np.sort(line)[:-11:-1], ours, rtol=1e-5)


@pytest.mark.slow
def test_vectors_of_a_trained_run(trained_config, trained_run, tmp_path):
  config = trained_config.copy_and_resolve_references()
  run = experiment.assemble_experiment(config, trained_run)
  run_export.export_run(run, tmp_path / "vectors", vectors=True)
  step = run.checkpoints.best_step
  state = run.checkpoints.restore(step, run.abstract_state())
  check_rankings(run, state.params, tmp_path / "vectors", "semantic")
  about = json.loads((tmp_path / "vectors" / "vectors.json").read_text())
  assert about["inner_product"] == "score semantic: cosine over the temperature"
  assert about["step"] == step
  assert about["left_behind"] == []
  with pytest.raises(ValueError, match="vectors: not empty"):
    run_export.export_run(run, tmp_path / "vectors", vectors=True)


@pytest.mark.slow
def test_vectors_with_context_and_what_they_are_of(tmp_path):
  run = experiment.assemble_experiment(
    synthetic_run.config("ctd"), tmp_path / "run"
  )
  params, folder = run.init_state().params, tmp_path / "vectors"
  run_export.export_vectors(run, params, folder)
  benchmark, timeline = run.benchmark, run.benchmark.timeline
  rows = parquet.read_table(folder / "records.parquet").to_pylist()
  record = dataclasses.asdict(benchmark.records[7])
  key = benchmark.records[7].key
  names = ("record_id", "kind", "source", "text")
  assert rows[7] == {name: record[name] for name in names} | record["key"] | {
    "split": benchmark.record_splits[7],
    "reign_name": timeline.reigns[key.reign - 1].name,
    "leap": False,
    "ordinal": timeline.ordinal(key),
  }
  asked = parquet.read_table(folder / "queries.test.parquet").to_pylist()
  for row, query in zip(asked, benchmark.queries["test"], strict=True):
    assert row["positives"] == list(query.positives)
    ends = row["start_ordinal"], row["end_ordinal"]
    assert ends == timeline.interval_ordinals(query.interval)
  # As a database would: the records of the months asked for.
  table = parquet.read_table(
    folder / "records.parquet",
    filters=[("ordinal", ">=", ends[0]), ("ordinal", "<=", ends[1])],
  )
  assert set(query.positives) <= set(table["record_id"].to_pylist())
  check_rankings(run, params, folder, "absolute")
  about = json.loads((folder / "vectors.json").read_text())
  assert about["left_behind"] == [
    "the bias of the offset in time between query and record"
  ]
