"""Checks of tokenised texts: every number of a warning or error, by hand."""

import numpy as np
import pytest

from ctd_jax.models import text_encoder
from ctd_jax.models.tokenizer import TextTokenizer

TEXTS = ("元年春王正月", "元年春王二月", "元年夏五月", "元年夏五月。")


@pytest.fixture(scope="module")
def tokenizer():
  return TextTokenizer.build([*TEXTS, "查詢"])


def rows_of(tokenizer, length):
  return tokenizer.tokenize(TEXTS, length).ids


def test_a_prefix_may_take_half_of_the_length_and_no_more(tokenizer):
  # [CLS] and two characters.
  text_encoder.check_prefix(tokenizer, "查詢", 6)
  text_encoder.check_prefix(tokenizer, "", 1)
  with pytest.raises(
    ValueError,
    match="^config.a='查詢' has 3 tokens and leaves 2 of config.b=5 to a text; "
    "expected at least half: shorten the prefix or set config.b to 6 or more$",
  ):
    text_encoder.check_prefix(tokenizer, "查詢", 5, "config.a", "config.b")
  with pytest.raises(ValueError, match="leaves 0 of max_length=2 "):
    text_encoder.check_prefix(tokenizer, "查詢", 2)


def test_cut_texts_are_counted(tokenizer, caplog):
  rows = tokenizer.tokenize(TEXTS, 6, prefix="查")
  assert rows.full_lengths.tolist() == [8, 8, 7, 7]
  assert [len(ids) for ids in rows.ids] == [6] * 4
  text_encoder.warn_of_cuts(rows.full_lengths, 7, "queries", "config.b")
  assert caplog.messages == [
    "queries: 2 of 4 are cut at config.b=7 tokens; 8 would hold them all"
  ]
  caplog.clear()
  text_encoder.warn_of_cuts(rows.full_lengths, 8, "queries")
  text_encoder.warn_of_cuts(np.zeros(0, np.int32), 8, "queries")
  assert not caplog.messages


def test_texts_that_collapse_are_counted(tokenizer, caplog):
  text_encoder.warn_of_collapse(TEXTS[:3], rows_of(tokenizer, 7)[:3], "texts")
  assert not caplog.messages
  # Without its mark the last is the third; cut, the first two are one.
  text_encoder.warn_of_collapse(TEXTS, rows_of(tokenizer, 5), "texts")
  assert caplog.messages == [
    "texts: 4 of 4 distinct texts have the tokens of another, and no score "
    f"tells them apart; 2 rows of tokens are left. First: {TEXTS[0]} | "
    f"{TEXTS[1]}"
  ]
