"""Losses: golden values by hand, and properties of the masks."""

import itertools
import re

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from ctd_jax.chronology import reigns
from ctd_jax.training import config as training_config
from ctd_jax.training import date_losses, losses, pairs

# Rows are queries; the last column is a hard negative.
LOGITS = np.log(
  np.array([[4.0, 2.0, 1.0, 1.0], [1.0, 5.0, 2.0, 2.0], [3.0, 3.0, 3.0, 1.0]])
)
REDUCTIONS = ("sum_inside", "mean_outside")


def whole_nce(logits, mask, reduction="sum_inside"):
  """Returns the loss of all rows at once; other columns are negatives."""
  mask = jnp.pad(mask, ((0, 0), (0, logits.shape[1] - len(mask))))
  nce = losses.Nce(reduction=reduction)
  return nce.finish(nce.sum_scores(logits, mask), mask.sum(axis=1))


# Compiled once per shape; without jit every operation is compiled alone.
nce = jax.jit(whole_nce, static_argnames="reduction")
nce_gradient = jax.jit(
  jax.value_and_grad(whole_nce), static_argnames="reduction"
)
calendar_cross_entropy = jax.jit(
  date_losses.calendar_cross_entropy, static_argnames=("eps", "reduction")
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
    nce = losses.Nce(reduction=reduction)
    sums = nce.sum_scores(
      logits.reshape(4, blocks, -1), mask.reshape(4, blocks, -1)
    )
    return nce.finish(nce.join(sums, 1), mask.sum(axis=1))

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
  mask = pairs.interval_mask(jnp.array(ends), jnp.arange(12))
  keys = [reigns.TimeKey(1, 1, month) for month in range(1, 13)]
  intervals = [reigns.Interval(keys[a], keys[b]) for a, b in ends]
  months = map(reigns.Interval.single_month, keys)
  expected = [[each.overlaps(month) for each in intervals] for month in months]
  np.testing.assert_array_equal(mask.T, expected)


@pytest.mark.slow
def test_smoothing_goldens():
  targets = date_losses.smoothed_targets(jnp.array([0, 2, 4]), 5, 0.2)
  expected = [[0.8, 0.2, 0, 0, 0], [0, 0.1, 0.8, 0.1, 0], [0, 0, 0, 0.2, 0.8]]
  np.testing.assert_allclose(targets, expected, rtol=1e-6)
  plain = date_losses.smoothed_targets(jnp.array([0, 2, 4]), 5, 0.0)
  np.testing.assert_array_equal(plain, np.eye(5)[[0, 2, 4]])
  alone = date_losses.smoothed_targets(jnp.array([0]), 1, 0.2)
  np.testing.assert_array_equal(alone, [[1.0]])
  uniform = date_losses.smoothed_targets(jnp.array([0, 4]), 5, 0.2, "uniform")
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
  loss = date_losses.interval_calendar_cross_entropy(
    [jnp.array(matching)], [jnp.array(target)]
  )
  # Entropy of the first row, halved by the empty second one.
  np.testing.assert_allclose(loss, np.log(2) / 2, rtol=1e-6)
  other = date_losses.interval_calendar_cross_entropy(
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
  return date_losses.cosent_loss(similarities, labels).mean()


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


def make_pairs(has_teacher=True):
  """Returns three queries and six records; two pairs are masked."""
  rng = np.random.default_rng(5)
  scores = rng.normal(size=(3, 6))
  positives = np.eye(3, 6, dtype=bool)
  positives[0, 2] = True
  valid = np.ones((3, 6), bool)
  valid[0, 4] = valid[2, 3] = False
  teacher = 3 * rng.normal(size=(3, 6))
  taught = valid & (rng.random((3, 6)) < 0.8)
  taught[:, :3] |= np.eye(3, dtype=bool)
  taught[1] = np.eye(6, dtype=bool)[1]  # nothing to compare
  own = np.concatenate([np.eye(3, dtype=bool)] * 2, axis=1)
  if not has_teacher:
    teacher, taught = teacher[:, :0], taught[:, :0]
  scores[~valid] = losses.MASKED_LOGIT
  return losses.Pairs(scores, positives, valid, own, teacher * taught, taught)


def loop_over_rows(name, pairs):
  """Returns a loss as its definition is read, row by row."""
  terms = []
  for i, row in enumerate(pairs.scores):
    columns = range(6)
    taught = np.flatnonzero(pairs.is_taught[i])
    below = [j for j in columns if not pairs.positives[i][j]]
    if name == "softmax":
      total = np.exp(row[[i, *below]]).sum()
      terms.append(-np.log(np.exp(row[i]) / total))
    elif name == "triplet":
      terms.append(max(0, 0.5 + row[below].max() - row[i]))
    elif name == "margin_mse":
      teacher = pairs.teacher[i]
      terms += [
        ((row[i] - row[j]) - 0.5 * (teacher[i] - teacher[j])) ** 2
        for j in taught
        if j != i
      ]
    elif name == "kl" and len(taught) > 1:
      p = np.exp(pairs.teacher[i][taught] / 2)
      q = np.exp(row[taught])
      terms.append((p / p.sum() * np.log(p / p.sum() / (q / q.sum()))).sum())
    elif name == "listmle":
      relevance = pairs.teacher[i] if pairs.teacher.size else pairs.positives[i]
      ranked = taught if pairs.teacher.size else columns
      for j in ranked:
        lower = [k for k in ranked if relevance[k] < relevance[j]]
        if lower and pairs.valid[i][j]:
          total = np.exp(row[[j, *lower]]).sum()
          terms.append(-np.log(np.exp(row[j]) / total))
  return np.mean(terms)


@pytest.mark.parametrize(
  ("name", "options", "has_teacher"),
  [
    ("softmax", {}, False),
    ("triplet", {"margin": 0.5}, False),
    ("margin_mse", {"scale": 0.5}, True),
    ("kl", {"temperature": 2.0}, True),
    ("listmle", {}, True),
    ("listmle", {}, False),
  ],
)
def test_losses_are_their_definitions(name, options, has_teacher):
  loss = losses._losses[name](**options)
  rows = make_pairs(has_teacher)
  pairs = jax.tree.map(jnp.asarray, rows)

  @jax.jit
  @jax.value_and_grad
  def compute(scores, is_taught):
    return loss(pairs._replace(scores=scores, is_taught=is_taught))

  value, gradient = compute(pairs.scores, pairs.is_taught)
  np.testing.assert_allclose(value, loop_over_rows(name, rows), rtol=1e-5)
  assert jnp.isfinite(gradient).all()
  assert not gradient[~rows.valid].any()
  if has_teacher:  # without a score of its there is no loss, and no NaN
    value, gradient = compute(pairs.scores, jnp.zeros_like(pairs.is_taught))
    assert value == 0
    assert not gradient.any()


@pytest.mark.parametrize("name", ["margin_mse", "kl"])
def test_nce_is_added_to_the_loss_of_a_teacher(name):
  pairs = jax.tree.map(jnp.asarray, make_pairs())
  alone, both = (
    losses._losses[name](nce=weight)(pairs) for weight in (0.0, 0.5)
  )
  np.testing.assert_allclose(both, alone + 0.5 * losses.Nce()(pairs), rtol=1e-6)


def test_nce_of_a_whole_matrix_is_that_of_its_blocks():
  pairs = jax.tree.map(jnp.asarray, make_pairs(False))
  nce = losses.Nce()
  answers = pairs.positives[:, :3].T
  parts = (pairs.scores, pairs.positives), (pairs.scores[:, :3].T, answers)
  expected = [
    nce.finish(nce.sum_scores(scores, mask), mask.sum(axis=1))
    for scores, mask in parts
  ]
  np.testing.assert_allclose(nce(pairs), np.mean(expected), rtol=1e-6)


MODULE = """
import jax
from ctd_jax.training import losses

@losses.register("{name}")
class Hinge(losses.Loss):
  margin: float = 1.0

  def __call__(self, pairs):
    return jax.nn.relu(self.margin - pairs.scores).mean()
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
  """The current folder, with modules; what is registered is forgotten."""
  (tmp_path / "mine.py").write_text(MODULE.format(name="hinge"))
  (tmp_path / "empty.py").write_text("")
  (tmp_path / "two.py").write_text(
    MODULE.format(name="one") + MODULE.format(name="other")
  )
  (tmp_path / "broken.py").write_text("import no_such_library")
  (tmp_path / "known.py").write_text(MODULE.format(name="kl"))
  monkeypatch.chdir(tmp_path)
  monkeypatch.setattr(losses, "_losses", dict(losses._losses))
  monkeypatch.setattr(losses.sys, "path", list(losses.sys.path))
  yield tmp_path
  for name in ("mine", "empty", "two", "broken", "known"):
    losses.sys.modules.pop(name, None)


def make_loss(**fields):
  section = training_config.base_config().loss
  section.update(fields)
  return losses.make_loss(section)


def try_loss(**fields):
  section = training_config.base_config().loss
  section.update(fields)
  losses.try_loss(section)


def test_a_loss_of_a_module_is_found_with_its_options(folder):
  assert make_loss() == losses.Nce(reduction="sum_inside")
  nce = make_loss(name="nce", reduction="mean_outside")
  assert nce == losses.Nce(reduction="mean_outside")
  loss = make_loss(module="mine", options="margin=2.5")
  assert (type(loss).__name__, loss.margin) == ("Hinge", 2.5)
  hash(loss)  # a static argument of jit
  assert make_loss(module="two", name="other").margin == 1.0
  assert make_loss(module="mine", name="triplet", options="margin=1").margin


@pytest.mark.parametrize(
  ("fields", "message"),
  [
    ({"name": "triplets"}, "no such loss (did you mean 'triplet'?); there are"),
    ({"module": "absent"}, "config.loss.module=absent: no such module in "),
    ({"module": "mine.py"}, "my_losses names my_losses.py"),
    ({"module": "empty"}, "config.loss.module=empty registers no loss"),
    (
      {"module": "two"},
      "loss.module=two registers one, other; take",
    ),
    ({"module": "known"}, "two losses are registered as 'kl', in ctd_jax"),
    (
      {"module": "mine", "options": "margn=2"},
      "the loss hinge has no option 'margn' (did you mean 'margin'?); it has",
    ),
    ({"module": "mine", "options": "margin=wide"}, "config.loss.options='mar"),
    ({"name": "kl"}, "config.loss.name='kl' needs config.loss.teacher"),
    ({"name": "kl", "teacher": "run.trec"}, "teacher=run.trec: no such file"),
    ({"teacher": "run.trec"}, "the loss nce reads no teacher's scores"),
    (
      {"name": "triplet", "emulated_processes": 2},
      "the loss triplet is",
    ),
  ],
)
def test_wrong_losses_are_named(fields, message, folder):
  with pytest.raises(ValueError, match=re.escape(message)):
    make_loss(**fields)


TRIAL = """
import jax
import jax.numpy as jnp
from ctd_jax.training import losses

{line}
class Mine(losses.Loss):
  TEACHER = "{teacher}"

  def __call__(self, {arguments}):
    return {value}
"""


@pytest.mark.parametrize(
  ("fields", "message"),
  [
    ({"value": "pairs.scores.mean(1)"}, "an array of shape (4,) for 4 queries"),
    ({"value": "pairs.scores.mean() * jnp.nan"}, "the loss of Mine is not"),
    (
      {"value": "jnp.sqrt(jnp.diagonal(pairs.scores) * 0).sum()"},
      "the gradient of Mine is not finite",
    ),
    ({"arguments": "scores, labels"}, "takes one argument, the pairs"),
    (
      {"line": "@losses.register('f')\ndef f(pairs): ..."},
      "stands above f, which is not a subclass",
    ),
  ],
)
def test_a_wrong_loss_is_found_before_data(fields, message, folder):
  defaults = {
    "line": "@losses.register('trial')",
    "teacher": "unused",
    "arguments": "pairs",
    "value": "jax.nn.relu(pairs.scores).mean()",
  }
  (folder / "mine.py").write_text(TRIAL.format(**defaults | fields))
  with pytest.raises(ValueError, match=re.escape(message)):
    try_loss(module="mine")


def test_code_that_fails_says_what_it_was_called_with(folder):
  code = TRIAL.format(
    line="@losses.register('trial')",
    teacher="optional",
    arguments="pairs",
    value="(pairs.scores - pairs.teacher).mean()",
  )
  (folder / "mine.py").write_text(code)
  with pytest.raises(TypeError) as failure:
    try_loss(module="mine")
  assert any("TEACHER = 'optional'" in n for n in failure.value.__notes__)
  (folder / "run.trec").touch()
  try_loss(module="mine", teacher="run.trec")
  before = losses.hash_module("mine")
  (folder / "mine.py").write_text(code + "\n")
  assert losses.hash_module("mine") not in ("", before)


def test_an_error_inside_a_module_is_its_own(folder):
  with pytest.raises(ModuleNotFoundError, match="no_such_library"):
    make_loss(module="broken")
