"""Passages beside a corpus that the linked model has dated."""

import numpy as np
import pytest

from ctd_jax.chronology import date_expressions
from tests.dating import chronicles


@pytest.fixture(scope="module")
def dater(fitted):
  return fitted.make_passage_dater()


@pytest.fixture(scope="module")
def events(chronicle, fitted):
  """Rows of some hidden events."""
  rows = np.flatnonzero(~chronicle.train & fitted.features.is_event)
  return rows[np.argsort(fitted.features.corpus.text_hashes[rows])][:60]


def test_an_event_left_out_is_dated_as_in_the_corpus(
  chronicle, fitted, dater, events
):
  alone = [
    dater.date(chronicle.texts[row], exclude=[row]).log_p
    for row in events.tolist()
  ]
  np.testing.assert_allclose(
    np.exp(alone), np.exp(fitted.predict().log_p(events)), atol=1e-5
  )


def test_a_corpus_of_which_no_comment_is_hidden(chronicle, fit):
  is_event = np.array([bool(answers) for answers in chronicle.answers.tolist()])
  events = chronicle.take(np.flatnonzero(is_event))
  fitted = fit(events)
  row = int(np.flatnonzero(~events.train & fitted.features.is_event)[0])
  log_p = fitted.make_passage_dater().date(events.texts[row], [row]).log_p
  np.testing.assert_allclose(
    np.exp(log_p), np.exp(fitted.predict().log_p(np.array([row]))[0]), atol=1e-5
  )


def test_a_corpus_of_which_all_is_known(chronicle, fit):
  known = chronicle.take(np.flatnonzero(chronicle.train))
  dater = fit(known).make_passage_dater()
  log_p = dater.date(
    chronicle.texts[int(np.flatnonzero(~chronicle.train)[0])]
  ).log_p
  assert np.exp(log_p).sum() == pytest.approx(1, abs=1e-4)


def test_its_reasons_are_those_of_the_record(chronicle, fitted, dater, events):
  names = set()
  for row in events[:10].tolist():
    passage = dater.date(chronicle.texts[row], exclude=[row])
    month = int(passage.log_p.argmax())
    expected = {each.expert: each for each in fitted.explain(row, month)}
    reasons = passage.explain(month)
    assert {reason.expert for reason in reasons} == expected.keys()
    for reason in reasons:
      other = expected[reason.expert]
      assert reason.weight == pytest.approx(other.weight, abs=1e-3)
      assert row not in reason.evidence.linked_rows
      assert reason.evidence.spans == other.evidence.spans
      assert reason.evidence.linked_rows == other.evidence.linked_rows
      if reason.evidence.linked_rows:
        names.add(reason.expert)
  assert names & {"parallels", "comments"}


def test_a_passage_that_the_corpus_has_not(chronicle, dater, events):
  text = chronicle.texts[events[0]]
  passage = dater.date(f"{text}{chronicle.texts[events[1]]}")
  assert passage.log_p.dtype == np.float32
  assert np.exp(passage.log_p).sum() == pytest.approx(1, abs=1e-4)
  weights = [abs(reason.weight) for reason in passage.explain()]
  assert weights == sorted(weights, reverse=True)
  assert dater.date("hello").log_p.shape == passage.log_p.shape
  with pytest.raises(IndexError, match=r"month is 0\.\.359, got 360"):
    passage.explain(360)


def test_a_stated_month_is_certain(dater):
  key = chronicles.TIMELINE.months[17]
  date = date_expressions.format_key(key, chronicles.TIMELINE)
  log_p = dater.date(f"{date}，無事可書。").log_p
  assert log_p.argmax() == 17
  assert np.exp(log_p[17]) == 1
