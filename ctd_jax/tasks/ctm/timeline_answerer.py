"""Answers questions from a timeline, without a model.

Why: the harness has to run end to end where there is no model, and a score of
one means little without what plain look-up and arithmetic reach. What the
answerer knows is given: `eras` reads only names of eras, dynasties and years
in the question; `oracle` has the whole entity table, from which the questions
are made, so it measures reading alone; `chronicles` knows names but has to
find the years in dated texts (`chronicles`). Called by `python -m ctd_jax.tasks.ctm
qa`.

Where nothing is known, the answer is the most frequent one of the train split.
"""

from __future__ import annotations

import collections
import dataclasses
import re
import statistics
from collections.abc import Callable, Iterable, Sequence

from ctd_jax.tasks.ctm import replies
from ctd_jax_datasets.ctm import intervals, periods, repository
from ctd_jax_datasets.ctm.questions import (
  EDD,
  EEU,
  END,
  ERA,
  EVENT,
  LSEC,
  PJ,
  PLACE,
  RR,
  RULER,
  SEC,
  START,
  TES,
  TIC,
  TOU,
  Entity,
  Question,
  Relation,
)

# 「请从先秦、汉……中选出一个作答」 names all periods and tells nothing.
_INSTRUCTION = re.compile(r"请从[^。？]*?选出一个作答。?")
_OPTION = re.compile(r"([A-H])[.．、]\s*(.+?)\s*(?=[A-H][.．、]|请|$)")
_LIST = re.compile(r"[^，。？！：；（）\s、]+(?:、[^，。？！：；（）\s、]+)+")
_LAST_YEAR = re.compile(r"^”?(?:去世|卒|结束|灭亡)")
_NO_ANACHRONISM = "没有穿帮"


@dataclasses.dataclass(frozen=True)
class Prior:
  """The most frequent answers of some questions.

  Attributes:
    label: of EDD.
    possible: of PJ.
    years: median of TIC.
  """

  label: str
  possible: bool
  years: int

  @classmethod
  def of(cls, questions: Iterable[Question]) -> Prior:
    """Returns the prior of questions that have each of the three tasks."""
    by_task = collections.defaultdict(list)
    for question in questions:
      by_task[question.task].append(question.gold)
    missing = [task for task in (EDD, PJ, TIC) if not by_task[task]]
    if missing:
      raise ValueError(f"no train question of {'、'.join(missing)}")
    return cls(
      collections.Counter(g.label for g in by_task[EDD]).most_common(1)[0][0],
      statistics.mode(gold.possible for gold in by_task[PJ]),
      round(statistics.median(gold.years for gold in by_task[TIC])),
    )


@dataclasses.dataclass(frozen=True)
class Found:
  """An entity in a question.

  Attributes:
    record: what is known of it; None if only its name is.
    name: as written.
    after: what stands behind it.
  """

  record: Entity
  name: str
  after: str

  @property
  def relation(self) -> Relation:
    """The record with the name as written."""
    made = repository.relation(self.record)
    return dataclasses.replace(made, entity=self.name)


class TimelineAnswerer:
  """Answers from records of entities and a prior."""

  def __init__(self, entities: Iterable[Entity], prior: Prior):
    """Indexes the records.

    Args:
      entities: what is known; those without years are of no use.
      prior: for what is not.
    """
    self._prior = prior
    self._records = [e for e in entities if e.intervals and e.periods]
    self._ids = {record.entity_id for record in self._records}
    # Names of one character are words of their own more often than not.
    self._by_name = {
      replies.simplified(name): records
      for name, records in repository.by_name(self._records).items()
      if len(name) > 1
    }
    self._finder = replies.finder(self._by_name)
    self._rules: dict[str, Callable[[str], str]] = {
      EDD: self._label,
      TES: self._option,
      PJ: self._possible,
      TOU: self._order,
      TIC: self._years,
      SEC: self._anachronisms,
      LSEC: self._anachronisms,
      RR: self._relation,
      EEU: self._renamed,
    }

  def answer(self, question: Question) -> str:
    """Returns the answer to a question, read from its text alone."""
    text = replies.simplified(_INSTRUCTION.sub("", question.question))
    return self._rules[question.task](text)

  def knows(self, question: Question) -> bool:
    """Whether every entity that a question is about has a record here."""
    return all(each.entity_id in self._ids for each in question.relations)

  def _find(self, text: str) -> list[Found]:
    """Returns the entities named in a text, in order, each once."""
    found: dict[str, Found] = {}
    for match in self._finder.finditer(text):
      name = match[0]
      after = text[match.end() : match.end() + 8]
      found.setdefault(name, Found(self._by_name[name][0], name, after))
    return list(found.values())

  def _label(self, text: str) -> str:
    found = self._find(text)
    labels = [found[0].record.periods[0]] if found else periods.labels_in(text)
    return labels[0] if len(labels) == 1 else self._prior.label

  def _option(self, text: str) -> str:
    first = _OPTION.search(text)
    if first is None:
      return _NO_ANACHRONISM
    company = self._find(text[: first.start()])
    labels = collections.Counter(f.record.periods[0] for f in company)
    labels.update(periods.labels_in(text[: first.start()]))
    options = [match[2] for match in _OPTION.finditer(text)]
    for label, _ in labels.most_common():
      for option in options:
        if any(label in f.record.periods for f in self._find(option)):
          return option
    return options[0]

  def _scene(self, text: str) -> list[Relation]:
    """Returns what a scene names; events can be talked of ever since."""
    return [
      dataclasses.replace(f.relation, end=None)
      if f.record.kind == EVENT
      else f.relation
      for f in self._find(text)
    ]

  def _possible(self, text: str) -> str:
    relations = self._scene(text)
    pairs = intervals.disjoint_pairs(relations)
    if pairs:
      told = {r.entity: r.period for r in relations}
      first, second = pairs[0]
      apart = "，".join(f"{name}是{told[name]}的" for name in (first, second))
      return f"否。{apart}，两者不同时。"
    known = len(relations) > 1 or self._prior.possible
    return "是。各项在时间上可以同时出现。" if known else "否。"

  def _order(self, text: str) -> str:
    relations = [found.relation for found in self._find(text)]
    known = [name for tied in intervals.order(relations) for name in tied]
    listed = max(_LIST.findall(text), key=len, default="")
    rest = [
      name
      for name in re.split("、", listed)
      if not any(one in name or name in one for one in known)
    ]
    return "、".join([*known, *rest])

  def _years(self, text: str) -> str:
    points = [
      intervals.year_at(f.relation, END if _LAST_YEAR.match(f.after) else START)
      for f in self._find(text)
      if f.relation.end is not None
    ]
    if len(points) < 2:
      return f"约{self._prior.years}年"
    return f"约{periods.years_along(points)[0]}年"

  def _anachronisms(self, text: str) -> str:
    relations = self._scene(text)
    if not relations:
      return _NO_ANACHRONISM
    scene, *others = relations
    found = intervals.anachronisms(scene, others)
    sides = {"later": "晚于", "earlier": "早于"}
    return (
      "\n".join(
        f"{number}. {wrong.entity}{sides[wrong.reason]}所设时代。"
        for number, wrong in enumerate(found, start=1)
      )
      or _NO_ANACHRONISM
    )

  def _relation(self, text: str) -> str:
    found = self._find(text)
    if "籍贯" in text:
      return "、".join(f.record.place or "不知道" for f in found)
    if "在位" in text:
      return "、".join(self._ruler_in(f.relation.start) for f in found)
    if "年号" in text:
      return "、".join(self._ruler_of(f.record) for f in found)
    relations = [f.relation for f in found]
    if "谁曾" in text or "哪一位" in text:
      return self._contemporary(text, relations)
    if len(relations) != 2:
      return "同时在世"
    years = intervals.gap(*relations)
    first, second = relations[:: 1 if years > 0 else -1]
    return f"{first.entity}早于{second.entity}" if years else "同时在世"

  def _contemporary(self, text: str, relations: Sequence[Relation]) -> str:
    """Returns who of several shares years with the one 「与」 stands before."""
    stems = [r for r in relations if f"与{r.entity}" in text]
    for one in relations:
      if stems and one not in stems and not intervals.gap(stems[0], one):
        return one.entity
    return "不知道"

  def _ruler_in(self, year: int) -> str:
    """Returns who reigned in a year, longest of all if there were several."""
    reigns = [
      (record.intervals[0], record)
      for record in self._records
      if record.kind == RULER
    ]
    there = [
      (years.end - years.start, record.name)
      for years, record in reigns
      if years.end is not None and years.start < year < years.end
    ]
    return max(there)[1] if there else "不知道"

  def _ruler_of(self, era: Entity) -> str:
    """Returns who used an era."""
    if era.kind == ERA and len(era.evidence) > 1 and era.evidence[1]:
      return era.evidence[1]
    return self._ruler_in(era.intervals[0].start)

  def _renamed(self, text: str) -> str:
    """Returns what each city was called in the periods asked for."""
    names = []
    for part in text.split("；"):
      known = [f for f in self._find(part) if f.record.kind == PLACE]
      asked = periods.labels_in(part.partition("在")[2])
      for label in asked if known else ():
        names.append(self._name_of(known[0].record.place, label))
    return "、".join(names) or "不知道"

  def _name_of(self, city: str, label: str) -> str:
    """Returns the name that a city had mainly in a period."""
    fitting = [
      record
      for record in self._records
      if record.kind == PLACE
      and record.place == city
      and label in record.periods
    ]
    fitting.sort(key=lambda record: record.periods[0] != label)
    return fitting[0].name if fitting else "不知道"
