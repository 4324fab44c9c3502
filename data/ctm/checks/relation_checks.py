"""Checks of RR: each rule recomputes the gold names of a question.

A check returns what is wrong, or "".
"""

from __future__ import annotations

from ctd_jax_datasets.ctm.checks.year_sets import (
  find_leaked_name,
  find_missing_name,
  list_relation_years,
)
from ctd_jax_datasets.ctm.questions import Question


def _check_together(question: Question) -> str:
  """Checks which of two lives came first, or that they overlap."""
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
  """Checks that only the gold name shares years with the first relation."""
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
  """Checks the present provinces, which are `place` of the relations."""
  provinces = tuple(relation.place for relation in question.relations)
  if provinces != question.gold.names or not all(provinces):
    return "other provinces"
  return find_missing_name(question, question.relations)


def _check_rulers(question: Question) -> str:
  """Checks that each ruler reigned when the relation before it began."""
  # Relations alternate: event, life or era; then its ruler.
  subjects, rulers = question.relations[::2], question.relations[1::2]
  for subject, ruler in zip(subjects, rulers, strict=True):
    if not {min(list_relation_years(subject))} & list_relation_years(ruler):
      return f"{ruler.entity} did not reign when {subject.entity} began"
  if tuple(ruler.entity for ruler in rulers) != question.gold.names:
    return "other rulers"
  return find_leaked_name(question, question.gold.names) or find_missing_name(
    question, subjects
  )


# Rule of the question -> check.
RELATION_CHECKS = {
  "together": _check_together,
  "contemporary": _check_contemporary,
  "province": _check_province,
  "reign": _check_rulers,
  "era": _check_rulers,
}
