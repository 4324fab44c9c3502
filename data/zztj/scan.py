"""Months of the entries of 資治通鑑, with and without its year headings.

The scanner of `chronology.annals` was written for the Annals. This book dates
in the same way, by omission, and differs in three things: its leap months fall
anywhere in the year; it goes back in time with 「初」 and the like; and where
an edition has lost the year headings, only seasons that begin again show a new
year.
"""

from __future__ import annotations

import dataclasses
import re

from ctd_jax.chronology import annals, date_expressions, numerals
from ctd_jax.chronology.timelines import TimeKey

# In a punctuated text a season is set off, or a month follows it. Elsewhere the
# character belongs to a word: the state 夏, the general 麻秋, 冬至.
_NON_SEASON_PATTERN = re.compile(
  rf"[{date_expressions.SEASONS}](?![，、]|閏?(?:正|{numerals.NUMERAL_PATTERN})?月)"
)
# An entry with one of these openings looks back; its dates move no scan.
_RETROSPECTIVE_OPENINGS = ("初，", "先是，", "初、", "始，", "昔，")


@dataclasses.dataclass
class ChronicleScanner(annals.MonthScanner):
  """The date that a reader carries through the chronicle.

  Attributes:
    counts_years: whether a season that begins again opens the next year. For
      texts without year headings; the year is then any running number.
    season: last season named since the year began.
  """

  counts_years: bool = False
  season: int = 0  # 0 = none yet, 1 = 春 ... 4 = 冬

  def enter_year(self, year: int) -> None:
    """Goes to 正月 of `year`, unless the scan is already in it."""
    if year != self.year:
      self.season = 0
    super().enter_year(year)

  def advance_by_cue(self, cue: date_expressions.DateCue) -> TimeKey | None:
    """Returns the month after reading one date cue.

    As in the annals, but 閏月 belongs to the month it follows, whichever that
    is: the calendar of the period puts it anywhere.
    """
    if cue.leap and cue.month is None:
      return self.key
    if cue.season is not None:
      self.season = date_expressions.SEASONS.index(cue.season) + 1
    return super().advance_by_cue(cue)

  def read_entry_month(self, text: str) -> TimeKey | None:
    """Returns the month of an entry: the scan after its opening date."""
    for cue in annals.find_opening_cues(text):
      if self.counts_years and self._opens_year(cue):
        self.enter_year(self.year + 1)
      self.advance_by_cue(cue)
    return self.key

  def _opens_year(self, cue: date_expressions.DateCue) -> bool:
    """Returns whether a cue can only belong to another year.

    A season is named once a year, with its first entry; so one that is not
    later than the last is the next year's. 正月 after another month is, too.
    """
    if not self.year or cue.year is not None:
      return False
    if cue.season is not None:
      return date_expressions.SEASONS.index(cue.season) + 1 <= self.season
    return cue.month == 1 and not cue.leap and self.month > 1


def date_entry(
  text: str, scanner: ChronicleScanner
) -> list[tuple[str, TimeKey]]:
  """Returns the segments of an entry with their months; moves the scan.

  Args:
    text: one punctuated entry.
    scanner: standing at the end of the entry before; moved, unless the entry
      looks back.

  Returns:
    (segment, month) in order; the segments join to `text`. Empty if the scan
    has no year yet.
  """
  if is_retrospective(text):
    return [(text, scanner.key)] if scanner.key else []
  # The mask has the same length, so segments of it are segments of the text.
  dated_segments, start = [], 0
  for segment, key in annals.split_entry_by_month(
    _NON_SEASON_PATTERN.sub("□", text), scanner
  ):
    dated_segments.append((text[start : start + len(segment)], key))
    start += len(segment)
  return dated_segments


def is_retrospective(text: str) -> bool:
  """Returns whether an entry looks back: 「初，…」."""
  return text.startswith(_RETROSPECTIVE_OPENINGS)
