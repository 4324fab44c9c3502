"""Pooling: golden values, and independence of padding."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ctd_jax.models import pooling

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
  pooled = pooling.pool_tokens(jnp.asarray(STATES), MASK, kind)
  np.testing.assert_allclose(pooled, expected, rtol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("kind", pooling.POOLINGS)
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
    vectors.append(
      pooling.pool_tokens(jnp.asarray(states), jnp.asarray(mask), kind)
    )
  for other in vectors[1:]:
    np.testing.assert_allclose(other, vectors[0], rtol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("kind", pooling.POOLINGS)
def test_bool_masks_and_rows_without_tokens(kind):
  mask = jnp.asarray(MASK)
  states = jnp.asarray(STATES)
  np.testing.assert_array_equal(
    pooling.pool_tokens(states, mask, kind),
    pooling.pool_tokens(states, mask > 0, kind),
  )
  assert jnp.isfinite(pooling.pool_tokens(states, mask * 0, kind)).all()


def test_an_unknown_pooling_is_named():
  with pytest.raises(ValueError, match="'max'"):
    pooling.pool_tokens(jnp.asarray(STATES), MASK, "max")


@pytest.mark.slow
@pytest.mark.parametrize("kind", pooling.POOLINGS)
def test_texts_of_a_row_are_pooled_each_for_itself(kind):
  states = np.random.default_rng(1).normal(size=(1, 7, 3)).astype(np.float32)
  segments = np.array([[1, 1, 1, 2, 3, 3, 0]])
  pooled = pooling.pool_texts(jnp.asarray(states), segments, kind, 4)
  for slot, columns in enumerate((slice(0, 3), slice(3, 4), slice(4, 6))):
    alone = states[:, columns]
    ones = np.ones(alone.shape[:2], np.int32)
    np.testing.assert_allclose(
      pooled[:, slot], pooling.pool_tokens(alone, ones, kind), rtol=1e-6
    )
  assert np.isfinite(pooled[:, 3]).all()
