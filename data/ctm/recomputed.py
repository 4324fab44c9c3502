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
def make_year_axis() -> dict[int, int]:
  """Returns written year -> year on an axis that has no gap at 0."""
  years = [y for y in range(-10_000, 2101) if y]
  return {year: index for index, year in enumerate(years)}


def list_relation_years(relation: Relation) -> frozenset[int]:
  """Returns the years of a relation on the axis without a gap."""
  axis_index = make_year_axis()
  end = periods.LAST_YEAR if relation.end is None else relation.end
  return frozenset(range(axis_index[relation.start], axis_index[end] + 1))


def find_missing_name(question: Question, relations: Sequence[Relation]) -> str:
  """Returns which of the relations the text does not name."""
  for relation in relations:
    if relation.entity not in question.question:
      return f"{relation.entity} is not in the text"
  return ""


def find_leaked_name(question: Question, names: Iterable[str]) -> str:
  """Returns which of the names the text gives away."""
  leaked_name = next((name for name in names if name in question.question), "")
  return f"{leaked_name} is in the text" if leaked_name else ""


def _check_together(question: Question) -> str:
  first, second = question.relations
  (gold_name,) = question.gold.names
  if list_relation_years(first) & list_relation_years(second):
    expected_name = "同时在世"
  elif max(list_relation_years(first)) < min(list_relation_years(second)):
    expected_name = f"{first.entity}早于{second.entity}"
  else:
    expected_name = f"{second.entity}早于{first.entity}"
  return (
    "" if gold_name == expected_name else f"{expected_name} is what follows"
  )


def _check_contemporary(question: Question) -> str:
  stem, *candidates = question.relations
  contemporaries = [
    candidate.entity
    for candidate in candidates
    if list_relation_years(candidate) & list_relation_years(stem)
  ]
  if tuple(contemporaries) != question.gold.names:
    return f"{contemporaries} lived at that time"
  return find_missing_name(question, question.relations)


def _check_province(question: Question) -> str:
  provinces = tuple(relation.place for relation in question.relations)
  if provinces != question.gold.names or not all(provinces):
    return "other provinces"
  return find_missing_name(question, question.relations)


def _check_rulers(question: Question) -> str:
  """Checks pairs of what is known and the ruler it belongs to."""
  subjects, rulers = question.relations[::2], question.relations[1::2]
  for subject, ruler in zip(subjects, rulers, strict=True):
    if not {min(list_relation_years(subject))} & list_relation_years(ruler):
      return f"{ruler.entity} did not reign when {subject.entity} began"
  if tuple(ruler.entity for ruler in rulers) != question.gold.names:
    return "other rulers"
  return find_leaked_name(question, question.gold.names) or find_missing_name(
    question, subjects
  )


RELATION_CHECKS = {
  "together": _check_together,
  "contemporary": _check_contemporary,
  "province": _check_province,
  "reign": _check_rulers,
  "era": _check_rulers,
}
