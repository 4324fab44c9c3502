"""Dates of a question as months, and the ranges between two of them.

「自A至B」, 「A與B之間」: both ends are included; B may leave out what it shares
with A. 「A之後、B之前」: both ends are excluded.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence

from ctd_jax.chronology import window_patterns as patterns
from ctd_jax.chronology.date_grammar import FIRST_MONTH_OF_SEASON
from ctd_jax.chronology.numerals import DateError
from ctd_jax.chronology.query_calendar import Months, QueryCalendar
from ctd_jax.chronology.query_mentions import DateMention
from ctd_jax.chronology.timelines import MONTHS_PER_YEAR


def find_months(
  mention: DateMention,
  error_mention: DateMention,
  text: str,
  calendar: QueryCalendar,
) -> Months:
  """Returns the first and last month of a date.

  Args:
    mention: the date.
    error_mention: what an error points at: the date as printed.
    text: the question.
    calendar: that has the months.

  Raises:
    DateError: if the date is of several reigns or the calendar lacks it.
  """
  if mention.months is not None:
    return mention.months
  timeline = calendar.timeline
  if len(mention.reigns) != 1:
    names = ", ".join(map(timeline.full_reign_name, mention.reigns))
    raise DateError(
      f"ambiguous reign, write one of {names}", text, error_mention.start
    )
  (reign,) = mention.reigns
  name = timeline.full_reign_name(reign)
  try:
    calendar.find_year(reign, mention.year)
  except KeyError:
    raise DateError(
      f"timeline {timeline.name!r} has no such month: {name} has"
      f" {timeline.reigns[reign - 1].years} years",
      text,
      error_mention.start,
    ) from None
  try:
    return _find_regnal_months(reign, mention, error_mention, text, calendar)
  except KeyError:
    raise DateError(
      f"timeline {timeline.name!r} has no such month in year {mention.year} of"
      f" {name}",
      text,
      error_mention.start,
    ) from None


def _find_regnal_months(
  reign: int,
  mention: DateMention,
  error_mention: DateMention,
  text: str,
  calendar: QueryCalendar,
) -> Months:
  """Returns the months of a date of a reign.

  Raises:
    DateError: for 「閏月」 without a number of a year with none or several.
    KeyError: if the calendar lacks the date.
  """
  year = calendar.find_year(reign, mention.year)
  if mention.season and not mention.month:
    first_month = FIRST_MONTH_OF_SEASON[mention.season]
    return calendar.find_season(reign, mention.year, first_month)
  if mention.month:
    return calendar.find_month(reign, mention.year, mention.month, mention.leap)
  if not mention.leap:
    return year
  # 「閏月」 without a number: clear if the year has one leap month.
  leap_months = calendar.find_leap_months(reign, mention.year)
  if leap_months is None:
    return year
  if len(leap_months) != 1:
    raise DateError(
      f"the year has {len(leap_months)} leap months, say which"
      if leap_months
      else "the year has no leap month",
      text,
      error_mention.start,
    )
  return calendar.find_month(reign, mention.year, leap_months[0], True)


def find_second_date(
  first_date: DateMention,
  mentions: Sequence[DateMention],
  text: str,
  calendar: QueryCalendar,
) -> tuple[DateMention, Months] | None:
  """Returns the other end of a range with its months, or None.

  The second date may leave out what it shares with the first: 「自隱公元年三月
  至五月」, 「至次年春」, 「至年底」.

  Args:
    first_date: a full one.
    mentions: all dates of the question.
    text: the question, folded.
    calendar: that has the months.

  Raises:
    DateError: for a third date, or one that the calendar lacks.
  """
  later_mentions = [
    later_mention
    for later_mention in mentions
    if later_mention.start >= first_date.end
  ]
  full_dates = [
    later_mention for later_mention in later_mentions if later_mention.is_full
  ]
  if len(full_dates) > 1:
    raise DateError(
      "a third date; expected at most two", text, full_dates[1].start
    )
  if full_dates:
    return full_dates[0], find_months(
      full_dates[0], full_dates[0], text, calendar
    )
  following_text = text[first_date.end :]
  connector = patterns.RANGE_CONNECTOR.match(following_text)
  pair_connector = (
    None if connector else patterns.PAIR_CONNECTOR.match(following_text)
  )
  if not (connector or pair_connector):
    return None
  position = first_date.end + (connector or pair_connector).end()
  relative_year = patterns.RELATIVE_END_YEAR.match(text, position)
  elided_date = _find_elided_date(later_mentions, text, position, relative_year)
  if elided_date is None or (
    pair_connector and not patterns.PAIR_END.match(text, elided_date.end)
  ):
    return None
  completed_date = dataclasses.replace(
    elided_date,
    reigns=first_date.reigns,
    year=elided_date.year or first_date.year,
  )
  if relative_year and relative_year["next"]:
    return elided_date, _find_next_year(
      first_date, completed_date, text, calendar
    )
  return elided_date, find_months(completed_date, elided_date, text, calendar)


def _find_elided_date(
  later_mentions: Sequence[DateMention],
  text: str,
  position: int,
  relative_year: re.Match[str] | None,
) -> DateMention | None:
  """Returns the date after a connector that leaves out reign or year.

  Args:
    later_mentions: possible dates after the first.
    text: the query.
    position: after the connector.
    relative_year: match of 「同年」 or 「次年」 at `position`, if there is one.
  """
  start = relative_year.end() if relative_year else position
  for mention in later_mentions:
    if mention.start == start:
      return mention
  if text[start : start + 1] in FIRST_MONTH_OF_SEASON:
    return DateMention(start, start + 1, season=text[start])
  if year_end := patterns.YEAR_END.match(text, start):  # 「年底」
    return DateMention(start, year_end.end(), month=MONTHS_PER_YEAR)
  # 「至次年」: the whole year.
  return DateMention(position, start) if relative_year else None


def _find_next_year(
  first_date: DateMention,
  mention: DateMention,
  text: str,
  calendar: QueryCalendar,
) -> Months:
  """Returns the months of a date said to be in the year after the first."""
  next_year = None
  if first_date.reigns and first_date.year:
    next_year = calendar.find_next_year(first_date.reigns[0], first_date.year)
  if next_year is None:
    raise DateError("the range ends after the timeline", text, mention.start)
  return find_months(
    dataclasses.replace(
      mention, reigns=(next_year.reign,), year=next_year.year
    ),
    mention,
    text,
    calendar,
  )


def join_dates(
  first_date: DateMention,
  anchor: Months,
  second_date: DateMention,
  end: Months,
  text: str,
) -> Months:
  """Returns the months of a range between two dates, both included.

  Between 「之後」 and 「之前」 both are excluded.

  Args:
    first_date: as printed.
    anchor: its months.
    second_date: as printed.
    end: its months.
    text: the question.

  Raises:
    DateError: if the range ends before it starts.
  """
  low, high = anchor[0], end[1]
  after_first = text[first_date.end : second_date.start]
  if re.match("之後|以後|後", after_first) and re.match(
    "之前|以前|前", text[second_date.end :]
  ):
    low, high = anchor[1] + 1, end[0] - 1
  if high < low:
    raise DateError("the range ends before it starts", text, second_date.start)
  return Months(low, high)
