"""How far the probabilities of a chronicle are to be believed."""

import numpy as np
import pytest

from ctd_jax.chronology import sexagenary
from ctd_jax.dating.chronicle import calendar as calendar_lib
from ctd_jax.dating.chronicle import (
  chronicle_dating,
  emissions,
  transition_model,
)
from ctd_jax.dating.chronicle.sections import (
  DAY,
  MONTH,
  NO_DATE,
  SEASON,
  YEAR,
)
from tests.dating.chronicles import format_table, records_of

YEARS = np.repeat(np.arange(300, 340), 12)
MONTHS = np.tile(np.arange(1, 13), 40)
BOUNDARIES = transition_model.find_boundaries(YEARS, MONTHS)


class FakeEmissions(emissions.SectionEmissions):
  """Sections of some kinds, with what they print."""

  def __init__(self, kinds, log_p=None):
    self.kinds = np.asarray(kinds)
    self._log_p = log_p

  def __call__(self, start, stop):
    return np.asarray(self._log_p, np.float32)[start:stop]


def measure(path, kinds):
  model, said = fit(path, kinds), FakeEmissions(kinds)
  return emissions.measure_reliability(model, said, fit=1.0)


def fit(path, kinds):
  believed = transition_model.TransitionModel()
  path, kinds = np.asarray(path), np.asarray(kinds)
  return emissions.fit_model(believed, path, kinds, BOUNDARIES)


@pytest.mark.parametrize(
  ("step", "least", "most"), [(1, 0.95, 1.0), (3, 0.0, 0.2)]
)
def test_entries_without_a_date_leave_a_month_where_heads_are_lost(
  step, least, most
):
  # Each month has a head and an entry without a date; or every third has.
  path = np.repeat(np.arange(0, 480, step), 2)
  kinds = np.tile([MONTH, NO_DATE], len(path) // 2)
  model = fit(path, kinds)
  assert least <= model.rest[NO_DATE] <= most
  # Where heads are lost the posterior is wide already.
  sharpness = measure(path, kinds).sharpness
  assert (sharpness > 0.9) == (step > 1)


def test_short_texts_say_little_of_lost_heads():
  assert fit([0, 5, 5, 11], [MONTH, MONTH, NO_DATE, MONTH]).rest[NO_DATE] > 0.9


def test_sections_that_go_back_may_be_of_any_month():
  path = np.arange(0, 480, 3)
  kinds = np.full(len(path), SEASON)
  in_order = measure(path, kinds)
  # Every tenth entry stands ten places too late.
  moved = path.copy()
  moved[15::10] -= 30
  out_of_order = measure(moved, kinds)
  assert in_order.misplaced < 0.01
  assert 0.1 < out_of_order.misplaced <= 0.3


def test_years_that_are_printed_go_back_as_streams_do():
  # Annals of a year and then its tradition, each with its year at the head.
  years = np.arange(0, 480, 12)
  path = np.stack([years, years + 3, years, years + 6], 1).ravel()
  kinds = np.tile([YEAR, SEASON, YEAR, SEASON], len(years))
  model = fit(path, kinds)
  assert model.back[YEAR] > 0.3
  assert measure(path, kinds).misplaced < 0.01
  # Without their years they are out of order.
  assert measure(path, np.full(len(path), SEASON)).misplaced > 0.1


def test_a_text_that_begins_anew_often_is_less_sure():
  path = np.tile(np.arange(0, 240, 3), 8)
  kinds = np.full(len(path), SEASON)
  anew, once = measure(path, kinds), measure(path[:80], kinds[:80])
  assert anew.sharpness < once.sharpness - 0.1
  # So it is where heads are lost.
  skips = np.tile(np.repeat(np.arange(0, 480, 6), 2), 8)
  kinds = np.tile([MONTH, NO_DATE], len(skips) // 2)
  assert fit(skips, kinds).rest[NO_DATE] < 0.5
  assert measure(skips, kinds).sharpness < 0.7


def test_any_month_is_one_that_fits_what_is_printed():
  # Sections 5 and 6, whose months 1 and 2 print something else.
  log_p = np.zeros((7, 2, 4))
  log_p[5, :, 1] = -8
  log_p[6, 0, 2] = log_p[6, 1, 2] = -8
  posterior = np.array([[1.0, 1e-9, 1e-9, 0.0]] * 2, np.float32)
  temper = emissions.Reliability(1.0, 0.2, FakeEmissions([], log_p))
  first, second = temper(posterior, 5)
  assert first[1] < 1e-3 < 0.09 < first[2]
  assert second[2] < 1e-3 < 0.09 < second[1]


def test_tempering_keeps_the_order_and_what_is_impossible():
  posterior = np.array([[0.97, 0.019, 0.001, 0.0, 0.01]], np.float32)
  flat = FakeEmissions([], np.zeros((1, 1, 5)))
  temper = emissions.Reliability(0.6, 0.1, flat)
  tempered = temper(posterior, 0)
  assert tempered.sum() == pytest.approx(1)
  assert (np.diff(tempered[0, :4]) < 0).all()
  assert tempered[0, 3] == 0
  assert tempered[0, 4] == np.float32(0.01)
  assert tempered[0, 0] < 0.9
  assert tempered[0, 2] > 0.03
  certain = np.array([[0.0, 0.0, 1.0, 0.0, 0.0]], np.float32)
  np.testing.assert_array_equal(temper(certain, 0), certain)


def test_a_number_of_a_day_proves_as_little_as_it_tells():
  # Of months 0 to 3, half of the sections fit one, the others all but the last.
  log_p = np.full((100, 1, 5), -2.5)
  log_p[:50, 0, 1] = log_p[50:, 0, :3] = 0
  said = FakeEmissions(np.full(100, DAY), log_p)
  right, wrong = np.ones(100, int), np.full(100, 2)
  offsets = np.zeros(100, int)
  assert emissions.measure_fit(said, right, offsets) == pytest.approx(1)
  assert emissions.measure_fit(said, wrong, offsets) < 0
  # What leaves the calendar says nothing of its months.
  assert emissions.measure_fit(said, np.full(100, 4), offsets) == 1
  model = fit(right, said.kinds)
  for path, misplaced in ((right, 0.0), (wrong, 1.0)):
    fitting = emissions.measure_fit(said, path, offsets)
    believed = emissions.measure_reliability(model, said, fitting)
    assert believed.misplaced == pytest.approx(misplaced, abs=0.01)
  # Heads of months are right where days are wrong.
  heads = FakeEmissions(np.full(100, MONTH), log_p)
  assert emissions.measure_reliability(model, heads, 0.1).misplaced < 0.01


@pytest.mark.slow
def test_days_at_random_say_nothing_of_the_months(tmp_path):
  """A text that rests in one month fits half of them."""
  path = tmp_path / "table.tsv"
  path.write_text(format_table(("安初", 300, 80)), encoding="utf-8")
  calendar = calendar_lib.read_calendar(path)
  days = np.random.default_rng(0).integers(60, size=100).tolist()
  lines = [f"{sexagenary.format_cyclic_index(day)}，遣使來聘。" for day in days]
  lines[::3] = ["公會諸侯。"] * len(lines[::3])
  lines[50] = "安初四十年冬十二月，大水。"
  found = chronicle_dating.date_records(records_of(lines), calendar)
  assert found.probabilities[50, 0] > 0.9
  assert np.median(found.probabilities[:, 0]) < 0.01
  assert np.median(np.diff(found.credible.starts)) > 400


@pytest.mark.parametrize(
  "misprint",
  [
    # 302 is 壬戌, 303 癸亥: the regnal year and the order speak against it.
    "安初三年歲次癸亥，春，大水。",
    # Far from both neighbours, in a year that the table lacks.
    "安初三年歲次甲寅，春，大水。",
    # Without a name the year is as likely misprinted; the order decides.
    "三年歲次癸亥，春，大水。",
    # The regnal year is wrong, its name in the cycle and the order are right.
    "五年歲次壬戌，春，大水。",
  ],
)
def test_a_year_of_the_cycle_that_contradicts_the_year(tmp_path, misprint):
  path = tmp_path / "table.tsv"
  path.write_text(format_table(("安初", 300, 8)), encoding="utf-8")
  calendar = calendar_lib.read_calendar(path)
  lines = []
  for number in "元二三四五六":
    lines += [f"安初{number}年，春，大水。"]
    lines += [f"{season}，地震。" for season in "夏秋冬"]
  lines[8] = misprint
  found = chronicle_dating.date_records(records_of(lines), calendar)
  years = calendar.years[found.months[:, 0]].tolist()
  assert years == np.repeat(range(300, 306), 4).tolist()
  # The text is sure of the year, and not at a loss.
  credible = found.credible.months_of(8)
  assert set(calendar.years[credible].tolist()) == {302}
  assert found.outside[8] < 0.05
