"""Dates of corrections: read as tables write them, and as questions do.

Axis: K months.
"""

import re
from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool

from ctd_jax.dating.chronicle import written_dates
from ctd_jax.dating.chronicle.calendar import Calendar
from ctd_jax.index.question_calendar import TIME, MonthSpan
from ctd_jax.index.question_reading import QuestionReader
from ctd_jax.utils import notes
from ctd_jax.utils.notes import Note

# Of a date that the grammar of tables lacks, and questions may have.
_UNREAD = ("problem.date.none", "problem.date.doubt", "problem.date.western")
# Questions pass over these; a correction would lose what they say.
_DOUBT = re.compile(r"[?？或]|\bor\b")


def find_months(text: str, calendar: Calendar) -> Bool[np.ndarray, " K"]:
  """Returns the months that a date names, as a table or a question writes it.

  Raises:
    AmbiguousDateError: if months of several reigns are possible.
    ValueError: if the text cannot be read or is outside the calendar.
  """
  try:
    return written_dates.find_months(text, calendar)
  except written_dates.AmbiguousDateError:
    raise
  except ValueError as error:
    problem = notes.of_error(error)
    is_unread = isinstance(problem, Note) and problem.code in _UNREAD
    if not is_unread or _DOUBT.search(text):
      raise
    spans = _find_spans(text, calendar)
    if not spans:
      raise
  is_named = np.zeros(len(calendar), bool)
  for span in spans:
    is_named[span.first : span.last + 1] = True
  return is_named


def _find_spans(text: str, calendar: Calendar) -> Sequence[MonthSpan]:
  """Returns the months of a question that is a time and nothing else."""
  try:
    question = QuestionReader(calendar).read(text)
  except ValueError:
    return ()
  is_whole = question.intent == TIME and not (
    question.words or question.readings or question.works
  )
  # A note says that something was left out or taken for granted. A day is finer
  # than a correction.
  is_plain = question.day is None and all(
    note.code == "note.question.read_as" for note in question.notes
  )
  return question.intervals if is_whole and is_plain else ()
