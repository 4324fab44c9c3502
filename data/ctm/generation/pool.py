"""Pool of the entities of one split, from which questions draw.

Draws are spread over the periods rather than the records, since two thirds of
the figures are of 宋. Names that two records share are left out.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterable, Sequence

from ctd_jax_datasets.ctm import period_names, periods, repository
from ctd_jax_datasets.ctm.entities import Entity
from ctd_jax_datasets.ctm.generation.drafts import NoDrawError
from ctd_jax_datasets.ctm.vocabulary import ERA, FIGURE, RULER

# Dynasties of one character that mean nothing else in the name of an event.
_DISTINCTIVE_CHARACTERS = "秦漢汉隋唐宋遼辽金元明清晉晋魏"


class EntityPool:
  """Entities of a split that questions can be about.

  Attributes:
    entities: entities with years and a name of their own.
  """

  def __init__(
    self, entities: Iterable[Entity], ambiguous_names: Collection[str] = ()
  ):
    """Indexes the entities by kind and main period.

    Args:
      entities: of the split.
      ambiguous_names: names that several records share, over all splits.
    """
    self.entities = tuple(
      entity
      for entity in entities
      if entity.intervals
      and entity.periods
      and entity.name not in ambiguous_names
    )
    # (kind, main period) -> entities; every draw starts from these cells.
    self._cells: dict[tuple[str, str], list[Entity]] = {}
    for entity in self.entities:
      cell = (entity.kind, entity.periods[0])
      self._cells.setdefault(cell, []).append(entity)

  def select_entities(
    self, kinds: Collection[str], labels: Collection[str] = periods.LABELS
  ) -> list[Entity]:
    """Returns the entities of the kinds with a main period in the labels."""
    return [
      entity
      for label in periods.LABELS
      if label in labels
      for kind in kinds
      for entity in self._cells.get((kind, label), ())
    ]

  def draw_entities(
    self,
    rng: random.Random,
    count: int,
    kinds: Sequence[str],
    labels: Collection[str] = periods.LABELS,
    is_eligible: Callable[[Entity], bool] = lambda entity: True,
  ) -> list[Entity]:
    """Returns `count` different entities; all periods are equally likely.

    Args:
      rng: generator of the question.
      count: number of entities.
      kinds: allowed kinds.
      labels: allowed main periods.
      is_eligible: further condition.

    Raises:
      NoDrawError: if fewer entities satisfy the conditions.
    """
    by_label: dict[str, list[Entity]] = {}
    for entity in self.select_entities(kinds, labels):
      if is_eligible(entity):
        by_label.setdefault(entity.periods[0], []).append(entity)
    drawn_entities: list[Entity] = []
    while len(drawn_entities) < count:
      if not by_label:
        raise NoDrawError(f"fewer than {count} of {'、'.join(kinds)}")
      # Sorted: the order of the draws must not depend on that of the records.
      label = rng.choice(sorted(by_label, key=periods.LABELS.index))
      entity = by_label[label].pop(rng.randrange(len(by_label[label])))
      if not by_label[label]:
        del by_label[label]
      drawn_entities.append(entity)
    return drawn_entities


def draw_period_window(
  rng: random.Random, max_width: int = 9
) -> tuple[str, ...]:
  """Returns the labels of adjacent periods; the width is drawn first.

  Questions about neighbours are then as frequent as those across the timeline.

  Args:
    rng: generator of the question.
    max_width: largest distance between two of the periods.
  """
  width = rng.randint(1, max_width)
  first = rng.randint(0, len(periods.LABELS) - 1 - width)
  return periods.LABELS[first : first + width + 1]


def find_ambiguous_names(entities: Sequence[Entity]) -> frozenset[str]:
  """Returns the names and aliases that several records share."""
  return frozenset(
    name
    for name, records in repository.index_by_name(entities).items()
    if len({record.entity_id for record in records}) > 1
  )


def tells_period(entity: Entity) -> bool:
  """Returns whether the name of an event or place gives its period away.

  隋炀帝征高句丽 does; 商鞅变法 does not, since 商 is a surname there.
  """
  if entity.kind in (FIGURE, RULER, ERA):
    return False
  return any(
    spelling in entity.name
    for alias in period_names.load_aliases()
    if set(alias.labels) & set(entity.periods)
    for spelling in alias.spellings
    if len(spelling) > 1 or spelling in _DISTINCTIVE_CHARACTERS
  )
