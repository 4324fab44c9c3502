"""Calibration: bins by hand and the error they give."""

import numpy as np
import pytest

from ctd_jax.evaluation import calibration
from tests import synthetic

CONFIDENCES = np.array([0.05, 0.95, 0.97, 1.0])
IS_CORRECT = np.array([False, True, True, False])


def test_reliability_counts_every_record_once():
  bins = calibration.compute_reliability_bins(CONFIDENCES, IS_CORRECT)
  assert [line[1:] for line in bins] == [(0, 1), (pytest.approx(2 / 3), 3)]


def test_expected_error_weighs_bins_by_their_records():
  error = calibration.expected_calibration_error(CONFIDENCES, IS_CORRECT)
  last_bin = abs(2 / 3 - (0.95 + 0.97 + 1.0) / 3)
  assert error == pytest.approx(0.05 / 4 + last_bin * 3 / 4)


def test_dates_say_how_much_is_likelier_than_the_truth(tmp_path):
  benchmark = synthetic.benchmark()
  rows = calibration.find_split_rows(benchmark, "test")
  months = [
    benchmark.timeline.ordinal(benchmark.records[row].key) for row in rows
  ]
  p = np.full((len(rows), len(benchmark.timeline)), 0.1 / 46)
  p[:, 0] = 0.6  # not of the test split
  p[np.arange(len(rows)), months] = 0.3
  calibration.write_dates(tmp_path, "s", "test", benchmark, rows, np.log(p))
  found = calibration.evaluate_date_files([tmp_path], benchmark, "test")["s"]
  assert found.mass_before == pytest.approx(0.6)
  assert found.summarize() == pytest.approx(
    {"month": 0.0, "ece": 0.6, "coverage@90": 1.0}
  )
