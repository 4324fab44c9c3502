"""Drafts of questions: the pool of entities they draw from, and their wording.

All draws take the generator of the question, so that no question depends on the
draws of another.
"""

import dataclasses
import functools
import pathlib
import random
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, TypeVar

from ctd_jax.utils import files
from ctd_jax_datasets.ctm import periods, repository
from ctd_jax_datasets.ctm.periods import (
  APPROXIMATE,
  ERA,
  EVENT,
  FIGURE,
  PLACE,
  RULER,
)
from ctd_jax_datasets.ctm.schema import (
  Distance,
  Entity,
  Gold,
  Relation,
)

PERIOD_LIST = "、".join(periods.LABELS)
_TRIES = 200  # draws before the tables count as too small
# Table -> key -> texts.
WORDING = files.read_wording(pathlib.Path(__file__).with_name("wording.tsv"))


def format_year(year: int, precision: str = "") -> str:
  """Returns a year in words: 「公元前278年」, 「约公元701年」."""
  # 约 (about) tells the reader, and the judge, of the tolerance.
  prefix = "约" if precision == APPROXIMATE else ""
  return f"{prefix}公元前{-year}年" if year < 0 else f"{prefix}公元{year}年"


def format_fact(relation: Relation) -> str:
  """Returns the years of an entity in words."""
  key = relation.kind
  if key == EVENT and relation.start == relation.end:
    key = "event in a year"
  elif key == EVENT and relation.end is None:
    key = "event without end"
  (template,) = WORDING["fact"][key]
  # 今: the interval is open.
  end = "" if relation.end is None else relation.end
  return template.format(
    name=relation.entity,
    start=format_year(relation.start, relation.precision),
    end=format_year(end, relation.precision) if end else "今",
  )


def format_explanation(relations: Sequence[Relation], conclusion: str) -> str:
  """Returns facts, relations as 'entity-dynasty', and the conclusion."""
  facts = "；".join(
    dict.fromkeys(format_fact(relation) for relation in relations)
  )
  pairs = "、".join(
    dict.fromkeys(f"'{relation.label}'" for relation in relations)
  )
  return f"{facts}。涉及的时空关系：{pairs}。{conclusion}"


def join_names(names: Sequence[str]) -> str:
  """Returns names joined as the paper's answers are."""
  return "、".join(names)


def format_title(relation: Relation) -> str:
  """Returns a name, with its kind where the name alone is unclear."""
  if relation.kind == ERA:
    return f"年号“{relation.entity}”"
  if relation.kind == PLACE:
    city = re.sub("府城$", "", relation.place)
    return f"地名“{relation.entity}”（今{city}）"
  return relation.entity


class NoDrawError(LookupError):
  """Failure to draw fitting entities; another draw may succeed."""


_Draw = TypeVar("_Draw", bound=Callable[..., Any])


def redraw(draw: _Draw) -> _Draw:
  """Decorator of a function that draws: it is called until it succeeds."""

  @functools.wraps(draw)
  def draw_until_done(*args: Any) -> Any:
    failure = None
    for _ in range(_TRIES):
      try:
        return draw(*args)
      except NoDrawError as error:
        failure = error
    raise NoDrawError(f"{_TRIES} draws failed; the last: {failure}")

  return draw_until_done


@dataclasses.dataclass(frozen=True)
class Draft:
  """Question without an id; the other fields are those of `Question`."""

  rule: str
  question: str
  answer: str
  relations: tuple[Relation, ...]
  gold: Gold
  conclusion: str  # last sentence of the explanation, after facts and relations
  distance: Distance | None = None  # None: between the relations


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
    """Returns `count` different entities; all periods are equally likely."""
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

  So questions about neighbours are as frequent as those across the timeline.
  """
  width = rng.randint(1, max_width)
  first = rng.randint(0, len(periods.LABELS) - 1 - width)
  return periods.LABELS[first : first + width + 1]


def find_ambiguous_names(entities: Sequence[Entity]) -> frozenset[str]:
  """Returns the names and aliases that several records share.

  Two names of one city are told apart by their time, not by the city.
  """
  return frozenset(
    name
    for name, records in repository.index_by_name(entities).items()
    if len({r.place if r.kind == PLACE else r.entity_id for r in records}) > 1
  )


def tells_period(entity: Entity) -> bool:
  """Returns whether the name of an event or place gives its period away.

  隋炀帝征高句丽 does; 商鞅变法 does not, since 商 is a surname there.
  """
  if entity.kind in (FIGURE, RULER, ERA):
    return False
  return any(
    spelling in entity.name
    for alias in periods.load_aliases()
    if set(alias.labels) & set(entity.periods)
    for spelling in alias.spellings
    if len(spelling) > 1 or spelling in _DISTINCTIVE_CHARACTERS
  )


def is_unambiguous(entity: Entity) -> bool:
  """Returns whether an entity has one period, which its name does not tell."""
  return len(entity.periods) == 1 and not tells_period(entity)
