"""Months of the entries of an annals: a scan that carries the date along.

A chronicle dates by omission. 「三月」 means the third month of the year last
named, and an entry without any date belongs to the month before it.
`MonthScanner` carries (reign, year, month) from entry to entry, and
`split_entry_by_month` cuts a long narrative where a new month opens a sentence.

Source: ChunQiuTR section 6.2 (sequential pass over reign, year and month
cues). Two conventions are added, without which far fewer months are filled
than the paper reports: seasons and leap months, see
`MonthScanner.advance_by_cue`.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable

from ctd_jax.chronology import date_expressions
from ctd_jax.chronology.date_grammar import FIRST_MONTH_OF_SEASON
from ctd_jax.chronology.timelines import MONTHS_PER_YEAR, TimeKey

# The most precise part of a month's date that an entry prints; sexagenary days
# name no month.
(
  PRINTED_MONTH,
  PRINTED_LEAP_MONTH,
  PRINTED_SEASON,
  PRINTED_YEAR,
  PRINTED_NO_DATE,
) = PRINTED_DATES = (
  "month",
  "leap month",
  "season",
  "year",
  "nothing",
)

_MONTHS_PER_SEASON = 3
# A leap month stood at the end of the year in the practice of Lu.
_MIN_YEAR_END_MONTH = 10
SENTENCE_ENDS = "。；！？"
_CLAUSE_END = re.compile(f"[{SENTENCE_ENDS}]")
_OPENING_QUOTES, _CLOSING_QUOTES = "「『“‘", "」』”’"
# 「三月者何」 asks about the words of the entry; it dates nothing.
_GLOSS_PARTICLES = "者之而"


@dataclasses.dataclass
class MonthScanner:
  """Date that a reader carries through an annals.

  Attributes:
    reigns: ruler's name -> number; other names are of no ruler of this annals
      and are ignored.
    reign: of the scan position; 0 before the first ruler.
    year: regnal year; 0 before the first year is named.
    month: 1-12.
  """

  reigns: dict[str, int] = dataclasses.field(default_factory=dict)
  reign: int = 0
  year: int = 0
  month: int = 1

  @property
  def key(self) -> TimeKey | None:
    """The month of the scan position, None before a year is known."""
    if not self.reign or not self.year:
      return None
    return TimeKey(self.reign, self.year, self.month)

  def enter_reign(self, reign: int) -> None:
    """Moves to 元年 正月 of `reign`, unless the scan is already in it."""
    if reign != self.reign:
      self.reign, self.year, self.month = reign, 1, 1

  def enter_year(self, year: int) -> None:
    """Moves to 正月 of `year`, unless the scan is already in it."""
    if year != self.year:
      self.year, self.month = year, 1

  def advance_by_cue(self, cue: date_expressions.DateCue) -> TimeKey | None:
    """Returns the month after reading one date cue, and moves there.

    Reign, year, then month or season are applied; a day or a sexagenary year
    changes nothing. A season without a month moves to its first month unless
    the scan is already inside that season. 閏月 moves to month 12 if the scan
    stands at 10 or later, else it changes nothing: the annals have no month 13.

    Args:
      cue: from `date_expressions.find_date_cues`.

    Returns:
      The new scan position, None while no year is known.
    """
    if cue.reign in self.reigns:
      self.enter_reign(self.reigns[cue.reign])
    if cue.year is not None:
      self.enter_year(cue.year)
    if cue.leap and cue.month is None:
      if self.month >= _MIN_YEAR_END_MONTH:
        self.month = MONTHS_PER_YEAR
    elif cue.month is not None:
      self.month = cue.month
    elif cue.season is not None:
      first_month = FIRST_MONTH_OF_SEASON[cue.season]
      if not first_month <= self.month < first_month + _MONTHS_PER_SEASON:
        self.month = first_month
    return self.key

  def read_entry_month(self, text: str) -> TimeKey | None:
    """Returns the month of an entry: the scan position after its opening date.

    Only the cues at its start count; a later date belongs to the narrative.
    """
    for cue in find_opening_cues(text):
      self.advance_by_cue(cue)
    return self.key


def find_opening_cues(text: str) -> list[date_expressions.DateCue]:
  """Returns the cues at the start of `text`, with only punctuation between.

  「元年，春，王正月」 may be several cues.
  """
  cues, end = [], 0
  for cue in date_expressions.find_date_cues(text):
    if text[end : cue.start].strip("，、：。 ") or _is_gloss(text, cue):
      break
    cues.append(cue)
    end = cue.end
  return cues


def classify_printed_date(text: str) -> str:
  """Returns the most precise printed date of an entry, of `PRINTED_DATES`."""
  cues = find_opening_cues(text)
  if any(cue.month is not None for cue in cues):
    return PRINTED_MONTH
  if any(cue.leap for cue in cues):
    return PRINTED_LEAP_MONTH
  if any(cue.season is not None for cue in cues):
    return PRINTED_SEASON
  if any(cue.year is not None for cue in cues):
    return PRINTED_YEAR
  return PRINTED_NO_DATE


def split_entry_by_month(
  text: str, scanner: MonthScanner, comment_marks: str = ""
) -> list[tuple[str, TimeKey]]:
  """Returns the parts of an entry with their months, and moves the scan.

  A long narrative goes on over months: a part begins where a season or month
  later than the scan position opens a sentence outside quotation. Earlier
  dates, dates of days and dates inside speech begin no part.

  Args:
    text: one punctuated entry.
    scanner: at the end of the entry before; it is moved.
    comment_marks: characters that mark a sentence as commentary, which never
      begins a part; for texts in which entry and commentary alternate.

  Returns:
    (part, month) in order; the parts join to `text`. Nothing if the scan has
    no year yet.
  """
  key = scanner.read_entry_month(text)
  if key is None:
    return []
  dated_segments, start = [], 0
  is_sentence_start = make_sentence_start_test(text)
  leading_cues = find_opening_cues(text)
  opening_end = leading_cues[-1].end if leading_cues else 0
  for cue in date_expressions.find_date_cues(text):
    if (
      cue.start < opening_end
      or not is_sentence_start(cue.start)
      or _is_gloss(text, cue)
    ):
      continue
    # A year inside an entry is told of, not entered.
    if cue.reign is not None or cue.year is not None:
      continue
    if set(comment_marks) & set(_rest_of_sentence(text, cue.end)):
      continue
    next_scanner = dataclasses.replace(scanner)
    if next_scanner.advance_by_cue(cue) <= key:
      continue
    dated_segments.append((text[start : cue.start], key))
    key, start = scanner.advance_by_cue(cue), cue.start
  dated_segments.append((text[start:], key))
  return dated_segments


def make_sentence_start_test(
  text: str, end_marks: str = SENTENCE_ENDS
) -> Callable[[int], bool]:
  """Returns a test: does this position open a sentence outside quotation?

  Args:
    text: punctuated.
    end_marks: what ends a sentence; with more marks, a clause.
  """
  depth, start_positions = 0, set()
  for position, character in enumerate(text):
    if depth == 0 and position and text[position - 1] in end_marks:
      start_positions.add(position)
    if character in _OPENING_QUOTES:
      depth += 1
    elif character in _CLOSING_QUOTES:
      depth = max(0, depth - 1)
      # 「…。」冬 : the speech's own full stop ends the sentence.
      if depth == 0 and position and text[position - 1] in end_marks:
        start_positions.add(position + 1)
  return start_positions.__contains__


def _rest_of_sentence(text: str, start: int) -> str:
  end = _CLAUSE_END.search(text, start)
  return text[start : end.start() if end else None]


def _is_gloss(text: str, cue: date_expressions.DateCue) -> bool:
  return text[cue.end : cue.end + 1] in tuple(_GLOSS_PARTICLES)
