"""Checks of gold answers: each task recomputes its gold from the relations.

A check returns what is wrong, or "".
"""

from __future__ import annotations

import itertools

from ctd_jax_datasets.ctm.checks.relation_checks import RELATION_CHECKS
from ctd_jax_datasets.ctm.checks.year_sets import (
  find_leaked_name,
  find_missing_name,
  list_relation_years,
  make_year_axis,
)
from ctd_jax_datasets.ctm.questions import Question
from ctd_jax_datasets.ctm.vocabulary import EARLIER, LATER, PLACE, START


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
  """TES: exactly one option is of the period of the relations."""
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
  """EEU: every name asked for is of a city and period that the text gives."""
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


def check_related(question: Question) -> str:
  """RR: the names are those of the question's rule."""
  return RELATION_CHECKS[question.rule](question)
