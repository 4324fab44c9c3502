"""Table of the offset bias: error within its bound, same rankings."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ctd_jax.models import calendar_heads, dual_encoder, encoding, temporal_bias
from ctd_jax.retrieval import search
from tests.models import dual_encoder_test

MONTHS = 360
lookup = jax.jit(temporal_bias.lookup_bias)


def perceptron(kind, seed, width=8, size=2.0):
  """Returns parameters of a bias and its frequencies."""
  rng = np.random.default_rng(seed)
  shapes = {
    "hidden_kernel": (width, width),
    "hidden_bias": (width,),
    "out_kernel": (width, 1),
    "out_bias": (1,),
    "scale": (),
  }
  params = {
    name: rng.normal(0, size / np.sqrt(width), shape).astype(np.float32)
    for name, shape in shapes.items()
  }
  return params, temporal_bias.offset_frequencies(width // 2, kind, MONTHS)


def exactly(params, frequencies, delta):
  """The perceptron in float64."""
  p = {name: np.asarray(leaf, np.float64) for name, leaf in params.items()}
  angles = np.float64(delta)[:, None] * frequencies.astype(np.float32)
  features = np.concatenate([np.sin(angles), np.cos(angles)], axis=1)
  hidden = np.maximum(features @ p["hidden_kernel"] + p["hidden_bias"], 0)
  return p["scale"] * (hidden @ p["out_kernel"] + p["out_bias"])[:, 0]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("kind", temporal_bias.OFFSET_FEATURES)
def test_no_offset_is_off_by_more_than_the_bound(kind, seed):
  params, frequencies = perceptron(kind, seed)
  table, bound = temporal_bias.tabulate_bias(params, frequencies, 1.02)
  delta = np.linspace(-1.02, 1.02, 200_001).astype(np.float32)
  expected = exactly(params, frequencies, delta)
  interpolated = np.float64(lookup(table, delta))
  rounding = 2.0**-22 * np.abs(expected).max()
  assert np.abs(interpolated - expected).max() <= bound + rounding
  p = {name: np.float64(leaf) for name, leaf in params.items()}
  steepest = abs(p["scale"]) * (
    frequencies @ np.hypot(*np.split(p["hidden_kernel"], 2))
  )
  floor = 2.0**-24 * (steepest @ np.abs(p["out_kernel"][:, 0]))
  assert bound <= max(2.0**-20, floor)


def test_bends_are_kept_where_they_are():
  # One unit whose angle is the offset: 3 relu(sin x - 1/4).
  params = {
    "hidden_kernel": np.array([[1.0, 0.0], [0.0, 0.0]]),
    "hidden_bias": np.array([-0.25, 0.0]),
    "out_kernel": np.array([[3.0], [0.0]]),
    "out_bias": np.array([0.5]),
    "scale": np.array(2.0),
  }
  table, bound = temporal_bias.tabulate_bias(params, np.ones(1), 1.0)
  assert np.count_nonzero(table.bend) == 1
  zero = np.arcsin(0.25)
  delta = np.linspace(zero - 1e-3, zero + 1e-3, 1001).astype(np.float32)
  expected = 1 + 6 * np.maximum(np.sin(delta) - 0.25, 0)
  np.testing.assert_allclose(lookup(table, delta), expected, atol=1e-6)
  # A straight line across the cell would be off by far more.
  width = 1 / float(table.cells_per_unit)
  assert bound < 2e-6 < 6 * width / 16


def test_a_bias_of_nothing_needs_few_cells():
  params, frequencies = perceptron("release", 0)
  params["scale"] = np.zeros((), np.float32)
  table, bound = temporal_bias.tabulate_bias(params, frequencies, 1.0)
  assert bound == 0
  assert len(table.value) < 8
  np.testing.assert_array_equal(lookup(table, jnp.array([-1.0, 0.3, 1.0])), 0)


@pytest.mark.slow
@pytest.mark.parametrize("axis", calendar_heads.SCALAR_AXES)
def test_no_scalar_is_beyond_the_reach(axis):
  counts, starts, months = (4, 10, 12), (0, 96, 168, 288), 360
  last = calendar_heads.CalendarLogits(
    *(jnp.eye(count)[-1:] * 1e9 for count in counts)
  )
  scalar = calendar_heads.latent_scalar(last, axis, starts, months)
  reach = calendar_heads.max_latent_scalar(axis, starts, counts, months)
  np.testing.assert_allclose(scalar, [reach], rtol=1e-6)


def encodings(size, seed):
  """Returns random texts as `DualEncoder.encode` would give them."""
  rng = np.random.default_rng(seed)
  vectors = rng.normal(size=(size, 8)).astype(np.float32)
  vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
  return encoding.Encoding(
    semantic=vectors,
    absolute=vectors,
    scalar=rng.random(size).astype(np.float32),
    logits=calendar_heads.CalendarLogits(
      *(np.zeros((size, n), np.float32) for n in (4, 10, 12))
    ),
    year_code=np.zeros((size, 0), np.float32),
    gaussian=calendar_heads.Gaussians(*[np.zeros((size, 0), np.float32)] * 2),
    interval=np.full((size, 2), -1, np.int32),
  )


@pytest.mark.slow
@pytest.mark.parametrize("features", temporal_bias.OFFSET_FEATURES)
def test_rankings_are_those_of_the_perceptron(features):
  config = dataclasses.replace(
    dual_encoder_test.CTD, offset_features=features, bias_scale_init=3.0
  )
  model = dual_encoder.DualEncoder(config)
  variables = dual_encoder_test.initial(config)
  tables = model.tables(variables["params"])

  def score(variables, query, record):
    return model.apply(variables, query, record, "ctd", method="score")

  queries, records = encodings(40, 0), encodings(700, 1)
  exact, looked_up = (
    search.search_top_k(
      queries,
      records,
      jax.tree_util.Partial(score, scored_variables),
      10,
      {"all": np.ones(700, bool)},
    )["all"]
    for scored_variables in (variables, {**variables, **tables})
  )
  np.testing.assert_array_equal(looked_up[0], exact[0])
  np.testing.assert_allclose(looked_up[1], exact[1], atol=2e-4)


@pytest.mark.slow
def test_memory_is_that_of_the_scores():
  model = dual_encoder.DualEncoder(dual_encoder_test.CTD)
  variables = dual_encoder_test.initial(dual_encoder_test.CTD)
  tables = model.tables(variables["params"])
  query, record = encodings(128, 0), encodings(1024, 1)

  def reserved(variables):
    score = jax.jit(
      lambda *args: model.apply(variables, *args, "ctd", method="score")
    )
    compiled = score.lower(query, record).compile()
    return compiled.memory_analysis().temp_size_in_bytes

  scores = 4 * 128 * 1024
  assert reserved(variables) > 8 * scores
  assert reserved({**variables, **tables}) <= 2 * scores
