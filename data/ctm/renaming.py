"""EEU: what a place was called in another period.

Why: of each city one name is given with its period, and others are asked for;
several cities make a longer question. A period is asked for only if one name
was the main one then; other names of it are accepted. Called by `generate`.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from ctd_jax_datasets.ctm import intervals, periods, repository, wording
from ctd_jax_datasets.ctm.pool import Draft, NoDrawError, Pool
from ctd_jax_datasets.ctm.questions import (
  EEU,
  PLACE,
  TYPE_NAMES,
  Entity,
  NamesGold,
)

RULE = "renamed"
_TRIES = 200


def draft(rng: random.Random, pool: Pool, count: int) -> Draft:
  """Returns a question on the names of a city, or of several, in time.

  Of each city one name is given; `count` counts names given and asked.

  Raises:
    NoDrawError: if the pool has no such names.
  """
  cities: dict[str, list[Entity]] = {}
  for entity in pool.of((PLACE,)):
    cities.setdefault(entity.place, []).append(entity)
  for _ in range(_TRIES):
    names = list(cities)
    rng.shuffle(names)
    parts: list[tuple[Entity, list[Entity]]] = []
    left = count
    while left >= 2 and names:
      part = _city(rng, cities[names.pop()], left)
      if part and left - len(part[1]) - 1 != 1:
        parts.append(part)
        left -= len(part[1]) + 1
    if left == 0:
      return _rename_draft(parts, cities)
  raise NoDrawError(f"EEU: no {count} names of cities")


def _city(
  rng: random.Random, names: Sequence[Entity], most: int
) -> tuple[Entity, list[Entity]] | None:
  """Returns a name and up to `most` - 1 names of other periods, or None."""
  known = rng.choice(names)
  others: dict[str, list[Entity]] = {}
  for entity in names:
    others.setdefault(entity.periods[0], []).append(entity)
  # A period in which two names were equally good cannot be asked for.
  asked = [
    found[0]
    for label, found in others.items()
    if len(found) == 1 and label != known.periods[0]
  ]
  rng.shuffle(asked)
  return (known, asked[: rng.randint(1, most - 1)]) if asked else None


def _rename_draft(
  parts: Sequence[tuple[Entity, list[Entity]]], cities: dict[str, list[Entity]]
) -> Draft:
  texts, relations, answers = [], [], []
  for known, asked in parts:
    asked.sort(key=lambda e: periods.LABELS.index(e.periods[0]))
    labels = wording.in_turn([entity.periods[0] for entity in asked])
    texts.append(
      f"{known.periods[0]}时期的“{known.name}”（今{known.place}），"
      f"在{labels}时期{'分别' if len(asked) > 1 else ''}称作什么"
    )
    relations += [
      repository.relation(entity, repository.main_interval(entity))
      for entity in (known, *asked)
    ]
    answers += asked
  gold = NamesGold(
    tuple(entity.name for entity in answers),
    tuple(_also_called(entity, cities[entity.place]) for entity in answers),
  )
  tail = "？请按顺序作答。" if len(answers) > 1 else "？"
  told = "；".join(f"{e.periods[0]}称{e.name}（今{e.place}）" for e in answers)
  return Draft(
    type=TYPE_NAMES[EEU],
    rule=RULE,
    question="；".join(texts) + tail,
    answer=wording.in_turn(gold.names),
    relations=tuple(relations),
    gold=gold,
    conclusion=f"{told}。",
    distance=intervals.distance(relations),
  )


def _also_called(entity: Entity, names: Sequence[Entity]) -> tuple[str, ...]:
  """Returns what else the city was called in the main period of a name."""
  label = entity.periods[0]
  others = [
    spelling
    for other in names
    if other is not entity and label in other.periods
    for spelling in (other.name, *other.aliases)
  ]
  return tuple(dict.fromkeys((*entity.aliases, *others)))
