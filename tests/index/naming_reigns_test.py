"""Months are named by the court by which a chronicle counts its years."""

import dataclasses

import pytest

from ctd_jax.dating.chronicle import chronicle_input
from ctd_jax.index import calendars, posteriors
from ctd_jax.index.building import sources, work_dating

TEXT = """大明元年，春，正月，某人來。
二年，春，正月，某人來聘。
夏，四月，某人卒。
北魏太安四年，秋，七月，某人立。
三年，春，正月，某人伐某。
四年，春，正月，某人去。
北魏和平元年，夏，四月，某人死。
五年，春，正月，某人來朝。
六年，春，正月，某人奔某。
"""


@pytest.fixture(scope="module")
def work(tmp_path_factory):
  path = tmp_path_factory.mktemp("text") / "宋紀.txt"
  path.write_text(TEXT)
  (work,) = sources.make_request(path.parent, str(path)).read(path.parent)
  return work


@pytest.mark.slow
def test_eras_of_other_courts_name_no_months(work):
  calendar = chronicle_input.load_reigns("劉宋,北魏")
  dated = work_dating.date_text_by_order(work, calendar)
  assert set(dated.printed_reigns) == set(calendar.find_reigns("大明"))
  summary = posteriors.summarize_posteriors(dated.posteriors)
  names = [
    calendars.name_month(calendar, int(month), dated.printed_reigns)
    for month in summary["best_month"]
  ]
  assert names[0] == "劉宋孝武帝大明元年正月"
  assert names[3] == "劉宋孝武帝大明二年七月"  # 太安四年
  assert all("大明" in name for name in names)


def test_alike_fitting_names_all_stay(work):
  calendar = chronicle_input.load_reigns("劉宋,北魏")
  lines = TEXT.splitlines()
  entries = [work.entries[0], work.entries[lines.index(lines[3])]]
  dated = work_dating.date_text_by_order(
    dataclasses.replace(work, entries=entries), calendar
  )
  reigns = {*calendar.find_reigns("大明"), *calendar.find_reigns("北魏太安")}
  assert set(dated.printed_reigns) == reigns
