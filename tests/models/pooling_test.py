"""Pooling: golden values, independence of padding, states computed for it."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ctd_jax.models import packing
from ctd_jax.models.encoders.bert import BertConfig
from ctd_jax.models.encoders.decoder import DecoderConfig
from ctd_jax.training.speed import count_flops
from tests.models.published_folder import pool_tokens

pytestmark = pytest.mark.usefixtures("quick_compile")

STATES = np.arange(12.0).reshape(1, 4, 3) ** 2
MASK = np.array([[1, 1, 1, 0]])


@pytest.mark.parametrize(
  ("kind", "expected"),
  [
    ("cls", STATES[:, 0]),
    ("last", STATES[:, 2]),
    ("mean", STATES[:, :3].mean(1)),
  ],
)
def test_golden(kind, expected):
  pooled = pool_tokens(jnp.asarray(STATES), MASK, kind)
  np.testing.assert_allclose(pooled, expected, rtol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("kind", packing.POOLINGS)
def test_padding_never_changes_a_vector(kind):
  lengths = (1, 3, 6)
  text = jax.random.normal(jax.random.key(0), (len(lengths), 6, 4))
  vectors = []
  for columns, side in [(6, "right"), (9, "right"), (9, "left"), (6, "left")]:
    # What stands under padding must not matter.
    states = np.full((len(lengths), columns, 4), 1e6, np.float32)
    mask = np.zeros((len(lengths), columns), np.int32)
    for row, length in enumerate(lengths):
      first = columns - length if side == "left" else 0
      states[row, first : first + length] = text[row, :length]
      mask[row, first : first + length] = 1
    vectors.append(pool_tokens(jnp.asarray(states), jnp.asarray(mask), kind))
  for other in vectors[1:]:
    np.testing.assert_allclose(other, vectors[0], rtol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("kind", packing.POOLINGS)
def test_bool_masks_and_rows_without_tokens(kind):
  mask = jnp.asarray(MASK)
  states = jnp.asarray(STATES)
  np.testing.assert_array_equal(
    pool_tokens(states, mask, kind),
    pool_tokens(states, mask > 0, kind),
  )
  assert jnp.isfinite(pool_tokens(states, mask * 0, kind)).all()


@pytest.mark.slow
@pytest.mark.parametrize("kind", packing.POOLINGS)
def test_texts_of_a_row_are_pooled_each_for_itself(kind):
  states = np.random.default_rng(1).normal(size=(1, 7, 3)).astype(np.float32)
  segments = np.array([[1, 1, 1, 2, 3, 3, 0]])
  pooled = packing.pool_texts(jnp.asarray(states), segments, kind, 4)
  for slot, columns in enumerate((slice(0, 3), slice(3, 4), slice(4, 6))):
    alone = states[:, columns]
    ones = np.ones(alone.shape[:2], np.int32)
    np.testing.assert_allclose(
      pooled[:, slot], pool_tokens(alone, ones, kind), rtol=1e-6
    )
  assert np.isfinite(pooled[:, 3]).all()


@pytest.mark.slow
@pytest.mark.parametrize("kind", packing.POOLINGS)
@pytest.mark.parametrize(
  "config",
  [
    BertConfig(40, 16, 1, 4, 24, 64, dropout=0.0, initializer_range=0.3),
    DecoderConfig(40, 16, 1, 4, 2, 8, 24, 64, initializer_range=0.3),
  ],
  ids=["bert", "decoder"],
)
def test_an_encoder_computes_the_states_that_are_pooled(config, kind):
  lengths = np.array([[30, 20, 14, 0, 5]])
  layout = packing.arrange_texts(lengths, 64)
  mask = (np.arange(30) < lengths.T).astype(np.int32)
  ids = np.random.default_rng(0).integers(4, 40, mask.shape).astype(np.int32)
  texts = packing.pack_texts(ids, mask, layout)
  encoder = config.make_encoder()
  params = encoder.init(jax.random.key(0), ids[:1, :2], mask[:1, :2])
  apply = functools.partial(encoder.apply, params)
  vectors = packing.encode_packed(apply, texts, kind)[0]
  for row, length in enumerate(lengths[0]):
    if not length:
      assert not vectors[row].any()
      continue
    alone = ids[row : row + 1, :length], mask[row : row + 1, :length]
    expected = pool_tokens(apply(*alone), alone[1], kind)[0]
    np.testing.assert_allclose(vectors[row], expected, atol=1e-5)

  def total(encode):
    return count_flops(lambda texts: encode(apply, texts, kind), texts)

  def encode_all(apply, texts, kind):
    states = apply(*packing.flatten_packs(texts))
    return packing.pool_texts(states, texts.segments[0], kind, 8)

  share = total(packing.encode_packed) / total(encode_all)
  if kind == "mean":
    # XLA also counts the sums of indices, which differ between the two.
    assert share == pytest.approx(1, abs=1e-3)
  else:
    assert 0.1 < share < 0.4
