"""Loss and gradient of `config.loss.emulated_processes` against torch's.

Collected with --parity; needs the extra [parity].
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ctd_jax.models.calendar_heads import Gaussians
from ctd_jax.models.dual_encoder import normalize_vectors
from ctd_jax.models.encoding import Encoding
from ctd_jax.training import devices
from ctd_jax.training.objective import Objective
from ctd_jax.training.pairs import PairLoss
from tests import synthetic
from tests.parity import released_loss
from tests.training import synthetic_run

SIZE, WIDTH = 8, 16


def random_arrays():
  """Returns a batch and parameters, as `released_loss.run_processes` asks."""
  rng = np.random.default_rng(0)

  def normal(*shape, scale=1.0):
    return (scale * rng.normal(size=shape)).astype(np.float32)

  starts = rng.integers(0, 36, SIZE)
  ends = starts + rng.integers(0, 12, SIZE)
  features = 2 * released_loss.FREQUENCIES
  return {
    "query": normal(SIZE, WIDTH),
    "positive": normal(SIZE, WIDTH),
    "negative": normal(SIZE, WIDTH),
    "ends": np.stack([starts, ends], axis=1),
    "months": rng.integers(starts, ends + 1),
    "projection": normal(WIDTH, WIDTH, scale=0.3),
    "scalar": normal(WIDTH),
    "hidden_kernel": normal(features, features),
    "hidden_bias": normal(features),
    "out_kernel": normal(features, 1),
    "out_bias": normal(1),
    "scale": np.float32(0.3),
  }


def our_loss(arrays, processes):
  """Returns loss and gradients of the parameters."""
  config = synthetic.config("ctd-release")
  config.loss.emulated_processes = processes
  model = synthetic_run.make_model(config)
  mesh = devices.make_mesh(1)
  objective = Objective.from_config(config, model, mesh)
  texts = {name: arrays.pop(name) for name in ("query", "positive", "negative")}
  ends, months = (jnp.asarray(arrays.pop(name)) for name in ("ends", "months"))
  batch = {
    "query_ends": ends,
    "positive_month": months,
    "negative_month": months,
    "negative_answers": jnp.zeros(SIZE, bool),
  }

  @jax.jit
  @jax.value_and_grad
  def compute(params):
    def encode(text):
      vector = normalize_vectors(text @ params["projection"])
      scalar = jax.nn.sigmoid(text @ params["scalar"])
      logits = tuple(
        jnp.zeros((SIZE, n)) for n in synthetic.TIMELINE.class_counts
      )
      nothing = jnp.zeros((SIZE, 0))
      gaussian = Gaussians(nothing, nothing)
      interval = jnp.full((SIZE, 2), -1, jnp.int32)
      return Encoding(
        vector, vector, scalar, logits, nothing, gaussian, interval
      )

    variables = {"params": {"offset": params}}
    query, *records = map(encode, texts.values())
    # The positive and the hard negative of a query together.
    record = jax.tree.map(
      lambda *texts: jax.lax.collapse(jnp.stack(texts, axis=1), 0, 2), *records
    )
    contrastive = PairLoss(
      functools.partial(model.apply, variables),
      mesh,
      objective.loss,
      objective.score_mode,
      objective.pair_loss,
    )
    return contrastive.compute(query, record, batch)[0]

  return compute({name: jnp.asarray(value) for name, value in arrays.items()})


@pytest.mark.parametrize("processes", [1, 2, 4])
def test_processes_are_those_of_torch(processes, tmp_path):
  expected, gradients = released_loss.run_processes(
    random_arrays(), processes, tmp_path
  )
  loss, ours = our_loss(random_arrays(), processes)
  np.testing.assert_allclose(loss, expected, rtol=1e-5)
  assert ours.keys() == gradients.keys()
  for name, gradient in gradients.items():
    size = np.abs(gradient).max()
    assert size > 1e-6, name
    np.testing.assert_allclose(
      ours[name], gradient, atol=1e-4 * size, err_msg=name
    )
  if processes > 1:  # one loss over the whole batch is another one
    other, others = our_loss(random_arrays(), 1)
    assert abs(other - expected) > 1e-3
    for name in ("hidden_kernel", "projection"):
      gap = np.linalg.norm(others[name] - gradients[name])
      assert gap > 0.05 * np.linalg.norm(gradients[name]), name
