"""What the records of a chronicle print of their dates, on a table's months.

Why: `order_decoder` wants the evidence of every record for every month and
what the record prints of its date. Both are read from the text alone: opening
dates, days of the sexagenary cycle, names of eras. A record goes on over
months (「夏，四月，…五月，…」), so it is read as sections, each under the date
that opens a sentence. Called by `ctd_jax.date`.

A calendar here is a line of months as they passed: where eras overlap, a month
is one month with several names. From 104 BCE on new moons, leap months and so
the days of every month are computed (`sxtwl`). Before, only the new moons are:
which lunation came first is one of four places (see `days`), between which the
decoder chooses; a leap month counts as month 12, which it mostly followed.

Axis letters: N sections, K months, V different things said of dates, R reigns,
S places of the calendar (one where it is computed), D = 3 x 60 days: any day of
a month, its first and its last.
"""

from __future__ import annotations

import collections
import csv
import dataclasses
import itertools
import pathlib
from collections.abc import Hashable, Iterable, Iterator, Sequence

import numpy as np
import scipy.sparse

from ctd_jax.chronology import (
  annals,
  date_expressions,
  reign_tables,
  sexagenary,
)
from ctd_jax.chronology.timelines import MONTHS_PER_YEAR, Timeline
from ctd_jax.dating.experts import days as days_lib
from ctd_jax.dating.sequence import transitions

# The calendar reform of 104 BCE, 太初元年.
FIRST_COMPUTED_YEAR = -103
# Beyond it no calendar of a chronicle is meant.
MOST_YEAR = 5000
# Log of the chance that what is printed is wrong, against that it is right.
WRONG = {
  "month": -6.0,
  "leap": -4.0,
  "season": -5.0,
  "day": -3.0,
  # Most wrong days fit a month by chance, few its first or last day.
  "first day": -6.0,
  "last day": -6.0,
  "year": -5.0,
  "cycle": -4.0,
  "era": -2.0,
}
# The names of `WRONG` that are days, in the order of `cyclic_days.MARKS`.
DAYS = ("day", "first day", "last day")
_NEAR_LEAP = -2.0  # 閏五月 where 閏四月 is computed, or an ordinary 五月
# A record that opens so tells what came before; its dates are not its own.
_LOOKS_BACK = ("初，", "初、", "先是，", "始，", "昔，")
_NEW_ERA = ("改元", "改年", "建元", "年號")
_MARKS = "，、：。；． \u3000"
_SET_OFF = "，、。；："

Said = tuple[Hashable, ...]


@dataclasses.dataclass(frozen=True)
class Calendar:
  """The months of a reign table in order, each once.

  Attributes:
    timeline: the table, for readers of dates.
    years: astronomical year of each month, int [K].
    months: 1-12, int [K].
    leap: whether the month is intercalary, bool [K].
    reigns: place in the table of the reign in use, int [K].
    days: Julian day number of each month's first and its length, int [K, 2];
      None where the calendar is not computed.
  """

  timeline: Timeline
  years: np.ndarray
  months: np.ndarray
  leap: np.ndarray
  reigns: np.ndarray
  days: np.ndarray | None

  def __len__(self) -> int:
    """Number of months."""
    return len(self.years)

  def name(self, ordinal: int) -> tuple[str, int, str]:
    """Returns (reign, regnal year, month) of a month, e.g. 晉泰始, 1, 閏三."""
    row = self.timeline.reigns[self.reigns[ordinal]]
    year = int(self.years[ordinal]) - row.accession + 1
    month = f"{'閏' * bool(self.leap[ordinal])}{self.months[ordinal]}"
    return row.state + row.name, year, month

  def held(self) -> np.ndarray:
    """Returns the chance that a month has a day, first, last, [S, K, D]."""
    if self.days is None:
      years, year_of = np.unique(self.years, return_inverse=True)
      held = days_lib.lunations(years, year_of, self.months).held_at()
    else:
      first, length = self.days.T[..., None]
      day = np.arange(sexagenary.CYCLE) - sexagenary.day_of(first)
      held = (day % sexagenary.CYCLE < length)[None].astype(float)
      held = days_lib.marked(held)
    return held.reshape(*held.shape[:2], -1)

  def regnal_years(self) -> np.ndarray:
    """Returns the regnal year of each month in each reign, 0 = none, [R, K]."""
    rows = []
    for row in self.timeline.reigns:
      year = self.years - row.accession + 1
      rows.append(np.where((year >= 1) & (year <= row.years), year, 0))
    return np.stack(rows)


def read_calendar(path: pathlib.Path) -> Calendar:
  """Returns the months of a reign table.

  Args:
    path: TSV as `reigns.read_table` reads it.

  Raises:
    ValueError: naming file, line and column of what cannot be read.
    FileNotFoundError: if there is no such file.
  """
  try:
    rows = reign_tables.read_table(path)
  except UnicodeDecodeError as error:
    raise ValueError(f"{path}: not UTF-8 ({error.reason})") from error
  for line, row in enumerate(rows, start=2):
    if not -MOST_YEAR <= row.accession <= row.accession + row.years < MOST_YEAR:
      raise ValueError(
        f"{path}, line {line}: columns 'accession' and 'years' should stay "
        f"between -{MOST_YEAR} and {MOST_YEAR}"
      )
  with path.open(encoding="utf-8", newline="") as file:
    table = csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
    begins = [int(row["month"]) for row in table]
  return make_calendar(Timeline(path.stem, rows), begins)


def make_calendar(timeline: Timeline, begins: Sequence[int]) -> Calendar:
  """Returns the months of a timeline's reigns, leap months computed.

  Args:
    timeline: rows in order of time; gaps and overlaps are allowed.
    begins: month of the first year in which the count of each reign began.
  """
  named: dict[tuple[int, int], int] = {}
  for place, (row, begin) in enumerate(
    zip(timeline.reigns, begins, strict=True)
  ):
    for year in range(row.accession, row.accession + row.years):
      for month in range(1, MONTHS_PER_YEAR + 1):
        used = year > row.accession or month >= begin
        # Reigns go by time, so a later name takes the month over.
        if used or (year, month) not in named:
          named[year, month] = place
  computed = timeline.reigns[0].accession >= FIRST_COMPUTED_YEAR
  rows, spans = [], []
  if computed:
    passed = {year for year, _ in named}
    for year, month, leap, first, length in _lunations(
      min(passed), max(passed)
    ):
      if year in passed:
        rows.append((year, month, leap, named[year, month]))
        spans.append((first, length))
  else:
    rows = [(*date, False, named[date]) for date in sorted(named)]
  years, months, leaps, places = map(np.array, zip(*rows, strict=True))
  return Calendar(
    timeline, years, months, leaps, places, np.array(spans) if spans else None
  )


def _lunations(
  first: int, last: int
) -> Iterator[tuple[int, int, bool, int, int]]:
  """Yields the months of the years first..last as they passed.

  Year, month, leap, Julian day number of the first day, and length. A year can
  lack a month: 237 CE has no third, its calendar was reformed.
  """
  import sxtwl

  moons = sexagenary.new_moons(
    sexagenary.julian_day_number(first - 1, 11, 1),
    sexagenary.julian_day_number(last + 1, 4, 30),
  )
  year, month = first - 1, 1
  for moon, following in itertools.pairwise(moons):
    day = sxtwl.fromSolar(*sexagenary.civil_date(moon))
    # The library has no number for a second twelfth month (239 CE), and the
    # years 690-700, which began two months early, run back in it.
    number = day.getLunarMonth() or MONTHS_PER_YEAR
    named = max(day.getLunarYear(), year)
    leap = day.isLunarLeap() or (named, number) == (year, month)
    year, month = named, number
    if first <= year <= last:
      yield year, month, leap, moon, following - moon


@dataclasses.dataclass(frozen=True)
class Section:
  """A stretch of a record under one date.

  Attributes:
    record: number of the record, from 0.
    kind: what opens it, a class of `motion`.
    said: of its date, each a name of `WRONG` and its value.
  """

  record: int
  kind: int
  said: tuple[Said, ...] = ()


def read_sections(record: int, text: str, calendar: Calendar) -> list[Section]:
  """Returns the sections of a record, at least one.

  Args:
    record: its number.
    text: one record, punctuated or not.
    calendar: whose reign names to look for.
  """
  heading = _heading(text, calendar.timeline)
  if heading is not None:
    return [Section(record, transitions.YEAR, (("year", heading, 0),))]
  if text.startswith(_LOOKS_BACK):
    return [Section(record, transitions.NOTHING)]
  opens = annals.sentence_openings(text)
  sections: list[tuple[int, list[Said]]] = [(transitions.NOTHING, [])]
  end = 0  # of the date that is being read
  for cue in date_expressions.find_cues(text, calendar.timeline):
    goes_on = not text[end : cue.start].strip(_MARKS)
    season = cue.season
    if season and not (cue.month or cue.leap or cue.day):
      # A season is set off or goes before a month; else it is a name.
      set_off = text[cue.end : cue.end + 1] in ("", *_SET_OFF)
      season = season if set_off or not _punctuated(text) else None
    kind = _kind(cue, season)
    if kind != transitions.NOTHING and (goes_on or opens(cue.start)):
      said = _said(cue, season, text)
      if goes_on:
        last, before = sections[-1]
        sections[-1] = (max(last, kind), before + said)
      else:
        sections.append((kind, said))
      end = cue.end
    elif cue.day and kind == transitions.NOTHING:
      sections[-1][1].append(_said_of_day(cue, text))
      end = cue.end if goes_on else end
  sections[0][1].extend(_new_eras(text, calendar.timeline))
  return [Section(record, kind, tuple(said)) for kind, said in sections]


def _punctuated(text: str) -> bool:
  return any(mark in text for mark in "，。")


def _kind(cue: date_expressions.Cue, season: str | None) -> int:
  """Returns the class of a section that the cue opens."""
  if cue.year is not None or cue.year_cycle:
    return transitions.YEAR
  if season:
    return transitions.SEASON
  return transitions.MONTH if cue.month or cue.leap else transitions.NOTHING


def _said(
  cue: date_expressions.Cue, season: str | None, text: str
) -> list[Said]:
  """Returns what a cue says of the date."""
  said: list[Said] = []
  if cue.year is not None:
    said.append(("year", cue.reign, cue.year))
  if cue.year_cycle:
    said.append(("cycle", sexagenary.index(cue.year_cycle)))
  if cue.leap:
    said.append(("leap", cue.month))
  elif cue.month:
    said.append(("month", cue.month))
  elif season:
    said.append(("season", date_expressions.SEASONS.index(season)))
  if cue.day:
    said.append(_said_of_day(cue, text))
  return said


def _said_of_day(cue: date_expressions.Cue, text: str) -> Said:
  """Returns what a cue says of its day, 「壬辰朔」 or 「辛未，朔」."""
  mark = sexagenary.mark(text, cue.end)
  return DAYS[mark], sexagenary.index(cue.day)


def _heading(text: str, timeline: Timeline) -> str | None:
  """Returns the reign that is all a line names: 「莊公」, 【僖公】."""
  bare = text.strip(_MARKS + "【】《》〈〉〔〕[]#＃")
  for row in timeline.reigns:
    for name in (row.name, *row.aliases):
      if bare in (name, row.state + name):
        return row.name
  return None


def _new_eras(text: str, timeline: Timeline) -> list[Said]:
  """Returns the eras that a record says begin, as in 「改元太康」."""
  if not any(verb in text for verb in _NEW_ERA):
    return []
  found: dict[Said, None] = {}
  for row in timeline.reigns:
    for name in (row.name, *row.aliases):
      if any(verb + name in text for verb in _NEW_ERA):
        found["era", row.name] = None
  return list(found)


class Evidence:
  """log p(section | month) of all sections, made block by block when called.

  Attributes:
    kinds: class of every section, int32 [N].
    first: first section of every record, int [records].
    counts: how often each name of `WRONG` is said.
    turn: chances of the calendar's place from section to section, [S, S];
      None where it is computed.
  """

  def __init__(self, sections: Iterable[Section], calendar: Calendar):
    sections = list(sections)
    self.kinds = np.array([s.kind for s in sections], np.int32)
    records = np.array([s.record for s in sections])
    self.first = np.flatnonzero(np.diff(records, prepend=-1))
    said = [(row, each) for row, s in enumerate(sections) for each in s.said]
    self.counts = collections.Counter(name for _, (name, *_) in said)
    others = dict.fromkeys(each for _, each in said if each[0] not in DAYS)
    places = {each: place for place, each in enumerate(others)}
    self._said = _counts(
      [(row, places[each]) for row, each in said if each in places],
      (len(sections), max(len(places), 1)),
    )
    self._days = _counts(
      [(row, _day_column(*each)) for row, each in said if each not in places],
      (len(sections), len(DAYS) * sexagenary.CYCLE),
    )
    self._table = np.zeros((max(len(places), 1), len(calendar)), np.float32)
    regnal = calendar.regnal_years()
    for each, place in places.items():
      self._table[place] = _log_chances(each, calendar, regnal)
    # Where no day is said there is no need of new moons.
    none = np.ones((1, len(calendar), self._days.shape[1]))
    self._held = _log_held(calendar.held() if self._days.nnz else none)
    self.turn = days_lib.turns() if self._held.shape[1] > 1 else None

  def __call__(self, start: int, stop: int) -> np.ndarray:
    """Returns the evidence of sections start..stop, float32 [B, S, K]."""
    said = self._said[start:stop] @ self._table
    held = np.tensordot(self._days[start:stop].toarray(), self._held, 1)
    return said[:, None] + held


def _day_column(name: str, day: int) -> int:
  """Returns the place of a day in D."""
  return DAYS.index(name) * sexagenary.CYCLE + day


def _counts(
  pairs: Iterable[tuple[int, int]], shape: tuple[int, int]
) -> scipy.sparse.csr_array:
  """Returns how often each (row, column) is among the pairs."""
  rows, columns = np.array([*pairs], int).reshape(-1, 2).T
  ones = np.ones(len(rows), np.float32)
  return scipy.sparse.csr_array((ones, (rows, columns)), shape)


def _log_held(held: np.ndarray) -> np.ndarray:
  """Returns log p(day | place, month), up to a constant, float32 [D, S, K]."""
  wrong = np.exp([WRONG[name] for name in DAYS]).repeat(sexagenary.CYCLE)
  # 0 where the day is sure to be held.
  log_held = np.log(1 - (1 - wrong) * (1 - held))
  return np.moveaxis(log_held, -1, 0).astype(np.float32)


def _log_chances(
  said: Said, calendar: Calendar, regnal: np.ndarray
) -> np.ndarray:
  """Returns log p(said | month) [K], up to a constant."""
  what, *values = said
  size = len(calendar)
  right = np.zeros(size, bool)
  near = np.full(size, WRONG[what])
  if what == "month":
    right = calendar.months == values[0]
  elif what == "season":
    right = (calendar.months - 1) // 3 == values[0]
  elif what == "leap":
    if calendar.days is None:
      right = calendar.months == (values[0] or MONTHS_PER_YEAR)
    else:
      right = calendar.leap & np.isin(calendar.months, values[0] or range(13))
    if values[0]:
      near[abs(calendar.months - values[0]) <= calendar.leap] = _NEAR_LEAP
  elif what == "cycle":
    right = sexagenary.year_of(calendar.years) == values[0]
  else:
    name = values[0]
    number = values[1] if what == "year" else 1
    fits = (regnal == number) if number else (regnal > 0)
    for place, row in enumerate(calendar.timeline.reigns):
      if name in (None, row.name):
        right |= fits[place]
    if not right.any():
      return np.zeros(size)
  return np.where(right, 0.0, near)
