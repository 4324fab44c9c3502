"""Tests of the one form of text."""

import unicodedata

import pytest

from ctd_jax.utils import unicode_text


@pytest.mark.parametrize(
  ("text", "expected"),
  [
    ("\u200b建隆元年", "建隆元年"),
    ("建\U000e0100隆\u00ad元年\ufeff", "建隆元年"),
    ("ＡＢＣ１２３", "ABC123"),
    ("⼈⼦", "人子"),
    ("か\u3099く", "がく"),
    ("ｶﾞｸ", "ガク"),
    ("Ko\u0308ln", "Köln"),
    (unicodedata.normalize("NFD", "세종 元年"), "세종 元年"),
    ("㍻二年㋀", "平成二年1月"),
    ("Auguſt", "August"),
    ("元年，春。（一）①²", "元年，春。（一）①²"),
    ("\ufa0a\U0002f800", "見丽"),
    ("", ""),
    ("\u200b", ""),
  ],
)
def test_normalize_gives_one_form(text, expected):
  normalized = unicode_text.normalize(text)
  assert normalized.text == expected
  assert unicode_text.normalize(expected).text == expected
  positions = [normalized.original(i) for i in range(len(expected) + 1)]
  assert positions == sorted(positions)
  assert positions[-1] == len(text)
  assert positions[0] == 0 or not expected


def test_positions_lead_to_the_printed_character():
  text = "\u200b建\U000e0100隆㍻元\u2060年か\u3099。"
  normalized = unicode_text.normalize(text)
  assert normalized.text == "建隆平成元年が。"
  assert [normalized.original(i) for i in range(9)] == [
    *(0, 3, 4, 4, 5, 7, 8, 10, 11)
  ]


def test_every_character_is_looked_at_if_a_rule_changes_it():
  for code in range(0x110000):
    character = chr(code)
    if 0xD800 <= code < 0xE000 or unicode_text._NOT_PLAIN.match(character):
      continue
    assert unicode_text._fold_character(character) == character
    assert unicodedata.is_normalized("NFC", character)
    assert not unicode_text._joins(character)
