"""A loss of one's own, as docs/guides/losses.md has it, and a teacher's run."""

import json
import pathlib
import re
import sys

import numpy as np
import pytest

from ctd_jax.benchmark.runs import Run, write_run
from ctd_jax.experiments import evaluation_run, training_run
from ctd_jax.training import experiment, input_pipeline, losses, run_folder
from tests import synthetic
from tests.training import synthetic_run

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "guides" / "losses.md"


def write_teacher(folder, rankings):
  run = Run("teacher", "T0", "taught", "train", "neg1_ne1", rankings)
  return str(write_run(run, folder))


def rank_all(benchmark):
  """Returns rankings of all train queries but one: all records but one."""
  ids = benchmark.record_ids[1:]
  return {
    query.query_id: [(name, -float(rank)) for rank, name in enumerate(ids)]
    for query in benchmark.queries["train"][1:]
  }


@pytest.mark.slow
@pytest.mark.usefixtures("quick_compile")
def test_the_loss_of_the_page_trains_and_no_reader_of_the_run_imports_it(
  tmp_path, monkeypatch
):
  synthetic_run.install(monkeypatch.setattr)
  monkeypatch.chdir(tmp_path)
  monkeypatch.setattr(sys, "path", [*sys.path])
  monkeypatch.setattr(losses, "_losses", dict(losses._losses))
  source = re.search(
    r'```python title="(my_losses.py)"\n(.*?)```', PAGE.read_text(), re.DOTALL
  )
  path = tmp_path / source[1]
  path.write_text(source[2])
  config = synthetic_run.config("ft")
  config.loss.module = "my_losses"
  config.loss.options = "delta=2,scale=0.5"
  config.loss.teacher = write_teacher(tmp_path, rank_all(synthetic.benchmark()))
  training_run.train_and_evaluate(config, tmp_path / "run")
  lines = (tmp_path / "run" / run_folder.METRICS_FILE).read_text().splitlines()
  updates = [row for row in map(json.loads, lines) if "taught" in row]
  assert updates[-1]["retrieval"] < updates[0]["retrieval"]
  assert all(0.5 < row["taught"] <= 1 for row in updates)
  assert sys.modules.pop("my_losses").MarginHuber is losses._losses.pop(
    "margin_huber"
  )
  # Evaluated where neither the module nor the teacher is.
  path.unlink()
  pathlib.Path(config.loss.teacher).unlink()
  again = experiment.assemble_experiment(
    run_folder.read_config(tmp_path / "run"), tmp_path / "run"
  )
  evaluation_run.evaluate_experiment(again)
  again.checkpoints.close()
  assert "my_losses" not in sys.modules


def test_scores_of_a_teacher_stand_where_its_pairs_are(tmp_path):
  benchmark = synthetic.benchmark()
  first, second = benchmark.queries["train"][:2]
  ids = benchmark.record_ids
  path = write_teacher(
    tmp_path,
    {second.query_id: [(ids[3], 2.0), (ids[0], 1.0)], first.query_id: []},
  )
  teacher = input_pipeline.Teacher.read(path, benchmark)
  scores = teacher.look_up(np.array([1, 0, 1]), np.array([0, 3, 4]))
  nan = np.nan
  np.testing.assert_array_equal(
    scores, [[1, 2, nan], [nan, nan, nan], [1, 2, nan]]
  )


@pytest.mark.parametrize(
  ("query", "record", "message"),
  [
    ("point-00047", "r00000", "no train query of synthetic"),
    ("point-99999", "r00000", "1 queries are not in synthetic"),
    ("point-00000", "r99999", "1 records are not in synthetic"),
  ],
)
def test_a_run_of_something_else_is_no_teacher(
  query, record, message, tmp_path
):
  path = write_teacher(tmp_path, {query: [(record, 1.0)]})
  with pytest.raises(ValueError, match=message):
    input_pipeline.Teacher.read(path, synthetic.benchmark())
