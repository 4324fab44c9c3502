"""Questions of the authors' release, read from their JSON files.

The files have no structured gold; it is read from the text of an answer. A
question whose answer cannot be read this way is graded as free text. Entities
get the years of our tables, or those of their period.
"""

import os
import pathlib
import re
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, TypeAlias

import msgspec

from ctd_jax_datasets.common import source_files
from ctd_jax_datasets.common.source_files import SourceError
from ctd_jax_datasets.ctm import periods, repository, schema
from ctd_jax_datasets.ctm.periods import (
  EDD,
  EEU,
  FIGURE,
  LATER,
  LSEC,
  PJ,
  RR,
  SEC,
  START,
  TES,
  TIC,
  TOU,
  TYPE_NAMES,
)
from ctd_jax_datasets.ctm.schema import (
  Anachronism,
  AnachronismGold,
  Gold,
  LabelGold,
  NamesGold,
  OptionGold,
  OrderGold,
  PolarityGold,
  Question,
  Relation,
  YearsGold,
)

Relations: TypeAlias = Sequence[Relation]
# Every option must have a text: 「A. 李白 B. 苏轼」.
_OPTION_PATTERN = re.compile(
  r"([A-D])\s*[.．、:：]\s*([^A-D]+?)(?=\s*[A-D]\s*[.．、:：]|$)"
)
_YEARS_PATTERN = re.compile(r"(\d+)\s*年")


NonEmptyText = Annotated[str, msgspec.Meta(min_length=1)]


class ReleasedRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
  """Record of the authors' files; the names of the fields are theirs."""

  type: NonEmptyText  # Chinese name of the task
  question: NonEmptyText
  # Entities, written 'name-dynasty' or 'name'.
  temporal_entities: tuple[NonEmptyText, ...]
  construct_explanation: NonEmptyText  # explanation of the answer
  answer: NonEmptyText


def read_gold(
  task: str, record: ReleasedRecord, relations: Relations
) -> Gold | None:
  """Returns the gold that can be read from an answer, None if none can."""
  return _READERS[task](record.answer.strip(), record, relations)


def _read_label(answer: str, *_: Any) -> Gold | None:
  labels = periods.find_period_labels(answer)
  return LabelGold(labels[0], labels) if len(labels) == 1 else None


def _read_polarity(answer: str, *_: Any) -> Gold | None:
  if answer[0] not in "是否":
    return None
  return PolarityGold(answer[0] == "是", ())


def _read_order(answer: str, _: Any, relations: Relations) -> Gold | None:
  names = answer.rstrip("。").split("、")
  return OrderGold(tuple((name,) for name in names)) if len(names) > 1 else None


def _read_years(answer: str, _: Any, relations: Relations) -> Gold | None:
  match = _YEARS_PATTERN.search(answer)
  if match is None:
    return None
  stated_years = int(match[1])
  # The text does not say whether it counts a year 0. Across 1 BCE the paper
  # does, so the true number is one less there.
  starts = [relation.start for relation in relations]
  crosses_year_zero = bool(starts) and min(starts) < 0 < max(starts)
  return YearsGold(
    years=stated_years - crosses_year_zero,
    with_year_zero=stated_years,
    tolerance=0,
    points=(START,) * len(relations),
    steps=(),
  )


def _read_option(
  answer: str, record: ReleasedRecord, relations: Relations
) -> Gold | None:
  option_matches = _OPTION_PATTERN.findall(record.question)
  options = tuple(text.strip() for _, text in option_matches)
  matching_options = [
    n for n, text in enumerate(options) if text and text in answer
  ]
  if len(options) != 4 or len(matching_options) != 1:
    return None
  label = relations[0].period if relations else periods.LABELS[0]
  return OptionGold(options, ((),) * len(options), matching_options[0], label)


def _read_anachronisms(
  answer: str, _: Any, relations: Relations
) -> Gold | None:
  named_relations = [
    relation for relation in relations if relation.entity in answer
  ]
  unnamed_relations = [
    relation for relation in relations if relation not in named_relations
  ]
  if not named_relations or not unnamed_relations:
    return None
  # The answer names the anachronisms; the scene is the first other entity.
  scene = unnamed_relations[0]
  return AnachronismGold(
    scene=scene.entity,
    start=scene.start,
    end=periods.LAST_YEAR if scene.end is None else scene.end,
    anachronisms=schema.find_anachronisms(scene, named_relations)
    or tuple(
      Anachronism(relation.entity, LATER) for relation in named_relations
    ),
  )


def _read_names(answer: str, *_: Any) -> Gold:
  return NamesGold((answer,), ((),))


_READERS = {
  EDD: _read_label,
  PJ: _read_polarity,
  TOU: _read_order,
  RR: _read_names,
  SEC: _read_anachronisms,
  EEU: _read_names,
  TIC: _read_years,
  TES: _read_option,
  LSEC: _read_anachronisms,
}


CHECKER = "released"  # in place of the version of a checker
SPLIT = "test"  # the release has no splits; all of it is for evaluation
_TASKS = {name: task for task, name in TYPE_NAMES.items()}
_EDD_TYPE_PATTERN = re.compile("根据.+确定.*朝代")


def read_released_questions(
  folder: str | os.PathLike,
) -> tuple[list[Question], source_files.FileNotes]:
  """Returns the questions in a folder of JSON files, and their oddities.

  Args:
    folder: holds `*.json` (a list of records) or `*.jsonl` (one per line).
  """
  directory = pathlib.Path(folder).expanduser()
  paths = sorted([*directory.glob("*.json"), *directory.glob("*.jsonl")])
  if not paths:
    raise SourceError(
      f"--sources={folder}: no *.json or *.jsonl there; name the folder of "
      "the authors' questions"
    )
  notes = source_files.FileNotes()
  reader = _QuestionReader(notes)
  questions: dict[str, Question] = {}
  for path in paths:
    for location, record in _read_records(path):
      if record.question in questions:
        notes.add(
          location, "the same question a second time; left out", record.question
        )
        continue
      questions[record.question] = reader.make_question(
        location, len(questions), record
      )
  notes.facts["questions"] = len(questions)
  return list(questions.values()), notes


def _read_records(
  path: pathlib.Path,
) -> Iterator[tuple[str, ReleasedRecord]]:
  """Yields (location, record) of a file."""
  text = path.read_text(encoding="utf-8-sig")  # some files have a BOM
  if path.suffix == ".jsonl":
    lines = enumerate(text.splitlines(), start=1)
    objects = [
      (_decode_json(f"{path}:{number}", line))
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
  """Reader of records, which shares an index of entities and the notes."""

  def __init__(self, notes: source_files.FileNotes):
    self._notes = notes
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
      self._notes.add(
        location, "no known type; graded as free text", record.type
      )
    else:
      gold = read_gold(task, record, relations)
      if gold is None:
        self._notes.add(
          location,
          "the answer has another form than its type; graded as free text",
          record.answer,
        )
    return Question(
      question_id=f"released-{number:05d}",
      task=task or RR,  # RR is graded by names, i.e. as free text
      type=record.type,
      rule="released",
      question=record.question,
      answer=record.answer,
      relations=relations,
      gold=gold or NamesGold((record.answer,), ((),)),
      distance=schema.measure_distance(relations),
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
      label for alias in periods.find_aliases(dynasty) for label in alias.labels
    }
    candidates = self._entities_by_name.get(name, ())
    if not labels and len(candidates) == 1 and candidates[0].periods:
      labels = {candidates[0].periods[0]}
    if len(labels) != 1:
      self._notes.add(
        location, "an entity without a period, or with several", text
      )
    label = next(iter(periods.sort_labels(labels)), periods.LABELS[0])
    record = next(
      (candidate for candidate in candidates if label in candidate.periods),
      None,
    )
    # Unknown names get the years of their period.
    if record is None or not record.intervals:
      self._notes.add(
        location,
        "an entity that our tables lack; its years are the period's",
        text,
      )
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
