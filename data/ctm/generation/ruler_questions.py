"""RR: questions on rulers: the ruler of an event or a birth, or of an era."""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Sequence

from ctd_jax_datasets.ctm import repository
from ctd_jax_datasets.ctm.entities import Entity, Relation
from ctd_jax_datasets.ctm.generation import drafts, wording
from ctd_jax_datasets.ctm.generation.drafts import Draft, NoDrawError
from ctd_jax_datasets.ctm.generation.pool import EntityPool, draw_period_window
from ctd_jax_datasets.ctm.golds import NamesGold
from ctd_jax_datasets.ctm.vocabulary import ERA, EVENT, EXACT, FIGURE, RULER

_REIGN_RULE, _ERA_RULE = "reign", "era"
# Regimes of which only one is taken as the central one at a time.
_ONE_RULER = tuple(
  ["西汉", "东汉", "隋", "唐", "武周", "北宋", "南宋", "元", "明", "后金", "清"]
)


def draft_reign_question(
  rng: random.Random, pool: EntityPool, count: int
) -> Draft:
  """Returns the question who reigned when events or births happened."""
  pairs = _draw_ruler_pairs(
    rng, pool, count // 2, (EVENT, FIGURE), _find_reigning_rulers
  )
  subjects_text = wording.join_names(
    [
      subject.entity + ("出生" if subject.kind == FIGURE else "")
      for subject, _ in pairs
    ]
  )
  question_word = "分别是谁？请按顺序作答，" if len(pairs) > 1 else "是谁？"
  question = (
    f"{subjects_text}之时，中原王朝在位的皇帝{question_word}本名或通称均可。"
  )
  return _make_ruler_draft(_REIGN_RULE, question, pairs)


def draft_era_question(
  rng: random.Random, pool: EntityPool, count: int
) -> Draft:
  """Returns the question which rulers used some eras."""
  pairs = _draw_ruler_pairs(rng, pool, count // 2, (ERA,), _find_era_rulers)
  eras_text = wording.join_names([f"“{era.entity}”" for era, _ in pairs])
  question_word = "哪些君主" if len(pairs) > 1 else "哪位君主"
  order_note = "请按顺序作答，" if len(pairs) > 1 else ""
  question = (
    f"年号{eras_text}是{question_word}使用的？{order_note}本名或通称均可。"
  )
  return _make_ruler_draft(_ERA_RULE, question, pairs)


def _draw_ruler_pairs(
  rng: random.Random,
  pool: EntityPool,
  count: int,
  kinds: Sequence[str],
  find_rulers: Callable[[EntityPool], dict[str, Entity]],
) -> list[tuple[Relation, Entity]]:
  """Returns pairs of a relation and its one ruler, no ruler twice.

  Args:
    rng: generator of the question.
    pool: entities of the split.
    count: number of pairs.
    kinds: kinds of the relations.
    find_rulers: returns entity id -> ruler, for the entities that have one.

  Raises:
    NoDrawError: if fewer entities have a ruler, or two share one.
  """
  ruler_pairs: list[tuple[Relation, Entity]] = []
  ruler_of = find_rulers(pool)
  for entity in pool.draw_entities(
    rng,
    count,
    kinds,
    draw_period_window(rng),
    lambda candidate: candidate.entity_id in ruler_of,
  ):
    ruler = ruler_of[entity.entity_id]
    if any(ruler is paired_ruler for _, paired_ruler in ruler_pairs):
      raise NoDrawError("one ruler twice")
    ruler_pairs.append((repository.make_relation(entity), ruler))
  return ruler_pairs


@functools.cache
def _find_reigning_rulers(pool: EntityPool) -> dict[str, Entity]:
  """Returns entity id -> ruler in the inner years of a reign.

  An entity with two reigning rulers has no answer, even if one of them is in
  another split: 1275 had an emperor of 宋 and one of 元.
  """
  reigns = [
    (reign, ruler)
    for ruler in repository.load_entities()
    if ruler.kind == RULER and ruler.evidence[0] in _ONE_RULER
    for reign in ruler.intervals
    if reign.sense == "reign"
  ]
  # Rulers of all splits decide who reigned, those of this one are answers.
  pool_rulers = {
    entity.entity_id: entity for entity in pool.select_entities((RULER,))
  }
  ruler_of = {}
  for entity in pool.select_entities((EVENT, FIGURE)):
    years = entity.intervals[0]
    matching_reigns = [
      (reign, ruler)
      for reign, ruler in reigns
      if reign.start <= years.start <= reign.end
    ]
    # None, two at a time, or a year that is only approximate.
    if len(matching_reigns) != 1 or years.precision != EXACT:
      continue
    ((reign, ruler),) = matching_reigns
    # In its first and last year a reign shares the year with another.
    is_inside = reign.start < years.start < reign.end
    is_named = ruler.name in entity.name
    if is_inside and reign.precision == EXACT and not is_named:
      ruler_of[entity.entity_id] = pool_rulers.get(ruler.entity_id)
  return {entity_id: ruler for entity_id, ruler in ruler_of.items() if ruler}


@functools.cache
def _find_era_rulers(pool: EntityPool) -> dict[str, Entity]:
  """Returns entity id of an era -> its ruler."""
  rulers = {
    (ruler.name, ruler.evidence[0]): ruler
    for ruler in pool.select_entities((RULER,))
  }
  ruler_of = {}
  for era in pool.select_entities((ERA,)):
    # Rulers of one name are told apart by their polity.
    polity, name = era.evidence
    ruler = rulers.get((name, polity))
    if ruler and any(
      reign.start <= era.intervals[0].start <= reign.end
      for reign in ruler.intervals
      if reign.sense == "reign"
    ):
      ruler_of[era.entity_id] = ruler
  return ruler_of


def _make_reign_relation(ruler: Entity, year: int) -> Relation:
  """Returns the relation of the reign with a year; some reigned twice."""
  matching_reigns = (i for i in ruler.intervals if i.start <= year <= i.end)
  return repository.make_relation(ruler, next(matching_reigns, None))


def _make_ruler_draft(
  rule: str, question: str, pairs: Sequence[tuple[Relation, Entity]]
) -> Draft:
  """Returns the draft of a question whose answer is the rulers of pairs."""
  relations = [
    relation
    for subject, ruler in pairs
    for relation in (subject, _make_reign_relation(ruler, subject.start))
  ]
  gold = NamesGold(
    tuple(ruler.name for _, ruler in pairs),
    tuple(ruler.aliases for _, ruler in pairs),
  )
  facts_text = "；".join(
    f"{subject.entity}对应{ruler.name}" for subject, ruler in pairs
  )
  return drafts.make_relation_draft(
    rule, question, relations, gold, f"{facts_text}。"
  )
