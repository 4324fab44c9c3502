"""Dates before texts: what is read, how it is written, what is refused."""

import pytest

from ctd_jax.chronology.reigns import Reign, TimeKey, Timeline
from ctd_jax.models.tokenizer import TextTokenizer
from ctd_jax.training import date_marks, input_pipeline
from ctd_jax.training.date_marks import DateMarks
from tests import synthetic

TIMELINE = synthetic.TIMELINE
PREFIX = DateMarks("prefix", "text", TIMELINE)
TOKENS = DateMarks("tokens", "text", TIMELINE)
QUERIES = ["滄甲公二年三月有何記事？", "滄甲公二年三月之後三個月內，有何記事？"]
RECORDS = ["滄甲公二年三月，無事可書。", "三月，齊人來盟。"]


def test_a_query_stands_behind_the_months_that_it_asks_for():
  month, window = PREFIX.mark_queries(QUERIES)
  assert month == f"滄甲公二年三月：{QUERIES[0]}"
  assert window == f"滄甲公二年四月至滄甲公二年六月：{QUERIES[1]}"
  month, window = TOKENS.mark_queries(QUERIES)
  assert month == f"[reign 1][year 2][month 3]{QUERIES[0]}"
  assert window == (
    "[reign 1][year 2][month 4][until][reign 1][year 2][month 6]" + QUERIES[1]
  )


def test_on_t0_a_record_stands_behind_the_date_it_prints():
  dated, undated = PREFIX.mark_records(RECORDS)
  assert dated == f"滄甲公二年三月：{RECORDS[0]}"
  assert undated == RECORDS[1]
  # Keys are there, and are not read.
  keys = [TimeKey(2, 1, 1)] * 2
  assert PREFIX.mark_records(RECORDS, keys) == [dated, undated]


def test_on_t1_a_record_stands_behind_its_key():
  marks = DateMarks("prefix", "key", TIMELINE)
  keys = [TimeKey(1, 2, 3), TimeKey(2, 1, 12)]
  assert marks.mark_records(RECORDS, keys) == [
    f"滄甲公二年三月：{RECORDS[0]}",
    f"滄乙公元年十二月：{RECORDS[1]}",
  ]
  with pytest.raises(ValueError, match="config.dates.records='key': .* T1"):
    marks.mark_records(RECORDS)


def test_a_leap_month_has_a_token_of_its_own():
  timeline = Timeline("leap", TIMELINE.reigns, frozenset({(1, 2, 3)}))
  marks = DateMarks("tokens", "key", timeline)
  (text,) = marks.mark_records(["齊"], [TimeKey(1, 2, 3, leap=True)])
  assert text == "[reign 1][year 2][month 3][leap]齊"


def test_tokens_are_entries_of_the_vocabulary(tmp_path):
  benchmark = synthetic.benchmark()
  plain = input_pipeline.build_tokenizer(benchmark)
  tokenizer = input_pipeline.build_tokenizer(benchmark, TOKENS.vocabulary)
  assert tokenizer.vocab_size == (
    plain.vocab_size + 2 + sum(TIMELINE.class_counts)
  )
  (text,) = TOKENS.mark_queries(QUERIES[:1])
  (ids,) = tokenizer.tokenize([text], 40).ids
  (unmarked,) = plain.tokenize(QUERIES[:1], 40).ids
  # [CLS], three tokens, then the text as it was.
  assert ids[4:].tolist() == unmarked[1:].tolist()
  # One token a part, behind all characters: reign 1, year 2, month 3.
  assert min(ids[1:4]) >= plain.vocab_size
  assert len(set(ids[1:4])) == 3
  tokenizer.save(tmp_path)
  (again,) = TextTokenizer.load(tmp_path).tokenize([text], 40).ids
  assert again.tolist() == ids.tolist()


def test_in_another_calendar_dates_are_words_and_tokens_are_left_out(caplog):
  other = Timeline("other", (Reign("丙公", "滄", -700, 3),))
  query = "滄丙公三年三月有何記事？"
  assert PREFIX.move_to(other).mark_queries([query]) == [
    f"滄丙公三年三月：{query}"
  ]
  assert not caplog.records
  assert TOKENS.move_to(other).mark_queries([query]) == [query]
  assert "other has another calendar than the date tokens" in caplog.text
  assert TOKENS.move_to(TIMELINE) == TOKENS


def test_without_a_form_texts_stay_what_they_are():
  assert date_marks.NO_MARKS.mark_queries(QUERIES) == QUERIES
  assert date_marks.NO_MARKS.mark_records(RECORDS) == RECORDS
  assert date_marks.NO_MARKS.vocabulary == ()
