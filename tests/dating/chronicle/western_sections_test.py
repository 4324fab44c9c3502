"""Sections of Western annals begin with the sentences that hold dates."""

import pytest

from ctd_jax.dating.chronicle import sections, western


def read(text):
  return [
    (text[section.start : section.stop], section.kind, [*section.statements])
    for section in western.read_western_sections(3, text)
  ]


def test_sections_begin_with_sentences_that_hold_dates():
  sentences = (
    "A.D. 787. This year came ships. ",
    "And on the 8th of June, at St. Osyth, the king died. ",
    "In autumn there was famine.",
  )
  year = ("year", "CE", 787)
  assert read("".join(sentences)) == [
    (sentences[0], 5, [year]),
    (sentences[1], 2, [year, ("month", 6), ("month day", 8)]),
    (sentences[2], 2, [year, ("months", (9, 10, 11))]),
  ]


@pytest.mark.parametrize(
  ("text", "kind", "statements"),
  [
    (
      "The abbot, born in the year 740, died on 3 Non. Maii.",
      *(2, [("month", 5), ("month day", 5)]),
    ),
    ("55 BC. Caesar came.", 5, [("year", "BCE", 55)]),
    ("In 787 he came.", 4, [("year", None, 787)]),
    ("This year he came.", 0, []),
    ("12. An item of a list.", 0, []),
    (
      "公元787年6月8日，大水。",
      *(5, [("year", "CE", 787), ("month", 6), ("month day", 8)]),
    ),
  ],
)
def test_a_sentence_states_its_date(text, kind, statements):
  assert read(text) == [(text, kind, statements)]


@pytest.mark.parametrize(
  ("text", "dates"),
  [
    (
      "A.D. 787. This year came ships. And on the 8th of June the king died.",
      ["A.D. 787. ", "And on the 8th of June"],
    ),
    ("A.D. 787. On 3 Non. Maii he died.", ["A.D. 787. On 3 Non. Maii"]),
    ("In June, in the year 787, he came.", ["In June, in the year 787"]),
    # Of two months the first is stated.
    ("On June 5, July 6 he came.", ["On June 5"]),
    ("The abbot died on 3 Non. Maii.", [""]),
    ("This year he came.", [""]),
  ],
)
def test_sections_know_where_the_date_at_their_head_ends(text, dates):
  sections = western.read_western_sections(0, text)
  assert [text[s.start : s.date_end] for s in sections] == dates


@pytest.mark.parametrize(
  ("text", "kind", "statement"),
  [
    ("A.D. 787.", sections.NAMED, ("year", "CE", 787)),
    ("787", sections.NAMED, ("year", "CE", 787)),
    ("JUNE.", sections.MONTH, ("month", 6)),
  ],
)
def test_headings_are_one_section(text, kind, statement):
  (section,) = western.read_western_sections(0, text, True)
  assert (section.kind, section.statements) == (kind, (statement,))
  assert section.date_end == len(text)
  assert section.is_heading
