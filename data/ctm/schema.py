"""Entities, questions, golds and games of CTM as typed values, and their JSON.

A relation is an entity with one interval of years: the knowledge that a
question needs. Golds are data of one class for each form, told apart by the tag
`form`. The interval algebra computes golds from relations.
"""

import itertools
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from ctd_jax_datasets.ctm import periods
from ctd_jax_datasets.ctm.periods import (
  EARLIER,
  EDD,
  EEU,
  EXACT,
  LATER,
  LSEC,
  PJ,
  RR,
  SEC,
  START,
  TES,
  TIC,
  TOLERANCE,
  TOU,
)


class YearInterval(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
  """Interval of years: a life, a reign, an era, the use of a name, an event."""

  start: int  # first year; of an import from abroad, the first attested year
  end: int | None  # last year, None if the interval is open
  precision: str  # `EXACT` or `APPROXIMATE`, of the less exact end
  source: str  # authority for the years
  sense: str  # life, reign, era, use, event or origin


class Entity(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
  """Record of the entity repository."""

  entity_id: str  # e.g. `figure-0001`.
  name: str
  # Other names and the spellings in Traditional script.
  aliases: tuple[str, ...]
  kind: str  # one of `KINDS`
  # Years; questions are about the first interval.
  intervals: tuple[YearInterval, ...]
  # Labels, the main one first; several for a life across periods.
  periods: tuple[str, ...]
  # Present province, or the city that a place name belongs to; "" if unknown.
  place: str = ""
  group: str = ""  # entities of one group are in one split
  # Facts that a question may state, as short phrases; of an era (polity,
  # ruler), of a ruler (polity,).
  evidence: tuple[str, ...] = ()


class Relation(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
  """Entity with one interval of years: the knowledge that a question needs."""

  entity: str  # name as written in the question
  kind: str  # kind of the entity
  period: str  # main label of the entity; "" if a release does not write it
  start: int
  end: int | None  # last year, None if the interval is open
  entity_id: str = ""  # id of the entity
  precision: str = EXACT  # precision of the years
  place: str = ""  # as in `Entity`

  @property
  def label(self) -> str:
    """The form of the paper: 'entity-dynasty'."""
    return f"{self.entity}-{self.period}" if self.period else self.entity


class _TaggedGold(
  msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="form"
):
  """Base of all golds; `form` is written to JSON before the fields."""

  @property
  def form(self) -> str:
    """The tag of the class."""
    return self.__struct_config__.tag


class LabelGold(_TaggedGold, frozen=True, tag="label"):
  """EDD: the label, and all accepted labels, earliest first."""

  label: str
  acceptable: tuple[str, ...]


class OrderGold(_TaggedGold, frozen=True, tag="order"):
  """TOU: names, earliest first; names of one group are tied."""

  groups: tuple[tuple[str, ...], ...]
  by: str = START  # always; kept in the files


class YearsGold(_TaggedGold, frozen=True, tag="years"):
  """TIC: a number of years."""

  years: int  # true number, without a year 0
  with_year_zero: int  # equal to `years` if no step crosses 1 BCE
  tolerance: int  # accepted error in years, from the precision of the dates
  points: tuple[str, ...]  # `START` or `END` of each relation, in their order
  # True years of each step of the chain; their sum is `years`.
  steps: tuple[int, ...]

  @property
  def accepted(self) -> tuple[int, ...]:
    """Both conventions, once where they agree."""
    return tuple(dict.fromkeys((self.years, self.with_year_zero)))


class OptionGold(_TaggedGold, frozen=True, tag="option"):
  """TES: the one option of four that belongs to a period."""

  options: tuple[str, ...]  # names, A first
  periods: tuple[tuple[str, ...], ...]  # all labels of each option
  correct: int  # index of the correct option
  label: str


class Anachronism(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
  """Entity that does not belong in a scene; reason is `LATER` or `EARLIER`."""

  entity: str
  reason: str


class AnachronismGold(_TaggedGold, frozen=True, tag="anachronisms"):
  """SEC, LSEC: all anachronisms of a scene, in order of mention."""

  scene: str  # name of the relation that sets the time, the first of them
  start: int  # first year of the scene
  end: int  # last year of the scene
  # Entities not of that time; the other relations are.
  anachronisms: tuple[Anachronism, ...]

  @property
  def names(self) -> tuple[str, ...]:
    """The entities to be flagged."""
    return tuple(anachronism.entity for anachronism in self.anachronisms)


class PolarityGold(_TaggedGold, frozen=True, tag="polarity"):
  """PJ: whether the scenario is possible; if not, all pairs in conflict."""

  possible: bool
  # (first, second) in order of mention; without any, no reason is needed.
  conflicts: tuple[tuple[str, str], ...]


class NamesGold(_TaggedGold, frozen=True, tag="names"):
  """EEU, RR: one name, or several in order, with accepted alternatives."""

  names: tuple[str, ...]  # names in the order of the question
  # For each name, other spellings and names that are accepted.
  aliases: tuple[tuple[str, ...], ...]


class TextGold(_TaggedGold, frozen=True, tag="text"):
  """Released questions: no rule, only a model can compare the answer."""


Gold = (
  LabelGold
  | OrderGold
  | YearsGold
  | OptionGold
  | AnachronismGold
  | PolarityGold
  | NamesGold
  | TextGold
)
# Task -> form of its gold.
GOLDS_BY_TASK = {
  EDD: LabelGold,
  PJ: PolarityGold,
  TOU: OrderGold,
  RR: NamesGold,
  SEC: AnachronismGold,
  EEU: NamesGold,
  TIC: YearsGold,
  TES: OptionGold,
  LSEC: AnachronismGold,
}


class Distance(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
  """Periods between the relations, over all pairs; 0 for one relation."""

  nearest: int
  widest: int


class Question(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
  """Question, its answer, and the facts from which the answer follows."""

  question_id: str  # e.g. `edd-00001`.
  task: str  # one of `TASKS`
  type: str  # name of the task in the paper
  rule: str  # name of the rule that computes the gold, finer than the task
  question: str  # text, in Simplified script
  answer: str  # reference answer as text
  # Needed relations; their number is the paper's relation count.
  relations: tuple[Relation, ...]
  gold: Gold  # the answer as data, of the class `GOLDS_BY_TASK[task]`
  distance: Distance  # distance between the periods of the relations
  explanation: str  # facts, relations as 'entity-dynasty', conclusion
  split: str  # one of `SPLITS`
  # Whether it counts among the 8,700 of the paper's types; the other 50 count
  # only by number of relations.
  listed: bool
  provenance: tuple[str, ...]  # sources of the facts
  checker_version: str  # version of the checker that recomputed the gold


class Theme(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
  """Theme of the game: ten items, of which item k stands for period k."""

  name: str
  low: str  # meaning of the earliest item (最小)
  high: str  # meaning of the latest item (最大)
  items: tuple[str, ...]  # in order, one for each period
  # Rising figures that justify the order, in `unit`.
  measures: tuple[float, ...]
  unit: str  # unit of the measures
  source: str  # authorities for the measures; `chosen` are usual ones of ours


class ItoInstance(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
  """Game: one entity for each player, no two of one period."""

  instance_id: str  # e.g. `ito-easy-01`.
  level: str  # easy (3 players), medium (4) or hard (5)
  seats: tuple[Relation, ...]  # entity of each player, player 1 first
  ranks: tuple[int, ...]  # true rank of each player, 1 = earliest
  split: str = "test"


Record = TypeVar("Record", bound=msgspec.Struct)


def to_json(record: msgspec.Struct) -> dict[str, Any]:
  """Returns an entity, question, theme or game as a JSON object."""
  return msgspec.to_builtins(record)


def format_json_line(record: msgspec.Struct) -> str:
  """Returns a record as one line of JSON."""
  # Not msgspec.json: its separators would change the bytes of the data sets.
  return json.dumps(to_json(record), ensure_ascii=False)


def question_from_json(data: Mapping[str, Any]) -> Question:
  """Returns the question of `to_json`."""
  return _convert_record(data, Question)


def instance_from_json(data: Mapping[str, Any]) -> ItoInstance:
  """Returns the game of `to_json`; raises as `question_from_json`."""
  return _convert_record(data, ItoInstance)


def theme_from_json(data: Mapping[str, Any]) -> Theme:
  """Returns the theme of `to_json`; raises as `question_from_json`."""
  return _convert_record(data, Theme)


def _convert_record(data: Mapping[str, Any], cls: type[Record]) -> Record:
  try:
    return msgspec.convert(data, cls)
  except msgspec.ValidationError as error:  # which is not a ValueError
    raise ValueError(f"{cls.__name__}: {error}") from None


def compute_gap(first: Relation, second: Relation) -> int:
  """Returns the years between two intervals, 0 if they share a year.

  Positive if the second is later, negative if it is earlier.
  """
  # An open interval is never the earlier of two disjoint ones.
  if first.end is not None and second.start > first.end:
    return periods.count_years_between(first.end, second.start)[0]
  if second.end is not None and first.start > second.end:
    return -periods.count_years_between(second.end, first.start)[0]
  return 0


def sum_tolerances(*relations: Relation) -> int:
  """Returns the possible error in years of a difference of these dates."""
  return sum(TOLERANCE[relation.precision] for relation in relations)


def find_disjoint_pairs(
  relations: Sequence[Relation],
) -> tuple[tuple[str, str], ...]:
  """Returns the names of all pairs that share no year, in the given order."""
  # Pairs are enough: intervals on a line share a point if every two do (Helly).
  return tuple(
    (first.entity, second.entity)
    for first, second in itertools.combinations(relations, 2)
    if compute_gap(first, second)
  )


def intersect_years(relations: Iterable[Relation]) -> tuple[int, int] | None:
  """Returns the first and last year that all share, or None."""
  relations = tuple(relations)
  start = max(relation.start for relation in relations)
  end = min(
    periods.LAST_YEAR if relation.end is None else relation.end
    for relation in relations
  )
  return (start, end) if start <= end else None


def find_anachronisms(
  scene: Relation, candidates: Iterable[Relation]
) -> tuple[Anachronism, ...]:
  """Returns the candidates that share no year with a scene, in their order.

  The reason is `LATER` if the candidate began after the scene, `EARLIER` if it
  ended before.
  """
  anachronisms = []
  for candidate in candidates:
    if years := compute_gap(scene, candidate):
      anachronisms.append(
        Anachronism(candidate.entity, LATER if years > 0 else EARLIER)
      )
  return tuple(anachronisms)


def order_by_start(
  relations: Sequence[Relation],
) -> tuple[tuple[str, ...], ...]:
  """Returns groups of names by first year, earliest first."""
  sorted_relations = sorted(relations, key=lambda relation: relation.start)
  return tuple(
    tuple(relation.entity for relation in tied_relations)
    for _, tied_relations in itertools.groupby(
      sorted_relations, key=lambda r: r.start
    )
  )


def year_at(relation: Relation, point: str) -> int:
  """Returns the first or last year of a relation.

  Raises:
    ValueError: for the last year of an open interval.
  """
  year = relation.start if point == START else relation.end
  if year is None:
    raise ValueError(f"{relation.entity}: has no last year")
  return year


def measure_distance(relations: Sequence[Relation]) -> Distance:
  """Returns the distances in periods, over all pairs of relations."""
  distances = [
    periods.count_periods_between(first.period, second.period)
    for first, second in itertools.combinations(relations, 2)
  ]
  return (
    Distance(min(distances), max(distances)) if distances else Distance(0, 0)
  )
