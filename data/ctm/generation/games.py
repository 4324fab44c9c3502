"""Games of Timeline Ito: one entity for each player, no two of one period.

The paper's instances are not published. These are drawn anew, 20 of each
level, from the test split, and no entity is in two games. Entities known only
from a list of poets are left out: they would make the game a test of that list.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from ctd_jax_datasets.ctm import periods, repository
from ctd_jax_datasets.ctm.entities import Entity
from ctd_jax_datasets.ctm.game_schema import ItoInstance
from ctd_jax_datasets.ctm.generation import quotas
from ctd_jax_datasets.ctm.generation.pool import (
  EntityPool,
  find_ambiguous_names,
  tells_period,
)
from ctd_jax_datasets.ctm.vocabulary import (
  ERA,
  EVENT,
  FIGURE,
  HERITAGE,
  INGREDIENT,
  RULER,
)

# Level -> number of players. Source: the paper's section on the game.
PLAYERS = {"easy": 3, "medium": 4, "hard": 5}
GAMES_PER_LEVEL = 20
SPLIT = "test"  # games are not for training
_KINDS = (FIGURE, RULER, ERA, EVENT, INGREDIENT, HERITAGE)
_LIST_OF_POETS = "chinese-poetry"  # start of the source of such figures


def draw_games(seed: int) -> tuple[ItoInstance, ...]:
  """Returns the games, easy ones first.

  Args:
    seed: seed of the split of the entities and of all draws.
  """
  rng = random.Random(f"{seed}/games")
  by_label = _draw_candidates(seed)
  instances = []
  for level, players in PLAYERS.items():
    for game_number in range(1, GAMES_PER_LEVEL + 1):
      labels = _draw_labels(rng, players, by_label)
      seats = tuple(
        repository.make_relation(
          by_label[label].pop(rng.randrange(len(by_label[label])))
        )
        for label in labels
      )
      labels_in_time = sorted(labels, key=periods.LABELS.index)
      instances.append(
        ItoInstance(
          instance_id=f"ito-{level}-{game_number:02d}",
          level=level,
          seats=seats,
          ranks=tuple(labels_in_time.index(label) + 1 for label in labels),
          split=SPLIT,
        )
      )
  return tuple(instances)


def _draw_candidates(seed: int) -> dict[str, list[Entity]]:
  """Returns label -> unambiguous entities of the test split."""
  records = repository.assign_groups(repository.load_entities())
  members = quotas.split_entities(records, seed)[SPLIT]
  pool = EntityPool(members, find_ambiguous_names(records))
  return {
    label: [
      entity
      for entity in pool.select_entities(_KINDS, (label,))
      if _is_candidate(entity)
    ]
    for label in periods.LABELS
  }


def _is_candidate(entity: Entity) -> bool:
  """Returns whether an entity has one period, which its name does not tell."""
  return (
    len(entity.periods) == 1
    and not tells_period(entity)
    and not entity.intervals[0].source.startswith(_LIST_OF_POETS)
  )


def _draw_labels(
  rng: random.Random,
  count: int,
  remaining_entities: dict[str, Sequence[Entity]],
) -> list[str]:
  """Returns `count` different periods, weighted by remaining entities."""
  # Uniform draws would use up 隋, which has few entities.
  available_labels = [
    label for label in periods.LABELS if remaining_entities[label]
  ]
  drawn_labels: list[str] = []
  while len(drawn_labels) < count:
    weights = [
      min(len(remaining_entities[label]), 20) for label in available_labels
    ]
    drawn_labels.append(rng.choices(available_labels, weights)[0])
    available_labels.remove(drawn_labels[-1])
  return drawn_labels
