"""Names of months of records: in the reign that the question names.

A month of divided times has several names; what was asked for as 永嘉五年六月
is answered as that, though a text may print another reign as well.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from ctd_jax.index import calendars
from ctd_jax.index.answers.answer import Answer, AnswerRecord, Span
from ctd_jax.index.questions.question_types import Question

if TYPE_CHECKING:
  from ctd_jax.web.served_index import ServedIndex


def rename_months(
  served: ServedIndex, answer: Answer, question: Question
) -> Answer:
  """Returns an answer, its records' months named as the question names them.

  Args:
    served: the index.
    answer: to the question.
    question: as read.
  """
  reigns = _find_reigns(served, question)
  if not reigns:
    return answer
  calendar = served.index.calendar

  @functools.cache
  def find_name(ordinal: int) -> str | None:
    if ordinal < len(calendar) and not reigns.isdisjoint(
      _list_reigns(served, ordinal)
    ):
      return served.index.name_month(ordinal, reigns)
    return None

  return dataclasses.replace(
    answer,
    results=tuple(
      _rename_record(record, find_name) for record in answer.results
    ),
  )


def _find_reigns(served: ServedIndex, question: Question) -> frozenset[int]:
  """Returns the rows of the reigns that a question names."""
  calendar = served.index.calendar
  return frozenset(
    reign
    for span in question.intervals
    if span.name
    for reign in _list_reigns(served, span.first)
    if calendars.name_month(calendar, span.first, (reign,)).startswith(
      span.name
    )
  )


def _list_reigns(served: ServedIndex, ordinal: int) -> list[int]:
  members = served.index.calendar.memberships
  start, end = np.searchsorted(members.lunations, (ordinal, ordinal + 1))
  return members.reigns[start:end].tolist()


def _rename_record(
  record: AnswerRecord, find_name: Callable[[int], str | None]
) -> AnswerRecord:
  def rename(span: Span) -> Span:
    names = [find_name(month) for month in (span.first, span.last)]
    if None in names:
      return span
    return dataclasses.replace(span, name=" – ".join(dict.fromkeys(names)))

  date = record.date
  name = find_name(date.month["ordinal"])
  return dataclasses.replace(
    record,
    date=dataclasses.replace(
      date,
      month=date.month | {"name": name or date.month["name"]},
      credible_50=tuple(map(rename, date.credible_50)),
      credible_90=tuple(map(rename, date.credible_90)),
    ),
  )
