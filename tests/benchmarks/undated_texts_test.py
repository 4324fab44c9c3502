"""Undated texts by every system, on an invented chronicle."""

import types

import numpy as np
import pytest
import scipy.sparse

from ctd_jax.dating.chronicle import calendar as calendar_lib
from ctd_jax.dating.chronicle import chronicle_dating
from ctd_jax.texts.works import Entry, Place
from tests.benchmarks import chronicle_order, labelled_corpus, undated_texts
from tests.benchmarks.chronicle_gold import Month
from tests.benchmarks.undated_texts import UndatedText
from tests.dating import chronicles

TEXTS = ("賊寇涼州，黃讓擊之，不利。", "陳忠守涼州，有功。")
MONTHS = ("泰始七年七月", "泰始五年八月")


@pytest.fixture(scope="module")
def dates():
  lines = chronicles.make_dated_lines()
  records = [Entry(text, Place("a.txt", 1)) for text in lines]
  calendar = calendar_lib.load_calendar("西晉")
  return chronicle_dating.date_records(records, calendar)


@pytest.fixture(scope="module")
def labelled(dates):
  return labelled_corpus.make_labelled_corpus(dates, TEXTS)


@pytest.fixture(scope="module")
def undated(dates):
  months = [
    min(chronicle_order.find_months(dates.calendar, Month(*name)))
    for name in ((271, 7), (269, 8))
  ]
  return [
    UndatedText(text, month, work)
    for text, month, work in zip(
      TEXTS, months, ("gongyang", "guliang"), strict=True
    )
  ]


def test_a_parser_knows_what_is_printed(dates):
  printed = [f"{month}，黃讓卒。" for month in MONTHS]
  by_date, by_nothing = (
    undated_texts.parse_dates(
      labelled_corpus.make_labelled_corpus(dates, texts)
    )
    for texts in (printed, TEXTS)
  )
  assert by_date.shape == (2, len(dates.calendar))
  assert np.exp(by_date.max(axis=1)).min() > 0.5
  np.testing.assert_allclose(
    by_nothing, -np.log(len(dates.calendar)), atol=1e-5
  )
  # Ties are broken by chance, not by the order of the months.
  assert by_nothing.argmax(axis=1).min() > 0


@pytest.mark.slow
def test_systems_are_measured_work_by_work(labelled, undated):
  rows = []
  axis = labelled.corpus.axis
  for dated in undated_texts.date_texts(labelled):
    np.testing.assert_allclose(np.exp(dated.log_p).sum(axis=1), 1, atol=1e-3)
    rows += undated_texts.make_rows(dated, axis, undated, "zuozhuan")
  by_system = {}
  for row in rows:
    by_system.setdefault((row.system, row.mode), {})[row.metric] = row
  assert list(by_system) == [
    (system, work)
    for system in ("parser", "dating-fitted")
    for work in ("gongyang", "guliang")
  ]
  figures = by_system["dating-fitted", "gongyang"]
  assert figures["texts"].value == 1
  assert figures["nll"].value < np.log(len(axis))
  assert figures["year"].low is not None
  assert figures["size@90"].low is None


def test_neighbours_share_their_months():
  scores = np.array([[4.0, 0.0, 0.0], [-np.inf, 1.0, 1.0]], np.float32)
  month_matrix = scipy.sparse.csr_array(
    np.array([[1, 0, 0, 0], [0, 1, 0, 0], [0, 1, 0, 0]], np.float32)
  )
  chances = np.exp(
    undated_texts.pool_neighbours(scores, month_matrix, 1.0, 0.2)
  )
  np.testing.assert_allclose(chances.sum(axis=1), 1, atol=1e-5)
  np.testing.assert_allclose(chances[1], [0.05, 0.85, 0.05, 0.05], atol=1e-5)
  assert chances[0].argmax() == 0


def test_figures_of_a_posterior_are_those_of_its_months():
  axis = types.SimpleNamespace(
    year_of=np.array([0, 0, 1, 1, 9, 9]),
    to_years=lambda log_p: np.log(
      np.stack([np.exp(log_p[:, i : i + 2]).sum(1) for i in (0, 2, 4)], 1)
    ),
  )
  chances = np.array([[0.05, 0.05, 0.6, 0.1, 0.1, 0.1]] * 3)
  values, figures = undated_texts.measure_texts(
    np.log(chances), axis, np.array([2, 0, 5])
  )
  assert values["month"].tolist() == [True, False, False]
  np.testing.assert_allclose(values["nll"], -np.log([0.6, 0.05, 0.1]))
  assert figures["texts"] == 3
