"""Periods of an entity, computed from its years."""

from __future__ import annotations

import collections
from collections.abc import Mapping, Sequence

from ctd_jax_datasets.ctm import fact_tables, period_names, periods
from ctd_jax_datasets.ctm.entities import YearInterval
from ctd_jax_datasets.ctm.vocabulary import RULER

ADULT_AGE = 20
# A period with less of the years than this is not one of a record's labels.
_MIN_SHARE = 0.1


def assign_periods(
  kind: str, row: Mapping[str, str], intervals: Sequence[YearInterval]
) -> tuple[str, ...]:
  """Returns the labels of a record, the main one first."""
  years: collections.Counter[str] = collections.Counter()
  for interval in intervals:
    if interval.sense == "life" and kind == RULER:
      continue
    first, last = interval.start, interval.end
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
  """Returns how many of the years `first` to `last` each period has."""
  starts = [period.start for period in periods.PERIODS]
  # A period lasts until the next begins: where two overlap the later one wins.
  ends = [*starts[1:], periods.LAST_YEAR + 1]
  starts[0] = min(starts[0], first)
  year_counts = {
    label: min(last + 1, end) - max(first, start)
    for label, start, end in zip(periods.LABELS, starts, ends, strict=True)
  }
  return {label: years for label, years in year_counts.items() if years > 0}
