"""BERT encoder: parity with numpy, masking, padding, precision."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special

from ctd_jax.models.encoders import bert

pytestmark = pytest.mark.usefixtures("quick_compile")

CONFIG = bert.BertConfig(
  vocab_size=40,
  hidden_size=16,
  num_layers=2,
  num_heads=2,
  mlp_size=24,
  max_length=12,
  # Larger than in use: with tiny weights any mask looks right.
  initializer_range=0.3,
)
LENGTHS = (7, 4, 1)


def padded(columns, side="right", filler=0):
  """Returns ids and mask of the same texts in `columns` columns."""
  ids = np.full((len(LENGTHS), columns), filler, np.int32)
  mask = np.zeros_like(ids)
  tokens = np.random.default_rng(0).integers(4, 40, (len(LENGTHS), 12))
  for row, length in enumerate(LENGTHS):
    first = columns - length if side == "left" else 0
    ids[row, first : first + length] = tokens[row, :length]
    mask[row, first : first + length] = 1
  return jnp.asarray(ids), jnp.asarray(mask)


@pytest.fixture(scope="module")
def params():
  init = jax.jit(bert.BertEncoder(CONFIG).init)
  params = init(jax.random.key(0), *padded(7))["params"]
  # Zero biases and unit scales would hide a forgotten one.
  keys = iter(jax.random.split(jax.random.key(1), 100))
  return jax.tree.map(
    lambda x: x + 0.1 * jax.random.normal(next(keys), x.shape), params
  )


@pytest.fixture(scope="module")
def forward():
  encoder = bert.BertEncoder(CONFIG)
  return jax.jit(lambda params, *args: encoder.apply({"params": params}, *args))


def numpy_forward(params, ids, mask):
  """The same network in float64, one text at a time, without its padding."""
  params = jax.tree.map(lambda x: np.asarray(x, np.float64), params)

  def dense(x, p):
    return x @ p["kernel"] + p["bias"]

  def norm(x, p):
    centred = x - x.mean(-1, keepdims=True)
    deviation = np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-12)
    return centred / deviation * p["scale"] + p["bias"]

  texts = []
  for row, real in zip(np.asarray(ids), np.asarray(mask) > 0, strict=True):
    tokens = row[real]
    tables = params["embeddings"]
    x = tables["word_embeddings"]["embedding"][tokens]
    x = x + tables["position_embeddings"]["embedding"][: len(tokens)]
    x = x + tables["token_type_embeddings"]["embedding"][0]
    x = norm(x, tables["layer_norm"])
    for layer in range(CONFIG.num_layers):
      p = params[f"layer_{layer}"]
      heads = []
      query, key, value = (
        dense(x, p["attention"][name]) for name in ("query", "key", "value")
      )
      for head in np.split(np.arange(16), CONFIG.num_heads):
        weights = special.softmax(
          query[:, head] @ key[:, head].T / np.sqrt(len(head)), axis=-1
        )
        heads.append(weights @ value[:, head])
      mixed = dense(np.concatenate(heads, -1), p["attention"]["out"])
      x = norm(x + mixed, p["attention_norm"])
      inner = dense(x, p["intermediate"])
      inner = inner * special.ndtr(inner)  # exact GELU
      x = norm(x + dense(inner, p["output"]), p["output_norm"])
    texts.append(x)
  return texts


@pytest.mark.slow
@pytest.mark.parametrize(
  "padding", [(9, "right"), (9, "left"), (12, "right"), (9, "right", 17)]
)
def test_parity_with_numpy(params, forward, padding):
  ids, mask = padded(*padding)
  hidden = np.asarray(forward(params, ids, mask))
  expected = numpy_forward(params, ids, mask)
  for row, real, text in zip(hidden, mask, expected, strict=True):
    np.testing.assert_allclose(row[np.asarray(real) > 0], text, atol=1e-5)


def test_a_row_without_tokens_disturbs_nothing(params, forward):
  ids, mask = padded(9)
  hidden = forward(params, ids, mask)
  emptied = forward(params, ids, mask.at[2].set(0))
  assert jnp.isfinite(emptied).all()
  np.testing.assert_array_equal(emptied[:2], hidden[:2])


@pytest.mark.slow
def test_bf16_computes_near_fp32_with_fp32_parameters(params, forward):
  config = bert.BertConfig(**{**vars(CONFIG), "dtype": "bfloat16"})
  encoder = bert.BertEncoder(config)
  ids, mask = padded(9)
  shapes = jax.eval_shape(encoder.init, jax.random.key(0), ids, mask)
  assert {x.dtype for x in jax.tree.leaves(shapes)} == {jnp.dtype("float32")}
  low = jax.jit(encoder.apply)({"params": params}, ids, mask)
  assert low.dtype == jnp.float32
  real = np.asarray(mask) > 0
  gap = np.asarray(low)[real] - np.asarray(forward(params, ids, mask))[real]
  assert 0 < np.abs(gap).mean() < 0.05


@pytest.mark.slow
def test_published_geometry_has_the_published_number_of_parameters():
  config = bert.BertConfig(
    vocab_size=21128,
    hidden_size=768,
    num_layers=12,
    num_heads=12,
    mlp_size=3072,
    max_length=512,
  )
  ids = jnp.zeros((1, 8), jnp.int32)
  shapes = jax.eval_shape(
    bert.BertEncoder(config).init, jax.random.key(0), ids, ids
  )
  # bert-base-chinese has 102,267,648 with its pooler (768 * 768 + 768).
  count = sum(x.size for x in jax.tree.leaves(shapes))
  assert count == 102_267_648 - 590_592


def test_bad_geometry_is_named(params):
  with pytest.raises(ValueError, match=r"num_heads \(3\)"):
    bert.BertConfig(vocab_size=9, hidden_size=16, num_heads=3)
  with pytest.raises(ValueError, match="'float16'"):
    bert.BertConfig(vocab_size=9, dtype="float16")
  with pytest.raises(ValueError, match="vocab_size"):
    bert.BertConfig(vocab_size=0)
  ids = jnp.ones((1, 13), jnp.int32)
  with pytest.raises(ValueError, match="13 tokens exceed max_length 12"):
    bert.BertEncoder(CONFIG).apply({"params": params}, ids, ids)
