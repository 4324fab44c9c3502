"""Meanings of the dates of a question: one for every reign of their name.

A question has one anchor, its first full date. Every reign that it may be of is
read with the window and the second date that stand beside it.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np

from ctd_jax.chronology import (
  date_expressions,
  numerals,
  query_dates,
  query_mentions,
  query_windows,
  reign_tables,
)
from ctd_jax.chronology.common_era_years import EraYear
from ctd_jax.chronology.numerals import DateError, fold_script
from ctd_jax.chronology.query_calendar import Months
from ctd_jax.chronology.query_mentions import DateMention, MentionSearch
from ctd_jax.dating.chronicle import western_calendar
from ctd_jax.index import calendars
from ctd_jax.index.questions.question_calendar import CalendarMonths
from ctd_jax.index.questions.question_spans import DateSpan
from ctd_jax.index.questions.question_types import MonthSpan, Reading

_RULER_ENDINGS = frozenset("公王侯伯帝宗")
_MAX_RULER = 4  # characters quoted
# What may stand before a year without a reign: not 「哪一年」, 「每三年」.
_BEFORE_YEAR = re.compile(r"(?:^|[\s，、。；：的□在於自從至到及與和]|自從)$")
_MAX_NUMERAL = 99  # of `numerals.format_numeral`


class DateChoice(NamedTuple):
  """The dates of a question under one meaning of the first.

  Attributes:
    named_mentions: name and mention of each, in order.
    search: the same for the readers of windows.
  """

  named_mentions: tuple[tuple[str, DateMention], ...]
  search: MentionSearch


def list_choices(
  text: str,
  blanked: str,
  search: MentionSearch,
  spans: Sequence[DateSpan],
  months: CalendarMonths,
  printed_reigns: Collection[int],
) -> list[DateChoice]:
  """Returns the dates under every meaning of the first; none without a date.

  Args:
    text: the question.
    blanked: without what `spans` holds.
    search: regnal dates and years of the common era.
    spans: the other dates.
    months: of the calendar.
    printed_reigns: rows of the reigns whose meanings come first.

  Raises:
    DateError: if the first date is of a ruler whom the calendar lacks.
  """
  mentions = list(search.mentions)
  if not spans and not any(mention.is_full for mention in mentions):
    mentions = _add_reigns(text, blanked, mentions, months)
  options = [_list_options(mention, months) for mention in mentions]
  options += [_list_span_options(span) for span in spans]
  options.sort(key=lambda named: named[0][1].start)
  full = [row for row, named in enumerate(options) if named[0][1].is_full]
  if not full:
    return []
  anchor = full[0]
  years = search.years + tuple(
    EraYear(span.start, span.end, span.year)
    for span in spans
    if span.year is not None
  )
  choices = []
  for name, mention in _sort_options(options[anchor], printed_reigns):
    named_mentions = [
      (name, mention) if row == anchor else _pick(named, mention, months)
      for row, named in enumerate(options)
    ]
    choices.append(
      DateChoice(
        tuple(named_mentions),
        MentionSearch(tuple(m for _, m in named_mentions), years),
      )
    )
  return choices


def _sort_options(
  named: Sequence[tuple[str, DateMention]], printed_reigns: Collection[int]
) -> list[tuple[str, DateMention]]:
  """Returns the meanings of a date, those of printed reigns first."""
  return sorted(
    named,
    key=lambda option: (
      not any(number - 1 in printed_reigns for number in option[1].reigns)
    ),
  )


def _pick(
  named: Sequence[tuple[str, DateMention]],
  anchor: DateMention,
  months: CalendarMonths,
) -> tuple[str, DateMention]:
  """Returns the meaning of a second date that fits the first.

  The one of its reign, else the first that is not earlier.
  """
  for name, mention in named:
    if mention.reigns and mention.reigns == anchor.reigns:
      return name, mention
  reigns = months.timeline.reigns
  if anchor.reigns:
    start = reigns[anchor.reigns[0] - 1].accession + (anchor.year or 1) - 1
    for name, mention in named:
      if mention.reigns and mention.year:
        row = reigns[mention.reigns[0] - 1]
        if row.accession + mention.year - 1 >= start:
          return name, mention
  return named[0]


def _list_options(
  mention: DateMention, months: CalendarMonths
) -> list[tuple[str, DateMention]]:
  """Returns the names and meanings of a date, one for every reign."""
  if mention.months is not None:
    year = int(months.calendar.years[mention.months.first])
    name = reign_tables.format_common_era_year(year)
    month = _name_month(mention)
    return [(f"{name}, {month}" if month else name, mention)]
  if not mention.reigns:
    return [("", mention)]
  return [
    (
      months.timeline.full_reign_name(number)
      + _name_year(mention.year)
      + _name_month(mention),
      dataclasses.replace(mention, reigns=(number,)),
    )
    for number in mention.reigns
  ]


def _list_span_options(span: DateSpan) -> list[tuple[str, DateMention]]:
  return [
    (
      meaning.name,
      DateMention(
        span.start,
        span.end,
        months=meaning.months,
        has_month=span.has_month,
      ),
    )
    for meaning in span.meanings
  ]


def _name_year(year: int | None) -> str:
  if year is None or year == 1:
    return "元年" if year else ""
  if year > _MAX_NUMERAL:
    return f"{year}年"
  return f"{numerals.format_numeral(year)}年"


def _name_month(mention: DateMention) -> str:
  leap = "閏" * mention.leap
  if mention.month is None:
    return f"{leap}月" if leap else mention.season or ""
  number = numerals.format_numeral(mention.month)
  return f"{leap}{'正' if mention.month == 1 else number}月"


def _add_reigns(
  text: str, blanked: str, mentions: list[DateMention], months: CalendarMonths
) -> list[DateMention]:
  """Returns the mentions, the first year with all reigns that it may be of.

  Raises:
    DateError: if the year is that of a ruler whom the calendar lacks.
  """
  first = next((m for m in mentions if m.year is not None), None)
  if first is None or western_calendar.is_western(months.calendar):
    return mentions
  before = fold_script(blanked[: first.start])
  preceding = text[max(first.start - _MAX_RULER, 0) : first.start].split()
  if preceding and fold_script(preceding[-1])[-1] in _RULER_ENDINGS:
    raise DateError(
      f"{preceding[-1]!r} names no reign of timeline {months.timeline.name!r}",
      text,
      first.start,
    )
  if not (before == "" or _BEFORE_YEAR.search(before)) and not any(
    cue.start == first.start and (cue.month or cue.season or cue.year == 1)
    for cue in date_expressions.find_date_cues(blanked, months.timeline)
  ):
    return [m for m in mentions if m.year is None]
  with_name = query_mentions.with_lone_reign(mentions, blanked, months.timeline)
  if any(mention.reigns for mention in with_name):
    return with_name
  numbers = tuple(
    number
    for number, reign in enumerate(months.timeline.reigns, start=1)
    if reign.years >= first.year
  )
  if not numbers:
    raise DateError(
      f"no reign of timeline {months.timeline.name!r} has {first.year} years",
      text,
      first.start,
    )
  row = mentions.index(first)
  mentions[row] = dataclasses.replace(first, reigns=numbers)
  return mentions


def resolve_choices(
  text: str,
  choices: Sequence[DateChoice],
  months: CalendarMonths,
  printed_reigns: Collection[int],
) -> list[Reading]:
  """Returns the months of every choice that the calendar has.

  Args:
    text: the question, blanked as for `list_choices`.
    choices: one at least.
    months: of the calendar.
    printed_reigns: rows of reigns by which months are named.

  Raises:
    DateError: of the first choice, if it has none of them.
  """
  readings: list[Reading] = []
  errors: list[DateError] = []
  for choice in choices:
    try:
      found = query_dates.resolve_mentions(text, choice.search, months)
    except DateError as error:
      errors.append(error)
      continue
    name, anchor = next(
      (name, mention)
      for name, mention in choice.named_mentions
      if mention.is_full
    )
    reading = Reading(
      name, _name_span(name, anchor, found, text, months, printed_reigns)
    )
    if reading not in readings:
      readings.append(reading)
  if not readings:
    raise errors[0]
  return readings


def _name_span(
  name: str,
  anchor: DateMention,
  found: Months,
  text: str,
  months: CalendarMonths,
  printed_reigns: Collection[int],
) -> MonthSpan:
  """Returns months with the name of their date, or of their ends."""
  try:
    own = query_windows.resolve_window(" " * len(text), [anchor], months)
  except DateError:
    own = None
  if own != found:
    name = name_months(found, months, anchor.reigns, printed_reigns)
  return MonthSpan(*found, name)


def name_months(
  run: Months,
  months: CalendarMonths,
  numbers: Sequence[int] = (),
  printed_reigns: Collection[int] = (),
) -> str:
  """Returns the names of the first and the last of months, or of the one.

  Args:
    run: the months.
    months: of the calendar.
    numbers: of the reigns that a question names, if it does.
    printed_reigns: rows of reigns that name the months if it does not.
  """
  reigns = {number - 1 for number in numbers} or printed_reigns
  first, last = (
    calendars.name_month(months.calendar, month, reigns) for month in run
  )
  return first if first == last else f"{first} – {last}"


def list_doubts(
  choice: DateChoice, reading: Reading, months: CalendarMonths
) -> list[str]:
  """Returns what is to be said of a date that has one meaning.

  Args:
    choice: its dates.
    reading: its months.
    months: of the calendar.
  """
  doubts = []
  calendar = months.calendar
  mention = next(m for m in choice.search.mentions if m.is_full)
  if mention.leap and not calendar.is_leap.any():
    doubts.append(
      "the calendar does not know leap months: "
      f"{reading.name} is read as {reading.name.replace('閏', '')}"
      if mention.month
      else "the calendar does not know leap months: all of the year is asked"
    )
  elif (
    mention.month
    and mention.months is None
    and months.lacks_month(mention.reigns[0], mention.year, mention.month)
  ):
    doubts.append(
      f"the year has no such month: {reading.name} is the one before"
    )
  members = calendar.memberships
  is_member = (
    np.isin(members.reigns + 1, mention.reigns)
    & (members.lunations >= reading.span.first)
    & (members.lunations <= reading.span.last)
  )
  if (
    mention.months is None
    and is_member.any()
    and not (members.in_use[is_member].any())
  ):
    names = calendars.name_month(calendar, reading.span.first)
    doubts.append(
      f"{reading.name} was not yet or no longer counted: the month was {names}"
    )
  return doubts


def list_reigns(choices: Sequence[DateChoice]) -> list[int]:
  """Returns the numbers of the reigns that the dates of a question name.

  Args:
    choices: as of `list_choices`.
  """
  return [
    number
    for choice in choices
    for mention in choice.search.mentions
    for number in mention.reigns
  ]
