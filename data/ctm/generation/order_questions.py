"""TOU: entities in the order of their first years.

The question states which year counts: birth, accession or first year.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence

from ctd_jax_datasets.ctm import intervals, periods, repository
from ctd_jax_datasets.ctm.entities import Relation
from ctd_jax_datasets.ctm.generation import wording
from ctd_jax_datasets.ctm.generation.drafts import Draft, NoDrawError
from ctd_jax_datasets.ctm.generation.pool import EntityPool, draw_period_window
from ctd_jax_datasets.ctm.golds import OrderGold
from ctd_jax_datasets.ctm.vocabulary import (
  ERA,
  EVENT,
  FIGURE,
  INGREDIENT,
  PLACE,
  RULER,
  TOU,
  TYPE_NAMES,
)

_RULE = "order"
_TRIES = 200  # draws of entities before the pool counts as too small
# Kinds that are ordered together, with weights; people and events are known
# best.
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


def draft_order_question(
  rng: random.Random, pool: EntityPool, count: int
) -> Draft:
  """Returns a question that asks for the order of `count` entities.

  Approximate first years lie so far apart that the order is certain; equal
  first years are ties.

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
  """Returns whether all first years differ by more than their tolerance."""
  ranked = sorted(relations, key=lambda relation: relation.start)
  # A single tie has no order.
  if ranked[0].start == ranked[-1].start:
    return False
  for earlier, later in itertools.pairwise(ranked):
    gap_years = periods.count_years_between(earlier.start, later.start)[0]
    if gap_years <= intervals.sum_tolerances(earlier, later) and gap_years > 0:
      return False
    # Approximate years that are equal may still differ.
    if gap_years == 0 and intervals.sum_tolerances(earlier, later):
      return False
  return True


def _make_order_draft(
  rng: random.Random, relations: Sequence[Relation]
) -> Draft:
  """Returns the draft, with notes on the years that count and on ties."""
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
    rule=_RULE,
    question=question,
    answer=answer,
    relations=tuple(relations),
    gold=OrderGold(groups),
    conclusion=f"由早到晚：{answer}。{ties}",
    distance=intervals.measure_distance(relations),
  )
