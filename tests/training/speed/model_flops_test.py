"""FLOPs of a model, counted in its jaxpr."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import pytest
from jax.sharding import AxisType, PartitionSpec

from ctd_jax.models.encoders import bert
from ctd_jax.training import experiment
from ctd_jax.training.objective import Objective
from ctd_jax.training.speed.model_flops import UpdateFlops, count_flops
from tests.training import synthetic_run

X, W = jnp.ones((8, 16)), jnp.ones((16, 16))
PRODUCT = 2 * 8 * 16 * 16  # FLOPs of X @ W


def count(function, *arguments) -> float:
  """Returns the FLOPs of a function in which nothing is opaque."""
  opaque = set()
  flops = count_flops(jax.make_jaxpr(function)(*arguments).jaxpr, opaque)
  assert not opaque
  return flops


def test_products_count_as_often_as_they_run():
  assert count(jnp.matmul, X, W) == PRODUCT
  assert count(jax.jit(jax.checkpoint(jnp.matmul)), X, W) == PRODUCT
  assert count(lambda x, w: jnp.tanh(x) + x, X, W) == 0

  def layers(x, w):
    return jax.lax.scan(lambda x, _: (jnp.tanh(x @ w), None), x, length=5)

  assert count(layers, X, W) == 5 * PRODUCT

  def rows(x, w):
    return jax.lax.map(lambda row: row @ w, x)

  assert count(rows, X, W) == PRODUCT

  def branches(x, w):
    return jax.lax.cond(x[0, 0] > 0, lambda: x @ w, lambda: x @ w @ w)

  assert count(branches, X, W) == 2 * PRODUCT


def test_a_batch_of_products_and_an_outer_product():
  heads = jnp.ones((3, 4, 5, 6))
  assert count(lambda x: x @ x.swapaxes(2, 3), heads) == 2 * 12 * 5 * 5 * 6
  assert count(jnp.outer, jnp.ones(7), jnp.ones(9)) in (0, 2 * 63)


def test_convolutions_count_the_kernel_of_each_output():
  image = jnp.ones((2, 3, 8, 8))
  convolve = functools.partial(
    jax.lax.conv_general_dilated, window_strides=(1, 1), padding="SAME"
  )
  flops = count(convolve, image, jnp.ones((5, 3, 3, 3)))
  assert flops == 2 * (2 * 5 * 64) * (3 * 9)
  grouped = functools.partial(convolve, feature_group_count=3)
  flops = count(grouped, image, jnp.ones((6, 1, 3, 3)))
  assert flops == 2 * (2 * 6 * 64) * 9


def test_each_device_of_a_mapped_function_counts():
  mesh = jax.make_mesh((4,), ("data",), axis_types=(AxisType.Auto,))
  rows = PartitionSpec("data")
  mapped = jax.shard_map(
    jnp.matmul, mesh=mesh, in_specs=(rows, PartitionSpec()), out_specs=rows
  )
  assert count(mapped, X, W) == PRODUCT


def test_a_loop_of_unknown_length_is_named():
  def loop(x, w):
    return jax.lax.while_loop(lambda x: x.sum() < 9, lambda x: x @ w, x)

  opaque = set()
  jaxpr = jax.make_jaxpr(loop)(X, W).jaxpr
  assert count_flops(jaxpr, opaque) == PRODUCT
  assert opaque == {"while"}


@pytest.mark.parametrize("layout", ["BTNH", "BNTH"])
def test_attention_of_cudnn_counts_as_two_products(monkeypatch, layout):
  from jax._src.cudnn import fused_attention_stablehlo as cudnn

  # There is no GPU here; nothing is run.
  monkeypatch.setattr(cudnn, "check_cudnn_version", lambda: 91000)
  monkeypatch.setattr(
    cudnn, "check_compute_capability", lambda capability: True
  )
  shape, key_shape = (2, 64, 4, 32), (2, 128, 4, 32)
  if layout == "BNTH":
    shape, key_shape = (2, 4, 64, 32), (2, 4, 128, 32)
  query = jax.ShapeDtypeStruct(shape, jnp.bfloat16)
  key = jax.ShapeDtypeStruct(key_shape, jnp.bfloat16)
  attend = functools.partial(cudnn.dot_product_attention, qkv_layout=layout)
  assert count(attend, query, key, key) == 2 * 2 * (2 * 4 * 64 * 128 * 32)


def encode(scan_layers: bool, layers: int):
  """Returns the encoding of two texts of 128 tokens, and its arguments."""
  config = bert.BertConfig(
    vocab_size=100,
    hidden_size=64,
    num_layers=layers,
    num_heads=2,
    mlp_size=256,
    max_length=128,
    scan_layers=scan_layers,
  )
  model = bert.BertEncoder(config)
  ids = jnp.ones((2, 128), jnp.int32)
  variables = jax.eval_shape(model.init, jax.random.key(0), ids, ids)
  return model.apply, (variables, ids, ids)


def test_an_encoder_has_the_flops_that_xla_gives_without_loops():
  function, arguments = encode(scan_layers=False, layers=3)
  flops = count(function, *arguments)
  tokens, width = 2 * 128, 64
  matrices = 4 * width**2 + 2 * width * 256
  attention = 2 * 128 * width
  assert flops == 3 * tokens * 2 * (matrices + attention)
  analysis = jax.jit(function).lower(*arguments).compile().cost_analysis()
  assert flops <= analysis["flops"] < 1.2 * flops  # gelu and layer norm
  # A scan over layers is the same model, of which XLA counts one layer.
  function, arguments = encode(scan_layers=True, layers=3)
  assert count(function, *arguments) == flops


@pytest.fixture(scope="module")
def run(tmp_path_factory):
  """A run of the synthetic benchmark, not begun."""
  with pytest.MonkeyPatch.context() as patch:
    synthetic_run.install(patch.setattr)
    config = synthetic_run.config("ctd")
    config.batch_size = 32
    config.encode_chunks = 4
    config.model.encoder.num_layers = 4
    yield experiment.assemble_experiment(config, tmp_path_factory.mktemp("run"))


def test_a_factor_has_a_product_in_the_gradient_if_it_is_trained():
  def loss(params, batch, key):
    del key
    states = jnp.tanh(batch @ jax.lax.stop_gradient(params["stopped"]))
    # The gradient is asked of the matrix alone, then of both factors.
    return (jnp.tanh(states @ params["first"]) @ params["second"]).sum()

  params = {"stopped": W, "first": W, "second": W}
  assert UpdateFlops(loss, params).count(X) == (1 + 2 + 3) * PRODUCT


def test_frozen_matrices_have_no_gradient_behind_adapters():
  def loss(params, batch, key):
    del key

    def layer(states, a, b):
      return jnp.tanh(states @ params["frozen"] + states @ a @ b)

    states = layer(batch, params["a1"], params["b1"])
    return layer(states, params["a2"], params["b2"]).sum()

  a, b = jnp.ones((16, 2)), jnp.ones((2, 16))
  adapters = {"a1": a, "b1": b, "a2": a, "b2": b}
  flops = UpdateFlops(loss, adapters, {"frozen": W}).count(X)
  narrow = 2 * 8 * 16 * 2
  # Of the first layer the input is given: no gradient is asked of it.
  assert flops == (1 + 2) * PRODUCT + (2 + 3 + 3 + 3) * narrow


def test_what_a_loop_carries_is_trained_from_the_second_round_on():
  def loss(params, batch, key):
    del key
    frozen, trained = jax.lax.stop_gradient(params), params

    def layer(states, _):
      return jnp.tanh(states @ frozen), (states @ trained).sum()

    def trained_layer(states, _):
      return jnp.tanh(states @ frozen @ trained), None

    states, sums = jax.lax.scan(layer, batch, length=5)
    states, _ = jax.lax.scan(trained_layer, states, length=3)
    return states.sum() + sums.sum()

  # All rounds count alike.
  expected = 5 * (1 + 2) + 3 * (2 + 3)
  assert UpdateFlops(loss, W).count(X) == expected * PRODUCT


@pytest.mark.parametrize("freeze", [False, True])
def test_an_update_has_the_flops_of_its_gradient(run, freeze):
  objective = Objective.from_config(run.config, run.model, run.mesh)
  params = run.abstract_state().params
  objective = dataclasses.replace(objective, freezes_encoder=freeze)
  flops = UpdateFlops(objective.compute_loss, params)
  batch = next(run.training_batches())
  update = flops.count(batch)
  objective = dataclasses.replace(objective, encode_chunks=1)
  gradient = jax.grad(objective.compute_loss, has_aux=True)
  jaxpr = jax.make_jaxpr(gradient)(params, batch, jax.random.key(0)).jaxpr
  # Blocks of pairs are computed twice.
  assert count_flops(jaxpr, set()) == pytest.approx(update, rel=0.02)
  forward = count_flops(
    jax.make_jaxpr(objective.compute_loss)(
      params, batch, jax.random.key(0)
    ).jaxpr,
    set(),
  )
  assert (update < 1.5 * forward) == freeze
  assert update <= 3 * forward


def test_chunks_that_are_computed_twice_count_once(run):
  objective = Objective.from_config(run.config, run.model, run.mesh)
  params = run.abstract_state().params
  batch = next(run.training_batches())
  flops = UpdateFlops(
    dataclasses.replace(objective, encode_chunks=1).compute_loss, params
  )
  assert objective.encode_chunks == 4
  assert UpdateFlops(objective.compute_loss, params).count(batch) == (
    flops.count(batch)
  )


def test_a_shape_is_counted_once_and_another_anew(caplog):
  traces = []

  def loss(params, batch, key):
    del key
    traces.append(batch.shape)
    return jax.lax.while_loop(
      lambda x: x.sum() < 9, lambda x: x @ params, batch
    ).sum()

  flops = UpdateFlops(loss, W)
  assert flops.count(X) == flops.count(X) == 3 * PRODUCT
  assert flops.count(X[:4]) == 3 * PRODUCT / 2
  assert traces == [(8, 16), (4, 16)]
  # Once, not at every shape.
  assert [r.getMessage() for r in caplog.records] == [
    "model FLOPs do not have what is in while"
  ]
