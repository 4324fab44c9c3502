"""Contrastive loss: the plain one of whole matrices, however it is blocked."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special

from ctd_jax.models.encoders.bert import BertConfig
from ctd_jax.training import contrastive, partitioning, train_step
from ctd_jax.training.contrastive import ContrastiveLoss
from ctd_jax.training.objective import Objective
from tests import synthetic

SIZE, HARD = 16, 2  # queries, hard negatives of each
MONTHS = len(synthetic.TIMELINE.months)


@pytest.mark.parametrize(
  ("size", "records", "shards", "blocks"),
  [
    (64, 1, 1, (1, 1)),
    (64, 8, 1, (1, 1)),
    (4096, 2, 1, (16, 64)),
    (4096, 2, 8, (2, 64)),
    (4096, 4, 8, (2, 128)),
    (61, 4096, 1, (61, 61)),
    (509, 2, 1, (1, 509)),
  ],
)
def test_blocks_are_alike_and_small(size, records, shards, blocks):
  assert contrastive.count_blocks(size, records, shards) == blocks
  row_blocks, column_blocks = blocks
  assert size % column_blocks == size % (row_blocks * shards) == 0
  pairs = size // shards // row_blocks * (size // column_blocks) * records
  assert pairs <= contrastive._PAIRS_PER_BLOCK


def make_batch():
  """Returns the dates of a batch; some positives answer no query."""
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


def plain_direction(logits, is_positive, reduction):
  """Returns the mean loss of the rows of a whole matrix, in float64."""
  size = len(logits)
  for row in range(size):
    if not is_positive[row].any():
      is_positive[row, row] = True
  log_p = logits - special.logsumexp(logits, axis=1, keepdims=True)
  rows = [
    -special.logsumexp(row[: len(mask)][mask])
    if reduction == "sum_inside"
    else -row[: len(mask)][mask].mean()
    for row, mask in zip(log_p, is_positive, strict=True)
  ]
  return np.mean(rows)


def plain_loss(positive_scores, negative_scores, batch, loss):
  """Returns loss and share of right first records of whole matrices."""
  (first, last), months = batch["query_ends"].T, batch["positive_month"]
  overlap = (first[:, None] <= months) & (months <= last[:, None])
  hard = batch["negative_month"]
  answers = (first[:, None] <= hard) & (hard <= last[:, None])
  negative_scores = np.where(
    answers & batch["negative_answers"], -np.inf, negative_scores
  )
  assert np.isneginf(negative_scores).any()
  mask = overlap if loss.multi_positive else np.eye(SIZE, dtype=bool)
  scores = np.concatenate([positive_scores, negative_scores], axis=1)
  forward = plain_direction(scores, mask.copy(), loss.reduction)
  backward = plain_direction(positive_scores.T, mask.T.copy(), loss.reduction)
  top = scores.argmax(axis=1)
  is_correct = np.pad(overlap, ((0, 0), (0, SIZE * HARD)))[range(SIZE), top]
  return (forward + backward) / 2, is_correct.mean()


@pytest.mark.slow
@pytest.mark.usefixtures("quick_compile")
@pytest.mark.parametrize(
  ("method", "fields"),
  [
    ("ft", {"reduction": "mean_outside"}),
    ("ft", {"multi_positive": False}),
    ("ctd", {}),
    ("ctd", {"reduction": "mean_outside"}),
    ("posterior", {}),
    ("ctd-release", {"emulated_processes": 4}),
  ],
)
def test_blocks_change_neither_loss_nor_gradient(method, fields, monkeypatch):
  config = synthetic.config(method)
  config.loss.update(fields)
  encoder = BertConfig(50, **config.model.encoder.to_dict())
  model = train_step.make_model(config.model, encoder, synthetic.TIMELINE)
  rng = np.random.default_rng(1)
  ids = jnp.asarray(rng.integers(5, 50, (SIZE * (2 + HARD), 8)), jnp.int32)
  mask = jnp.ones_like(ids)
  params = jax.jit(model.init)(jax.random.key(0), ids, mask)["params"]
  batch = make_batch()

  def split_encodings(params):
    encoding = model.apply({"params": params}, ids, mask, method="encode")
    return (
      jax.tree.map(lambda x, rows=rows: x[rows], encoding)
      for rows in (slice(SIZE), slice(SIZE, None))
    )

  def differentiate(devices, pairs):
    monkeypatch.setattr(contrastive, "_PAIRS_PER_BLOCK", pairs)
    mesh = partitioning.make_mesh(devices)
    loss = Objective.from_config(config, model, mesh).loss

    def compute(params, batch):
      apply = functools.partial(model.apply, {"params": params})
      compute_loss = ContrastiveLoss(apply, mesh, loss, config.score_mode)
      return compute_loss.compute(*split_encodings(params), batch)

    compute = jax.jit(jax.value_and_grad(compute, has_aux=True))
    return compute(params, partitioning.make_global_batch(batch, mesh))

  (loss, accuracy), gradient = differentiate(1, 10**6)
  if not fields.get("emulated_processes"):
    query, record = split_encodings(params)
    scores = model.apply(
      {"params": params}, query, record, config.score_mode, method="score"
    )
    scores = np.asarray(scores, np.float64).reshape(SIZE, SIZE, 1 + HARD)
    expected = plain_loss(
      scores[..., 0], scores[..., 1:].reshape(SIZE, -1), batch, config.loss
    )
    np.testing.assert_allclose((loss, accuracy), expected, rtol=1e-5)
  scale = max(np.abs(x).max() for x in jax.tree.leaves(gradient))
  for devices, pairs, blocks in ((1, 36, (4, 8)), (8, 3, (2, 16))):
    (block_loss, block_accuracy), block_gradient = differentiate(devices, pairs)
    assert contrastive.count_blocks(SIZE, 1 + HARD, devices) == blocks
    np.testing.assert_allclose(block_loss, loss, rtol=1e-6)
    assert block_accuracy == accuracy
    jax.tree.map(
      lambda ours, whole: np.testing.assert_allclose(
        ours, whole, atol=2e-6 * scale, rtol=1e-4
      ),
      block_gradient,
      gradient,
    )
