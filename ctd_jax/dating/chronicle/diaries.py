"""Diaries: entries headed by their days, 「二日」 or 「庚午」.

A number of days is a length of time more often than a date. In a diary the
days count on: each is a few days after the one before, or opens another month.
Such a run carries its month on, and what else it prints is told of.
"""

import dataclasses
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ctd_jax.chronology.reigns import MONTHS_PER_YEAR
from ctd_jax.chronology.sexagenary import CYCLE_LENGTH
from ctd_jax.dating.chronicle.sections import (
  DAY_STATEMENTS,
  MONTH_DAY_STATEMENT,
  NAMED,
  PUNCTUATION,
  DatePart,
  DateStatement,
  PrintedDate,
  is_blank,
  is_punctuated,
)
from ctd_jax.utils import deadlines

# Before a day that heads no entry, and before the number of one: 「至甲子」,
# 「留三日」.
_NO_ENTRY_BEFORE = re.compile("[自至以於于及在迄訖]$")
_NO_NUMBER_BEFORE = re.compile(
  "[自至以於于及在迄訖期限俟前每毎逐比盡由到凡留住居隔越逾踰後后即翌次又更]$"
)
_ENTRY_ENDS = PUNCTUATION + "；;\n」』"
_MONTH_LENGTH = 30
# Most days from one entry to the next: between numbered days, between days of
# the cycle, before a printed month, and before a month that opens a record.
_MAX_STEP, _MAX_CYCLE_STEP, _MAX_PRINTED_STEP, _MAX_GAP = 10, 5, 45, 183
_SHORT_STEP = 3  # half of the steps of a diary are as short
_MAX_LENGTH = 6000  # characters between two days of a run
_MAX_SKIPPED = 12  # other days between them
_SKIP_COST, _STEP_COST, _UNSAID_COST = 0.3, 0.03, 1.0
# Annals print days of the cycle in order too, but rarely every day, or with
# several records of one.
_MIN_DAYS, _MIN_CYCLE_DAYS = 5, 8  # of a run
_MIN_SHORT, _MIN_NEXT_DAYS = 0.5, 0.75
_MIN_SHARE, _MIN_CYCLE_SHARE = 0.4, 0.75  # days for each record
# No annals print so many days in a row, nine in ten of them the next.
_MIN_DAILY_DAYS, _MIN_DAILY = 20, 0.9
# Other days, and records that open with other dates, for each day of a run.
_MAX_OTHERS = 0.3
_MONTH_STATEMENTS = ("month", "leap")


@dataclasses.dataclass(frozen=True)
class DiaryDay:
  """The date at the head of an entry."""

  dates: tuple[PrintedDate, ...]  # its parts as printed, one at least
  month: DateStatement | None  # printed, or carried on
  # Whether it is in the month of the section before it, without doubt.
  continues: bool
  opens_run: bool
  closes_run: bool
  opens_month: bool


class _Candidate(NamedTuple):
  record: int
  position: int  # in the text
  dates: tuple[PrintedDate, ...]
  month: DateStatement | None  # as printed
  day: int | None  # of the month; 0 for a month that heads days
  cycle: int | None  # of the day
  opens_record: bool
  gain: float  # what it adds to a run
  months_before: tuple[int, ...]  # told of since the candidate before it


class _Run(NamedTuple):
  """The best run of days that ends with a candidate."""

  score: float
  before: int | None  # index of the candidate before it
  month: DateStatement | None  # printed, or carried on
  day: int | None  # of the month, if known
  cycle: int | None  # of the last day that has one
  step: int  # days from the one before
  opens_month: bool
  is_unsure: bool = False  # whether it may open one


def find_diary_days(
  texts: Sequence[str], dates: Sequence[Sequence[PrintedDate]]
) -> dict[int, list[DiaryDay]]:
  """Returns the days that head entries, by record.

  A record of a run without a day continues the entry before it; it has an
  empty list. Records of no run are left out.
  """
  candidates = list(_list_candidates(texts, dates))
  if len(candidates) < _MIN_DAYS:
    return {}
  runs: list[_Run] = []
  for index, candidate in enumerate(candidates):
    deadlines.check()
    runs.append(_extend_run(candidates, runs, index, candidate))
  days: dict[int, list[DiaryDay]] = {}
  is_used = [False] * len(candidates)
  for end in sorted(range(len(runs)), key=lambda i: -runs[i].score):
    chain = []
    index: int | None = end
    while index is not None and not is_used[index]:
      chain.append(index)
      index = runs[index].before
    chain.reverse()
    if len(chain) < _MIN_DAYS or any(is_used[chain[0] : end + 1]):
      continue
    is_used[chain[0] : end + 1] = [True] * (end + 1 - chain[0])
    num_skipped = end + 1 - chain[0] - len(chain)
    if num_skipped <= _MAX_OTHERS * len(chain) and _is_diary(
      [runs[i] for i in chain[1:]], [candidates[i] for i in chain]
    ):
      _add_run(days, candidates, runs, chain, texts, dates)
  return days


def _is_diary(runs: Sequence[_Run], candidates: Sequence[_Candidate]) -> bool:
  """Returns whether the days of a run count on as those of a diary do."""
  days = [candidate for candidate in candidates if candidate.day != 0]
  num_numbers = sum(
    candidate.dates[-1].last_part == DatePart.MONTH_DAY for candidate in days
  )
  num_records = candidates[-1].record - candidates[0].record + 1
  num_short = sum(run.step <= _SHORT_STEP for run in runs)
  if 2 * num_numbers > len(days):
    return len(days) >= max(
      _MIN_DAYS, _MIN_SHARE * num_records
    ) and num_short >= _MIN_SHORT * len(runs)
  num_next = sum(run.step == 1 for run in runs)
  # An entry may have many paragraphs, each of them a record.
  is_daily = len(days) >= _MIN_DAILY_DAYS and num_next >= _MIN_DAILY * len(runs)
  return (
    len(days) >= _MIN_CYCLE_DAYS
    and (is_daily or len(days) >= _MIN_CYCLE_SHARE * num_records)
    and num_next >= _MIN_NEXT_DAYS * len(runs)
    # Pairs that follow one another may be years.
    and candidates[0].month is not None
  )


def _list_candidates(
  texts: Sequence[str], dates: Sequence[Sequence[PrintedDate]]
) -> Iterator[_Candidate]:
  """Yields what may head an entry: days, and months that head days."""
  offset = 0
  months_before: list[int] = []
  for record, (text, of_record) in enumerate(zip(texts, dates, strict=True)):
    punctuated = is_punctuated(text)
    for index, date in enumerate(of_record):
      before = of_record[index - 1] if index else None
      after = of_record[index + 1] if index + 1 < len(of_record) else None
      is_continued = after is not None and _continues_date(text, date, after)
      if (
        before is not None
        and date.last_part == DatePart.DAY
        and before.last_part == DatePart.MONTH_DAY
        and _continues_date(text, before, date)
      ):
        continue  # 「六日戊申」
      parts = _join_parts(text, of_record, index)
      start = parts[0].start
      opens_record = is_blank(text[:start])
      month = next(
        (
          statement
          for part in parts
          for statement in part.statements
          if statement[0] in _MONTH_STATEMENTS
        ),
        None,
      )
      day, cycle = _read_day(date, after if is_continued else None)
      pattern = _NO_ENTRY_BEFORE if day is None else _NO_NUMBER_BEFORE
      opens_entry = (
        opens_record
        # 「以淳熙四年五月二十九日」
        or parts[0].kind == NAMED
        or (
          text[start - 1] in _ENTRY_ENDS
          if punctuated
          else not pattern.search(text[start - 1 : start])
        )
      )
      gain = 1.0 + opens_record
      if day is None and cycle is None:
        if date.last_part != DatePart.MONTH or is_continued:
          continue
        day = 0
        if not opens_record:
          # More months are mentioned than head days.
          gain = 0.5 if punctuated else -0.5
      if opens_entry:
        yield _Candidate(
          record,
          offset + start,
          parts,
          month,
          day,
          cycle,
          opens_record,
          gain,
          tuple(months_before),
        )
        months_before = []
      if month is not None and not (opens_entry and day != 0):
        months_before.append(month[1])
    offset += len(text)


def _read_day(
  date: PrintedDate, after: PrintedDate | None
) -> tuple[int | None, int | None]:
  """Returns a date's day of the month and of the cycle.

  Args:
    date: the date.
    after: a smaller part right after it, 「戊申」 after 「六日」.
  """
  statements = {name: values for name, *values in date.statements}
  if MONTH_DAY_STATEMENT in statements:
    (day,) = statements[MONTH_DAY_STATEMENT]
    cycle = None if after is None else _find_cycle(after)
    return _MONTH_LENGTH if day < 0 else day, cycle
  return 1 if "first day" in statements else None, _find_cycle(date)


def _find_cycle(date: PrintedDate) -> int | None:
  """Returns the day of the cycle that a date names."""
  statement = next((s for s in date.statements if s[0] in DAY_STATEMENTS), None)
  return None if statement is None else statement[1]


def _continues_date(text: str, date: PrintedDate, after: PrintedDate) -> bool:
  """Returns whether a smaller part of a date comes right after it."""
  return (
    after.first_part > date.last_part
    and date.end <= after.start
    and is_blank(text[date.end : after.start])
  )


def _join_parts(
  text: str, dates: Sequence[PrintedDate], index: int
) -> tuple[PrintedDate, ...]:
  """Returns a date with the larger parts right before it."""
  first = index
  while first and _continues_date(text, dates[first - 1], dates[first]):
    first -= 1
  return tuple(dates[first : index + 1])


def _extend_run(
  candidates: Sequence[_Candidate],
  runs: Sequence[_Run],
  index: int,
  candidate: _Candidate,
) -> _Run:
  """Returns the best run that ends with a candidate."""
  best = _Run(
    candidate.gain,
    None,
    candidate.month,
    candidate.day,
    candidate.cycle,
    0,
    True,
  )
  months_between: list[int] = []
  for before in range(index - 1, max(index - 2 - _MAX_SKIPPED, -1), -1):
    run = runs[before]
    months_between += candidates[before + 1].months_before
    if candidate.position - candidates[before].position > _MAX_LENGTH:
      break
    extended = _continue_run(run, candidate, months_between)
    if extended is not None:
      score = run.score + candidate.gain
      score -= _STEP_COST * min(extended.step, _MONTH_LENGTH)
      score -= _SKIP_COST * (index - 1 - before)
      if candidate.month is None and extended.opens_month:
        score -= _UNSAID_COST
      if score > best.score:
        best = extended._replace(score=score, before=before)
    # A month at the head of an entry is not passed over.
    if candidates[before].month and candidates[before].opens_record:
      break
  return best


def _continue_run(
  run: _Run, candidate: _Candidate, months_between: Sequence[int]
) -> _Run | None:
  """Returns a run with another day, None if that cannot be its next."""
  month, day, cycle = candidate.month, candidate.day, candidate.cycle
  months = 0  # later
  if month is not None and run.month is not None and month != run.month:
    # A leap month may have no number.
    months = 1
    if month[1] and run.month[1]:
      months = (month[1] - run.month[1]) % MONTHS_PER_YEAR or 1
  is_new = month is not None and month != run.month
  is_unsure = False
  max_step = _MAX_STEP
  if month is not None:
    max_step = _MAX_GAP if candidate.opens_record else _MAX_PRINTED_STEP
  if day is None and (run.cycle is None or cycle is None):
    return None
  if day is None or (run.day is None and day and cycle is not None):
    if run.cycle is None:
      return None
    step = (cycle - run.cycle) % CYCLE_LENGTH
    if month is None and run.day != 0:
      max_step = _MAX_CYCLE_STEP
    if day is None and month is None:
      day = run.day and run.day + step
      following = run.month and (run.month[1] or 0) % MONTHS_PER_YEAR + 1
      is_unsure = not run.day and following in months_between
      if day and day >= _MONTH_LENGTH:
        # The thirtieth may be the first of the next month, which then goes on.
        is_new = day > _MONTH_LENGTH > run.day
        is_unsure = not is_new
        day = day if day == _MONTH_LENGTH else None
  elif run.day is None:
    # A month that heads days.
    step = 1
  else:
    step = day - run.day + months * _MONTH_LENGTH
    if month is not None and run.month is None:
      step = (step - 1) % _MONTH_LENGTH + 1
    elif month is None and step <= 0 and run.day >= _MONTH_LENGTH - 1:
      # Unsaid, the month may change only at its end.
      step, is_new = step + _MONTH_LENGTH, True
  if not 0 < step <= max_step:
    return None
  if cycle is None and day == 0:
    cycle = run.cycle
  elif cycle is None and run.cycle is not None and run.day and not is_new:
    # 「四月四日」 that is told of does not go on with 「丙申」.
    cycle = (run.cycle + step) % CYCLE_LENGTH
  return _Run(
    0.0,
    None,
    month or (None if is_new or is_unsure else run.month),
    day,
    cycle,
    step,
    is_new,
    is_unsure,
  )


def _add_run(
  days: dict[int, list[DiaryDay]],
  candidates: Sequence[_Candidate],
  runs: Sequence[_Run],
  chain: Sequence[int],
  texts: Sequence[str],
  dates: Sequence[Sequence[PrintedDate]],
) -> None:
  """Adds the days of a run, unless its records open with other dates."""
  heads = {candidates[index].record for index in chain}
  records = range(candidates[chain[0]].record, candidates[chain[-1]].record + 1)
  others = {
    record
    for record in records
    if record not in heads
    and dates[record]
    and is_blank(texts[record][: dates[record][0].start])
    # A season alone, or a length of time, may open a line.
    and not dates[record][0].may_be_length
    and dates[record][0].last_part != DatePart.SEASON
  }
  if len(others) > _MAX_OTHERS * len(chain):
    return
  for record in records:
    if record not in others:
      days[record] = []
  last_record = records[0]
  for index in chain:
    candidate, run = candidates[index], runs[index]
    is_after_other = bool(others & set(range(last_record, candidate.record)))
    days[candidate.record].append(
      DiaryDay(
        candidate.dates,
        run.month,
        not (
          index == chain[0]
          or run.opens_month
          or run.is_unsure
          or is_after_other
        ),
        index == chain[0],
        index == chain[-1],
        run.opens_month,
      )
    )
    last_record = candidate.record
