"""Dating of works together: manners, hidden records, works in order."""

import itertools
from unittest import mock

import numpy as np
import pytest

from ctd_jax.chronology import numerals, reigns
from ctd_jax.dating.chronicle import calendar
from ctd_jax.index import posteriors as posteriors_lib
from ctd_jax.index.building import model_dating, sources
from ctd_jax.index.building.group_dating import DatingChoices, WorkDater
from ctd_jax.index.database import KEYS, MODEL, ORDER
from tests.index import corpora


@pytest.fixture(name="calendar", scope="module")
def fixture_calendar():
  return calendar.make_calendar(reigns.load_timeline("lu"))


def list_records():
  """Events that open months, and comments on them; every fifth is of test."""
  records = []
  for row, record in enumerate(corpora.list_dated_records(72)):
    head = f"{numerals.format_numeral(1 + row % 12)}月，"
    if row % 12 == 0:
      head = f"{'元二三四五六'[row // 12]}年，春，王正月，"
    record["split"] = "test" if row % 5 == 4 else "train"
    text = record["text"].replace("來聘。", "者何也大夫也何以書")
    comment = {"text": text, "source": "comments", "kind": "neg_comment"}
    comment |= {"start": record["start"], "split": record["split"]}
    event = {"text": head + record["text"], "kind": "event"}
    records += [record | event, comment]
  return records


def make_dater(folder, calendar, records, hidden=("test",), in_order=("set",)):
  """Returns the works of a data set, and what dates them."""
  corpora.write_beir(folder / "set", records)
  request = sources.make_request(
    folder, f"beir:{folder / 'set'}", hidden_splits=hidden
  )
  works = request.read(folder)
  return works, WorkDater(calendar, DatingChoices(in_order=in_order), works)


def test_manner_of_each_work(tmp_path, calendar):
  for hidden, in_order, expected in (
    ((), (), {"魯史": KEYS, "comments": KEYS}),
    (("test",), (), {"魯史": MODEL, "comments": MODEL}),
    # Of a data set in order, a source without one is left to the model.
    (("test",), ("set",), {"魯史": ORDER, "comments": MODEL}),
  ):
    works, dater = make_dater(
      tmp_path, calendar, list_records(), hidden, in_order
    )
    manners = {work.title: dater.choose_manner(work) for work in works}
    assert manners == expected


@pytest.mark.slow
def test_hidden_records_are_dated_by_their_order(tmp_path, calendar):
  works, dater = make_dater(tmp_path, calendar, list_records())
  annals = next(work for work in works if work.title == "魯史")
  dated = dater.date_with_own_dates(annals, ORDER)
  is_hidden = np.array([record.is_hidden for record in annals.records])
  assert set(np.array(dated.dated_by)[is_hidden]) == {ORDER}
  assert set(np.array(dated.dated_by)[~is_hidden]) == {KEYS}
  assert (dated.known_months[is_hidden] == -1).all()
  summary = posteriors_lib.summarize_posteriors(dated.posteriors)
  np.testing.assert_array_equal(summary["best_month"], np.arange(72))


def test_kinds_of_hidden_records_are_told_by_their_style(tmp_path, calendar):
  records = list_records()
  for record in records:
    record["order"] = 0  # comments too stand in an order
  # A comment that is hidden and written as an event.
  records[9]["text"] = "三月，張勇一五來聘。"
  works, dater = make_dater(tmp_path, calendar, records)
  comments = next(work for work in works if work.title == "comments")
  log_p = dater._read_clues(comments).event_log_p
  is_hidden = np.array([record.is_hidden for record in comments.records])
  assert log_p[4] > np.log(0.5)
  assert (log_p[is_hidden][1:] < np.log(0.5)).all()
  works, dater = make_dater(tmp_path, calendar, list_records(), (), ())
  assert (dater._read_clues(works[1]).event_log_p == -25).all()


def test_placeholders_are_of_the_month_that_they_state(tmp_path, calendar):
  record = {"text": "魯隱公三年五月，無事。", "start": "1-3-5", "order": 0}
  record |= {"kind": "no_event", "split": "test", "source": "placeholder"}
  works, dater = make_dater(tmp_path, calendar, [record])
  dated = dater.date_with_own_dates(works[0], ORDER)
  summary = posteriors_lib.summarize_posteriors(dated.posteriors)
  assert summary["best_month"].tolist() == [28]


@pytest.mark.slow
def test_a_large_data_set_is_dated_by_a_sample(tmp_path, calendar, monkeypatch):
  works, dater = make_dater(tmp_path, calendar, list_records(), in_order=())
  monkeypatch.setattr(model_dating, "MAX_GROUP_RECORDS", 100)
  monkeypatch.setattr(model_dating, "MAX_LABELS", 40)
  date_texts = mock.Mock(wraps=model_dating.date_texts)
  monkeypatch.setattr(model_dating, "date_texts", date_texts)
  nothing = model_dating.LabelPool(texts=[], months=np.zeros(0, int))
  dated = list(dater.date_by_model(works, (), lambda: nothing))
  hidden = [r.text for w in works for r in w.records if r.is_hidden]
  # What has a month is not dated; what has none not by its hidden kind.
  dated_texts = [it.args[0] for it in date_texts.call_args_list]
  assert [*itertools.chain(*dated_texts)] == hidden
  for work in dated:
    is_hidden = np.array([r.is_hidden for r in work.source.records])
    summary = posteriors_lib.summarize_posteriors(work.posteriors)
    known = work.known_months[~is_hidden, 0]
    np.testing.assert_array_equal(summary["best_month"][~is_hidden], known)
    assert (summary["best_probability"][~is_hidden] == 1).all()
    assert (work.posteriors.event_log_p[is_hidden] == 0).all()


def test_an_interval_keeps_what_the_posterior_has_in_it():
  chances = np.array([[0.1, 0.2, 0.3, 0.3, 0.1]] * 3)
  posteriors = posteriors_lib.make_posterior_arrays([chances], 4)
  known = np.array([[1, 2], [3, 3], [-1, -1]])
  limited = model_dating.limit_to_known_months(posteriors, known)
  np.testing.assert_allclose(limited.p_months(0), [0, 0.4, 0.6, 0], atol=1e-6)
  np.testing.assert_allclose(limited.p_months(1), [0, 0, 0, 1])
  whole = posteriors.p_months(2)
  np.testing.assert_allclose(limited.p_months(2), whole, atol=1e-6)
