"""Reigns by which a chronicle counts, among those that it names.

A chronicle of divided times counts by one court and tells of the eras of
others: 「魏改元太安」 in the years of 大明. The numbers of its years, most of
which are printed without an era, say which court that is.

Axes: M names of months (`Calendar.memberships`), n sections.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Int

from ctd_jax.dating.chronicle.chronicle_dates import DOUBTFUL, ChronicleDates

_MIN_SHARE = 0.5  # of its months, to name them


def find_naming_reigns(dates: ChronicleDates) -> tuple[int, ...]:
  """Returns the rows of the reigns that name the months of a chronicle.

  Of several reigns of a month that the chronicle names, those of the polity
  which more of its years fit; all of them where none is ahead. A reign that is
  outdone so in most of its months names none.

  Args:
    dates: of the chronicle.
  """
  members = dates.calendar.memberships
  is_printed = np.isin(members.reigns, sorted(dates.printed_reigns))
  polities = dates.calendar.polities[members.reigns]  # [M]
  votes = np.bincount(
    polities[_list_fitting_names(dates, is_printed)],
    minlength=int(dates.calendar.polities.max(initial=0)) + 1,
  )
  weights = np.where(is_printed, votes[polities], -1)  # [M]
  most = np.full(int(members.lunations.max(initial=0)) + 1, -1)
  np.maximum.at(most, members.lunations, weights)
  is_naming = is_printed & (weights == most[members.lunations])
  num_reigns = len(dates.calendar.polities)
  num_named = np.bincount(members.reigns[is_naming], minlength=num_reigns)
  num_months = np.bincount(members.reigns, minlength=num_reigns)
  is_kept = (num_named > 0) & (num_named >= _MIN_SHARE * num_months)
  return tuple(np.flatnonzero(is_kept).tolist())


def _list_fitting_names(
  dates: ChronicleDates, is_printed: Bool[np.ndarray, " M"]
) -> Int[np.ndarray, " v"]:
  """Returns the names of months whose year is that which a section prints."""
  members = dates.calendar.memberships
  names: list[int] = []
  for section, month, chance in zip(
    dates.sections, dates.months[:, 0], dates.probabilities[:, 0], strict=True
  ):
    years = [
      values[1] for name, *values in section.statements if name == "year"
    ]
    if not years or chance < DOUBTFUL or dates.is_outside(month):
      continue
    start, end = np.searchsorted(members.lunations, (month, month + 1))
    names += [
      row
      for row in range(start, end)
      if is_printed[row] and members.regnal_years[row] == years[0]
    ]
  return np.array(names, int)
