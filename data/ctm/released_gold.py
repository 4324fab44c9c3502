"""Gold of the authors' questions, read from the text of their answers.

Rules grade against data, so the text is parsed. An answer in another form than
that of its type has no gold and is graded as free text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, Any, TypeAlias

import msgspec

from ctd_jax_datasets.ctm import intervals, period_names, periods
from ctd_jax_datasets.ctm.entities import Relation
from ctd_jax_datasets.ctm.golds import (
  Anachronism,
  AnachronismGold,
  Gold,
  LabelGold,
  NamesGold,
  OptionGold,
  OrderGold,
  PolarityGold,
  YearsGold,
)
from ctd_jax_datasets.ctm.vocabulary import (
  EDD,
  EEU,
  LATER,
  LSEC,
  PJ,
  RR,
  SEC,
  START,
  TES,
  TIC,
  TOU,
)

Relations: TypeAlias = Sequence[Relation]
# Every option must have a text: 「A. 李白 B. 苏轼」.
_OPTION_PATTERN = re.compile(
  r"([A-D])\s*[.．、:：]\s*([^A-D]+?)(?=\s*[A-D]\s*[.．、:：]|$)"
)
_YEARS_PATTERN = re.compile(r"(\d+)\s*年")


NonEmptyText = Annotated[str, msgspec.Meta(min_length=1)]


class ReleasedRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
  """Record of the authors' files; the names of the fields are theirs.

  Attributes:
    type: Chinese name of the task.
    question: text.
    temporal_entities: entities, written 'name-dynasty' or 'name'.
    construct_explanation: explanation of the answer.
    answer: reference answer.
  """

  type: NonEmptyText
  question: NonEmptyText
  temporal_entities: tuple[NonEmptyText, ...]
  construct_explanation: NonEmptyText
  answer: NonEmptyText


def read_gold(
  task: str, record: ReleasedRecord, relations: Relations
) -> Gold | None:
  """Returns the gold that can be read from an answer, None if none can.

  Args:
    task: code of the task.
    record: record of the authors' files.
    relations: relations of the record.
  """
  return _READERS[task](record.answer.strip(), record, relations)


def _read_label(answer: str, *_: Any) -> Gold | None:
  labels = period_names.find_period_labels(answer)
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
    anachronisms=intervals.find_anachronisms(scene, named_relations)
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
