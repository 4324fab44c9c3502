"""Patterns of many names."""

import re

from hypothesis import given
from hypothesis import strategies as st

from ctd_jax.chronology.calendar_tables import build_names_pattern

NAMES = st.lists(st.text("建武中元-]^.", min_size=1, max_size=4), max_size=12)


@given(NAMES, st.text("建武中元-]^.", max_size=8), st.text("年二", max_size=1))
def test_it_matches_as_an_alternation_of_the_names_does(names, text, follows):
  by_length = sorted(set(names), key=lambda name: (-len(name), name))
  alternation = "|".join(map(re.escape, by_length)) or "(?!)"
  # What follows makes both fall back to shorter names.
  for end in ("", re.escape(follows)):
    expected = re.search(f"(?:{alternation}){end}", text + follows)
    found = re.search(f"(?:{build_names_pattern(names)}){end}", text + follows)
    assert (found and found.span()) == (expected and expected.span())
