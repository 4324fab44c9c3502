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

from ctd_jax_datasets.ctm import intervals, periods, repository
from ctd_jax_datasets.ctm.pool import NoDrawError, Pool
from ctd_jax_datasets.ctm.questions import (
  ERA,
  EVENT,
  FIGURE,
  HERITAGE,
  INGREDIENT,
  PLACE,
  RULER,
  Entity,
  Relation,
)

_TRIES = 60
# Who sits at a table is at least that old.
_GROWN = 16
# Years by which something that does not belong is too late or too early.
_MARGIN = 15
_LONGEST_SCENE = 45
_KINDS = ((FIGURE, 10), (EVENT, 3), (PLACE, 3), (INGREDIENT, 3), (HERITAGE, 2))


@dataclasses.dataclass(frozen=True)
class Cast:
  """Who and what a scene is told of.

  Attributes:
    scene: sets the time.
    others: in order of appearance.
    wrong: those of `others` that are not of that time.
  """

  scene: Relation
  others: tuple[Relation, ...]
  wrong: frozenset[str]

  @property
  def relations(self) -> tuple[Relation, ...]:
    """All relations, that of the scene first."""
    return (self.scene, *self.others)


def cast(
  rng: random.Random,
  pool: Pool,
  count: int,
  wrong: int,
  anchors: Sequence[str] = (ERA, RULER),
) -> Cast:
  """Returns a cast of `count` relations, `wrong` of which do not belong.

  Args:
    rng: of the question.
    pool: of the split.
    count: relations, that of the scene included.
    wrong: how many do not belong; how many periods away is drawn first.
    anchors: kinds that may set the time.

  Raises:
    NoDrawError: if the pool has no such entities.
  """
  for _ in range(_TRIES):
    try:
      scene = _scene(rng, pool, anchors)
      others = _members(rng, pool, scene, count - 1 - wrong, belongs=True)
      strangers = _members(
        rng, pool, scene, wrong, belongs=False, distance=rng.randint(1, 9)
      )
    except NoDrawError:
      continue
    mixed = [*others, *strangers]
    rng.shuffle(mixed)
    return Cast(
      scene, tuple(mixed), frozenset(found.entity for found in strangers)
    )
  raise NoDrawError(f"no scene of {count} with {wrong} that do not belong")


def _scene(rng: random.Random, pool: Pool, anchors: Sequence[str]) -> Relation:
  """Returns the relation that sets the time; it lies in one period."""

  def fits(entity: Entity) -> bool:
    years = entity.intervals[0]
    short = years.end - years.start <= _LONGEST_SCENE or entity.kind == FIGURE
    return short and len(entity.periods) == 1 and years.end > years.start

  kind = rng.choice(anchors)
  (entity,) = pool.draw(rng, 1, (kind,), fits=fits)
  return repository.relation(entity)


def _members(
  rng: random.Random,
  pool: Pool,
  scene: Relation,
  count: int,
  belongs: bool,
  distance: int = 0,
) -> list[Relation]:
  """Returns relations that belong in a scene, or that do not.

  Those that do not are `distance` periods away or, if there are none, nearer.
  """
  found: list[Relation] = []
  weights = dict(_KINDS)
  candidates: dict[str, list[Relation]] = {}
  fits = _fits if belongs else _clashes
  while len(found) < count and weights:
    kind = rng.choices(list(weights), list(weights.values()))[0]
    if kind not in candidates:
      candidates[kind] = [r for r in _met(pool, kind) if fits(scene, r)]
    fitting = candidates[kind]
    if not belongs:
      fitting = _at_distance(fitting, scene, distance)
    if not fitting:
      del weights[kind]
      continue
    member = rng.choice(fitting)
    candidates[kind].remove(member)
    if member.entity_id != scene.entity_id:
      found.append(member)
  if len(found) < count:
    raise NoDrawError(f"{scene.entity}: fewer than {count} others")
  return found


def _at_distance(
  relations: Sequence[Relation], scene: Relation, wanted: int
) -> list[Relation]:
  """Returns those nearest to the wanted number of periods away."""
  if not relations:
    return []
  off = [
    abs(periods.distance(relation.period, scene.period) - wanted)
    for relation in relations
  ]
  nearest = min(off)
  return [
    relation
    for relation, miss in zip(relations, off, strict=True)
    if miss == nearest
  ]


@functools.cache
def _met(pool: Pool, kind: str) -> tuple[Relation, ...]:
  """Returns the entities of a kind as what is met in a scene.

  An event can be talked of ever since; things of disputed age are left out.
  """
  found = []
  for entity in pool.of((kind,)):
    if kind in (INGREDIENT, HERITAGE) and len(entity.periods) > 1:
      continue
    relation = repository.relation(entity)
    if kind == EVENT:
      relation = dataclasses.replace(relation, end=None)
    found.append(relation)
  return tuple(found)


def _fits(scene: Relation, other: Relation) -> bool:
  """Returns whether something is there in the middle year of a scene."""
  year = scene.start + (scene.end - scene.start) // 2
  slack = intervals.tolerance(scene, other)
  if other.kind == FIGURE:
    slack += _GROWN
  if other.kind == PLACE:
    return other.start <= scene.start and other.end >= scene.end
  started = other.start + slack <= (year or 1)
  if other.end is None:
    return started and other.start <= scene.start
  return started and other.end - intervals.tolerance(scene, other) > year


def _clashes(scene: Relation, other: Relation) -> bool:
  """Returns whether something is surely not of the time of a scene."""
  margin = _MARGIN + intervals.tolerance(scene, other)
  years = intervals.gap(scene, other)
  # The old name of a city may well have lived on, as that of a county.
  return years > margin if other.kind == PLACE else abs(years) > margin
