"""Finds texts that have an entry for nearly every day.

A day of the sexagenary cycle is 0 to 59 days after the one before it, or 60
more for each cycle that lies between. In most annals all these numbers are
about as frequent. In a text of daily entries nearly all are small, so it is
known how far one entry is from the next. A date inside such an entry tells of
another time and does not move the text.

Axes: N sections.
"""

import itertools
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Int, Int32

from ctd_jax.chronology.sexagenary import CYCLE_LENGTH
from ctd_jax.dating.chronicle.sections import (
  BETWEEN_DAYS,
  DAY,
  DAY_STATEMENTS,
  NEXT_DAY,
  NO_DATE,
  TOLD_IN_ENTRY,
  Section,
)

# Least share of entries that soon follow the one before, for a text of daily
# entries; and least chance that a single entry does. The share is .99 in the
# daily entries of 繫年要錄. In the training chronicles it is at most .39
# (資治通鑑), and nothing changes there.
_SOON = 0.9
_MONTH_STATEMENTS = "month", "leap", "season", "months"
_NUM_ROUNDS = 100  # of fitting the mixture


def mark_daily_entries(
  kinds_N: Int32[np.ndarray, " N"], sections: Sequence[Section]
) -> Int32[np.ndarray, " N"]:
  """Returns the kinds of sections, with daily entries marked.

  The day of an entry becomes NEXT_DAY if it soon follows the entry before.
  Sections between the two that print no other date become BETWEEN_DAYS. Other
  dates inside entries become TOLD_IN_ENTRY.
  """
  days = {
    row: day
    for row, section in enumerate(sections)
    if (day := _find_day(section)) is not None
  }
  heads = [
    row for row in days if sections[row].start == 0 and kinds_N[row] != NO_DATE
  ]
  gaps = np.diff(np.array([days[row] for row in heads], int)) % CYCLE_LENGTH
  share, chances = _fit_gaps(np.bincount(gaps, minlength=CYCLE_LENGTH))
  marked = kinds_N.copy()
  if share < _SOON:
    return marked
  for (before, head), gap in zip(itertools.pairwise(heads), gaps, strict=True):
    is_soon = chances[gap] >= _SOON
    for row in range(before + 1, head):
      # A day inside a sentence does not date its record.
      is_between = kinds_N[row] == NO_DATE or (
        row in days
        and _prints_only_days(sections[row])
        and (days[row] - days[before]) % CYCLE_LENGTH <= gap
      )
      is_inside = sections[row].start > 0 or (
        is_soon and not _may_open_month(sections[row])
      )
      if is_inside and not is_between:
        marked[row] = TOLD_IN_ENTRY
      elif is_soon and is_between:
        marked[row] = BETWEEN_DAYS
    if is_soon and kinds_N[head] == DAY:
      marked[head] = NEXT_DAY
  return marked


def _may_open_month(section: Section) -> bool:
  """Returns whether a record may be a heading; 「康定元年初」 is none."""
  return section.is_heading or any(
    name in _MONTH_STATEMENTS for name, *_ in section.statements
  )


def _prints_only_days(section: Section) -> bool:
  return all(name in DAY_STATEMENTS for name, *_ in section.statements)


def _find_day(section: Section) -> int | None:
  """Returns the first day of the cycle that a section prints."""
  for name, *values in section.statements:
    if name in DAY_STATEMENTS:
      return values[0]
  return None


def _fit_gaps(
  counts: Int[np.ndarray, " days"],
) -> tuple[float, Float[np.ndarray, " days"]]:
  """Returns the share of gaps that are near, and the chance of each to be.

  Near gaps have a geometric distribution, others a uniform one; both are fitted
  by expectation maximization.
  """
  days = np.arange(CYCLE_LENGTH)
  share = 0.5
  ratio = 1 - 1 / CYCLE_LENGTH
  for _ in range(_NUM_ROUNDS):
    near = share * ratio**days * (1 - ratio) / (1 - ratio**CYCLE_LENGTH)
    chances = near / (near + (1 - share) / CYCLE_LENGTH)
    num_near = counts @ chances
    # The prior is one near gap, of a day, and one other: few gaps prove little.
    share = (num_near + 1) / (counts.sum() + 2)
    mean = ((counts * chances) @ days + 1) / (num_near + 1)
    ratio = mean / (1 + mean)
  return float(share), chances
