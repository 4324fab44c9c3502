"""Validity curves: time axis, skew-normal and scores, against scipy."""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.integrate
import scipy.optimize
import scipy.special
import scipy.stats

from ctd_jax.tasks.chronocept.curves import scores, skew_normal, time_axis
from ctd_jax.tasks.chronocept.curves.skew_normal import SkewNormal

ALPHAS = np.array([-20.0, -4.25, -1.0, -0.3, 0.0, 0.5, 1.0, 2.0, 10.0])
XI, OMEGA = 45.0, 9.0
# The one sample that the paper prints.
H0028 = SkewNormal(39.865, 13.265, 4.25)


@pytest.fixture(autouse=True)
def _double_precision():
  with jax.enable_x64(True):
    yield


def curves(alphas=ALPHAS):
  full = np.broadcast_arrays(XI, OMEGA, alphas)
  return SkewNormal(*(jnp.asarray(part, jnp.float64) for part in full))


def random_pairs(count=4):
  draw = np.random.default_rng(0)
  targets = np.stack(
    [
      draw.normal(50, 20, (2, count)),
      draw.uniform(1, 20, (2, count)),
      draw.normal(0, 3, (2, count)),
    ],
    axis=-1,
  )
  return [SkewNormal.from_targets(jnp.asarray(each)) for each in targets]


def numeric(function, low, high, steps=40_001):
  x = np.linspace(low, high, steps)
  return np.trapezoid(np.asarray(function(x)), x)


# Time.


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
    name: round(float(time_axis.to_log_time(minutes)), 2)
    for name, minutes in time_axis.ANCHORS.items()
  }
  assert actual == expected


@pytest.mark.parametrize("base", [1.01, 2.0, math.e, 10.0])
def test_a_base_and_back(base):
  curve = curves()
  back = curve.to_base(1.1, base).to_base(base, 1.1)
  np.testing.assert_allclose(back.targets, curve.targets, rtol=0, atol=1e-9)
  minutes = time_axis.to_minutes(curve.to_base(1.1, base).location, base)
  np.testing.assert_allclose(minutes, 1.1**XI, rtol=1e-12)
  # The detour over minutes would overflow here.
  far = SkewNormal(1e5, 1.0, 0.0).to_base(1.1, base)
  assert float(far.location) == pytest.approx(1e5 * math.log(1.1, base))


def test_a_base_must_be_above_1():
  with pytest.raises(ValueError, match=r"base 1\.0 of log time"):
    time_axis.base_ratio(1.1, 1.0)


@pytest.mark.slow
def test_density_over_minutes_integrates_to_1():
  curve = SkewNormal(20.0, 5.0, 1.0)

  def per_minute(minutes):
    density = skew_normal.density(curve, time_axis.to_log_time(minutes))
    return float(time_axis.density_per_minute(density, minutes))

  mass, _ = scipy.integrate.quad(per_minute, 1e-3, 200, limit=200)
  assert mass == pytest.approx(1, abs=1e-6)


# The curve.


@pytest.mark.slow
def test_owens_t_and_its_derivatives():
  h, a = np.meshgrid(
    np.linspace(-6, 6, 25), [-50, -3, -1, -0.4, 0, 0.01, 1, 1.01, 8, 200]
  )
  actual = skew_normal.owens_t(jnp.asarray(h), jnp.asarray(a))
  np.testing.assert_allclose(actual, scipy.special.owens_t(h, a), atol=1e-14)
  for argument in (0, 1):
    point = [0.7, -1.3]
    slope = jax.grad(skew_normal.owens_t, argument)(*point)
    ends = []
    for step in (-1e-5, 1e-5):
      moved = list(point)
      moved[argument] += step
      ends.append(scipy.special.owens_t(*moved))
    assert float(slope) == pytest.approx((ends[1] - ends[0]) / 2e-5, rel=1e-6)


@pytest.mark.slow
def test_density_and_distribution_are_those_of_scipy():
  x = np.linspace(XI - 5 * OMEGA, XI + 5 * OMEGA, 101)[:, None]
  law = scipy.stats.skewnorm(ALPHAS, XI, OMEGA)
  for ours, theirs in (
    (skew_normal.density, law.pdf),
    (skew_normal.cumulative_distribution, law.cdf),
  ):
    np.testing.assert_allclose(ours(curves(), x), theirs(x), atol=1e-12)


@pytest.mark.slow
def test_moments_are_those_of_scipy():
  mean, variance, gamma = scipy.stats.skewnorm.stats(
    ALPHAS, XI, OMEGA, moments="mvs"
  )
  np.testing.assert_allclose(skew_normal.mean(curves()), mean)
  np.testing.assert_allclose(skew_normal.variance(curves()), variance)
  actual = skew_normal.moment_skewness(curves())
  np.testing.assert_allclose(actual, gamma, atol=1e-12)


@pytest.mark.slow
def test_mode_offsets():
  actual = skew_normal.mode_offset(jnp.array([0.0, 0.5, 1, 2, 4.25, 10]))
  expected = [0, 0.35, 0.51, 0.53, 0.40, 0.24]
  np.testing.assert_allclose(np.round(actual, 2), expected)
  for alpha, index in zip(ALPHAS, skew_normal.mode(curves()), strict=True):
    law = scipy.stats.skewnorm(alpha, XI, OMEGA)
    best = scipy.optimize.minimize_scalar(
      lambda x, law=law: -law.logpdf(x),
      bounds=(XI - 2 * OMEGA, XI + 2 * OMEGA),
      method="bounded",
      options={"xatol": 1e-10},
    )
    assert float(index) == pytest.approx(best.x, abs=1e-5)


@pytest.mark.slow
def test_the_location_is_not_the_peak():
  minutes = time_axis.to_minutes(skew_normal.mode(H0028))
  assert round(float(time_axis.to_minutes(H0028.location))) == 45
  assert round(float(minutes)) == 75


@pytest.mark.slow
def test_centred_parameters_and_back():
  back = skew_normal.from_centred(skew_normal.to_centred(curves()))
  np.testing.assert_allclose(back.targets, curves().targets, atol=1e-6)
  limit = skew_normal.MAX_MOMENT_SKEWNESS
  assert limit == pytest.approx(0.99527, abs=1e-5)
  beyond = skew_normal.from_centred(jnp.array([0.0, 1.0, limit + 1e-6]))
  assert np.isnan(beyond.skewness)


@pytest.mark.slow
def test_validity_is_1_at_the_mode_and_the_level_at_its_crossings():
  curve = curves()
  top = skew_normal.validity(curve, skew_normal.mode(curve))
  np.testing.assert_allclose(top, 1)
  for level in (0.01, 0.5, 0.99):
    start, end = skew_normal.find_crossings(curve, level)
    assert (start < skew_normal.mode(curve)).all()
    assert (skew_normal.mode(curve) < end).all()
    for index in (start, end):
      np.testing.assert_allclose(skew_normal.validity(curve, index), level)


@pytest.mark.slow
def test_minutes_above_a_level():
  # A normal curve is above half its height for 2 sqrt(2 ln 2) deviations.
  normal = SkewNormal(60.0, 10.0, 0.0)
  half = 10 * math.sqrt(2 * math.log(2))
  expected = 1.1 ** (60 + half) - 1.1 ** (60 - half)
  assert float(skew_normal.minutes_above(normal)) == pytest.approx(expected)
  # What lies before the first minute does not count.
  early = SkewNormal(0.0, 10.0, 0.0)
  actual = float(skew_normal.minutes_above(early))
  assert actual == pytest.approx(1.1**half - 1)


@pytest.mark.slow
def test_mean_validity_of_an_interval():
  low, high = 40.0, 55.0
  actual = skew_normal.mean_validity(H0028, low, high)
  mean = numeric(lambda x: skew_normal.validity(H0028, x), low, high)
  assert float(actual) == pytest.approx(mean / (high - low), abs=1e-8)


QUANTITIES = {
  "mode": skew_normal.mode,
  "start": lambda curve: skew_normal.find_crossings(curve)[0],
  "end": lambda curve: skew_normal.find_crossings(curve)[1],
  "distribution": lambda curve: skew_normal.cumulative_distribution(
    curve, 50.0
  ),
  "crps": lambda curve: scores.crps(curve, 50.0),
  "kl": lambda curve: scores.kl_divergence(H0028, curve),
  "cramer": lambda curve: scores.cramer_distance(H0028, curve),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", QUANTITIES)
def test_gradients_are_those_of_differences(name):
  function = jax.jit(
    lambda targets: QUANTITIES[name](SkewNormal.from_targets(targets))
  )
  for alpha in (-2.5, 0.0, 1.5):
    point = np.array([44.0, 8.0, alpha])
    slope = jax.grad(function)(jnp.asarray(point))
    error = scipy.optimize.check_grad(
      lambda x: float(function(jnp.asarray(x))),
      lambda _, slope=slope: np.asarray(slope),
      point,
      epsilon=1e-6,
    )
    assert error < 1e-5


@pytest.mark.slow
def test_single_precision_is_enough():
  double = curves()
  # Traced in both precisions, in either order.
  scores.kl_divergence(double, double)
  scores.validity_sup(double, double)
  with jax.enable_x64(False):
    single = SkewNormal.from_targets(np.asarray(double.targets, np.float32))
    rough = skew_normal.find_crossings(single)
    crps = scores.crps(single, 50.0)
    kl = scores.kl_divergence(single, single)
    gap = scores.validity_sup(single, single)
    assert crps.dtype == kl.dtype == gap.dtype == jnp.float32
  np.testing.assert_allclose(
    rough, skew_normal.find_crossings(curves()), rtol=1e-4
  )
  np.testing.assert_allclose(crps, scores.crps(curves(), 50.0), rtol=1e-3)


# Scores.


@pytest.mark.slow
@pytest.mark.parametrize("z", [-3.0, -0.4, 0.0, 1.0, 4.0])
def test_crps_against_quadrature(z):
  y = XI + z * OMEGA
  actual = scores.crps(curves(), y)
  for alpha, value in zip(ALPHAS, actual, strict=True):
    distribution = functools.partial(
      skew_normal.cumulative_distribution, SkewNormal(XI, OMEGA, alpha)
    )
    below = numeric(lambda x, f=distribution: f(x) ** 2, XI - 9 * OMEGA, y)
    above = numeric(
      lambda x, f=distribution: (1 - f(x)) ** 2, y, XI + 9 * OMEGA
    )
    assert float(value) == pytest.approx(below + above, abs=1e-5)


@pytest.mark.slow
def test_crps_of_a_normal_curve_is_the_known_formula():
  z = np.linspace(-3, 3, 13)
  normal = scipy.stats.norm
  registered_infos = (
    z * (2 * normal.cdf(z) - 1) + 2 * normal.pdf(z) - math.pi**-0.5
  )
  actual = scores.crps(SkewNormal(0.0, 1.0, 0.0), z)
  np.testing.assert_allclose(actual, registered_infos, atol=1e-12)


@pytest.mark.slow
def test_entropy_is_that_of_scipy():
  actual = scores.entropy(curves())
  expected = scipy.stats.skewnorm(ALPHAS, XI, OMEGA).entropy()
  np.testing.assert_allclose(actual, expected, atol=1e-6)


def limits(truth, predicted):
  ends = [
    float(curve.location + reach * curve.scale)
    for curve in (truth, predicted)
    for reach in (-9, 9)
  ]
  return min(ends), max(ends)


INTEGRANDS = {
  "cross_entropy": lambda x, f, g: (
    -skew_normal.density(f, x) * skew_normal.log_density(g, x)
  ),
  "cramer_distance": lambda x, f, g: (
    (
      skew_normal.cumulative_distribution(f, x)
      - skew_normal.cumulative_distribution(g, x)
    )
    ** 2
  ),
  "wasserstein": lambda x, f, g: abs(
    skew_normal.cumulative_distribution(f, x)
    - skew_normal.cumulative_distribution(g, x)
  ),
  "overlap": lambda x, f, g: jnp.minimum(
    skew_normal.density(f, x), skew_normal.density(g, x)
  ),
  "validity_l1": lambda x, f, g: abs(
    skew_normal.validity(f, x) - skew_normal.validity(g, x)
  ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", INTEGRANDS)
def test_integrals_against_quadrature(name):
  truth, predicted = random_pairs()
  actual = getattr(scores, name)(truth, predicted)
  for index, value in enumerate(actual):
    f, g = (
      SkewNormal(*(part[index] for part in curve))
      for curve in (truth, predicted)
    )
    expected = numeric(
      lambda x, f=f, g=g: INTEGRANDS[name](x, f, g), *limits(f, g)
    )
    # Kinks cost the last three a little, here and there.
    smooth = name in ("cross_entropy", "cramer_distance")
    close = 1e-6 if smooth else 2e-4
    assert float(value) == pytest.approx(expected, rel=close, abs=close)


@pytest.mark.slow
def test_distances_of_a_curve_to_itself_and_to_one_far_away():
  curve = curves()
  far = SkewNormal(curve.location + 1000, curve.scale, curve.skewness)
  for name, same, apart in (
    ("kl_divergence", 0, None),
    ("cramer_distance", 0, None),
    ("wasserstein", 0, 1000),
    ("overlap", 1, 0),
    ("validity_l1", 0, None),
    ("validity_sup", 0, 1),
  ):
    function = getattr(scores, name)
    np.testing.assert_allclose(function(curve, curve), same, atol=1e-9)
    if apart is not None:
      np.testing.assert_allclose(function(curve, far), apart, atol=1e-5)


@pytest.mark.slow
def test_expected_crps_less_its_least_is_the_cramer_distance():
  truth, predicted = random_pairs(3)
  draws = np.linspace(0.0005, 0.9995, 1000)
  for index in range(3):
    f, g = (
      SkewNormal(*(float(part[index]) for part in curve))
      for curve in (truth, predicted)
    )
    y = scipy.stats.skewnorm(f.skewness, f.location, f.scale).ppf(draws)
    excess = float(scores.crps(g, y).mean() - scores.self_crps(f))
    cramer = float(scores.cramer_distance(f, g))
    assert excess == pytest.approx(cramer, rel=2e-3, abs=5e-3)


@pytest.mark.slow
def test_the_greatest_gap_of_validity():
  truth, predicted = random_pairs(4)
  actual = scores.validity_sup(truth, predicted)
  for index, value in enumerate(actual):
    f, g = (
      SkewNormal(*(part[index] for part in curve))
      for curve in (truth, predicted)
    )
    x = np.linspace(*limits(f, g), 100_001)
    gap = abs(skew_normal.validity(f, x) - skew_normal.validity(g, x))
    assert float(value) == pytest.approx(float(gap.max()), abs=1e-5)
