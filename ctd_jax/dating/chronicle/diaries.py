"""Diaries: entries headed by the numbers of days, 「二日」, 「三日」.

A number of days is a length of time more often than a date. In a diary the
numbers count on: each is a few days after the one before, or opens another
month. Such a run carries its month on, and what else it prints is told of.
"""

import dataclasses
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ctd_jax.dating.chronicle.sections import (
  MONTH_DAY_STATEMENT,
  PUNCTUATION,
  DatePart,
  DateStatement,
  PrintedDate,
  is_blank,
  is_punctuated,
)
from ctd_jax.utils import deadlines

# Before the number of a day that heads no entry: 「至二十四日」, 「留三日」.
_NO_ENTRY_BEFORE = re.compile(
  "[自至以於于及在迄訖期限俟前每毎逐比盡由到凡留住居隔越逾踰後后即翌次又更]$"
)
_MONTHS_PER_YEAR = 12
_MONTH_LENGTH = 30
# Days from one entry to the next, where the month is not printed, and where.
_MAX_STEP, _MAX_PRINTED_STEP = 10, 62
_SHORT_STEP = 3
_MAX_LENGTH = 6000  # characters between two days of a run
_MAX_SKIPPED = 12  # other numbers of days between them
_SKIP_COST, _STEP_COST = 0.3, 0.03
_MIN_DAYS = 5  # of a run
# Records of a run that open with other dates, for each of its days.
_MAX_OTHERS = 0.3


@dataclasses.dataclass(frozen=True)
class DiaryDay:
  """The date at the head of an entry."""

  dates: tuple[PrintedDate, ...]  # its parts as printed, one at least
  month: DateStatement | None  # printed, or carried on
  # Whether it is in the month of the section before it, without doubt.
  continues: bool


class _Candidate(NamedTuple):
  record: int
  position: int  # in the text
  dates: tuple[PrintedDate, ...]
  month: DateStatement | None
  day: int  # 0 for a month that heads days
  opens_record: bool


class _Run(NamedTuple):
  """The best run of days that ends with a candidate."""

  score: float
  before: int | None  # index of the candidate before it
  month: DateStatement | None  # carried on
  step: int  # days from the one before


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
    _add_run(days, candidates, runs, chain, texts, dates)
  return days


def _list_candidates(
  texts: Sequence[str], dates: Sequence[Sequence[PrintedDate]]
) -> Iterator[_Candidate]:
  """Yields what may head an entry: numbers of days, months at the head."""
  offset = 0
  for record, (text, of_record) in enumerate(zip(texts, dates, strict=True)):
    punctuated = is_punctuated(text)
    for index, date in enumerate(of_record):
      parts = _join_parts(text, of_record, index)
      start = parts[0].start
      opens_record = is_blank(text[:start])
      month = next(
        (
          statement
          for part in parts
          for statement in part.statements
          if statement[0] in ("month", "leap")
        ),
        None,
      )
      day = next(
        (
          values[0]
          for name, *values in date.statements
          if name == MONTH_DAY_STATEMENT
        ),
        None,
      )
      if day is None:
        if not (
          opens_record
          and month is not None
          and date.last_part == DatePart.MONTH
          and not _is_followed(text, of_record, index)
        ):
          continue
        day = 0
      elif not opens_record and (
        _NO_ENTRY_BEFORE.search(text[max(start - 1, 0) : start])
        if not punctuated
        else text[start - 1] not in PUNCTUATION + "；;\n"
      ):
        continue
      yield _Candidate(
        record,
        offset + start,
        parts,
        month,
        _MONTH_LENGTH if day < 0 else day,
        opens_record,
      )
    offset += len(text)


def _join_parts(
  text: str, dates: Sequence[PrintedDate], index: int
) -> tuple[PrintedDate, ...]:
  """Returns a date with the larger parts right before it."""
  parts = [dates[index]]
  for before in dates[:index][::-1]:
    if (
      before.last_part >= parts[0].first_part
      or before.end > parts[0].start
      or not is_blank(text[before.end : parts[0].start])
    ):
      break
    parts.insert(0, before)
  return tuple(parts)


def _is_followed(
  text: str, dates: Sequence[PrintedDate], index: int
) -> bool:
  """Returns whether a smaller part of the date comes next."""
  date = dates[index]
  return index + 1 < len(dates) and (
    dates[index + 1].first_part > date.last_part
    and is_blank(text[date.end : dates[index + 1].start])
  )


def _extend_run(
  candidates: Sequence[_Candidate],
  runs: Sequence[_Run],
  index: int,
  candidate: _Candidate,
) -> _Run:
  """Returns the best run that ends with a candidate."""
  gain = 1.0 + candidate.opens_record
  best = _Run(gain, None, candidate.month, 0)
  for before in range(index - 1, max(index - 2 - _MAX_SKIPPED, -1), -1):
    run, last = runs[before], candidates[before]
    if candidate.position - last.position > _MAX_LENGTH:
      break
    step = _count_days(last.day, run.month, candidate)
    if step is None:
      continue
    score = run.score + gain - _STEP_COST * step
    score -= _SKIP_COST * (index - 1 - before)
    if score > best.score:
      month = candidate.month or (
        run.month if candidate.day >= last.day else None
      )
      best = _Run(score, before, month, step)
  return best


def _count_days(
  last_day: int, last_month: DateStatement | None, candidate: _Candidate
) -> int | None:
  """Returns the days from one day to the next, None if it cannot be the next."""
  step = candidate.day - last_day
  if candidate.month is None:
    # The month may change unsaid only at its end.
    if step <= 0 and last_day >= _MONTH_LENGTH - 1:
      step += _MONTH_LENGTH
    return step if 0 < step <= _MAX_STEP else None
  if last_month is None:
    step = (step - 1) % _MONTH_LENGTH + 1
  else:
    months = (candidate.month[1] - last_month[1]) % _MONTHS_PER_YEAR
    if not candidate.month[1] or (not months and candidate.month != last_month):
      months = 1  # a leap month
    step += months * _MONTH_LENGTH
  return step if 0 < step <= _MAX_PRINTED_STEP else None


def _add_run(
  days: dict[int, list[DiaryDay]],
  candidates: Sequence[_Candidate],
  runs: Sequence[_Run],
  chain: Sequence[int],
  texts: Sequence[str],
  dates: Sequence[Sequence[PrintedDate]],
) -> None:
  """Adds the days of a run, if it is one of a diary."""
  num_short = sum(0 < runs[index].step <= _SHORT_STEP for index in chain)
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
  if 2 * num_short < len(chain) or len(others) > _MAX_OTHERS * len(chain):
    return
  for record in records:
    if record not in others:
      days[record] = []
  previous: DiaryDay | None = None
  last_record = records[0]
  for index in chain:
    candidate, month = candidates[index], runs[index].month
    day = DiaryDay(
      candidate.dates,
      month,
      previous is not None
      and month == previous.month
      and not others & set(range(last_record, candidate.record))
      and (candidate.month is None or month is not None),
    )
    days[candidate.record].append(day)
    previous, last_record = day, candidate.record
