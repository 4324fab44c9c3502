"""Casts of PJ, SEC and LSEC: a time, entities of that time, and strangers.

The first relation of a cast sets the time (an era, a reign, a life). Members
existed in the middle year of that time, so any two of them share a year.
Strangers are separated from all of that time by more years than the error of
the dates.
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
  """Cast of a scene.

  Attributes:
    scene: relation that sets the time.
    members: other relations, in order of appearance.
    stranger_names: names of the members that are not of that time.
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
  """Returns a cast of `count` relations with `num_strangers` strangers.

  Args:
    rng: generator of the question.
    pool: entities of the split.
    count: number of relations, that of the scene included.
    num_strangers: number of strangers; their distance in periods is drawn
      uniformly.
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
  """Returns members of a scene, or strangers.

  Args:
    rng: generator of the question.
    pool: entities of the split.
    scene: relation that sets the time.
    count: number of relations.
    is_member: whether members are drawn; else strangers.
    distance: of strangers in periods; the nearest to it are taken.

  Raises:
    NoDrawError: if the pool has fewer.
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
  """Returns the entities of a kind as relations of a scene.

  Things of disputed age are left out.
  """
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
  slack = intervals.sum_tolerances(scene, candidate)
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
    and candidate.end - intervals.sum_tolerances(scene, candidate) > year
  )


def _clashes_with_scene(scene: Relation, candidate: Relation) -> bool:
  """Returns whether a candidate is certainly not of the time of a scene."""
  margin = _MARGIN + intervals.sum_tolerances(scene, candidate)
  gap_years = intervals.compute_gap(scene, candidate)
  # An old name of a city may have lived on as that of a county, so only a
  # later name is an anachronism.
  return (
    gap_years > margin if candidate.kind == PLACE else abs(gap_years) > margin
  )
