"""Blocks of years that are hidden in turn, shaped like the held-out ones.

Why: weights have to be learned on records that are dated as a held-out record
is, with no known record in the same two or three years; and the variant
*strict* dates every known record so. Called by `dater`.

Axes: N records, K months, Y regnal years.
"""

from __future__ import annotations

import numpy as np

from ctd_jax.dating.corpus import UNKNOWN, Axis, Labels

FOLDS = 10
_BLOCK_YEARS = (2, 3)
_SEED = 7


def of_records(axis: Axis, labels: Labels) -> np.ndarray:
  """Returns the fold of each known record, UNKNOWN for the others, int [N].

  Consecutive years of a reign with known months are cut into blocks of two or
  three years, dealt out to the folds in turn.

  Args:
    axis: the years.
    labels: the known months.
  """
  known = np.flatnonzero(labels.known)
  seen = np.zeros(axis.years, bool)
  seen[axis.year_of[labels.month[known]]] = True
  rng = np.random.default_rng(_SEED)
  fold_of_year = np.full(axis.years, UNKNOWN)
  block, left = -1, 0
  for year in np.flatnonzero(seen):
    follows = year > 0 and seen[year - 1]
    if not left or not follows or axis.reign[year - 1] != axis.reign[year]:
      block += 1
      left = int(rng.integers(_BLOCK_YEARS[0], _BLOCK_YEARS[1] + 1))
    fold_of_year[year] = block % FOLDS
    left -= 1
  folds = np.full(len(labels.month), UNKNOWN)
  folds[known] = fold_of_year[axis.year_of[labels.month[known]]]
  return folds
