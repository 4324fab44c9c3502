"""BM25 with a prior of validity; nothing is trained.

  python -m ctd_jax.evaluate --baselines_only \\
    --config=configs/validity_prior.py --workdir=runs/validity_prior
  python -m ctd_jax.evaluate --baselines_only \\
    --config=configs/validity_prior.py:chunqiutr/rebuilt \\
    --workdir=runs/validity_prior-rebuilt

The argument is the data set. The curve of all records is the mean of synthetic
Chronocept samples, see `ctd_jax.systems.validity_prior`: the row shows the
system at work and says nothing about validity predicted from texts. Hardware:
a CPU core and minutes. The rows are in tests/results/validity_prior.json.
"""

import ml_collections

from ctd_jax.systems import registry
from ctd_jax.training import config as training_config


def get_config(dataset: str = "chunqiutr/mini") -> ml_collections.ConfigDict:
  """Returns the config; `dataset` is what follows the colon."""
  c = training_config.base_config()
  c.dataset = dataset
  c.eval.baselines = ("bm25", "validity_prior")
  c.validity_prior = registry.default_section("validity_prior")
  return c
