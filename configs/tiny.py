"""CTD on `chunqiutr/mini`, an invented chronicle: a run in minutes.

  python -m ctd_jax.train --config=configs/tiny.py

Hardware: 2 CPU cores. For tests and for trying a change; its figures say
nothing about the Annals. The argument is a method of `training.config.METHODS`:
--config=configs/tiny.py:ft
"""

import ml_collections

from ctd_jax.training import config as training_config


def get_config(argument: str = "ctd") -> ml_collections.ConfigDict:
  """Returns the config; `argument` is what follows the colon."""
  c = training_config.base_config()
  c.name = f"{argument}-tiny"
  c.dataset = "chunqiutr/mini"
  c.num_epochs = 12.0
  c.model.encoder.hidden_size = 64
  c.model.encoder.mlp_size = 256
  c.eval_every = 260
  c.log_every = 20
  training_config.apply_method(c, argument)
  return c
