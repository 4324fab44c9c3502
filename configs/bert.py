"""BERT fine-tuned on the rebuilt Annals: the paper's first backbone.

  python -m ctd_jax.train --config=configs/bert.py:ctd --workdir=runs/bert-ctd

Hardware: one accelerator of 24 GB; the published run took 15 (ft) and 19
minutes (ctd) on one GPU. The weights are read from
--config.model.encoder.source: a folder, or a hub id, which is downloaded.
Methods and variants: `training.config.apply_method`.

Published on the authors' files (Table 1, test, hit@1): ft .5088, tempdate
.5027, tempdate_smooth .5051, ctd .5826; `ft-release` ... `ctd-release` come
closest to how they were made. This config has not been measured yet.
"""

import ml_collections

from ctd_jax.training import config as training_config


def get_config(argument: str = "ctd") -> ml_collections.ConfigDict:
  """Returns the config; `argument` is what follows the colon."""
  c = training_config.base_config()
  c.name = f"{argument}-bert"
  c.dataset = "chunqiutr/rebuilt"
  c.query_length = 64
  c.record_length = 196
  c.batch_size = 64
  c.num_epochs = 5.0
  c.eval_every = 203  # an epoch of 13,053 queries
  training_config.use_published_encoder(c, "google-bert/bert-base-chinese")
  c.model.encoder.scan_layers = False  # a sixth faster on an H200
  c.model.pooling = "cls"
  c.model.gate_init = 1.0
  c.optimizer.learning_rate = 2e-5
  # The heads start from nothing; chosen, not tuned. The release has 1.
  c.optimizer.temporal_rate_factor = 10.0
  training_config.apply_method(c, argument)
  if argument.endswith(f"-{training_config.ADAPTERS}"):
    # Adapters start from nothing, too; chosen, not tuned.
    c.optimizer.learning_rate = 2e-4
    c.optimizer.temporal_rate_factor = 1.0
  return c
