"""Units of a chronicle: sections that share a date.

A heading has no date of its own: 「三年」 above 「春，…」 dates what it heads.
Read as a section it would claim a month of its year, and what follows it would
have to go on from there.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
from jaxtyping import Int

from ctd_jax.dating.chronicle.printed_dates import DateStatement
from ctd_jax.dating.chronicle.sections import Section
from ctd_jax.dating.sequence import section_kinds

# What a statement fixes; a day or another statement leaves the kind as it is.
_KIND_OF_STATEMENT = {
  "day": section_kinds.DAY,
  "first day": section_kinds.DAY,
  "last day": section_kinds.DAY,
  "month day": section_kinds.DAY,
  "month": section_kinds.MONTH,
  "doubtful month": section_kinds.MONTH,
  "months": section_kinds.MONTH,
  "leap": section_kinds.MONTH,
  "season": section_kinds.SEASON,
  "year": section_kinds.YEAR,
  "common year": section_kinds.YEAR,
  "cycle": section_kinds.YEAR,
}


def join_headings(
  sections: Sequence[Section],
) -> tuple[list[Section], Int[np.ndarray, " n"]]:
  """Returns the units of sections, with the statements of their headings.

  A heading is joined to what follows it, unless that opens with a unit as large
  or contradicts it: of 「三年」 and 「四年」 the third year has no record, and
  「春，王正月」 before 「夏，…」 is a record of its own.

  Args:
    sections: in order of the text, n of them.

  Returns:
    units, each with the span of its last section; and of every section the
    index of its unit.
  """
  units: list[Section] = []
  unit_from_end = np.empty(len(sections), int)
  for index in range(len(sections) - 1, -1, -1):
    section = sections[index]
    if units and _heads(section, units[-1]):
      units[-1] = dataclasses.replace(
        units[-1],
        kind=section.kind,
        statements=_merge_statements(section.statements, units[-1].statements),
      )
    else:
      units.append(section)
    unit_from_end[index] = len(units) - 1
  return units[::-1], len(units) - 1 - unit_from_end


def _heads(section: Section, unit: Section) -> bool:
  """Returns whether a section is the heading of the unit after it."""
  if not section.is_heading:
    return False
  smallest = _find_smallest_unit(section)
  # The mark of a stream stands above or below a year; 「冬，十月」 before it is
  # the last entry of the other stream.
  is_within = section_kinds.STREAM in (section.kind, unit.kind)
  is_within &= smallest >= section_kinds.YEAR
  is_within |= unit.kind < smallest
  is_within |= unit.kind == section.kind == section_kinds.YEAR
  return is_within and not _contradict(section.statements, unit.statements)


def _find_smallest_unit(section: Section) -> int:
  """Returns the kind of the smallest unit that a heading prints."""
  kinds = {
    _KIND_OF_STATEMENT.get(name, section.kind)
    for name, *_ in section.statements
  }
  # A heading that names a reign alone heads its years.
  if section.kind == section_kinds.NAMED and section.statements[0][-1] == 0:
    return section_kinds.NAMED
  return min(kinds, default=section.kind)


def _contradict(
  outer: Sequence[DateStatement], inner: Sequence[DateStatement]
) -> bool:
  """Returns whether two dates name different years, months or reigns."""
  for name, *values in outer:
    for other_name, *other_values in inner:
      if name != other_name:
        continue
      if name == "year":
        # A reign without a year (0), or a year without a reign (None), leaves
        # the other open.
        (reign, year), (other_reign, other_year) = values, other_values
        if None not in (reign, other_reign) and reign != other_reign:
          return True
        if 0 not in (year, other_year) and year != other_year:
          return True
      elif values != other_values:
        return True
  return False


def _merge_statements(
  outer: Sequence[DateStatement], inner: Sequence[DateStatement]
) -> tuple[DateStatement, ...]:
  """Returns the statements of both, a reign and a year together."""
  years = [
    statement for statement in (*outer, *inner) if statement[0] == "year"
  ]
  other_statements = dict.fromkeys(
    statement for statement in (*outer, *inner) if statement[0] != "year"
  )
  if not years:
    return tuple(other_statements)
  reign = next((reign for _, reign, _ in years if reign is not None), None)
  year = next((year for _, _, year in years if year), 0)
  return (("year", reign, year), *other_statements)
