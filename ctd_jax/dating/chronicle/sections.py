"""Sections of a chronicle: stretches of its records, each under one date."""

from __future__ import annotations

import dataclasses

from ctd_jax.dating.chronicle.printed_dates import (
  DatePart,
  DateStatement,
  PrintedDate,
)
from ctd_jax.dating.sequence import section_kinds


@dataclasses.dataclass(frozen=True)
class Section:
  """A stretch of a record under one date.

  Attributes:
    record: number of the record, from 0.
    start: position of its first character in the text of the record.
    stop: position after its last.
    date_end: position in the record after the date at its head, the mark of a
      stream before it included; its start if no date heads it.
    kind: what its head prints of a date, a number of `section_kinds`.
    statements: of its date, each a name of `emissions.LOG_ERROR_ODDS` and
      values.
    is_heading: whether it holds nothing but a date or a heading.
    may_be_told: whether its date stands inside a record of running text, where
      the record may but tell of it.
    is_of_other_time: whether what stands around it is of another time than the
      calendar (`outside_stretches`).
  """

  record: int
  start: int
  stop: int
  date_end: int
  kind: int
  statements: tuple[DateStatement, ...] = ()
  is_heading: bool = False
  may_be_told: bool = False
  is_of_other_time: bool = False


@dataclasses.dataclass
class SectionDraft:
  """A section that is being read.

  Attributes:
    start: position of its first character.
    date_end: position after the date that heads it, or the mark of a stream.
    last_part: smallest part of that date; -1 if there is none yet.
    kind: as of `Section`.
    statements: as of `Section`.
  """

  start: int
  date_end: int
  last_part: int = -1
  kind: int = section_kinds.NO_DATE
  statements: list[DateStatement] = dataclasses.field(default_factory=list)

  def add_date(self, date: PrintedDate) -> None:
    """Adds a date, or a smaller part of the one at the head."""
    self.kind = max(self.kind, date.kind)
    if self.last_part == DatePart.YEAR and date.first_part == DatePart.DAY:
      # 「元年（甲寅）」 is the name of the year.
      self.statements.append(("cycle", date.statements[0][1]))
      self.last_part = DatePart.CYCLE
    else:
      self.statements += date.statements
      self.last_part = date.last_part
    self.date_end = date.end
