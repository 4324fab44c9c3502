"""Calibration: bins by hand and the error they give."""

import numpy as np
import pytest

from ctd_jax.evaluation import calibration

CONFIDENCES = np.array([0.05, 0.95, 0.97, 1.0])
IS_CORRECT = np.array([False, True, True, False])


def test_reliability_counts_every_record_once():
  bins = calibration.compute_reliability_bins(CONFIDENCES, IS_CORRECT)
  assert [line[1:] for line in bins] == [(0, 1), (pytest.approx(2 / 3), 3)]


def test_expected_error_weighs_bins_by_their_records():
  error = calibration.expected_calibration_error(CONFIDENCES, IS_CORRECT)
  last_bin = abs(2 / 3 - (0.95 + 0.97 + 1.0) / 3)
  assert error == pytest.approx(0.05 / 4 + last_bin * 3 / 4)
