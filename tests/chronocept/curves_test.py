"""Validity curves: time axis, mode and validity, against scipy."""

import jax
import numpy as np
import pytest
import scipy.optimize
import scipy.stats

from ctd_jax.tasks.chronocept import curves
from ctd_jax.tasks.chronocept.curves import SkewNormal

ALPHAS = np.array([-20.0, -4.25, -1.0, -0.3, 0.0, 0.5, 1.0, 2.0, 10.0])
XI, OMEGA = 45.0, 9.0
# The one sample that the paper prints.
H0028 = SkewNormal(39.865, 13.265, 4.25)


@pytest.fixture(autouse=True)
def _double_precision():
  with jax.enable_x64(True):
    yield


def test_anchors_to_base_1_1():
  # The published month, year and decade are 111.97, 138.23 and 162.25.
  expected = {
    "1 minute": 0.0,
    "15 minutes": 28.41,
    "30 minutes": 35.69,
    "1 hour": 42.96,
    "12 hours": 69.03,
    "1 day": 76.30,
    "1 week": 96.72,
    "1 month": 111.99,
    "1 year": 138.20,
    "1 decade": 162.36,
  }
  actual = {
    name: round(float(curves.to_log_time(minutes)), 2)
    for name, minutes in curves.ANCHORS.items()
  }
  assert actual == expected
  for minutes in curves.ANCHORS.values():
    back = curves.to_minutes(curves.to_log_time(minutes, 2.0), 2.0)
    assert float(back) == pytest.approx(minutes)


def test_bases_convert_and_must_be_above_1():
  for base in (1.01, 2.0, 10.0):
    there = curves.base_ratio(1.1, base)
    assert there * curves.base_ratio(base, 1.1) == pytest.approx(1, abs=1e-9)
    expected = curves.to_log_time(900.0, base)
    actual = curves.to_log_time(900.0) * there
    assert float(actual) == pytest.approx(float(expected))
  with pytest.raises(ValueError, match=r"base 1\.0 of log time"):
    curves.base_ratio(1.1, 1.0)


def test_modes_are_those_of_scipy():
  actual = curves.mode_offset(np.array([0.0, 0.5, 1, 2, 4.25, 10]))
  expected = [0, 0.35, 0.51, 0.53, 0.40, 0.24]
  np.testing.assert_allclose(np.round(actual, 2), expected)
  modes = curves.mode(SkewNormal(XI, OMEGA, ALPHAS))
  for alpha, mode in zip(ALPHAS, modes, strict=True):
    law = scipy.stats.skewnorm(alpha, XI, OMEGA)
    best = scipy.optimize.minimize_scalar(
      lambda x, law=law: -law.logpdf(x),
      bounds=(XI - 2 * OMEGA, XI + 2 * OMEGA),
      method="bounded",
      options={"xatol": 1e-10},
    )
    assert float(mode) == pytest.approx(best.x, abs=1e-5)
  # The paper calls the location the peak; here they are half an hour apart.
  assert round(float(curves.to_minutes(H0028.location))) == 45
  assert round(float(curves.to_minutes(curves.mode(H0028)))) == 75


def test_validity_is_the_density_over_its_maximum():
  x = np.linspace(XI - 5 * OMEGA, XI + 5 * OMEGA, 101)[:, None]
  law = scipy.stats.skewnorm(ALPHAS, XI, OMEGA)
  curve = SkewNormal(XI, OMEGA, ALPHAS)
  expected = law.pdf(x) / law.pdf(np.asarray(curves.mode(curve)))
  np.testing.assert_allclose(curves.validity(curve, x), expected, atol=1e-12)
