"""Postings of months: the masses of the posteriors they are made from."""

import numpy as np
import pytest

from ctd_jax.index import posteriors

MONTHS = 40


def make_arrays(seed=0, number=30):
  draw = np.random.default_rng(seed)
  chances = draw.dirichlet(np.full(MONTHS + 1, 0.05), number)
  return posteriors.make_posterior_arrays([chances], MONTHS)


def test_mass_is_that_of_the_posteriors(tmp_path):
  arrays = make_arrays()
  chances = np.stack([arrays.p_months(row) for row in range(len(arrays))])
  posteriors.make_month_postings(arrays).save(tmp_path)
  postings = posteriors.MonthPostings.open(tmp_path)
  for first, last in ((0, 0), (3, 17), (0, MONTHS - 1)):
    np.testing.assert_allclose(
      postings.sum_mass([(first, last)]),
      chances[:, first : last + 1].sum(axis=1),
      atol=1e-6,
    )


def test_spans_add_up_and_weights_count():
  arrays = make_arrays(1)
  postings = posteriors.make_month_postings(arrays)
  weights = np.linspace(0, 1, MONTHS)
  chances = np.stack([arrays.p_months(row) for row in range(len(arrays))])
  months = np.r_[2:6, 20:31]
  np.testing.assert_allclose(
    postings.sum_mass([(2, 5), (20, 30)], weights),
    chances[:, months] @ weights[months],
    atol=1e-5,
  )


def test_interval_beyond_the_calendar_is_refused():
  postings = posteriors.make_month_postings(make_arrays())
  with pytest.raises(ValueError, match=r"0\.\.39, got 5\.\.40"):
    postings.sum_mass([(5, MONTHS)])


def test_damaged_file_is_named(tmp_path):
  assert posteriors.MonthPostings.open(tmp_path) is None
  posteriors.make_month_postings(make_arrays()).save(tmp_path)
  path = tmp_path / "posting_records.npy"
  path.write_bytes(path.read_bytes()[:40])
  with pytest.raises(ValueError, match=r"posting_records\.npy: damaged"):
    posteriors.MonthPostings.open(tmp_path)
