"""Implementations of attention: equal to the plain one, and chosen by device.

There is neither GPU nor TPU here: the kernel for TPUs is interpreted, and both
kernels are lowered for their devices.
"""

import dataclasses
import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental.pallas.ops.tpu.splash_attention import (
  splash_attention_kernel,
)

from ctd_jax.models.encoders import attention, layers
from ctd_jax.models.encoders.bert import BertConfig
from ctd_jax.models.encoders.decoder import DecoderConfig
from ctd_jax.training import devices

pytestmark = pytest.mark.usefixtures("quick_compile")

HEADS, KEY_HEADS, FEATURES = 4, 2, 16
SEGMENTS = np.zeros((2, 101), np.int32)  # neither even nor a tile
SEGMENTS[0, :40], SEGMENTS[0, 40:90], SEGMENTS[1, :70] = 1, 2, 1
IS_TOKEN = SEGMENTS > 0
ENCODERS = {
  "bert": BertConfig(40, 32, 2, 4, 48, 128, dropout=0.0, dtype="bfloat16"),
  "decoder": DecoderConfig(40, 32, 2, 4, 2, 8, 48, 128, dtype="bfloat16"),
}


@pytest.fixture
def interpreted(monkeypatch):
  """The kernel for TPUs, run step by step on this machine."""
  monkeypatch.setattr(
    splash_attention_kernel,
    "make_splash_mha",
    functools.partial(splash_attention_kernel.make_splash_mha, interpret=True),
  )


def pretend(monkeypatch, platform):
  """Makes attention believe that it is traced for another device."""
  for module in (attention, layers):
    monkeypatch.setattr(module, "find_platform", lambda: platform)
  if platform == "gpu":
    from jax._src.cudnn import fused_attention_stablehlo as cudnn

    device = type("Device", (), {"compute_capability": "9.0"})
    monkeypatch.setattr(jax, "local_devices", lambda: [device])
    monkeypatch.setattr(cudnn, "check_cudnn_version", lambda: 91000)
    monkeypatch.setattr(cudnn, "check_compute_capability", lambda _: True)


def make_scope(implementation, causal, monkeypatch):
  monkeypatch.setattr(
    attention, "choose_implementation", lambda *_, **__: implementation
  )
  config = BertConfig(40)
  return attention.make_scope(config, SEGMENTS, causal, deterministic=True)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("implementation", ["xla", "splash"])
def test_values_and_gradients_are_those_of_plain_attention(
  implementation, causal, monkeypatch, interpreted
):
  rng = np.random.default_rng(0)
  shape = *SEGMENTS.shape, HEADS, FEATURES
  key_shape = *SEGMENTS.shape, KEY_HEADS, FEATURES
  query, weights = rng.normal(size=(2, *shape)).astype(np.float32)
  key, value = rng.normal(size=(2, *key_shape)).astype(np.float32)

  def run(name):
    scope = make_scope(name, causal, monkeypatch)

    @functools.partial(jax.value_and_grad, argnums=(0, 1, 2), has_aux=True)
    def total(query, key, value):
      mixture = attention.attend(
        query, key, value, scope, jax.lax.Precision.HIGHEST
      )
      # Padding has no meaning, and no loss reads it.
      is_token = IS_TOKEN[:, :, None, None]
      return jnp.where(is_token, mixture * weights, 0).sum(), mixture

    (_, mixture), gradients = jax.jit(total)(query, key, value)
    return mixture, gradients

  mixture, gradients = run(implementation)
  expected, expected_gradients = run("plain")
  assert mixture.shape == shape
  np.testing.assert_allclose(mixture[IS_TOKEN], expected[IS_TOKEN], atol=1e-5)
  for ours, plain in zip(gradients, expected_gradients, strict=True):
    np.testing.assert_allclose(ours, plain, atol=2e-5)
  if not causal:
    # Mask tokens behind the only text of a row have states, too.
    np.testing.assert_allclose(mixture[1], expected[1], atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("family", ENCODERS)
def test_a_kernel_keeps_no_weights_for_some_tokens(
  family, monkeypatch, interpreted
):
  encoder = ENCODERS[family].make_encoder()
  ids = np.random.default_rng(3).integers(4, 40, SEGMENTS.shape)
  columns = jnp.asarray([[39, 40, 89], [0, 69, 5]])
  params = encoder.init(jax.random.key(0), ids[:1, :1], SEGMENTS[:1, :1])
  pretend(monkeypatch, "tpu")
  every = jax.jit(encoder.apply)(params, ids, SEGMENTS)
  some = jax.jit(lambda *x: encoder.apply(*x, True, columns))
  np.testing.assert_allclose(
    some(params, ids, SEGMENTS),
    every[np.arange(2)[:, None], columns],
    atol=0.05,
  )
  # Weights of 3 or 101 attending tokens would be an array of their product.
  text = some.lower(params, ids, SEGMENTS).as_text()
  assert "x3x101x" not in text
  assert "x101x101x" not in text


@pytest.mark.slow
@pytest.mark.parametrize("family", ENCODERS)
def test_a_kernel_splits_over_devices(family, monkeypatch, interpreted):
  encoder = ENCODERS[family].make_encoder()
  ids = np.random.default_rng(2).integers(4, 40, (4, 128)).astype(np.int32)
  mask = np.tile(np.repeat(np.int32([1, 2]), 64), (4, 1))
  params = encoder.init(jax.random.key(0), ids[:1, :1], mask[:1, :1])
  pretend(monkeypatch, "tpu")
  mesh = devices.make_mesh(4, fsdp=2, tensor=2)

  def total(params, ids, mask):
    return (encoder.apply(params, ids, mask)[..., :3] ** 2).mean()

  @jax.jit
  def gradient(params, ids, mask):
    with devices.use_mesh(mesh):
      return jax.value_and_grad(total)(params, ids, mask)

  value, gradients = gradient(
    jax.device_put(params, devices.state_shardings(params, mesh)),
    *jax.device_put((ids, mask), devices.batch_sharding(mesh)),
  )
  monkeypatch.undo()
  expected, expected_gradients = jax.jit(jax.value_and_grad(total))(
    params, ids, mask
  )
  np.testing.assert_allclose(value, expected, rtol=0.02)
  norm, expected_norm = (
    np.sqrt(sum((np.asarray(x) ** 2).sum() for x in jax.tree.leaves(tree)))
    for tree in (gradients, expected_gradients)
  )
  np.testing.assert_allclose(norm, expected_norm, rtol=0.02)


@pytest.mark.parametrize("scan_layers", [False, True])
@pytest.mark.parametrize("platform", ["gpu", "tpu"])
@pytest.mark.parametrize("family", ENCODERS)
def test_an_accelerator_keeps_products_alone(
  family, platform, scan_layers, monkeypatch
):
  config = dataclasses.replace(ENCODERS[family], scan_layers=scan_layers)
  ids = np.zeros((4, 128), np.int32)
  encoder = config.make_encoder()
  params = jax.eval_shape(encoder.init, jax.random.key(0), ids[:1], ids[:1])

  def list_kept(**fields):
    """Types of what the backward pass is given of every token of a layer."""
    encoder = dataclasses.replace(config, **fields).make_encoder()
    _, pull_back = jax.eval_shape(
      lambda params: jax.vjp(lambda p: encoder.apply(p, ids, ids + 1), params),
      params,
    )
    layers = config.num_layers
    axes = (layers, 4, 128) if scan_layers else (4, 128)
    kept = [
      leaf
      for leaf in jax.tree.leaves(pull_back)
      if leaf.shape[: len(axes)] == axes and leaf.size > math.prod(axes)
    ]
    return kept, sum(leaf.size * leaf.dtype.itemsize for leaf in kept)

  pretend(monkeypatch, platform)
  kept, size = list_kept()
  _, all_size = list_kept(kept_activations="all")
  assert size < all_size * 2 / 3
  assert list_kept(kept_activations="products")[1] == size
  if scan_layers:  # else states of embeddings and of the end are among them
    assert {leaf.dtype for leaf in kept} == {jnp.dtype("bfloat16")}


@pytest.mark.parametrize(
  ("platform", "lowered_for", "mark", "calls"),
  # All layers share a program for a TPU: one forward, two backward. None is
  # computed again.
  [("tpu", "tpu", "@tpu_custom_call", 3), ("gpu", "cuda", "__cudnn$fmha", 4)],
)
@pytest.mark.parametrize("family", ENCODERS)
def test_kernels_are_lowered_for_their_devices(
  family, platform, lowered_for, mark, calls, monkeypatch
):
  encoder = ENCODERS[family].make_encoder()
  params = jax.eval_shape(
    encoder.init, jax.random.key(0), SEGMENTS[:1, :1], SEGMENTS[:1, :1]
  )
  pretend(monkeypatch, platform)

  def total(params, ids):
    return encoder.apply(params, ids, SEGMENTS).sum()

  text = (
    jax.jit(jax.grad(total))
    .trace(params, SEGMENTS)
    .lower(lowering_platforms=(lowered_for,))
    .as_text()
  )
  assert text.count(mark) == calls


@pytest.mark.parametrize(
  ("fields", "platform", "expected"),
  [
    ({}, "tpu", "splash"),
    ({}, "gpu", "cudnn"),
    ({}, "cpu", "plain"),
    ({"dtype": "float32"}, "tpu", "plain"),
    ({"dtype": "float32"}, "gpu", "plain"),
    ({"hidden_size": 512, "num_heads": 2}, "gpu", "plain"),
    ({"hidden_size": 24, "num_heads": 2}, "gpu", "plain"),
    ({"attention": "plain"}, "tpu", "plain"),
    ({"attention": "xla", "dtype": "float32"}, "cpu", "xla"),
    ({"attention": "cudnn"}, "gpu", "cudnn"),
  ],
)
def test_the_implementation_follows_the_device(
  fields, platform, expected, monkeypatch
):
  pretend(monkeypatch, platform)
  config = BertConfig(40, **{"dtype": "bfloat16", **fields})
  choose = functools.partial(
    attention.choose_implementation, config, platform=platform
  )
  assert choose(drops_weights=False) == expected
  if config.attention in ("auto", "plain"):
    assert choose(drops_weights=True) == "plain"


@pytest.mark.parametrize("capability", ["7.5", "gfx942"])
def test_gpus_without_the_kernel_have_plain_attention(capability, monkeypatch):
  device = type("Device", (), {"compute_capability": capability})
  monkeypatch.setattr(jax, "local_devices", lambda: [device])
  config = BertConfig(40, dtype="bfloat16")
  assert attention.choose_implementation(config, False, "gpu") == "plain"


@pytest.mark.parametrize(
  ("fields", "drops_weights", "problem"),
  [
    ({"attention": "splash"}, False, "it is for a tpu, and this is a cpu"),
    ({"attention": "cudnn"}, False, "it is for a gpu, and this is a cpu"),
    (
      {"attention": "xla", "attention_dropout": 0.1},
      True,
      "it drops no weights, and attention_dropout is 0.1",
    ),
  ],
)
def test_an_implementation_that_cannot_be_had_is_refused(
  fields, drops_weights, problem
):
  config = BertConfig(40, dtype="bfloat16", **fields)
  with pytest.raises(ValueError, match=f"encoder.attention=.*: {problem}"):
    attention.choose_implementation(config, drops_weights, "cpu")


def test_an_unknown_implementation_is_named():
  for make_config in (BertConfig, DecoderConfig):
    with pytest.raises(ValueError, match="attention must be .*got 'flash'"):
      make_config(40, attention="flash")


def test_a_plan_is_traced_for_the_devices_of_its_mesh():
  device = jax.sharding.AbstractDevice("TPU v5 lite", 1, "tpu")
  mesh = devices.make_mesh(1).abstract_mesh.update(abstract_device=device)
  assert layers.find_platform() == "cpu"
  with jax.sharding.use_abstract_mesh(mesh):
    assert layers.find_platform() == "tpu"
