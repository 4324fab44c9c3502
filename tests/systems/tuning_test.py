"""Constants chosen on validation: a corpus whose best constants are known."""

import dataclasses

import numpy as np
import pytest

from ctd_jax.benchmark.benchmark import Benchmark, Record
from ctd_jax.evaluation import protocol
from ctd_jax.experiments import evaluation_run
from ctd_jax.retrieval import bm25
from ctd_jax.systems import registry, time_prior, tuning
from tests import synthetic

MONTHS = synthetic.TIMELINE.months
# Text, month. Of each question the first record with its character is right.
RECORDS = (
  # Found where length does not count (b = 0).
  ("甲戊甲己庚辛壬癸子丑寅卯辰巳", 5),
  ("甲午", 5),
  # Found where repetition counts for more than variety (large k1).
  ("乙乙乙", 5),
  ("乙丁丙", 5),
  # Found where the month of the four best counts for more than the best.
  ("未申", 5),
  ("未酉", 5),
  ("未戌", 5),
  ("未未", 40),
  *(("亥", 40) for _ in range(32)),
)
ASKED = {"甲": 0, "乙與丙": 2, "未": 4}
LEXICAL = bm25.BM25Constants(8.0, 0.0)
PRIOR = time_prior.TimePriorConstants(8.0, 0.0, 4, 3.0, 30.0)
OFFICIAL = protocol.get_mode(protocol.OFFICIAL_MODE)


@pytest.fixture
def small_grids(monkeypatch):
  grid = {"k1": (0.1, 8.0), "b": (0.0, 1.0)}
  monkeypatch.setattr(tuning, "LEXICAL_GRID", grid)
  grid = {"feedback": (4,), "weight": (0.0, 30.0)}
  monkeypatch.setattr(tuning, "PRIOR_GRID", grid)


def queries(prefix, positives):
  return tuple(
    dataclasses.replace(
      synthetic.benchmark().queries["test"][0],
      query_id=f"{prefix}{row}",
      text=text,
      positives=(f"r{index:02d}",),
    )
    for row, (text, index) in enumerate(positives.items())
  )


def benchmark(validation=ASKED, test=ASKED):
  records = tuple(
    Record(f"r{i:02d}", text, "made", "event", MONTHS[month], i)
    for i, (text, month) in enumerate(RECORDS)
  )
  asked = {"validation": queries("v", validation), "test": queries("t", test)}
  return Benchmark(
    "synthetic/tuning:1.0.0",
    synthetic.TIMELINE,
    records,
    ("train",) * len(RECORDS),
    {"train": (), **asked},
  )


def found(system):
  everything = {"all": np.ones(len(RECORDS), bool)}
  return system.rank_with_tuned_constants([*ASKED], 10, everything)["all"][0]


@pytest.mark.usefixtures("small_grids")
def test_the_constants_known_to_be_best_are_found():
  lexical, prior = tuning.make_tuned_systems(benchmark(), OFFICIAL)
  assert lexical.constants == LEXICAL
  assert lexical.candidates[0][1] == pytest.approx(2 / 3)
  assert lexical.candidates[1][1] < 2 / 3
  assert lexical.candidates[-1] == (bm25.BM25Constants(0.1, 1.0), 0)
  np.testing.assert_array_equal(found(lexical)[:, 0], [0, 2, 7])
  assert prior.constants == PRIOR
  values = [value for _, value in prior.candidates]
  assert values == pytest.approx([1, 2 / 3, 2 / 3])
  np.testing.assert_array_equal(found(prior)[:, 0], [0, 2, 4])


@pytest.mark.slow
def test_of_equals_the_published_constants_win():
  easy = benchmark({"亥": 8})
  lexical, prior = tuning.make_tuned_systems(easy, OFFICIAL)
  published = bm25.BM25Constants(1.5, 0.75)
  assert lexical.constants == bm25.PUBLISHED_CONSTANTS == published
  assert prior.constants == time_prior.PUBLISHED_CONSTANTS
  assert len(lexical.candidates) == 25  # the published ones stand in the grid
  assert {value for _, value in lexical.candidates} == {1.0}


@pytest.mark.usefixtures("small_grids")
def test_labels_of_test_queries_change_nothing():
  wrong = {"甲": 1, "乙與丙": 3, "未": 7}
  before = tuning.make_tuned_systems(benchmark(), OFFICIAL)
  after = tuning.make_tuned_systems(benchmark(test=wrong), OFFICIAL)
  for ours, theirs in zip(before, after, strict=True):
    assert ours.format_candidates() == theirs.format_candidates()
    np.testing.assert_array_equal(found(ours), found(theirs))
  # While those of validation decide.
  other = tuning.make_tuned_systems(benchmark(wrong), OFFICIAL)
  assert other[0].constants != LEXICAL


@pytest.mark.slow
def test_the_choice_stands_beside_the_run_files(tmp_path):
  config = synthetic.config()
  config.eval.baselines = ("bm25_tuned", "bm25_timekde_tuned")
  made = registry.make_systems(benchmark(), config)
  for name, module, constants in (
    ("bm25_tuned", bm25, bm25.BM25Constants),
    ("bm25_timekde_tuned", time_prior, time_prior.TimePriorConstants),
  ):
    system = made[name]
    evaluation_run.write_system_runs(
      benchmark(), name, system, ["test"], 50, tmp_path
    )
    text = (tmp_path / f"run.{name}.test.neg1_ne1.trec").read_text()
    assert f" {name}:{module.TRACK}:{module.SCORE_MODE}\n" in text
    head, best, *rest = (
      line.split("\t")
      for line in (tmp_path / f"tuning.{name}.tsv").read_text().splitlines()
    )
    names = [field.name for field in dataclasses.fields(constants)]
    assert head == [*names, "validation_hit@1"]
    assert all(float(best[-1]) >= float(line[-1]) for line in rest)


def test_without_validation_queries_nothing_is_chosen():
  lexical, _ = tuning.make_tuned_systems(benchmark({}), OFFICIAL)
  with pytest.raises(ValueError, match="1.0.0 has no validation queries"):
    found(lexical)
