"""PJ: whether a scenario is possible, as far as time is concerned.

Half of the scenarios contain one entity that was not of that time. The gold
holds every pair of entities that cannot have met.
"""

from __future__ import annotations

import random

from ctd_jax_datasets.ctm import intervals
from ctd_jax_datasets.ctm.entities import Relation
from ctd_jax_datasets.ctm.generation import scenes, wording
from ctd_jax_datasets.ctm.generation.drafts import Draft
from ctd_jax_datasets.ctm.generation.pool import EntityPool
from ctd_jax_datasets.ctm.golds import PolarityGold
from ctd_jax_datasets.ctm.vocabulary import (
  ERA,
  EVENT,
  FIGURE,
  HERITAGE,
  INGREDIENT,
  PJ,
  PLACE,
  RULER,
  TYPE_NAMES,
)

RULE = "coexist"
# Kind of the scene -> opening of the scenario.
OPENINGS = {
  ERA: ("“{name}”年间", "时值“{name}”年间"),
  RULER: ("{name}在位期间", "{name}为君之时"),
  FIGURE: ("{name}在世之时", "{name}有生之年"),
}
# Kind of a member -> clause in which it appears.
CLAUSES = {
  FIGURE: ("席间坐着{name}", "{name}前来赴会", "{name}与众人同席而谈"),
  EVENT: ("有人追述往事，说起{name}", "座中议论{name}的始末"),
  PLACE: (
    "有客从官府称作“{name}”的地方赶来",
    "当日的文书上写着官府所用的地名“{name}”",
  ),
  INGREDIENT: ("案上摆着{name}", "厨下正烹制{name}"),
  HERITAGE: ("众人谈论时下的{name}", "堂中有人讲习{name}"),
}
_QUESTIONS = (
  "仅就时间而论，这一情景是否可能出现？请回答“是”或“否”，并说明理由。",
  "单从年代上看，这样的情景可能吗？请回答“是”或“否”，并说明理由。",
)


def draw_clauses(
  rng: random.Random, relations: tuple[Relation, ...]
) -> tuple[str, ...]:
  """Returns a clause for each relation, in their order."""
  return tuple(
    rng.choice(CLAUSES[relation.kind]).format(name=relation.entity)
    for relation in relations
  )


def draft_plausibility_question(
  rng: random.Random, pool: EntityPool, count: int
) -> Draft:
  """Returns the question whether `count` people and things can have met.

  Raises:
    NoDrawError: if the pool has no such entities.
  """
  cast = scenes.draw_cast(
    rng, pool, count, rng.randint(0, 1), (ERA, RULER, FIGURE)
  )
  opening = rng.choice(OPENINGS[cast.scene.kind]).format(name=cast.scene.entity)
  scenario = "，".join((opening, *draw_clauses(rng, cast.members)))
  conflicts = intervals.find_disjoint_pairs(cast.relations)
  answer, conclusion = _format_answer(cast, conflicts)
  return Draft(
    type=TYPE_NAMES[PJ],
    rule=RULE,
    question=f"{scenario}。{rng.choice(_QUESTIONS)}",
    answer=answer,
    relations=cast.relations,
    gold=PolarityGold(not conflicts, conflicts),
    conclusion=conclusion,
    distance=intervals.measure_distance(cast.relations),
  )


def _format_answer(
  cast: scenes.Cast, conflicts: tuple[tuple[str, str], ...]
) -> tuple[str, str]:
  """Returns the answer and the conclusion of its explanation."""
  if not conflicts:
    names = wording.join_names([relation.entity for relation in cast.relations])
    return f"是。{names}在时间上可以同时出现。", "各项的年代有交集，因此可能。"
  # An impossible scenario has exactly one entity of another time.
  (stranger,) = (
    relation
    for relation in cast.members
    if relation.entity in cast.stranger_names
  )
  gap_years = abs(intervals.compute_gap(cast.scene, stranger))
  is_before = intervals.compute_gap(cast.scene, stranger) < 0
  side = "之前" if is_before else "之后"
  return (
    f"否。{stranger.entity}（{stranger.period}）与{cast.scene.entity}"
    f"（{cast.scene.period}）不同时。",
    f"{stranger.entity}在{cast.scene.entity}{side}约{gap_years}年，因此不可能。",
  )
