"""Checker of questions: form, facts and gold, independent of the generator.

Gold that only the generator vouches for is worth no more than the generator.
The checker compares the relations with the repository, recomputes the gold
with sets of years (`gold_checks`), and checks the names that the text must or
must not hold, the number of relations and the splits.
"""

from __future__ import annotations

from collections.abc import Iterable

from ctd_jax_datasets.ctm import periods
from ctd_jax_datasets.ctm.checks import gold_checks
from ctd_jax_datasets.ctm.checks.year_sets import find_leaked_name
from ctd_jax_datasets.ctm.entities import Entity, Relation
from ctd_jax_datasets.ctm.golds import GOLDS_BY_TASK
from ctd_jax_datasets.ctm.questions import Question
from ctd_jax_datasets.ctm.vocabulary import (
  EDD,
  EEU,
  EVENT,
  LSEC,
  PJ,
  RR,
  SEC,
  TES,
  TIC,
  TOU,
)

VERSION = "1"  # written into every question; raise it when a check changes
# Task -> fewest and most relations. Source: the paper's "Cross Temp Count".
_RELATION_LIMITS = {EDD: (1, 1), LSEC: (4, 15)}
_DEFAULT_RELATION_LIMITS = (2, 10)


class CheckError(ValueError):
  """Question whose gold does not follow from its relations."""


class QuestionChecker:
  """Checker of single questions against a repository."""

  def __init__(self, records: Iterable[Entity]):
    """Indexes the repository.

    Args:
      records: all entities.
    """
    self._records = {record.entity_id: record for record in records}
    self._gold_checks = {
      EDD: self._check_label,
      PJ: gold_checks.check_polarity,
      TOU: gold_checks.check_order,
      RR: gold_checks.check_related,
      SEC: gold_checks.check_anachronisms,
      EEU: gold_checks.check_renamed,
      TIC: gold_checks.check_years,
      TES: gold_checks.check_option,
      LSEC: gold_checks.check_anachronisms,
    }

  def __call__(self, question: Question) -> None:
    """Checks a question.

    Raises:
      CheckError: naming the question and the problem.
    """
    problem = (
      self._check_form(question)
      or self._check_facts(question)
      or self._gold_checks[question.task](question)
    )
    if problem:
      raise CheckError(f"question {question.question_id}: {problem}")

  def _check_form(self, question: Question) -> str:
    """Returns the problem of the gold's class or the relations, or ""."""
    if not isinstance(question.gold, GOLDS_BY_TASK[question.task]):
      return f"gold has the form {question.gold.form}"
    num_relations = len(question.relations)
    lowest, highest = _RELATION_LIMITS.get(
      question.task, _DEFAULT_RELATION_LIMITS
    )
    if not lowest <= num_relations <= highest:
      return f"{num_relations} relations, not {lowest} to {highest}"
    names = [relation.entity for relation in question.relations]
    if len(set(names)) != len(names):
      return "an entity is in it twice"
    return ""

  def _check_facts(self, question: Question) -> str:
    """Returns the first relation that differs from its record, or ""."""
    for relation in question.relations:
      record = self._records.get(relation.entity_id)
      if record is None or record.name != relation.entity:
        return f"{relation.entity}: not in the repository"
      allowed_years = {(i.start, i.end) for i in record.intervals}
      # Scenes let people talk of an event, which is possible ever since.
      if record.kind == EVENT:
        allowed_years |= {(start, None) for start, _ in allowed_years}
      if (relation.start, relation.end) not in allowed_years:
        return f"{relation.entity}: other years than in the repository"
      if (relation.period, relation.place) != (
        record.periods[0],
        record.place,
      ):
        return f"{relation.entity}: of another period or place"
    return ""

  def _check_label(self, question: Question) -> str:
    """EDD: the label is one of the relation's years and not in the text."""
    (relation,) = question.relations
    record = self._records[relation.entity_id]
    gold = question.gold
    if gold.label != relation.period or question.answer != gold.label:
      return "label is not that of the relation"
    if set(gold.acceptable) != set(record.periods):
      return "other labels are acceptable"
    # What lies before the timeline counts as its first period.
    labels_in_years = {
      label
      for year in _iterate_written_years(relation)
      for label in periods.list_acceptable_labels(year)
    } or {periods.LABELS[0]}
    if gold.label not in labels_in_years:
      return f"{gold.label} has none of its years"
    # An alias inside the name itself (in the text anyway) gives nothing away.
    return find_leaked_name(
      question, (alias for alias in record.aliases if alias not in record.name)
    )


def _iterate_written_years(relation: Relation) -> Iterable[int]:
  """Yields the years of a relation within the timeline, without a year 0."""
  last_year = relation.start if relation.end is None else relation.end
  for year in range(max(relation.start, periods.FIRST_YEAR), last_year + 1):
    if year and year <= periods.LAST_YEAR:
      yield year


def check_splits(questions: Iterable[Question]) -> None:
  """Checks that no entity is in questions of two splits.

  Raises:
    CheckError: naming the entity.
  """
  split_of: dict[str, str] = {}
  for question in questions:
    for relation in question.relations:
      split = split_of.setdefault(relation.entity_id, question.split)
      if split != question.split:
        raise CheckError(
          f"question {question.question_id}: {relation.entity} is in {split} "
          f"and in {question.split}"
        )
