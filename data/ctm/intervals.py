"""Interval algebra over relations: gaps, overlaps, orders and distances.

Every gold answer of CTM is one of these functions of the years in its
relations, so it can be recomputed. An end of None means that the interval is
open.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

from ctd_jax_datasets.ctm import periods
from ctd_jax_datasets.ctm.entities import Relation
from ctd_jax_datasets.ctm.golds import Anachronism
from ctd_jax_datasets.ctm.questions import Distance
from ctd_jax_datasets.ctm.vocabulary import EARLIER, LATER, START, TOLERANCE


def compute_gap(first: Relation, second: Relation) -> int:
  """Returns the years between two intervals, 0 if they share a year.

  Positive if the second is later, negative if it is earlier.
  """
  # An open interval is never the earlier of two disjoint ones.
  if first.end is not None and second.start > first.end:
    return periods.count_years_between(first.end, second.start)[0]
  if second.end is not None and first.start > second.end:
    return -periods.count_years_between(second.end, first.start)[0]
  return 0


def sum_tolerances(*relations: Relation) -> int:
  """Returns the possible error in years of a difference of these dates."""
  return sum(TOLERANCE[relation.precision] for relation in relations)


def find_disjoint_pairs(
  relations: Sequence[Relation],
) -> tuple[tuple[str, str], ...]:
  """Returns the names of all pairs that share no year, in given order."""
  # Pairs are enough: intervals on a line share a point if every two do (Helly).
  return tuple(
    (first.entity, second.entity)
    for first, second in itertools.combinations(relations, 2)
    if compute_gap(first, second)
  )


def intersect_years(relations: Iterable[Relation]) -> tuple[int, int] | None:
  """Returns first and last year that all share, None if there is none."""
  relations = tuple(relations)
  start = max(relation.start for relation in relations)
  end = min(
    periods.LAST_YEAR if relation.end is None else relation.end
    for relation in relations
  )
  return (start, end) if start <= end else None


def find_anachronisms(
  scene: Relation, candidates: Iterable[Relation]
) -> tuple[Anachronism, ...]:
  """Returns the candidates that share no year with a scene, in their order.

  The reason is `LATER` if the candidate began after the scene, `EARLIER` if it
  ended before.
  """
  anachronisms = []
  for candidate in candidates:
    if years := compute_gap(scene, candidate):
      anachronisms.append(
        Anachronism(candidate.entity, LATER if years > 0 else EARLIER)
      )
  return tuple(anachronisms)


def order_by_start(
  relations: Sequence[Relation],
) -> tuple[tuple[str, ...], ...]:
  """Returns groups of names by first year, earliest first."""
  sorted_relations = sorted(relations, key=lambda relation: relation.start)
  return tuple(
    tuple(relation.entity for relation in tied_relations)
    for _, tied_relations in itertools.groupby(
      sorted_relations, key=lambda r: r.start
    )
  )


def year_at(relation: Relation, point: str) -> int:
  """Returns the first or last year of a relation.

  Raises:
    ValueError: for the last year of an open interval.
  """
  year = relation.start if point == START else relation.end
  if year is None:
    raise ValueError(f"{relation.entity}: has no last year")
  return year


def measure_distance(relations: Sequence[Relation]) -> Distance:
  """Returns the distances in periods, over all pairs of relations."""
  distances = [
    periods.count_periods_between(first.period, second.period)
    for first, second in itertools.combinations(relations, 2)
  ]
  return (
    Distance(min(distances), max(distances)) if distances else Distance(0, 0)
  )
