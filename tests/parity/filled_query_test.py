"""Queries that are filled up with mask tokens, against published encoders.

Collected with --parity; needs the extra [parity].
"""

import jax
import numpy as np
import pytest
import torch

from tests.models import published_folder
from tests.parity import published


@pytest.mark.parametrize("family", ["bert", "xlm-roberta", "qwen3"])
def test_states_behind_a_text_are_the_published_ones(family, tmp_path):
  model = published.make(family, seed=1)
  published.save(model, tmp_path)
  ids, mask = published.texts("right", seed=1)
  ids = np.where(mask, ids, 3)
  with torch.no_grad():
    expected = model(
      input_ids=torch.tensor(ids, dtype=torch.long),
      attention_mask=torch.tensor(mask, dtype=torch.long),
    ).last_hidden_state.numpy()
  config, params = published_folder.load_encoder(tmp_path)
  got = jax.jit(config.make_encoder().apply)({"params": params}, ids, mask)
  assert not mask.all()
  assert np.abs(np.asarray(got) - expected).max() < 1e-5
