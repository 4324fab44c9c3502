"""Narrowing of a long calendar to the years that a chronicle can be of.

Two thousand years of three countries are a calendar of 27,000 months, of which
a chronicle covers a few hundred. A first decoder reads only what the text
prints of its years, on one place for each year; months of the years that it
rules out are left out of the calendar. A text that names no year keeps all of
them.

Axes: Y years, K months, P = Y + 1 places: the years and, last, outside of the
calendar; B sections of a block.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Bool, Float32

from ctd_jax.dating.chronicle import emissions
from ctd_jax.dating.chronicle.month_calendar import Calendar
from ctd_jax.dating.chronicle.printed_dates import DateStatement
from ctd_jax.dating.chronicle.sections import Section
from ctd_jax.dating.sequence import (
  decoder,
  section_kinds,
  transition_model,
  transitions,
)

# A calendar up to this long costs less than its narrowing saves.
MIN_MONTHS = 3000
_YEAR_STATEMENTS = ("year", "common year", "cycle", "era", "unknown era")
# A year stays if it is at least so probable for one section.
_MIN_PROBABILITY = 1e-4
# Years before and after one that stays: a day or a month may say so.
_MARGIN = 2
# The same before the first section that names a year, and after the last: at
# least so many, and one for each date there, as each may open a year.
_END_MARGIN = 60
_DATED_KINDS = (section_kinds.MONTH, section_kinds.SEASON, section_kinds.YEAR)
# From year to year: what opens with a season is of the next year at times.
_YEAR_MODEL = transition_model.TransitionModel(
  rest=(0.9989, 0.99, 0.96, 0.7, 0.02, 0.1, 0.5, 0.96, 0.1),
  slip=(0.0,) * section_kinds.NUM_KINDS,
  ratio=(0.5, 0.5, 0.5, 0.3, 0.5, 0.9, 0.5, 0.5, 0.9),
  # Thousands of sections without a year must not add up to any year.
  jump=(1e-7, 1e-7, 1e-6, 1e-5, 1e-3, 0.2, 0.01, 1e-6, 0.2),
  restart=(1e-8, 1e-8, 1e-7, 1e-6, 1e-5, 1e-2, 1e-4, 1e-7, 1e-2),
  leave=(1e-7, 1e-7, 1e-7, 1e-6, 1e-5, 0.03, 1e-4, 1e-7, 0.03),
  back=(0.0,) * section_kinds.NUM_KINDS,
)


def find_possible_months(
  sections: Sequence[Section],
  calendar: Calendar,
  allowed_months: Mapping[int, Bool[np.ndarray, " K"]],
) -> Bool[np.ndarray, " K"]:
  """Returns which months of the calendar the text can be of.

  Args:
    sections: in order of the text.
    calendar: months that they could stand in.
    allowed_months: number of a section -> the months that it is of, known from
      elsewhere.
  """
  years, first_months = np.unique(calendar.years, return_index=True)
  statements: dict[DateStatement, np.ndarray] = {}
  for section in sections:
    for statement in section.statements:
      if statement[0] in _YEAR_STATEMENTS and statement not in statements:
        by_month = emissions.score_statement(statement, calendar)
        statements[statement] = np.append(
          np.maximum.reduceat(by_month[:-1], first_months), by_month[-1]
        )
  if not statements:
    return np.ones(len(calendar), bool)

  def score_years(start: int, stop: int) -> Float32[np.ndarray, "B P"]:
    rows = np.zeros((stop - start, len(years) + 1), np.float32)
    for row, section in zip(rows, sections[start:stop], strict=True):
      if section.is_of_other_time:
        row[:-1] += emissions.LOG_OTHER_TIME_ODDS
      for statement in section.statements:
        if statement in statements:
          row += statements[statement]
    for index in range(start, stop):
      if index in allowed_months:
        is_allowed = np.logical_or.reduceat(allowed_months[index], first_months)
        row = rows[index - start]
        row[~np.append(is_allowed, False)] += emissions.LOG_FIXED_ODDS
    return rows

  year_indices = np.arange(len(years))
  boundaries = transition_model.Boundaries(
    np.tile(year_indices + 1, (section_kinds.NUM_KINDS, 1)), year_indices
  )
  log_transitions = transitions.make_transitions(_YEAR_MODEL, boundaries)
  naming = [
    index
    for index, section in enumerate(sections)
    if any(statement in statements for statement in section.statements)
  ]
  kinds = np.array([section.kind for section in sections])
  is_dated = np.isin(kinds, _DATED_KINDS)
  is_possible = np.zeros(len(years), bool)
  # The years of the first and of the last of them, and how far from these the
  # text may reach.
  ends = (naming[0], naming[-1])
  is_of_end = np.zeros((2, len(years)), bool)
  margins = np.maximum(
    (is_dated[: ends[0]].sum(), is_dated[ends[1] + 1 :].sum()), _END_MARGIN
  )
  for start, posterior, *_ in decoder.iter_posteriors(
    score_years, kinds, log_transitions
  ):
    is_likely = posterior[:, :-1] >= _MIN_PROBABILITY
    first, last = (max(end - start, 0) for end in (ends[0], ends[1] + 1))
    is_possible |= is_likely[first:last].any(0)
    for is_of_this_end, end in zip(is_of_end, ends, strict=True):
      if start <= end < start + len(posterior):
        is_of_this_end |= is_likely[end - start]
  # What is known from elsewhere stays, likely or not.
  for months in allowed_months.values():
    is_possible |= np.logical_or.reduceat(months, first_months)
  is_near = _widen(is_possible, _MARGIN)
  for is_of_this_end, margin in zip(is_of_end, margins.tolist(), strict=True):
    is_near |= _widen(is_of_this_end, margin)
  if not is_near.any():
    return np.ones(len(calendar), bool)
  return _fill_up(is_near[np.searchsorted(years, calendar.years)])


def _fill_up(is_kept: Bool[np.ndarray, " K"]) -> Bool[np.ndarray, " K"]:
  """Returns the months that are kept, with the nearest others.

  The decoder is compiled for the number of months, which takes longer than to
  date a thousand records. There are eight numbers between two powers of two, so
  that chronicles that are dated one after the other share programs.
  """
  kept, others = np.flatnonzero(is_kept), np.flatnonzero(~is_kept)
  step = 2 ** max(0, (len(kept) - 1).bit_length() - 4)
  following = np.searchsorted(kept, others)
  distances = np.minimum(
    np.abs(others - kept[np.minimum(following, len(kept) - 1)]),
    np.abs(others - kept[np.maximum(following - 1, 0)]),
  )
  nearest = others[np.argsort(distances, kind="stable")]
  is_filled = is_kept.copy()
  is_filled[nearest[: -len(kept) % step]] = True
  return is_filled


def _widen(
  is_kept: Bool[np.ndarray, " Y"], margin: int
) -> Bool[np.ndarray, " Y"]:
  """Returns the years up to `margin` away from those that are kept."""
  return (
    np.convolve(is_kept, np.ones(2 * margin + 1), "full")[
      margin : margin + len(is_kept)
    ]
    > 0
  )
