"""Sections of records: where they begin and what they print of their dates."""

import pytest

from ctd_jax.chronology import reign_tables
from ctd_jax.dating.sequence import month_calendar
from ctd_jax.dating.sequence import sections as section_lib
from ctd_jax.dating.sequence.transitions import (
  DAY,
  MONTH,
  NAMED,
  NO_DATE,
  SEASON,
  STREAM,
  YEAR,
)

HEADER = "\t".join(reign_tables.TABLE_COLUMNS)
ERAS = (
  f"{HEADER}\n安初\t滄\t300\t1\t3\t\tinvented\n"
  "永熹\t滄\t302\t6\t4\t永喜\tinvented\n"
)


@pytest.fixture(scope="module")
def eras(tmp_path_factory):
  path = tmp_path_factory.mktemp("eras") / "table.tsv"
  path.write_text(ERAS, encoding="utf-8")
  return month_calendar.read_calendar(path)


def read(text, eras):
  """Returns (kind, statements) of every section, whose spans cover the text."""
  sections = section_lib.read_sections(0, text, eras)
  assert "".join(text[s.start : s.stop] for s in sections) == text
  return [(s.kind, s.statements) for s in sections]


def cut(text, eras):
  """Returns the text of every section."""
  sections = section_lib.read_sections(0, text, eras)
  return [text[s.start : s.stop] for s in sections]


@pytest.mark.parametrize(
  ("text", "expected"),
  [
    ("地震。", [(NO_DATE, ())]),
    ("春，正月，城成。", [(SEASON, (("month", 1),))]),
    ("秋，大水。", [(SEASON, (("season", 2),))]),
    # 夏 is a name here.
    ("夏人來朝。", [(NO_DATE, ())]),
    ("閏月，乙酉，雨雪。", [(MONTH, (("leap", None), ("day", 21)))]),
    ("丁酉，大赦。", [(DAY, (("day", 33),))]),
    ("八月壬辰朔，日有食之。", [(MONTH, (("month", 8), ("first day", 28)))]),
    ("大赦。辛未，晦，雨雪。", [(NO_DATE, ()), (DAY, (("last day", 7),))]),
    (
      "二年，春，大水。",
      [(YEAR, (("year", None, 2), ("season", 0)))],
    ),
    ("永喜二年三月，大水。", [(NAMED, (("year", "永熹", 2), ("month", 3)))]),
    (
      "夏，五月，出師。秋，八月，師還。",
      [(SEASON, (("month", 5),)), (SEASON, (("month", 8),))],
    ),
    # Speech opens no section.
    ("王曰：「來。夏，五月，必勝。」", [(NO_DATE, ())]),
    ("初，五月，王出。", [(NO_DATE, ())]),
    ("大赦，改元永熹。", [(NO_DATE, (("era", "永熹"),))]),
    ("【滄安初】", [(NAMED, (("year", "安初", 0),))]),
    ("經", [(STREAM, ())]),
    ("傳二年春，大水。", [(STREAM, (("year", None, 2), ("season", 0)))]),
  ],
)
def test_sections_hold_what_their_dates_say(text, expected, eras):
  assert read(text, eras) == expected
