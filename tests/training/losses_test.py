"""Losses: golden values by hand, and properties of the masks."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from ctd_jax.chronology import reigns
from ctd_jax.training import losses

# Rows are queries; the last column is a hard negative.
LOGITS = np.log(
  np.array([[4.0, 2.0, 1.0, 1.0], [1.0, 5.0, 2.0, 2.0], [3.0, 3.0, 3.0, 1.0]])
)
REDUCTIONS = ("sum_inside", "mean_outside")


def whole_nce(logits, mask, reduction="sum_inside"):
  """Returns the loss of all rows at once; other columns are negatives."""
  mask = jnp.pad(mask, ((0, 0), (0, logits.shape[1] - len(mask))))
  sums = losses.sum_logits(logits, mask, reduction)
  return losses.multi_positive_nce(sums, mask.sum(axis=1), reduction)


# Compiled once per shape; without jit every operation is compiled alone.
nce = jax.jit(whole_nce, static_argnames="reduction")
nce_gradient = jax.jit(
  jax.value_and_grad(whole_nce), static_argnames="reduction"
)
calendar_cross_entropy = jax.jit(
  losses.calendar_cross_entropy, static_argnames=("eps", "reduction")
)


def random_logits(rows=5, columns=8, seed=0):
  return jax.random.normal(jax.random.key(seed), (rows, columns)) * 3


@pytest.mark.slow
@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_identity_mask_is_info_nce(reduction):
  logits, labels = random_logits(), jnp.arange(5)
  cross_entropy = optax.softmax_cross_entropy_with_integer_labels
  expected = cross_entropy(logits, labels).mean()
  loss = nce(logits, jnp.eye(5, dtype=bool), reduction)
  np.testing.assert_allclose(loss, expected, rtol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_sums_of_blocks_join_to_those_of_all_columns(reduction):
  logits = random_logits(4, 12)
  mask = jnp.arange(12) % 5 == jnp.arange(4)[:, None]  # none in some blocks

  def loss_in_blocks(logits, blocks):
    sums = losses.sum_logits(
      logits.reshape(4, blocks, -1), mask.reshape(4, blocks, -1), reduction
    )
    sums = losses.join_sums(sums, 1, reduction)
    return losses.multi_positive_nce(sums, mask.sum(axis=1), reduction)

  differentiate = jax.jit(jax.value_and_grad(loss_in_blocks), static_argnums=1)
  loss, gradient = differentiate(logits, 1)
  block_loss, block_gradient = differentiate(logits, 6)
  np.testing.assert_allclose(block_loss, loss, rtol=1e-6)
  np.testing.assert_allclose(block_gradient, gradient, rtol=1e-5, atol=1e-7)


def test_nce_by_hand():
  mask = np.array([[1, 1, 0], [0, 1, 0], [1, 0, 1]], bool)
  inside = nce(LOGITS, mask, "sum_inside")
  expected = -np.mean(np.log([6 / 8, 5 / 10, 6 / 10]))
  np.testing.assert_allclose(inside, expected, rtol=1e-6)
  outside = nce(LOGITS, mask, "mean_outside")
  rows = [np.log([4 / 8, 2 / 8]).mean(), np.log(0.5), np.log(0.3)]
  np.testing.assert_allclose(outside, -np.mean(rows), rtol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_negatives_are_only_ever_pushed_away(reduction):
  _, gradient = nce_gradient(random_logits(), jnp.ones((5, 5), bool), reduction)
  assert (gradient[:, 5:] > 0).all()
  np.testing.assert_allclose(gradient.sum(1), 0, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_extreme_logits_keep_loss_and_gradient_finite(reduction):
  logits = jnp.array([[-1e4, 1e4, 0.0], [1e4, -1e4, 0.0]])
  loss, gradient = nce_gradient(logits, jnp.eye(2, dtype=bool), reduction)
  assert loss == 2e4
  assert jnp.isfinite(gradient).all()


@pytest.mark.slow
def test_losses_are_fp32_for_bf16_logits():
  logits = random_logits().astype(jnp.bfloat16)
  loss = nce(logits, jnp.eye(5, dtype=bool))
  assert loss.dtype == jnp.float32
  exact = nce(logits.astype(jnp.float32), jnp.eye(5, dtype=bool))
  np.testing.assert_array_equal(loss, exact)


@pytest.mark.slow
def test_interval_mask_is_overlap():
  ends = [(0, 0), (0, 3), (2, 5), (4, 4), (6, 9), (9, 9)]
  mask = losses.interval_mask(jnp.array(ends), jnp.arange(12))
  keys = [reigns.TimeKey(1, 1, month) for month in range(1, 13)]
  intervals = [reigns.Interval(keys[a], keys[b]) for a, b in ends]
  months = map(reigns.Interval.single_month, keys)
  expected = [[each.overlaps(month) for each in intervals] for month in months]
  np.testing.assert_array_equal(mask.T, expected)


@pytest.mark.slow
def test_smoothing_goldens():
  targets = losses.smoothed_targets(jnp.array([0, 2, 4]), 5, 0.2)
  expected = [[0.8, 0.2, 0, 0, 0], [0, 0.1, 0.8, 0.1, 0], [0, 0, 0, 0.2, 0.8]]
  np.testing.assert_allclose(targets, expected, rtol=1e-6)
  plain = losses.smoothed_targets(jnp.array([0, 2, 4]), 5, 0.0)
  np.testing.assert_array_equal(plain, np.eye(5)[[0, 2, 4]])
  alone = losses.smoothed_targets(jnp.array([0]), 1, 0.2)
  np.testing.assert_array_equal(alone, [[1.0]])
  uniform = losses.smoothed_targets(jnp.array([0, 4]), 5, 0.2, "uniform")
  expected = [[0.84, *[0.04] * 4], [*[0.04] * 4, 0.84]]
  np.testing.assert_allclose(uniform, expected, rtol=1e-6)


@pytest.mark.slow
def test_calendar_cross_entropy_without_smoothing_is_plain():
  counts = (4, 9, 12)
  logits = [random_logits(6, count, count) for count in counts]
  labels = jnp.array([[g, 2 * g, 3 * g] for g in (0, 1, 2, 3, 1, 0)])
  heads = [
    optax.softmax_cross_entropy_with_integer_labels(
      values, labels[:, head]
    ).mean()
    for head, values in enumerate(logits)
  ]
  mean = calendar_cross_entropy(logits, labels)
  np.testing.assert_allclose(mean, np.mean(heads), rtol=1e-6)
  total = calendar_cross_entropy(logits, labels, reduction="sum")
  np.testing.assert_allclose(total, np.sum(heads), rtol=1e-6)


def test_smoothed_cross_entropy_by_hand():
  p = np.array([0.5, 0.25, 0.25])
  logits = [np.log(p)[None]] * 3
  loss = calendar_cross_entropy(
    logits, jnp.array([[0, 1, 2]]), eps=0.2, reduction="sum"
  )
  log = np.log(p)
  expected = -(
    (0.8 * log[0] + 0.2 * log[1])
    + (0.1 * log[0] + 0.8 * log[1] + 0.1 * log[2])
    + (0.2 * log[1] + 0.8 * log[2])
  )
  np.testing.assert_allclose(loss, expected, rtol=1e-6)


@pytest.mark.slow
def test_interval_loss_is_least_at_the_interval_and_skips_empty_rows():
  target = np.array([[0.5, 0.5, 0, 0], [0, 0, 0, 0]])
  matching = np.log(np.maximum(target, 1e-9))
  loss = losses.interval_calendar_cross_entropy(
    [jnp.array(matching)], [jnp.array(target)]
  )
  # Entropy of the first row, halved by the empty second one.
  np.testing.assert_allclose(loss, np.log(2) / 2, rtol=1e-6)
  other = losses.interval_calendar_cross_entropy(
    [jnp.array(matching[:, ::-1])], [jnp.array(target)]
  )
  assert other > loss


def loop_over_pairs(similarities, labels):
  """Returns the ranking loss as it is written, in float64."""
  rows = []
  for s, y in zip(similarities.astype(float), labels, strict=True):
    pairs = itertools.product(range(len(s)), repeat=2)
    wrong = [np.exp(20 * (s[k] - s[j])) for j, k in pairs if y[j] > y[k]]
    rows.append(np.log1p(sum(wrong)))
  return np.mean(rows)


def mean_cosent_loss(similarities, labels):
  return losses.cosent_loss(similarities, labels).mean()


@pytest.mark.slow
def test_cosent_is_the_loop_over_pairs():
  rng = np.random.default_rng(3)
  similarities = rng.uniform(size=(4, 9)).astype(np.float32)
  labels = rng.integers(0, 4, (4, 9)).astype(np.float32)  # with ties
  compute = jax.jit(jax.value_and_grad(mean_cosent_loss))
  loss, gradient = compute(similarities, labels)
  expected = loop_over_pairs(similarities, labels)
  np.testing.assert_allclose(loss, expected, rtol=1e-5)
  for row, column in ((0, 0), (2, 5)):
    moved = similarities.astype(float)
    moved[row, column] += 1e-5
    slope = (loop_over_pairs(moved, labels) - expected) / 1e-5
    np.testing.assert_allclose(gradient[row, column], slope, atol=1e-3)


@pytest.mark.slow
def test_cosent_counts_order_alone():
  compute = jax.jit(jax.value_and_grad(mean_cosent_loss))
  labels = jnp.array([[3.0, 2.0, 1.0]])
  right, _ = compute(labels, labels)
  assert right < 1e-6
  loss, gradient = compute(labels, jnp.ones((1, 3)))  # nothing to compare
  assert loss == 0
  assert not jnp.any(gradient)
  wrong, gradient = compute(-1e3 * labels, labels)
  assert jnp.isfinite(wrong)
  assert jnp.isfinite(gradient).all()
