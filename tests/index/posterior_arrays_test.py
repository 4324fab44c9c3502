"""Tests of posteriors on disk, by record and by month."""

import numpy as np
import pytest

from ctd_jax.index import posteriors

MONTHS = 60


def draw_posteriors(number, seed=0, concentration=0.05):
  draw = np.random.default_rng(seed)
  return draw.dirichlet(np.full(MONTHS + 1, concentration), number)


def make_arrays(chances):
  return posteriors.make_posterior_arrays([chances[:3], chances[3:]], MONTHS)


def test_whole_posterior_comes_back_but_for_its_tail():
  chances = draw_posteriors(20)
  arrays = make_arrays(chances)
  for index, row in enumerate(chances):
    p_months = arrays.p_months(index)
    np.testing.assert_allclose(p_months, row[:-1], atol=2e-3)
    assert p_months.sum() + arrays.outside[index] == pytest.approx(1, abs=1e-5)
  np.testing.assert_allclose(arrays.outside, chances[:, -1], rtol=1e-6)
  assert len(arrays.months) < 20 * MONTHS / 2


def test_summary_is_that_of_the_whole_posterior():
  chances = draw_posteriors(200, 2)
  arrays = make_arrays(chances)
  summary = posteriors.summarize_posteriors(arrays)
  np.testing.assert_array_equal(summary["best_month"], chances.argmax(axis=1))
  best = summary["best_probability"]
  np.testing.assert_allclose(best, chances.max(axis=1), rtol=1e-5)
  for index in range(200):
    credible = arrays.credible_months(index)
    months = credible[credible < MONTHS]
    expected = (months[0], months[-1]) if len(months) else (MONTHS, MONTHS)
    first, last = summary["first_credible"], summary["last_credible"]
    assert (first[index], last[index]) == expected


def test_credible_months_are_those_of_the_whole_posterior():
  for concentration in (0.01, 0.05, 1.0, 50.0):
    arrays = make_arrays(draw_posteriors(40, 1, concentration))
    for index in range(len(arrays)):
      chances = np.append(arrays.p_months(index), arrays.outside[index])
      order = np.argsort(-chances, kind="stable")
      for share in (0.5, 0.9, 0.99):
        size = int((np.cumsum(chances[order]) < share).sum()) + 1
        credible = arrays.credible_months(index, share)
        np.testing.assert_array_equal(credible, np.sort(order[:size]))


def test_unlikely_months_of_a_doubtful_record_stay_unlikely():
  p_months = np.linspace(1, 0, 3_000)
  p_months /= p_months.sum()
  chances = np.append(p_months, 0.0)[None]
  arrays = posteriors.make_posterior_arrays([chances], len(p_months))
  kept = arrays.p_months(0)
  assert np.abs(kept - p_months).max() < 1e-4
  assert kept[2_000] > 10 * kept[-1]


def test_flat_posterior_is_of_all_months():
  arrays = make_arrays(np.full((5, MONTHS + 1), 1e-6))
  assert len(arrays.months) == 0
  summary = posteriors.summarize_posteriors(arrays)
  assert summary["first_credible"].tolist() == [0] * 5
  assert summary["last_credible"].tolist() == [MONTHS - 1] * 5


def test_known_months_are_certain():
  arrays = posteriors.make_certain_posteriors(np.array([4, MONTHS, 0]), MONTHS)
  p_month = [arrays.p_months(row)[4] for row in range(3)]
  assert p_month == [1, 0, 0]
  assert arrays.outside.tolist() == [0, 1, 0]
  summary = posteriors.summarize_posteriors(arrays)
  assert summary["best_month"].tolist() == [4, MONTHS, 0]
  assert summary["first_credible"].tolist() == [4, MONTHS, 0]


def test_parts_are_joined_and_taken():
  chances = draw_posteriors(9, 3)
  whole = make_arrays(chances)
  parts = [make_arrays(chances[:5]), make_arrays(chances[5:])]
  taken = posteriors.PosteriorArrays.concatenate(parts).take(
    np.array([7, 0, 7])
  )
  for index, row in enumerate((7, 0, 7)):
    np.testing.assert_array_equal(taken.p_months(index), whole.p_months(row))


def test_arrays_on_disk_are_mapped(tmp_path):
  arrays = make_arrays(draw_posteriors(20))
  arrays.save(tmp_path)
  opened = posteriors.PosteriorArrays.open(tmp_path, MONTHS)
  assert isinstance(opened.months.base, np.memmap)
  np.testing.assert_array_equal(opened.p_months(3), arrays.p_months(3))
  # A work without records is opened too.
  arrays = posteriors.make_certain_posteriors(np.empty(0, int), MONTHS)
  arrays.save(tmp_path)
  assert len(posteriors.PosteriorArrays.open(tmp_path, MONTHS)) == 0


@pytest.mark.parametrize(
  "spans", [[(0, 0)], [(3, 17)], [(0, MONTHS - 1)], [(2, 5), (20, 30)]]
)
def test_mass_is_that_of_the_posteriors(tmp_path, spans):
  arrays = make_arrays(draw_posteriors(30))
  posteriors.make_month_postings(arrays).save(tmp_path)
  postings = posteriors.MonthPostings.open(tmp_path, 30, MONTHS)
  chances = np.stack([arrays.p_months(row) for row in range(len(arrays))])
  months = np.concatenate([np.arange(a, b + 1) for a, b in spans])
  weights = np.linspace(0, 1, MONTHS)
  for given, factors in (((), np.ones(MONTHS)), ((weights,), weights)):
    expected = chances[:, months] @ factors[months]
    mass = postings.sum_mass(spans, *given)
    np.testing.assert_allclose(mass, expected, atol=1e-5 if given else 1e-6)


def test_interval_beyond_the_calendar_is_refused():
  postings = posteriors.make_month_postings(make_arrays(draw_posteriors(30)))
  with pytest.raises(ValueError, match=r"0\.\.59, got 5\.\.60"):
    postings.sum_mass([(5, MONTHS)])
