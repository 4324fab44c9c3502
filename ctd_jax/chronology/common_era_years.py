"""Years of the common era in questions: "722 BCE", 「公元前722-720年」.

`date_grammar` reads a year that is written out in Chinese, 「公元1069年」, and
the months and seasons after it. Here are the forms without 年 and ranges that
leave out the era of one end, and the English words on which side of a year a
window lies. Years are astronomical, 0 = 1 BCE.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from ctd_jax.chronology.numerals import DateError
from ctd_jax.utils.notes import Note

_ERA = r"(?:A\.?\s?D\.?|B\.?\s?C\.?(?:\s?E\.?)?|C\.?\s?E\.?)"
_ERA_AFTER = rf"(?:{_ERA}|(?:bce?|ce|ad)(?![a-z]))(?![A-Za-z])"
_CHINESE_ERA = r"[公西][元曆歷历]\s*"
_RANGE = (
  r"\s*(?:[-–—~～]+|\.{2,}|(?<=\.)\.|…+|to|until|till|through|and|至|到|迄)\s*"
)
_LATIN_YEARS = re.compile(
  rf"(?:(?<![A-Za-z])(?P<before>{_ERA})\s*)?(?<![\d.\-])(?P<first>\d{{1,4}})(?!\d)"
  rf"(?:\s*(?P<after>{_ERA_AFTER}))?"
  rf"(?:{_RANGE}(?:(?<![A-Za-z])(?P<last_before>{_ERA})\s*)?(?P<last>\d{{1,4}})"
  rf"(?![\d\-年月])(?:\s*(?P<last_after>{_ERA_AFTER}))?)?"
)
# A year with 年 alone, and a month or season after it, are read by the grammar.
_CHINESE_YEARS = re.compile(
  rf"(?:(?P<era>{_CHINESE_ERA})(?P<before>前)?|(?<![之以此])(?P<bare_before>前))"
  r"\s*(?P<first>\d{1,4})(?!\d)"
  rf"(?:\s*年?{_RANGE}(?P<last_era>{_CHINESE_ERA})?(?P<last_before>前)?\s*"
  r"(?P<last>\d{1,4})(?:\s*年(?!\s*[春夏秋冬正閏一二三四五六七八九十\d])"
  r"|(?!\s*[\d年月個]))|(?!\s*年))"
)
_GLOSS = re.compile(r"\S\s*[(（\[]\s*(?:即|=|i\.e\.)?\s*\Z")
_MAX_GLOSS = 12
_MIN_BARE_DIGITS = 3
_SIDE = re.compile(
  r"\b(?:(?P<before>before|prior\s+to|earlier\s+than)"
  r"|(?P<after>after|later\s+than|following)"
  r"|(?P<since>since|from)|(?P<until>until|till|up\s+to|by))"
  r"\s+(?:the\s+)?(?:year\s+)?\Z",
  re.IGNORECASE,
)
# Months and seasons in English are those of another calendar than a question's.
_PART_OF_YEAR = re.compile(
  r"\b(?:months?|[Ss]pring|[Ss]ummer|[Aa]utumn|[Ww]inter|January|February|March"
  r"|April|May|June|July|August|September|October|November|December)\b"
)
_LENGTH = re.compile(
  r"\b(?:years?|months?|decades?|seasons?|century|centuries)\s+\Z",
  re.IGNORECASE,
)


class EraYear(NamedTuple):
  """A year of the common era.

  Attributes:
    start: position of its first character.
    end: position after its last.
    year: astronomical.
    has_era: whether it or the other end of its range is printed with an era.
  """

  start: int
  end: int
  year: int
  has_era: bool = True


def find_common_era_years(text: str) -> list[EraYear]:
  """Returns years without 年, and both ends of ranges, in order.

  A number counts with an era, and without one as an end of a range of two
  years of three digits or more. An end without an era has that of the other;
  a range from a year BCE to a larger number ends in the common era. A year in
  brackets after a date says the same again: 「太康元年（280 CE）」 has none.

  Raises:
    DateError: for a year 0, which the common era lacks.
  """
  years = [
    year
    for match in _CHINESE_YEARS.finditer(text)
    for year in _read_chinese_years(match, text)
  ]
  for match in _LATIN_YEARS.finditer(text):
    if not any(
      match.start() < year.end and year.start < match.end() for year in years
    ):
      years += _read_latin_years(match, text)
  return sorted(
    year
    for year in years
    if not _GLOSS.search(text[max(year.start - _MAX_GLOSS, 0) : year.start])
  )


def find_open_window(text: str, year: EraYear) -> str | None:
  """Returns the side of a year that English words before it ask for.

  Args:
    text: a question.
    year: the only one in it.

  Returns:
    "before" or "after" (the year is excluded), "until" or "since" (it is one of
    them), or None for the year itself.

  Raises:
    DateError: if a month, a season or a length of time stands before it, as in
      "three years after 1069 CE".
  """
  part = _PART_OF_YEAR.search(text, 0, year.start)
  if part is not None:
    raise DateError(
      Note("problem.date.western_month", text=part[0]),
      text,
      part.start(),
    )
  match = _SIDE.search(text, 0, year.start)
  if match is None:
    return None
  side = match.lastgroup
  if side in ("before", "after") and _LENGTH.search(text, 0, match.start()):
    raise DateError(
      Note("problem.date.length"),
      text,
      match.start(),
    )
  return side


def _read_chinese_years(match: re.Match[str], text: str) -> list[EraYear]:
  is_before = bool(match["before"] or match["bare_before"])
  if match["era"] is None and len(match["first"]) < _MIN_BARE_DIGITS:
    return []
  if match["last"] is None:
    return [
      _make_year(match, "first", match.start(), match.end(), is_before, text)
    ]
  is_last_before = bool(match["last_before"]) or (
    is_before
    and match["last_era"] is None
    and int(match["last"]) <= int(match["first"])
  )
  first_end = match.end("first")
  last_start = min(
    match.start(group)
    for group in ("last_era", "last_before", "last")
    if match[group] is not None
  )
  return [
    _make_year(match, "first", match.start(), first_end, is_before, text),
    _make_year(match, "last", last_start, match.end(), is_last_before, text),
  ]


def _read_latin_years(match: re.Match[str], text: str) -> list[EraYear]:
  era = match["before"] or match["after"]
  if match["last"] is None:
    if era is None:
      return []
    return [
      _make_year(
        match, "first", match.start(), match.end(), _is_before(era), text
      )
    ]
  last_era = match["last_before"] or match["last_after"]
  first, last = int(match["first"]), int(match["last"])
  has_era = era is not None or last_era is not None
  if not has_era:
    digits = min(len(match["first"]), len(match["last"]))
    if digits < _MIN_BARE_DIGITS or last < first:
      return []
  if last_era is None:
    is_last_before = era is not None and _is_before(era) and last <= first
  else:
    is_last_before = _is_before(last_era)
  is_before = is_last_before if era is None else _is_before(era)
  first_end = match.end("after") if match["after"] else match.end("first")
  last_start = match.start("last_before" if match["last_before"] else "last")
  return [
    year._replace(has_era=has_era)
    for year in (
      _make_year(match, "first", match.start(), first_end, is_before, text),
      _make_year(match, "last", last_start, match.end(), is_last_before, text),
    )
  ]


def _is_before(era: str) -> bool:
  return era[0] in "Bb"


def _make_year(
  match: re.Match[str],
  group: str,
  start: int,
  end: int,
  is_before: bool,
  text: str,
) -> EraYear:
  number = int(match[group])
  if number == 0:
    raise DateError(Note("problem.date.year_zero"), text, match.start(group))
  return EraYear(start, end, 1 - number if is_before else number)
