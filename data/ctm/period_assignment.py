"""Periods of an entity, computed from its years.

The paper gives one `dynasty` to each entity. Here, several are accepted:

- The first label is that of most years. Of a life only the years from the
  twentieth on count: who grew up under one dynasty and worked under the next
  belongs to the next.
- Other labels need a tenth of the years: a name given in the last years of one
  dynasty and used under the next belongs to the next.
- Years before -2100 count as 先秦.
- A ruler of a regime mapped by convention (十国, 辽) has that label, too.
- Things have the label of their first attested year, and the labels on which
  authorities disagree.
"""

from __future__ import annotations

import collections
from collections.abc import Mapping, Sequence

from ctd_jax_datasets.ctm import fact_tables, period_names, periods
from ctd_jax_datasets.ctm.entities import YearInterval
from ctd_jax_datasets.ctm.vocabulary import RULER

ADULT_AGE = 20  # years of a life before it count for no period
_MIN_SHARE = 0.1  # of the years, for a period to be one of the labels


def assign_periods(
  kind: str, row: Mapping[str, str], intervals: Sequence[YearInterval]
) -> tuple[str, ...]:
  """Returns the labels of a record, the main one first.

  Args:
    kind: kind of the entity.
    row: row of its table.
    intervals: years of the record.
  """
  years: collections.Counter[str] = collections.Counter()
  for interval in intervals:
    # A ruler belongs to the years of the reign.
    if interval.sense == "life" and kind == RULER:
      continue
    first, last = interval.start, interval.end
    # Who died young keeps all years.
    if interval.sense == "life" and last - first > ADULT_AGE:
      first += ADULT_AGE
    years.update(count_years_by_label(first, first if last is None else last))
  num_years = years.total()
  labels = [
    label
    for label, count in years.most_common()
    if count >= num_years * _MIN_SHARE
  ]
  labels += fact_tables.split_values(row.get("contested", ""))
  if kind == RULER:
    regimes = period_names.find_aliases(row["polity"])
    labels += [
      label
      for regime in regimes
      if regime.is_convention
      for label in regime.labels
    ]
  return tuple(dict.fromkeys(labels))


def count_years_by_label(first: int, last: int) -> dict[str, int]:
  """Returns label -> number of the years from `first` to `last`."""
  starts = [period.start for period in periods.PERIODS]
  # A period lasts until the next begins: where two overlap the later one wins.
  ends = [*starts[1:], periods.LAST_YEAR + 1]
  starts[0] = min(starts[0], first)
  year_counts = {
    label: min(last + 1, end) - max(first, start)
    for label, start, end in zip(periods.LABELS, starts, ends, strict=True)
  }
  return {label: years for label, years in year_counts.items() if years > 0}
