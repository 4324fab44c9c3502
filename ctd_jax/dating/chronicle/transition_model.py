"""Model of how a chronicle moves from month to month, and its fit to a text.

It is separate from `transitions`, because dating a passage needs it but not
JAX.
"""

import dataclasses
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Int, Int32

from ctd_jax.dating.chronicle.sections import (
  BETWEEN_DAYS,
  DAY,
  MONTH,
  NAMED,
  NEXT_DAY,
  NO_DATE,
  NUM_KINDS,
  SEASON,
  STREAM,
  TOLD_IN_ENTRY,
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
# From one daily entry to the next the text moves a month at most, whatever the
# entries tell of.

_PRIOR_SECTIONS = 20.0  # sections that the prior model is worth
_MAX_STEP_MONTHS = 60  # what goes further was a jump
# Annals never jump and never begin again; lives do both at every life. So a
# text has chances of its own: the prior times a factor with a gamma
# distribution of mean 1 and this shape. It was learned from 資治通鑑, 後漢紀,
# 左傳, 公羊傳, 穀梁傳, 史記 and 三國志, and from them the moves of NAMED and
# TOLD_YEAR below (`tests.benchmarks.chronicle_moves`).
_SHAPE_OF_MOVES = 0.2
# So many moves of a path may be errors: a quoted date leads it astray, and what
# is learned from that makes the next move cheap. Chosen on 資治通鑑 without
# its dates, by the same script.
_STRAY_MOVES = 3

Chances = tuple[float, ...]  # one for each kind of section


@dataclasses.dataclass(frozen=True)
class TransitionModel:
  """Probabilities of the steps of a chronicle, for each kind of section.

  The rest up to 1 is the chance of a step past the boundary of the kind.
  """

  # Of NO_DATE, DAY, MONTH, SEASON, YEAR, NAMED and STREAM, and of BETWEEN_DAYS,
  # NEXT_DAY, TOLD_MONTH, TOLD_YEAR and TOLD_IN_ENTRY.
  #
  # Stays in the month of the section before.
  rest: Chances = (
    *(0.98, 0.9, 0.01, 0.002, 0.002, 0.05, 0.3),
    *(0.99, 0.9, 0.1, 0.65, 0.99),
  )
  # Steps on without crossing the boundary of the kind.
  slip: Chances = (
    *(0.0, 0.0, 0.0, 0.002, 0.002, 0.01, 0.01),
    *(0.0, 0.0, 0.0, 0.01, 0.0),
  )
  # Of the geometric number of months beyond the boundary, 0-1.
  ratio: Chances = (
    *(0.5, 0.5, 0.6, 0.75, 0.75, 0.9, 0.75),
    *(0.02, 0.02, 0.6, 0.8, 0.02),
  )
  # Jumps to any later month.
  jump: Chances = (
    *(1e-3, 1e-3, 1e-3, 1e-3, 1e-3, 0.02, 0.01),
    *(1e-5, 1e-3, 1e-3, 0.02, 1e-5),
  )
  # Goes back to the head of the year and a geometric number of months on.
  back: Chances = (
    *(1e-4, 1e-3, 2e-3, 2e-3, 2e-4, 0.05, 0.3),
    *(1e-5, 1e-3, 1e-3, 5e-3, 1e-5),
  )
  # Goes to any month.
  restart: Chances = (
    *(1e-5, 1e-4, 1e-4, 1e-4, 1e-4, 0.02, 1e-3),
    *(1e-6, 1e-4, 1e-5, 0.02, 1e-6),
  )
  # Leaves the calendar.
  leave: Chances = (
    *(1e-5, 1e-5, 1e-5, 1e-5, 1e-5, 0.03, 1e-4),
    *(1e-5, 1e-5, 1e-5, 0.01, 1e-5),
  )
  # Tells of any month up to its own; for TOLD_MONTH and TOLD_YEAR, of any month
  # at all; for TOLD_IN_ENTRY, of an earlier one, mostly near.
  flashback: Chances = (
    *(0.01, 0.01, 0.01, 0.005, 0.005, 1e-3, 1e-3),
    *(0.01, 0.01, 0.1, 0.65, 0.99),
  )


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
    BETWEEN_DAYS: next_month,
    NEXT_DAY: next_month,
    MONTH: next_month,
    SEASON: np.searchsorted(season_of, season_of, side="right"),
    YEAR: next_year,
    NAMED: next_year,
    STREAM: next_year,
    TOLD_MONTH: next_month,
    TOLD_YEAR: next_year,
    TOLD_IN_ENTRY: next_month,
  }
  return Boundaries(
    np.stack([following[kind] for kind in range(NUM_KINDS)]).astype(np.int32),
    np.searchsorted(year_of, year_of).astype(np.int32),
  )


def find_moves(
  path: Int[np.ndarray, " N"],
  kinds: Int[np.ndarray, " N"],
  boundaries: Boundaries,
) -> tuple[
  dict[str, Bool[np.ndarray, " M"]],
  Int[np.ndarray, " M"],
  Int[np.ndarray, " M"],
]:
  """Returns the moves of a path inside the calendar.

  For each name of a move, whether a section makes it; the kinds of the
  sections; and how many months each section goes beyond its boundary.
  """
  num_months = len(boundaries.year_start)
  is_inside = (path[:-1] < num_months) & (path[1:] < num_months)
  before, after = path[:-1][is_inside], path[1:][is_inside]
  kinds = kinds[1:][is_inside]
  months_beyond = after - boundaries.following[kinds, before]
  year_start = boundaries.year_start[before]
  moves = {
    "rest": before == after,
    "jump": months_beyond >= _MAX_STEP_MONTHS,
    "back": (after < before) & (after >= year_start),
    "restart": after < year_start,
  }
  return moves, kinds, months_beyond


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
  moves, kinds, months_beyond = find_moves(path, kinds, boundaries)
  is_crossing = (months_beyond >= 0) & (months_beyond < _MAX_STEP_MONTHS)
  fitted = {name: [] for name in (*moves, "ratio")}
  for kind in range(NUM_KINDS):
    is_kind = kinds == kind
    chances = {
      name: (
        (is_kind & is_move).sum() + _PRIOR_SECTIONS * getattr(model, name)[kind]
      )
      / (is_kind.sum() + _PRIOR_SECTIONS)
      for name, is_move in moves.items()
    }
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


def discount_moves(
  model: TransitionModel,
  kinds: Int[np.ndarray, " N"],
  boundaries: Boundaries,
  path: Int[np.ndarray, " N"] | None = None,
) -> TransitionModel:
  """Returns a model whose jumps and restarts are as rare as the text's own.

  Args:
    model: the prior or, with a path, the model that fits it.
    kinds: of the sections.
    boundaries: of the calendar.
    path: a reading of the text; without one it is taken for annals.
  """
  prior = TransitionModel()
  counts = np.bincount(kinds, minlength=NUM_KINDS)
  num_moves, prior_share = 0, np.ones(NUM_KINDS)
  if path is not None:
    moves, *_ = find_moves(path, kinds, boundaries)
    num_moves = int((moves["jump"] | moves["restart"]).sum())
    prior_share = _PRIOR_SECTIONS / (counts + _PRIOR_SECTIONS)
  num_real = max(num_moves - _STRAY_MOVES, 0)
  expected = counts @ (np.array(prior.jump) + np.array(prior.restart))
  factor = min((num_real + _SHAPE_OF_MOVES) / (expected + _SHAPE_OF_MOVES), 1.0)

  def discount(fitted: Chances, believed: Chances) -> Chances:
    from_prior = np.minimum(prior_share * np.array(believed), fitted)
    counted = (np.array(fitted) - from_prior) * num_real / max(num_moves, 1)
    return tuple((counted + factor * from_prior).tolist())

  return dataclasses.replace(
    model,
    jump=discount(model.jump, prior.jump),
    restart=discount(model.restart, prior.restart),
    # What leaves the calendar comes back anywhere: a restart by another way.
    leave=tuple(chance * factor for chance in model.leave),
  )
