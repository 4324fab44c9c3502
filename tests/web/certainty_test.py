"""Dates as a reader is told them."""

import dataclasses

import numpy as np
import pytest

from ctd_jax.index import date_levels
from ctd_jax.index.answers import Span
from ctd_jax.utils import notes
from ctd_jax.web import certainty, rendering

SURE = "Almost certainly 722 BCE, fifth month."


def make_date(served, chance, last=4, **changes):
  date = served.index.record(2).date
  calendar = served.index.calendar
  chances = np.zeros(len(calendar) + 1)
  chances[4] = chance
  chances[np.setdiff1d(np.arange(last + 1), 4)] = (1 - chance) / last
  return dataclasses.replace(
    date,
    month=served.index.record(3).date.month | {"ordinal": 4},
    probability=chance,
    sure=date_levels.find_sure_date(calendar, chances),
    credible_90=(Span(first=4, last=last, name=""),),
    **{"is_fixed": False, "known": None} | changes,
  )


@pytest.mark.parametrize(
  ("chance", "last", "name", "words"),
  [
    (0.95, 4, "魯隱公元年五月", SURE),
    (0.85, 5, "魯隱公元年五月", "Probably 722 BCE, fifth month."),
    (0.7, 5, "魯隱公元年夏", "Probably of this season"),
    (0.3, 6, "魯隱公元年", "Certainly of this year; the month is uncertain."),
    (0.07, 40, "722 BCE – 719 BCE", "Uncertain: somewhere from 722 BCE to 719"),
  ],
)
def test_date_is_no_finer_than_it_is_sure(served, chance, last, name, words):
  told = certainty.tell_date(served, make_date(served, chance, last))
  assert told.name == name
  assert rendering.write_certainty("en", told).startswith(words)


def test_given_dates_are_called_so_and_leap_months_too(served):
  date = make_date(served, 1.0, known=Span(first=4, last=4, name="x"))
  assert certainty.tell_date(served, date).is_given
  fixed = dataclasses.replace(date, is_fixed=True)
  assert certainty.tell_date(served, fixed).code == "sure.reader"
  leap = make_date(served, 0.95)
  leap = dataclasses.replace(leap, month=leap.month | {"leap": True})
  told = certainty.tell_date(served, leap)
  written = [rendering.write_certainty(it, told) for it in notes.LANGUAGES]
  assert "722 BCE, intercalary fifth month" in written[0]
  assert "公元前722年閏五月" in written[1]


def test_reasons_that_say_little_are_left_out():
  def make(expert, weight):
    return {"expert": expert, "weight": weight}

  reasons = (make("order", 5.0), make("words", 0.05), make("day", -1.0))
  told = certainty.list_reasons((*reasons, make("keys", 0.0)))
  assert [it["force"] for it in told] == ["strong", "against", ""]
  assert certainty.drop_weights("我桃谷 +2.66、侵我 -0.5") == "我桃谷、侵我"
