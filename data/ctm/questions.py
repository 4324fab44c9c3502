"""Entities, questions and their gold answers: what all parts of CTM share.

Why: the generator writes them, an independent checker verifies them, the judge
grades against them, the answerers read them. Nothing here computes. Called by
the builder of `ctm` and by everything in `ctd_jax.tasks.ctm`.

Years are as historians write them (-278 = 278 BCE, no year 0), see `periods`.
`None` as an end means that it has lasted since (maize in China).
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any, ClassVar

# Kinds of entities.
FIGURE, RULER, ERA, PLACE = "figure", "ruler", "era", "place"
EVENT, INGREDIENT, HERITAGE = "event", "ingredient", "heritage"
KINDS = (FIGURE, RULER, ERA, PLACE, EVENT, INGREDIENT, HERITAGE)

# Task codes and the type names of the paper. EDD has one name by kind.
EDD, PJ, TOU, RR, SEC, EEU, TIC, TES, LSEC = TASKS = (
  "EDD",
  "PJ",
  "TOU",
  "RR",
  "SEC",
  "EEU",
  "TIC",
  "TES",
  "LSEC",
)
TYPE_NAMES = {
  PJ: "合理性判断",
  TOU: "时间顺序理解",
  RR: "关系判断",
  SEC: "穿帮镜头指正",
  EEU: "实体名称变迁",
  TIC: "时间差计算",
  TES: "选出对应时空实体",
  LSEC: "剧本穿帮问题指正_长上下文",
}
EDD_TYPE_NAMES = {
  FIGURE: "根据人物确定所处朝代",
  RULER: "根据君主确定所处朝代",
  ERA: "根据年号确定所处朝代",
  PLACE: "根据地名确定使用朝代",
  EVENT: "根据事件确定发生朝代",
  INGREDIENT: "根据食材确定传入朝代",
  HERITAGE: "根据非遗确定起源朝代",
}
SPLITS = ("train", "validation", "test")

# How exactly a year is known, and how many years it may be off.
EXACT, APPROXIMATE = "year", "about"
TOLERANCE = {EXACT: 0, APPROXIMATE: 10}
# Which year of a relation a question is about.
START, END = "start", "end"


@dataclasses.dataclass(frozen=True)
class YearInterval:
  """When an entity was: a life, a reign, a name in use, an event.

  Attributes:
    start: first year; of what came from abroad, the first attested year.
    end: last year, None if it has lasted since.
    precision: `EXACT` or `ABOUT`, of the less exact end.
    source: authority for the years.
    sense: life, reign, era, use, event or origin.
  """

  start: int
  end: int | None
  precision: str
  source: str
  sense: str


@dataclasses.dataclass(frozen=True)
class Entity:
  """A record of the entity repository.

  Attributes:
    entity_id: e.g. `figure-0001`.
    name: in Simplified script.
    aliases: other names and the spellings in Traditional script.
    kind: one of `KINDS`.
    intervals: the first is the one questions are about.
    periods: labels, the main one first; several for who lived across.
    place: present province, or the city whose name a place is; "" unknown.
    group: entities of one group are in one split.
    evidence: facts a question may state of it, as short phrases.
  """

  entity_id: str
  name: str
  aliases: tuple[str, ...]
  kind: str
  intervals: tuple[YearInterval, ...]
  periods: tuple[str, ...]
  place: str = ""
  group: str = ""
  evidence: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class Relation:
  """An entity and when it was: what a question needs to be known.

  Attributes:
    entity: name as the question writes it.
    kind: of the entity.
    period: its main label.
    start: first year.
    end: last year, None if it has lasted since.
    entity_id: of the entity.
    precision: of the years.
    place: as in `Entity`.
  """

  entity: str
  kind: str
  period: str
  start: int
  end: int | None
  entity_id: str = ""
  precision: str = EXACT
  place: str = ""

  @property
  def label(self) -> str:
    """The form of the paper: 'entity-dynasty'."""
    return f"{self.entity}-{self.period}"


@dataclasses.dataclass(frozen=True)
class LabelGold:
  """EDD: the label, and all that are to be accepted, earliest first."""

  form: ClassVar[str] = "label"
  label: str
  acceptable: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class OrderGold:
  """TOU: names earliest first; those of one group are tied."""

  form: ClassVar[str] = "order"
  groups: tuple[tuple[str, ...], ...]
  by: str = START


@dataclasses.dataclass(frozen=True)
class YearsGold:
  """TIC: a number of years.

  Attributes:
    years: true, without a year 0.
    with_year_zero: as the paper counts; accepted as well.
    tolerance: how far off an answer may be, from the precision of the dates.
    points: `START` or `END` of each relation, in their order.
    steps: years of each step of the chain, true; their sum is `years`.
  """

  form: ClassVar[str] = "years"
  years: int
  with_year_zero: int
  tolerance: int
  points: tuple[str, ...]
  steps: tuple[int, ...]

  @property
  def accepted(self) -> tuple[int, ...]:
    """Both conventions, once where they agree."""
    return tuple(dict.fromkeys((self.years, self.with_year_zero)))


@dataclasses.dataclass(frozen=True)
class OptionGold:
  """TES: the one option of four that fits.

  Attributes:
    options: names, A first.
    periods: all labels of each option.
    correct: index of the right one.
    label: the period it has to fit.
  """

  form: ClassVar[str] = "option"
  options: tuple[str, ...]
  periods: tuple[tuple[str, ...], ...]
  correct: int
  label: str


@dataclasses.dataclass(frozen=True)
class Anachronism:
  """What does not belong in a scene: `later` than it, or `earlier`."""

  entity: str
  reason: str


LATER, EARLIER = "later", "earlier"


@dataclasses.dataclass(frozen=True)
class AnachronismGold:
  """SEC, LSEC: all that does not belong in a scene, in order of mention.

  Attributes:
    scene: name of the relation that sets the scene, the first of them.
    start: first year of the scene.
    end: last year of the scene.
    anachronisms: entities not of that time; the other relations are.
  """

  form: ClassVar[str] = "anachronisms"
  scene: str
  start: int
  end: int
  anachronisms: tuple[Anachronism, ...]

  @property
  def names(self) -> tuple[str, ...]:
    """The entities to be flagged."""
    return tuple(anachronism.entity for anachronism in self.anachronisms)


@dataclasses.dataclass(frozen=True)
class PolarityGold:
  """PJ: whether the scenario is possible; if not, which pairs conflict."""

  form: ClassVar[str] = "polarity"
  possible: bool
  conflicts: tuple[tuple[str, str], ...]


@dataclasses.dataclass(frozen=True)
class NamesGold:
  """EEU, RR: one name, or several in order, each with what else is right.

  Attributes:
    names: the answer's parts in the order asked for.
    aliases: for each part, other spellings and names to be accepted.
  """

  form: ClassVar[str] = "names"
  names: tuple[str, ...]
  aliases: tuple[tuple[str, ...], ...]


Gold = (
  LabelGold
  | OrderGold
  | YearsGold
  | OptionGold
  | AnachronismGold
  | PolarityGold
  | NamesGold
)
_GOLDS_BY_FORM = {gold.form: gold for gold in Gold.__args__}
# Which form of gold a task has.
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


@dataclasses.dataclass(frozen=True)
class Distance:
  """How many periods apart the relations are, over all pairs; 0 if one."""

  nearest: int
  widest: int


@dataclasses.dataclass(frozen=True)
class Question:
  """A question, its answer, and what makes the answer right.

  Attributes:
    question_id: e.g. `edd-00001`.
    task: one of `TASKS`.
    type: its name in the paper.
    rule: which rule computes the gold, finer than the task.
    question: text, in Simplified script.
    answer: reference answer as text.
    relations: that are needed; their number is the paper's relation count.
    gold: the answer as data, of the form `GOLD_OF[task]`.
    distance: of the periods of the relations.
    explanation: facts, relations as 'entity-dynasty', conclusion.
    split: one of `SPLITS`.
    listed: whether it counts among the 8,700 of the paper's types; the other
      50 count only by number of relations.
    provenance: sources of the facts.
    checker_version: of the checker that recomputed the gold.
  """

  question_id: str
  task: str
  type: str
  rule: str
  question: str
  answer: str
  relations: tuple[Relation, ...]
  gold: Gold
  distance: Distance
  explanation: str
  split: str
  listed: bool
  provenance: tuple[str, ...]
  checker_version: str


@dataclasses.dataclass(frozen=True)
class Theme:
  """A theme of the Timeline Ito game: ten items, item k for period k.

  Attributes:
    name: e.g. 水果大小.
    low: what the earliest stands for (最小).
    high: what the latest stands for (最大).
    items: in order, as many as there are periods.
    measures: what the order rests on, in `unit`, rising.
    unit: of the measures.
    source: authority for the measures.
  """

  name: str
  low: str
  high: str
  items: tuple[str, ...]
  measures: tuple[float, ...]
  unit: str
  source: str


@dataclasses.dataclass(frozen=True)
class ItoInstance:
  """A game: one entity for each player, no two of one period.

  Attributes:
    instance_id: e.g. `ito-easy-01`.
    level: easy (3 players), medium (4) or hard (5).
    seats: entity of each player, player 1 first.
    ranks: true rank of each player, 1 = earliest.
    split: always test.
  """

  instance_id: str
  level: str
  seats: tuple[Relation, ...]
  ranks: tuple[int, ...]
  split: str = "test"


def to_json(record: Any) -> dict[str, Any]:
  """Returns an entity, question, theme or game as a JSON object."""
  data = dataclasses.asdict(record)
  if isinstance(record, Question):
    data["gold"] = {"form": record.gold.form, **data["gold"]}
  return data


def format_json_line(record: Any) -> str:
  """Returns a record as one line of JSON."""
  return json.dumps(to_json(record), ensure_ascii=False)


def entity_from_json(data: Mapping[str, Any]) -> Entity:
  """Returns the entity of `to_json`; ValueError names an odd field."""
  return _build_dataclass(Entity, data, intervals=YearInterval)


def question_from_json(data: Mapping[str, Any]) -> Question:
  """Returns the question of `to_json`; ValueError names an odd field."""
  gold = dict(data.get("gold") or {})
  form = gold.pop("form", None)
  if form not in _GOLDS_BY_FORM:
    raise ValueError(
      f"question {data.get('question_id')!r}: gold has form {form!r}; there "
      f"are {', '.join(_GOLDS_BY_FORM)}"
    )
  return _build_dataclass(
    Question,
    {
      **data,
      "gold": _build_dataclass(
        _GOLDS_BY_FORM[form], gold, anachronisms=Anachronism
      ),
      "distance": _build_dataclass(Distance, data.get("distance") or {}),
    },
    relations=Relation,
  )


def instance_from_json(data: Mapping[str, Any]) -> ItoInstance:
  """Returns the game of `to_json`; ValueError names an odd field."""
  return _build_dataclass(ItoInstance, data, seats=Relation)


def theme_from_json(data: Mapping[str, Any]) -> Theme:
  """Returns the theme of `to_json`; ValueError names an odd field."""
  return _build_dataclass(Theme, data)


def _build_dataclass(
  cls: type, data: Mapping[str, Any], **member_classes: type
) -> Any:
  """Returns a dataclass of JSON data, lists as tuples.

  Args:
    cls: the dataclass.
    data: its fields; those with a default may be missing.
    **members: field -> dataclass of its members.

  Raises:
    ValueError: naming fields that are unknown or missing.
  """
  fields = {field.name: field for field in dataclasses.fields(cls)}
  required_fields = {
    name
    for name, field in fields.items()
    if field.default is dataclasses.MISSING
  }
  if unknown := sorted(set(data) - set(fields)):
    raise ValueError(f"{cls.__name__}: no field {', '.join(unknown)}")
  if missing := sorted(required_fields - set(data)):
    raise ValueError(f"{cls.__name__}: field {', '.join(missing)} is missing")
  field_values = {name: _to_tuples(value) for name, value in data.items()}
  for name, member in member_classes.items():
    if name in field_values:
      field_values[name] = tuple(
        _build_dataclass(member, member_data)
        for member_data in field_values[name]
      )
  return cls(**field_values)


def _to_tuples(value: Any) -> Any:
  """Returns lists as tuples, at any depth; objects stay as they are."""
  if isinstance(value, list | tuple):
    return tuple(_to_tuples(member) for member in value)
  return value
