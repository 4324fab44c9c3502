"""TOU and TIC: which came first, and how many years lie between.

Why: both are arithmetic on years; what is compared is said in the question
(birth, accession, first year). Called by `generate`.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence

from ctd_jax_datasets.ctm import intervals, periods, repository, wording
from ctd_jax_datasets.ctm.pool import Draft, NoDrawError, Pool, window
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
_MIXES = (
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
_WHICH_YEAR = {
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


def order(rng: random.Random, pool: Pool, count: int) -> Draft:
  """Returns a question that asks for the order of `count` entities.

  First years known only about are kept so far apart that the order is sure;
  equal first years are ties.

  Raises:
    NoDrawError: if the pool has no such entities.
  """
  for _ in range(_TRIES):
    kinds = rng.choices(*zip(*_MIXES, strict=True))[0]
    labels = window(rng)
    try:
      entities = pool.draw(rng, count, kinds, labels)
    except NoDrawError:
      continue
    relations = tuple(repository.relation(entity) for entity in entities)
    if _sure(relations):
      return _order_draft(rng, relations)
  raise NoDrawError(f"TOU: no {count} entities whose order is sure")


def _sure(relations: Sequence[Relation]) -> bool:
  """Returns whether no two first years are closer than they are known."""
  ranked = sorted(relations, key=lambda relation: relation.start)
  if ranked[0].start == ranked[-1].start:
    return False
  for first, second in itertools.pairwise(ranked):
    apart = periods.years_between(first.start, second.start)[0]
    if apart <= intervals.tolerance(first, second) and apart > 0:
      return False
    if apart == 0 and intervals.tolerance(first, second):
      return False
  return True


def _order_draft(rng: random.Random, relations: Sequence[Relation]) -> Draft:
  groups = intervals.order(relations)
  kinds = dict.fromkeys(relation.kind for relation in relations)
  which = "；".join(_WHICH_YEAR[kind] for kind in kinds)
  tied = [group for group in groups if len(group) > 1]
  if tied:
    which += "；同年者并列，先后不限"
  question = rng.choice(_ORDER_TEMPLATES).format(
    names=wording.in_turn([relation.entity for relation in relations]),
    which=which,
  )
  flat = [name for group in groups for name in group]
  ties = "".join(f"其中{wording.in_turn(group)}同年。" for group in tied)
  answer = wording.in_turn(flat)
  return Draft(
    type=TYPE_NAMES[TOU],
    rule=ORDER_RULE,
    question=question,
    answer=answer,
    relations=tuple(relations),
    gold=OrderGold(groups),
    conclusion=f"由早到晚：{answer}。{ties}",
    distance=intervals.distance(relations),
  )


def years(rng: random.Random, pool: Pool, count: int) -> Draft:
  """Returns a question about the years along a chain of `count` points.

  Raises:
    NoDrawError: if the pool has no such entities.
  """
  for _ in range(_TRIES):
    kinds = rng.choice(((FIGURE,), (EVENT,), (FIGURE, EVENT, RULER)))
    exact = rng.random() < 0.9  # the others test the tolerance
    try:
      entities = pool.draw(
        rng,
        count,
        kinds,
        window(rng),
        lambda entity, exact=exact: _dated(entity, exact),
      )
    except NoDrawError:
      continue
    relations = tuple(repository.relation(entity) for entity in entities)
    points = tuple(
      rng.choice((START, END)) if relation.kind == FIGURE else START
      for relation in relations
    )
    dates = [
      intervals.year_at(*pair) for pair in zip(relations, points, strict=True)
    ]
    steps = [
      periods.years_between(first, second)[0]
      for first, second in itertools.pairwise(dates)
    ]
    if all(steps):
      return _years_draft(rng, relations, points, dates)
  raise NoDrawError(f"TIC: no {count} dated entities")


def _dated(entity: Entity, exact: bool) -> bool:
  """Returns whether the years of an entity are as exact as wanted."""
  return not exact or entity.intervals[0].precision == EXACT


def _years_draft(
  rng: random.Random,
  relations: tuple[Relation, ...],
  points: tuple[str, ...],
  dates: Sequence[int],
) -> Draft:
  texts = [
    point_text(relation, point)
    for relation, point in zip(relations, points, strict=True)
  ]
  if len(texts) == 2:
    question = rng.choice(_PAIR_TEMPLATES).format(
      first=texts[0], second=texts[1]
    )
  else:
    question = rng.choice(_CHAIN_TEMPLATES).format(
      first=texts[0], rest="，再到".join(texts[1:])
    )
  true, naive = periods.years_along(dates)
  steps = tuple(
    periods.years_between(first, second)[0]
    for first, second in itertools.pairwise(dates)
  )
  sums = "＋".join(map(str, steps))
  conclusion = (
    f"相隔{sums}＝{true}年。" if len(steps) > 1 else f"相隔{true}年。"
  )
  if naive != true:
    conclusion += f"公元元年之前没有公元0年；若计入则为{naive}年。"
  return Draft(
    type=TYPE_NAMES[TIC],
    rule=YEARS_RULE,
    question=question,
    answer=f"约{true}年",
    relations=relations,
    gold=YearsGold(
      years=true,
      with_year_zero=naive,
      tolerance=intervals.tolerance(*_ends(relations)),
      points=points,
      steps=steps,
    ),
    conclusion=conclusion,
    distance=intervals.distance(relations),
  )


def _ends(relations: Sequence[Relation]) -> list[Relation]:
  """Returns the relations as often as their years enter the sum."""
  return [
    relation for pair in itertools.pairwise(relations) for relation in pair
  ]


def point_text(relation: Relation, point: str) -> str:
  """Returns the year a question is about, in words: 「屈原去世」."""
  if relation.kind == FIGURE:
    return f"{relation.entity}{'出生' if point == START else '去世'}"
  if relation.kind == RULER:
    return f"{relation.entity}即位"
  same = relation.start == relation.end
  return f"{relation.entity}{'发生' if same else '开始'}"
