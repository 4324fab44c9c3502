"""Questions of the authors' release, read from their JSON files.

The release has records of five fields without ids, and its gold is text. Gold
that rules can grade is read from the answer (`released_gold`); answers that
cannot be read are counted in the findings and graded as free text.

Source: CTM, arXiv 2502.16922, appendix on the data format.
"""

from __future__ import annotations

import os
import pathlib
import re
from collections.abc import Iterator
from typing import Any

import msgspec

from ctd_jax_datasets.common import findings
from ctd_jax_datasets.common.errors import SourceError
from ctd_jax_datasets.common.findings import (
  DROPPED,
  NOTE,
  RESOLVED,
  CodeMeaning,
)
from ctd_jax_datasets.ctm import (
  intervals,
  period_names,
  periods,
  released_gold,
  repository,
)
from ctd_jax_datasets.ctm.entities import Relation
from ctd_jax_datasets.ctm.golds import Gold, NamesGold
from ctd_jax_datasets.ctm.questions import Question
from ctd_jax_datasets.ctm.released_gold import ReleasedRecord
from ctd_jax_datasets.ctm.vocabulary import EDD, FIGURE, RR, TYPE_NAMES

CHECKER = "released"  # in place of the version of a checker
SPLIT = "test"  # the release has no splits; all of it is for evaluation
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
  """Returns the questions of a folder of JSON files, and the findings.

  Args:
    folder: holds `*.json` (a list of records) or `*.jsonl` (one per line).

  Raises:
    SourceError: naming file, record or line, and field at fault.
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
    for location, record in _read_records(path):
      if record.question in questions:
        report.add("repeated", location, record.question)
        continue
      questions[record.question] = reader.make_question(
        location, len(questions), record
      )
  report.facts["questions"] = len(questions)
  return list(questions.values()), report


def _read_records(
  path: pathlib.Path,
) -> Iterator[tuple[str, ReleasedRecord]]:
  """Yields (location, record) of a file."""
  text = path.read_text(encoding="utf-8-sig")  # some files have a BOM
  if path.suffix == ".jsonl":
    lines = enumerate(text.splitlines(), start=1)
    objects = [
      (_decode_json(f"{path}, line {number}", line))
      for number, line in lines
      if line.strip()
    ]
  else:
    objects = _decode_json(str(path), text)
    if not isinstance(objects, list):
      raise SourceError(f"{path}: should be a list of records")
  for number, fields in enumerate(objects, start=1):
    location = f"{path.name}, record {number}"
    try:
      yield location, msgspec.convert(fields, ReleasedRecord)
    except msgspec.ValidationError as error:
      raise SourceError(f"{location}: {error}") from None


def _decode_json(location: str, text: str) -> Any:
  try:
    return msgspec.json.decode(text)
  except msgspec.DecodeError as error:
    raise SourceError(f"{location}: no JSON: {error}") from None


class _QuestionReader:
  """Reader of records, which shares an index of entities and a report."""

  def __init__(self, report: findings.FindingsReport):
    self._report = report
    self._entities_by_name = repository.index_by_name(
      repository.load_entities()
    )

  def make_question(
    self, location: str, number: int, record: ReleasedRecord
  ) -> Question:
    """Returns the question of a record."""
    task = EDD if _EDD_TYPE_PATTERN.fullmatch(record.type) else None
    task = task or _TASKS.get(record.type)
    relations = tuple(
      self._make_relation(location, text) for text in record.temporal_entities
    )
    gold: Gold | None = None
    if task is None:
      self._report.add("type_unknown", location, record.type)
    else:
      gold = released_gold.read_gold(task, record, relations)
      if gold is None:
        self._report.add("gold_unread", location, record.answer)
    return Question(
      question_id=f"released-{number:05d}",
      task=task or RR,  # RR is graded by names, i.e. as free text
      type=record.type,
      rule="released",
      question=record.question,
      answer=record.answer,
      relations=relations,
      gold=gold or NamesGold((record.answer,), ((),)),
      distance=intervals.measure_distance(relations),
      explanation=record.construct_explanation,
      split=SPLIT,
      listed=task is not None,
      provenance=(location,),
      checker_version=CHECKER,
    )

  def _make_relation(self, location: str, text: str) -> Relation:
    """Returns the relation of an entity, written 'name-dynasty' or 'name'."""
    name, _, dynasty = text.rpartition("-")
    name = name or text
    # The dynasty may be a finer name: 「李白-盛唐」.
    labels = {
      label
      for alias in period_names.find_aliases(dynasty)
      for label in alias.labels
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
    # Unknown names get the years of their period.
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
