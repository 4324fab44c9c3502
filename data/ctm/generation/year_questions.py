"""TIC: the number of years along a chain of dates."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence

from ctd_jax_datasets.ctm import intervals, periods, repository
from ctd_jax_datasets.ctm.entities import Entity, Relation
from ctd_jax_datasets.ctm.generation.drafts import Draft, NoDrawError
from ctd_jax_datasets.ctm.generation.pool import EntityPool, draw_period_window
from ctd_jax_datasets.ctm.golds import YearsGold
from ctd_jax_datasets.ctm.vocabulary import (
  END,
  EVENT,
  EXACT,
  FIGURE,
  RULER,
  START,
  TIC,
  TYPE_NAMES,
)

_RULE = "years"
_EXACT_SHARE = 0.9  # of the questions; the others test the tolerance
_TRIES = 200  # draws of entities before the pool counts as too small
_CHAIN_TEMPLATES = (
  "从{first}到{rest}，相邻两项之间相隔的年数加起来约为多少年？",
  "{first}距{rest}，各段间隔之和约为多少年？",
)
_PAIR_TEMPLATES = (
  "{first}与{second}之间约相隔多少年？",
  "从{first}到{second}，前后约差多少年？",
  "{first}，{second}，两者约相距多少年？",
)


def draft_years_question(
  rng: random.Random, pool: EntityPool, count: int
) -> Draft:
  """Returns a question about the years along a chain of `count` points.

  Raises:
    NoDrawError: if the pool has no such entities.
  """
  for _ in range(_TRIES):
    kinds = rng.choice(((FIGURE,), (EVENT,), (FIGURE, EVENT, RULER)))
    needs_exact = rng.random() < _EXACT_SHARE
    try:
      entities = pool.draw_entities(
        rng,
        count,
        kinds,
        draw_period_window(rng),
        lambda entity, needs_exact=needs_exact: _has_needed_precision(
          entity, needs_exact
        ),
      )
    except NoDrawError:
      continue
    relations = tuple(repository.make_relation(entity) for entity in entities)
    # Only a life has a last year that is an event of its own.
    points = tuple(
      rng.choice((START, END)) if relation.kind == FIGURE else START
      for relation in relations
    )
    dates = [
      intervals.year_at(*dated_relation)
      for dated_relation in zip(relations, points, strict=True)
    ]
    steps = [
      periods.count_years_between(first, second)[0]
      for first, second in itertools.pairwise(dates)
    ]
    # A step of no years could not be seen in the sum.
    if all(steps):
      return _make_years_draft(rng, relations, points, dates)
  raise NoDrawError(f"TIC: no {count} dated entities")


def _has_needed_precision(entity: Entity, needs_exact: bool) -> bool:
  """Returns whether the years of an entity are as exact as needed."""
  return not needs_exact or entity.intervals[0].precision == EXACT


def _make_years_draft(
  rng: random.Random,
  relations: tuple[Relation, ...],
  points: tuple[str, ...],
  dates: Sequence[int],
) -> Draft:
  """Returns the draft, with both conventions where the chain crosses 1 BCE."""
  point_texts = [
    _format_time_point(relation, point)
    for relation, point in zip(relations, points, strict=True)
  ]
  if len(point_texts) == 2:
    question = rng.choice(_PAIR_TEMPLATES).format(
      first=point_texts[0], second=point_texts[1]
    )
  else:
    question = rng.choice(_CHAIN_TEMPLATES).format(
      first=point_texts[0], rest="，再到".join(point_texts[1:])
    )
  true_years, naive_years = periods.sum_years_along(dates)
  steps = tuple(
    periods.count_years_between(first, second)[0]
    for first, second in itertools.pairwise(dates)
  )
  sum_text = "＋".join(map(str, steps))
  conclusion = (
    f"相隔{sum_text}＝{true_years}年。"
    if len(steps) > 1
    else f"相隔{true_years}年。"
  )
  if naive_years != true_years:
    conclusion += f"公元元年之前没有公元0年；若计入则为{naive_years}年。"
  return Draft(
    type=TYPE_NAMES[TIC],
    rule=_RULE,
    question=question,
    answer=f"约{true_years}年",
    relations=relations,
    gold=YearsGold(
      years=true_years,
      with_year_zero=naive_years,
      tolerance=intervals.sum_tolerances(*_repeat_inner_relations(relations)),
      points=points,
      steps=steps,
    ),
    conclusion=conclusion,
    distance=intervals.measure_distance(relations),
  )


def _repeat_inner_relations(relations: Sequence[Relation]) -> list[Relation]:
  """Returns the relations as often as their years enter the sum.

  Inner points of a chain end one step and begin the next.
  """
  return [
    relation for pair in itertools.pairwise(relations) for relation in pair
  ]


def _format_time_point(relation: Relation, point: str) -> str:
  """Returns the year of a question in words: 「屈原去世」."""
  if relation.kind == FIGURE:
    return f"{relation.entity}{'出生' if point == START else '去世'}"
  if relation.kind == RULER:
    return f"{relation.entity}即位"
  is_single_year = relation.start == relation.end
  return f"{relation.entity}{'发生' if is_single_year else '开始'}"
