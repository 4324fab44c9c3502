"""Months of the entries of an annals: a scan that carries the date along.

A chronicle dates by omission. 「三月」 means the third month of the year last
named, and an entry without any date belongs to the month before it.
`MonthScanner` carries (reign, year, month) from entry to entry, and
`split_entry_by_month` cuts a long narrative where a sentence mentions a new
month.

Source: ChunQiuTR section 6.2 (sequential pass over reign, year and month
cues). Two conventions are added, without which far fewer months are filled
than the paper reports: seasons and leap months, see
`MonthScanner.advance_by_cue`.
"""

import collections
import dataclasses
import re
from collections.abc import Callable

from ctd_jax.chronology import dates as dates_lib
from ctd_jax.chronology.dates import FIRST_MONTH_OF_SEASON
from ctd_jax.chronology.reigns import (
  MONTHS_PER_SEASON,
  MONTHS_PER_YEAR,
  TimeKey,
)

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

# A leap month stood at the end of the year in the practice of Lu.
_MIN_YEAR_END_MONTH = 10
SENTENCE_ENDS = "。；！？"
_CLAUSE_END = re.compile(f"[{SENTENCE_ENDS}]")
_CLAUSE_MARK = "，"
_OPENING_QUOTE_OF = {"」": "「", "』": "『", "”": "“", "’": "‘"}
_OPENING_QUOTES = frozenset(_OPENING_QUOTE_OF.values())
_LENGTH_OF_A_SEASON = 3  # months
# 「三月者何」 asks about the words of the entry; it dates nothing.
_GLOSS_PARTICLES = "者之而"


@dataclasses.dataclass
class MonthScanner:
  """Date that a reader carries through an annals."""

  # Ruler's name -> number; names of rulers outside this annals are ignored.
  reigns: dict[str, int] = dataclasses.field(default_factory=dict)
  reign: int = 0  # of the scan position; 0 before the first ruler
  year: int = 0  # regnal year; 0 before the first year is named
  month: int = 1  # 1-12

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

  def advance_by_cue(self, cue: dates_lib.DateCue) -> TimeKey | None:
    """Returns the month after reading one date cue, and moves there.

    Reign, year, then month or season are applied; a day or a sexagenary year
    changes nothing. A season without a month moves to its first month unless
    the scan is already inside that season. 閏月 moves to month 12 if the scan
    is at 10 or later, else it changes nothing: the annals have no month 13.
    The position is None while no year is known.
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
      if not first_month <= self.month < first_month + MONTHS_PER_SEASON:
        self.month = first_month
    return self.key

  def read_entry_month(self, text: str) -> TimeKey | None:
    """Returns the month of an entry: the scan position after its opening date.

    Only the cues at its start count; a later date belongs to the narrative.
    """
    for cue in find_opening_cues(text):
      self.advance_by_cue(cue)
    return self.key


def find_opening_cues(text: str) -> list[dates_lib.DateCue]:
  """Returns the cues at the start of `text`, with only punctuation between.

  「元年，春，王正月」 may be several cues.
  """
  cues, end = [], 0
  for cue in dates_lib.find_date_cues(text):
    if text[end : cue.start].strip("，、：。 ") or _is_gloss(text, cue):
      break
    cues.append(cue)
    end = cue.end
  return cues


def classify_printed_date(text: str) -> str:
  """Returns the most precise date that an entry prints, of `PRINTED_DATES`.

  The date that opens it, or the one within its first sentence, see
  `split_entry_by_month`.
  """
  cues = find_opening_cues(text) or [
    date.cue for date in _find_narrative_dates(text) if date.part_start == 0
  ]
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

  A long narrative continues over months: a part begins where a season or month
  later than the scan position opens a sentence outside quotation, or a clause
  in the middle of one. After a comma the date must be written as one, with a
  day or set off by a second comma; 「三月」 set off so may mean three months,
  and begins no part. What a sentence says before its only date is reason or
  circumstance, 「衛人平莒于我，十二月，盟于洮」, so the part begins with the
  sentence; after another date it begins with the clause.

  An earlier month is a look back and begins no part, with one exception: an
  entry may name the month of its outcome first and then tell how it came about.
  There an earlier month opens a sentence, and the month of the outcome is named
  once more after it. Dates of days and dates inside speech begin no part, nor
  does a sentence with one of the `comment_marks`, for texts in which entry and
  commentary alternate.

  The parts join to `text`. There are none if the scan has no year yet.
  """
  key = scanner.read_entry_month(text)
  if key is None:
    return []
  narrative_dates = [
    date
    for date in _find_narrative_dates(text)
    if set(comment_marks).isdisjoint(
      _CLAUSE_END.split(text[date.cue.end :], maxsplit=1)[0]
    )
  ]
  last_index_of_month = {
    date.cue.month: index for index, date in enumerate(narrative_dates)
  }
  dated_segments, start = [], 0
  for index, date in enumerate(narrative_dates):
    next_key = dataclasses.replace(scanner).advance_by_cue(date.cue)
    is_told_from_the_beginning = (
      date.opens_sentence and last_index_of_month.get(key.month, 0) > index
    )
    if next_key > key or (next_key < key and is_told_from_the_beginning):
      # The part may be the whole entry, whose first sentence dates it.
      if date.part_start > start:
        dated_segments.append((text[start : date.part_start], key))
      key, start = scanner.advance_by_cue(date.cue), date.part_start
  dated_segments.append((text[start:], key))
  return dated_segments


@dataclasses.dataclass(frozen=True)
class _NarrativeDate:
  """Season or month inside an entry that can begin a part."""

  cue: dates_lib.DateCue  # season or month
  opens_sentence: bool  # false if it opens a clause in the middle
  # Position of the clause, or of its sentence if no other date is in it
  # before.
  part_start: int


def _find_narrative_dates(text: str) -> list[_NarrativeDate]:
  """Returns the seasons and months after the opening date, in order."""
  opening_cues = find_opening_cues(text)
  opening_end = previous_end = opening_cues[-1].end if opening_cues else 0
  is_sentence_start = make_sentence_start_test(text)
  is_clause_start = make_sentence_start_test(text, _CLAUSE_MARK)
  dates = []
  for cue in dates_lib.find_date_cues(text):
    if cue.start < opening_end:
      continue
    opens_sentence = is_sentence_start(cue.start)
    # A year inside an entry is told of, not entered.
    if (
      (cue.month is not None or cue.leap or cue.season is not None)
      and cue.reign is None
      and cue.year is None
      and not _is_gloss(text, cue)
      and (
        opens_sentence
        or (is_clause_start(cue.start) and _is_written_as_date(text, cue))
      )
    ):
      part_start = next(
        (
          position
          for position in range(cue.start, previous_end - 1, -1)
          if position == 0 or is_sentence_start(position)
        ),
        cue.start,
      )
      dates.append(_NarrativeDate(cue, opens_sentence, part_start))
    previous_end = cue.end
  return dates


def _is_written_as_date(text: str, cue: dates_lib.DateCue) -> bool:
  """Returns whether a cue after a comma is a date by its form alone."""
  # 「，三月甲寅」 and 「，冬，」 are; 「，冬曰烝」 explains a word, and
  # 「三月」 is a length of time in 「圍之，三月，克之」.
  if cue.day is not None:
    return True
  if not text.startswith(_CLAUSE_MARK, cue.end):
    return False
  return cue.season is not None or cue.month != _LENGTH_OF_A_SEASON


def make_sentence_start_test(
  text: str, end_marks: str = SENTENCE_ENDS
) -> Callable[[int], bool]:
  """Returns a test: does this position open a sentence outside quotation?

  Editions forget marks of quotation. One that closes ends all quotations that
  were opened since its counterpart; one that opens directly inside another of
  its own kind shows that the other was not closed, for a quotation within a
  quotation has the other kind. Other `end_marks` test a clause.
  """
  open_quotes: list[str] = []
  num_open = collections.Counter()
  start_positions = set()
  for position, character in enumerate(text):
    if not open_quotes and position and text[position - 1] in end_marks:
      start_positions.add(position)
    if character in _OPENING_QUOTES:
      if open_quotes[-1:] != [character]:
        open_quotes.append(character)
        num_open[character] += 1
    elif character in _OPENING_QUOTE_OF:
      opening = _OPENING_QUOTE_OF[character]
      while num_open[opening]:
        closed = open_quotes.pop()
        num_open[closed] -= 1
        if closed == opening:
          break
      # 「…。」冬 : the speech's own full stop ends the sentence.
      if not open_quotes and position and text[position - 1] in end_marks:
        start_positions.add(position + 1)
  return start_positions.__contains__


def _is_gloss(text: str, cue: dates_lib.DateCue) -> bool:
  next_character = text[cue.end : cue.end + 1]
  # 「三月而葬」 is a length of time, 「十一月丙辰而滅之」 a date.
  if next_character == "而" and cue.day is not None:
    return False
  return next_character in tuple(_GLOSS_PARTICLES)
