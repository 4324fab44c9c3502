"""Recomputes the gold of a question from its relations, in another way.

Why: gold that the generator alone vouches for is worth no more than the
generator. Here years are sets of integers and nothing is taken from
`ctd_jax_datasets.ctm.intervals`; also checked: the relations against the repository,
what the text must and must not say, the number of relations, the splits.
Called by `generate` for every question, and by tests.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable

from ctd_jax_datasets.ctm import periods
from ctd_jax_datasets.ctm.questions import (
  EARLIER,
  EDD,
  EEU,
  EVENT,
  GOLDS_BY_TASK,
  LATER,
  LSEC,
  PJ,
  PLACE,
  RR,
  SEC,
  START,
  TES,
  TIC,
  TOU,
  Entity,
  Question,
  Relation,
)
from ctd_jax_datasets.ctm.recomputed import (
  RELATION_CHECKS,
  find_leaked_name,
  find_missing_name,
  list_relation_years,
  make_year_axis,
)

VERSION = "1"
_SINGLE_RELATION, _MIN_LONG_RELATIONS, _MAX_RELATIONS, _MAX_LONG_RELATIONS = (
  1,
  4,
  10,
  15,
)


class CheckError(ValueError):
  """A question whose gold does not follow from its relations."""


class QuestionChecker:
  """Checks questions against a repository.

  Args:
    records: all entities.
  """

  def __init__(self, records: Iterable[Entity]):
    self._records = {record.entity_id: record for record in records}
    self._gold_checks = {
      EDD: self._check_label,
      PJ: self._check_polarity,
      TOU: self._check_order,
      RR: self._check_related,
      SEC: self._check_anachronisms,
      EEU: self._check_renamed,
      TIC: self._check_years,
      TES: self._check_option,
      LSEC: self._check_anachronisms,
    }

  def __call__(self, question: Question) -> None:
    """Passes a question whose gold is right.

    Raises:
      CheckError: naming the question and what is wrong.
    """
    problem = (
      self._check_form(question)
      or self._check_facts(question)
      or self._gold_checks[question.task](question)
    )
    if problem:
      raise CheckError(f"question {question.question_id}: {problem}")

  def _check_form(self, question: Question) -> str:
    if not isinstance(question.gold, GOLDS_BY_TASK[question.task]):
      return f"gold has the form {question.gold.form}"
    min_relations, max_relations = {
      EDD: (_SINGLE_RELATION, _SINGLE_RELATION),
      LSEC: (_MIN_LONG_RELATIONS, _MAX_LONG_RELATIONS),
    }.get(question.task, (_SINGLE_RELATION + 1, _MAX_RELATIONS))
    if not min_relations <= len(question.relations) <= max_relations:
      return f"{len(question.relations)} relations, not {min_relations} to {max_relations}"
    names = [relation.entity for relation in question.relations]
    if len(set(names)) != len(names):
      return "an entity is in it twice"
    return ""

  def _check_facts(self, question: Question) -> str:
    """Returns which relation is not what the repository says."""
    for relation in question.relations:
      record = self._records.get(relation.entity_id)
      if record is None or record.name != relation.entity:
        return f"{relation.entity}: not in the repository"
      allowed_years = {(i.start, i.end) for i in record.intervals}
      if record.kind == EVENT:  # can be talked of ever since
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
    (relation,) = question.relations
    record = self._records[relation.entity_id]
    gold = question.gold
    if gold.label != relation.period or question.answer != gold.label:
      return "label is not that of the relation"
    if set(gold.acceptable) != set(record.periods):
      return "other labels are acceptable"
    labels_in_years = {
      label
      for year in _iterate_written_years(relation)
      for label in periods.list_acceptable_labels(year)
    } or {periods.LABELS[0]}
    if gold.label not in labels_in_years:
      return f"{gold.label} has none of its years"
    return find_leaked_name(
      question, (alias for alias in record.aliases if alias not in record.name)
    )

  def _check_polarity(self, question: Question) -> str:
    conflicts = {
      frozenset((first.entity, second.entity))
      for first in question.relations
      for second in question.relations
      if not list_relation_years(first) & list_relation_years(second)
    }
    if conflicts != {frozenset(pair) for pair in question.gold.conflicts}:
      return "other pairs conflict"
    if question.gold.possible == bool(conflicts):
      return "polarity does not follow"
    if not question.answer.startswith("否" if conflicts else "是"):
      return "the answer says the opposite"
    return find_missing_name(question, question.relations)

  def _check_order(self, question: Question) -> str:
    by_year: dict[int, set[str]] = {}
    for relation in question.relations:
      by_year.setdefault(min(list_relation_years(relation)), set()).add(
        relation.entity
      )
    expected_groups = [by_year[year] for year in sorted(by_year)]
    if [set(group) for group in question.gold.groups] != expected_groups:
      return "other order"
    return find_missing_name(question, question.relations)

  def _check_anachronisms(self, question: Question) -> str:
    scene, *members = question.relations
    gold = question.gold
    scene_years = list_relation_years(scene)
    if (gold.scene, gold.start, gold.end) != (
      scene.entity,
      scene.start,
      scene.end,
    ):
      return "the first relation is not the scene"
    expected_anachronisms = [
      (
        member.entity,
        LATER
        if min(list_relation_years(member)) > max(scene_years)
        else EARLIER,
      )
      for member in members
      if not list_relation_years(member) & scene_years
    ]
    if [
      (anachronism.entity, anachronism.reason)
      for anachronism in gold.anachronisms
    ] != expected_anachronisms:
      return "others are out of their time"
    if not expected_anachronisms:
      return "nothing is out of its time"
    return find_missing_name(question, question.relations)

  def _check_years(self, question: Question) -> str:
    gold, axis_position = question.gold, make_year_axis()
    dates = [
      relation.start if point == START else relation.end
      for relation, point in zip(question.relations, gold.points, strict=True)
    ]
    true_steps = [
      abs(axis_position[b] - axis_position[a])
      for a, b in itertools.pairwise(dates)
    ]
    naive_steps = [abs(b - a) for a, b in itertools.pairwise(dates)]
    if (gold.years, gold.with_year_zero) != (sum(true_steps), sum(naive_steps)):
      return f"{sum(true_steps)} years, {sum(naive_steps)} with a year 0"
    if list(gold.steps) != true_steps or question.answer != f"约{gold.years}年":
      return "steps or answer do not add up"
    return find_missing_name(question, question.relations)

  def _check_option(self, question: Question) -> str:
    gold = question.gold
    matching_options = [
      n for n, labels in enumerate(gold.periods) if gold.label in labels
    ]
    if matching_options != [gold.correct] or len(set(gold.options)) != len(
      gold.options
    ):
      return "not exactly one option fits"
    if {relation.period for relation in question.relations} != {gold.label}:
      return "the company is not of one period"
    if question.answer != gold.options[gold.correct]:
      return "the answer is another option"
    return find_missing_name(question, question.relations)

  def _check_renamed(self, question: Question) -> str:
    answers = set(question.gold.names)
    given_names = [r for r in question.relations if r.entity not in answers]
    queried_names = [r for r in question.relations if r.entity in answers]
    if tuple(r.entity for r in queried_names) != question.gold.names:
      return "names are not those of the relations"
    if any(relation.kind != PLACE for relation in question.relations):
      return "not all are names of places"
    if not {r.place for r in queried_names} <= {r.place for r in given_names}:
      return "a city is asked for that is not given"
    for relation in queried_names:
      if f"{relation.period}" not in question.question:
        return f"{relation.period} is not asked for"
    return find_leaked_name(question, answers) or find_missing_name(
      question, given_names
    )

  def _check_related(self, question: Question) -> str:
    return RELATION_CHECKS[question.rule](question)


def _iterate_written_years(relation: Relation) -> Iterable[int]:
  """Yields the years of a relation within the timeline, as written."""
  last_year = relation.start if relation.end is None else relation.end
  for year in range(max(relation.start, periods.FIRST_YEAR), last_year + 1):
    if year and year <= periods.LAST_YEAR:
      yield year


def check_splits(questions: Iterable[Question]) -> None:
  """Passes questions of which no entity is in two splits.

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
