"""The entities of one split, to draw from.

Why: every kind of question draws entities under some condition, spread over
the periods rather than over the records (two thirds of the figures are of
宋), and none that its name does not tell apart. Called by the modules that
make questions.
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
  """Entities of a split that can be asked about.

  Args:
    entities: of the split.
    ambiguous: names that some other record bears as well.

  Attributes:
    entities: those with years, and a name of their own.
  """

  def __init__(
    self, entities: Iterable[Entity], ambiguous_names: Collection[str] = ()
  ):
    self.entities = tuple(
      entity
      for entity in entities
      if entity.intervals
      and entity.periods
      and entity.name not in ambiguous_names
    )
    self._cells: dict[tuple[str, str], list[Entity]] = {}
    for entity in self.entities:
      cell = (entity.kind, entity.periods[0])
      self._cells.setdefault(cell, []).append(entity)

  def select_entities(
    self, kinds: Collection[str], labels: Collection[str] = periods.LABELS
  ) -> list[Entity]:
    """Returns the entities of some kinds whose main period is one of some."""
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
    """Returns `count` different entities, periods as likely as each other.

    Raises:
      NoDrawError: if fewer fit.
    """
    by_label: dict[str, list[Entity]] = {}
    for entity in self.select_entities(kinds, labels):
      if is_eligible(entity):
        by_label.setdefault(entity.periods[0], []).append(entity)
    drawn_entities: list[Entity] = []
    while len(drawn_entities) < count:
      if not by_label:
        raise NoDrawError(f"fewer than {count} of {'、'.join(kinds)}")
      label = rng.choice(sorted(by_label, key=periods.LABELS.index))
      entity = by_label[label].pop(rng.randrange(len(by_label[label])))
      if not by_label[label]:
        del by_label[label]
      drawn_entities.append(entity)
    return drawn_entities


def draw_period_window(
  rng: random.Random, max_width: int = 9
) -> tuple[str, ...]:
  """Returns the labels of a stretch of periods, its width chosen first.

  So questions about neighbours are as common as those across the timeline.
  """
  width = rng.randint(1, max_width)
  first = rng.randint(0, len(periods.LABELS) - 1 - width)
  return periods.LABELS[first : first + width + 1]


def find_ambiguous_names(entities: Sequence[Entity]) -> frozenset[str]:
  """Returns the names that more than one record bears."""
  return frozenset(
    name
    for name, records in repository.index_by_name(entities).items()
    if len({record.entity_id for record in records}) > 1
  )


def tells_period(entity: Entity) -> bool:
  """Returns whether the name of an event or place says when it was.

  隋炀帝征高句丽 asks for nothing; 商鞅变法 does, 商 there is no dynasty.
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
