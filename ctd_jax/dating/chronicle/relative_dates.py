"""Dates by relation to the one before: 「是年冬」, 「明年春」, 「翌月」.

「是年」 and 「其年」 keep the year and count with a season or a month; 「明年」
leaves it. The year that they are counted from is known where the same record
prints it. What is planned for next year is no date.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence

from ctd_jax.chronology.date_expressions import SEASONS
from ctd_jax.dating.chronicle.printed_dates import (
  RELATIVE_YEAR_STATEMENT,
  DatePart,
  PrintedDate,
)
from ctd_jax.dating.chronicle.punctuation import is_punctuated
from ctd_jax.dating.chronicle.sections import SectionDraft
from ctd_jax.dating.sequence import section_kinds

_YEAR_SIGN = "[年歲嵗歳]"
# A season after them is the first character of no name: 夏侯, 秋官.
_RELATIVE = re.compile(
  rf"(?:(?P<same_year>[是同其此本]{_YEAR_SIGN})"
  rf"|(?P<next_year>(?:[越又其]?[明次翌]|踰|逾){_YEAR_SIGN})"
  "|(?P<same_month>[是同其此本]月)|(?P<next_month>[翌次踰逾]月))"
  rf"(?P<season>，?[{SEASONS}](?![{SEASONS}侯國國人官姬]))?"
)
# What follows, in the same sentence, what somebody plans: 「明年，當大舉」.
_PLAN = re.compile(
  r"[^。；！？]{0,10}?(?:當|将|將(?!軍)|必|宜|可(?!汗)|請|欲|應|須|矣|乎|若|復可)"
)


def join_relative_dates(
  text: str, dates: Sequence[PrintedDate]
) -> list[PrintedDate]:
  """Returns the dates, those by relation joined to the parts after them.

  Args:
    text: of a record.
    dates: in it, in order.
  """
  by_start = {date.start: date for date in dates}
  joined = []
  for match in _RELATIVE.finditer(text):
    date = _read_relative_date(match, text, by_start)
    if date is not None:
      joined.append(date)
  taken = [range(date.start, date.end) for date in joined]
  return [
    *(date for date in dates if not any(date.start in span for span in taken)),
    *joined,
  ]


def _read_relative_date(
  match: re.Match[str], text: str, by_start: dict[int, PrintedDate]
) -> PrintedDate | None:
  """Returns a date by relation; None where it adds nothing, or is a plan."""
  prefix_end = match.start("season") if match["season"] else match.end()
  head = next(
    name
    for name in ("same_year", "next_year", "same_month", "next_month")
    if match[name]
  )
  rest = next(
    (
      by_start[position]
      for position in range(prefix_end, prefix_end + 2)
      if position in by_start and not text[prefix_end:position].strip("，")
    ),
    None,
  )
  if rest is not None and rest.first_part < DatePart.SEASON:
    rest = None
  if rest is None and match["season"] and head.endswith("year"):
    rest = PrintedDate(
      prefix_end,
      match.end(),
      DatePart.SEASON,
      DatePart.SEASON,
      section_kinds.SEASON,
      (("season", SEASONS.index(match["season"][-1])),),
      has_season=True,
    )
  if head.startswith("same"):
    smallest = DatePart.SEASON if head == "same_year" else DatePart.MONTH_DAY
    if rest is None or rest.first_part < smallest:
      return None
    if head == "same_month" and not is_punctuated(text):
      return None
    relation = ((RELATIVE_YEAR_STATEMENT, 0),) * (head == "same_year")
    return dataclasses.replace(
      rest,
      start=match.start(),
      statements=(*rest.statements, *relation),
      may_be_length=False,
      is_tail=False,
    )
  if _PLAN.match(text, rest.end if rest else match.end()):
    return None
  if head == "next_month" and rest is None and not is_punctuated(text):
    return None  # 「踰月無所得」 is a length of time
  part, kind, relation = (
    (DatePart.YEAR, section_kinds.YEAR, ((RELATIVE_YEAR_STATEMENT, 1),))
    if head == "next_year"
    else (DatePart.MONTH, section_kinds.MONTH, ())
  )
  if rest is None or rest.first_part <= part:
    return PrintedDate(match.start(), prefix_end, part, part, kind, relation)
  return dataclasses.replace(
    rest,
    start=match.start(),
    first_part=part,
    kind=kind,
    statements=(*relation, *rest.statements),
    may_be_length=False,
    is_tail=False,
  )


def resolve_relative_years(drafts: Sequence[SectionDraft]) -> None:
  """Puts years in the place of those by relation, where they are known.

  Args:
    drafts: sections of one record, in order; their statements change.
  """
  reign, year = None, 0  # the last that is printed; 0: not known
  for draft in drafts:
    steps = [
      values[0]
      for name, *values in draft.statements
      if name == RELATIVE_YEAR_STATEMENT
    ]
    draft.statements = [
      statement
      for statement in draft.statements
      if statement[0] != RELATIVE_YEAR_STATEMENT
    ]
    printed = next(
      (values for name, *values in draft.statements if name == "year"), None
    )
    if printed is not None:
      reign, year = printed
    elif steps and year:
      year += steps[0]
      draft.statements.insert(0, ("year", reign, year))
    elif draft.kind >= section_kinds.YEAR:
      year = 0
