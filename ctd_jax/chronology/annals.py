"""Months for the entries of an annals: the scan that carries a date along.

Why: a chronicle dates by omission. 「三月」 means the third month of the year
last named, and an entry without any date belongs to the month before it. The
`Scanner` carries (reign, year, month) from entry to entry, and
`split_entry` cuts a long narrative where a new month opens a clause.
Called by the data set builders; what they yield are `Record`s.

Source: ChunQiuTR section 6.2 (sequential pass over reign, year and month
cues). Two conventions are added, without which far fewer months are filled
than the paper reports: seasons and leap months, see `Scanner.advance`.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterable

from ctd_jax.chronology import date_expressions
from ctd_jax.chronology.timelines import MONTHS_PER_YEAR, TimeKey

EVENT = "event"
NO_EVENT = "no_event"
NEG_COMMENT = "neg_comment"
KINDS = (EVENT, NO_EVENT, NEG_COMMENT)
# What a query can be answered with; a comment never is the answer.
ANSWERING_KINDS = (EVENT, NO_EVENT)

# What an entry prints of its month; 干支 days tell no month.
MONTH, LEAP_MONTH, SEASON, YEAR, NO_DATE = PRINTED_DATES = (
  "month",
  "leap month",
  "season",
  "year",
  "nothing",
)

FIRST_MONTH = {"春": 1, "夏": 4, "秋": 7, "冬": 10}
_SEASON_MONTHS = 3
# A leap month stood at the end of the year in the annals' own practice.
_YEAR_END = 10
SENTENCE_ENDS = "。；！？"
_CLAUSE_END = re.compile(f"[{SENTENCE_ENDS}]")
_OPENING, _CLOSING = "「『“‘", "」』”’"
# 「三月者何」 asks about the words of the entry, it dates nothing.
_ABOUT_WORDS = "者之而"


@dataclasses.dataclass(frozen=True)
class Record:
  """A dated text of the gallery.

  Attributes:
    record_id: unique within a data set; tells nothing about order or time.
    text: as retrieved.
    source: the work it comes from, e.g. "zuozhuan" or "kong_yingda".
    kind: "event", "no_event" (placeholder of an empty month) or
      "neg_comment" (later commentary, never a positive).
    key: month it is filed under.
    order: position inside its work, from 0; -1 if it is not known. Metadata:
      only systems of track T0+order may read it.
    version: event it belongs to: records of one month, from several works,
      that tell of the same event or explain it share a version (paper,
      Figure 5); "" for a placeholder and for commentary on a whole month.
      Metadata like `key`: no retriever may read it.
    match_score: of commentary, how well the place it was filed under fits,
      0-1; 1 for all else.
  """

  record_id: str
  text: str
  source: str
  kind: str
  key: TimeKey
  order: int
  version: str = ""
  match_score: float = 1.0

  def __post_init__(self):
    if self.kind not in KINDS:
      raise ValueError(
        f"kind of record {self.record_id!r} is one of {KINDS}, "
        f"not {self.kind!r}"
      )


@dataclasses.dataclass
class Scanner:
  """The date that a reader carries through an annals.

  Attributes:
    reigns: number of each ruler's name; a name that is not here is no ruler
      of this annals and is passed over.
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
    """Goes to 元年 正月 of `reign`, unless the scan is already in it."""
    if reign != self.reign:
      self.reign, self.year, self.month = reign, 1, 1

  def enter_year(self, year: int) -> None:
    """Goes to 正月 of `year`, unless the scan is already in it."""
    if year != self.year:
      self.year, self.month = year, 1

  def advance(self, cue: date_expressions.Cue) -> TimeKey | None:
    """Returns the month after reading one date cue.

    Args:
      cue: as `expressions.find_cues` gives it. Reign, then year, then season
        or month; a day or a sexagenary year changes nothing. A season without
        a month goes to its first month unless the scan is already inside that
        season. 閏月 goes to month 12 when the scan stands at 10 or later, else
        it stays where it is. The annals have no month 13.

    Returns:
      The new scan position, None while no year is known.
    """
    if cue.reign in self.reigns:
      self.enter_reign(self.reigns[cue.reign])
    if cue.year is not None:
      self.enter_year(cue.year)
    if cue.leap and cue.month is None:
      if self.month >= _YEAR_END:
        self.month = MONTHS_PER_YEAR
    elif cue.month is not None:
      self.month = cue.month
    elif cue.season is not None:
      first = FIRST_MONTH[cue.season]
      if not first <= self.month < first + _SEASON_MONTHS:
        self.month = first
    return self.key

  def read(self, text: str) -> TimeKey | None:
    """Returns the month of an entry: the scan after its opening date.

    Only cues that stand at the very start count; a date further on belongs to
    the narrative.
    """
    for cue in opening_cues(text):
      self.advance(cue)
    return self.key


def opening_cues(text: str) -> list[date_expressions.Cue]:
  """Returns the cues that open `text`, one after another.

  「元年，春，王正月」 may be several cues with punctuation between them.
  """
  cues, end = [], 0
  for cue in date_expressions.find_cues(text):
    if text[end : cue.start].strip("，、：。 ") or _about_words(text, cue):
      break
    cues.append(cue)
    end = cue.end
  return cues


def printed_date(text: str) -> str:
  """Returns what dates an entry by itself, one of `PRINTED_DATES`."""
  cues = opening_cues(text)
  if any(cue.month is not None for cue in cues):
    return MONTH
  if any(cue.leap for cue in cues):
    return LEAP_MONTH
  if any(cue.season is not None for cue in cues):
    return SEASON
  if any(cue.year is not None for cue in cues):
    return YEAR
  return NO_DATE


def split_entry(
  text: str, scanner: Scanner, explaining: str = ""
) -> list[tuple[str, TimeKey]]:
  """Returns the parts of an entry with their months, and moves the scan.

  A part begins where a season or month that is later than the scan position
  opens a sentence outside quotation: a long narrative goes on over months.
  Dates that go back, dates of days and dates inside speech do not cut.

  Args:
    text: one punctuated entry.
    scanner: standing at the end of the entry before; moved.
    explaining: characters that show a sentence to be commentary, which never
      begins a part. For texts in which entry and commentary alternate.

  Returns:
    (part, month) in order; the parts join to `text`. Nothing if the scan has
    no year yet.
  """
  key = scanner.read(text)
  if key is None:
    return []
  parts, start = [], 0
  opens = sentence_openings(text)
  skip = opening_cues(text)
  first = skip[-1].end if skip else 0
  for cue in date_expressions.find_cues(text):
    if cue.start < first or not opens(cue.start) or _about_words(text, cue):
      continue
    if cue.reign is not None or cue.year is not None:
      continue
    if set(explaining) & set(_sentence_from(text, cue.end)):
      continue
    ahead = dataclasses.replace(scanner)
    if ahead.advance(cue) <= key:
      continue
    parts.append((text[start : cue.start], key))
    key, start = scanner.advance(cue), cue.start
  parts.append((text[start:], key))
  return parts


def sentence_openings(
  text: str, ends: str = SENTENCE_ENDS
) -> Callable[[int], bool]:
  """Returns a test: does this position open a sentence outside quotation?

  Args:
    text: punctuated.
    ends: what ends a sentence; with more marks, a clause.
  """
  depth, places = 0, set()
  for position, character in enumerate(text):
    if depth == 0 and position and text[position - 1] in ends:
      places.add(position)
    if character in _OPENING:
      depth += 1
    elif character in _CLOSING:
      depth = max(0, depth - 1)
      # 「…。」冬 : the speech's own full stop ends the sentence.
      if depth == 0 and position and text[position - 1] in ends:
        places.add(position + 1)
  return places.__contains__


def _sentence_from(text: str, start: int) -> str:
  end = _CLAUSE_END.search(text, start)
  return text[start : end.start() if end else None]


def months_of(records: Iterable[Record], kind: str = EVENT) -> set[TimeKey]:
  """Returns the months that hold at least one record of `kind`."""
  return {record.key for record in records if record.kind == kind}


def _about_words(text: str, cue: date_expressions.Cue) -> bool:
  return text[cue.end : cue.end + 1] in tuple(_ABOUT_WORDS)
