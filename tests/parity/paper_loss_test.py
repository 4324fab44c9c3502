"""Loss and gradients of `ctd-paper` against torch, from the equations.

Collected with --parity; needs the extra [parity].
"""

import jax
import numpy as np
import torch
import transformers
from flax import traverse_util
from safetensors import numpy as safetensors_numpy

from ctd_jax.models.dual_encoder import ENCODER
from ctd_jax.models.pretrained import weights
from ctd_jax.training import experiment
from ctd_jax.training.objective import Objective
from tests.parity import paper_loss
from tests.training import synthetic_run


def test_loss_and_gradients_are_those_of_the_equations(tmp_path, monkeypatch):
  synthetic_run.install(monkeypatch.setattr)
  config = synthetic_run.config("ctd-paper")
  config.model.bias_scale_init = 10.0  # so that gradients pass the bias
  run = experiment.assemble_experiment(config, tmp_path / "run")
  params = run.init_state().params
  batches = run.training_batches()
  batch = next(batches)
  objective = Objective.from_config(config, run.model, run.mesh)
  differentiate = jax.jit(jax.value_and_grad(objective.compute_loss, 0, True))
  (loss, metrics), gradients = jax.device_get(
    differentiate(params, batch, jax.random.key(0))
  )
  assert metrics["calendar"] > 1

  def save(name, encoder_params):
    encoder = run.backbone.encoder
    weights.save_encoder(tmp_path / name, encoder, encoder_params)
    return tmp_path / name

  temporal, temporal_gradients = (
    {
      name: np.asarray(leaf)
      for name, leaf in traverse_util.flatten_dict(tree, sep="/").items()
      if not name.startswith(ENCODER)
    }
    for tree in (params, gradients)
  )
  model = paper_loss.Ctd(
    transformers.BertModel.from_pretrained(
      save("weights", params[ENCODER]), add_pooling_layer=False
    ),
    temporal,
  )
  texts = batches._reader.planner.plan(0)
  queries, records = run.queries["train"].ids, run.records.ids
  rows = (
    queries[texts.queries],
    records[texts.records[:, 0]],
    records[texts.records[:, 1:].reshape(-1)],
  )
  dates = ("query_ends", "positive_month", "positive_classes")
  expected = model(
    *(torch.tensor(np.asarray(x), dtype=torch.long) for x in rows),
    *(
      torch.tensor(np.asarray(batch[name]), dtype=torch.long) for name in dates
    ),
  )
  expected.backward()
  np.testing.assert_allclose(loss, expected.item(), rtol=1e-5)
  ours = safetensors_numpy.load_file(
    save("gradients", gradients[ENCODER]) / "model.safetensors"
  )
  theirs = {
    name: weight.grad.numpy()
    for name, weight in model.encoder.named_parameters()
  }
  assert theirs.keys() == {name.removeprefix("bert.") for name in ours}
  ours = {name.removeprefix("bert."): array for name, array in ours.items()}
  theirs |= {name: w.grad.numpy() for name, w in model.weights.items()}
  ours |= temporal_gradients
  assert ours.keys() == theirs.keys()
  for name, gradient in theirs.items():
    # Of what adds the same to all scores of a query there is no gradient.
    tolerance = max(1e-5 * np.abs(gradient).max(), 1e-6)
    np.testing.assert_allclose(
      ours[name], gradient, rtol=1e-4, atol=tolerance, err_msg=name
    )
  for name in ("offset/hidden_kernel", "context/gate", "heads/reign/kernel"):
    assert np.abs(theirs[name]).max() > 1e-3, name
