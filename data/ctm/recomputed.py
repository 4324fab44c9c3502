"""What the checker recomputes with: years as sets, and what a text says.

Why: nothing here is taken from `ctd_jax_datasets.ctm.intervals`, so a slip there is
seen. The rules of RR are here, those of the other tasks in `checker`, which
calls this.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence

from ctd_jax_datasets.ctm import periods
from ctd_jax_datasets.ctm.questions import Question, Relation


@functools.cache
def axis() -> dict[int, int]:
  """Returns written year -> year on an axis that has no gap at 0."""
  years = [y for y in range(-10_000, 2101) if y]
  return {year: place for place, year in enumerate(years)}


def years(relation: Relation) -> frozenset[int]:
  """Returns the years of a relation on the axis without a gap."""
  place = axis()
  end = periods.LAST_YEAR if relation.end is None else relation.end
  return frozenset(range(place[relation.start], place[end] + 1))


def missing(question: Question, relations: Sequence[Relation]) -> str:
  """Returns which of the relations the text does not name."""
  for relation in relations:
    if relation.entity not in question.question:
      return f"{relation.entity} is not in the text"
  return ""


def leak(question: Question, names: Iterable[str]) -> str:
  """Returns which of the names the text gives away."""
  said = next((name for name in names if name in question.question), "")
  return f"{said} is in the text" if said else ""


def _together(question: Question) -> str:
  first, second = question.relations
  (said,) = question.gold.names
  if years(first) & years(second):
    wanted = "同时在世"
  elif max(years(first)) < min(years(second)):
    wanted = f"{first.entity}早于{second.entity}"
  else:
    wanted = f"{second.entity}早于{first.entity}"
  return "" if said == wanted else f"{wanted} is what follows"


def _contemporary(question: Question) -> str:
  stem, *candidates = question.relations
  met = [c.entity for c in candidates if years(c) & years(stem)]
  if tuple(met) != question.gold.names:
    return f"{met} lived at that time"
  return missing(question, question.relations)


def _province(question: Question) -> str:
  places = tuple(relation.place for relation in question.relations)
  if places != question.gold.names or not all(places):
    return "other provinces"
  return missing(question, question.relations)


def _ruled(question: Question) -> str:
  """Checks pairs of what is known and the ruler it belongs to."""
  known, rulers = question.relations[::2], question.relations[1::2]
  for thing, ruler in zip(known, rulers, strict=True):
    if not {min(years(thing))} & years(ruler):
      return f"{ruler.entity} did not reign when {thing.entity} began"
  if tuple(ruler.entity for ruler in rulers) != question.gold.names:
    return "other rulers"
  return leak(question, question.gold.names) or missing(question, known)


RELATED = {
  "together": _together,
  "contemporary": _contemporary,
  "province": _province,
  "reign": _ruled,
  "era": _ruled,
}
