"""Calendar heads: the released formulas by value, the repaired by property."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ctd_jax.chronology import reigns
from ctd_jax.models import calendar_heads

RELEASE = (12, 32, 12)
TIMELINE = reigns.Timeline(
  "test",
  tuple(reigns.Reign(f"r{n}", "", 0, n) for n in (3, 1, 4)),
)


latent_scalar = jax.jit(
  calendar_heads.latent_scalar,
  static_argnames=("axis", "reign_starts", "num_months"),
)


def one_hot_logits(counts, *triples):
  """Returns logits that are certain of the triples, each counted from 0."""
  columns = np.array(triples).T
  return calendar_heads.CalendarLogits(
    *(
      jnp.asarray(np.where(np.eye(count)[column] > 0, 0.0, -1e9))
      for count, column in zip(counts, columns, strict=True)
    )
  )


def cosines(code):
  unit = code / np.linalg.norm(code, axis=1, keepdims=True)
  return unit @ unit.T


def test_release_codebook_goldens():
  code = calendar_heads.make_codebook(12, 64, "release")
  assert code.shape == (12, 64)
  assert code.dtype == np.float32
  np.testing.assert_array_equal(code[0], [0.0] * 32 + [1.0] * 32)
  np.testing.assert_allclose(code[11, 0], np.sin(1), rtol=1e-6)
  np.testing.assert_allclose(code[11, 31], np.sin(1e-4), rtol=1e-5)
  assert round(float(cosines(code)[0, 1]), 5) == 0.99971
  years = cosines(calendar_heads.make_codebook(32, 64, "release"))
  assert round(float(years[0, 1]), 5) == 0.99996
  assert round(float(years[0, 31]), 3) == 0.967


@pytest.mark.parametrize("kind", ["release", "index", "circular"])
def test_codebook_edge_widths(kind):
  np.testing.assert_allclose(
    calendar_heads.make_codebook(5, 1, kind), np.linspace(0, 1, 5)[:, None]
  )
  odd = calendar_heads.make_codebook(5, 7, kind)
  np.testing.assert_array_equal(
    odd[:, :6], calendar_heads.make_codebook(5, 6, kind)
  )
  np.testing.assert_array_equal(odd[:, 6], 0)
  assert np.isfinite(calendar_heads.make_codebook(1, 8, kind)).all()
  assert calendar_heads.make_codebook(5, 2, kind).shape == (5, 2)


def test_index_codebook_tells_neighbours_apart_and_knows_order():
  near = cosines(calendar_heads.make_codebook(32, 64, "index"))
  np.testing.assert_allclose(
    calendar_heads.make_codebook(32, 64, "index")[:, 32],
    (-1.0) ** np.arange(32),
    atol=1e-5,
  )
  assert near[0, 1] < 0.9
  # Nearest to each class is one of its neighbours.
  np.fill_diagonal(near, -1)
  assert (np.abs(near.argmax(1) - np.arange(32)) == 1).all()


def test_circular_codebook_wraps_the_year():
  near = cosines(calendar_heads.make_codebook(12, 64, "circular"))
  for shift in range(12):
    rolled = np.roll(near, (shift, shift), (0, 1))
    np.testing.assert_allclose(rolled, near, atol=1e-5)
  assert near[0, 1] < 0.9
  assert near[0, 1] > near[0, 2]


@pytest.mark.slow
def test_release_scalar_goldens():
  logits = one_hot_logits(
    RELEASE, (0, 0, 0), (11, 31, 11), (0, 0, 1), (0, 1, 0)
  )
  scalar = latent_scalar(logits, "release")
  np.testing.assert_allclose(
    scalar, [0, 1, 1 / 4607, 12 / 4607], rtol=1e-6, atol=0
  )
  uniform = calendar_heads.CalendarLogits(*(jnp.zeros((1, n)) for n in RELEASE))
  half = latent_scalar(uniform, "release")
  np.testing.assert_allclose(half, (5.5 * 384 + 15.5 * 12 + 5.5) / 4607)


@pytest.mark.slow
def test_timeline_scalar_is_the_expectation():
  counts = TIMELINE.class_counts
  keys = jax.random.split(jax.random.key(0), 3)
  logits = calendar_heads.CalendarLogits(
    *(jax.random.normal(k, (1, n)) for k, n in zip(keys, counts, strict=True))
  )
  scalar = latent_scalar(logits, "timeline", (0, 36, 48), 96)
  g, y, m = (np.asarray(p[0], np.float64) for p in logits.probabilities())
  joint = np.einsum("g,y,m->gym", g, y, m)
  ordinals = (
    np.array([0, 36, 48])[:, None, None]
    + 12 * np.arange(counts[1])[:, None]
    + np.arange(counts[2])
  )
  np.testing.assert_allclose(
    scalar[0] * 95, (joint * ordinals).sum(), rtol=1e-5
  )


@pytest.mark.slow
@pytest.mark.parametrize("kind", calendar_heads.CODEBOOKS)
def test_context_by_hand_and_its_gate(kind):
  module = calendar_heads.AbsoluteContext(kind, 6, gate_init=0.5)
  pooled = jax.random.normal(jax.random.key(0), (2, 5))
  keys = jax.random.split(jax.random.key(1), 3)
  logits = calendar_heads.CalendarLogits(
    *(
      jax.random.normal(k, (2, n))
      for k, n in zip(keys, (3, 4, 12), strict=True)
    )
  )
  params = jax.jit(module.init)(jax.random.key(2), pooled, logits)["params"]
  books = [
    calendar_heads.make_codebook(3, 6, kind),
    calendar_heads.make_codebook(4, 6, kind),
    calendar_heads.make_codebook(
      12, 6, "circular" if kind == "index" else kind
    ),
  ]
  code = np.concatenate(
    [p @ e for p, e in zip(logits.probabilities(), books, strict=True)], 1
  )
  project = params["project"]
  expected = pooled + 0.5 * (code @ project["kernel"] + project["bias"])
  apply = jax.jit(module.apply)
  context = apply({"params": params}, pooled, logits)
  np.testing.assert_allclose(context, expected, rtol=1e-5, atol=1e-5)
  closed = {**params, "gate": jnp.zeros(())}
  np.testing.assert_array_equal(
    apply({"params": closed}, pooled, logits), pooled
  )


@pytest.mark.slow
def test_initial_weights_stay_within_the_fan_in_bound():
  pooled = jnp.ones((1, 100))
  init = jax.jit(calendar_heads.CalendarHeads(RELEASE).init)
  params = init(jax.random.key(0), pooled)
  leaves = jax.tree.leaves(params)
  assert max(float(jnp.abs(x).max()) for x in leaves) <= 0.1
  assert all(float(jnp.abs(x).max()) > 0.08 for x in leaves)
