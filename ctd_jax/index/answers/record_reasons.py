"""Reasons for the date of a record, where none were kept with it.

What a record prints of its date is read again and scored as the order decoder
scores it, one statement after another; what remains of the log odds is due to
its place in the work, or to the model, and says which neighbours stand there.
So the weights add up to the log odds of the month, less those of a month drawn
at random.

Axes: K months.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Bool, Float
from scipy.special import logsumexp

from ctd_jax.chronology import sexagenary
from ctd_jax.dating.chronicle import emissions, undated_texts
from ctd_jax.dating.chronicle.month_calendar import Calendar
from ctd_jax.dating.chronicle.printed_dates import DAY_STATEMENTS, DateStatement
from ctd_jax.dating.chronicle.sections import Section
from ctd_jax.dating.experts import days as days_lib
from ctd_jax.index import calendars
from ctd_jax.index.answers import answer_phrases
from ctd_jax.index.answers.answer import Span
from ctd_jax.index.storage import database

_MAX_PROBABILITY = 1 - 1e-6  # what is certain has finite log odds
# Before 104 BCE a month has a day in some of the calendars that are possible.
_MAX_LOG_RATIO = 1.5
_MAX_MONTHS = 5  # of those that a reason names
SURE = 0.9  # of a neighbour that is named
_NEAR = 3  # records; how far a neighbour stands that is farther is told
_NAMES_OF_STATEMENTS = {
  "months": "season",
  "doubtful month": "month, which may be one spoken of",
  "leap": "leap month",
  "cycle": "year of the cycle",
  "month day": "day",
}
_MARKS_OF_DAYS = {
  "first day": " as the first day",
  "last day": " as the last day",
}


@dataclasses.dataclass(frozen=True)
class Neighbour:
  """The nearest record before or after another whose month is sure.

  Attributes:
    row: in the index.
    month: the most probable one, by name.
  """

  row: int
  month: str


def find_log_odds(probability: float) -> float:
  """Returns log odds, finite for what is certain."""
  probability = min(max(probability, 1 - _MAX_PROBABILITY), _MAX_PROBABILITY)
  return math.log(probability / (1 - probability))


def explain_record(
  record: database.IndexRecord,
  calendar: Calendar,
  neighbours: Sequence[Neighbour] = (),
  printed_reigns: Sequence[int] = (),
) -> list[dict[str, Any]]:
  """Returns the reasons for the most probable month, as JSON has them.

  Args:
    record: of the index.
    calendar: of the index.
    neighbours: the nearest records of the work that are dated.
    printed_reigns: rows of the reigns that the work names.
  """
  num_months = len(calendar)
  log_odds = find_log_odds(record.best_probability)
  prior = find_log_odds(1 / (num_months + 1))
  if record.start_month is not None or record.best_month >= num_months:
    return [_explain_whole(record, log_odds - prior)]
  reasons = []
  section = undated_texts.read_head(record.text, calendar)
  scores = np.zeros(num_months)
  before = find_log_odds(1 / num_months)
  for statement in section.statements:
    statement_scores = _score_statement(section, statement, calendar)
    scores += statement_scores
    after = _find_month_log_odds(scores, record.best_month)
    reasons.append(
      {
        "expert": _name_expert(statement),
        "weight": after - before,
        "note": _describe_statement(
          record, section, statement, statement_scores, calendar, printed_reigns
        ),
        "spans": [[section.start, section.date_end]],
        "linked": [],
        "months": [],
      }
    )
    before = after
  rest = log_odds - prior - sum(reason["weight"] for reason in reasons)
  reasons.append(_explain_rest(record, rest, neighbours))
  return sorted(reasons, key=lambda reason: -abs(reason["weight"]))


def _explain_whole(
  record: database.IndexRecord, weight: float
) -> dict[str, Any]:
  """Returns the one reason of a record that no text explains."""
  if record.fixed:
    expert, note = "reader", "a reader set the date"
  elif record.start_month is not None:
    expert, note = database.KEYS, "the data set gives the date"
  else:
    expert, note = record.dated_by, "no month of the calendar fits the text"
  return {
    "expert": expert,
    "weight": weight,
    "note": note,
    "spans": [],
    "linked": [],
    "months": [],
  }


def _score_statement(
  section: Section, statement: DateStatement, calendar: Calendar
) -> Float[np.ndarray, " K"]:
  """Returns log p of what is printed, up to a constant."""
  single = dataclasses.replace(section, statements=(statement,))
  by_offset = emissions.SectionEmissions([single], calendar)(0, 1)[0, :, :-1]
  if len(by_offset) == 1:
    return by_offset[0].astype(np.float64)
  log_prior = np.log(days_lib.make_offset_prior())[:, None]
  return logsumexp(by_offset + log_prior, axis=0)


def _find_month_log_odds(scores: Float[np.ndarray, " K"], month: int) -> float:
  others = np.delete(scores, month)
  return float(scores[month] - logsumexp(others)) if len(others) else 0.0


def _name_expert(statement: DateStatement) -> str:
  is_day = statement[0] in (*DAY_STATEMENTS, "month day")
  return "day" if is_day else "printed date"


def _describe_statement(
  record: database.IndexRecord,
  section: Section,
  statement: DateStatement,
  scores: Float[np.ndarray, " K"],
  calendar: Calendar,
  printed_reigns: Sequence[int],
) -> str:
  """Returns a statement in words, and whether the month fits it."""
  is_fitting = scores >= scores.max() - _MAX_LOG_RATIO
  fits = bool(is_fitting[record.best_month])
  if statement[0] in DAY_STATEMENTS:
    return _describe_day(
      record.best_month, statement, is_fitting, calendar, printed_reigns
    )
  printed = record.text[section.start : section.date_end].strip("，。、 　")
  evidence = _NAMES_OF_STATEMENTS.get(
    statement[0], emissions.name_evidence(statement)
  )
  number = int(is_fitting.sum())
  if not fits:
    return (
      f"prints 「{printed}」, whose {evidence} fits not this but {number:,} "
      "other months"
    )
  return (
    f"prints 「{printed}」, whose {evidence} fits this and {number - 1:,} "
    "other months"
  )


def _describe_day(
  month: int,
  statement: DateStatement,
  is_fitting: Bool[np.ndarray, " K"],
  calendar: Calendar,
  printed_reigns: Sequence[int],
) -> str:
  """Returns a day in words, its number in the month, or where it would be."""
  name = sexagenary.format_cyclic_index(int(statement[1]))
  name += _MARKS_OF_DAYS.get(statement[0], "")
  if is_fitting[month]:
    number = _find_day_number(
      month, int(statement[1]), calendar, printed_reigns
    )
    return f"prints {name}, " + (
      f"day {number} of the month" if number else "which the month can have"
    )
  spans = [
    Span(
      first=near,
      last=near,
      name=calendars.name_month(calendar, near, printed_reigns),
    )
    for near in _find_nearest(is_fitting, month)
  ]
  months = answer_phrases.format_spans(spans, _MAX_MONTHS)
  return f"prints {name}, which the month has not; near it, have it: {months}"


def _find_day_number(
  month: int,
  cyclic_day: int,
  calendar: Calendar,
  printed_reigns: Sequence[int],
) -> int | None:
  """Returns which day of a month a sexagenary day is; None if not known."""
  day_spans = calendar.readings.day_spans
  if day_spans is None:
    return None
  reading = calendar.find_reading(month, printed_reigns)
  first, length = day_spans[reading].tolist()
  number = (
    cyclic_day - sexagenary.cyclic_index_of_day(first)
  ) % sexagenary.CYCLE_LENGTH + 1
  return number if number <= length else None


def _find_nearest(is_fitting: np.ndarray, month: int) -> list[int]:
  months = np.flatnonzero(is_fitting)
  nearest = months[np.argsort(np.abs(months - month), kind="stable")]
  return sorted(nearest[:_MAX_MONTHS].tolist())


def _explain_rest(
  record: database.IndexRecord,
  weight: float,
  neighbours: Sequence[Neighbour],
) -> dict[str, Any]:
  """Returns the reason for what the printed date does not explain."""
  note = "wording, citations and parallels, taken together"
  if record.dated_by == database.ORDER:
    note = _describe_order(record, neighbours)
  return {
    "expert": record.dated_by,
    "weight": weight,
    "note": note,
    "spans": [],
    "linked": [other.row for other in neighbours],
    "months": [],
  }


def _describe_order(
  record: database.IndexRecord, neighbours: Sequence[Neighbour]
) -> str:
  """Returns between which sure records a record stands in its work."""
  names = []
  for other in neighbours:
    distance = abs(other.row - record.row)
    side = "before" if other.row < record.row else "after"
    far = f", {distance:,} records {side}" if distance > _NEAR else ""
    names.append(f"{other.month}{far}")
  if len(names) < 2:
    return "its place in the order of the work" + (
      f", {'after' if neighbours[0].row < record.row else 'before'} {names[0]}"
      if names
      else ""
    )
  if names[0] == names[1]:
    return f"stands among records of {names[0]}"
  return f"stands between records of {names[0]}, and of {names[1]}"
