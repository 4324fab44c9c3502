"""Dating a folder of some hundred records: bounded work, and not in silence."""

import re

import numpy as np
import pytest
from absl import logging

from ctd_jax.dating import corpus
from ctd_jax.dating.experts import year_encoder
from ctd_jax.experiments import evaluation_run
from ctd_jax.systems import dating_systems
from ctd_jax.utils import output
from ctd_jax_configs import dating as dating_config
from ctd_jax_datasets import export, load
from tests import synthetic
from tests.benchmarks import dating_scale

pytestmark = pytest.mark.usefixtures("quick_compile")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
  """A BEIR folder of 576 records."""
  folder = tmp_path_factory.mktemp("exports") / "beir"
  benchmark = dating_scale.repeated(synthetic.benchmark(), 8)
  export.export_benchmark(benchmark, "beir", folder)
  return folder


@pytest.mark.slow
def test_a_small_folder_takes_few_updates_and_tells_its_progress(
  folder, tmp_path, monkeypatch
):
  shapes, counts, lines = [], [], []
  run_updates = year_encoder._run_updates

  def count_updates(model, state, updates, *rest):
    shapes.append(updates.texts.ids.shape)
    counts.append(int(updates.count))
    return run_updates(model, state, updates, *rest)

  monkeypatch.setattr(year_encoder, "_run_updates", count_updates)
  monkeypatch.setattr(year_encoder, "_CALL_UPDATES", 8)  # several calls a fit
  monkeypatch.setattr(output, "SECONDS_PER_LINE", 0.0)
  monkeypatch.setattr(
    logging, "info", lambda message, *args: lines.append(message % args)
  )
  name = f"beir:{folder}"
  benchmark = load.load_benchmark(name)
  assert len(benchmark.records) == 576
  is_train = np.array(benchmark.record_splits) == "train"
  num_known = np.sum(is_train & (benchmark.kinds != "no_event"))
  evaluation_run.run_evaluation(
    tmp_path, dating_config.get_config(), dataset=name, baselines_only=True
  )
  for system in dating_systems.SYSTEM_NAMES:
    assert list(tmp_path.rglob(f"run.{system}.*test*"))
  # A fit for each fold of hidden years and one for the records without a label,
  # whatever the variants; each reads a record ten times, in batches of 64.
  max_updates = -(-year_encoder.MAX_EPOCHS * num_known // 64)
  assert 0 < sum(counts) <= (corpus.NUM_FOLDS + 1) * max_updates
  assert sum(counts) < year_encoder.MAX_UPDATES
  assert len(set(shapes)) <= 2  # programs that are compiled
  # Stages in their order, each told when it begins.
  stages = [
    "dating: reading 576 records",
    "dating: read ",
    "dating: learning weights on ",
    "dating: the months of 576 records, fitted",
    "dating: the months of 576 records, elimination",
    "dating: the months of 576 records, strict",
  ]
  told = [line for line in lines if line.startswith(tuple(stages))]
  for line, stage in zip(told, stages, strict=True):
    assert line.startswith(stage)
  # Within a stage how far it is, how fast, how long it will take.
  for pattern in (
    r"dating: encoder of years: \d+ of \d+ updates \(\d+%\), \S+ updates/s, ",
    r"dating: hidden years: \d+ of \d+ folds \(\d+%\), \S+ folds/s, ",
    r"dating: weights: \d+ of \d+ folds ",
  ):
    assert any(re.match(pattern, line) for line in lines), pattern


@pytest.mark.parametrize(
  ("num_examples", "num_updates"), [(1, 1), (64, 10), (700, 110), (6000, 400)]
)
def test_updates_are_no_more_than_the_data_warrant(num_examples, num_updates):
  assert year_encoder.count_updates(num_examples) == num_updates
  assert year_encoder.count_updates(num_examples, 50) == min(num_updates, 50)
