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
MAX_YEAR = 5000
# Log of the chance that what is printed is wrong, against that it is right.
LOG_ERROR_ODDS = {
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
# The names of `WRONG` that are days, in the order of `sexagenary.DAY_MARKS`.
DAY_STATEMENTS = ("day", "first day", "last day")
_LOG_NEAR_LEAP_ODDS = (
  -2.0
)  # 閏五月 where 閏四月 is computed, or an ordinary 五月
# A record that opens so tells what came before; its dates are not its own.
_FLASHBACK_OPENINGS = ("初，", "初、", "先是，", "始，", "昔，")
_NEW_ERA_VERBS = ("改元", "改年", "建元", "年號")
_PUNCTUATION = "，、：。；． \u3000"
_SEASON_DELIMITERS = "，、。；："

DateStatement = tuple[Hashable, ...]


@dataclasses.dataclass(frozen=True)
class Calendar:
  """The months of a reign table in order, each once.

  Attributes:
    timeline: the table, for readers of dates.
    years: astronomical year of each month, int [K].
    months: 1-12, int [K].
    is_leap: whether the month is intercalary, bool [K].
    reign_indices: place in the table of the reign in use, int [K].
    day_spans: Julian day number of each month's first and its length, int [K, 2];
      None where the calendar is not computed.
  """

  timeline: Timeline
  years: np.ndarray
  months: np.ndarray
  is_leap: np.ndarray
  reign_indices: np.ndarray
  day_spans: np.ndarray | None

  def __len__(self) -> int:
    """Number of months."""
    return len(self.years)

  def name_month(self, ordinal: int) -> tuple[str, int, str]:
    """Returns (reign, regnal year, month) of a month, e.g. 晉泰始, 1, 閏三."""
    reign = self.timeline.reigns[self.reign_indices[ordinal]]
    year = int(self.years[ordinal]) - reign.accession + 1
    month = f"{'閏' * bool(self.is_leap[ordinal])}{self.months[ordinal]}"
    return reign.state + reign.name, year, month

  def day_chances(self) -> np.ndarray:
    """Returns the chance that a month has a day, first, last, [S, K, D]."""
    if self.day_spans is None:
      years, year_of = np.unique(self.years, return_inverse=True)
      chances = days_lib.make_lunations(
        years, year_of, self.months
      ).day_chances_by_offset()
    else:
      first, length = self.day_spans.T[..., None]
      day_offset = np.arange(
        sexagenary.CYCLE_LENGTH
      ) - sexagenary.cyclic_index_of_day(first)
      chances = (day_offset % sexagenary.CYCLE_LENGTH < length)[None].astype(
        float
      )
      chances = days_lib.add_day_marks(chances)
    return chances.reshape(*chances.shape[:2], -1)

  def regnal_years(self) -> np.ndarray:
    """Returns the regnal year of each month in each reign, 0 = none, [R, K]."""
    rows = []
    for reign in self.timeline.reigns:
      regnal_year = self.years - reign.accession + 1
      rows.append(
        np.where(
          (regnal_year >= 1) & (regnal_year <= reign.years), regnal_year, 0
        )
      )
    return np.stack(rows)


def read_calendar(path: pathlib.Path) -> Calendar:
  """Returns the months of a reign table.

  Args:
    path: TSV as `reign_tables.read_reign_table` reads it.

  Raises:
    ValueError: naming file, line and column of what cannot be read.
    FileNotFoundError: if there is no such file.
  """
  try:
    rows = reign_tables.read_reign_table(path)
  except UnicodeDecodeError as error:
    raise ValueError(f"{path}: not UTF-8 ({error.reason})") from error
  for line, row in enumerate(rows, start=2):
    if not -MAX_YEAR <= row.accession <= row.accession + row.years < MAX_YEAR:
      raise ValueError(
        f"{path}, line {line}: columns 'accession' and 'years' should stay "
        f"between -{MAX_YEAR} and {MAX_YEAR}"
      )
  with path.open(encoding="utf-8", newline="") as file:
    table = csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
    first_months = [int(row["month"]) for row in table]
  return make_calendar(Timeline(path.stem, rows), first_months)


def make_calendar(timeline: Timeline, first_months: Sequence[int]) -> Calendar:
  """Returns the months of a timeline's reigns, leap months computed.

  Args:
    timeline: rows in order of time; gaps and overlaps are allowed.
    first_months: month of the first year in which the count of each reign began.
  """
  reign_of_month: dict[tuple[int, int], int] = {}
  for reign_index, (reign, first_month) in enumerate(
    zip(timeline.reigns, first_months, strict=True)
  ):
    for year in range(reign.accession, reign.accession + reign.years):
      for month in range(1, MONTHS_PER_YEAR + 1):
        is_in_use = year > reign.accession or month >= first_month
        # Reigns go by time, so a later name takes the month over.
        if is_in_use or (year, month) not in reign_of_month:
          reign_of_month[year, month] = reign_index
  is_computed = timeline.reigns[0].accession >= FIRST_COMPUTED_YEAR
  rows, spans = [], []
  if is_computed:
    years_in_table = {year for year, _ in reign_of_month}
    for year, month, leap, first, length in _iter_lunations(
      min(years_in_table), max(years_in_table)
    ):
      if year in years_in_table:
        rows.append((year, month, leap, reign_of_month[year, month]))
        spans.append((first, length))
  else:
    rows = [
      (*date, False, reign_of_month[date]) for date in sorted(reign_of_month)
    ]
  years, months, leaps, reign_indices = map(np.array, zip(*rows, strict=True))
  return Calendar(
    timeline,
    years,
    months,
    leaps,
    reign_indices,
    np.array(spans) if spans else None,
  )


def _iter_lunations(
  first_year: int, last_year: int
) -> Iterator[tuple[int, int, bool, int, int]]:
  """Yields the months of the years first..last as they passed.

  Year, month, leap, Julian day number of the first day, and length. A year can
  lack a month: 237 CE has no third, its calendar was reformed.
  """
  import sxtwl

  moons = sexagenary.find_new_moons(
    sexagenary.to_julian_day(first_year - 1, 11, 1),
    sexagenary.to_julian_day(last_year + 1, 4, 30),
  )
  year, month = first_year - 1, 1
  for moon, next_moon in itertools.pairwise(moons):
    day = sxtwl.fromSolar(*sexagenary.to_civil_date(moon))
    # The library has no number for a second twelfth month (239 CE), and the
    # years 690-700, which began two months early, run back in it.
    lunar_month = day.getLunarMonth() or MONTHS_PER_YEAR
    lunar_year = max(day.getLunarYear(), year)
    is_leap = day.isLunarLeap() or (lunar_year, lunar_month) == (year, month)
    year, month = lunar_year, lunar_month
    if first_year <= year <= last_year:
      yield year, month, is_leap, moon, next_moon - moon


@dataclasses.dataclass(frozen=True)
class Section:
  """A stretch of a record under one date.

  Attributes:
    record: number of the record, from 0.
    kind: what opens it, a class of `motion`.
    statements: of its date, each a name of `WRONG` and its value.
  """

  record: int
  kind: int
  statements: tuple[DateStatement, ...] = ()


def read_sections(record: int, text: str, calendar: Calendar) -> list[Section]:
  """Returns the sections of a record, at least one.

  Args:
    record: its number.
    text: one record, punctuated or not.
    calendar: whose reign names to look for.
  """
  heading = _find_heading(text, calendar.timeline)
  if heading is not None:
    return [Section(record, transitions.YEAR, (("year", heading, 0),))]
  if text.startswith(_FLASHBACK_OPENINGS):
    return [Section(record, transitions.NO_DATE)]
  opens_sentence = annals.make_sentence_start_test(text)
  sections: list[tuple[int, list[DateStatement]]] = [(transitions.NO_DATE, [])]
  date_end = 0  # of the date that is being read
  for cue in date_expressions.find_date_cues(text, calendar.timeline):
    continues_date = not text[date_end : cue.start].strip(_PUNCTUATION)
    season = cue.season
    if season and not (cue.month or cue.leap or cue.day):
      # A season is set off or goes before a month; else it is a name.
      is_delimited = text[cue.end : cue.end + 1] in ("", *_SEASON_DELIMITERS)
      season = season if is_delimited or not _is_punctuated(text) else None
    kind = _classify_cue(cue, season)
    if kind != transitions.NO_DATE and (
      continues_date or opens_sentence(cue.start)
    ):
      statements = _read_date_statements(cue, season, text)
      if continues_date:
        last_kind, last_statements = sections[-1]
        sections[-1] = (max(last_kind, kind), last_statements + statements)
      else:
        sections.append((kind, statements))
      date_end = cue.end
    elif cue.day and kind == transitions.NO_DATE:
      sections[-1][1].append(_read_day_statement(cue, text))
      date_end = cue.end if continues_date else date_end
  sections[0][1].extend(_find_new_eras(text, calendar.timeline))
  return [
    Section(record, kind, tuple(statements)) for kind, statements in sections
  ]


def _is_punctuated(text: str) -> bool:
  return any(mark in text for mark in "，。")


def _classify_cue(cue: date_expressions.DateCue, season: str | None) -> int:
  """Returns the class of a section that the cue opens."""
  if cue.year is not None or cue.year_cycle:
    return transitions.YEAR
  if season:
    return transitions.SEASON
  return transitions.MONTH if cue.month or cue.leap else transitions.NO_DATE


def _read_date_statements(
  cue: date_expressions.DateCue, season: str | None, text: str
) -> list[DateStatement]:
  """Returns what a cue says of the date."""
  statements: list[DateStatement] = []
  if cue.year is not None:
    statements.append(("year", cue.reign, cue.year))
  if cue.year_cycle:
    statements.append(("cycle", sexagenary.parse_cyclic_index(cue.year_cycle)))
  if cue.leap:
    statements.append(("leap", cue.month))
  elif cue.month:
    statements.append(("month", cue.month))
  elif season:
    statements.append(("season", date_expressions.SEASONS.index(season)))
  if cue.day:
    statements.append(_read_day_statement(cue, text))
  return statements


def _read_day_statement(
  cue: date_expressions.DateCue, text: str
) -> DateStatement:
  """Returns what a cue says of its day, 「壬辰朔」 or 「辛未，朔」."""
  mark = sexagenary.find_day_mark(text, cue.end)
  return DAY_STATEMENTS[mark], sexagenary.parse_cyclic_index(cue.day)


def _find_heading(text: str, timeline: Timeline) -> str | None:
  """Returns the reign that is all a line names: 「莊公」, 【僖公】."""
  heading = text.strip(_PUNCTUATION + "【】《》〈〉〔〕[]#＃")
  for reign in timeline.reigns:
    for name in (reign.name, *reign.aliases):
      if heading in (name, reign.state + name):
        return reign.name
  return None


def _find_new_eras(text: str, timeline: Timeline) -> list[DateStatement]:
  """Returns the eras that a record says begin, as in 「改元太康」."""
  if not any(verb in text for verb in _NEW_ERA_VERBS):
    return []
  statements: dict[DateStatement, None] = {}
  for reign in timeline.reigns:
    for name in (reign.name, *reign.aliases):
      if any(verb + name in text for verb in _NEW_ERA_VERBS):
        statements["era", reign.name] = None
  return list(statements)


class RecordEmissions:
  """log p(section | month) of all sections, made block by block when called.

  Attributes:
    kinds: class of every section, int32 [N].
    first_sections: first section of every record, int [records].
    statement_counts: how often each name of `WRONG` is said.
    offset_transition: chances of the calendar's place from section to section, [S, S];
      None where it is computed.
  """

  def __init__(self, sections: Iterable[Section], calendar: Calendar):
    sections = list(sections)
    self.kinds = np.array([section.kind for section in sections], np.int32)
    records = np.array([section.record for section in sections])
    self.first_sections = np.flatnonzero(np.diff(records, prepend=-1))
    statements = [
      (row, statement)
      for row, section in enumerate(sections)
      for statement in section.statements
    ]
    self.statement_counts = collections.Counter(
      name for _, (name, *_) in statements
    )
    month_statements = dict.fromkeys(
      statement
      for _, statement in statements
      if statement[0] not in DAY_STATEMENTS
    )
    column_of = {
      statement: column for column, statement in enumerate(month_statements)
    }
    self._statement_matrix = _count_pairs(
      [
        (row, column_of[statement])
        for row, statement in statements
        if statement in column_of
      ],
      (len(sections), max(len(column_of), 1)),
    )
    self._day_matrix = _count_pairs(
      [
        (row, _day_column(*statement))
        for row, statement in statements
        if statement not in column_of
      ],
      (len(sections), len(DAY_STATEMENTS) * sexagenary.CYCLE_LENGTH),
    )
    self._statement_log_p = np.zeros(
      (max(len(column_of), 1), len(calendar)), np.float32
    )
    regnal_years = calendar.regnal_years()
    for statement, column in column_of.items():
      self._statement_log_p[column] = _log_statement_chances(
        statement, calendar, regnal_years
      )
    # Where no day is said there is no need of new moons.
    all_days = np.ones((1, len(calendar), self._day_matrix.shape[1]))
    self._day_log_p = _log_day_chances(
      calendar.day_chances() if self._day_matrix.nnz else all_days
    )
    self.offset_transition = (
      days_lib.make_offset_transition()
      if self._day_log_p.shape[1] > 1
      else None
    )

  def __call__(self, start: int, stop: int) -> np.ndarray:
    """Returns the evidence of sections start..stop, float32 [B, S, K]."""
    statement_log_p = self._statement_matrix[start:stop] @ self._statement_log_p
    day_log_p = np.tensordot(
      self._day_matrix[start:stop].toarray(), self._day_log_p, 1
    )
    return statement_log_p[:, None] + day_log_p


def _day_column(name: str, day: int) -> int:
  """Returns the place of a day in D."""
  return DAY_STATEMENTS.index(name) * sexagenary.CYCLE_LENGTH + day


def _count_pairs(
  pairs: Iterable[tuple[int, int]], shape: tuple[int, int]
) -> scipy.sparse.csr_array:
  """Returns how often each (row, column) is among the pairs."""
  rows, columns = np.array([*pairs], int).reshape(-1, 2).T
  ones = np.ones(len(rows), np.float32)
  return scipy.sparse.csr_array((ones, (rows, columns)), shape)


def _log_day_chances(day_chances: np.ndarray) -> np.ndarray:
  """Returns log p(day | place, month), up to a constant, float32 [D, S, K]."""
  error_odds = np.exp([LOG_ERROR_ODDS[name] for name in DAY_STATEMENTS]).repeat(
    sexagenary.CYCLE_LENGTH
  )
  # 0 where the day is sure to be held.
  log_chances = np.log(1 - (1 - error_odds) * (1 - day_chances))
  return np.moveaxis(log_chances, -1, 0).astype(np.float32)


def _log_statement_chances(
  statement: DateStatement, calendar: Calendar, regnal_years: np.ndarray
) -> np.ndarray:
  """Returns log p(said | month) [K], up to a constant."""
  statement_name, *arguments = statement
  num_months = len(calendar)
  is_match = np.zeros(num_months, bool)
  mismatch_log_p = np.full(num_months, LOG_ERROR_ODDS[statement_name])
  if statement_name == "month":
    is_match = calendar.months == arguments[0]
  elif statement_name == "season":
    is_match = (calendar.months - 1) // 3 == arguments[0]
  elif statement_name == "leap":
    if calendar.day_spans is None:
      is_match = calendar.months == (arguments[0] or MONTHS_PER_YEAR)
    else:
      is_match = calendar.is_leap & np.isin(
        calendar.months, arguments[0] or range(13)
      )
    if arguments[0]:
      mismatch_log_p[
        abs(calendar.months - arguments[0]) <= calendar.is_leap
      ] = _LOG_NEAR_LEAP_ODDS
  elif statement_name == "cycle":
    is_match = sexagenary.cyclic_index_of_year(calendar.years) == arguments[0]
  else:
    reign_name = arguments[0]
    regnal_year = arguments[1] if statement_name == "year" else 1
    is_regnal_year = (
      (regnal_years == regnal_year) if regnal_year else (regnal_years > 0)
    )
    for reign_index, reign in enumerate(calendar.timeline.reigns):
      if reign_name in (None, reign.name):
        is_match |= is_regnal_year[reign_index]
    if not is_match.any():
      return np.zeros(num_months)
  return np.where(is_match, 0.0, mismatch_log_p)
