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
from ctd_jax_datasets.chunqiutr.findings import (
  DROPPED,
  NOTE,
  RESOLVED,
  CodeMeaning,
)
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
_EDD_TYPE_PATTERN = re.compile("根据.+确定.*朝代")
_MEANINGS = {
  "type_unknown": CodeMeaning(RESOLVED, "no known type; graded as free text"),
  "no_label": CodeMeaning(
    NOTE, "an entity without a period one of the ten holds"
  ),
  "not_in_tables": CodeMeaning(
    NOTE, "an entity our tables do not have; its years are those of the period"
  ),
  "gold_unread": CodeMeaning(
    RESOLVED, "the answer has another form than its type; graded as free text"
  ),
  "repeated": CodeMeaning(DROPPED, "the same question a second time"),
}


def read_released_questions(
  folder: str | os.PathLike,
) -> tuple[list[Question], findings.FindingsReport]:
  """Returns the questions of a folder of JSON files, and what is odd in them.

  Args:
    folder: holds `*.json` (a list of records) or `*.jsonl` (one per line).

  Raises:
    SourceError: naming file, record and field of what cannot be used.
  """
  directory = pathlib.Path(folder).expanduser()
  paths = sorted([*directory.glob("*.json"), *directory.glob("*.jsonl")])
  if not paths:
    raise SourceError(
      f"--sources={folder}: no *.json or *.jsonl there; name the folder of "
      "the authors' questions"
    )
  report = findings.FindingsReport(_MEANINGS)
  reader = _QuestionReader(report)
  questions: dict[str, Question] = {}
  for path in paths:
    for number, record in enumerate(_read_records(path), start=1):
      location = f"{path.name}, record {number}"
      _check_record(location, record)
      if record["question"] in questions:
        report.add("repeated", location, record["question"])
        continue
      questions[record["question"]] = reader.make_question(
        location, len(questions), record
      )
  report.facts["questions"] = len(questions)
  return list(questions.values()), report


def _read_records(path: pathlib.Path) -> list[Any]:
  """Returns the records of a file."""
  text = path.read_text(encoding="utf-8-sig")
  try:
    if path.suffix == ".jsonl":
      return [json.loads(line) for line in text.splitlines() if line.strip()]
    records = json.loads(text)
  except json.JSONDecodeError as error:
    raise SourceError(f"{path}: no JSON: {error}") from None
  if not isinstance(records, list):
    raise SourceError(f"{path}: should be a list of records")
  return records


def _check_record(location: str, record: Any) -> None:
  """Raises SourceError unless a record has the five fields and no others."""
  if not isinstance(record, dict):
    raise SourceError(
      f"{location}: should be an object with {', '.join(FIELDS)}"
    )
  if unknown_fields := sorted(set(record) - set(FIELDS)):
    raise SourceError(
      f"{location}: field {unknown_fields[0]!r} is unknown; there are {', '.join(FIELDS)}"
    )
  for field in FIELDS:
    value = record.get(field)
    is_list_field = field == "temporal_entities"
    members = value if is_list_field and isinstance(value, list) else [value]
    if is_list_field != isinstance(value, list) or not all(
      isinstance(member, str) and member for member in members
    ):
      kind = "a list of texts" if is_list_field else "a text"
      raise SourceError(f"{location}: field {field!r} should be {kind}")


class _QuestionReader:
  """Makes questions of records.

  Args:
    report: of what is odd.
  """

  def __init__(self, report: findings.FindingsReport):
    self._report = report
    self._entities_by_name = repository.index_by_name(
      repository.load_entities()
    )

  def make_question(
    self, location: str, number: int, record: Mapping[str, Any]
  ) -> Question:
    """Returns the question of a record that has been checked."""
    task = EDD if _EDD_TYPE_PATTERN.fullmatch(record["type"]) else None
    task = task or _TASKS.get(record["type"])
    relations = tuple(
      self._make_relation(location, text)
      for text in record["temporal_entities"]
    )
    gold: Gold | None = None
    if task is None:
      self._report.add("type_unknown", location, record["type"])
    else:
      gold = released_gold.read_gold(task, record, relations)
      if gold is None:
        self._report.add("gold_unread", location, record["answer"])
    return Question(
      question_id=f"released-{number:05d}",
      task=task or RR,
      type=record["type"],
      rule="released",
      question=record["question"],
      answer=record["answer"],
      relations=relations,
      gold=gold or NamesGold((record["answer"],), ((),)),
      distance=intervals.measure_distance(relations),
      explanation=record["construct_explanation"],
      split=SPLIT,
      listed=task is not None,
      provenance=(location,),
      checker_version=CHECKER,
    )

  def _make_relation(self, location: str, text: str) -> Relation:
    """Returns the relation of an entity, written 'name-dynasty' or 'name'."""
    name, _, dynasty = text.rpartition("-")
    name = name or text
    labels = {
      label for alias in periods.find_aliases(dynasty) for label in alias.labels
    }
    candidates = self._entities_by_name.get(name, ())
    if not labels and len(candidates) == 1 and candidates[0].periods:
      labels = {candidates[0].periods[0]}
    if len(labels) != 1:
      self._report.add("no_label", location, text)
    label = next(iter(periods.sort_labels(labels)), periods.LABELS[0])
    record = next(
      (candidate for candidate in candidates if label in candidate.periods),
      None,
    )
    if record is None or not record.intervals:
      self._report.add("not_in_tables", location, text)
      span = periods.get_period(label)
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
