"""The released code's training, switched on field by field."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ctd_jax.models.dual_encoder import DualEncoder
from ctd_jax.models.encoders.bert import BertConfig
from ctd_jax.training import config as training_config
from ctd_jax.training import partitioning, train_step
from ctd_jax.training.objective import Objective
from ctd_jax_configs import bert, e5_small, qwen, small, tiny
from tests import synthetic

MESH = partitioning.make_mesh(1)
SIZE = 3  # queries; as many positives, twice as many hard negatives


def field(config, name):
  for part in name.split("."):
    config = config[part]
  return config


@pytest.fixture(scope="module")
def world():
  """A model with a bias that is not zero, and encodings of random texts."""
  config = synthetic.config("ctd")
  encoder = BertConfig(50, **config.model.encoder.to_dict())
  model = train_step.make_model(config.model, encoder, synthetic.TIMELINE)
  rng = np.random.default_rng(0)
  ids = jnp.asarray(rng.integers(5, 50, size=(4 * SIZE, 8)), jnp.int32)
  mask = jnp.ones_like(ids)
  variables = jax.jit(model.init)(jax.random.key(0), ids, mask)
  apply = functools.partial(model.apply, variables)
  encode = jax.jit(functools.partial(apply, method="encode"))
  return (
    model,
    apply,
    encode(ids[:SIZE], mask[:SIZE]),
    encode(ids[SIZE:], mask[SIZE:]),
  )


def logits(world, **loss):
  model, apply, query, record = world
  config = synthetic.config("ctd")
  config.loss.update(loss)
  objective = Objective.from_config(config, model, MESH)
  return objective.compute_logits(apply, query, *split(record))


def split(record):
  """Returns positives and hard negatives."""
  return (
    jax.tree.map(lambda x, rows=rows: x[rows], record)
    for rows in (slice(None, SIZE), slice(SIZE, None))
  )


@pytest.mark.slow
def test_what_is_trained_is_the_score(world):
  _, apply, query, record = world
  score = apply(query, record, "ctd", method="score")
  forward, backward = logits(world)
  np.testing.assert_allclose(forward, score, rtol=1e-6)
  np.testing.assert_allclose(backward, score[:, :SIZE].T, rtol=1e-6)


def test_released_negatives_have_no_bias(world):
  _, apply, query, record = world
  score = apply(query, record, "ctd", method="score")
  plain = apply(query, record, "absolute", method="score")
  forward, backward = logits(world, bias_columns="positives")
  np.testing.assert_allclose(forward[:, :SIZE], score[:, :SIZE], rtol=1e-6)
  np.testing.assert_allclose(forward[:, SIZE:], plain[:, SIZE:], rtol=1e-6)
  np.testing.assert_allclose(backward, score[:, :SIZE].T, rtol=1e-6)
  assert np.abs(score - plain)[:, SIZE:].min() > 1e-4


@pytest.mark.slow
def test_gathered_vectors_keep_values_and_lose_gradient(world):
  for ours, theirs in zip(
    logits(world), logits(world, detach_gathered=True), strict=True
  ):
    np.testing.assert_array_equal(ours, theirs)

  def gradients(direction, detach):
    config = synthetic.config("ctd")
    config.loss.detach_gathered = detach

    def total(query, record):
      objective = Objective.from_config(config, world[0], MESH)
      out = objective.compute_logits(world[1], query, *split(record))
      return (out[direction] ** 2).sum()

    query, record = jax.grad(total, (0, 1), allow_int=True)(*world[2:])
    return (
      *(np.asarray(each.absolute) for each in (query, record)),
      *(np.asarray(each.scalar) for each in (query, record)),
    )

  # Queries against records: the records are what was gathered, and the
  # reverse. The offsets keep their gradient on both sides.
  query, record, *offsets = gradients(0, detach=True)
  expected = gradients(0, detach=False)
  assert not record.any()
  np.testing.assert_allclose(query, expected[0], rtol=1e-5)
  for ours, theirs in zip(offsets, expected[2:], strict=True):
    np.testing.assert_allclose(ours, theirs, rtol=1e-5)
    assert np.abs(theirs).max() > 0
  query, record, *_ = gradients(1, detach=True)
  assert not query.any()
  np.testing.assert_allclose(record, gradients(1, detach=False)[1], rtol=1e-5)


def test_the_variant_sets_every_released_value():
  c = training_config.base_config()
  training_config.apply_method(c, "ctd-release")
  for values in training_config.REPAIRS.values():
    for name, value in values.items():
      assert field(c, name) == value, name
  assert sum(c.negatives.values()) == 1
  assert c.score_mode == "ctd"
  assert c.loss.calendar_reduction == "mean"


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
  assert c.loss.detach_gathered == (module is qwen)


def test_only_the_release_supervises_no_head_it_lacks():
  c = training_config.base_config()
  training_config.apply_method(c, "ft-release")
  assert c.loss.calendar_weight == 0


@pytest.mark.parametrize("argument", ["ctd-new", "ctd-no_luck", "cdt-release"])
def test_an_unknown_variant_is_named(argument):
  with pytest.raises(ValueError, match="expected one of"):
    training_config.apply_method(training_config.base_config(), argument)


def test_a_bias_on_positives_does_not_go_with_the_posterior():
  config = synthetic.config("posterior")
  config.loss.bias_columns = "positives"
  with pytest.raises(ValueError, match="bias_columns='positives'"):
    training_config.validate(config)


def test_released_modules_start_as_released():
  config = synthetic.config("ctd-release")
  encoder = BertConfig(50, **config.model.encoder.to_dict())
  model = train_step.make_model(config.model, encoder, synthetic.TIMELINE)
  assert isinstance(model, DualEncoder)
  made = model.config
  assert (made.codebook, made.offset_features) == ("release", "release")
  assert made.scalar_axis == "release"
  assert (made.gate_init, made.bias_scale_init) == (1.0, 0.0)
