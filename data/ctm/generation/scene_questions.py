"""PJ, SEC and LSEC: scenarios that may be possible, and anachronisms in scenes.

A cast has a scene that sets the time, members of that time, and strangers of
another. PJ asks whether all can have met, SEC and LSEC what does not belong.
"""

from __future__ import annotations

import dataclasses
import functools
import random
from collections.abc import Sequence

import msgspec

from ctd_jax_datasets.ctm import periods, repository, schema
from ctd_jax_datasets.ctm.generation import question_pool
from ctd_jax_datasets.ctm.generation.question_pool import (
  Draft,
  EntityPool,
  NoDrawError,
)
from ctd_jax_datasets.ctm.periods import (
  ERA,
  EVENT,
  FIGURE,
  HERITAGE,
  INGREDIENT,
  LATER,
  LSEC,
  PJ,
  PLACE,
  RULER,
  SEC,
  TYPE_NAMES,
)
from ctd_jax_datasets.ctm.schema import (
  AnachronismGold,
  Entity,
  PolarityGold,
  Relation,
)

_TRIES = 60  # draws before the pool counts as too small
_ADULT_AGE = 16  # years; a member at the table is at least that old
_MARGIN = 15  # years between a stranger and the scene, besides the tolerance
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


def draw_cast(
  rng: random.Random,
  pool: EntityPool,
  count: int,
  num_strangers: int,
  anchor_kinds: Sequence[str] = (ERA, RULER),
) -> Cast:
  """Returns a cast of `count` relations with `num_strangers` strangers.

  Args:
    count: number of relations, that of the scene included.
    num_strangers: number of strangers; their distance in periods is drawn
      uniformly.

  Raises:
    NoDrawError: if the pool has no such entities.
  """
  for _ in range(_TRIES):
    try:
      scene = _draw_scene(rng, pool, anchor_kinds)
      companions = _draw_members(
        rng, pool, scene, count - 1 - num_strangers, is_member=True
      )
      strangers = _draw_members(
        rng,
        pool,
        scene,
        num_strangers,
        is_member=False,
        distance=rng.randint(1, 9),
      )
    except NoDrawError:
      continue
    members = [*companions, *strangers]
    rng.shuffle(members)
    return Cast(
      scene,
      tuple(members),
      frozenset(stranger.entity for stranger in strangers),
    )
  raise NoDrawError(
    f"no scene of {count} with {num_strangers} that do not belong"
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
  is_member: bool,
  distance: int = 0,
) -> list[Relation]:
  """Returns members of a scene, or strangers."""
  members: list[Relation] = []
  weights = dict(_KIND_WEIGHTS)
  candidates: dict[str, list[Relation]] = {}
  is_candidate = _is_of_scene if is_member else _clashes_with_scene
  while len(members) < count and weights:
    kind = rng.choices(list(weights), list(weights.values()))[0]
    if kind not in candidates:
      candidates[kind] = [
        relation
        for relation in _list_scene_relations(pool, kind)
        if is_candidate(scene, relation)
      ]
    options = candidates[kind]
    if not is_member:
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
    return candidate.start <= scene.start and candidate.end >= scene.end
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
_PLAUSIBILITY_QUESTIONS = (
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
  cast = draw_cast(rng, pool, count, rng.randint(0, 1), (ERA, RULER, FIGURE))
  opening = rng.choice(OPENINGS[cast.scene.kind]).format(name=cast.scene.entity)
  scenario = "，".join((opening, *draw_clauses(rng, cast.members)))
  conflicts = schema.find_disjoint_pairs(cast.relations)
  answer, conclusion = _format_answer(cast, conflicts)
  return Draft(
    type=TYPE_NAMES[PJ],
    rule=_PLAUSIBILITY_RULE,
    question=f"{scenario}。{rng.choice(_PLAUSIBILITY_QUESTIONS)}",
    answer=answer,
    relations=cast.relations,
    gold=PolarityGold(not conflicts, conflicts),
    conclusion=conclusion,
    distance=schema.measure_distance(cast.relations),
  )


def _format_answer(
  cast: Cast, conflicts: tuple[tuple[str, str], ...]
) -> tuple[str, str]:
  """Returns the answer and the conclusion of its explanation."""
  if not conflicts:
    names = question_pool.join_names(
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
_QUESTIONS = (
  "以上情景中有与所设时代不符的内容，请指出是哪一项或哪几项，并说明理由。",
  "这段情景里出现了穿帮之处，请找出与时代不符的内容并说明理由。",
)
_SCRIPT_QUESTION = "以上剧本中有若干与所设时代不符之处，请逐条列出并说明理由。"
_PER_ACT = 4  # entities in one act of a script
_WEATHER = (
  "天色将晚，檐下的灯一盏盏亮起。",
  "细雨初歇，石阶上还留着水痕。",
  "清晨，街上行人渐多，远处传来叫卖声。",
  "夜深人静，只听得见风过竹林。",
  "雪后初晴，院中一片洁白。",
  "午后，池边的柳影微微晃动。",
)
_FILLERS = (
  "众人沉默片刻，谁也没有先开口。",
  "有人举起杯来，环顾四座。",
  "主人起身相迎，请客人入座。",
  "童子添了灯油，又退到门外。",
  "一阵脚步声由远及近，众人都回头去看。",
  "说到此处，座中响起一片笑声。",
  "他叹了口气，把话头按下不提。",
  "窗外有人经过，屋里的声音低了下去。",
)
# Kind -> pairs of lines: the entity appears, and somebody speaks.
_LINES = {
  FIGURE: (
    ("{name}推门而入，向众人拱手。", "甲：先生远道而来，请上座。"),
    ("{name}坐在窗前，手里握着一卷书。", "乙：先生近来可好？"),
    ("{name}站在院中，与主人低声说话。", "甲：今日能见到先生，实在难得。"),
  ),
  EVENT: (
    ("老者放下手杖，讲起{name}的旧事。", "乙：那件事，长辈们也常常提起。"),
    ("有人提到{name}，座中议论纷纷。", "甲：前车之鉴，不可不记。"),
  ),
  PLACE: (
    (
      "信使送来一封公文，上面写着官府所用的地名“{name}”。",
      "甲：那里近来可还太平？",
    ),
    ("一位客人说自己刚从“{name}”来，官府正是这样称呼那里。", "乙：路上辛苦。"),
  ),
  INGREDIENT: (
    ("仆人端上新做的{name}。", "甲：趁热请用。"),
    ("厨房里堆着刚买来的{name}。", "乙：今日的菜倒是新鲜。"),
  ),
  HERITAGE: (
    ("隔壁传来声响，原来有人正在讲习{name}。", "甲：这一门，学起来可不容易。"),
    ("席间说起时下的{name}，人人称赞。", "乙：过几日一同去看看。"),
  ),
}


def draft_scene_question(
  rng: random.Random, pool: EntityPool, count: int
) -> Draft:
  """Returns a scene of `count` relations with anachronisms.

  Raises:
    NoDrawError: if the pool has no such entities.
  """
  # Less than half of the members, or the scene itself would be in doubt.
  num_strangers = 1 if count < 4 else rng.randint(1, (count - 1) // 2)
  cast = draw_cast(rng, pool, count, num_strangers)
  opening = rng.choice(OPENINGS[cast.scene.kind]).format(name=cast.scene.entity)
  scenario = "，".join((opening, *draw_clauses(rng, cast.members)))
  return _make_scene_draft(SEC, cast, f"{scenario}。{rng.choice(_QUESTIONS)}")


def draft_script_question(
  rng: random.Random, pool: EntityPool, count: int
) -> Draft:
  """Returns a script of several acts with anachronisms.

  Raises:
    NoDrawError: if the pool has no such entities.
  """
  num_strangers = rng.randint(1, (count - 1) // 2)
  cast = draw_cast(rng, pool, count, num_strangers)
  # A cast of LSEC is set by an era or a reign, never a life.
  setting = {
    ERA: f"“{cast.scene.entity}”年间",
    RULER: f"{cast.scene.entity}在位期间",
  }[cast.scene.kind]
  acts = []  # each with up to `_PER_ACT` members
  for first in range(0, len(cast.members), _PER_ACT):
    act = f"第{question_pool.format_ordinal(first // _PER_ACT + 1)}场"
    lines = [f"【{act}】{rng.choice(_WEATHER)}"]
    for relation in cast.members[first : first + _PER_ACT]:
      lines += _write_lines(rng, relation)
    acts.append("\n".join(lines))
  script = "\n".join(acts)
  return _make_scene_draft(
    LSEC, cast, f"剧本（故事发生于{setting}）：\n{script}\n{_SCRIPT_QUESTION}"
  )


def _write_lines(rng: random.Random, relation: Relation) -> list[str]:
  """Returns the lines of a script in which an entity appears."""
  template, dialogue = rng.choice(_LINES[relation.kind])
  return [template.format(name=relation.entity), dialogue, rng.choice(_FILLERS)]


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
  names = question_pool.join_names([item.entity for item in anachronisms])
  return Draft(
    type=TYPE_NAMES[task],
    rule=_ANACHRONISM_RULE,
    question=question,
    answer=answer,
    relations=cast.relations,
    gold=AnachronismGold(
      cast.scene.entity, cast.scene.start, cast.scene.end, anachronisms
    ),
    conclusion=f"与时代不符的是{names}。",
    distance=schema.measure_distance(cast.relations),
  )
