"""TOU and TIC: which came first, and how many years lie between.

Why: both are arithmetic on years; what is compared is said in the question
(birth, accession, first year). Called by `generate`.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence

from ctd_jax_datasets.ctm import intervals, periods, repository, wording
from ctd_jax_datasets.ctm.pool import (
  Draft,
  EntityPool,
  NoDrawError,
  draw_period_window,
)
from ctd_jax_datasets.ctm.questions import (
  END,
  ERA,
  EVENT,
  EXACT,
  FIGURE,
  INGREDIENT,
  PLACE,
  RULER,
  START,
  TIC,
  TOU,
  TYPE_NAMES,
  Entity,
  OrderGold,
  Relation,
  YearsGold,
)

ORDER_RULE, YEARS_RULE = "order", "years"
_TRIES = 200
# Kinds that are ordered together, and how often.
_KIND_MIXES = (
  ((FIGURE,), 5),
  ((EVENT,), 4),
  ((RULER,), 2),
  ((ERA,), 2),
  ((PLACE,), 1),
  ((INGREDIENT,), 1),
  ((FIGURE, EVENT), 2),
  ((FIGURE, ERA, EVENT), 2),
  ((EVENT, INGREDIENT), 1),
)
_YEAR_CONVENTIONS = {
  FIGURE: "人物以出生之年为准",
  RULER: "君主以即位之年为准",
  ERA: "年号以启用之年为准",
  PLACE: "地名以启用之年为准",
  EVENT: "事件以开始之年为准",
  INGREDIENT: "食材以最早见于中国之时为准",
}
_ORDER_TEMPLATES = (
  "请把下列各项按时间先后排列：{names}。（{which}）",
  "{names}，这几项由早到晚应当怎样排序？（{which}）",
  "编写年表时需要依次列出{names}，请给出从早到晚的顺序。（{which}）",
)
_CHAIN_TEMPLATES = (
  "从{first}到{rest}，相邻两项之间相隔的年数加起来约为多少年？",
  "{first}距{rest}，各段间隔之和约为多少年？",
)
_PAIR_TEMPLATES = (
  "{first}与{second}之间约相隔多少年？",
  "从{first}到{second}，前后约差多少年？",
  "{first}，{second}，两者约相距多少年？",
)


def draft_order_question(
  rng: random.Random, pool: EntityPool, count: int
) -> Draft:
  """Returns a question that asks for the order of `count` entities.

  First years known only about are kept so far apart that the order is sure;
  equal first years are ties.

  Raises:
    NoDrawError: if the pool has no such entities.
  """
  for _ in range(_TRIES):
    kinds = rng.choices(*zip(*_KIND_MIXES, strict=True))[0]
    labels = draw_period_window(rng)
    try:
      entities = pool.draw_entities(rng, count, kinds, labels)
    except NoDrawError:
      continue
    relations = tuple(repository.make_relation(entity) for entity in entities)
    if _is_order_sure(relations):
      return _make_order_draft(rng, relations)
  raise NoDrawError(f"TOU: no {count} entities whose order is sure")


def _is_order_sure(relations: Sequence[Relation]) -> bool:
  """Returns whether no two first years are closer than they are known."""
  ranked = sorted(relations, key=lambda relation: relation.start)
  if ranked[0].start == ranked[-1].start:
    return False
  for earlier, later in itertools.pairwise(ranked):
    gap_years = periods.count_years_between(earlier.start, later.start)[0]
    if gap_years <= intervals.sum_tolerances(earlier, later) and gap_years > 0:
      return False
    if gap_years == 0 and intervals.sum_tolerances(earlier, later):
      return False
  return True


def _make_order_draft(
  rng: random.Random, relations: Sequence[Relation]
) -> Draft:
  groups = intervals.order_by_start(relations)
  kinds = dict.fromkeys(relation.kind for relation in relations)
  conventions = "；".join(_YEAR_CONVENTIONS[kind] for kind in kinds)
  tied_groups = [group for group in groups if len(group) > 1]
  if tied_groups:
    conventions += "；同年者并列，先后不限"
  question = rng.choice(_ORDER_TEMPLATES).format(
    names=wording.join_names([relation.entity for relation in relations]),
    which=conventions,
  )
  ordered_names = [name for group in groups for name in group]
  ties = "".join(
    f"其中{wording.join_names(group)}同年。" for group in tied_groups
  )
  answer = wording.join_names(ordered_names)
  return Draft(
    type=TYPE_NAMES[TOU],
    rule=ORDER_RULE,
    question=question,
    answer=answer,
    relations=tuple(relations),
    gold=OrderGold(groups),
    conclusion=f"由早到晚：{answer}。{ties}",
    distance=intervals.measure_distance(relations),
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
    needs_exact = rng.random() < 0.9  # the others test the tolerance
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
    if all(steps):
      return _make_years_draft(rng, relations, points, dates)
  raise NoDrawError(f"TIC: no {count} dated entities")


def _has_needed_precision(entity: Entity, needs_exact: bool) -> bool:
  """Returns whether the years of an entity are as exact as wanted."""
  return not needs_exact or entity.intervals[0].precision == EXACT


def _make_years_draft(
  rng: random.Random,
  relations: tuple[Relation, ...],
  points: tuple[str, ...],
  dates: Sequence[int],
) -> Draft:
  point_texts = [
    format_time_point(relation, point)
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
    rule=YEARS_RULE,
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
  """Returns the relations as often as their years enter the sum."""
  return [
    relation for pair in itertools.pairwise(relations) for relation in pair
  ]


def format_time_point(relation: Relation, point: str) -> str:
  """Returns the year a question is about, in words: 「屈原去世」."""
  if relation.kind == FIGURE:
    return f"{relation.entity}{'出生' if point == START else '去世'}"
  if relation.kind == RULER:
    return f"{relation.entity}即位"
  is_single_year = relation.start == relation.end
  return f"{relation.entity}{'发生' if is_single_year else '开始'}"
