"""Losses: golden values by hand, and properties of the masks."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from ctd_jax.chronology import timelines
from ctd_jax.training import config as training_config
from ctd_jax.training import losses

# Rows are queries; the last column is a hard negative.
LOGITS = np.log(
  np.array([[4.0, 2.0, 1.0, 1.0], [1.0, 5.0, 2.0, 2.0], [3.0, 3.0, 3.0, 1.0]])
)
EYE = np.eye(3, dtype=bool)

# Compiled once per shape; without jit every operation is compiled alone.
nce = jax.jit(losses.multi_positive_nce, static_argnames="reduction")
nce_gradient = jax.jit(
  jax.value_and_grad(losses.multi_positive_nce), static_argnames="reduction"
)
symmetric_nce = jax.jit(losses.symmetric_nce, static_argnames="reduction")
calendar_cross_entropy = jax.jit(
  losses.calendar_cross_entropy, static_argnames=("eps", "reduction")
)


def random_logits(rows=5, columns=8, seed=0):
  return jax.random.normal(jax.random.key(seed), (rows, columns)) * 3


@pytest.mark.slow
def test_identity_mask_is_symmetric_info_nce():
  logits = random_logits()
  block, labels = logits[:, :5], jnp.arange(5)
  cross_entropy = optax.softmax_cross_entropy_with_integer_labels
  expected = 0.5 * (
    cross_entropy(logits, labels).mean() + cross_entropy(block.T, labels).mean()
  )
  for mask, reduction in itertools.product(
    (None, jnp.eye(5, dtype=bool)), training_config.NCE_REDUCTIONS
  ):
    loss = symmetric_nce(logits, block.T, mask, reduction)
    np.testing.assert_allclose(loss, expected, rtol=1e-6)


def test_nce_by_hand():
  mask = np.array([[1, 1, 0], [0, 1, 0], [1, 0, 1]], bool)
  inside = nce(LOGITS, mask, "sum_inside")
  expected = -np.mean(np.log([6 / 8, 5 / 10, 6 / 10]))
  np.testing.assert_allclose(inside, expected, rtol=1e-6)
  outside = nce(LOGITS, mask, "mean_outside")
  rows = [np.log([4 / 8, 2 / 8]).mean(), np.log(0.5), np.log(0.3)]
  np.testing.assert_allclose(outside, -np.mean(rows), rtol=1e-6)


def test_the_backward_direction_uses_the_transposed_mask():
  mask = np.array([[1, 1, 0], [0, 1, 0], [0, 0, 1]], bool)
  loss = symmetric_nce(LOGITS, LOGITS[:, :3].T, mask)
  forward = -np.log([6 / 8, 5 / 10, 3 / 10]).mean()
  backward = -np.log([4 / 8, 7 / 10, 3 / 6]).mean()
  np.testing.assert_allclose(loss, (forward + backward) / 2, rtol=1e-6)


def test_all_ones_mask_leaves_the_mass_on_the_positive_block():
  loss = nce(LOGITS, np.ones((3, 3), bool))
  expected = -np.log([7 / 8, 8 / 10, 9 / 10]).mean()
  np.testing.assert_allclose(loss, expected, rtol=1e-6)


def test_a_row_without_positives_gets_its_diagonal():
  empty = nce(LOGITS, np.zeros((3, 3), bool))
  own = nce(LOGITS, EYE)
  np.testing.assert_array_equal(empty, own)
  # A row that has a positive elsewhere is not rescued.
  mask = np.array([[0, 1, 0], [0, 1, 0], [0, 0, 1]], bool)
  loss = nce(LOGITS, mask)
  expected = -np.log([2 / 8, 5 / 10, 3 / 10]).mean()
  np.testing.assert_allclose(loss, expected, rtol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("reduction", training_config.NCE_REDUCTIONS)
def test_negatives_are_only_ever_pushed_away(reduction):
  _, gradient = nce_gradient(random_logits(), jnp.ones((5, 5), bool), reduction)
  assert (gradient[:, 5:] > 0).all()
  np.testing.assert_allclose(gradient.sum(1), 0, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("reduction", training_config.NCE_REDUCTIONS)
def test_extreme_logits_keep_loss_and_gradient_finite(reduction):
  logits = jnp.array([[-1e4, 1e4, 0.0], [1e4, -1e4, 0.0]])
  loss, gradient = nce_gradient(logits, jnp.eye(2, dtype=bool), reduction)
  assert loss == 2e4
  assert jnp.isfinite(gradient).all()


def test_only_mean_outside_asks_for_every_positive():
  both = jnp.ones((2, 2), bool)
  logits = jnp.array([[20.0, -20.0], [20.0, -20.0]])
  assert nce(logits, both, "sum_inside") < 1e-6
  assert nce(logits, both, "mean_outside") > 19


@pytest.mark.slow
def test_losses_are_fp32_for_bf16_logits():
  logits = random_logits().astype(jnp.bfloat16)
  loss = symmetric_nce(logits, logits[:, :5].T)
  assert loss.dtype == jnp.float32
  exact = symmetric_nce(
    logits.astype(jnp.float32), logits[:, :5].T.astype(jnp.float32)
  )
  np.testing.assert_array_equal(loss, exact)


@pytest.mark.slow
def test_interval_mask_is_overlap():
  ends = [(0, 0), (0, 3), (2, 5), (4, 4), (6, 9), (9, 9)]
  start, end = jnp.array(ends).T
  mask = losses.interval_mask(start, end, start, end)
  keys = [timelines.TimeKey(1, 1, month) for month in range(1, 13)]
  intervals = [timelines.Interval(keys[a], keys[b]) for a, b in ends]
  expected = [[a.overlaps(b) for b in intervals] for a in intervals]
  np.testing.assert_array_equal(mask, expected)
  np.testing.assert_array_equal(mask, mask.T)
  swapped = losses.interval_mask(end, start, start, end)
  np.testing.assert_array_equal(mask, swapped)


@pytest.mark.slow
def test_neighbour_smoothing_goldens():
  targets = losses.neighbour_targets(jnp.array([0, 2, 4]), 5, 0.2)
  expected = [[0.8, 0.2, 0, 0, 0], [0, 0.1, 0.8, 0.1, 0], [0, 0, 0, 0.2, 0.8]]
  np.testing.assert_allclose(targets, expected, rtol=1e-6)
  plain = losses.neighbour_targets(jnp.array([0, 2, 4]), 5, 0.0)
  np.testing.assert_array_equal(plain, np.eye(5)[[0, 2, 4]])
  alone = losses.neighbour_targets(jnp.array([0]), 1, 0.2)
  np.testing.assert_array_equal(alone, [[1.0]])


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


def test_unknown_options_are_named():
  with pytest.raises(ValueError, match="'max'"):
    losses.multi_positive_nce(jnp.array(LOGITS), jnp.array(EYE), "max")
  with pytest.raises(ValueError, match="column per row"):
    losses.multi_positive_nce(jnp.array(LOGITS[:, :2]), jnp.array(EYE))
  with pytest.raises(ValueError, match="'max'"):
    losses.interval_calendar_cross_entropy(
      [jnp.array(LOGITS)], [jnp.array(LOGITS)], "max"
    )


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
