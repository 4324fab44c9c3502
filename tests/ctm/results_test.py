"""The published figures of CTM agree with each other where they can."""

import collections
import pathlib

import pytest

from ctd_jax.evaluation import results
from ctd_jax.evaluation.significance import Proportion
from ctd_jax.tasks.ctm import ito_report
from ctd_jax_datasets.ctm import generator

RESULTS = pathlib.Path(__file__).parents[1] / "results" / "published_ctm.json"
# The average printed cannot be had from the cells printed.
ODD = {"LLaMA3.1-8b direct": 0.1983}


def systems(dataset):
  found = collections.defaultdict(dict)
  for row in results.read_result_rows(RESULTS):
    if row.dataset == dataset:
      found[row.system, row.mode, row.track][row.family, row.metric] = row.value
  return found


def test_averages_are_over_the_listed_types():
  counts = generator.TYPE_COUNTS
  assert sum(counts.values()) == 8700
  table = systems("ctm/release")
  assert len(table) == 25
  for (system, mode, _), cells in table.items():
    mean = sum(n * cells[t, "accuracy"] for t, n in counts.items()) / 8700
    printed = ODD.get(f"{system} {mode}", cells["all", "accuracy"])
    assert mean == pytest.approx(printed, abs=2.5e-4), system


def test_game_totals_are_means_of_the_levels():
  for cells in systems("ctm/ito-release").values():
    for metric in ("pass@3", "pass@8"):
      levels = [cells[level, metric] for level in ("easy", "medium", "hard")]
      assert sum(levels) / 3 == pytest.approx(cells["all", metric], abs=1e-4)


def test_the_best_published_player_is_below_locked_guessing():
  best = max(c["all", "pass@8"] for c in systems("ctm/ito-release").values())
  guess = ito_report.guesser_win_probability("random", "all", 8)
  low, high = Proportion(round(60 * best), 60).interval
  assert (low, high) == pytest.approx((0.286, 0.526), abs=5e-4)
  assert high < guess == pytest.approx(0.647, abs=5e-4)
