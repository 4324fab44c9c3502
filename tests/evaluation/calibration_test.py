"""Calibration: bins by hand and the error they give."""

import numpy as np
import pytest

from ctd_jax.evaluation import calibration

CONFIDENCES = np.array([0.05, 0.95, 0.97, 1.0])
IS_CORRECT = np.array([False, True, True, False])


def test_reliability_counts_every_record_once():
  bins = calibration.compute_reliability_bins(CONFIDENCES, IS_CORRECT)
  assert [count for _, _, count in bins] == [1, 3]
  assert bins[1][1] == pytest.approx(2 / 3)


def test_expected_error_weighs_bins_by_their_records():
  error = calibration.expected_calibration_error(CONFIDENCES, IS_CORRECT)
  last_bin = abs(2 / 3 - (0.95 + 0.97 + 1.0) / 3)
  assert error == pytest.approx(0.05 / 4 + last_bin * 3 / 4)


def test_error_by_chance_is_that_of_a_true_posterior():
  rng = np.random.default_rng(3)
  confidences = rng.random(400)
  chance = calibration.calibration_error_by_chance(confidences, draws=200)
  errors = [
    calibration.expected_calibration_error(
      confidences, rng.random(400) < confidences
    )
    for _ in range(200)
  ]
  assert chance == pytest.approx(np.mean(errors), rel=0.05)
  # Fewer records in a bin are further off; those that are certain, never.
  fewer = calibration.calibration_error_by_chance(confidences[:100])
  assert fewer > 1.5 * chance
  assert calibration.calibration_error_by_chance(np.ones(9)) == 0
