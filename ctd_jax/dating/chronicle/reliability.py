"""Reliability of a chronicle: how far its probabilities are to be believed.

The decoder is sure of a text that moves as its model says. Where entries are
lost or misplaced the same errors come again and again, each counted as evidence
of its own, and the decoder is too sure. Three things are read off the text:

- An entry without a date stands in the month before it, unless its head is
  lost. Where dated entries skip months, heads are lost (`find_rest_chance`).
- Every posterior is raised to a power below 1, which leaves the most probable
  month what it is. Where heads are known to be lost it is wide already, and a
  short text repeats no error often. A text that begins anew moves otherwise
  than the model says, as streams without marks do: the more often, the lower
  the power.
- A share of the sections that grows with those that go back against the order
  may be of any month that fits what they print. A year that is printed goes
  back because the text does: streams do so every year.

The constants were chosen so that the credible months of 穀梁傳, 後漢紀 and both
editions of 左傳 hold the right ones in 87 to 93 %, with years cut and entries
left out or misplaced (docs/results/dating.md).

The odds of rest were set by hand to how often entries without a date of these
texts stand in the month before them.

Axes: N sections, K months, P = K + 1 places; B sections of a block.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np
from jaxtyping import Float32, Int
from scipy.special import expit

from ctd_jax.dating.chronicle.emissions import SectionEmissions
from ctd_jax.dating.sequence import transition_model
from ctd_jax.dating.sequence.section_kinds import (
  MONTH,
  NAMED,
  NO_DATE,
  SEASON,
  STREAM,
  TOLD_MONTH,
  TOLD_YEAR,
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
# From this share of sections that begin anew on, lost heads excuse nothing.
_MANY_RESTARTS, _MIN_SHARPNESS = 0.002, 0.3
_MAX_MISPLACED = 0.3
# Chosen on training chronicles: the power of the posterior of a long text that
# has lost no heads, and what it loses times the share of sections that begin
# anew.
_SHARPNESS, _RESTART_SLOPE = 0.65, 25.0
# Sections misplaced for each that goes back: as many were moved ahead, and look
# like gaps, and of most the move does not show.
_MISPLACED_PER_RETURN = 2.0


@dataclasses.dataclass(frozen=True)
class Reliability:
  """Of a text; called with a posterior, it returns one that allows for it.

  Attributes:
    sharpness: power of each probability, 0-1.
    misplaced: probability that a section may be of any month.
    emissions: log p(section | place) of the sections from one to another,
      [B, S, P] or [B, P]; by these months are weighted where any may be right.
  """

  sharpness: float
  misplaced: float
  emissions: Callable[[int, int], np.ndarray]

  def __call__(
    self, posterior: Float32[np.ndarray, "B P"], start: int
  ) -> Float32[np.ndarray, "B P"]:
    """Returns the tempered posterior; what is impossible remains so.

    Whether a section is of the calendar at all is left as it is.

    Args:
      posterior: of the sections from `start` on.
      start: number of the first.
    """
    months, outside = posterior[:, :-1], posterior[:, -1:]
    tempered = _normalize(months**self.sharpness)
    anywhere = self._weigh_months(start, start + len(months)) * (months > 0)
    mixed = (1 - self.misplaced) * tempered
    mixed += self.misplaced * _normalize(anywhere)
    inside = months.sum(1, keepdims=True)
    return np.hstack([inside * mixed, outside]).astype(np.float32)

  def _weigh_months(self, start: int, stop: int) -> Float32[np.ndarray, "B K"]:
    """Returns how well months fit what sections print, the best one 1."""
    log_p = np.asarray(self.emissions(start, stop), np.float32)[..., :-1]
    if log_p.ndim == 3:  # whichever the offset of the calendar
      log_p = log_p.max(1)
    return np.exp(log_p - log_p.max(1, keepdims=True))


def _normalize(
  weights: Float32[np.ndarray, "B K"],
) -> Float32[np.ndarray, "B K"]:
  """Returns weights with a sum of 1; 0 where all are 0."""
  tiny = np.finfo(np.float32).tiny
  return weights / np.maximum(weights.sum(1, keepdims=True), tiny)


def measure_reliability(
  model: TransitionModel, emissions: SectionEmissions
) -> Reliability:
  """Returns the reliability of a text.

  Args:
    model: fitted to the text.
    emissions: of its sections.
  """
  kinds = emissions.kinds
  counts = np.bincount(kinds, minlength=len(model.rest))
  counts[[NO_DATE, NAMED, STREAM, TOLD_YEAR]] = 0
  num_dated = max(counts.sum(), 1)
  restarts = float(counts @ model.restart / num_dated)
  counts[YEAR] = 0
  returns = restarts + float(counts @ model.back / num_dated)
  # Where heads are lost the posterior is wide, unless the text begins anew.
  spread = max(
    min(model.rest[NO_DATE] / TransitionModel.rest[NO_DATE], 1.0),
    min(restarts / _MANY_RESTARTS, 1.0),
  )
  # A short text repeats no error often.
  is_long = len(kinds) / (len(kinds) + _PRIOR_SECTIONS)
  loss = (1 - _SHARPNESS) * spread + _RESTART_SLOPE * restarts
  return Reliability(
    sharpness=max(1 - loss * is_long, _MIN_SHARPNESS),
    misplaced=min(_MISPLACED_PER_RETURN * returns, _MAX_MISPLACED),
    emissions=emissions,
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
  is_dated = np.isin(kinds, (MONTH, SEASON, YEAR, TOLD_MONTH))
  is_dated &= np.maximum(before, after) < len(boundaries.year_start)
  before, after, kinds = before[is_dated], after[is_dated], kinds[is_dated]
  num_skips = (after > boundaries.following[kinds, before]).sum()
  num_skips += _PRIOR_SKIPS * _PRIOR_SECTIONS
  return float(num_skips / (len(kinds) + _PRIOR_SECTIONS))
