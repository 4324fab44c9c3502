"""Undated texts beside a dated chronicle: axis, printed dates, labels."""

import dataclasses
import itertools

import numpy as np
import pytest

from ctd_jax.chronology import numerals
from ctd_jax.dating import corpus as corpus_lib
from ctd_jax.dating import expert_panel
from ctd_jax.dating.chronicle import calendar as calendar_lib
from ctd_jax.dating.chronicle import (
  chronicle_dating,
  chronicle_input,
  undated_texts,
)
from ctd_jax.dating.corpus import UNKNOWN
from tests.benchmarks import labelled_corpus
from tests.dating.chronicles import DEEDS, PLACES, name_person, records_of

YEARS = 10  # of 泰始
# Told after the chronicle, in other words, in no order.
YEAR, MONTH = 6, 8


def write_chronicle():
  lines = []
  for year, month in itertools.product(range(1, YEARS + 1), range(1, 13)):
    person = name_person(year, month)
    place = PLACES[2 * (month - 1) : 2 * month]
    head = f"{numerals.format_numeral(month)}月，"
    if month == 1:
      number = numerals.format_numeral(year) if year > 1 else "泰始元"
      head = f"{number}年，春，正月，"
    lines.append(f"{head}{person}守{place}，賊{DEEDS[(year + month) % 4]}。")
    lines.append(f"是月，{person}擊賊於{place}，破之。")
  return lines


@pytest.fixture(scope="module")
def dates():
  calendar = calendar_lib.load_calendar("西晉")
  return chronicle_dating.date_records(records_of(write_chronicle()), calendar)


@pytest.fixture(scope="module")
def labelled(dates):
  person = name_person(YEAR, MONTH)
  place = PLACES[2 * (MONTH - 1) : 2 * MONTH]
  texts = [
    f"{person}守{place}，嘗擊賊，破之。",
    f"七月，{name_person(5, 7)}守秦州。",
    "賊大水壞廬舍。",
  ]
  return labelled_corpus.make_labelled_corpus(dates, texts)


@pytest.fixture(scope="module")
def fitted(labelled):
  model = labelled.make_model(without=["neural"])
  return model.fit(labelled.corpus, labelled.labels)


def test_sure_sections_are_labels_and_texts_are_not(dates, labelled):
  is_known = labelled.labels.is_known
  sure = dates.probabilities[labelled.sections, 0] >= 0.9
  np.testing.assert_array_equal(is_known[: len(sure)], sure)
  np.testing.assert_array_equal(
    labelled.labels.month[: len(sure)][sure],
    dates.months[labelled.sections, 0][sure],
  )
  assert is_known.sum() > 100
  assert not is_known[labelled.text_rows].any()
  assert len(labelled.text_rows) == 3


def test_an_undated_text_is_of_the_month_that_names_it(dates, labelled, fitted):
  log_p = fitted.predict().log_p(labelled.text_rows)
  month = int(log_p[0].argmax())
  assert dates.calendar.name_month(month)[1:] == (YEAR, str(MONTH))
  np.testing.assert_allclose(np.exp(log_p).sum(axis=1), 1, atol=1e-4)


def test_a_printed_month_counts(dates, labelled, fitted):
  row = int(labelled.text_rows[1])
  log_p = fitted.predict().log_p(np.array([row]))[0]
  by_number = np.bincount(dates.calendar.months, np.exp(log_p))
  assert by_number.argmax() == 7
  (opening,) = [r for r in fitted.explain(row) if r.expert == "openings"]
  assert opening.evidence.note.startswith("七月")


def test_a_leap_month_shares_its_number_and_year():
  calendar = calendar_lib.load_calendar("西晉")
  axis = undated_texts.make_month_axis(calendar)
  assert len(axis) == len(calendar)
  (leap, *_) = np.flatnonzero(calendar.is_leap)
  assert axis.month_of_year[leap] == axis.month_of_year[leap - 1]
  assert axis.year_of[leap] == axis.year_of[leap - 1]
  assert set(np.diff(axis.year_of)) == {0, 1}
  assert set(np.bincount(axis.year_of)[1:-1]) <= {12, 13}


def test_years_of_parallel_reigns_are_one_year():
  calendar = calendar_lib.load_calendar("曹魏,蜀漢")
  axis = undated_texts.make_month_axis(calendar)
  reigns = {r.name: row for row, r in enumerate(axis.timeline.reigns)}
  years = [
    axis.year_index(reigns[name], number)
    for name, number in (("黃初", 4), ("建興", 1))
  ]
  assert axis.civil_year[years].tolist() == [223, 223]
  assert axis.year_index(reigns["黃初"], 40) == UNKNOWN
  assert axis.has_reign[years[0]].sum() >= 2


def test_copies_are_hidden_together(labelled):
  corpus, labels = labelled.corpus, labelled.labels
  fold = corpus_lib.fold_records(corpus, labels, corpus_lib.RECORDS)
  assert ((fold == UNKNOWN) == ~labels.is_known).all()
  by_text = {}
  for text, number in zip(corpus.texts, fold.tolist(), strict=True):
    if number != UNKNOWN:
      assert by_text.setdefault(text, number) == number
  assert len(set(fold.tolist())) == corpus_lib.NUM_FOLDS + 1


@pytest.mark.slow
def test_days_count_where_the_offset_of_the_calendar_is_hidden():
  lines = [
    line.replace("泰始", "隱公") + ("" if "是月" in line else "甲子，大雩。")
    for line in write_chronicle()
  ]
  calendar = chronicle_input.load_reigns("lu")
  dates = chronicle_dating.date_records(records_of(lines), calendar)
  text = f"五月，丙寅，{name_person(5, 5)}擊賊，破之。"
  labelled = labelled_corpus.make_labelled_corpus(dates, [text])
  assert dates.offsets is not None
  model = labelled.make_model(without=["neural"])
  fitted = model.fit(labelled.corpus, labelled.labels)
  log_p = fitted.predict().log_p(labelled.text_rows)
  assert np.isfinite(log_p).all()
  month = dates.calendar.name_month(int(log_p[0].argmax()))
  assert month == ("魯隱公", 5, "5")


def test_a_retold_section_is_believed_more_than_a_like_one(labelled, fitted):
  known = expert_panel.fit_panel(
    fitted.experts, fitted.features, labelled.labels, fitted.weights.by_expert
  ).experts["known"]
  retold, like = known.score_months(labelled.text_rows[[0, 2]])[-1].max(axis=1)
  assert retold > 3
  assert like < retold
  # Where no weight is learned, what is retold still counts.
  blank = dataclasses.replace(known, weights=np.zeros(2))
  assert blank.log_scores(labelled.text_rows[:1]).max() == retold
