"""Questions of the authors' release, read from their JSON files.

No gold is guessed. Rules grade a question only if its answer is exactly a label
of its type: one of the ten periods, yes or no, an option, names in order or a
number of years. Other answers are references in free text (`TextGold`), which
only a model can compare with a reply. Periods of entities are those that the
files write; where they write none, none is known.
"""

import collections
import json
import os
import pathlib
import re
import unicodedata
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, TypeAlias

import msgspec

from ctd_jax_datasets.common import source_files
from ctd_jax_datasets.common.source_files import SourceError
from ctd_jax_datasets.ctm import periods, schema
from ctd_jax_datasets.ctm.periods import (
  EDD,
  PJ,
  RR,
  TES,
  TIC,
  TOU,
  TYPE_NAMES,
)
from ctd_jax_datasets.ctm.schema import (
  Gold,
  LabelGold,
  OptionGold,
  OrderGold,
  PolarityGold,
  Question,
  Relation,
  TextGold,
  YearsGold,
)

CHECKER = "released"  # in place of the version of a checker
SPLIT = "test"  # the release has no splits; all of it is for evaluation
UNREADABLE = "no record that can be read; left out"
UNREADABLE_RECORDS = "unreadable records"
BY_RULES = "questions that rules can grade"
BY_MODEL = "questions that only a model can grade"

Relations: TypeAlias = Sequence[Relation]
NonEmptyText = Annotated[str, msgspec.Meta(min_length=1)]


class ReleasedRecord(msgspec.Struct, frozen=True):
  """Record of the authors' files; the names of the fields are theirs."""

  type: NonEmptyText  # Chinese name of the task
  question: NonEmptyText
  answer: NonEmptyText
  # Entities, written 'name-dynasty' or 'name'.
  temporal_entities: tuple[NonEmptyText, ...] = ()
  construct_explanation: str = ""  # explanation of the answer


def read_gold(
  task: str, record: ReleasedRecord, relations: Relations
) -> Gold | None:
  """Returns the gold if the answer is exactly a label, else None."""
  # NFKC makes （Ａ） (A), so one pattern reads both.
  question, answer = (
    unicodedata.normalize("NFKC", text).strip()
    for text in (record.question, record.answer)
  )
  answer = re.sub("^答案[是为:]*", "", answer).strip(" 。.!「」“”")
  return _READERS[task](answer, question, relations) if answer else None


def _read_label(answer: str, *_: Any) -> Gold | None:
  # A finer name (东汉) is a narrower answer than its label.
  labels = [a.name for a in periods.find_aliases(answer) if a.is_label]
  return LabelGold(labels[0], tuple(labels)) if len(labels) == 1 else None


_POLARITIES = {"是": True, "是的": True, "合理": True, "可能": True}
_POLARITIES |= {"否": False, "不是": False, "不合理": False, "不可能": False}


def _read_polarity(answer: str, question: str, _: Relations) -> Gold | None:
  # 「是」 says that a scene is impossible if the question asks what is wrong.
  is_plain = not re.search("不|穿帮|错误|矛盾|问题", question)
  if answer not in _POLARITIES or not is_plain:
    return None
  return PolarityGold(_POLARITIES[answer], ())


def _read_order(answer: str, question: str, _: Relations) -> Gold | None:
  names = re.split(r"\s*(?:[、,;\n→>]|-+>?|—+)\s*", answer)
  # The judge reads lists from early to late.
  is_backward = re.search("倒序|[从由]最?[晚近后]|[晚近]到", question)
  is_plain = len({*names}) == len(names) > 1 and all(
    name and name in question for name in names
  )
  if is_backward or not is_plain:
    return None
  return OrderGold(tuple((name,) for name in names))


def _read_years(answer: str, _: str, relations: Relations) -> Gold | None:
  match = re.fullmatch("(?:相[差隔距])?([0-9]+)年?", answer)
  # 「约」 allows an error that is not stated. Across 1 BCE the paper counts a
  # year 0, so there the number may be one too many.
  labels = {relation.period for relation in relations}
  crosses = labels & {"", *periods.LABELS[:2]} and labels != {periods.LABELS[0]}
  if match is None or not labels or crosses:
    return None
  years = int(match[1])
  return YearsGold(years, years, tolerance=0, points=(), steps=())


_OPTION_MARK = re.compile(
  r"(?<![A-Za-z])(?:\(([A-Ha-h])\)|([A-Ha-h])[).、:\s])\s*"
)


def _find_options(question: str, relations: Relations) -> list[str]:
  """Returns the options of a question, those with letters or plain names."""
  marks = list(_OPTION_MARK.finditer(question))
  if not marks:
    named = {r.entity for r in relations if r.entity in question}
    return sorted(named, key=question.find)
  letters = "".join((mark[1] or mark[2]).upper() for mark in marks)
  if not "ABCDEFGH".startswith(letters):
    return []
  ends = [mark.start() for mark in marks[1:]] + [len(question)]
  return [
    re.split("[\n。;?]", question[mark.end() : end].strip())[0].strip(" ,、")
    for mark, end in zip(marks, ends, strict=True)
  ]


def _read_option(
  answer: str, question: str, relations: Relations
) -> Gold | None:
  options = _find_options(question, relations)
  letter, text = re.fullmatch(
    r"(?:\(?([A-Ha-h])\)?(?:[.、:\s]+|$|(?<=\))))?(.*)", answer, re.DOTALL
  ).groups()
  chosen = {"ABCDEFGH".index(letter.upper())} if letter else set()
  if text:
    chosen.add(options.index(text) if text in options else len(options))
  # A reply may shorten a long option, which no rule would find.
  are_plain = len(options) == len({*options}) > 1 and all(
    re.fullmatch(r"[\w·]{1,12}", option) for option in options
  )
  if (
    not are_plain or len(chosen) != 1 or (place := chosen.pop()) >= len(options)
  ):
    return None
  return OptionGold(tuple(options), ((),) * len(options), place, "")


_READERS = {
  EDD: _read_label,
  PJ: _read_polarity,
  TOU: _read_order,
  TIC: _read_years,
  TES: _read_option,
}


def read_released_questions(
  folder: str | os.PathLike,
) -> tuple[list[Question], source_files.FileNotes]:
  """Returns the questions of a file or folder, and the notes on it.

  A record that cannot be read is noted and left out.

  Args:
    folder: has `*.json` or `*.jsonl` with the authors' records, in a list, one
      per line or inside of other objects.

  Raises:
    SourceError: if there is no file, or no record can be read.
  """
  top = pathlib.Path(folder).expanduser()
  paths = [top] if top.is_file() else sorted(top.rglob("*.json*"))
  notes = source_files.FileNotes()
  questions: dict[ReleasedRecord, Question] = {}
  for path in paths:
    notes.file = str(path.relative_to(top)) if path != top else path.name
    try:
      text = path.read_bytes().decode("utf-8-sig")  # some files have a BOM
    except UnicodeDecodeError:
      notes.add("whole file", UNREADABLE, "it is not in UTF-8")
      continue
    for line, fields in _iterate_objects(text):
      place = f"line {line}"
      try:
        if isinstance(fields, str):
          raise msgspec.ValidationError(fields)
        record = msgspec.convert(fields, ReleasedRecord)
      except msgspec.ValidationError as error:
        notes.add(place, UNREADABLE, error)
        continue
      for name in fields.keys() - {*ReleasedRecord.__struct_fields__}:
        notes.add(place, "a field that is not read", name)
      if record in questions:
        notes.add(place, "the same record a second time; left out")
        continue
      questions[record] = _make_question(notes, place, len(questions), record)
  if not questions:
    raise SourceError(
      f"{folder}: no question of the authors in its *.json and *.jsonl files; "
      f"{' '.join(notes.format_table().split()) if paths else 'it has none'}"
    )
  texts = collections.Counter(record.question for record in questions)
  for record, question in questions.items():
    if texts[record.question] > 1:
      notes.file = ""
      notes.add(
        question.provenance[0], "the same question with another answer; kept"
      )
  _count_questions(notes, list(questions.values()))
  return list(questions.values()), notes


def _count_questions(
  notes: source_files.FileNotes, questions: Sequence[Question]
) -> None:
  """Adds the facts of a reading: questions by type and by who grades them."""
  by_type, by_model = collections.Counter(), collections.Counter()
  for q in questions:
    name = f"{q.task if q.listed else 'no known type:'} {q.type}"
    by_type[name] += 1
    by_model[name] += isinstance(q.gold, TextGold)
  num_texts = by_model.total()
  notes.facts |= {
    "questions": len(questions),
    BY_RULES: len(questions) - num_texts,
    BY_MODEL: num_texts,
    UNREADABLE_RECORDS: notes.count(UNREADABLE),
  }
  for name, number in sorted(by_type.items()):
    notes.facts[name] = number
    if by_model[name]:
      notes.facts[f"{name}, only a model can grade"] = by_model[name]


def _iterate_objects(text: str) -> Iterator[tuple[int, dict[str, Any] | str]]:
  """Yields the line of every object, and the object or what is wrong."""
  decoder, position, last_end = json.JSONDecoder(), 0, 0
  while True:
    start = text.find("{", position)
    gap = text[last_end : start if start >= 0 else len(text)]
    if last_end == position and gap.strip(" \t\r\n,[]}"):
      # The line of the first word, not of the space before it.
      blank = len(gap) - len(gap.lstrip(" \t\r\n,[]}"))
      yield 1 + text.count("\n", 0, last_end + blank), "no JSON object"
    if start < 0:
      return
    line, position = 1 + text.count("\n", 0, start), start + 1
    try:
      fields, end = decoder.raw_decode(text, start)
    except (ValueError, RecursionError) as error:
      yield line, f"no JSON: {getattr(error, 'msg', 'nested too deeply')}"
      continue
    # An object around records: {"data": [...]}.
    if "question" not in fields and "{" in text[position:end]:
      continue
    yield line, fields
    position = last_end = end


def _find_task(type_name: str) -> str | None:
  """Returns the task of a type's name or code, None if it is unknown."""
  text = type_name.strip().partition("_")[0]
  if text == EDD or re.fullmatch("根据.+确定.*朝代", text):
    return EDD
  return next(
    (t for t, n in TYPE_NAMES.items() if text in (t, n.partition("_")[0])), None
  )


def _make_question(
  notes: source_files.FileNotes,
  place: str,
  number: int,
  record: ReleasedRecord,
) -> Question:
  """Returns the question of a record."""
  task = _find_task(record.type)
  relations = tuple(
    _make_relation(notes, place, text) for text in record.temporal_entities
  )
  if task is None:
    notes.add(place, "no known type; only a model grades it", record.type)
  gold = read_gold(task, record, relations) if task in _READERS else None
  if task in _READERS and gold is None:
    notes.add(
      place,
      "the answer is not exactly a label of its type; only a model grades it",
      record.answer,
    )
  is_dated = all(relation.period for relation in relations)
  return Question(
    question_id=f"released-{number:05d}",
    task=task or RR,  # the type of free text; it does not count to its figure
    type=record.type,
    rule=CHECKER,
    question=record.question,
    answer=record.answer,
    relations=relations,
    gold=gold or TextGold(),
    distance=schema.measure_distance(relations if is_dated else ()),
    explanation=record.construct_explanation,
    split=SPLIT,
    listed=task is not None,
    provenance=(source_files.locate(notes.file, place),),
    checker_version=CHECKER,
  )


def _make_relation(
  notes: source_files.FileNotes, place: str, text: str
) -> Relation:
  """Returns the relation of an entity, written 'name-dynasty' or 'name'."""
  match = re.fullmatch(r"(.+?)\s*[-－—–]+\s*([^-－—–]+)", text)
  name, dynasty = match.groups() if match else (text, "")
  # The dynasty may be a finer name: 「李白-盛唐」.
  labels = {
    label for alias in periods.find_aliases(dynasty) for label in alias.labels
  }
  if len(labels) == 1:
    period = periods.get_period(labels.pop())
    return Relation(name, "", period.label, period.start, period.end)
  notes.add(place, "an entity without one of the ten periods", text)
  # Nothing is known: its years are all years.
  return Relation(name, "", "", periods.FIRST_YEAR, periods.LAST_YEAR)
