"""Contrastive loss: the plain one of whole matrices, however it is blocked."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ctd_jax.models.dual_encoder import ENCODER
from ctd_jax.training import devices as devices_lib
from ctd_jax.training import losses
from ctd_jax.training import pairs as pairs_lib
from ctd_jax.training.objective import Objective
from ctd_jax.training.pairs import PairLoss
from tests import synthetic
from tests.training import synthetic_run

SIZE, HARD = 16, 2  # queries, hard negatives of each
MONTHS = len(synthetic.TIMELINE.months)


@pytest.mark.parametrize(
  ("size", "records", "shards", "blocks"),
  [
    (64, 1, 1, (1, 1)),
    (64, 8, 1, (1, 1)),
    (256, 1, 1, (4, 1)),
    (48, 64, 1, (1, 6)),
    (4096, 2, 1, (64, 16)),
    (4096, 2, 8, (8, 16)),
    (4096, 4, 8, (8, 32)),
    (509, 2, 1, (509, 1)),
  ],
)
def test_blocks_are_alike_and_small(size, records, shards, blocks):
  assert pairs_lib.count_blocks(size, records, shards) == blocks
  row_blocks, column_blocks = blocks
  assert size % column_blocks == size % (row_blocks * shards) == 0
  pairs = size // shards // row_blocks * (size // column_blocks) * records
  assert pairs <= pairs_lib._PAIRS_PER_BLOCK


def make_batch():
  """Returns the dates of a batch; some positives may answer no query."""
  rng = np.random.default_rng(0)
  starts = rng.integers(0, MONTHS - 12, SIZE)
  ends = starts + rng.integers(0, 12, SIZE)
  months = rng.integers(starts, ends + 1)
  months[::5] = rng.integers(0, MONTHS, len(months[::5]))
  return {
    "query_ends": np.stack([starts, ends], axis=1),
    "positive_month": months,
    "negative_month": rng.integers(0, MONTHS, SIZE * HARD),
    "negative_answers": rng.integers(0, 2, SIZE * HARD).astype(bool),
  }


def plain_direction(scores, is_positive, reduction):
  """Returns the mean loss of the rows of a whole matrix."""
  own = jnp.eye(SIZE, dtype=bool)
  mask = jnp.where(is_positive.any(axis=1, keepdims=True), is_positive, own)
  log_p = jax.nn.log_softmax(scores, axis=1)[:, :SIZE]
  if reduction == "sum_inside":
    rows = jax.nn.logsumexp(jnp.where(mask, log_p, -jnp.inf), axis=1)
  else:
    rows = jnp.where(mask, log_p, 0).sum(axis=1) / mask.sum(axis=1)
  return -rows.mean()


def plain_loss(scores, batch, loss):
  """Returns loss and share of right first records of the scores of all pairs.

  Args:
    scores: of queries against the records of each, [B, B, 1+H].
    batch: from `make_batch`.
    loss: `config.loss`.
  """
  (first, last), months = batch["query_ends"].T, batch["positive_month"]
  overlap = (first[:, None] <= months) & (months <= last[:, None])
  hard = batch["negative_month"]
  answers = (first[:, None] <= hard) & (hard <= last[:, None])
  answers &= batch["negative_answers"]
  assert answers.any()
  positive_scores = scores[..., 0]
  hard_scores = jnp.where(answers, -jnp.inf, scores[..., 1:].reshape(SIZE, -1))
  scores = jnp.concatenate([positive_scores, hard_scores], axis=1)
  is_positive = overlap if loss.multi_positive else np.eye(SIZE, dtype=bool)
  forward = plain_direction(scores, is_positive, loss.reduction)
  backward = plain_direction(positive_scores.T, is_positive.T, loss.reduction)
  is_answer = np.pad(overlap, ((0, 0), (0, SIZE * HARD)))
  is_correct = jnp.asarray(is_answer)[jnp.arange(SIZE), scores.argmax(axis=1)]
  return (forward + backward) / 2, is_correct.mean()


def encode_texts(config):
  """Returns model, parameters without encoder, queries and their records."""
  model = synthetic_run.make_model(config)
  ids = np.random.default_rng(1).integers(5, 50, (SIZE, 2 + HARD, 8))
  ids[::2, 1] = ids[::2, 0]  # positives that are found
  query, record = ids[:, 0], ids[:, 1:].reshape(-1, 8)
  params = jax.jit(model.init)(jax.random.key(0), query, query > 0)["params"]

  @jax.jit
  def encode(ids):
    return model.apply({"params": params}, ids, ids > 0, method="encode")

  score_params = {name: params[name] for name in params if name != ENCODER}
  return model, score_params, encode(query), encode(record)


def differentiate(compute, arguments):
  """Returns loss, metric and gradients of parameters and encodings."""
  # Months of a query are not differentiated, but are in its encoding.
  gradient = jax.value_and_grad(compute, (0, 1, 2), True, allow_int=True)
  (loss, accuracy), gradients = jax.jit(gradient)(*arguments)
  floats = [x for x in jax.tree.leaves(gradients) if x.dtype == jnp.float32]
  return jax.device_get((loss, accuracy, floats))


def differentiate_on(devices, config, model, batch, arguments):
  """Returns the same of the loss of a config on so many devices."""
  mesh = devices_lib.make_mesh(devices)
  objective = Objective.from_config(config, model, mesh)
  sharded_batch = devices_lib.make_global_batch(batch, mesh)
  rows = devices_lib.batch_sharding(mesh)

  def compute(params, *encodings):
    apply = functools.partial(model.apply, {"params": params})
    pair_loss = PairLoss(
      apply, mesh, objective.loss, config.score_mode, objective.pair_loss
    )
    encodings = jax.lax.with_sharding_constraint(encodings, rows)
    loss, metrics = pair_loss.compute(*encodings, sharded_batch)
    return loss, metrics["batch_hit@1"]

  return differentiate(compute, arguments)


def assert_same(ours, expected):
  """Fails where loss, metric or gradients differ by more than rounding."""
  assert max(np.abs(x).max(initial=0) for x in expected[2]) > 1e-3
  np.testing.assert_allclose(ours[0], expected[0], rtol=1e-6)
  assert ours[1] == expected[1]
  for one, other in zip(ours[2], expected[2], strict=True):
    # That of a constant in all scores is 0, but for rounding.
    np.testing.assert_allclose(one, other, atol=1e-6, rtol=1e-4)


def use_blocks(block, devices, monkeypatch):
  """Makes blocks of so many queries and records of so many."""
  rows, columns = block
  assert pairs_lib.count_blocks(SIZE, 1 + HARD, 1) == (1, 1)
  monkeypatch.setattr(pairs_lib, "_ROWS_PER_BLOCK", rows)
  monkeypatch.setattr(
    pairs_lib, "_PAIRS_PER_BLOCK", rows * columns * (1 + HARD)
  )
  num_blocks = pairs_lib.count_blocks(SIZE, 1 + HARD, devices)
  assert num_blocks == (SIZE // devices // rows, SIZE // columns)


@pytest.mark.slow
@pytest.mark.usefixtures("quick_compile")
@pytest.mark.parametrize(
  ("method", "fields", "devices", "block"),
  [
    ("ft", {"reduction": "mean_outside"}, 8, (1, 1)),
    ("ft", {"multi_positive": False}, 1, (4, 2)),
    ("ctd", {}, 8, (2, 8)),
    ("ctd", {"reduction": "mean_outside"}, 1, (4, 16)),
    ("ctd-paper", {}, 8, (2, 2)),
    ("posterior", {}, 1, (16, 2)),
    ("ctd-release", {"emulated_processes": 4}, 1, (2, 8)),
  ],
)
def test_blocks_change_neither_loss_nor_gradient(
  method, fields, devices, block, monkeypatch
):
  config = synthetic.config(method)
  config.loss.update(fields)
  model, *arguments = encode_texts(config)
  batch = make_batch()

  def compute_plain(params, *encodings):
    scores = model.apply(
      {"params": params}, *encodings, config.score_mode, method="score"
    )
    return plain_loss(scores.reshape(SIZE, SIZE, -1), batch, config.loss)

  whole = differentiate_on(1, config, model, batch, arguments)
  expected = whole
  # `release_variant_test` has the plain loss of several processes.
  if config.loss.emulated_processes == 1:
    expected = differentiate(compute_plain, arguments)
  assert 0 < expected[1] < 1
  use_blocks(block, devices, monkeypatch)
  blocks = differentiate_on(devices, config, model, batch, arguments)
  for ours in (whole, blocks):
    assert_same(ours, expected)


@pytest.mark.slow
@pytest.mark.usefixtures("quick_compile")
@pytest.mark.parametrize("name", ["triplet", "margin_mse", "listmle"])
def test_a_loss_of_the_whole_matrix_is_the_same_on_any_devices(
  name, monkeypatch
):
  config = synthetic.config("ctd")
  config.loss.name = name
  batch = make_batch()
  if losses._losses[name].TEACHER == "required":
    config.loss.teacher = __file__  # any file; batches have its scores
    rng = np.random.default_rng(2)
    teacher = rng.normal(size=(SIZE, SIZE * (1 + HARD))).astype(np.float32)
    teacher[rng.random(teacher.shape) < 0.5] = np.nan
    batch["teacher"] = teacher
  model, *arguments = encode_texts(config)
  expected = differentiate_on(1, config, model, batch, arguments)
  use_blocks((2, 8), 8, monkeypatch)
  assert_same(differentiate_on(8, config, model, batch, arguments), expected)
