"""The best path among the likely months is the best among all."""

import numpy as np
import pytest

from ctd_jax.dating.chronicle import best_path, transition_model, transitions
from ctd_jax.dating.chronicle.sections import (
  DAY,
  MONTH,
  NO_DATE,
  NUM_KINDS,
  YEAR,
)

NUM_YEARS = 40
YEARS = np.repeat(np.arange(NUM_YEARS), 12)
MONTHS = np.tile(np.arange(1, 13), NUM_YEARS)
SIZE = len(YEARS)
BLOCK = 16


def make_moves(model, offset_transition=None):
  return transitions.make_transitions(
    model, transition_model.find_boundaries(YEARS, MONTHS), offset_transition
  )


def make_annals(num_offsets=1):
  """Annals of 40 years that print year and month, and days in between."""
  draw = np.random.default_rng(3)
  rows, kinds = [], []
  for month in range(0, SIZE, 4):
    row = np.where(MONTHS[month] == MONTHS, 0.0, -8.0)
    if MONTHS[month] == 1:
      row += np.where(YEARS[month] == YEARS, 0.0, -9.0)
    kinds += [YEAR if MONTHS[month] == 1 else MONTH, DAY, NO_DATE]
    day = np.where(draw.random(SIZE) < 0.5, 0.0, -2.5)
    day[month] = 0.0
    rows += [row, day, np.zeros(SIZE)]
  emissions = np.hstack([rows, np.full((len(rows), 1), -12.0)])
  offsets = draw.normal(0, 0.5, (len(rows), num_offsets, 1))
  return (emissions[:, None] + offsets).astype(np.float32), kinds


@pytest.mark.slow
@pytest.mark.parametrize("num_offsets", [1, 2])
def test_windows_hold_the_path_of_another_model(num_offsets):
  emissions, kinds = make_annals(num_offsets)
  turn = np.full((num_offsets, num_offsets), 0.05)
  turn[np.diag_indices(num_offsets)] = 1 - 0.05 * (num_offsets - 1)
  first = make_moves(transition_model.TransitionModel(), turn)
  other = make_moves(
    transition_model.TransitionModel(rest=(0.9, 0.6, *[0.1] * (NUM_KINDS - 2))),
    turn,
  )
  shapes = set()

  def read(start, stop, months=None):
    rows = emissions[start:stop]
    if months is not None:
      rows = np.concatenate([rows[..., months], rows[..., -1:]], axis=-1)
      shapes.add(rows.shape[-1])
    return rows

  windows = best_path.find_windows(read, kinds, first, block_size=BLOCK)
  assert (windows.sizes < SIZE).all()
  shapes.clear()
  found = best_path.find_best_path(read, kinds, other, None, BLOCK, windows)
  # Nothing else of the emissions was read.
  assert shapes == {size + 1 for size in windows.sizes.tolist()}
  expected = best_path.find_best_path(read, kinds, other, None, BLOCK)
  np.testing.assert_array_equal(found, expected)
  assert windows.hold(found[0]).all()
  assert not windows.hold(np.full(len(kinds), SIZE)).any()


def test_a_text_that_may_be_of_any_month_is_sought_among_all():
  windows = best_path.find_windows(
    lambda start, stop, *_: np.zeros((stop - start, SIZE + 1), np.float32),
    [NO_DATE] * BLOCK,
    make_moves(transition_model.TransitionModel()),
  )
  assert windows.sizes.tolist() == [SIZE]
  assert windows.first_months.tolist() == [0]
