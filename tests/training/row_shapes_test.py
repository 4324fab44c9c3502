"""Two shapes of rows hold all batches of a run, and are nearly full."""

import numpy as np
import pytest

from ctd_jax.training import batches, packing
from ctd_jax.training.packing import RowShape

WIDTHS = [256, 288, 320, 352, 384, 416, 448, 480, 512]


def random_tokens(rng, size: int) -> np.ndarray:
  """Returns tokens of queries and records, as of the rebuilt Annals."""
  queries = rng.integers(15, 31, (size, 1))
  # Most records are short; commentary is long, and is cut at 256.
  records = rng.gamma(1.5, 22, (size, 4)).astype(int) + 12
  return np.concatenate([queries, np.minimum(records, 256)], axis=1)


def dealt_batches(size: int, count: int) -> list[np.ndarray]:
  """Returns batches that were dealt evenly."""
  rng = np.random.default_rng(0)
  tokens = random_tokens(rng, size * count)
  dealt = batches.deal_evenly(tokens.sum(axis=1), count, rng)
  return [tokens[queries] for queries in dealt]


@pytest.mark.parametrize(
  ("size", "packs", "fill"),
  [
    *[(16, 8, 0.8), (16, 1, 0.9), (64, 8, 0.9), (64, 1, 0.9), (256, 8, 0.9)],
    (512, 8, 0.95),  # in two units
  ],
)
def test_two_shapes_are_nearly_full(size, packs, fill):
  count = 200 if size < 256 else 40
  batches = dealt_batches(size, count)
  shapes = packing.choose_shapes(batches[::4], packs, WIDTHS)
  tokens, columns, used = 0, 0, set()
  for batch in batches:
    places = packing.arrange_batch(batch.reshape(-1), packs, shapes)
    used.add(places.shape)
    tokens += batch.sum()
    columns += packs * places.shape.rows * places.shape.width
  assert used <= set(shapes)
  assert tokens / columns >= fill


@pytest.mark.parametrize(
  ("packs", "unit_texts"), [(1, 256), (4, 256), (4, 80), (4, 40)]
)
def test_every_token_has_a_cell_of_its_own(packs, unit_texts, monkeypatch):
  monkeypatch.setattr(packing, "_UNIT_TEXTS", unit_texts)
  (batch,) = dealt_batches(32, 1)
  lengths = batch.reshape(-1)
  shapes = packing.choose_shapes([batch], packs, [256])
  places = packing.arrange_batch(lengths, packs, shapes)
  rows, width, texts = places.shape
  cells = np.zeros((packs, rows, width), int)
  for text, length in enumerate(lengths):
    columns = slice(places.column[text], places.column[text] + length)
    assert columns.stop <= width
    cells[places.pack[text], places.row[text], columns] += 1
  assert cells.max() == 1
  assert cells.sum() == lengths.sum()
  order = places.pack * texts + places.place
  assert len(set(order)) == len(lengths)
  assert order.max() < packs * texts
  if packs == 1:  # the objective counts on it
    assert order.tolist() == list(range(len(lengths)))


def test_units_are_laid_out_alike(monkeypatch):
  monkeypatch.setattr(packing, "_UNIT_TEXTS", 256)
  (batch,) = dealt_batches(512, 1)
  lengths = batch.reshape(-1)
  assert packing.count_unit_packs(lengths.size, 8) == 1
  shapes = packing.choose_shapes([batch], 8, WIDTHS)
  assert [shape.texts for shape in shapes] == [320, 320]
  places = packing.arrange_batch(lengths, 8, shapes)
  by_place = np.empty((8, 320, 4), int)
  by_place[places.pack, places.place] = np.column_stack(
    [lengths, places.row, places.slot, places.column]
  )
  # Texts of one place have one cell, and are about equal.
  assert (by_place[:, :, 1:] == by_place[:1, :, 1:]).all()
  spaces = by_place[:, :, 0].max(axis=0) - by_place[:, :, 0]
  assert spaces.sum(axis=1).max() <= lengths.max()


@pytest.mark.parametrize(
  ("texts", "packs", "expected"),
  [
    (40, 1, 1),
    (80, 8, 8),
    (320, 8, 8),
    (2048, 8, 4),
    (5120, 8, 2),
    (8192, 8, 1),
    (4096, 6, 2),
    (12288, 64, 8),
  ],
)
def test_units_have_texts_enough(texts, packs, expected):
  assert packing.count_unit_packs(texts, packs) == expected


def test_unusual_batches_have_the_large_shape_and_what_none_holds_its_own():
  shapes = (RowShape(2, 16, 12), RowShape(3, 16, 12))
  full = np.full(4, 8)
  for count, rows in ((4, 2), (6, 3), (12, 6)):
    lengths = np.resize(full, count)
    places = packing.arrange_batch(lengths, 1, shapes)
    assert places.shape[:2] == (rows, 16)
  # A pack that has too few places is too small as well.
  shapes = (RowShape(2, 16, 1), RowShape(3, 16, 12))
  assert packing.arrange_batch(full, 2, shapes).shape == shapes[1]


@pytest.mark.slow
def test_a_batch_far_above_the_mean_fits_the_large_shape():
  rng = np.random.default_rng(1)
  batches = dealt_batches(16, 64)
  shapes = packing.choose_shapes(batches, 8, WIDTHS)
  # Drawn independently, as between two epochs.
  used = {
    packing.arrange_batch(random_tokens(rng, 16).reshape(-1), 8, shapes).shape
    for _ in range(2000)
  }
  assert used == set(shapes)


def test_groups_are_dealt_evenly_and_at_random():
  rng = np.random.default_rng(0)
  tokens = rng.gamma(2, 100, 640).astype(int)
  dealt = batches.deal_evenly(tokens, 40, rng)
  assert sorted(dealt.reshape(-1)) == list(range(640))
  sums = tokens[dealt].sum(axis=1)
  assert sums.std() < 0.02 * sums.mean()
  # Neither the first group nor the first of a group is the longest.
  means = tokens[dealt].mean(axis=0)
  assert np.abs(means - tokens.mean()).max() < 0.35 * tokens.mean()
