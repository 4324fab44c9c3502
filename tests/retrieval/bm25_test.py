"""BM25: by hand, against rank_bm25, and with an index for each gallery."""

import math

import numpy as np
import pytest
from rank_bm25 import BM25Okapi

from ctd_jax.retrieval import bm25

TEXTS = [
  "夏五月，王人來盟。",
  "王王王人",
  "秋七月，有星孛。",
  "冬，王使來聘。",
  "王。",
]


def test_tokens_are_characters_then_pairs_across_punctuation():
  assert bm25.tokenize_bigrams("王，人來") == ["王", "人", "來", "王人", "人來"]


def test_tokens_outside_the_block_are_dropped():
  # U+3007 and extension A, B characters are no tokens in the definition.
  assert bm25.tokenize_bigrams("a1〇㐀𨼆王") == ["王"]
  for text in ("。a", ""):
    assert bm25.tokenize_bigrams(text) == ["<empty>"]


def test_hand_computed_score():
  # Texts 甲乙 and 丙丁戊: tokens 甲 乙 甲乙 | 丙 丁 戊 丙丁 丁戊, average 4.
  # Every idf is ln(1.5) - ln(1.5) = 0 for df 1 of 2, so take three texts.
  index = bm25.BM25(["甲乙", "丙丁戊", "己"])
  idf = math.log(2.5) - math.log(1.5)
  average = (3 + 5 + 1) / 3
  tf_part = 2.5 / (1 + 1.5 * (0.25 + 0.75 * 3 / average))
  expected = [3 * idf * tf_part, 0, 0]  # 甲, 乙 and 甲乙
  (scores,) = index.score_queries(["甲乙"])
  np.testing.assert_allclose(scores, expected, rtol=1e-6)


def test_negative_idf_becomes_a_quarter_of_the_mean():
  # 王 is in three of four texts: ln(1.5) - ln(3.5) < 0.
  texts = ["王", "王甲", "王乙", "丙"]
  negative = math.log(1.5) - math.log(3.5)
  rare = math.log(3.5) - math.log(1.5)  # 甲, 王甲, 乙, 王乙, 丙
  floor = 0.25 * (negative + 5 * rare) / 6
  average = (1 + 3 + 3 + 1) / 4
  expected = floor * 2.5 / (1 + 1.5 * (0.25 + 0.75 * 1 / average))
  scores = bm25.BM25(texts).score_queries(["王"])[0]
  assert scores[0] == pytest.approx(expected, rel=1e-6)
  assert scores[3] == 0


def random_texts(count, seed, longest=30):
  rng = np.random.default_rng(seed)
  alphabet = [*"隱桓莊閔僖文宣成襄昭定哀元年春王正月夏秋冬，。"]
  return [
    "".join(rng.choice(alphabet, rng.integers(0, longest)))
    for _ in range(count)
  ]


@pytest.mark.parametrize("texts", [TEXTS, random_texts(60, 0)])
def test_parity_with_rank_bm25(texts):
  other = BM25Okapi([bm25.tokenize_bigrams(text) for text in texts])
  queries = [*random_texts(20, 1), *TEXTS, "王王人", "無此字"]
  ours = bm25.BM25(texts).score_queries(queries)
  theirs = [other.get_scores(bm25.tokenize_bigrams(query)) for query in queries]
  np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


def test_topk_builds_the_index_anew_for_each_gallery():
  texts, queries = random_texts(60, 2), random_texts(7, 3)
  mask = np.random.default_rng(4).random(60) < 0.4
  found = bm25.rank_by_bm25(
    queries, texts, 5, {"some": mask, "all": np.ones(60, bool)}
  )
  members = np.flatnonzero(mask)
  inside = [texts[index] for index in members]
  alone = bm25.rank_by_bm25(queries, inside, 5, {"all": mask[mask]})
  np.testing.assert_array_equal(found["some"][0], members[alone["all"][0]])
  np.testing.assert_array_equal(found["some"][1], alone["all"][1])
  assert not np.array_equal(found["some"][1], found["all"][1])


def test_empty_gallery_finds_nothing():
  found = bm25.rank_by_bm25(["王"], ["王"], 2, {"none": np.zeros(1, bool)})
  np.testing.assert_array_equal(found["none"][0], [[-1, -1]])


def test_no_text_is_refused():
  with pytest.raises(ValueError, match="at least one text"):
    bm25.BM25([])
