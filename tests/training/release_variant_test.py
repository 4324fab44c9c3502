"""The released code's training, switched on field by field."""

import functools
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special

from ctd_jax.models import temporal_bias
from ctd_jax.models.calendar_heads import Gaussians
from ctd_jax.models.dual_encoder import DualEncoder
from ctd_jax.models.encoding import Encoding
from ctd_jax.training import backbone, devices
from ctd_jax.training import config as training_config
from ctd_jax.training.objective import Objective
from ctd_jax.training.pairs import PairLoss
from ctd_jax_configs import bert, e5_small, qwen, small, tiny
from tests import synthetic
from tests.models import published_folder
from tests.training import synthetic_run

MESH = devices.make_mesh(1)


def field(config, name):
  for part in name.split("."):
    config = config[part]
  return config


def numpy_bias(offset, query_u, record_u):
  """The released bias of pairs in float64, and its gradient backwards.

  Returns:
    Bias [B, B], and a function of its cotangent to (query_u, record_u, offset).
  """
  frequencies = temporal_bias.offset_frequencies(4, "release")  # bias_dim / 2
  delta = record_u[None, :] - query_u[:, None]
  angles = delta[..., None] * frequencies
  features = np.concatenate([np.sin(angles), np.cos(angles)], axis=-1)
  hidden = features @ offset["hidden_kernel"] + offset["hidden_bias"]
  value = np.maximum(hidden, 0) @ offset["out_kernel"] + offset["out_bias"]

  def backward(d_bias):
    d_value = (d_bias * offset["scale"])[..., None]
    d_hidden = d_value * offset["out_kernel"][:, 0] * (hidden > 0)
    d_sine, d_cosine = np.split(d_hidden @ offset["hidden_kernel"].T, 2, -1)
    d_angles = d_sine * np.cos(angles) - d_cosine * np.sin(angles)
    d_delta = d_angles @ frequencies
    return (
      -d_delta.sum(1),
      d_delta.sum(0),
      {
        "hidden_kernel": np.einsum("qnf,qnu->fu", features, d_hidden),
        "hidden_bias": d_hidden.sum((0, 1)),
        "out_kernel": np.einsum("qnu,qnv->uv", np.maximum(hidden, 0), d_value),
        "out_bias": d_value.sum((0, 1)),
        "scale": (d_bias * value[..., 0]).sum(),
      },
    )

  return offset["scale"] * value[..., 0], backward


def numpy_direction(logits, is_positive):
  """The loss of one direction in float64, and its gradient in the logits."""
  columns = logits.shape[1]
  mask = np.pad(is_positive, ((0, 0), (0, columns - is_positive.shape[1])))
  p = special.softmax(logits, axis=1)
  positive = (p * mask).sum(1, keepdims=True)
  gradient = p - p * mask / positive
  return -np.log(positive).mean(), gradient / len(logits)


def numpy_release(vectors, scalars, offset, overlap, processes):
  """Loss and gradient of the release over processes, written as they run.

  Args:
    vectors: of queries [B, D], positives [B, D] and hard negatives [B*H, D].
    scalars: of queries and positives.
    offset: parameters of the bias.
    overlap: which query's interval meets which positive's.
    processes: that share the batch; one of them gathers nothing.
  """
  temperature, size = 0.05, len(overlap) // processes
  query, positive, negative = vectors
  gallery = np.concatenate([positive, negative])
  losses = []
  d_query, d_gallery = np.zeros_like(query), np.zeros_like(gallery)
  d_scalars = [np.zeros_like(scalar) for scalar in scalars]
  d_offset = jax.tree.map(np.zeros_like, offset)
  for process in range(processes):
    own = slice(process * size, (process + 1) * size)
    bias, backward = numpy_bias(offset, *(scalar[own] for scalar in scalars))
    forward_logits = query[own] @ gallery.T / temperature
    forward_logits[:, own] += bias
    backward_logits = positive[own] @ query.T / temperature
    backward_logits[:, own] += bias.T
    forward, d_forward = numpy_direction(forward_logits, overlap[own])
    back, d_back = numpy_direction(backward_logits, overlap.T[own])
    losses.append((forward + back) / 2)
    # Averaged over the processes, as their gradients are.
    d_forward, d_back = d_forward / 2 / processes, d_back / 2 / processes
    d_query[own] += d_forward @ gallery / temperature
    d_gallery[own] += d_back @ query / temperature
    if processes == 1:  # several gather without gradient
      d_gallery += d_forward.T @ query / temperature
      d_query += d_back.T @ positive / temperature
    *d_own_scalars, d_own_offset = backward(
      d_forward[:, own] + d_back[:, own].T
    )
    for d_scalar, d_own in zip(d_scalars, d_own_scalars, strict=True):
      d_scalar[own] += d_own
    d_offset = jax.tree.map(np.add, d_offset, d_own_offset)
  return np.mean(losses), (d_query, d_gallery), d_scalars, d_offset


@pytest.mark.slow
@pytest.mark.parametrize("processes", [1, 2, 4])
def test_loss_and_gradient_of_several_processes(processes):
  size, width = 8, 16
  config = synthetic.config("ctd-release")
  config.model.bias_scale_init = 0.3
  config.loss.emulated_processes = processes
  model = synthetic_run.make_model(config)
  objective = Objective.from_config(config, model, MESH)
  rng = np.random.default_rng(processes)
  text = jnp.ones((1, 1), jnp.int32)
  variables = jax.jit(model.init)(jax.random.key(0), text, text)
  offset = variables["params"]["offset"]
  vectors = [rng.normal(size=(rows, width)) for rows in (size, size, 2 * size)]
  vectors = [x / np.linalg.norm(x, axis=1, keepdims=True) for x in vectors]
  scalars = [rng.uniform(size=rows) for rows in (size, size, 2 * size)]
  starts = rng.integers(0, 40, size)
  ends = starts + rng.integers(0, 12, size)
  months = rng.integers(starts, ends + 1)
  batch = {
    "query_ends": jnp.stack([starts, ends], axis=1),
    "positive_month": jnp.asarray(months),
    "negative_month": jnp.asarray(rng.integers(0, 48, 2 * size)),
    "negative_answers": jnp.zeros(2 * size, bool),
  }
  overlap = (starts[:, None] <= months) & (months <= ends[:, None])
  assert overlap.sum() > size  # not the diagonal alone

  def encode(vector, scalar):
    rows = len(scalar)
    logits = tuple(
      jnp.zeros((rows, n)) for n in synthetic.TIMELINE.class_counts
    )
    return Encoding(
      jnp.full_like(vector, jnp.nan),  # the plain vectors are not read
      vector,
      scalar,
      logits,
      jnp.zeros((rows, 0)),
      Gaussians(*[jnp.zeros((rows, 0))] * 2),
      jnp.full((rows, 2), -1, jnp.int32),
    )

  @jax.jit
  @functools.partial(jax.value_and_grad, argnums=(0, 1, 2))
  def ours(vectors, scalars, offset):
    apply = functools.partial(model.apply, {"params": {"offset": offset}})
    query, positive, negative = map(encode, vectors, scalars)
    record = jax.tree.map(
      lambda ours, others: jnp.concatenate(
        [ours[:, None], others.reshape(size, 2, *others.shape[1:])], axis=1
      ).reshape(3 * size, *ours.shape[1:]),
      positive,
      negative,
    )
    contrastive = PairLoss(
      apply,
      MESH,
      objective.loss,
      objective.score_mode,
      objective.pair_loss,
    )
    return contrastive.compute(query, record, batch)[0]

  as_fp32 = functools.partial(
    jax.tree.map, lambda x: jnp.asarray(x, jnp.float32)
  )
  loss, (d_vectors, d_scalars, d_offset) = ours(
    as_fp32(vectors), as_fp32(scalars), offset
  )
  expected, (d_query, d_gallery), d_expected_scalars, d_expected_offset = (
    numpy_release(
      vectors,
      scalars[:2],
      jax.tree.map(lambda x: np.asarray(x, np.float64), offset),
      overlap,
      processes,
    )
  )
  close = functools.partial(np.testing.assert_allclose, rtol=2e-4, atol=2e-6)
  close(loss, expected, rtol=1e-5)
  close(d_vectors[0], d_query)
  close(np.concatenate(d_vectors[1:]), d_gallery)
  jax.tree.map(close, list(d_scalars[:2]), d_expected_scalars)
  jax.tree.map(close, dict(d_offset), d_expected_offset)
  assert not d_scalars[2].any()  # hard negatives have no bias
  assert d_vectors[2].any() == (processes == 1)
  assert np.abs(d_expected_offset["hidden_kernel"]).max() > 1e-5


@pytest.mark.parametrize(
  ("variant", "entries", "reduction"),
  [
    ("release", training_config.REPAIRS, "mean"),
    ("paper", training_config.PAPER, "sum"),
  ],
)
def test_a_variant_sets_every_value(variant, entries, reduction):
  c = training_config.base_config()
  training_config.apply_method(c, f"ctd-{variant}")
  for values in entries.values():
    for name, value in values.items():
      assert field(c, name) == value, name
  assert sum(c.negatives.values()) == 1
  assert c.score_mode == "ctd"
  assert c.loss.calendar_reduction == reduction
  c.name = "run"
  training_config.validate(c)


@pytest.mark.parametrize("name", training_config.REPAIRS)
def test_one_repair_is_undone_and_no_other(name):
  c, repaired = training_config.base_config(), training_config.base_config()
  training_config.apply_method(c, f"ctd-no_{name}")
  changed = {
    path
    for values in training_config.REPAIRS.values()
    for path in values
    if field(c, path) != field(repaired, path)
  }
  assert changed
  assert changed <= set(training_config.REPAIRS[name])


@pytest.mark.parametrize("module", [bert, e5_small, qwen, small, tiny])
def test_configs_take_variants(module):
  c = module.get_config("bias-release")
  assert c.name.startswith("bias-release-")
  assert c.model.use_bias
  assert not c.model.use_context
  assert c.loss.calendar_weight == 0.1
  assert c.loss.emulated_processes == (2 if module is qwen else 1)


def test_only_the_release_supervises_no_head_it_lacks():
  c = training_config.base_config()
  training_config.apply_method(c, "ft-release")
  assert c.loss.calendar_weight == 0


@pytest.mark.parametrize("argument", ["ctd-new", "ctd-no_luck", "cdt-release"])
def test_an_unknown_variant_is_named(argument):
  with pytest.raises(ValueError, match="expected one of"):
    training_config.apply_method(training_config.base_config(), argument)


@pytest.mark.parametrize(
  ("field", "value", "message"),
  [
    ("bias_columns", "positives", "bias_columns='positives'"),
    ("emulated_processes", 2, "emulated_processes=2: the posterior"),
  ],
)
def test_released_losses_do_not_go_with_the_posterior(field, value, message):
  config = synthetic.config("posterior")
  config.loss[field] = value
  with pytest.raises(ValueError, match=message):
    training_config.validate(config)


@pytest.mark.parametrize(
  ("argument", "dtype", "rate"),
  [("ft-release", "float32", 0.1), ("ft", "bfloat16", 0.0)],
)
def test_a_published_encoder_is_as_released(argument, dtype, rate, tmp_path):
  folder = published_folder.write(tmp_path / "published", ["元年"], "bert")
  fields = json.loads((folder / "config.json").read_text())
  fields["attention_probs_dropout_prob"] = 0.1
  (folder / "config.json").write_text(json.dumps(fields))
  config = bert.get_config(argument)
  config.model.encoder.source = str(folder)
  for saved_folder in (None, tmp_path / "saved"):  # begun, and resumed
    made = backbone.read_published_backbone(config.model, saved_folder)
    encoder = made.encoder
    assert (encoder.dtype, encoder.attention_dropout) == (dtype, rate)
    assert encoder.dropout == fields["hidden_dropout_prob"] == 0.1
    made.save(tmp_path / "saved")


def test_a_rate_can_be_given_to_a_release():
  config = qwen.get_config("ctd-release")
  assert config.model.encoder.attention_dropout is None
  config.model.encoder.attention_dropout = 0.2  # as a flag does
  assert config.model.encoder.to_dict()["attention_dropout"] == 0.2
  config = small.get_config("ctd-release")
  assert config.model.encoder.attention_dropout == 0.0


def test_released_modules_start_as_released():
  config = synthetic.config("ctd-release")
  model = synthetic_run.make_model(config)
  assert isinstance(model, DualEncoder)
  made = model.config
  assert (made.codebook, made.offset_features) == ("release", "release")
  assert made.scalar_axis == "release"
  assert (made.gate_init, made.bias_scale_init) == (1.0, 0.0)
