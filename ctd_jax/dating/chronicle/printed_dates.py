"""Printed dates: what a date in a record states.

Whether a date is of what the record tells, of a length of time or of another
year, its clause decides (`clauses`).
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Hashable, Sequence

from ctd_jax.dating.sequence import section_kinds

# A name of `emissions.LOG_ERROR_ODDS` and its values.
DateStatement = tuple[Hashable, ...]
# Names of statements that are days, in the order of `sexagenary.DAY_MARKS`.
DAY_STATEMENTS = ("day", "first day", "last day")
# Number of a day in its month, 「十五日」; -1 is the last, 「晦」.
MONTH_DAY_STATEMENT = "month day"
# Number of a month that somebody may but speak of, or a length of time.
DOUBTFUL_MONTH_STATEMENT = "doubtful month"
# Name and regnal year of an era that the calendar lacks.
UNKNOWN_ERA_STATEMENT = "unknown era"
# Astronomical year, 「（1900年）」.
COMMON_YEAR_STATEMENT = "common year"
# Years since the last that is printed; a section has the year itself.
RELATIVE_YEAR_STATEMENT = "relative year"


class DatePart(enum.IntEnum):
  """Parts of a date, the largest first; a smaller one goes on with it."""

  YEAR = 0
  CYCLE = 1
  SEASON = 2
  MONTH = 3
  MONTH_DAY = 4
  DAY = 5


@dataclasses.dataclass(frozen=True)
class PrintedDate:
  """A date as it stands in the text.

  Attributes:
    start: position of its first character.
    end: position after its last.
    first_part: the largest part that it prints.
    last_part: the smallest.
    kind: of the section that it opens.
    statements: as of `Section`.
    is_tail: whether it only goes on with a date, 「朔」.
    may_be_length: whether it could be a length of time, 「三月」.
    has_season: whether it prints one.
  """

  start: int
  end: int
  first_part: DatePart
  last_part: DatePart
  kind: int
  statements: tuple[DateStatement, ...]
  is_tail: bool = False
  may_be_length: bool = False
  has_season: bool = False


def doubt_month(date: PrintedDate) -> PrintedDate:
  """Returns a date whose month may not be that of the record.

  Args:
    date: of a month, perhaps with its season and a day.
  """
  return dataclasses.replace(
    date,
    kind=section_kinds.DAY,
    statements=tuple(
      (DOUBTFUL_MONTH_STATEMENT, *values)
      if name == "month"
      else (name, *values)
      for name, *values in date.statements
    ),
  )


def list_positions(dates: Sequence[PrintedDate]) -> set[int]:
  """Returns the positions of the characters of dates."""
  return {
    position for date in dates for position in range(date.start, date.end)
  }
