"""Packed texts: none lost, loss and gradient those of texts alone."""

import functools

import jax
import numpy as np
import pytest

from ctd_jax.models import packing
from ctd_jax.models.encoders.bert import BertConfig
from ctd_jax.models.encoders.decoder import DecoderConfig
from ctd_jax.training import devices, input_pipeline, train_step
from ctd_jax.training.objective import Objective
from tests import synthetic
from tests.training import synthetic_run

pytestmark = pytest.mark.usefixtures("quick_compile")

BENCHMARK = synthetic.benchmark()


def texts_of(lengths, columns):
  """Returns ids and mask; token k of text t is 100 t + k + 1."""
  tokens = 100 * np.arange(len(lengths))[:, None] + np.arange(columns) + 1
  mask = np.arange(columns) < np.asarray(lengths)[:, None]
  return (tokens * mask).astype(np.int32), mask.astype(np.int32)


def read_back(texts, text):
  """Returns the tokens of a text of the one pack, found by its slot."""
  max_texts = packing.slots_per_row(texts.ids.shape[2])
  row, slot = divmod(int(texts.slots[0, text]), max_texts)
  if row == texts.ids.shape[1]:
    return []
  return texts.ids[0, row][texts.segments[0, row] == slot + 1].tolist()


@pytest.mark.parametrize("width", [16, 40, 128])
def test_every_token_once_and_in_order(width):
  rng = np.random.default_rng(width)
  lengths = np.minimum(rng.integers(0, 50, 60), min(width, 45))
  ids, mask = texts_of(lengths, 45)
  layout = packing.arrange_texts(lengths[None], width)
  texts = packing.pack_texts(ids, mask, layout)
  for text, length in enumerate(lengths):
    assert read_back(texts, text) == ids[text, :length].tolist()
  assert (texts.segments > 0).sum() == lengths.sum() == (texts.ids > 0).sum()
  assert texts.segments.max() <= packing.slots_per_row(width)
  # Two rows that are both half empty would have been one.
  if width == 128:
    assert layout.rows <= 1.2 * lengths.sum() / width + 1


def test_a_text_fills_columns_that_stand_together():
  texts = packing.pack_texts(
    *texts_of([3, 5, 2, 6], 8),
    packing.arrange_texts(np.array([[3, 5, 2, 6]]), 8),
  )
  assert texts.segments[0].tolist() == [
    [1, 1, 1, 1, 1, 1, 0, 0],
    [1, 1, 1, 1, 1, 0, 0, 0],
    [1, 1, 1, 0, 0, 0, 0, 0],
    [1, 1, 0, 0, 0, 0, 0, 0],
  ]


def test_padding_on_the_left_is_left_out():
  ids, mask = texts_of([3, 5], 6)
  left = np.roll(ids, 1, axis=1), np.roll(mask, 1, axis=1)
  layout = packing.arrange_texts(np.array([[3, 5]]), 16)
  jax.tree.map(
    np.testing.assert_array_equal,
    packing.pack_texts(*left, layout),
    packing.pack_texts(ids, mask, layout),
  )


def test_few_numbers_of_rows():
  found = {
    packing.arrange_texts(np.full((1, rows), 16), 16).rows
    for rows in range(1, 257)
  }
  assert len(found) == 16 + 8 * 4
  assert max(found) == 256


@pytest.mark.parametrize(("size", "packs"), [(4, 1), (8, 2), (32, 4)])
def test_batches_of_one_shape_have_every_text_once(size, packs):
  lengths = np.random.default_rng(0).integers(1, 30, 21)
  indices, shapes = [], set()
  for texts, packed in packing.iter_packed_batches(
    *texts_of(lengths, 30), size, packs, 32
  ):
    indices += texts[texts >= 0].tolist()
    shapes.add(tuple(x.shape for x in packed))
    assert packed.slots.shape == (packs, size // packs)
    # Slot and text belong together.
    firsts = packed.slots.reshape(-1)[texts >= 0]
    max_texts = packing.slots_per_row(32)
    pack = np.flatnonzero(texts >= 0) // (size // packs)
    rows, slots = np.divmod(firsts, max_texts)
    for p, row, slot, text in zip(
      pack, rows, slots, texts[texts >= 0], strict=True
    ):
      tokens = packed.ids[p, row][packed.segments[p, row] == slot + 1]
      assert tokens.tolist() == [100 * text + k + 1 for k in range(len(tokens))]
      assert len(tokens) == lengths[text]
  assert sorted(indices) == list(range(21))
  assert len(shapes) == 1
  assert list(packing.iter_packed_batches(*texts_of([], 4), 4, 1, 8)) == []


def test_long_texts_have_rows_of_their_own():
  lengths = np.array([9, 300, 128, 129, 600, 5])
  found = {
    packed.ids.shape[2]: sorted(texts[texts >= 0].tolist())
    for texts, packed in packing.iter_packed_batches(
      *texts_of(lengths, 600), 8, 1, 600
    )
  }
  assert found == {128: [0, 2, 5], 256: [3], 512: [1], 600: [4]}


def test_a_text_that_no_row_takes_is_refused():
  assert packing.row_width(40, 512) == 128
  assert packing.row_width(200, 512) == 256
  assert packing.row_width(40, 64) == 64
  with pytest.raises(ValueError, match="70 tokens exceed max_length 64"):
    packing.row_width(70, 64)


def one_a_row(lengths, rows, width):
  """Returns the layout that pads every text by itself."""
  packs, count = lengths.shape
  if rows < count:
    return None
  positions = np.zeros((packs, count, 3), np.int64)
  positions[:, :, 0] = np.arange(count)
  return packing.Layout(positions, rows, width)


ENCODERS = {
  "bert": BertConfig(60, 16, 1, 2, 32, 64, dropout=0.0),
  "qwen3": DecoderConfig(60, 16, 1, 2, 1, 8, 32, 64),
}


@pytest.mark.slow
@pytest.mark.parametrize(
  ("encoder", "pooling"),
  [("bert", "mean"), ("qwen3", "last")],
)
def test_loss_and_gradient_are_those_of_texts_alone(
  monkeypatch, encoder, pooling
):
  config = synthetic.config("ctd")
  config.batch_size = 4
  config.model.pooling = pooling
  tokenizer, *tokens = synthetic_run.tokenize(BENCHMARK, 24, 24)
  model = train_step.make_model(
    config.model, ENCODERS[encoder], BENCHMARK.timeline
  )
  assert tokenizer.vocab_size <= 60
  mesh = devices.make_mesh(1)
  loss = jax.jit(
    jax.value_and_grad(
      functools.partial(
        Objective.from_config(config, model, mesh).compute_loss,
        dropout_key=jax.random.key(0),
      ),
      has_aux=True,
    )
  )
  params = jax.jit(model.init)(
    jax.random.key(0), tokens[0].ids[:1], tokens[0].mask[:1]
  )
  found = []
  for fit in (packing.fit_texts, one_a_row):
    monkeypatch.setattr(packing, "fit_texts", fit)
    iterator = input_pipeline.training_batches(
      BENCHMARK,
      *tokens,
      input_pipeline.BatchSettings.from_config(config, 1, [64]),
    )
    batch = next(iterator)
    (value, _), gradient = loss(params["params"], batch)
    found.append((batch["texts"].ids.shape[1], value, gradient))
  (packed_rows, value, gradient), (rows, alone, expected) = found
  assert packed_rows < rows == 4 * 5
  np.testing.assert_allclose(value, alone, rtol=1e-5)
  jax.tree.map(
    lambda a, b: np.testing.assert_allclose(a, b, atol=2e-5, rtol=1e-4),
    gradient,
    expected,
  )
