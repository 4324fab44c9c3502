"""States in training, with the same draws of dropout, as published.

Collected with --parity; needs the extra [parity].
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from flax import linen as nn

from tests.models import published_folder
from tests.parity import published

RATES = {
  "bert": {"hidden_dropout_prob": 0.2, "attention_probs_dropout_prob": 0.3},
  "xlm-roberta": {
    "hidden_dropout_prob": 0.2,
    "attention_probs_dropout_prob": 0.3,
  },
  "qwen2": {"attention_dropout": 0.3},
  "qwen3": {"attention_dropout": 0.3},
}


class Draws:
  """The same factors for the n-th dropout of either implementation."""

  def __init__(self):
    """Begins with the first dropout."""
    self.calls = []

  def next(self, shape, rate):
    """Returns 0 where a value is dropped, else 1 / (1 - rate)."""
    rng = np.random.default_rng(len(self.calls))
    self.calls.append((tuple(shape), round(float(rate), 6)))
    return ((rng.uniform(size=shape) >= rate) / (1 - rate)).astype(np.float32)


def theirs(model, ids, mask, weights, monkeypatch):
  """Returns states, gradient of the token table, and the dropouts drawn."""
  draws = Draws()

  def dropout(values, p=0.5, training=True, inplace=False):
    if not training or not p:
      return values
    return values * torch.tensor(draws.next(values.shape, p))

  monkeypatch.setattr(torch.nn.functional, "dropout", dropout)
  model.set_attn_implementation("eager")  # the fused one draws by itself
  states = model.train()(
    input_ids=torch.tensor(ids, dtype=torch.long),
    attention_mask=torch.tensor(mask, dtype=torch.long),
  ).last_hidden_state
  (states * torch.tensor(weights)).sum().backward()
  table = model.get_input_embeddings().weight.grad
  return states.detach().numpy(), table.numpy(), draws.calls


def ours(folder, ids, mask, weights):
  """Returns the same three."""
  draws = Draws()

  def dropout(call, args, kwargs, context):
    module = context.module
    if not isinstance(module, nn.Dropout) or not module.rate:
      return call(*args, **kwargs)
    return args[0] * draws.next(args[0].shape, module.rate)

  config, params = published_folder.load_encoder(folder)

  def loss(params):
    states = config.make_encoder().apply({"params": params}, ids, mask, False)
    return (states * weights).sum(), states

  with nn.intercept_methods(dropout):
    gradient, states = jax.grad(loss, has_aux=True)(params)
  gradient = gradient.get("embeddings", gradient)
  table = gradient.get("word_embeddings", gradient.get("embed_tokens"))
  return states, table["embedding"], draws.calls


@pytest.mark.parametrize("family", RATES)
def test_states_and_gradient_in_training(family, tmp_path, monkeypatch):
  model = published.make(family, seed=1, **RATES[family])
  published.save(model, tmp_path)
  ids, mask = published.texts("right", seed=1)
  weights = np.random.default_rng(0).normal(size=(*ids.shape, 16))
  weights = (weights * mask[..., None]).astype(np.float32)
  expected = theirs(model, ids, mask, weights, monkeypatch)
  states, table, calls = ours(tmp_path, ids, jnp.asarray(mask), weights)
  assert calls == expected[2]
  assert (len(ids), 4, ids.shape[1], ids.shape[1]) in {s for s, _ in calls}
  real = mask.astype(bool)
  difference = np.asarray(states)[real] - expected[0][real]
  assert np.abs(difference).max() < 1e-5
  scale = np.abs(expected[1]).max()
  np.testing.assert_allclose(table, expected[1], atol=1e-5 * scale)
