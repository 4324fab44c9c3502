"""PJ, SEC and LSEC: scenarios that may be possible, and anachronisms in scenes.

A cast has a scene that sets the time, members of that time, and strangers of
another. PJ asks whether all can have met, SEC and LSEC what does not belong.
"""

import dataclasses
import functools
import random
from collections.abc import Callable, Sequence

import msgspec

from ctd_jax.chronology import numerals
from ctd_jax_datasets.ctm import periods, question_drafts, repository, schema
from ctd_jax_datasets.ctm.periods import (
  ERA,
  EVENT,
  FIGURE,
  HERITAGE,
  INGREDIENT,
  LATER,
  LSEC,
  PLACE,
  RULER,
  SEC,
)
from ctd_jax_datasets.ctm.question_drafts import (
  WORDING,
  Draft,
  EntityPool,
  NoDrawError,
  redraw,
)
from ctd_jax_datasets.ctm.schema import (
  AnachronismGold,
  Entity,
  PolarityGold,
  Relation,
)

_ADULT_AGE = 16  # years; a member at the table is at least that old
_MARGIN = 15  # years between a stranger and the scene, besides the tolerance
_MAX_PLACE_PERIODS = 3
# 隋 and 唐 called every 州 a 郡 in these years, which the spans of 州 include.
_COMMANDERY_YEARS = ((607, 618), (742, 758))
_MAX_SCENE_YEARS = 45  # a longer era or reign does not set a time
# Kinds of members; scenes are about people.
_KIND_WEIGHTS = (
  (FIGURE, 10),
  (EVENT, 3),
  (PLACE, 3),
  (INGREDIENT, 3),
  (HERITAGE, 2),
)


@dataclasses.dataclass(frozen=True)
class Cast:
  """Cast of a scene."""

  scene: Relation  # relation that sets the time
  members: tuple[Relation, ...]  # other relations, in order of appearance
  # Names of the members that are not of that time.
  stranger_names: frozenset[str]

  @property
  def relations(self) -> tuple[Relation, ...]:
    """All relations, that of the scene first."""
    return (self.scene, *self.members)


@redraw
def draw_cast(
  rng: random.Random,
  pool: EntityPool,
  count: int,
  num_strangers: int,
  anchor_kinds: Sequence[str] = (ERA, RULER),
) -> Cast:
  """Returns a cast of `count` relations, the scene's among them.

  The distance of the `num_strangers` strangers in periods is drawn uniformly.
  """
  scene = _draw_scene(rng, pool, anchor_kinds)
  companions = _draw_members(
    rng, pool, scene, count - 1 - num_strangers, _is_of_scene
  )
  distance = rng.randint(1, 9)
  strangers = _draw_members(
    rng, pool, scene, num_strangers, _clashes_with_scene, distance
  )
  members = [*companions, *strangers]
  rng.shuffle(members)
  return Cast(
    scene,
    tuple(members),
    frozenset(stranger.entity for stranger in strangers),
  )


def _draw_scene(
  rng: random.Random, pool: EntityPool, anchor_kinds: Sequence[str]
) -> Relation:
  """Returns the relation that sets the time, which lies in one period."""

  def can_set_time(entity: Entity) -> bool:
    years = entity.intervals[0]
    is_short = (
      years.end - years.start <= _MAX_SCENE_YEARS or entity.kind == FIGURE
    )
    return is_short and len(entity.periods) == 1 and years.end > years.start

  kind = rng.choice(anchor_kinds)
  (entity,) = pool.draw_entities(rng, 1, (kind,), is_eligible=can_set_time)
  return repository.make_relation(entity)


def _draw_members(
  rng: random.Random,
  pool: EntityPool,
  scene: Relation,
  count: int,
  is_candidate: Callable[[Relation, Relation], bool],
  distance: int | None = None,
) -> list[Relation]:
  """Returns members of a scene, or strangers near a distance in periods."""
  members: list[Relation] = []
  weights = dict(_KIND_WEIGHTS)
  candidates: dict[str, list[Relation]] = {}
  while len(members) < count and weights:
    kind = rng.choices(list(weights), list(weights.values()))[0]
    if kind not in candidates:
      candidates[kind] = [
        relation
        for relation in _list_scene_relations(pool, kind)
        if is_candidate(scene, relation)
      ]
    options = candidates[kind]
    if distance is not None:
      options = _select_nearest(options, scene, distance)
    # An exhausted kind leaves its weight to the others.
    if not options:
      del weights[kind]
      continue
    member = rng.choice(options)
    candidates[kind].remove(member)
    if member.entity_id != scene.entity_id:
      members.append(member)
  if len(members) < count:
    raise NoDrawError(f"{scene.entity}: fewer than {count} others")
  return members


def _select_nearest(
  relations: Sequence[Relation], scene: Relation, target_distance: int
) -> list[Relation]:
  """Returns the relations whose distance is closest to the target."""
  if not relations:
    return []
  deviations = [
    abs(
      periods.count_periods_between(relation.period, scene.period)
      - target_distance
    )
    for relation in relations
  ]
  min_deviation = min(deviations)
  return [
    relation
    for relation, deviation in zip(relations, deviations, strict=True)
    if deviation == min_deviation
  ]


@functools.cache
def _list_scene_relations(pool: EntityPool, kind: str) -> tuple[Relation, ...]:
  """Returns the entities of a kind as relations of a scene."""
  relations = []
  for entity in pool.select_entities((kind,)):
    if kind in (INGREDIENT, HERITAGE) and len(entity.periods) > 1:
      continue
    # 金陵 and 姑苏 were long names in poems, not those that offices used.
    if kind == PLACE and len(entity.periods) > _MAX_PLACE_PERIODS:
      continue
    relation = repository.make_relation(entity)
    # People can talk of an event ever since, so its interval is open.
    if kind == EVENT:
      relation = msgspec.structs.replace(relation, end=None)
    relations.append(relation)
  return tuple(relations)


def _is_of_scene(scene: Relation, candidate: Relation) -> bool:
  """Returns whether a candidate existed in the middle year of a scene."""
  year = scene.start + (scene.end - scene.start) // 2
  slack = schema.sum_tolerances(scene, candidate)
  if candidate.kind == FIGURE:
    slack += _ADULT_AGE
  if candidate.kind == PLACE:
    is_renamed = candidate.entity.endswith("州") and any(
      scene.start < last and scene.end >= first
      for first, last in _COMMANDERY_YEARS
    )
    is_in_use = candidate.start <= scene.start and candidate.end >= scene.end
    return is_in_use and not is_renamed
  # There is no year 0.
  has_started = candidate.start + slack <= (year or 1)
  if candidate.end is None:
    return has_started and candidate.start <= scene.start
  return (
    has_started
    and candidate.end - schema.sum_tolerances(scene, candidate) > year
  )


def _clashes_with_scene(scene: Relation, candidate: Relation) -> bool:
  """Returns whether a candidate is certainly not of the time of a scene."""
  margin = _MARGIN + schema.sum_tolerances(scene, candidate)
  gap_years = schema.compute_gap(scene, candidate)
  # An old name of a city may have lived on as that of a county, so only a
  # later name is an anachronism.
  return (
    gap_years > margin if candidate.kind == PLACE else abs(gap_years) > margin
  )


_PLAUSIBILITY_RULE = "coexist"


def _draw_scenario(rng: random.Random, cast: Cast) -> str:
  """Returns an opening and a clause for each member, in their order."""
  pieces = [WORDING["opening"][cast.scene.kind]]
  pieces += [WORDING["clause"][relation.kind] for relation in cast.members]
  return "，".join(
    rng.choice(templates).format(name=relation.entity)
    for templates, relation in zip(pieces, cast.relations, strict=True)
  )


def draft_plausibility_question(
  rng: random.Random, pool: EntityPool, count: int
) -> Draft:
  """Returns the question whether `count` people and things can have met."""
  cast = draw_cast(rng, pool, count, rng.randint(0, 1), (ERA, RULER, FIGURE))
  scenario = _draw_scenario(rng, cast)
  conflicts = schema.find_disjoint_pairs(cast.relations)
  answer, conclusion = _format_answer(cast, conflicts)
  return Draft(
    rule=_PLAUSIBILITY_RULE,
    question=f"{scenario}。{rng.choice(WORDING['question'][_PLAUSIBILITY_RULE])}",
    answer=answer,
    relations=cast.relations,
    gold=PolarityGold(not conflicts, conflicts),
    conclusion=conclusion,
  )


def _format_answer(
  cast: Cast, conflicts: tuple[tuple[str, str], ...]
) -> tuple[str, str]:
  """Returns the answer and the conclusion of its explanation."""
  if not conflicts:
    names = question_drafts.join_names(
      [relation.entity for relation in cast.relations]
    )
    return f"是。{names}在时间上可以同时出现。", "各项的年代有交集，因此可能。"
  # An impossible scenario has exactly one entity of another time.
  (stranger,) = (
    relation
    for relation in cast.members
    if relation.entity in cast.stranger_names
  )
  gap_years = abs(schema.compute_gap(cast.scene, stranger))
  is_before = schema.compute_gap(cast.scene, stranger) < 0
  side = "之前" if is_before else "之后"
  return (
    f"否。{stranger.entity}（{stranger.period}）与{cast.scene.entity}"
    f"（{cast.scene.period}）不同时。",
    f"{stranger.entity}在{cast.scene.entity}{side}约{gap_years}年，因此不可能。",
  )


_ANACHRONISM_RULE = "anachronisms"
_SCRIPT_QUESTION = "以上剧本中有若干与所设时代不符之处，请逐条列出并说明理由。"
_PER_ACT = 4  # entities in one act of a script


def draft_scene_question(
  rng: random.Random, pool: EntityPool, count: int
) -> Draft:
  """Returns a scene of `count` relations with anachronisms."""
  # Less than half of the members, or the scene itself would be in doubt.
  num_strangers = 1 if count < 4 else rng.randint(1, (count - 1) // 2)
  cast = draw_cast(rng, pool, count, num_strangers)
  scenario = _draw_scenario(rng, cast)
  return _make_scene_draft(
    SEC,
    cast,
    f"{scenario}。{rng.choice(WORDING['question'][_ANACHRONISM_RULE])}",
  )


def draft_script_question(
  rng: random.Random, pool: EntityPool, count: int
) -> Draft:
  """Returns a script of several acts with anachronisms."""
  num_strangers = rng.randint(1, (count - 1) // 2)
  cast = draw_cast(rng, pool, count, num_strangers)
  # A cast of LSEC is set by an era or a reign, never a life.
  setting = {
    ERA: f"“{cast.scene.entity}”年间",
    RULER: f"{cast.scene.entity}在位期间",
  }[cast.scene.kind]
  acts = []  # each with up to `_PER_ACT` members
  for first in range(0, len(cast.members), _PER_ACT):
    act = f"第{numerals.format_numeral(first // _PER_ACT + 1)}场"
    lines = [f"【{act}】{rng.choice(WORDING['weather'][''])}"]
    for relation in cast.members[first : first + _PER_ACT]:
      lines += _write_lines(rng, relation)
    acts.append("\n".join(lines))
  script = "\n".join(acts)
  return _make_scene_draft(
    LSEC, cast, f"剧本（故事发生于{setting}）：\n{script}\n{_SCRIPT_QUESTION}"
  )


def _write_lines(rng: random.Random, relation: Relation) -> list[str]:
  """Returns the lines of a script in which an entity appears."""
  # A line and the reply to it are at the same place of their lists.
  template, dialogue = rng.choice(
    list(
      zip(
        WORDING["line"][relation.kind],
        WORDING["reply"][relation.kind],
        strict=True,
      )
    )
  )
  return [
    template.format(name=relation.entity),
    dialogue,
    rng.choice(WORDING["filler"][""]),
  ]


def _make_scene_draft(task: str, cast: Cast, question: str) -> Draft:
  """Returns the draft; the answer of LSEC is a numbered list."""
  anachronisms = schema.find_anachronisms(cast.scene, cast.members)
  members = {relation.entity: relation for relation in cast.members}
  reasons = [
    f"{anachronism.entity}（{members[anachronism.entity].period}）"
    f"{'晚于' if anachronism.reason == LATER else '早于'}所设时代"
    f"（{cast.scene.period}）"
    for anachronism in anachronisms
  ]
  answer = "；".join(reasons) + "。"
  if task == LSEC:
    answer = "\n".join(
      f"{number}. {reason}。" for number, reason in enumerate(reasons, start=1)
    )
  names = question_drafts.join_names([item.entity for item in anachronisms])
  return Draft(
    rule=_ANACHRONISM_RULE,
    question=question,
    answer=answer,
    relations=cast.relations,
    gold=AnachronismGold(
      cast.scene.entity, cast.scene.start, cast.scene.end, anachronisms
    ),
    conclusion=f"与时代不符的是{names}。",
  )
