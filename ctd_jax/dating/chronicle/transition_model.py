"""Model of how a chronicle moves from month to month, and its fit to a text.

It is separate from `transitions`, because dating a passage needs it but not
JAX.
"""

import dataclasses
from typing import NamedTuple

import numpy as np
from jaxtyping import Int, Int32

from ctd_jax.dating.chronicle.sections import (
  DAY,
  MONTH,
  NAMED,
  NO_DATE,
  NUM_KINDS,
  SEASON,
  STREAM,
  TOLD_MONTH,
  TOLD_YEAR,
  YEAR,
)

# Annals print a date only where it changes. From one section to the next the
# text stays, steps on or jumps, by the date of the next section: one that opens
# with a season has left the season before. A step goes to the boundary (the
# next month, season or year) and a geometric number of months beyond it; a jump
# goes anywhere later, for gaps and lost headings.
#
# Texts also go back. Where streams alternate (the Annals of a year, then its
# tradition), each begins again with the year; lives begin again anywhere. How
# often is learned from the text. It may leave the calendar for a time, for an
# era that the tables lack. A section may tell of what is older than its
# position (「初」): a share of its emission is that of any earlier month alike.

_PRIOR_SECTIONS = 20.0  # sections that the prior model is worth
_MAX_STEP_MONTHS = 60  # what goes further was a jump
# Moves out of the order that are no habit of a kind of section. One quoted date
# may lead the path astray and back, and a text of days has so few seasons that
# one jump among them would be one in twenty.
_STRAY_MOVES = 2

Chances = tuple[float, ...]  # one for each kind of section


@dataclasses.dataclass(frozen=True)
class TransitionModel:
  """Probabilities of the steps of a chronicle, for each kind of section.

  The rest up to 1 is the chance of a step past the boundary of the kind.
  """

  #     NO_DATE, DAY, MONTH, SEASON, YEAR, NAMED, STREAM, TOLD_MONTH, TOLD_YEAR
  # Stays in the month of the section before.
  rest: Chances = (0.98, 0.9, 0.01, 0.002, 0.002, 0.05, 0.3, 0.1, 0.3)
  # Steps on without crossing the boundary of the kind.
  slip: Chances = (0.0, 0.0, 0.0, 0.002, 0.002, 0.01, 0.01, 0.0, 0.01)
  # Of the geometric number of months beyond the boundary, 0-1.
  ratio: Chances = (0.5, 0.5, 0.6, 0.75, 0.75, 0.9, 0.75, 0.6, 0.8)
  # Jumps to any later month.
  jump: Chances = (1e-3, 1e-3, 1e-3, 1e-3, 1e-3, 0.2, 0.01, 1e-3, 1e-2)
  # Goes back to the head of the year and a geometric number of months on.
  back: Chances = (1e-4, 1e-3, 2e-3, 2e-3, 2e-4, 0.05, 0.3, 1e-3, 5e-3)
  # Goes to any month.
  restart: Chances = (1e-5, 1e-4, 1e-4, 1e-4, 1e-4, 1e-2, 1e-3, 1e-5, 1e-3)
  # Leaves the calendar.
  leave: Chances = (1e-5, 1e-5, 1e-5, 1e-5, 1e-5, 0.03, 1e-4, 1e-5, 0.01)
  # Tells of any month up to its own; for TOLD_MONTH and TOLD_YEAR, of any month
  # at all.
  flashback: Chances = (0.01, 0.01, 0.01, 0.005, 0.005, 1e-3, 1e-3, 0.1, 0.3)


class Boundaries(NamedTuple):
  """First and last months of the months, seasons and years of a calendar."""

  # [C, K] first month past the boundary of each kind; K if none.
  following: Int32[np.ndarray, "C K"]
  year_start: Int32[np.ndarray, " K"]  # [K] first month of each month's year


def find_boundaries(
  years: Int[np.ndarray, " K"], months: Int[np.ndarray, " K"]
) -> Boundaries:
  """Returns the boundaries of a calendar whose years never decrease."""
  # A leap month has the number of the month before it.
  season = (months - 1) // 3
  is_new_year = np.diff(years, prepend=years[:1]) != 0
  # A season ends with its last month, a leap month included, or with its year;
  # a year need not begin with spring.
  is_new_season = is_new_year | (np.diff(season, prepend=season[:1]) != 0)
  next_month = np.arange(1, len(years) + 1)
  season_of, year_of = np.cumsum(is_new_season), np.cumsum(is_new_year)
  next_year = np.searchsorted(year_of, year_of, side="right")
  following = {
    NO_DATE: next_month,
    DAY: next_month,
    MONTH: next_month,
    SEASON: np.searchsorted(season_of, season_of, side="right"),
    YEAR: next_year,
    NAMED: next_year,
    STREAM: next_year,
    TOLD_MONTH: next_month,
    TOLD_YEAR: next_year,
  }
  return Boundaries(
    np.stack([following[kind] for kind in range(NUM_KINDS)]).astype(np.int32),
    np.searchsorted(year_of, year_of).astype(np.int32),
  )


def fit_transition_model(
  model: TransitionModel,
  path: Int[np.ndarray, " N"],
  kinds: Int[np.ndarray, " N"],
  boundaries: Boundaries,
) -> TransitionModel:
  """Returns the model that fits a path, with `model` as prior.

  It learns how often each kind of section rests, jumps, goes back and restarts,
  and how far it moves beyond the boundary. Rarer moves keep their prior.
  """
  num_months = len(boundaries.year_start)
  is_inside = (path[:-1] < num_months) & (path[1:] < num_months)
  before, after = path[:-1][is_inside], path[1:][is_inside]
  kinds = kinds[1:][is_inside]
  months_beyond = after - boundaries.following[kinds, before]
  is_crossing = (months_beyond >= 0) & (months_beyond < _MAX_STEP_MONTHS)
  year_start = boundaries.year_start[before]
  moves = {
    "rest": before == after,
    "jump": months_beyond >= _MAX_STEP_MONTHS,
    "back": (after < before) & (after >= year_start),
    "restart": after < year_start,
  }
  fitted = {name: [] for name in (*moves, "ratio")}
  for kind in range(NUM_KINDS):
    is_kind = kinds == kind
    chances = {}
    for name, is_move in moves.items():
      count = (is_kind & is_move).sum()
      if name in ("jump", "restart"):
        count = max(count - _STRAY_MOVES, 0)
      chances[name] = (count + _PRIOR_SECTIONS * getattr(model, name)[kind]) / (
        is_kind.sum() + _PRIOR_SECTIONS
      )
    # A step past the boundary is never ruled out.
    scale = (1 - model.slip[kind] - model.leave[kind] - 1e-3) / max(
      sum(chances.values()), 1e-9
    )
    for name, chance in chances.items():
      fitted[name].append(float(chance * min(scale, 1.0)))
    steps = months_beyond[is_kind & is_crossing]
    # Of a geometric number with ratio r the mean is r / (1 - r).
    prior_months = _PRIOR_SECTIONS * model.ratio[kind] / (1 - model.ratio[kind])
    mean = (steps.sum() + prior_months) / (len(steps) + _PRIOR_SECTIONS)
    fitted["ratio"].append(float(mean / (1 + mean)))
  # What is told of leaves the text where it was.
  fitted["flashback"] = [
    fitted["rest"][kind] if kind in (TOLD_MONTH, TOLD_YEAR) else flashback
    for kind, flashback in enumerate(model.flashback)
  ]
  return dataclasses.replace(
    model, **{name: tuple(values) for name, values in fitted.items()}
  )
