"""Dating of works together: manners, hidden records, works in order."""

import numpy as np
import pytest

from ctd_jax.chronology import reigns
from ctd_jax.dating.chronicle import calendar
from ctd_jax.index import posteriors as posteriors_lib
from ctd_jax.index.building import model_dating, sources
from ctd_jax.index.building.group_dating import DatingChoices, WorkDater
from ctd_jax.index.database import KEYS, MODEL, ORDER
from tests.index import corpora


@pytest.fixture(name="calendar", scope="module")
def fixture_calendar():
  return calendar.make_calendar(reigns.load_timeline("lu"))


def list_records(number=72):
  """Events that open months, and comments on them; every fifth is of test."""
  records = []
  for row, record in enumerate(corpora.list_dated_records(number)):
    split = {"split": "test" if row % 5 == 4 else "train"}
    year, month = 1 + row // 12, 1 + row % 12
    head = f"{corpora.numerals.format_numeral(month)}月，"
    if month == 1:
      number_of_year = corpora.numerals.format_numeral(year)
      head = f"{'元' if year == 1 else number_of_year}年，春，王正月，"
    records.append(
      record | split | {"text": head + record["text"], "kind": "event"}
    )
    records.append(
      {
        "text": f"{corpora.name_person(year, month)}者何也大夫也何以書",
        "start": record["start"],
        "source": "comments",
        "kind": "neg_comment",
      }
      | split
    )
  return records


def read_works(folder, records, hidden=()):
  corpora.write_beir(folder, records)
  return sources.make_request(
    folder.parent, f"beir:{folder}", hidden_splits=hidden
  ).read(folder.parent)


def test_manner_of_each_work(tmp_path, calendar):
  folder = tmp_path / "set"
  works = read_works(folder, list_records())
  dater = WorkDater(calendar, DatingChoices(), works)
  assert [dater.choose_manner(work) for work in works] == [KEYS, KEYS]
  works = read_works(folder, list_records(), ("test",))
  dater = WorkDater(calendar, DatingChoices(), works)
  assert [dater.choose_manner(work) for work in works] == [MODEL, MODEL]
  # Of a data set in order, a source without one is left to the model.
  choices = DatingChoices(in_order=("set",))
  dater = WorkDater(calendar, choices, works)
  manners = {work.title: dater.choose_manner(work) for work in works}
  assert manners == {"魯史": ORDER, "comments": MODEL}


@pytest.mark.slow
def test_hidden_records_are_dated_by_their_order(tmp_path, calendar):
  works = read_works(tmp_path / "set", list_records(), ("test",))
  dater = WorkDater(calendar, DatingChoices(in_order=("set",)), works)
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
  works = read_works(tmp_path / "set", records, ("test",))
  dater = WorkDater(calendar, DatingChoices(in_order=("set",)), works)
  comments = next(work for work in works if work.title == "comments")
  log_p = dater._read_clues(comments).event_log_p
  is_hidden = np.array([record.is_hidden for record in comments.records])
  assert log_p[4] > np.log(0.5)
  assert (log_p[is_hidden][1:] < np.log(0.5)).all()
  open_works = read_works(tmp_path / "open", list_records())
  open_dater = WorkDater(calendar, DatingChoices(), open_works)
  log_p = open_dater._read_clues(open_works[1]).event_log_p
  assert (log_p == -25).all()


def test_placeholders_are_of_the_month_that_they_state(tmp_path, calendar):
  records = [
    {
      "text": "魯隱公三年五月，無事。",
      "start": "1-3-5",
      "kind": "no_event",
      "split": "test",
      "order": 0,
      "source": "placeholder",
    }
  ]
  works = read_works(tmp_path / "set", records, ("test",))
  dater = WorkDater(calendar, DatingChoices(in_order=("set",)), works)
  dated = dater.date_with_own_dates(works[0], ORDER)
  summary = posteriors_lib.summarize_posteriors(dated.posteriors)
  assert summary["best_month"].tolist() == [28]


@pytest.mark.slow
def test_a_large_data_set_is_dated_by_a_sample(tmp_path, calendar, monkeypatch):
  records = list_records()
  works = read_works(tmp_path / "set", records, ("test",))
  monkeypatch.setattr(model_dating, "MAX_GROUP_RECORDS", 100)
  monkeypatch.setattr(model_dating, "MAX_LABELS", 40)
  dated_texts = []
  date_texts = model_dating.date_texts

  def record_texts(texts, labels, calendar):
    dated_texts.extend(texts)
    return date_texts(texts, labels, calendar)

  monkeypatch.setattr(model_dating, "date_texts", record_texts)
  dater = WorkDater(calendar, DatingChoices(), works)
  nothing = model_dating.LabelPool(texts=[], months=np.zeros(0, int))
  dated = list(dater.date_by_model(works, (), lambda: nothing))
  hidden = [r.text for w in works for r in w.records if r.is_hidden]
  # What has a month is not dated; what has none not by its hidden kind.
  assert dated_texts == hidden
  for work in dated:
    is_hidden = np.array([r.is_hidden for r in work.source.records])
    summary = posteriors_lib.summarize_posteriors(work.posteriors)
    known = work.known_months[~is_hidden, 0]
    np.testing.assert_array_equal(summary["best_month"][~is_hidden], known)
    assert (summary["best_probability"][~is_hidden] == 1).all()
    assert (work.posteriors.event_log_p[is_hidden] == 0).all()


def test_an_interval_keeps_what_the_posterior_has_in_it():
  posteriors = posteriors_lib.make_posterior_arrays(
    [np.array([[0.1, 0.2, 0.3, 0.3, 0.1]] * 3)], 4
  )
  limited = model_dating.limit_to_known_months(
    posteriors, np.array([[1, 2], [3, 3], [-1, -1]])
  )
  np.testing.assert_allclose(limited.p_months(0), [0, 0.4, 0.6, 0], atol=1e-6)
  np.testing.assert_allclose(limited.p_months(1), [0, 0, 0, 1])
  np.testing.assert_allclose(
    limited.p_months(2), posteriors.p_months(2), atol=1e-6
  )
