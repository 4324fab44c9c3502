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
  GOLD_OF,
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
  RELATED,
  axis,
  leak,
  missing,
  years,
)

VERSION = "1"
_ONE, _FEWEST_LONG, _MOST, _MOST_LONG = 1, 4, 10, 15


class CheckError(ValueError):
  """A question whose gold does not follow from its relations."""


class Checker:
  """Checks questions against a repository.

  Args:
    records: all entities.
  """

  def __init__(self, records: Iterable[Entity]):
    self._records = {record.entity_id: record for record in records}
    self._rules = {
      EDD: self._label,
      PJ: self._polarity,
      TOU: self._order,
      RR: self._related,
      SEC: self._anachronisms,
      EEU: self._renamed,
      TIC: self._years,
      TES: self._option,
      LSEC: self._anachronisms,
    }

  def __call__(self, question: Question) -> None:
    """Passes a question whose gold is right.

    Raises:
      CheckError: naming the question and what is wrong.
    """
    problem = (
      self._form(question)
      or self._facts(question)
      or self._rules[question.task](question)
    )
    if problem:
      raise CheckError(f"question {question.question_id}: {problem}")

  def _form(self, question: Question) -> str:
    if not isinstance(question.gold, GOLD_OF[question.task]):
      return f"gold has the form {question.gold.form}"
    fewest, most = {
      EDD: (_ONE, _ONE),
      LSEC: (_FEWEST_LONG, _MOST_LONG),
    }.get(question.task, (_ONE + 1, _MOST))
    if not fewest <= len(question.relations) <= most:
      return f"{len(question.relations)} relations, not {fewest} to {most}"
    names = [relation.entity for relation in question.relations]
    if len(set(names)) != len(names):
      return "an entity is in it twice"
    return ""

  def _facts(self, question: Question) -> str:
    """Returns which relation is not what the repository says."""
    for relation in question.relations:
      record = self._records.get(relation.entity_id)
      if record is None or record.name != relation.entity:
        return f"{relation.entity}: not in the repository"
      known = {(i.start, i.end) for i in record.intervals}
      if record.kind == EVENT:  # can be talked of ever since
        known |= {(start, None) for start, _ in known}
      if (relation.start, relation.end) not in known:
        return f"{relation.entity}: other years than in the repository"
      if (relation.period, relation.place) != (
        record.periods[0],
        record.place,
      ):
        return f"{relation.entity}: of another period or place"
    return ""

  def _label(self, question: Question) -> str:
    (relation,) = question.relations
    record = self._records[relation.entity_id]
    gold = question.gold
    if gold.label != relation.period or question.answer != gold.label:
      return "label is not that of the relation"
    if set(gold.acceptable) != set(record.periods):
      return "other labels are acceptable"
    touched = {
      label for year in _written(relation) for label in periods.acceptable(year)
    } or {periods.LABELS[0]}
    if gold.label not in touched:
      return f"{gold.label} has none of its years"
    return leak(question, (a for a in record.aliases if a not in record.name))

  def _polarity(self, question: Question) -> str:
    found = {
      frozenset((first.entity, second.entity))
      for first in question.relations
      for second in question.relations
      if not years(first) & years(second)
    }
    if found != {frozenset(pair) for pair in question.gold.conflicts}:
      return "other pairs conflict"
    if question.gold.possible == bool(found):
      return "polarity does not follow"
    if not question.answer.startswith("否" if found else "是"):
      return "the answer says the opposite"
    return missing(question, question.relations)

  def _order(self, question: Question) -> str:
    by_year: dict[int, set[str]] = {}
    for relation in question.relations:
      by_year.setdefault(min(years(relation)), set()).add(relation.entity)
    wanted = [by_year[year] for year in sorted(by_year)]
    if [set(group) for group in question.gold.groups] != wanted:
      return "other order"
    return missing(question, question.relations)

  def _anachronisms(self, question: Question) -> str:
    scene, *others = question.relations
    gold = question.gold
    when = years(scene)
    if (gold.scene, gold.start, gold.end) != (
      scene.entity,
      scene.start,
      scene.end,
    ):
      return "the first relation is not the scene"
    wanted = [
      (other.entity, LATER if min(years(other)) > max(when) else EARLIER)
      for other in others
      if not years(other) & when
    ]
    if [(a.entity, a.reason) for a in gold.anachronisms] != wanted:
      return "others are out of their time"
    if not wanted:
      return "nothing is out of its time"
    return missing(question, question.relations)

  def _years(self, question: Question) -> str:
    gold, place = question.gold, axis()
    dates = [
      relation.start if point == START else relation.end
      for relation, point in zip(question.relations, gold.points, strict=True)
    ]
    true = [abs(place[b] - place[a]) for a, b in itertools.pairwise(dates)]
    naive = [abs(b - a) for a, b in itertools.pairwise(dates)]
    if (gold.years, gold.with_year_zero) != (sum(true), sum(naive)):
      return f"{sum(true)} years, {sum(naive)} with a year 0"
    if list(gold.steps) != true or question.answer != f"约{gold.years}年":
      return "steps or answer do not add up"
    return missing(question, question.relations)

  def _option(self, question: Question) -> str:
    gold = question.gold
    fitting = [
      n for n, labels in enumerate(gold.periods) if gold.label in labels
    ]
    if fitting != [gold.correct] or len(set(gold.options)) != len(gold.options):
      return "not exactly one option fits"
    if {relation.period for relation in question.relations} != {gold.label}:
      return "the company is not of one period"
    if question.answer != gold.options[gold.correct]:
      return "the answer is another option"
    return missing(question, question.relations)

  def _renamed(self, question: Question) -> str:
    answers = set(question.gold.names)
    given = [r for r in question.relations if r.entity not in answers]
    asked = [r for r in question.relations if r.entity in answers]
    if tuple(r.entity for r in asked) != question.gold.names:
      return "names are not those of the relations"
    if any(relation.kind != PLACE for relation in question.relations):
      return "not all are names of places"
    if not {r.place for r in asked} <= {r.place for r in given}:
      return "a city is asked for that is not given"
    for relation in asked:
      if f"{relation.period}" not in question.question:
        return f"{relation.period} is not asked for"
    return leak(question, answers) or missing(question, given)

  def _related(self, question: Question) -> str:
    return RELATED[question.rule](question)


def _written(relation: Relation) -> Iterable[int]:
  """Yields the years of a relation within the timeline, as written."""
  last = relation.start if relation.end is None else relation.end
  for year in range(max(relation.start, periods.FIRST_YEAR), last + 1):
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
