"""The 60 games: one entity for each player, no two of one period.

Why: the paper's instances are not published; these are drawn anew, 20 of each
level, from the entities of the test split and none twice. An entity is one
that histories tell of: whoever is only in a list of poets would make the game
a test of that list. Called by the builder.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from ctd_jax_datasets.ctm import periods, quotas, repository
from ctd_jax_datasets.ctm.pool import Pool, ambiguous_names, tells_period
from ctd_jax_datasets.ctm.questions import (
  ERA,
  EVENT,
  FIGURE,
  HERITAGE,
  INGREDIENT,
  RULER,
  Entity,
  ItoInstance,
)

# Level -> players, as many as relations.
PLAYERS = {"easy": 3, "medium": 4, "hard": 5}
GAMES_PER_LEVEL = 20
SPLIT = "test"
_KINDS = (FIGURE, RULER, ERA, EVENT, INGREDIENT, HERITAGE)
_LIST_OF_POETS = "chinese-poetry"


def games(seed: int) -> tuple[ItoInstance, ...]:
  """Returns the games, easy ones first.

  Args:
    seed: of the split of the entities, and of what is drawn.
  """
  rng = random.Random(f"{seed}/games")
  by_label = _candidates(seed)
  found = []
  for level, players in PLAYERS.items():
    for number in range(1, GAMES_PER_LEVEL + 1):
      labels = _labels(rng, players, by_label)
      seats = tuple(
        repository.relation(
          by_label[label].pop(rng.randrange(len(by_label[label])))
        )
        for label in labels
      )
      order = sorted(labels, key=periods.LABELS.index)
      found.append(
        ItoInstance(
          instance_id=f"ito-{level}-{number:02d}",
          level=level,
          seats=seats,
          ranks=tuple(order.index(label) + 1 for label in labels),
          split=SPLIT,
        )
      )
  return tuple(found)


def _candidates(seed: int) -> dict[str, list[Entity]]:
  """Returns label -> entities of the test split that are in no doubt."""
  records = repository.grouped(repository.entities())
  members = quotas.split_entities(records, seed)[SPLIT]
  pool = Pool(members, ambiguous_names(records))
  return {
    label: [entity for entity in pool.of(_KINDS, (label,)) if _known(entity)]
    for label in periods.LABELS
  }


def _known(entity: Entity) -> bool:
  return (
    len(entity.periods) == 1
    and not tells_period(entity)
    and not entity.intervals[0].source.startswith(_LIST_OF_POETS)
  )


def _labels(
  rng: random.Random, count: int, left: dict[str, Sequence[Entity]]
) -> list[str]:
  """Returns `count` different periods; one with much left is likelier.

  隋 has fewer entities than a third of the games would need.
  """
  labels = [label for label in periods.LABELS if left[label]]
  found: list[str] = []
  while len(found) < count:
    weights = [min(len(left[label]), 20) for label in labels]
    found.append(rng.choices(labels, weights)[0])
    labels.remove(found[-1])
  return found
