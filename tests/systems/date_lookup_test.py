"""The rule baseline: dates read from texts decide, BM25 orders the rest."""

import numpy as np
import pytest

from ctd_jax.chronology import dates, questions
from ctd_jax.chronology.reigns import Interval, Reign, TimeKey, Timeline
from ctd_jax.retrieval import bm25
from ctd_jax.systems import lexical

TIMELINE = Timeline(
  "test", (Reign("甲公", "滄", -700, 3), Reign("乙公", "滄", -697, 3))
)


def date(reign, year, month):
  return dates.format_key(TimeKey(reign, year, month), TIMELINE)


RECORDS = [
  f"{date(1, 2, 3)}：無事可書。",
  f"{date(1, 2, 4)}：無事可書。",
  f"{date(2, 2, 3)}：無事可書。",
  "三月，王人來盟。",
  f"來盟之事，在{date(1, 2, 3)}，傳有明文。",
  "秋，有星孛于東方。",
]


def ranked(query, records=RECORDS):
  everything = {"all": np.ones(len(records), bool)}
  stated = [questions.find_stated_interval(text, TIMELINE) for text in records]
  found = lexical.rank_by_dates(
    [query], records, stated, TIMELINE, len(records), everything
  )
  return found["all"][0][0].tolist()


def test_placeholder_of_the_month_first_other_months_last():
  order = ranked(f"{date(1, 2, 3)}有何記事？")
  assert order[0] == 0
  assert set(order[-2:]) == {1, 2}


def test_month_without_placeholder_leaves_bm25_among_undated():
  query = f"{date(1, 3, 3)}，王人來盟否？"
  scores = bm25.BM25(RECORDS).score_queries([query])[0]
  undated = sorted([3, 4, 5], key=lambda index: -scores[index])
  assert ranked(query)[:3] == undated


def test_window_brings_every_placeholder_inside_first():
  texts = [f"{date(1, 2, month)}：無事可書。" for month in range(1, 13)]
  query = f"請檢索{date(1, 2, 10)}之前三個月內，所有相關記事。"
  assert set(ranked(query, texts)[:3]) == {6, 7, 8}


def test_unreadable_query_falls_back_to_bm25(caplog):
  query = "王人來盟"
  scores = bm25.BM25(RECORDS).score_queries([query])[0]
  expected = np.argsort(-scores, kind="stable").tolist()
  assert ranked(query) == expected
  assert "no date read in 1 of 1 queries; first: 王人來盟" in caplog.text


def test_tiers():
  march = Interval.single_month(TimeKey(1, 2, 3))
  april = Interval.single_month(TimeKey(1, 2, 4))
  result = lexical.assign_tiers([march, None], [march, april, None], TIMELINE)
  np.testing.assert_array_equal(
    result,
    [
      [lexical.INSIDE, lexical.OUTSIDE, lexical.UNDATED],
      [lexical.UNDATED] * 3,
    ],
  )


@pytest.mark.parametrize("offset", [0.0, -20.0])
def test_no_bm25_score_lifts_a_record_over_a_tier(offset):
  rng = np.random.default_rng(0)
  scores = rng.random((4, 50)) * 100 + offset
  tier = rng.integers(0, 3, (4, 50))
  combined = lexical.combine_scores(tier, scores)
  for row in range(4):
    for low, high in ((0, 1), (1, 2)):
      below = combined[row][tier[row] == low]
      assert below.max() < combined[row][tier[row] == high].min()
