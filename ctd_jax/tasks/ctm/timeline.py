"""Answerer that reads a timeline of entities, without a model.

It shows how far plain look-up and arithmetic get; compare the score of a model
with that. Its knowledge is a list of entities: with `eras` only names of eras,
besides dynasties and years in the question; with `oracle` the whole entity
table, from which the questions are made, so that only reading is measured.
Without knowledge the answer is the most frequent one of the train split.
"""

from __future__ import annotations

import collections
import dataclasses
import re
import statistics
from collections.abc import Callable, Iterable, Sequence

import msgspec

from ctd_jax.tasks.ctm import replies
from ctd_jax_datasets.ctm import periods, repository, schema
from ctd_jax_datasets.ctm.periods import (
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
)
from ctd_jax_datasets.ctm.schema import Entity, Question, Relation

# 「请从先秦、汉……中选出一个作答」 names all ten periods, not the answer.
_INSTRUCTION_PATTERN = re.compile(r"请从[^。？]*?选出一个作答。?")
_OPTION_PATTERN = re.compile(r"([A-H])[.．、]\s*(.+?)\s*(?=[A-H][.．、]|请|$)")
# Names in a row, separated by 、.
_LIST_PATTERN = re.compile(
  r"[^，。？！：；（）\s、]+(?:、[^，。？！：；（）\s、]+)+"
)
# After a name: its last year is meant.
_LAST_YEAR_PATTERN = re.compile(r"^”?(?:去世|卒|结束|灭亡)")
_NO_ANACHRONISM_ANSWER = "没有穿帮"
_UNKNOWN_ANSWER = "不知道"
_FOLLOWING_LENGTH = 8  # characters after a name that may change its meaning


@dataclasses.dataclass(frozen=True)
class AnswerPrior:
  """Most frequent answers of the train split."""

  label: str  # most frequent label of EDD
  possible: bool  # most frequent polarity of PJ
  years: int  # median of the years of TIC

  @classmethod
  def from_questions(cls, questions: Iterable[Question]) -> AnswerPrior:
    """Returns the prior of some questions.

    Raises:
      ValueError: if a task has no question; the message names all such tasks.
    """
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
class EntityMention:
  """Entity that is named in a question."""

  record: Entity  # record of the entity
  name: str  # name as written, in Simplified script
  following_text: str  # text behind the name

  @property
  def relation(self) -> Relation:
    """The relation of the record, with the name as written."""
    return msgspec.structs.replace(
      repository.make_relation(self.record), entity=self.name
    )


class TimelineAnswerer:
  """Answerer with records of entities and a prior."""

  def __init__(self, entities: Iterable[Entity], prior: AnswerPrior):
    """Indexes the records.

    Args:
      entities: known entities; those without years are ignored.
    """
    self._prior = prior
    self._records = [e for e in entities if e.intervals and e.periods]
    # Names of one character are more often ordinary words.
    self._by_name = {
      replies.to_simplified(name): records
      for name, records in repository.index_by_name(self._records).items()
      if len(name) > 1
    }
    self._name_pattern = replies.compile_name_pattern(self._by_name)
    self._rules: dict[str, Callable[[str], str]] = {
      EDD: self._answer_label,
      TES: self._answer_option,
      PJ: self._answer_possible,
      TOU: self._answer_order,
      TIC: self._answer_years,
      SEC: self._answer_anachronisms,
      LSEC: self._answer_anachronisms,
      RR: self._answer_relation,
      EEU: self._answer_renamed,
    }

  def answer(self, question: Question) -> str:
    """Returns the answer to a question, which depends on its text alone."""
    text = replies.to_simplified(
      _INSTRUCTION_PATTERN.sub("", question.question)
    )
    return self._rules[question.task](text)

  def _find_mentions(self, text: str) -> list[EntityMention]:
    """Returns the entities in a text, in order of their first mention."""
    mentions: dict[str, EntityMention] = {}
    for match in self._name_pattern.finditer(text):
      name = match[0]
      following_text = text[match.end() : match.end() + _FOLLOWING_LENGTH]
      # Of homonyms the first record is taken.
      mentions.setdefault(
        name, EntityMention(self._by_name[name][0], name, following_text)
      )
    return list(mentions.values())

  def _answer_label(self, text: str) -> str:
    """EDD: the main period of the entity, or the dynasty in the text."""
    mentions = self._find_mentions(text)
    # Of several labels none can be chosen, so the prior answers.
    labels = (
      [mentions[0].record.periods[0]]
      if mentions
      else periods.find_period_labels(text)
    )
    return labels[0] if len(labels) == 1 else self._prior.label

  def _answer_option(self, text: str) -> str:
    """TES: an option of the most frequent period of the other names."""
    first_option = _OPTION_PATTERN.search(text)
    if first_option is None:
      return _NO_ANACHRONISM_ANSWER
    context_mentions = self._find_mentions(text[: first_option.start()])
    labels = collections.Counter(
      mention.record.periods[0] for mention in context_mentions
    )
    labels.update(periods.find_period_labels(text[: first_option.start()]))
    options = [match[2] for match in _OPTION_PATTERN.finditer(text)]
    # The company may have lived in several periods; most agree on the one.
    for label, _ in labels.most_common():
      for option in options:
        if any(
          label in mention.record.periods
          for mention in self._find_mentions(option)
        ):
          return option
    return options[0]

  def _read_scene(self, text: str) -> list[Relation]:
    """Returns the relations of a scene; events stay open, cf. `scenes`."""
    return [
      msgspec.structs.replace(mention.relation, end=None)
      if mention.record.kind == EVENT
      else mention.relation
      for mention in self._find_mentions(text)
    ]

  def _answer_possible(self, text: str) -> str:
    """PJ: whether all entities share a year, else the first conflict."""
    relations = self._read_scene(text)
    pairs = schema.find_disjoint_pairs(relations)
    if pairs:
      periods_by_name = {r.entity: r.period for r in relations}
      first, second = pairs[0]
      explanation = "，".join(
        f"{name}是{periods_by_name[name]}的" for name in (first, second)
      )
      return f"否。{explanation}，两者不同时。"
    # With one known entity there is nothing to compare.
    return (
      "是。各项在时间上可以同时出现。"
      if len(relations) > 1 or self._prior.possible
      else "否。"
    )

  def _answer_order(self, text: str) -> str:
    """TOU: known entities by first year, then unknown names of the list."""
    relations = [mention.relation for mention in self._find_mentions(text)]
    ordered_names = [
      name
      for tied_names in schema.order_by_start(relations)
      for name in tied_names
    ]
    # Unknown names stay in the order of the question.
    longest_list = max(_LIST_PATTERN.findall(text), key=len, default="")
    unordered_names = [
      name
      for name in re.split("、", longest_list)
      if not any(
        ordered_name in name or name in ordered_name
        for ordered_name in ordered_names
      )
    ]
    return "、".join([*ordered_names, *unordered_names])

  def _answer_years(self, text: str) -> str:
    """TIC: the years along the dates of the entities."""
    points = [
      schema.year_at(
        mention.relation,
        END if _LAST_YEAR_PATTERN.match(mention.following_text) else START,
      )
      for mention in self._find_mentions(text)
      if mention.relation.end is not None
    ]
    if len(points) < 2:
      return f"约{self._prior.years}年"
    return f"约{periods.sum_years_along(points)[0]}年"

  def _answer_anachronisms(self, text: str) -> str:
    """SEC, LSEC: entities that share no year with the first one."""
    relations = self._read_scene(text)
    if not relations:
      return _NO_ANACHRONISM_ANSWER
    # The first name of a scene sets its time, see `scenes` of the generator.
    scene, *candidates = relations
    anachronisms = schema.find_anachronisms(scene, candidates)
    reason_words = {"later": "晚于", "earlier": "早于"}
    lines = [
      f"{number}. {item.entity}{reason_words[item.reason]}所设时代。"
      for number, item in enumerate(anachronisms, start=1)
    ]
    return "\n".join(lines) or _NO_ANACHRONISM_ANSWER

  def _answer_relation(self, text: str) -> str:
    """RR: the wording of the question tells which relation it asks for."""
    mentions = self._find_mentions(text)
    if "籍贯" in text:
      return "、".join(
        mention.record.place or _UNKNOWN_ANSWER for mention in mentions
      )
    if "在位" in text:
      return "、".join(
        self._find_ruler_in(mention.relation.start) for mention in mentions
      )
    if "年号" in text:
      return "、".join(
        self._find_ruler_of(mention.record) for mention in mentions
      )
    relations = [mention.relation for mention in mentions]
    if "谁曾" in text or "哪一位" in text:
      return self._find_contemporary(text, relations)
    if len(relations) != 2:
      return "同时在世"
    years = schema.compute_gap(*relations)
    # A negative gap: the second of them is the earlier one.
    first, second = relations[:: 1 if years > 0 else -1]
    return f"{first.entity}早于{second.entity}" if years else "同时在世"

  def _find_contemporary(self, text: str, relations: Sequence[Relation]) -> str:
    """Returns who shares years with the person behind 「与」."""
    query_relations = [r for r in relations if f"与{r.entity}" in text]
    for relation in relations:
      if (
        query_relations
        and relation not in query_relations
        and not schema.compute_gap(query_relations[0], relation)
      ):
        return relation.entity
    return _UNKNOWN_ANSWER

  def _find_ruler_in(self, year: int) -> str:
    """Returns the ruler in a year; of several the longest reigning one."""
    reigns = [
      (record.intervals[0], record)
      for record in self._records
      if record.kind == RULER
    ]
    reign_lengths = [
      (reign.end - reign.start, record.name)
      for reign, record in reigns
      if reign.end is not None and reign.start < year < reign.end
    ]
    return max(reign_lengths)[1] if reign_lengths else _UNKNOWN_ANSWER

  def _find_ruler_of(self, era: Entity) -> str:
    """Returns the ruler who used an era, by its evidence or its first year."""
    if era.kind == ERA and len(era.evidence) > 1 and era.evidence[1]:
      return era.evidence[1]
    return self._find_ruler_in(era.intervals[0].start)

  def _answer_renamed(self, text: str) -> str:
    """EEU: the names of each city in the periods behind 「在」."""
    names = []
    for clause in text.split("；"):
      place_mentions = [
        mention
        for mention in self._find_mentions(clause)
        if mention.record.kind == PLACE
      ]
      query_labels = periods.find_period_labels(clause.partition("在")[2])
      for label in query_labels if place_mentions else ():
        names.append(self._find_name_of(place_mentions[0].record.place, label))
    return "、".join(names) or _UNKNOWN_ANSWER

  def _find_name_of(self, city: str, label: str) -> str:
    """Returns the name of a city in a period, preferably its main one."""
    records = [
      record
      for record in self._records
      if record.kind == PLACE
      and record.place == city
      and label in record.periods
    ]
    records.sort(key=lambda record: record.periods[0] != label)
    return records[0].name if records else _UNKNOWN_ANSWER
