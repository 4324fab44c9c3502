"""Patterns of many names."""

import re

from hypothesis import given
from hypothesis import strategies as st

from ctd_jax.chronology.calendar_tables import build_names_pattern

NAMES = st.lists(st.text("建武中元-]^.", min_size=1, max_size=4), max_size=12)


def test_the_longest_name_is_taken():
  pattern = build_names_pattern(["建武", "建武中元", "建", "中元"])
  assert re.match(pattern, "建武中元二年")[0] == "建武中元"
  assert re.match(pattern, "建武二年")[0] == "建武"
  assert re.match(pattern, "建元")[0] == "建"
  assert re.match(pattern, "武") is None


def test_without_names_nothing_matches():
  assert re.match(build_names_pattern([]), "建武") is None


@given(NAMES, st.text("建武中元-]^.", max_size=8), st.text("年二", max_size=1))
def test_it_matches_as_an_alternation_of_the_names_does(names, text, follows):
  by_length = sorted(set(names), key=lambda name: (-len(name), name))
  alternation = "|".join(map(re.escape, by_length)) or "(?!)"
  # What follows makes both fall back to shorter names.
  for end in ("", re.escape(follows)):
    expected = re.search(f"(?:{alternation}){end}", text + follows)
    found = re.search(f"(?:{build_names_pattern(names)}){end}", text + follows)
    assert (found and found.span()) == (expected and expected.span())
