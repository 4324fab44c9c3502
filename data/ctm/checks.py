"""Checker of questions: form, facts and gold, independent of the generator.

Every task recomputes its gold from the relations with sets of years, not with
the interval algebra that made it. A gold that does not follow stops the build.
"""

import functools
import itertools
from collections.abc import Iterable, Sequence

from ctd_jax_datasets.ctm import periods
from ctd_jax_datasets.ctm.periods import (
  EARLIER,
  EDD,
  EEU,
  ERA,
  EVENT,
  LATER,
  LSEC,
  PJ,
  PLACE,
  RR,
  RULER,
  SEC,
  START,
  TES,
  TIC,
  TOU,
)
from ctd_jax_datasets.ctm.schema import (
  GOLDS_BY_TASK,
  Entity,
  Question,
  Relation,
)

# Written years on the axis: before the oldest event, after the last death.
_FIRST_AXIS_YEAR, _LAST_AXIS_YEAR = -10_000, 2100


@functools.cache
def make_year_axis() -> dict[int, int]:
  """Returns written year -> position on an axis without a gap at 0."""
  years = [y for y in range(_FIRST_AXIS_YEAR, _LAST_AXIS_YEAR + 1) if y]
  return {year: index for index, year in enumerate(years)}


def list_relation_years(relation: Relation) -> frozenset[int]:
  """Returns the axis positions of all years of a relation."""
  axis_index = make_year_axis()
  end = periods.LAST_YEAR if relation.end is None else relation.end
  return frozenset(range(axis_index[relation.start], axis_index[end] + 1))


def find_missing_name(question: Question, relations: Sequence[Relation]) -> str:
  """Returns the problem of a relation that the text does not name, or ""."""
  for relation in relations:
    if relation.entity not in question.question:
      return f"{relation.entity} is not in the text"
  return ""


def find_leaked_name(question: Question, names: Iterable[str]) -> str:
  """Returns the problem of a name that the text must not hold, or ""."""
  leaked_name = next((name for name in names if name in question.question), "")
  return f"{leaked_name} is in the text" if leaked_name else ""


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


def check_polarity(question: Question) -> str:
  """PJ: all pairs without a common year conflict, and only they."""
  # Unordered pairs; an entity shares its years with itself.
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


def check_order(question: Question) -> str:
  """TOU: groups are those of the first years."""
  by_year: dict[int, set[str]] = {}
  for relation in question.relations:
    by_year.setdefault(min(list_relation_years(relation)), set()).add(
      relation.entity
    )
  expected_groups = [by_year[year] for year in sorted(by_year)]
  if [set(group) for group in question.gold.groups] != expected_groups:
    return "other order"
  return find_missing_name(question, question.relations)


def check_anachronisms(question: Question) -> str:
  """SEC, LSEC: anachronisms share no year with the scene."""
  scene, *members = question.relations  # the first sets the time
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
      LATER if min(list_relation_years(member)) > max(scene_years) else EARLIER,
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


def check_years(question: Question) -> str:
  """TIC: years add up along the chain, in both conventions."""
  gold, axis_position = question.gold, make_year_axis()
  dates = [
    relation.start if point == START else relation.end
    for relation, point in zip(question.relations, gold.points, strict=True)
  ]
  # Differences on the axis are true years; those of written years count a 0.
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


def check_option(question: Question) -> str:
  """TES: exactly one option has the period of the relations."""
  gold = question.gold
  # Otherwise two answers would be right.
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


def check_renamed(question: Question) -> str:
  """EEU: every name asked for has a city and period that the text gives."""
  # The relations are names in the text and names asked for, city by city.
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


VERSION = "2"  # written into every question; raise it when a check changes
# Task -> fewest and most relations. Source: the paper's "Cross Temp Count".
_RELATION_LIMITS = {EDD: (1, 1), LSEC: (4, 15)}
_DEFAULT_RELATION_LIMITS = (2, 10)


class CheckError(ValueError):
  """Question whose gold does not follow from its relations."""


def check_related(question: Question) -> str:
  """RR: the names are those of the question's rule."""
  return RELATION_CHECKS[question.rule](question)


class QuestionChecker:
  """Checker of single questions against a repository."""

  def __init__(self, records: Iterable[Entity]):
    """Indexes the repository."""
    self._records = {record.entity_id: record for record in records}
    self._gold_checks = {
      EDD: self._check_label,
      PJ: check_polarity,
      TOU: check_order,
      RR: check_related,
      SEC: check_anachronisms,
      EEU: check_renamed,
      TIC: check_years,
      TES: check_option,
      LSEC: check_anachronisms,
    }

  def __call__(self, question: Question) -> None:
    """Checks a question.

    Raises:
      CheckError: if a question is wrong; the message names it and the problem.
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
    if relation.kind in (RULER, ERA):  # their polity decides
      regimes = periods.find_aliases(record.evidence[0])
      possible_labels = {label for r in regimes for label in r.labels}
    else:
      # What is before the timeline counts as its first period.
      last_year = relation.start if relation.end is None else relation.end
      possible_labels = {
        label
        for year in range(
          max(relation.start, periods.FIRST_YEAR),
          min(last_year, periods.LAST_YEAR) + 1,
        )
        if year  # there is no year 0
        for label in periods.list_acceptable_labels(year)
      } or {periods.LABELS[0]}
    if gold.label not in possible_labels:
      return f"{gold.label} has neither its years nor its polity"
    # An alias inside the name itself (in the text anyway) gives nothing away.
    return find_leaked_name(
      question, (alias for alias in record.aliases if alias not in record.name)
    )


def check_splits(questions: Iterable[Question]) -> None:
  """Checks that no entity is in questions of two splits.

  Raises:
    CheckError: if an entity is wrong; the message names it.
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
