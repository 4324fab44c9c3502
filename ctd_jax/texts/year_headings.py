"""Year headings of Western annals: "A.D. 787.", "787", "An. dccxcvii."."""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Sequence
from typing import NamedTuple

from ctd_jax.chronology.western_dates import parse_roman_numeral
from ctd_jax.texts.works import HEADING, TEXT, Entry, Note, Place

_ERA_BEFORE = (
  r"(?:A\.?\s?D\.?|A\.|C\.?\s?E\.?|B\.?\s?C\.?(?:\s?E\.?)?"
  r"|Anno(?:\s+Domini)?|Ann?\.|Year|Annal)"
)
_ERA_AFTER = r"(?:A\.?\s?D\.?|B\.?\s?C\.?(?:\s?E\.?)?|C\.?\s?E\.?)"
_HEADING = re.compile(
  rf"(?P<bracket>[\[(])?(?:(?P<before>{_ERA_BEFORE})\s*)?"
  r"(?P<year>\d{1,4}|[ivxlcdm]{1,15})(?:\s*[-–/]\s*(?P<last>\d{1,4}))?"
  rf"(?:\s*(?P<after>{_ERA_AFTER}))?[\])]?"
  r"(?P<end>\.?\s*(?:[—–]|--?)\s*|[.:,;]+\s+|[.:,;]*\s*\Z|(?P<space>\s+))",
  re.IGNORECASE,
)
# "U431.1:": year and item of the Irish annals.
_ITEM_HEADING = re.compile(r"[A-Z]{1,3}(?P<year>\d{3,4})\.\d{1,3}\b[.:]?\s*")
_MIN_BARE_DIGITS = 3
_MONTHS = (
  r"(?:january|february|march|april|may|june|july|august|september|october"
  r"|november|december|januar(?:y|ius|ii)|februarius|martius|aprilis|maius"
  r"|junius|iunius|julius|iulius|augustus|octobris|novembris|decembris"
  r"|mense\s+\w+|jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec)"
)
_MONTH_LINE = re.compile(
  rf"[\[(]?(?:(?:in|the\s+month\s+of)\s+)?{_MONTHS}\.?(?:,?\s+\d{{3,4}})?[.:,)\]]*\Z",
  re.IGNORECASE,
)
_LATIN_LETTER = re.compile(r"[A-Za-z\u00c0-\u024f]")
_MIN_HEADINGS = 3
_MIN_UNLABELLED_YEAR = 100
_MIN_ORDERED_SHARE = 0.9


class YearHeading(NamedTuple):
  """A year that opens a paragraph.

  Attributes:
    year: astronomical: 0 is 1 BCE.
    has_era: whether "A.D.", "BC" or "Anno" is printed.
    end: how many characters of the paragraph the heading takes.
  """

  year: int
  has_era: bool
  end: int


def match_year_heading(text: str) -> YearHeading | None:
  """Returns the year that opens `text` as its heading, or None.

  A number or Roman numeral that a full stop, colon, comma, dash, the end of the
  text or a capital follows: "In 787 he came" has no heading. Source: headings
  of the English, Irish and Latin annals in print.
  """
  item = _ITEM_HEADING.match(text)
  if item is not None:
    return YearHeading(int(item["year"]), False, item.end())
  match = _HEADING.match(text)
  if match is None:
    return None
  number = match["year"]
  year = int(number) if number.isdecimal() else parse_roman_numeral(number)
  era = f"{match['before'] or ''}{match['after'] or ''}"
  if not year or (not number.isdecimal() and len(number) < 2):
    return None
  if match["space"] and not (
    text[match.end()].isupper()
    and (era or match["bracket"] or len(number) >= _MIN_BARE_DIGITS)
    and (era or number.isdecimal())
  ):
    return None
  if "b" in era.lower():
    year = 1 - year
  return YearHeading(year, bool(era), match.end())


def is_month_line(text: str) -> bool:
  """Whether a text is the name of a month and no more, as a heading is."""
  return _MONTH_LINE.match(text) is not None


def split_year_headings(entries: Sequence[Entry]) -> list[Entry]:
  """Returns entries with the years of Western annals as headings.

  A text is taken for annals if it is written in an alphabet, at least three
  paragraphs open with a year, and the years run forwards; without an era
  ("787.") they have to go beyond 100, for lists are numbered too. What follows
  a year stands under it, and months that stand alone under their year.
  """
  years = {
    index: heading
    for index, entry in enumerate(entries)
    if entry.kind in (TEXT, HEADING)
    and (heading := match_year_heading(entry.text)) is not None
  }
  if not _are_annals(entries, list(years.values())):
    return list(entries)
  result = []
  upper: tuple[str, ...] = ()
  year_text: tuple[str, ...] = ()
  month_text: tuple[str, ...] = ()
  for index, entry in enumerate(entries):
    if entry.kind == HEADING or entry.headings != upper:
      year_text = month_text = ()
      upper = entry.headings
    if entry.kind == TEXT and index in years:
      end = years[index].end
      heading = _cut_entry(entry, 0, end)
      result.append(dataclasses.replace(heading, kind=HEADING))
      year_text, month_text = (heading.text,), ()
      if not entry.text[end:].strip():
        continue
      entry = _cut_entry(entry, end, len(entry.text))
    elif entry.kind == TEXT and is_month_line(entry.text):
      result.append(
        dataclasses.replace(entry, kind=HEADING, headings=upper + year_text)
      )
      month_text = (entry.text,)
      continue
    result.append(
      dataclasses.replace(entry, headings=upper + year_text + month_text)
    )
  return result


def _are_annals(
  entries: Sequence[Entry], headings: Sequence[YearHeading]
) -> bool:
  if len(headings) < _MIN_HEADINGS:
    return False
  sample = "".join(entry.text[:200] for entry in entries[:200])
  if len(_LATIN_LETTER.findall(sample)) < len(sample) / 2:
    return False
  years = [heading.year for heading in headings]
  num_ordered = sum(
    year <= following for year, following in itertools.pairwise(years)
  )
  if num_ordered < _MIN_ORDERED_SHARE * (len(years) - 1):
    return False
  return (
    sum(heading.has_era for heading in headings) * 2 >= len(headings)
    or max(years) >= _MIN_UNLABELLED_YEAR
  )


def _cut_entry(entry: Entry, start: int, end: int) -> Entry:
  """Returns the part of an entry from `start` to `end`, blanks trimmed."""
  part = entry.text[start:end]
  start += len(part) - len(part.lstrip())
  end = start + len(part.strip())
  is_last = end == len(entry.text)
  line_starts: list[tuple[int, Place]] = [(0, entry.place_at(start))]
  line_starts += [
    (position - start, place)
    for position, place in entry.line_starts
    if start < position < end
  ]
  notes = tuple(
    Note(max(0, note.position - start), note.text, note.place, note.kind)
    for note in entry.notes
    if (note.position > start or start == 0)
    and (note.position <= end or is_last)
  )
  return dataclasses.replace(
    entry,
    text=part.strip(),
    place=line_starts[0][1],
    notes=notes,
    line_starts=tuple(line_starts),
  )
