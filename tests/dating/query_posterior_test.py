"""Queries without a date: dated by wording, ranked by time and wording."""

import logging

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

from ctd_jax.chronology import dates, questions
from ctd_jax.dating import query_posterior
from ctd_jax.dating.corpus import UNKNOWN, MonthAxis, plain_text
from ctd_jax.dating.posterior import CredibleBlock, Posterior
from ctd_jax.dating.query_posterior import RecordWording, find_query_words
from tests import synthetic

AXIS = MonthAxis.from_timeline(synthetic.TIMELINE)
# Text, month if it is known, (month, probability) if not, whether it answers.
RECORDS = (
  ("葬衛桓公。", None, {4: 0.6, 30: 0.4}, True),
  ("四月，公及莒人盟于包來。", 4, {}, True),
  ("公會齊侯于防。", 30, {}, True),
  ("葬衛桓公，緩也。", 4, {}, False),
  ("公會齊侯于郎。", 12, {}, True),
  ("鄭伯克段于鄢。", None, {17: 0.5, 18: 0.5}, True),
  ("夏，無麥苗。", 18, {}, True),
)
TEXTS = tuple(text for text, *_ in RECORDS)
WORDING = RecordWording(TEXTS, tuple(map(plain_text, TEXTS)))
EVENT_LOG_P = np.log([0.9 if answers else 0.01 for *_, answers in RECORDS])
GALLERY = {"all": np.ones(len(RECORDS), bool)}


def make_records():
  rows = [row for row, record in enumerate(RECORDS) if record[1] is None]
  chances = [RECORDS[row][2] for row in rows]
  block = CredibleBlock(
    rows=np.array(rows),
    starts=np.cumsum([0, *map(len, chances)]),
    months=np.array([month for each in chances for month in each]),
    probabilities=np.array([p for each in chances for p in each.values()]),
    num_months=len(AXIS),
  )
  posterior = Posterior(
    axis=AXIS,
    certain_months=np.array(
      [UNKNOWN if month is None else month for _, month, *_ in RECORDS]
    ),
    blocks=(block,),
  )
  return query_posterior.GalleryDates(
    posterior=posterior, event_log_p=EVENT_LOG_P, wording=WORDING
  )


def rank(queries):
  return query_posterior.rank_by_posterior(queries, make_records(), 7, GALLERY)[
    "all"
  ]


def date(*queries):
  return query_posterior.date_queries(queries, make_records())


WINDOWS = ("", "之前三個月內", "及其後半年", "，葬衛桓公，", "前後兩月")
DATED_QUERIES = [
  text
  for key in synthetic.TIMELINE.months
  for style in ("full", "reign")
  for window in WINDOWS
  for text in [
    dates.format_key(key, synthetic.TIMELINE, style) + f"{window}有何記事？"
  ]
  # Windows outside of the calendar are not read.
  if questions.parse_query_interval(text, synthetic.TIMELINE)
]


@hypothesis.given(
  queries=st.lists(
    st.sampled_from([*DATED_QUERIES, "有何記事？", "？", "when?"]),
    min_size=1,
    max_size=6,
  ),
  others=st.lists(
    st.sampled_from(["葬衛桓公在何時？", "夏，公會齊侯，何年？"])
  ),
)
@hypothesis.settings(deadline=None, max_examples=50)
def test_a_date_that_is_read_ranks_as_without_other_questions(queries, others):
  plain = rank(queries)
  worded = rank([*queries, *others])
  for expected, result in zip(plain, worded, strict=True):
    np.testing.assert_array_equal(result[: len(queries)], expected)


def test_a_date_that_is_read_is_an_even_posterior_over_its_interval():
  (log_p,) = date("滄甲公元年五月之前三個月內有何記事？")
  assert np.flatnonzero(np.isfinite(log_p)).tolist() == [1, 2, 3]
  np.testing.assert_allclose(np.exp(log_p[1:4]), 1 / 3, rtol=1e-6)


def test_an_event_has_the_months_of_the_records_that_tell_it():
  (log_p,) = date("葬衛桓公在何時？")
  p = np.exp(log_p)
  assert p.sum() == pytest.approx(1, abs=1e-5)
  assert p.argmax() == 4
  assert p[30] > 10 * p[12]


def test_the_record_of_the_event_is_first_then_those_of_its_month():
  indices, scores = rank(["葬衛桓公在何時？"])
  # The comment tells it too, but does not answer; 30 is the other month.
  assert indices[0, :3].tolist() == [0, 1, 2]
  assert np.isfinite(scores).all()


def test_what_nobody_knows_the_month_of_is_found_by_its_words():
  indices, _ = rank(["鄭伯克段于鄢，何年何月？"])
  assert indices[0, 0] == 5


def test_a_vague_date_and_the_wording_are_multiplied():
  asked = "公會齊侯在何時？"
  (p,) = np.exp(date(asked))
  (in_reign,) = np.exp(date(f"甲公時，{asked}"))
  assert min(p[12], p[30]) > 0.2
  assert in_reign[12] > 0.9
  assert in_reign[30] < 0.01
  indices, _ = rank([f"甲公時，{asked}", f"乙公時，{asked}"])
  assert indices[:, 0].tolist() == [4, 2]


def test_a_vague_date_alone_asks_for_its_months():
  (p,) = np.exp(date("甲公年間有何記事？"))
  assert p[:24].sum() > 0.99
  np.testing.assert_allclose(p[:24], p[0], rtol=1e-5)
  indices, _ = rank(["乙公年間有何記事？"])
  assert indices[0, 0] == 2


def test_what_was_done_is_said(caplog):
  caplog.set_level(logging.INFO, logger="absl")
  queries = [
    "葬衛桓公在何時？",
    "甲公時，公會齊侯，何時？",
    "甲公年間有何記事？",
  ]
  rank([*queries, "有何記事？", "滄甲公元年五月有何記事？"])
  message = caplog.messages[-1]
  assert "2 are dated by the records that share their wording, 1 of" in message
  assert "1 by such a date alone; 1 have neither" in message
  caplog.clear()
  rank(["滄甲公元年五月有何記事？"])
  assert not caplog.messages


def test_blocks_of_records_and_queries_change_nothing(monkeypatch):
  queries = ["葬衛桓公在何時？", "夏，鄭伯克段，何年？", "公會齊侯，何時？"]
  whole = rank(queries)
  monkeypatch.setattr(query_posterior, "_MAX_MATCHES", 8)
  monkeypatch.setattr(query_posterior, "_RECORD_BLOCK", 3)
  blocks = rank(queries)
  np.testing.assert_array_equal(blocks[0], whole[0])
  np.testing.assert_allclose(blocks[1], whole[1], rtol=1e-5)


@pytest.mark.parametrize(
  ("text", "words"),
  [
    ("衛桓公何時葬？", ("衛桓公", "葬")),
    ("何時「公及莒人盟」？", ("公及莒人盟",)),
    ("有何記事？", ()),
    ("諸侯", ("諸侯",)),
  ],
)
def test_words_are_what_is_left_of_a_question(text, words):
  assert find_query_words(text) == words


def test_strings_tell_a_phrase_from_its_characters():
  wording = RecordWording(
    ("公及莒人盟", "莒公人及盟"), ("公及莒人盟", "莒公人及盟")
  )
  without, with_strings = (
    wording.match_queries([("公及莒人",)], weight)[0] for weight in (0.0, 1.0)
  )
  assert with_strings[0] - without[0] > with_strings[1] - without[1] + 1
  assert not wording.match_queries([()], 1.0).any()
