"""Eras that a text names and its calendar lacks.

「洪武三年」 under a table without 洪武 is no third year of any of its reigns.
"""

from __future__ import annotations

import dataclasses

from ctd_jax.dating.sequence.month_calendar import Calendar


@dataclasses.dataclass(frozen=True)
class UnknownEra:
  """A year of an era that the calendar lacks.

  Attributes:
    start: position of its first character.
    stop: position after its last.
    name: of the era.
    regnal_year: from 1.
    known: (polity, first year, last year) of each era of that name in the
      installed tables; years are astronomical.
    nearest: names that are like it, the nearest first, if none is known.
  """

  start: int
  stop: int
  name: str
  regnal_year: int
  known: tuple[tuple[str, int, int], ...]
  nearest: tuple[str, ...] = ()


def find_unknown_eras(text: str, calendar: Calendar) -> list[UnknownEra]:
  """Returns the years of eras that the calendar lacks, in order."""
  return []
