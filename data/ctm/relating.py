"""RR: how entities are related in time, place and rule.

Why: the answers are names or short phrases, each computed from the relations:
who lived at the same time as whom, from which present province people came,
who reigned when something happened, whose era a name was. Called by
`generate`.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Sequence

from ctd_jax_datasets.ctm import intervals, repository, wording
from ctd_jax_datasets.ctm.pool import Draft, NoDrawError, Pool, window
from ctd_jax_datasets.ctm.questions import (
  ERA,
  EVENT,
  EXACT,
  FIGURE,
  RR,
  RULER,
  TYPE_NAMES,
  Entity,
  NamesGold,
  Relation,
)

TOGETHER, CONTEMPORARY, PROVINCE = "together", "contemporary", "province"
REIGN, ERA_OF = "reign", "era"
# What else a reader may call it; 「{0}」 is the one who came first.
SAME_TIME = (
  "同时在世",
  ("曾同时在世", "同时代", "生活年代有重叠", "生活年代有交集", "有交集"),
)
_FIRST_ALIASES = ("{0}在前", "{0}更早", "{0}早", "{1}晚于{0}", "{1}在{0}之后")
_TRIES = 200
_MARGIN = 15
# Regimes that ruled alone or were held to: one ruler at a time.
_ONE_RULER = tuple(
  ["西汉", "东汉", "隋", "唐", "武周", "北宋", "南宋", "元", "明", "后金", "清"]
)


def draft(rng: random.Random, pool: Pool, count: int) -> Draft:
  """Returns a question on the relation of `count` entities.

  Raises:
    NoDrawError: if the pool has no such entities.
  """
  kinds = [_province, _together if count == 2 else _contemporary]
  if count % 2 == 0:
    kinds += [_reign, _era]
  for _ in range(_TRIES):
    try:
      return rng.choice(kinds)(rng, pool, count)
    except NoDrawError:
      continue
  raise NoDrawError(f"RR: no {count} entities that are related")


def _draft(
  rule: str,
  question: str,
  relations: Sequence[Relation],
  gold: NamesGold,
  conclusion: str,
) -> Draft:
  return Draft(
    type=TYPE_NAMES[RR],
    rule=rule,
    question=question,
    answer=wording.in_turn(gold.names),
    relations=tuple(relations),
    gold=gold,
    conclusion=conclusion,
    distance=intervals.distance(relations),
  )


def _together(rng: random.Random, pool: Pool, count: int) -> Draft:
  """Returns the question whether two people lived at the same time."""
  labels = window(rng, widest=rng.choice((1, 9)))
  relations = [
    repository.relation(entity)
    for entity in pool.draw(rng, count, (FIGURE,), labels)
  ]
  years = intervals.gap(*relations)
  if 0 < abs(years) <= _MARGIN + intervals.tolerance(*relations):
    raise NoDrawError("too close to tell")
  if years == 0:
    shared = intervals.common(relations)
    if shared[1] - shared[0] <= _MARGIN + intervals.tolerance(*relations):
      raise NoDrawError("too close to tell")
    gold = NamesGold((SAME_TIME[0],), (SAME_TIME[1],))
  else:
    names = [relation.entity for relation in relations]
    first, second = names if years > 0 else reversed(names)
    gold = NamesGold(
      (f"{first}早于{second}",),
      (tuple(form.format(first, second) for form in _FIRST_ALIASES),),
    )
  names = [relation.entity for relation in relations]
  question = rng.choice(
    (
      "{0}与{1}的生活年代是什么关系？请答“同时在世”或指出谁早于谁。",
      "比较{0}与{1}的生卒年代：二人同时在世，还是一人早于另一人？",
    )
  ).format(*names)
  return _draft(TOGETHER, question, relations, gold, f"结论：{gold.names[0]}。")


def _contemporary(rng: random.Random, pool: Pool, count: int) -> Draft:
  """Returns the question which one of several lived when somebody did."""
  (known,) = pool.draw(rng, 1, (FIGURE,))
  stem = repository.relation(known)

  def met(entity: Entity) -> bool:
    other = repository.relation(entity)
    shared = intervals.common((stem, other))
    slack = _MARGIN + intervals.tolerance(stem, other)
    return shared is not None and shared[1] - shared[0] > slack

  def apart(entity: Entity) -> bool:
    other = repository.relation(entity)
    slack = _MARGIN + intervals.tolerance(stem, other)
    return abs(intervals.gap(stem, other)) > slack

  (right,) = pool.draw(
    rng, 1, (FIGURE,), fits=lambda e: e.entity_id != known.entity_id and met(e)
  )
  wrong = pool.draw(rng, count - 2, (FIGURE,), window(rng), apart)
  candidates = [right, *wrong]
  rng.shuffle(candidates)
  names = wording.in_turn([entity.name for entity in candidates])
  question = rng.choice(
    (
      "{names}之中，谁曾与{stem}同时在世？",
      "下列人物里只有一位与{stem}的生活年代有重叠，是哪一位：{names}？",
    )
  ).format(names=names, stem=known.name)
  relations = [stem, *map(repository.relation, candidates)]
  gold = NamesGold((right.name,), (right.aliases,))
  return _draft(
    CONTEMPORARY, question, relations, gold, f"只有{right.name}与其同时在世。"
  )


def _province(rng: random.Random, pool: Pool, count: int) -> Draft:
  """Returns the question which present province each person came from."""
  entities = pool.draw(
    rng, count, (FIGURE,), window(rng), lambda entity: bool(entity.place)
  )
  relations = [repository.relation(entity) for entity in entities]
  names = wording.in_turn([entity.name for entity in entities])
  question = rng.choice(
    (
      "{names}的籍贯分别在今天的哪个省级行政区？请按顺序作答。",
      "按今天的省级行政区划，依次写出{names}的籍贯所在。",
    )
  ).format(names=names)
  gold = NamesGold(
    tuple(entity.place for entity in entities), ((),) * len(entities)
  )
  told = "；".join(f"{e.name}籍贯在今{e.place}" for e in entities)
  return _draft(PROVINCE, question, relations, gold, f"{told}。")


def _reign(rng: random.Random, pool: Pool, count: int) -> Draft:
  """Returns the question who reigned when things happened or people died."""
  pairs = _pairs(rng, pool, count // 2, (EVENT, FIGURE), _rulers_of)
  asked = wording.in_turn(
    [
      known.entity + ("出生" if known.kind == FIGURE else "")
      for known, _ in pairs
    ]
  )
  several = "分别是谁？请按顺序作答，" if len(pairs) > 1 else "是谁？"
  question = f"{asked}之时，中原王朝在位的皇帝{several}本名或通称均可。"
  return _named(REIGN, question, pairs)


def _era(rng: random.Random, pool: Pool, count: int) -> Draft:
  """Returns the question whose eras these were."""
  pairs = _pairs(rng, pool, count // 2, (ERA,), _users_of)
  asked = wording.in_turn([f"“{known.entity}”" for known, _ in pairs])
  several = "哪些君主" if len(pairs) > 1 else "哪位君主"
  turn = "请按顺序作答，" if len(pairs) > 1 else ""
  question = f"年号{asked}是{several}使用的？{turn}本名或通称均可。"
  return _named(ERA_OF, question, pairs)


def _pairs(
  rng: random.Random,
  pool: Pool,
  count: int,
  kinds: Sequence[str],
  rulers: Callable[[Pool], dict[str, Entity]],
) -> list[tuple[Relation, Entity]]:
  """Returns what is known, each with the one ruler it belongs to."""
  found: list[tuple[Relation, Entity]] = []
  belongs = rulers(pool)
  for entity in pool.draw(
    rng, count, kinds, window(rng), lambda e: e.entity_id in belongs
  ):
    ruler = belongs[entity.entity_id]
    if any(ruler is taken for _, taken in found):
      raise NoDrawError("one ruler twice")
    found.append((repository.relation(entity), ruler))
  return found


@functools.cache
def _rulers_of(pool: Pool) -> dict[str, Entity]:
  """Returns entity id -> who reigned in its first year, well inside.

  Where two did there is no answer, be the other in another split: 1275 had
  an emperor of 宋 and one of 元.
  """
  reigns = [
    (reign, ruler)
    for ruler in repository.entities()
    if ruler.kind == RULER and ruler.evidence[0] in _ONE_RULER
    for reign in ruler.intervals
    if reign.sense == "reign"
  ]
  ours = {entity.entity_id: entity for entity in pool.of((RULER,))}
  found = {}
  for entity in pool.of((EVENT, FIGURE)):
    years = entity.intervals[0]
    held = [
      (reign, ruler)
      for reign, ruler in reigns
      if reign.start <= years.start <= reign.end
    ]
    if len(held) != 1 or years.precision != EXACT:
      continue
    ((reign, ruler),) = held
    inside = reign.start < years.start < reign.end
    told = ruler.name in entity.name
    if inside and reign.precision == EXACT and not told:
      found[entity.entity_id] = ours.get(ruler.entity_id)
  return {known: ruler for known, ruler in found.items() if ruler}


@functools.cache
def _users_of(pool: Pool) -> dict[str, Entity]:
  """Returns entity id of an era -> the ruler who declared it."""
  rulers = {
    (ruler.name, ruler.evidence[0]): ruler for ruler in pool.of((RULER,))
  }
  found = {}
  for era in pool.of((ERA,)):
    polity, name = era.evidence
    ruler = rulers.get((name, polity))
    if ruler and any(
      reign.start <= era.intervals[0].start <= reign.end
      for reign in ruler.intervals
      if reign.sense == "reign"
    ):
      found[era.entity_id] = ruler
  return found


def _reigning(ruler: Entity, year: int) -> Relation:
  """Returns the reign of a ruler that holds a year; some reigned twice."""
  held = (i for i in ruler.intervals if i.start <= year <= i.end)
  return repository.relation(ruler, next(held, None))


def _named(
  rule: str, question: str, pairs: Sequence[tuple[Relation, Entity]]
) -> Draft:
  """Returns the question of pairs whose second parts are the answer."""
  relations = [
    relation
    for known, ruler in pairs
    for relation in (known, _reigning(ruler, known.start))
  ]
  gold = NamesGold(
    tuple(ruler.name for _, ruler in pairs),
    tuple(ruler.aliases for _, ruler in pairs),
  )
  told = "；".join(f"{known.entity}对应{ruler.name}" for known, ruler in pairs)
  return _draft(rule, question, relations, gold, f"{told}。")
