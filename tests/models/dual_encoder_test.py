"""Dual encoder: switches, modes, padding, blocks, parameter counts."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ctd_jax.models import dual_encoder, temporal_bias
from ctd_jax.models.encoders import bert

pytestmark = pytest.mark.usefixtures("quick_compile")

ENCODER = bert.BertConfig(
  vocab_size=30,
  hidden_size=8,
  num_layers=1,
  num_heads=2,
  mlp_size=8,
  max_length=9,
  initializer_range=0.3,
)
REIGN_YEARS = (8, 6, 10, 6)
CTD = dual_encoder.CTDConfig(
  encoder=ENCODER,
  class_counts=(4, 10, 12),
  reign_starts=(0, 96, 168, 288),
  month_classes=tuple(
    (reign, year, month)
    for reign, years in enumerate(REIGN_YEARS)
    for year in range(years)
    for month in range(12)
  ),
  context_dim=6,
  bias_dim=8,
)
RELEASE = dataclasses.replace(
  CTD,
  codebook="release",
  offset_features="release",
  scalar_axis="release",
  gate_init=1.0,
  bias_scale_init=0.0,
)
BASELINE = dataclasses.replace(CTD, use_context=False, use_bias=False)


def batch():
  tokens = np.random.default_rng(0).integers(4, 30, (4, 6))
  mask = np.arange(9) < 6 - np.arange(4)[:, None]
  ids = np.pad(tokens, ((0, 0), (0, 3))) * mask
  return jnp.asarray(ids, jnp.int32), jnp.asarray(mask, jnp.int32)


@functools.cache
def initial(config):
  model = dual_encoder.DualEncoder(config)
  return jax.jit(model.init)(jax.random.key(0), *batch())


@functools.cache
def functions(config):
  """Returns jitted encode and score of a configuration."""
  model = dual_encoder.DualEncoder(config)
  encode = jax.jit(functools.partial(model.apply, method="encode"))
  score = jax.jit(
    functools.partial(model.apply, method="score"), static_argnums=3
  )
  return encode, score


def encoded(config, variables=None):
  encode, _ = functions(config)
  return encode(variables or initial(config), *batch())


def take(encoding, rows):
  return jax.tree.map(lambda x: x[rows], encoding)


@pytest.mark.slow
def test_modes_by_hand():
  encoding = encoded(CTD)
  _, score = functions(CTD)
  query, record = take(encoding, slice(0, 3)), encoding
  cosine = {
    name: np.asarray(getattr(query, name)) @ np.asarray(getattr(record, name)).T
    for name in ("semantic", "absolute")
  }
  semantic = score(initial(CTD), query, record, "semantic")
  np.testing.assert_allclose(semantic, cosine["semantic"] / 0.05, atol=1e-4)
  absolute = score(initial(CTD), query, record, "absolute")
  np.testing.assert_allclose(absolute, cosine["absolute"] / 0.05, atol=1e-4)
  assert np.abs(absolute - semantic).max() > 1e-2
  model = dual_encoder.DualEncoder(CTD)
  no_months = [jnp.zeros((len(each.scalar), 0)) for each in (query, record)]
  bias = model.apply(
    *(initial(CTD), query, record, "ctd", *no_months), method="temporal"
  )
  expected = temporal_bias.OffsetBias("index", 8, 360).apply(
    {"params": initial(CTD)["params"]["offset"]}, query.scalar, record.scalar
  )
  np.testing.assert_allclose(bias, expected, atol=1e-6)
  ctd = score(initial(CTD), query, record, "ctd")
  np.testing.assert_allclose(ctd, absolute + bias, rtol=1e-6)
  assert np.abs(bias).max() > 0


@pytest.mark.slow
@pytest.mark.parametrize("config", [CTD, RELEASE])
def test_gate_and_scale_at_zero_are_the_baseline(config):
  variables = jax.tree.map(lambda x: x, initial(config))
  params = variables["params"]
  params["context"]["gate"] = jnp.zeros(())
  params["offset"]["scale"] = jnp.zeros(())
  # The same weights without the temporal parts.
  plain = {"params": {name: params[name] for name in ("encoder", "heads")}}
  baseline = encoded(BASELINE, plain)
  expected = functions(BASELINE)[1](plain, baseline, baseline, "semantic")
  encoding = encoded(config, variables)
  _, score = functions(config)
  for mode in dual_encoder.SCORE_MODES:
    # Another program, so XLA may round otherwise; the parts themselves add
    # nothing to the bit (calendar_heads_test).
    np.testing.assert_allclose(
      score(variables, encoding, encoding, mode), expected, rtol=1e-6
    )
    np.testing.assert_array_equal(
      functions(BASELINE)[1](plain, baseline, baseline, mode), expected
    )


def test_the_baseline_has_no_temporal_parameters():
  assert set(initial(BASELINE)["params"]) == {"encoder", "heads"}
  assert set(initial(CTD)["params"]) == {
    "encoder", "heads", "context", "offset",
  }  # fmt: skip


@pytest.mark.slow
def test_every_part_learns_from_the_score():
  model = dual_encoder.DualEncoder(CTD)

  @jax.jit
  @jax.grad
  def gradient(variables):
    encoding, logits = model.apply(variables, *batch())
    query, hard = take(encoding, slice(0, 2)), take(encoding, slice(2, 4))
    negatives = model.apply(variables, query, hard, "ctd", method="score")
    loss = jax.nn.logsumexp(logits, 1).mean() - jnp.trace(logits)
    return loss + jax.nn.logsumexp(negatives)

  leaves = jax.tree_util.tree_leaves_with_path(gradient(initial(CTD))["params"])
  for path, leaf in leaves:
    assert jnp.isfinite(leaf).all(), path
    # A key's bias shifts all attention scores of a token alike, and the
    # softmax ignores that.
    name = jax.tree_util.keystr(path)
    assert "key" in name or jnp.abs(leaf).max() > 0, path


@pytest.mark.slow
def test_a_learned_temperature_starts_where_it_is_set_and_has_bounds():
  config = dataclasses.replace(CTD, learn_temperature=True)
  learned, fixed = (dual_encoder.DualEncoder(c) for c in (config, CTD))
  params = initial(config)["params"]
  assert params[dual_encoder.LOG_SCALE] == pytest.approx(np.log(20))
  encoding = learned.apply({"params": params}, *batch(), method="encode")

  def score(params, model=learned):
    variables = {"params": params}
    return model.apply(
      variables, encoding, encoding, "semantic", method="score"
    )

  np.testing.assert_allclose(score(params), score(params, fixed), rtol=1e-5)
  gradient = jax.grad(lambda p: score(p).sum())(params)
  assert gradient[dual_encoder.LOG_SCALE] != 0
  for log_scale, temperature in ((9.0, 0.01), (-9.0, 1.0), (3.0, np.exp(-3))):
    moved = dual_encoder.clip_temperature(
      {**params, dual_encoder.LOG_SCALE: jnp.float32(log_scale)}
    )
    assert learned.read_temperature(moved) == pytest.approx(temperature)
  assert dual_encoder.clip_temperature(initial(CTD)) == initial(CTD)


def test_vectors_are_cut_to_unit_vectors():
  model = dual_encoder.DualEncoder(CTD)
  encoding = model.apply(initial(CTD), *batch(), method="encode")
  assert dual_encoder.truncate_encoding(encoding, 0) is encoding
  cut = dual_encoder.truncate_encoding(encoding, 3)
  for vectors, whole in (
    (cut.semantic, encoding.semantic),
    (cut.absolute, encoding.absolute),
  ):
    expected = whole[:, :3] / np.linalg.norm(whole[:, :3], axis=1)[:, None]
    np.testing.assert_allclose(vectors, expected, atol=1e-6)


def test_unit_vectors_have_a_finite_gradient_at_zero():
  vectors = jnp.array([[0.0, 0.0], [3.0, 4.0]])
  np.testing.assert_allclose(
    dual_encoder.normalize_vectors(vectors), [[0, 0], [0.6, 0.8]], rtol=1e-6
  )
  gradient = jax.grad(lambda v: dual_encoder.normalize_vectors(v).sum())(
    vectors
  )
  assert jnp.isfinite(gradient).all()


def test_published_parameter_counts():
  config = dataclasses.replace(
    RELEASE,
    encoder=bert.BertConfig(vocab_size=9, hidden_size=768, num_heads=12),
    class_counts=(12, 32, 12),
    reign_starts=tuple(range(12)),
    context_dim=64,
    bias_dim=32,
  )
  shapes = jax.eval_shape(
    dual_encoder.DualEncoder(config).init, jax.random.key(0), *batch()
  )["params"]

  def count(tree):
    return sum(leaf.size for leaf in jax.tree.leaves(tree))

  assert count(shapes["heads"]) == 43_064
  assert count(shapes["context"]) == 148_224 + 1
  assert count(shapes["offset"]) == 1_089 + 1


def test_lists_make_the_same_hashable_config():
  same = dataclasses.replace(
    CTD, class_counts=[4, 10, 12], reign_starts=[0, 96, 168, 288]
  )
  assert same == CTD
  assert hash(same) == hash(CTD)


@pytest.mark.parametrize(
  ("field", "value", "message"),
  [
    ("pooling", "max", "pooling.*'max'"),
    ("codebook", "sine", "codebook.*'sine'"),
    ("offset_features", "sine", "offset_features.*'sine'"),
    ("scalar_axis", "year", "scalar_axis.*'year'"),
    ("reign_starts", (0, 96), "reign_starts has 2 entries for 4"),
    ("bias_dim", 7, "bias_dim.*7"),
    ("temperature", 0.0, "temperature"),
  ],
)
def test_bad_configs_are_named(field, value, message):
  with pytest.raises(ValueError, match=message):
    dataclasses.replace(CTD, **{field: value})


def test_an_unknown_mode_is_named():
  with pytest.raises(ValueError, match=r"score mode.*'cosine'"):
    functions(CTD)[1](initial(CTD), encoded(CTD), encoded(CTD), "cosine")
