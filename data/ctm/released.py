"""The authors' questions, from JSON files of theirs that a user has.

Why: whoever has the published data should be able to ask them with the same
judge. Their records have five fields and no ids; gold is text, so what is
graded by rule has to be read from it, and what cannot be read is counted.
Called by the builder.

Source: CTM, arXiv 2502.16922, appendix on the data format.
"""

from __future__ import annotations

import json
import os
import pathlib
import re
from collections.abc import Mapping
from typing import Any

from ctd_jax_datasets.chunqiutr import findings
from ctd_jax_datasets.chunqiutr.findings import DROPPED, NOTE, RESOLVED, Meaning
from ctd_jax_datasets.chunqiutr.sources import SourceError
from ctd_jax_datasets.ctm import intervals, periods, released_gold, repository
from ctd_jax_datasets.ctm.questions import (
  EDD,
  FIGURE,
  RR,
  TYPE_NAMES,
  Gold,
  NamesGold,
  Question,
  Relation,
)

FIELDS = (
  "type",
  "question",
  "temporal_entities",
  "construct_explanation",
  "answer",
)
CHECKER = "released"
SPLIT = "test"
_TASKS = {name: task for task, name in TYPE_NAMES.items()}
_EDD = re.compile("根据.+确定.*朝代")
_MEANINGS = {
  "type_unknown": Meaning(RESOLVED, "no known type; graded as free text"),
  "no_label": Meaning(NOTE, "an entity without a period one of the ten holds"),
  "not_in_tables": Meaning(
    NOTE, "an entity our tables do not have; its years are those of the period"
  ),
  "gold_unread": Meaning(
    RESOLVED, "the answer has another form than its type; graded as free text"
  ),
  "repeated": Meaning(DROPPED, "the same question a second time"),
}


def read(folder: str | os.PathLike) -> tuple[list[Question], findings.Report]:
  """Returns the questions of a folder of JSON files, and what is odd in them.

  Args:
    folder: holds `*.json` (a list of records) or `*.jsonl` (one per line).

  Raises:
    SourceError: naming file, record and field of what cannot be used.
  """
  path = pathlib.Path(folder).expanduser()
  names = sorted([*path.glob("*.json"), *path.glob("*.jsonl")])
  if not names:
    raise SourceError(
      f"--sources={folder}: no *.json or *.jsonl there; name the folder of "
      "the authors' questions"
    )
  report = findings.Report(_MEANINGS)
  reader = _Reader(report)
  found: dict[str, Question] = {}
  for name in names:
    for number, record in enumerate(_records(name), start=1):
      place = f"{name.name}, record {number}"
      _check(place, record)
      if record["question"] in found:
        report.add("repeated", place, record["question"])
        continue
      found[record["question"]] = reader.question(place, len(found), record)
  report.facts["questions"] = len(found)
  return list(found.values()), report


def _records(path: pathlib.Path) -> list[Any]:
  """Returns the records of a file."""
  text = path.read_text(encoding="utf-8-sig")
  try:
    if path.suffix == ".jsonl":
      return [json.loads(line) for line in text.splitlines() if line.strip()]
    found = json.loads(text)
  except json.JSONDecodeError as error:
    raise SourceError(f"{path}: no JSON: {error}") from None
  if not isinstance(found, list):
    raise SourceError(f"{path}: should be a list of records")
  return found


def _check(place: str, record: Any) -> None:
  """Raises SourceError unless a record has the five fields and no others."""
  if not isinstance(record, dict):
    raise SourceError(f"{place}: should be an object with {', '.join(FIELDS)}")
  if unknown := sorted(set(record) - set(FIELDS)):
    raise SourceError(
      f"{place}: field {unknown[0]!r} is unknown; there are {', '.join(FIELDS)}"
    )
  for field in FIELDS:
    value = record.get(field)
    listed = field == "temporal_entities"
    members = value if listed and isinstance(value, list) else [value]
    if listed != isinstance(value, list) or not all(
      isinstance(member, str) and member for member in members
    ):
      kind = "a list of texts" if listed else "a text"
      raise SourceError(f"{place}: field {field!r} should be {kind}")


class _Reader:
  """Makes questions of records.

  Args:
    report: of what is odd.
  """

  def __init__(self, report: findings.Report):
    self._report = report
    self._known = repository.by_name(repository.entities())

  def question(
    self, place: str, number: int, record: Mapping[str, Any]
  ) -> Question:
    """Returns the question of a record that has been checked."""
    task = EDD if _EDD.fullmatch(record["type"]) else None
    task = task or _TASKS.get(record["type"])
    relations = tuple(
      self._relation(place, text) for text in record["temporal_entities"]
    )
    gold: Gold | None = None
    if task is None:
      self._report.add("type_unknown", place, record["type"])
    else:
      gold = released_gold.read(task, record, relations)
      if gold is None:
        self._report.add("gold_unread", place, record["answer"])
    return Question(
      question_id=f"released-{number:05d}",
      task=task or RR,
      type=record["type"],
      rule="released",
      question=record["question"],
      answer=record["answer"],
      relations=relations,
      gold=gold or NamesGold((record["answer"],), ((),)),
      distance=intervals.distance(relations),
      explanation=record["construct_explanation"],
      split=SPLIT,
      listed=task is not None,
      provenance=(place,),
      checker_version=CHECKER,
    )

  def _relation(self, place: str, text: str) -> Relation:
    """Returns the relation of an entity, written 'name-dynasty' or 'name'."""
    name, _, dynasty = text.rpartition("-")
    name = name or text
    labels = {
      label for alias in periods.named(dynasty) for label in alias.labels
    }
    known = self._known.get(name, ())
    if not labels and len(known) == 1 and known[0].periods:
      labels = {known[0].periods[0]}
    if len(labels) != 1:
      self._report.add("no_label", place, text)
    label = next(iter(periods.in_order(labels)), periods.LABELS[0])
    record = next((e for e in known if label in e.periods), None)
    if record is None or not record.intervals:
      self._report.add("not_in_tables", place, text)
      span = periods.period(label)
      return Relation(name, FIGURE, label, span.start, span.end)
    years = record.intervals[0]
    return Relation(
      entity=name,
      kind=record.kind,
      period=label,
      start=years.start,
      end=years.end,
      entity_id=record.entity_id,
      precision=years.precision,
      place=record.place,
    )
