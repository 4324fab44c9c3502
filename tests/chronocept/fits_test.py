"""Fits of annotated points: Table 11, the command."""

import csv
import json
import pathlib

import numpy as np
import pytest

from ctd_jax.tasks.chronocept import fits as curve_fits
from tests.tools import processes

pytestmark = pytest.mark.slow

GOLDEN = pathlib.Path(__file__).parents[1] / "golden"
POINTS = curve_fits.read_points(GOLDEN / "chronocept_table10.csv", 1.1)
TABLE_11 = json.loads((GOLDEN / "chronocept_table11.json").read_text())["rmse"]
# Where the published fit stopped short of the best one.
LOCAL = ("gaussian", "S5")
SKEW_NORMAL = curve_fits.SKEW_NORMAL
GAUSSIAN = curve_fits.GAUSSIAN


@pytest.fixture(scope="module")
def fits():
  actual = curve_fits.fit_points(POINTS, list(curve_fits.FAMILIES))
  return {
    (fit.family.name, curve): fit
    for curve, row in actual.items()
    for fit in row
  }


def test_all_cells_of_table_11(fits):
  published = {
    (family, curve): value
    for family, row in TABLE_11.items()
    for curve, value in zip(POINTS, row, strict=True)
  }
  assert len(published) == len(fits) == 30
  for cell, value in published.items():
    expected = 0.1148 if cell == LOCAL else value
    assert f"{fits[cell].rmse:.4f}" == f"{expected:.4f}", cell
    assert fits[cell].converged


def test_the_odd_cell_is_a_local_optimum(fits):
  x, y = POINTS["S5"]
  start = GAUSSIAN.peak_start(x[y.argmax()])
  actual = curve_fits.fit_from_starts(GAUSSIAN, x, y, [start])
  assert f"{actual.rmse:.4f}" == f"{TABLE_11['gaussian'][4]:.4f}" == "0.1193"
  np.testing.assert_allclose(actual.parameters, [56.392, 8.106], atol=6e-4)
  assert actual.amplitude == pytest.approx(17.145, abs=6e-4)
  assert actual.converged
  # The search from many starts meets it, and knows better.
  best = fits[LOCAL]
  assert best.num_agreeing_starts < best.num_starts
  np.testing.assert_allclose(best.parameters, [60.019, 13.437], atol=6e-4)


def test_optima_of_the_skew_normal(fits):
  expected = {
    "S1": (9.949, 31.695, 8.664, -2.455, 27.31),
    "S2": (10.331, 96.198, 8.774, 2.756, 100.48),
    "S3": (15.777, 33.373, 10.625, -1.138, 27.80),
    "S4": (28.120, 139.670, 20.566, -2.045, 128.80),
    "S5": (23.386, 46.370, 22.626, 5.048, 54.71),
    "S6": (24.626, 84.689, 22.783, -4.820, 76.07),
  }
  for curve, (*values, mode) in expected.items():
    fit = fits["skew_normal", curve]
    np.testing.assert_allclose([fit.amplitude, *fit.parameters], values, 5e-4)
    assert fit.mode == pytest.approx(mode, abs=6e-3)


def test_the_exponential_is_a_constant_on_four_curves(fits):
  for curve in ("S1", "S3", "S4", "S6"):
    fit = fits["exponential", curve]
    assert fit.parameters_at_bound == ("rate",)
    assert fit.rmse == pytest.approx(POINTS[curve][1].std(), abs=1e-5)
  assert not fits["exponential", "S2"].parameters_at_bound


def test_the_published_amplitude_cancels(fits):
  # Area by trapezoids, division by it and by the maximum, as published.
  fit = fits["skew_normal", "S5"]
  x = np.linspace(-100, 250, 200_001)
  area = np.trapezoid(fit.evaluate(x), x)
  final = fit.amplitude / (area * (fit.evaluate(x) / area).max())
  peak = fit.family.peak_density(fit.parameters)
  assert final == pytest.approx(1 / peak, rel=1e-6)


EXAMPLES = {
  "gaussian": [40.0, 7.0],
  "exponential": [0.1],
  "lognormal": [3.7, 0.3],
  "gamma": [12.0, 3.0],
  "skew_normal": [40.0, 9.0, 3.0],
}


@pytest.mark.parametrize("name", curve_fits.FAMILIES)
def test_densities_integrate_to_1_and_peak_at_their_mode(name):
  family = curve_fits.FAMILIES[name]
  parameters = np.array(EXAMPLES[name])
  x = np.linspace(-100, 400, 500_001)
  density = family.density(x, parameters)
  assert np.trapezoid(density, x) == pytest.approx(1, abs=1e-4)
  peak = family.peak_density(parameters)
  assert peak == pytest.approx(density.max(), rel=1e-6)


def test_three_points_need_a_prior_or_a_height():
  x, y = (values[[0, 2, 4]] for values in POINTS["S1"])
  weak = curve_fits.fit_curve(SKEW_NORMAL, x, y)
  # The flattest of the curves that go through all three points.
  assert weak.ridge == curve_fits.WEAK_RIDGE
  assert weak.rmse < 1e-3
  assert abs(weak.parameters[2]) < 0.1
  fixed = curve_fits.fit_curve(SKEW_NORMAL, x, y, peak_height=0.8)
  assert fixed.evaluate(np.array([fixed.mode]))[0] == pytest.approx(0.8)
  assert fixed.rmse < 1e-3
  with pytest.raises(ValueError, match="3 points do not determine the 4"):
    curve_fits.fit_curve(SKEW_NORMAL, x, y, ridge=0.0)


def test_a_ridge_pulls_the_skewness_to_0():
  alphas = [
    abs(curve_fits.fit_curve(SKEW_NORMAL, *POINTS["S5"], ridge=r).parameters[2])
    for r in (0.0, 1e-3, 1.0)
  ]
  assert alphas[0] > alphas[1] > alphas[2]


def test_the_command_writes_table_json_and_picture(tmp_path):
  points = tmp_path / "points.csv"
  points.write_text(
    "curve,minutes,validity\n"
    "tea,1,0.2\ntea,5,0.9\ntea,20,0.5\ntea,60,0.1\n"
    "sale,60,0.3\nsale,1440,0.9\nsale,4320,0.2\n"
  )
  done = processes.run_python(
    *("-m", "ctd_jax.tasks.chronocept.fit_validity"),
    *(f"--points={points}", f"--out={tmp_path / 'out'}"),
    *("--families=skew_normal", "--families=gaussian"),
  )
  assert done.returncode == 0, done.stderr
  with (tmp_path / "out/fits.tsv").open() as file:
    rows = list(csv.DictReader(file, delimiter="\t"))
  # Only three points on skew-normal need the prior.
  assert [(row["curve"], row["family"], row["ridge"]) for row in rows] == [
    ("tea", "skew_normal", "0"),
    ("tea", "gaussian", "0"),
    ("sale", "skew_normal", "1e-05"),
    ("sale", "gaussian", "0"),
  ]
  actual = json.loads((tmp_path / "out/fits.json").read_text())
  tea = actual["curves"]["tea"][0]
  assert 3 < tea["mode_minutes"] < 15
  with (tmp_path / "out/curves.csv").open() as file:
    curve, sale = csv.DictReader(file)
  assert (curve["id"], sale["id"], curve["log_base"]) == ("tea", "sale", "1.1")
  assert float(curve["location"]) == pytest.approx(tea["location"])
  assert (tmp_path / "out/fits.png").stat().st_size > 10_000


@pytest.mark.parametrize(
  ("text", "message"),
  [
    ("a,b\n1,2\n", ":1: no column curve, validity; .*minutes, log_time"),
    ("curve,minutes,log_time,validity\na,1,2,1\n", ":2: .*one of the two"),
    ("curve,validity\na,1\n", ":2: expected minutes or log_time"),
    ("curve,minutes\n", ":1: no column validity"),
    ("curve,minutes,validity\n", "no point"),
    ("curve,minutes,validity\n,1,0.5\n", ":2: curve is empty"),
    ("curve,minutes,validity\na,0,0.5\n", ":2: minutes='0': .* > 0.0"),
    ("curve,minutes,validity\na,infinite,0.5\n", ":2: minutes='infinite': Exp"),
    ("curve,minutes,validity\na,inf,0.5\n", ":2: .* for ever"),
    ("curve,minutes,validity\na,5,high\n", ":2: validity='high': Expected"),
    ("curve,minutes,validity\na,5,1.5\n", ":2: validity='1.5': .* <= 1.0"),
    ("curve,minutes,validity\na,5,nan\n", ":2: validity='nan'"),
    ("curve,minutes,validity\na,5\n", ":2: expected 3 columns"),
    (
      "curve,minutes,validity\na,5,0.5\na,5,0.6\n",
      r":3 \(a\): the curve has this time already",
    ),
  ],
)
def test_bad_points_are_named(tmp_path, text, message):
  path = tmp_path / "points.csv"
  path.write_text(text)
  with pytest.raises(ValueError, match=f"{path}.*{message}"):
    curve_fits.read_points(path, 1.1)


def test_points_of_a_spreadsheet_are_read(tmp_path):
  path = tmp_path / "points.csv"
  path.write_text('"curve", minutes, validity\r\na, 100, .5\r\na, 1, 0.25\r\n')
  times, values = curve_fits.read_points(path, 10.0)["a"]
  np.testing.assert_allclose(times, [0, 2])
  assert values.tolist() == [0.25, 0.5]


def test_a_curve_that_cannot_be_fitted_is_named():
  points = {"b": (np.array([0.0, 5.0, 9.0]), np.array([0.1, 0.9, 0.2]))}
  with pytest.raises(ValueError, match="curve b: lognormal has no value at"):
    curve_fits.fit_points(points, ["lognormal"])
  points = {"b": (np.array([1.0, 5.0, 9.0]), np.zeros(3))}
  with pytest.raises(ValueError, match="curve b: no point has a validity"):
    curve_fits.fit_points(points, ["gaussian"])
