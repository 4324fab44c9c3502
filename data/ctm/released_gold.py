"""Gold of the authors' questions, read from the text of their answers.

Why: what is graded by rule has to be data; an answer in another form than its
type's is left to be graded as free text. Called by `released`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from ctd_jax_datasets.ctm import intervals, periods
from ctd_jax_datasets.ctm.questions import (
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
  Anachronism,
  AnachronismGold,
  Gold,
  LabelGold,
  NamesGold,
  OptionGold,
  OrderGold,
  PolarityGold,
  Relation,
  YearsGold,
)

Record: TypeAlias = Mapping[str, Any]
Relations: TypeAlias = Sequence[Relation]
_OPTION = re.compile(
  r"([A-D])\s*[.．、:：]\s*([^A-D]+?)(?=\s*[A-D]\s*[.．、:：]|$)"
)
_YEARS = re.compile(r"(\d+)\s*年")


def read(task: str, record: Record, relations: Relations) -> Gold | None:
  """Returns the gold that can be read from an answer, None if none can.

  Args:
    task: its code.
    record: with the fields of the authors' files.
    relations: of the record.
  """
  return _READERS[task](record["answer"].strip(), record, relations)


def _label(answer: str, *_: Any) -> Gold | None:
  labels = periods.labels_in(answer)
  return LabelGold(labels[0], labels) if len(labels) == 1 else None


def _polarity(answer: str, *_: Any) -> Gold | None:
  if answer[0] not in "是否":
    return None
  return PolarityGold(answer[0] == "是", ())


def _order(answer: str, _: Any, relations: Relations) -> Gold | None:
  names = answer.rstrip("。").split("、")
  return OrderGold(tuple((n,) for n in names)) if len(names) > 1 else None


def _years(answer: str, _: Any, relations: Relations) -> Gold | None:
  found = _YEARS.search(answer)
  if found is None:
    return None
  said = int(found[1])
  # Whether it counts a year 0 cannot be seen; one less is what it would be.
  starts = [relation.start for relation in relations]
  crosses = bool(starts) and min(starts) < 0 < max(starts)
  return YearsGold(
    years=said - crosses,
    with_year_zero=said,
    tolerance=0,
    points=(START,) * len(relations),
    steps=(),
  )


def _option(answer: str, record: Record, relations: Relations) -> Gold | None:
  found = _OPTION.findall(record["question"])
  options = tuple(text.strip() for _, text in found)
  fitting = [n for n, text in enumerate(options) if text and text in answer]
  if len(options) != 4 or len(fitting) != 1:
    return None
  label = relations[0].period if relations else periods.LABELS[0]
  return OptionGold(options, ((),) * len(options), fitting[0], label)


def _anachronisms(answer: str, _: Any, relations: Relations) -> Gold | None:
  named = [relation for relation in relations if relation.entity in answer]
  others = [relation for relation in relations if relation not in named]
  if not named or not others:
    return None
  scene = others[0]
  return AnachronismGold(
    scene=scene.entity,
    start=scene.start,
    end=periods.LAST_YEAR if scene.end is None else scene.end,
    anachronisms=intervals.anachronisms(scene, named)
    or tuple(Anachronism(relation.entity, LATER) for relation in named),
  )


def _names(answer: str, *_: Any) -> Gold:
  return NamesGold((answer,), ((),))


_READERS = {
  EDD: _label,
  PJ: _polarity,
  TOU: _order,
  RR: _names,
  SEC: _anachronisms,
  EEU: _names,
  TIC: _years,
  TES: _option,
  LSEC: _anachronisms,
}
