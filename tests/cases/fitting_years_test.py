"""Bare years inside a record: titles before them, eras that they fit."""

import pytest

from ctd_jax.dating.chronicle import chronicle_dating, chronicle_input
from tests.dating.chronicles import records_of


def read_heads(line, reigns):
  """Returns (printed date, statements) of the sections of a line."""
  sections = chronicle_dating.read_all_sections(
    records_of([line]), chronicle_input.load_reigns(reigns)
  )
  return [
    (line[section.start : section.date_end], section.statements[0])
    for section in sections
  ]


@pytest.mark.parametrize(
  "title", ["立爲皇太子", "封為清河王", "降爵為公", "自稱燕王", "立為皇帝"]
)
def test_a_title_that_is_given_ends_before_a_year(title):
  line = f"太和二十一年正月丙申{title}二十三年夏四月丁巳即位"
  heads = [head for head, _ in read_heads(line, "北魏")]
  assert heads == ["太和二十一年正月丙申", "二十三年夏四月丁巳"]


def test_a_year_of_another_ruler_opens_nothing():
  line = "太和二十一年正月丙申論晉文公三年夏四月事"
  assert len(read_heads(line, "北魏")) == 1
