"""Regnal dates in English, written as the readers of dates know them.

"the fifth month of the first year of Duke Yin of Lu" is 「魯隱公元年五月」, and
"the reign of Duke Xi" 「僖公年間」. Rulers are those whose names in Latin
letters `reign_tables.make_reign_labels` knows.
"""

from __future__ import annotations

import re

from ctd_jax.chronology import numerals, reign_tables
from ctd_jax.chronology.timelines import MONTHS_PER_YEAR, Timeline
from ctd_jax.chronology.western_dates import read_count

_ORDINAL = r"(?:\d{1,2}(?:st|nd|rd|th)?|[a-z]+(?:[-\s][a-z]+)?)"
_DATE = re.compile(
  rf"(?:(?:the\s+)?(?:(?P<leap>intercalary|leap)\s+)?(?:(?P<month>{_ORDINAL})\s+month"
  r"|(?P<season>spring|summer|autumn|fall|winter))\s+(?:of|in)\s+)?"
  rf"(?:the\s+)?(?P<year>{_ORDINAL})\s+(?:regnal\s+)?year\s+(?:of|in)\s+"
  r"(?:the\s+reign\s+of\s+)?(?:Duke\s+)?(?P<ruler>[A-Z][a-z]+)(?:\s+of\s+Lu\b)?",
  re.IGNORECASE,
)
_REIGN = re.compile(
  r"(?:the\s+)?(?:reign|time|days)\s+of\s+(?:Duke\s+)?(?P<ruler>[A-Z][a-z]+)"
  r"(?:\s+of\s+Lu\b)?",
  re.IGNORECASE,
)
_SEASONS = {
  "spring": "春",
  "summer": "夏",
  "autumn": "秋",
  "fall": "秋",
  "winter": "冬",
}


def translate_dates(text: str, timeline: Timeline) -> tuple[str, list[str]]:
  """Returns a question with its English regnal dates in Chinese.

  Args:
    text: the question.
    timeline: whose rulers it names.

  Returns:
    The question, and a note on each date that was translated.
  """
  rulers: dict[str, int] = {}
  for number, label in enumerate(
    reign_tables.make_reign_labels(timeline), start=1
  ):
    rulers.setdefault(label.lower(), number)
  notes = []

  def translate(match: re.Match[str]) -> str:
    number = rulers.get(match["ruler"].lower())
    date = number and _translate_date(match, timeline.full_reign_name(number))
    if not date:
      return match[0]
    notes.append(f"{match[0]!r} is read as {date}")
    return f" {date} "

  text = _DATE.sub(translate, text)
  return _REIGN.sub(translate, text), notes


def _translate_date(match: re.Match[str], name: str) -> str:
  """Returns the date in Chinese; "" if a number is none."""
  if "year" not in match.re.groupindex:
    return f"{name}年間"
  year = read_count(match["year"].lower())
  if not 0 < year < 100:
    return ""
  date = f"{name}{'元' if year == 1 else numerals.format_numeral(year)}年"
  if match["season"]:
    return date + _SEASONS[match["season"].lower()]
  if not match["month"]:
    return date
  month = read_count(match["month"].lower())
  if not 1 <= month <= MONTHS_PER_YEAR:
    return ""
  leap = "閏" if match["leap"] else ""
  number = "正" if month == 1 else numerals.format_numeral(month)
  return f"{date}{leap}{number}月"
