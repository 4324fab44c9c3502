"""Folds of labelled records, hidden as the records that are to be dated are.

Weights are learned on records that are dated as an undated record is. Where
that is of a year without known records, blocks of years are hidden; where it is
a text beside a chronicle all of whose years are known, records one by one. The
variant *strict* dates every labelled record so.

Axes: N records, Y regnal years.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Int

from ctd_jax.dating.corpus import UNKNOWN, Corpus, Labels, MonthAxis

NUM_FOLDS = 10
# What is hidden together.
FOLD_BY = YEARS, RECORDS = ("years", "records")
_BLOCK_YEARS = (2, 3)  # fewest and most, as of the held-out blocks
_SEED = 7  # of the lengths of the blocks; the weights depend on it


def fold_records(
  corpus: Corpus, labels: Labels, fold_by: str
) -> Int[np.ndarray, " N"]:
  """Returns the fold of each known record, UNKNOWN for the others.

  Args:
    corpus: the texts.
    labels: the known months.
    fold_by: whether "years" are hidden together, or "records" with those of the
      same text.

  Raises:
    ValueError: if `fold_by` is unknown.
  """
  if check_fold_by(fold_by) == YEARS:
    return assign_folds(corpus.axis, labels)
  # Of the higher bits: samples of records are made of the lower ones.
  hashes = corpus.text_hashes.astype(int) >> 16
  return np.where(labels.is_known, hashes % NUM_FOLDS, UNKNOWN)


def check_fold_by(fold_by: str) -> str:
  """Returns `fold_by`.

  Raises:
    ValueError: if it is not of FOLD_BY.
  """
  if fold_by not in FOLD_BY:
    raise ValueError(
      f"what is hidden must be one of {FOLD_BY}, got {fold_by!r}"
    )
  return fold_by


def assign_folds(axis: MonthAxis, labels: Labels) -> Int[np.ndarray, " N"]:
  """Returns the fold of each known record, by its year.

  UNKNOWN for the others. Consecutive years of a reign with known months are cut
  into blocks of two or three years, dealt out to the folds in turn.

  Args:
    axis: the years.
    labels: the known months.
  """
  known_records = np.flatnonzero(labels.is_known)
  has_known_record = np.zeros(axis.num_years, bool)
  has_known_record[axis.year_of[labels.month[known_records]]] = True
  rng = np.random.default_rng(_SEED)
  fold_of_year = np.full(axis.num_years, UNKNOWN)
  block, num_years_left = -1, 0
  for year in np.flatnonzero(has_known_record):
    is_consecutive = year > 0 and has_known_record[year - 1]
    # A block ends where years without a record, or another reign, follow.
    if (
      not num_years_left
      or not is_consecutive
      or axis.reign[year - 1] != axis.reign[year]
    ):
      block += 1
      num_years_left = int(rng.integers(_BLOCK_YEARS[0], _BLOCK_YEARS[1] + 1))
    fold_of_year[year] = block % NUM_FOLDS
    num_years_left -= 1
  folds = np.full(len(labels.month), UNKNOWN)
  folds[known_records] = fold_of_year[axis.year_of[labels.month[known_records]]]
  return folds
