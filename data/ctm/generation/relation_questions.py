"""RR: relations of people in time and place.

Gold answers are names or short phrases that follow from the relations: whose
lives overlapped, and from which present province people came. Questions on
rulers are in `ruler_questions`.
"""

from __future__ import annotations

import random

from ctd_jax_datasets.ctm import intervals, repository
from ctd_jax_datasets.ctm.entities import Entity
from ctd_jax_datasets.ctm.generation import drafts, ruler_questions, wording
from ctd_jax_datasets.ctm.generation.drafts import Draft, NoDrawError
from ctd_jax_datasets.ctm.generation.pool import EntityPool, draw_period_window
from ctd_jax_datasets.ctm.golds import NamesGold
from ctd_jax_datasets.ctm.vocabulary import FIGURE

_TOGETHER, _CONTEMPORARY, _PROVINCE = "together", "contemporary", "province"
# Answer for overlapping lives, and accepted alternatives.
_SAME_TIME = (
  "同时在世",
  ("曾同时在世", "同时代", "生活年代有重叠", "生活年代有交集", "有交集"),
)
# Alternatives for 「甲早于乙」; {0} is the earlier person.
_FIRST_ALIASES = ("{0}在前", "{0}更早", "{0}早", "{1}晚于{0}", "{1}在{0}之后")
_TRIES = 200  # draws before the pool counts as too small
_MARGIN = 15  # years by which overlaps and gaps exceed the tolerance


def draft_relation_question(
  rng: random.Random, pool: EntityPool, count: int
) -> Draft:
  """Returns a question on the relation of `count` entities.

  Raises:
    NoDrawError: if the pool has no such entities.
  """
  drafters = [
    _draft_province,
    _draft_together if count == 2 else _draft_contemporary,
  ]
  # Their relations come in pairs: a fact and its ruler.
  if count % 2 == 0:
    drafters += [
      ruler_questions.draft_reign_question,
      ruler_questions.draft_era_question,
    ]
  for _ in range(_TRIES):
    try:
      return rng.choice(drafters)(rng, pool, count)
    except NoDrawError:
      continue
  raise NoDrawError(f"RR: no {count} entities that are related")


def _draft_together(rng: random.Random, pool: EntityPool, count: int) -> Draft:
  """Returns the question whether two people lived at the same time."""
  labels = draw_period_window(rng, max_width=rng.choice((1, 9)))
  relations = [
    repository.make_relation(entity)
    for entity in pool.draw_entities(rng, count, (FIGURE,), labels)
  ]
  gap_years = intervals.compute_gap(*relations)
  if 0 < abs(gap_years) <= _MARGIN + intervals.sum_tolerances(*relations):
    raise NoDrawError("too close to tell")
  if gap_years == 0:
    common_span = intervals.intersect_years(relations)
    if common_span[1] - common_span[0] <= _MARGIN + intervals.sum_tolerances(
      *relations
    ):
      raise NoDrawError("too close to tell")
    gold = NamesGold((_SAME_TIME[0],), (_SAME_TIME[1],))
  else:
    names = [relation.entity for relation in relations]
    first, second = names if gap_years > 0 else reversed(names)
    gold = NamesGold(
      (f"{first}早于{second}",),
      (tuple(template.format(first, second) for template in _FIRST_ALIASES),),
    )
  names = [relation.entity for relation in relations]
  question = rng.choice(
    (
      "{0}与{1}的生活年代是什么关系？请答“同时在世”或指出谁早于谁。",
      "比较{0}与{1}的生卒年代：二人同时在世，还是一人早于另一人？",
    )
  ).format(*names)
  return drafts.make_relation_draft(
    _TOGETHER, question, relations, gold, f"结论：{gold.names[0]}。"
  )


def _draft_contemporary(
  rng: random.Random, pool: EntityPool, count: int
) -> Draft:
  """Returns the question which of several people was a contemporary."""
  (stem_entity,) = pool.draw_entities(rng, 1, (FIGURE,))
  stem = repository.make_relation(stem_entity)

  def is_contemporary(entity: Entity) -> bool:
    candidate = repository.make_relation(entity)
    common_span = intervals.intersect_years((stem, candidate))
    slack = _MARGIN + intervals.sum_tolerances(stem, candidate)
    return common_span is not None and common_span[1] - common_span[0] > slack

  def is_apart(entity: Entity) -> bool:
    candidate = repository.make_relation(entity)
    slack = _MARGIN + intervals.sum_tolerances(stem, candidate)
    return abs(intervals.compute_gap(stem, candidate)) > slack

  (correct_entity,) = pool.draw_entities(
    rng,
    1,
    (FIGURE,),
    is_eligible=lambda candidate: (
      candidate.entity_id != stem_entity.entity_id
      and is_contemporary(candidate)
    ),
  )
  wrong_entities = pool.draw_entities(
    rng, count - 2, (FIGURE,), draw_period_window(rng), is_apart
  )
  candidates = [correct_entity, *wrong_entities]
  rng.shuffle(candidates)
  names = wording.join_names([entity.name for entity in candidates])
  question = rng.choice(
    (
      "{names}之中，谁曾与{stem}同时在世？",
      "下列人物里只有一位与{stem}的生活年代有重叠，是哪一位：{names}？",
    )
  ).format(names=names, stem=stem_entity.name)
  relations = [stem, *map(repository.make_relation, candidates)]
  gold = NamesGold((correct_entity.name,), (correct_entity.aliases,))
  return drafts.make_relation_draft(
    _CONTEMPORARY,
    question,
    relations,
    gold,
    f"只有{correct_entity.name}与其同时在世。",
  )


def _draft_province(rng: random.Random, pool: EntityPool, count: int) -> Draft:
  """Returns the question which present province each person came from."""
  entities = pool.draw_entities(
    rng,
    count,
    (FIGURE,),
    draw_period_window(rng),
    lambda entity: bool(entity.place),
  )
  relations = [repository.make_relation(entity) for entity in entities]
  names = wording.join_names([entity.name for entity in entities])
  question = rng.choice(
    (
      "{names}的籍贯分别在今天的哪个省级行政区？请按顺序作答。",
      "按今天的省级行政区划，依次写出{names}的籍贯所在。",
    )
  ).format(names=names)
  gold = NamesGold(
    tuple(entity.place for entity in entities), ((),) * len(entities)
  )
  facts_text = "；".join(f"{e.name}籍贯在今{e.place}" for e in entities)
  return drafts.make_relation_draft(
    _PROVINCE, question, relations, gold, f"{facts_text}。"
  )
