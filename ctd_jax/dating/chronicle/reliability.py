"""Reliability of a chronicle: how far its probabilities are to be believed.

The decoder is sure of a text that moves as its model says. Where entries are
lost or misplaced the same errors come again and again, each counted as evidence
of its own, and the decoder is too sure. Three things are read off the text:

- An entry without a date stands in the month before it, unless its head is
  lost. Where dated entries skip months, heads are lost (`find_rest_chance`).
- Every posterior is raised to a power below 1, which leaves the most probable
  month what it is. Where heads are known to be lost it is wide already, and a
  short text repeats no error often.
- A share of the sections that grows with those that go back against the order
  may be of any month.

Power and share were chosen by the likelihood of the right months of 穀梁傳 and
後漢紀, with years cut, entries left out and entries misplaced:

  python -m tests.benchmarks.chronicle_reliability --texts=guliang,houhanji \
    --sources=DIR --outside=DIR

The odds of rest were set by hand to how often entries without a date of these
texts stand in the month before them.

Axes: N sections, K months, P = K + 1 places; B sections of a block.
"""

from __future__ import annotations

import dataclasses

import numpy as np
from jaxtyping import Float32, Int
from scipy.special import expit

from ctd_jax.dating.sequence import transition_model
from ctd_jax.dating.sequence.section_kinds import (
  DAY,
  MONTH,
  NO_DATE,
  SEASON,
  YEAR,
)
from ctd_jax.dating.sequence.transition_model import (
  Boundaries,
  TransitionModel,
)

# Log odds that an entry without a date stands in the month before it, if no
# dated entry skips a month, and what they lose if all do.
REST_LOG_ODDS, SKIP_SLOPE = 12.6, 17.0
# Share of skips in a text that prints every head, worth so many sections.
_PRIOR_SKIPS, _PRIOR_SECTIONS = 0.4, 20
# Power of the posterior of a long text that has lost no heads.
SHARPNESS = 0.65
# Sections misplaced for each that goes back: as many were moved ahead, and look
# like gaps.
MISPLACED_PER_RETURN = 2.0
_MAX_MISPLACED = 0.3


@dataclasses.dataclass(frozen=True)
class Reliability:
  """Of a text; called with a posterior, it returns one that allows for it.

  Attributes:
    sharpness: power of each probability, 0-1.
    misplaced: probability that a section may be of any month.
  """

  sharpness: float
  misplaced: float

  def __call__(
    self, posterior: Float32[np.ndarray, "B P"]
  ) -> Float32[np.ndarray, "B P"]:
    """Returns the tempered posterior; what is impossible remains so.

    Whether a section is of the calendar at all is left as it is.
    """
    months, outside = posterior[:, :-1], posterior[:, -1:]
    tempered = months**self.sharpness
    is_possible = months > 0
    tiny = np.finfo(np.float32).tiny
    tempered = tempered / np.maximum(tempered.sum(1, keepdims=True), tiny)
    anywhere = is_possible / np.maximum(is_possible.sum(1, keepdims=True), 1)
    mixed = (1 - self.misplaced) * tempered + self.misplaced * anywhere
    inside = months.sum(1, keepdims=True)
    return np.hstack([inside * mixed, outside]).astype(np.float32)


def measure_reliability(
  model: TransitionModel, kinds: Int[np.ndarray, " N"]
) -> Reliability:
  """Returns the reliability of a text, from its fitted model."""
  is_kept = min(model.rest[NO_DATE] / TransitionModel.rest[NO_DATE], 1.0)
  counts = np.bincount(kinds, minlength=len(model.rest))[DAY : YEAR + 1]
  returns = np.add(model.back, model.restart)[DAY : YEAR + 1]
  share = counts @ returns / max(counts.sum(), 1)
  # A short text repeats no error often.
  is_long = len(kinds) / (len(kinds) + _PRIOR_SECTIONS)
  return Reliability(
    sharpness=1 - (1 - SHARPNESS) * is_kept * is_long,
    misplaced=float(min(MISPLACED_PER_RETURN * share, _MAX_MISPLACED)),
  )


def fit_model(
  prior_model: TransitionModel,
  path: Int[np.ndarray, " N"],
  kinds: Int[np.ndarray, " N"],
  boundaries: Boundaries,
) -> TransitionModel:
  """Returns the model that a path shows, entries without a date as others are.

  Args:
    prior_model: what is believed before.
    path: ordinal months of the sections, K for outside of the calendar.
    kinds: of the sections.
    boundaries: of the calendar.
  """
  fitted_model = transition_model.fit_transition_model(
    prior_model, path, kinds, boundaries
  )
  # A path that rests wherever nothing is printed shows but that it believes so.
  rest, ratio = [*fitted_model.rest], [*fitted_model.ratio]
  skips = measure_skips(path, kinds, boundaries)
  rest[NO_DATE] = min(rest[NO_DATE], find_rest_chance(skips))
  ratio[NO_DATE] = prior_model.ratio[NO_DATE]
  return dataclasses.replace(fitted_model, rest=tuple(rest), ratio=tuple(ratio))


def find_rest_chance(skips: float) -> float:
  """Returns how probably an entry without a date stands where it belongs.

  Args:
    skips: share of dated sections that skip a month, from `measure_skips`.
  """
  return float(expit(REST_LOG_ODDS - SKIP_SLOPE * skips))


def measure_skips(
  path: Int[np.ndarray, " N"],
  kinds: Int[np.ndarray, " N"],
  boundaries: Boundaries,
) -> float:
  """Returns the share of months, seasons and years that skip some.

  Args:
    path: ordinal months of the sections, K for outside of the calendar.
    kinds: of the sections.
    boundaries: of the calendar.
  """
  before, after, kinds = path[:-1], path[1:], kinds[1:]
  is_dated = np.isin(kinds, (MONTH, SEASON, YEAR))
  is_dated &= np.maximum(before, after) < len(boundaries.year_start)
  before, after, kinds = before[is_dated], after[is_dated], kinds[is_dated]
  num_skips = (after > boundaries.following[kinds, before]).sum()
  num_skips += _PRIOR_SKIPS * _PRIOR_SECTIONS
  return float(num_skips / (len(kinds) + _PRIOR_SECTIONS))
