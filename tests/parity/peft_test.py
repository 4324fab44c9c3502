"""Adapters as PEFT reads them: the encoder computes there what it does here."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import peft
import pytest
import torch
import transformers

from ctd_jax.models.encoders import layers
from ctd_jax.models.encoders.layers import LoraConfig
from ctd_jax.models.pretrained import weights
from tests.models import published_folder

IDS = np.arange(4, 10).reshape(2, 3)


@pytest.mark.parametrize("scan_layers", [False, True])
@pytest.mark.parametrize(
  "targets",
  # The name of a BERT's "output" is the end of that of "out".
  [(), ("output", "query", "down")],
)
@pytest.mark.parametrize(
  "kind", ["bert", "xlm-roberta", "qwen3", "qwen2", "mistral"]
)
def test_states_are_the_same(tmp_path, kind, targets, scan_layers):
  base = published_folder.write(tmp_path / "base", ["元年春王正月"], kind)
  config, params = published_folder.load_encoder(base, scan_layers=scan_layers)
  config = dataclasses.replace(
    config, lora=LoraConfig(rank=3, alpha=6.0, targets=targets)
  )
  encoder, mask = config.make_encoder(), jnp.ones_like(IDS)
  init = encoder.init(jax.random.key(0), IDS, mask)["params"]
  adapters = jax.tree.map(
    lambda x: 0.3 * jax.random.normal(jax.random.key(x.size), x.shape),
    layers.split_adapters(init)[0],
  )
  params = layers.join_params(params, adapters)
  weights.write_adapters(tmp_path / "adapters", config, params, "base")
  theirs = peft.PeftModel.from_pretrained(
    transformers.AutoModel.from_pretrained(base), tmp_path / "adapters"
  ).eval()
  with torch.no_grad():
    states = theirs(
      input_ids=torch.tensor(IDS), attention_mask=torch.tensor(np.array(mask))
    ).last_hidden_state.numpy()
  np.testing.assert_allclose(
    encoder.apply({"params": params}, IDS, mask), states, atol=2e-5
  )
