"""Emissions: how strongly a printed date counts, log p(section | place).

Axes: N sections, B of a block, K months, P = K + 1 places: the months and,
last, outside the calendar; V different statements on months, S offsets of the
calendar (1 where days are known), D = 3 x 60 days: any day of a month, its
first, its last.
"""

import collections
import dataclasses
from collections.abc import Callable, Hashable, Mapping, Sequence

import numpy as np
import scipy.sparse
from jaxtyping import Bool, Float, Float32, Int
from scipy.special import expit, logsumexp

from ctd_jax.chronology import sexagenary
from ctd_jax.chronology.reigns import MONTHS_PER_YEAR
from ctd_jax.dating.chronicle import daily_entries, transition_model
from ctd_jax.dating.chronicle.calendar import Calendar, Readings
from ctd_jax.dating.chronicle.sections import (
  BETWEEN_DAYS,
  COMMON_DAYS_STATEMENT,
  COMMON_YEAR_STATEMENT,
  CYCLE_STATEMENT,
  DAY,
  DAY_STATEMENTS,
  MONTH,
  NAMED,
  NEXT_DAY,
  NO_DATE,
  NUMBERED_DAY_STATEMENT,
  RULED_YEAR_STATEMENT,
  SEASON,
  STREAM,
  TOLD_IN_ENTRY,
  TOLD_KINDS,
  TOLD_MONTH,
  TOLD_YEAR,
  YEAR,
  DateStatement,
  Section,
  find_statement,
)
from ctd_jax.dating.chronicle.transition_model import (
  Boundaries,
  TransitionModel,
)
from ctd_jax.dating.experts import date_features

# Log of the chance that what is printed is wrong, against that it is right.
LOG_ERROR_ODDS = {
  "month": -8.0,
  # One that somebody may but speak of.
  "doubtful month": -6.0,
  "leap": -4.0,
  "season": -5.0,
  # One of some months: a season that is not a quarter of the year.
  "months": -5.0,
  "day": -2.5,
  # Most wrong days fit a month by chance, few its first or last day.
  "first day": -6.0,
  "last day": -6.0,
  "month day": -3.0,
  # One of number and pair is wrong, or the month is.
  "numbered day": -3.0,
  "year": -9.0,
  # A year beside the pair of a near one.
  "doubtful year": -5.0,
  # A reign with its year: nothing but the whole text says otherwise.
  "named year": -14.0,
  # A bare year under a heading with a ruler is another's. In 左傳, 公羊傳 and
  # 穀梁傳 none of 1,448 is, but their headings are plain.
  "ruled year": -6.0,
  # An astronomical year, 「（1900年）」.
  "common year": -9.0,
  # The same with its month or day.
  "common days": -14.0,
  "cycle": -4.0,
  # Brackets or small type mark the year of an entry. It is misprinted more
  # rarely than the number of a year.
  "marked cycle": -12.0,
  "era": -2.0,
  # An era that the calendar lacks: it may be that of a document told of.
  "unknown era": -6.0,
}
# The same outside the calendar, against a month of it that fits: that a
# season is right by chance, and a step to its month would have been right too.
_LOG_OUTSIDE_CHANCES = {
  "month": -4.5,
  "doubtful month": -2.5,
  "leap": -5.0,
  "season": -3.5,
  "months": -3.5,
  "day": -2.0,
  "first day": -5.0,
  "last day": -5.0,
  "month day": 0.0,
  "numbered day": 0.0,
  "year": -6.0,
  "named year": LOG_ERROR_ODDS["named year"],
  "doubtful year": LOG_ERROR_ODDS["doubtful year"],
  "ruled year": LOG_ERROR_ODDS["ruled year"],
  "common year": -6.0,
  "common days": LOG_ERROR_ODDS["common days"],
  "cycle": -6.0,
  "marked cycle": -6.0,
  "era": LOG_ERROR_ODDS["era"],
  "unknown era": 0.0,
}
# 閏五月 where 閏四月 is computed, or an ordinary 五月; 五月 for 閏五月.
_LOG_NEAR_LEAP_ODDS = -2.0
# That a numeric date before 1582 is Julian and not Gregorian, as ISO has it.
_JULIAN_CHANCE = 0.4
# A year of a reign that the calendar has no more.
_LOG_PAST_YEAR_ODDS = -9.0
# A stretch of the text about another time (see `eras`): as much
# as a bare year with a month and a day can say.
LOG_OTHER_TIME_ODDS = -13.0
# Kinds of dates inside a record that may be told in retrospect. A season with
# its month is nearly always a date, and a day belongs to the month before it.
_KINDS_TOLD = {
  MONTH: TOLD_MONTH,
  YEAR: TOLD_YEAR,
  NAMED: TOLD_YEAR,
}
# Dates fixed by hand are certain; finite, so that two dates that exclude each
# other can be reported.
LOG_FIXED_ODDS = -1e4


def name_evidence(statement: DateStatement) -> str:
  """Returns the key of `LOG_ERROR_ODDS` for a statement."""
  name, *values = statement
  if name == CYCLE_STATEMENT and len(values) > 1:
    return "marked cycle"
  return "named year" if name == "year" and values[0] is not None else name


class SectionEmissions:
  """Log p(section | place) of all sections, computed when called.

  Attributes:
    kinds: kind of every section, int32 [N].
    statement_counts: number of times each kind of statement is printed.
    offset_transition: chances from offset to offset, [S, S]; None if the days
      of the calendar are known.
    allowed_months: number of a section -> months that it can be in.
  """

  def __init__(
    self,
    sections: Sequence[Section],
    calendar: Calendar,
    allowed_months: Mapping[int, Bool[np.ndarray, " K"]] | None = None,
  ):
    """Reads the statements of sections, in order of the text."""
    self.statement_counts = collections.Counter(
      name
      for section in sections
      for name, *_ in section.statements
      if name != RULED_YEAR_STATEMENT
    )
    sections = count_years(
      [name_calendars(section) for section in sections], calendar
    )
    # What a reader dates happened then; it is not told in retrospect.
    kinds = np.array(
      [
        _find_told_kind(section)
        if section.may_be_told and row not in (allowed_months or {})
        else section.kind
        for row, section in enumerate(sections)
      ],
      np.int32,
    )
    self.allowed_months = dict(allowed_months or {})
    self.kinds = daily_entries.mark_daily_entries(kinds, sections)
    fixed = [*self.allowed_months]
    self.kinds[fixed] = kinds[fixed]
    self._is_of_other_time = np.array(
      [section.is_of_other_time for section in sections]
    )
    statements = [
      (row, statement)
      for row, section in enumerate(sections)
      for statement in section.statements
    ]
    month_statements, self._statement_matrix = _count_pairs(
      [pair for pair in statements if pair[1][0] not in DAY_STATEMENTS],
      len(sections),
    )
    # Of the days, those that are printed.
    printed_days = [
      (row, find_day_column(*statement))
      for row, statement in statements
      if statement[0] in DAY_STATEMENTS
    ]
    days, self._day_matrix = _count_pairs(
      sorted(printed_days, key=lambda pair: pair[1]), len(sections)
    )
    self._statement_log_p = np.array(
      [score_statement(statement, calendar) for statement in month_statements]
      or np.zeros((1, len(calendar) + 1)),
      np.float32,
    )
    # Where no day is printed there is no need of new moons, and one offset.
    self._day_log_p = (
      _log_day_chances(calendar.day_chances[..., days], days)
      if days
      else np.zeros((1, 1, len(calendar) + 1), np.float32)
    )
    self.offset_transition = (
      date_features.make_offset_transition()
      if self._day_log_p.shape[1] > 1
      else None
    )

  def __call__(
    self, start: int, stop: int, months: slice | None = None
  ) -> Float32[np.ndarray, "B S P"]:
    """Returns log p of sections, up to a constant for each.

    `months` selects months beside outside the calendar; None for all.
    """
    # Rows of places: a section prints few statements and fewer days.
    if months is None:
      statement_log_p, day_log_p = self._statement_log_p, self._day_log_p
    else:
      statement_log_p, day_log_p = (
        np.concatenate([rows[..., months], rows[..., -1:]], axis=-1)
        for rows in (self._statement_log_p, self._day_log_p)
      )
    num_days, num_offsets, num_places = day_log_p.shape
    # [B, V] @ [V, P], the same at every offset; [B, D] @ [D, S x P].
    log_p = self._day_matrix[start:stop] @ day_log_p.reshape(num_days, -1)
    log_p = log_p.reshape(stop - start, num_offsets, num_places)
    log_p += (self._statement_matrix[start:stop] @ statement_log_p)[:, None]
    log_p[self._is_of_other_time[start:stop], :, :-1] += LOG_OTHER_TIME_ODDS
    for row in range(start, stop):
      if row in self.allowed_months:
        is_allowed = self.allowed_months[row][months or slice(None)]
        log_p[row - start][:, ~np.append(is_allowed, False)] += LOG_FIXED_ODDS
    return log_p


def _find_told_kind(section: Section) -> int:
  """Returns the kind of a section whose record may only mention its date."""
  _, reign, *_ = find_statement(section, "year") or (None, None)
  # 「是歲夏五月」 goes on with a year that the record quotes.
  return TOLD_YEAR if reign else _KINDS_TOLD.get(section.kind, section.kind)


def find_day_column(name: str, day: int) -> int:
  """Returns the index of a day in D."""
  return DAY_STATEMENTS.index(name) * sexagenary.CYCLE_LENGTH + day


def _count_pairs(
  pairs: Sequence[tuple[int, Hashable]], num_rows: int
) -> tuple[list, scipy.sparse.csr_array]:
  """Returns the different values, and their counts in each row, [N, V]."""
  values = list(dict.fromkeys(value for _, value in pairs))
  column_of = {value: column for column, value in enumerate(values)}
  rows = np.array([row for row, _ in pairs], int)
  columns = np.array([column_of[value] for _, value in pairs], int)
  # A matrix needs a column, even for texts that print none.
  return values, scipy.sparse.csr_array(
    (np.ones(len(pairs), np.float32), (rows, columns)),
    (num_rows, max(len(values), 1)),
  )


def _log_day_chances(
  day_chances: np.ndarray, days: Sequence[int]
) -> np.ndarray:
  """Returns log p(day | offset, place), up to a constant, float32 [D, S, P]."""
  log_odds, outside = (
    np.repeat([odds[name] for name in DAY_STATEMENTS], sexagenary.CYCLE_LENGTH)[
      days
    ]
    for odds in (LOG_ERROR_ODDS, _LOG_OUTSIDE_CHANCES)
  )
  # 0 if the month is sure to have the day.
  log_chances = np.log(1 - (1 - np.exp(log_odds)) * (1 - day_chances))
  outside = np.broadcast_to(outside, log_chances[:, :1].shape)
  log_chances = np.concatenate([log_chances, outside], axis=1)
  # In memory as its shape says, or every product would copy it.
  return np.ascontiguousarray(np.moveaxis(log_chances, -1, 0), np.float32)


def score_statement(
  statement: DateStatement, calendar: Calendar
) -> Float32[np.ndarray, " P"]:
  """Returns log p(statement on months | place), up to a constant."""
  if is_past_calendar(statement, calendar):
    # 「大中祥符九年」 of a table that ends with the eighth.
    in_calendar = np.full(len(calendar), _LOG_PAST_YEAR_ODDS, np.float32)
    return np.append(in_calendar, np.float32(0))
  outside = np.float32(_LOG_OUTSIDE_CHANCES[name_evidence(statement)])
  return np.append(_score_months(statement, calendar), outside)


def is_past_calendar(statement: DateStatement, calendar: Calendar) -> bool:
  """Returns whether a year is beyond the calendar's months of its reign."""
  name, *values = statement
  if name != "year" or values[0] is None or not values[1]:
    return False
  years = [
    calendar.timeline.reigns[row].accession + values[1] - 1
    for row in calendar.find_reigns(values[0])
  ]
  return bool(years) and not (
    find_reign_years(*values[:2], calendar).any()
    or np.isin(years, calendar.readings.years).any()
  )


def _score_months(
  statement: DateStatement, calendar: Calendar
) -> Float32[np.ndarray, " K"]:
  """Returns log p(statement | month), up to a constant."""
  name, *arguments = statement
  log_odds = LOG_ERROR_ODDS[name_evidence(statement)]
  if name == "unknown era":
    return np.full(len(calendar), log_odds, np.float32)
  if name in ("year", "doubtful year", "era", RULED_YEAR_STATEMENT):
    regnal_year = 1 if name == "era" else arguments[1]
    is_match = find_reign_years(arguments[0], regnal_year, calendar)
    # A year that the table lacks is evidence of nothing.
    if not is_match.any():
      return np.zeros(len(calendar), np.float32)
    return np.where(is_match, np.float32(0), np.float32(log_odds))
  log_p = _score_readings(name, arguments, log_odds, calendar)
  # The score of a lunation is that of its best reading.
  return np.maximum.reduceat(
    log_p + calendar.readings.log_weights, calendar.readings.starts
  ).astype(np.float32)


def find_reign_years(
  reign_name: str | None, regnal_year: int, calendar: Calendar
) -> Bool[np.ndarray, " K"]:
  """Returns the months of a year of a reign; any year if it is 0."""
  members = calendar.memberships
  is_member = (
    members.regnal_years == regnal_year
    if regnal_year
    else np.ones(len(members.reigns), bool)
  )
  if reign_name is not None:
    is_member = is_member & np.isin(
      members.reigns, calendar.find_reigns(reign_name)
    )
  return calendar.find_members(is_member)


def match_readings(
  name: str, value: Hashable, readings: Readings
) -> Bool[np.ndarray, " V"]:
  """Returns which readings match a statement.

  `name` is the kind of a statement about a month, a season, or a year without a
  reign.
  """
  months = readings.months
  if name == CYCLE_STATEMENT:
    return sexagenary.cyclic_index_of_year(readings.years) == value
  if name == "common year":
    return readings.years == value
  if name == "months":
    return np.isin(months, value)
  if name == "season":
    return (months - 1) // 3 == value
  if name in (NUMBERED_DAY_STATEMENT, *DAY_STATEMENTS[1:]):
    if readings.day_spans is None:
      return np.ones(len(months), bool)
    first, length = readings.day_spans.T
    if name == NUMBERED_DAY_STATEMENT:
      number, value = value
    else:
      number = 1 if name == DAY_STATEMENTS[1] else -1
    day = first + number - 1 if number > 0 else first + length + number
    return sexagenary.cyclic_index_of_day(day) == value
  if name == COMMON_DAYS_STATEMENT:
    return _measure_common_days(*value, readings) > 0
  if name == "month day":
    # Every month has 29 days.
    if readings.day_spans is None or value < 30:
      return np.ones(len(months), bool)
    return ~readings.has_days | (readings.day_spans[:, 1] >= value)
  if name in ("month", "doubtful month"):
    return readings.have_number(value) & ~readings.is_leap
  # A leap month, of a number if that is printed. Where days are not known, it
  # counts as the twelfth.
  return np.where(
    readings.has_days,
    readings.is_leap & np.isin(months, value or range(13)),
    months == (value or MONTHS_PER_YEAR),
  )


def _score_readings(
  name: str, arguments: Sequence[Hashable], log_odds: float, calendar: Calendar
) -> Float[np.ndarray, " V"]:
  """Returns log p(statement | reading), up to a constant."""
  readings, value = calendar.readings, arguments[0]
  is_near = False
  if name in ("month", "doubtful month"):
    is_near = (readings.months == value) & readings.is_leap
  elif name == "leap" and value:
    is_near = abs(readings.months - value) <= readings.is_leap
  near_odds = np.where(is_near, _LOG_NEAR_LEAP_ODDS, log_odds)
  is_match = match_readings(name, value, readings)
  if name in ("month", "month day") and not is_match.any():
    return np.zeros(len(is_match))  # 「十三月」 says nothing
  log_p = np.where(is_match, 0.0, near_odds)
  if name == COMMON_DAYS_STATEMENT:
    shares = _measure_common_days(*value, readings)
    return np.log(np.maximum(shares, np.exp(log_odds)))
  reign_name = (
    arguments[1] if len(arguments) > 1 and name != CYCLE_STATEMENT else None
  )
  if reign_name is not None:
    # By the calendar of the reign that is printed with the month.
    members = calendar.memberships
    is_reign = np.isin(members.reigns, calendar.find_reigns(reign_name))
    if not is_reign.any():
      return log_p
    is_of_reign = np.zeros(len(log_p), bool)
    is_of_reign[members.readings[is_reign]] = True
    weight = np.where(is_of_reign, -readings.log_weights, 0.0)
    log_p = np.where(is_of_reign, log_p + weight, np.minimum(log_p, near_odds))
  return log_p


def _measure_common_days(
  first: int, last: int, days_later: int, readings: Readings
) -> Float[np.ndarray, " V"]:
  """Returns the share of a Western month or day that each month holds."""
  starts, stops = readings.bound_days()
  share = np.zeros(len(starts))
  for days, chance in ((0, 1 - _JULIAN_CHANCE), (days_later, _JULIAN_CHANCE)):
    common = np.minimum(stops, last + days + 1) - np.maximum(
      starts, first + days
    )
    share += chance * common.clip(0) / (last + 1 - first)
  return share


def name_calendars(section: Section) -> Section:
  """Returns a section whose month counts in the calendar of its reign."""
  _, reign, _ = find_statement(section, "year") or (None, None, None)
  if reign is None:
    return section
  statements = (
    (*statement, reign) if statement[0] in ("month", "leap") else statement
    for statement in section.statements
  )
  return dataclasses.replace(section, statements=tuple(statements))


# Years by which a chronicle may count an era otherwise than the table.
_MAX_MISCOUNT, _MIN_COUNTED = 2, 2


def count_years(
  sections: Sequence[Section], calendar: Calendar
) -> list[Section]:
  """Returns sections whose years of eras are those of the cycle beside them.

  「（辛巳）天福元年」 is 981, though the table begins 天福 in 980, and so is
  what the text counts after it.
  """
  counts: dict[str, collections.Counter[tuple[int, int]]] = {}
  doubtful = set()
  for number_of_section, section in enumerate(sections):
    cycle = find_statement(section, CYCLE_STATEMENT)
    _, era, number = find_statement(section, "year") or (None, None, 0)
    if not cycle or era is None or not number:
      continue
    offsets = set()
    for row in calendar.find_reigns(era):
      first = calendar.timeline.reigns[row].accession
      printed = sexagenary.cyclic_index_of_year(first + number - 1)
      offset = (cycle[1] - int(printed) + 30) % 60 - 30
      offsets.add(abs(offset))
      if abs(offset) <= _MAX_MISCOUNT:
        counts.setdefault(era, collections.Counter())[first, offset] += 1
    if 0 < min(offsets, default=0) <= _MAX_MISCOUNT:
      doubtful.add(number_of_section)
  first_years = {}
  for era, found in counts.items():
    # Eras of one name are told apart by those that need no other count.
    pair, count = max(
      found.items(), key=lambda item: (item[1], -abs(item[0][1]))
    )
    # One year alone is misprinted.
    if pair[1] and count >= _MIN_COUNTED:
      first_years[era] = sum(pair)
  if not first_years and not doubtful:
    return list(sections)
  result, first = [], None
  for number_of_section, section in enumerate(sections):
    _, era, number = find_statement(section, "year") or (None, None, 0)
    if era is not None:
      first = first_years.get(era)
      if number_of_section in doubtful and first is None:
        # One of the two is misprinted.
        statements = tuple(
          ("doubtful year", *s[1:]) if s[0] == "year" else s
          for s in section.statements
        )
        section = dataclasses.replace(section, statements=statements)
    if number and first is not None:
      year = (COMMON_YEAR_STATEMENT, first + number - 1)
      statements = (year if s[0] == "year" else s for s in section.statements)
      section = dataclasses.replace(section, statements=tuple(statements))
    result.append(section)
  return result


# The decoder is too sure of a text with lost or misplaced entries: the same
# errors come again and again, each counted as new evidence. So three things are
# read from the text:
#
# - An entry without a date is in the month before it, unless its head is
#   lost. Where dated entries skip months, heads are lost (`fit_model`).
# - Every posterior is raised to a power below 1. Where heads are lost it is
#   wide already, and a short text repeats no error often. A text that often
#   begins again moves otherwise than the model assumes, so its power is lower.
# - A share of the sections may be in any month that fits what they print. It
#   grows with the sections that go back against the order. A printed year goes
#   back because the text does: streams do so every year. The share is 1 if the
#   months explain little of what is printed: a text that has lost its heads and
#   rests in one month still fits half of its days.
#
# The constants were chosen so that the credible months of 穀梁傳, 後漢紀 and
# two editions of 左傳 hold the right one in 87 to 93 %, with years cut and
# entries left out or misplaced (docs/results/dating.md).

# Log odds that an entry without a date is in the month before it, if no
# dated entry skips a month, and what they lose if all do.
REST_LOG_ODDS, SKIP_SLOPE = 12.6, 17.0
# Share of skips in a text that prints every head, worth this many sections.
_PRIOR_SKIPS, _PRIOR_SECTIONS = 0.4, 20
# From this share of sections that begin again on, lost heads excuse nothing.
_MANY_RESTARTS, _MIN_SHARPNESS = 0.002, 0.3
_MAX_MISPLACED = 0.3
# Chosen on training chronicles: the power of the posterior of a long text that
# has lost no heads, and what it loses times the share of sections that begin
# anew.
_SHARPNESS, _RESTART_SLOPE = 0.65, 25.0
# Sections misplaced for each that goes back: as many were moved ahead, and look
# like gaps, and of most the move does not show.
_MISPLACED_PER_RETURN = 2.0
# Fit (`measure_fit`) from which a text's months can be believed, and at which
# none is. Without any head 穀梁傳, 公羊傳, 左傳, 後漢紀, 史記 and 資治通鑑 have
# at most .65, and none of their months is right; without years, or with entries
# misplaced, they have .81 or more.
_FITTING, _UNFITTING = 0.8, 0.65
_PRIOR_FIT = 20.0  # nats of a perfect fit: a few odd dates prove nothing
_BLOCK_SIZE = 256  # sections read at once


@dataclasses.dataclass(frozen=True)
class Reliability:
  """Reliability of a text's probabilities; when called, it tempers them."""

  sharpness: float  # power of each probability, 0-1
  misplaced: float  # probability that a section may be in any month
  # Log p(section | place) of sections start..stop, [B, S, P]; they weight the
  # months of a misplaced section.
  emissions: Callable[[int, int], np.ndarray]

  def __call__(
    self, posterior: Float32[np.ndarray, "B P"], start: int
  ) -> Float32[np.ndarray, "B P"]:
    """Returns the tempered posterior of the sections from `start` on.

    Impossible months stay impossible.
    """
    months, outside = posterior[:, :-1], posterior[:, -1:]
    # How well months fit what sections print, whichever the offset.
    log_p = self.emissions(start, start + len(months))[..., :-1].max(1)
    anywhere = np.exp(log_p - log_p.max(1, keepdims=True)) * (months > 0)
    mixed = (1 - self.misplaced) * _normalize(months**self.sharpness)
    mixed += self.misplaced * _normalize(anywhere)
    inside = months.sum(1, keepdims=True)
    return np.hstack([inside * mixed, outside]).astype(np.float32)


def _normalize(
  weights: Float32[np.ndarray, "B K"],
) -> Float32[np.ndarray, "B K"]:
  """Returns weights with a sum of 1; 0 where all are 0."""
  tiny = np.finfo(np.float32).tiny
  return weights / np.maximum(weights.sum(1, keepdims=True), tiny)


def measure_fit(
  emissions: SectionEmissions,
  path: Int[np.ndarray, " N"],
  offsets: Int[np.ndarray, " N"],
) -> float:
  """Returns how much of what is printed the months of a path explain.

  The result is 1 if each section is in a month that fits it best, about 0 for
  months drawn at random, and below 0 for worse ones. A statement counts by what
  it can tell: the number of a day fits nearly every month.
  """
  gained = possible = _PRIOR_FIT
  is_own = ~np.isin(emissions.kinds, TOLD_KINDS)
  for start in range(0, len(path), _BLOCK_SIZE):
    stop = min(start + _BLOCK_SIZE, len(path))
    log_p = emissions(start, stop)[..., :-1]  # [B, S, K]
    rows = np.flatnonzero(
      is_own[start:stop] & (path[start:stop] < log_p.shape[2])
    )
    # One offset where days are known.
    row_offsets = offsets[start + rows] if log_p.shape[1] > 1 else 0
    log_p = log_p[rows, row_offsets]  # [n, K]
    by_chance = logsumexp(log_p, axis=1) - np.log(log_p.shape[1])
    gained += (
      log_p[np.arange(len(rows)), path[start + rows]] - by_chance
    ).sum()
    possible += (log_p.max(1, initial=-np.inf) - by_chance).sum()
  return float(gained / possible)


def measure_reliability(
  model: TransitionModel, emissions: SectionEmissions, fit: float
) -> Reliability:
  """Returns the reliability of a text; `fit` is that of its path."""
  kinds = emissions.kinds
  counts = np.bincount(kinds, minlength=len(model.rest))
  num_days = counts[[DAY, NEXT_DAY]].sum()
  undated = [NO_DATE, BETWEEN_DAYS, TOLD_IN_ENTRY]
  num_heads = counts.sum() - counts[undated].sum() - num_days
  # Beside printed heads, days that do not fit are wrong themselves: the fit
  # counts fully up to a quarter of heads, and not at all from a half on.
  headless = 2 - 4 * num_heads / max(num_heads + num_days, 1)
  unfitting = (_FITTING - fit) / (_FITTING - _UNFITTING)
  counts[[*undated, NAMED, STREAM, TOLD_YEAR]] = 0
  num_dated = max(counts.sum(), 1)
  restarts = float(counts @ model.restart / num_dated)
  counts[YEAR] = 0
  returns = restarts + float(counts @ model.back / num_dated)
  # Where heads are lost the posterior is wide, unless the text begins again.
  spread = max(
    min(model.rest[NO_DATE] / TransitionModel.rest[NO_DATE], 1.0),
    min(restarts / _MANY_RESTARTS, 1.0),
  )
  # A short text repeats no error often.
  is_long = len(kinds) / (len(kinds) + _PRIOR_SECTIONS)
  loss = (1 - _SHARPNESS) * spread + _RESTART_SLOPE * restarts
  return Reliability(
    sharpness=max(1 - loss * is_long, _MIN_SHARPNESS),
    misplaced=max(
      min(_MISPLACED_PER_RETURN * returns, _MAX_MISPLACED),
      float(np.clip(headless, 0, 1) * np.clip(unfitting, 0, 1)),
    ),
    emissions=emissions,
  )


def fit_model(
  prior_model: TransitionModel,
  path: Int[np.ndarray, " N"],
  kinds: Int[np.ndarray, " N"],
  boundaries: Boundaries,
) -> TransitionModel:
  """Returns the model that fits a path, mostly the prior if undated."""
  fitted_model = transition_model.fit_transition_model(
    prior_model, path, kinds, boundaries
  )
  # A path that rests wherever nothing is printed shows but that it believes so.
  rest, ratio = [*fitted_model.rest], [*fitted_model.ratio]
  skips = measure_skips(path, kinds, boundaries)
  rest_chance = float(expit(REST_LOG_ODDS - SKIP_SLOPE * skips))
  rest[NO_DATE] = min(rest[NO_DATE], rest_chance)
  ratio[NO_DATE] = prior_model.ratio[NO_DATE]
  return dataclasses.replace(fitted_model, rest=tuple(rest), ratio=tuple(ratio))


def measure_skips(
  path: Int[np.ndarray, " N"],
  kinds: Int[np.ndarray, " N"],
  boundaries: Boundaries,
) -> float:
  """Returns the share of months, seasons and years that skip some."""
  before, after, kinds = path[:-1], path[1:], kinds[1:]
  is_dated = np.isin(kinds, (MONTH, SEASON, YEAR, TOLD_MONTH))
  is_dated &= np.maximum(before, after) < len(boundaries.year_start)
  before, after, kinds = before[is_dated], after[is_dated], kinds[is_dated]
  num_skips = (after > boundaries.following[kinds, before]).sum()
  num_skips += _PRIOR_SKIPS * _PRIOR_SECTIONS
  return float(num_skips / (len(kinds) + _PRIOR_SECTIONS))
