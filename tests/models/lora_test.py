"""Adapters of an encoder: they start as nothing, and merge into it."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ctd_jax.models.encoders import layers
from ctd_jax.models.encoders.bert import BertConfig
from ctd_jax.models.encoders.decoder import DecoderConfig
from ctd_jax.models.encoders.layers import LoraConfig

pytestmark = pytest.mark.usefixtures("quick_compile")

IDS = jnp.arange(2, 12).reshape(2, 5)
MASK = jnp.ones_like(IDS)
BERT = BertConfig(20, 16, 2, 2, 24, 32, dropout=0.0)
DECODER = DecoderConfig(20, 16, 2, 2, 1, 8, 24, 32)


def run(config, params, **kwargs):
  return config.make_encoder().apply({"params": params}, IDS, MASK, **kwargs)


def make_params(config):
  return config.make_encoder().init(jax.random.key(0), IDS, MASK)["params"]


def make_adapters(params):
  """Returns parameters whose adapters do something."""
  adapters, _ = layers.split_adapters(params)
  return layers.join_params(
    params,
    jax.tree.map(
      lambda x: 0.3 * jax.random.normal(jax.random.key(x.size), x.shape),
      adapters,
    ),
  )


@pytest.mark.slow
@pytest.mark.parametrize("base", [BERT, DECODER])
@pytest.mark.parametrize("scan_layers", [False, True])
def test_adapters_start_as_nothing_and_merge(base, scan_layers):
  base = dataclasses.replace(base, scan_layers=scan_layers)
  adapted = dataclasses.replace(base, lora=LoraConfig(rank=3, alpha=6.0))
  params = make_params(adapted)
  _, rest = layers.split_adapters(params)
  # The rest is the encoder: published weights fit, and give what they gave.
  assert jax.tree.structure(rest) == jax.tree.structure(make_params(base))
  # To the bit where each operation is a program of its own; a loop is compiled
  # whole, and rounds as its other operations let it.
  tolerance = 1e-6 if scan_layers else 0
  np.testing.assert_allclose(
    run(adapted, params), run(base, rest), rtol=0, atol=tolerance
  )
  params = make_adapters(params)
  assert np.abs(run(adapted, params) - run(base, rest)).max() > 0.1
  merged = layers.merge_adapters(params, adapted.lora)
  assert jax.tree.structure(merged) == jax.tree.structure(rest)
  np.testing.assert_allclose(run(base, merged), run(adapted, params), atol=1e-5)


@pytest.mark.slow
def test_every_projection_has_an_adapter_unless_targets_are_named():
  for base, names in (
    (BERT, {"query", "key", "value", "out", "intermediate", "output"}),
    (DECODER, {"query", "key", "value", "out", "gate", "up", "down"}),
  ):
    for targets, expected in (((), names), (("value", "up"), {"value", "up"})):
      config = LoraConfig(rank=2, alpha=2.0, targets=targets)
      params = make_params(dataclasses.replace(base, lora=config))
      adapted = {
        path[-2].key.removesuffix(layers.SUFFIX)
        for path, _ in jax.tree_util.tree_leaves_with_path(
          layers.split_adapters(params)[0]
        )
      }
      assert adapted == expected & names


@pytest.mark.slow
def test_only_adapters_drop_and_only_in_training():
  config = dataclasses.replace(
    BERT, lora=LoraConfig(rank=3, alpha=6.0, dropout=0.5)
  )
  params = make_adapters(make_params(config))
  still = run(config, params)
  np.testing.assert_array_equal(run(config, params), still)
  drawn = [
    run(config, params, deterministic=False, rngs={"dropout": key})
    for key in jax.random.split(jax.random.key(1))
  ]
  assert np.abs(drawn[0] - drawn[1]).max() > 1e-2
  _, rest = layers.split_adapters(params)
  zeros = jax.tree.map(jnp.zeros_like, layers.split_adapters(params)[0])
  np.testing.assert_array_equal(
    run(
      config,
      layers.join_params(rest, zeros),
      deterministic=False,
      rngs={"dropout": jax.random.key(1)},
    ),
    run(BERT, rest),
  )


@pytest.mark.slow
def test_a_frozen_encoder_in_bf16_computes_the_same_in_bf16():
  config = dataclasses.replace(
    DECODER, dtype="bfloat16", lora=LoraConfig(rank=3, alpha=6.0)
  )
  adapters, base = layers.split_adapters(make_adapters(make_params(config)))
  # As weights that were published in bf16.
  base = jax.tree.map(lambda x: x.astype(jnp.bfloat16), base)
  wide = jax.tree.map(lambda x: x.astype(jnp.float32), base)
  np.testing.assert_array_equal(
    run(config, layers.join_params(base, adapters)),
    run(config, layers.join_params(wide, adapters)),
  )
