"""A time, what belongs in it and what does not: the cast of PJ, SEC and LSEC.

Why: three tasks tell of people and things that meet; they differ in how it is
told and in what is asked. The first relation of a cast sets the time (an era,
a reign, a life). Whatever belongs was there in the middle year of that time,
so any two of them have a year in common; whatever does not is apart from all
of that time by more years than the dates may be off. Called by `plausibility`
and `scripts`.
"""

from __future__ import annotations

import dataclasses
import functools
import random
from collections.abc import Sequence

import msgspec

from ctd_jax_datasets.ctm import intervals, periods, repository
from ctd_jax_datasets.ctm.entities import Entity, Relation
from ctd_jax_datasets.ctm.generation.drafts import NoDrawError
from ctd_jax_datasets.ctm.generation.pool import EntityPool
from ctd_jax_datasets.ctm.vocabulary import (
  ERA,
  EVENT,
  FIGURE,
  HERITAGE,
  INGREDIENT,
  PLACE,
  RULER,
)

_TRIES = 60
# Who sits at a table is at least that old.
_ADULT_AGE = 16
# Years by which something that does not belong is too late or too early.
_MARGIN = 15
_MAX_SCENE_YEARS = 45
_KIND_WEIGHTS = (
  (FIGURE, 10),
  (EVENT, 3),
  (PLACE, 3),
  (INGREDIENT, 3),
  (HERITAGE, 2),
)


@dataclasses.dataclass(frozen=True)
class Cast:
  """Who and what a scene is told of.

  Attributes:
    scene: sets the time.
    members: in order of appearance.
    stranger_names: those of `members` that are not of that time.
  """

  scene: Relation
  members: tuple[Relation, ...]
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
  """Returns a cast of `count` relations, `num_strangers` of which do not belong.

  Args:
    rng: of the question.
    pool: of the split.
    count: relations, that of the scene included.
    num_strangers: how many do not belong; how many periods away is drawn first.
    anchor_kinds: kinds that may set the time.

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
  """Returns the relation that sets the time; it lies in one period."""

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
  """Returns relations that belong in a scene, or that do not.

  Those that do not are `distance` periods away or, if there are none, nearer.
  """
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
  """Returns those nearest to the wanted number of periods away."""
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
  """Returns the entities of a kind as what is met in a scene.

  An event can be talked of ever since; things of disputed age are left out.
  """
  relations = []
  for entity in pool.select_entities((kind,)):
    if kind in (INGREDIENT, HERITAGE) and len(entity.periods) > 1:
      continue
    relation = repository.make_relation(entity)
    if kind == EVENT:
      relation = msgspec.structs.replace(relation, end=None)
    relations.append(relation)
  return tuple(relations)


def _is_of_scene(scene: Relation, candidate: Relation) -> bool:
  """Returns whether something is there in the middle year of a scene."""
  year = scene.start + (scene.end - scene.start) // 2
  slack = intervals.sum_tolerances(scene, candidate)
  if candidate.kind == FIGURE:
    slack += _ADULT_AGE
  if candidate.kind == PLACE:
    return candidate.start <= scene.start and candidate.end >= scene.end
  has_started = candidate.start + slack <= (year or 1)
  if candidate.end is None:
    return has_started and candidate.start <= scene.start
  return (
    has_started
    and candidate.end - intervals.sum_tolerances(scene, candidate) > year
  )


def _clashes_with_scene(scene: Relation, candidate: Relation) -> bool:
  """Returns whether something is surely not of the time of a scene."""
  margin = _MARGIN + intervals.sum_tolerances(scene, candidate)
  gap_years = intervals.compute_gap(scene, candidate)
  # The old name of a city may well have lived on, as that of a county.
  return (
    gap_years > margin if candidate.kind == PLACE else abs(gap_years) > margin
  )
