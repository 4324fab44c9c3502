"""Late interaction on the rebuilt Annals, exact, nothing trained.

  python -m tests.benchmarks.unpack_e5 --output=e5_small
  python -m ctd_jax.evaluate --baselines_only \\
    --config=configs/late_interaction.py --workdir=runs/maxsim

Without an argument the tokens are those of multilingual-e5-small, read like the
row zs-e5-small of tests/results/rebuilt.json; it was not trained for late
interaction. configs/late_interaction.py:FOLDER takes a model that was, in the
layout of PyLate, with the settings that its folder declares.

Hardware: 2 CPU cores and half an hour, or one accelerator.
"""

import ml_collections

from ctd_jax.systems import registry
from ctd_jax.training import config as training_config

_E5 = "e5_small"


def get_config(source: str = _E5) -> ml_collections.ConfigDict:
  """Returns the config; `source` is what follows the colon."""
  c = training_config.base_config()
  c.dataset = "chunqiutr/rebuilt"
  c.eval.baselines = ("maxsim",)
  c.maxsim = registry.default_section("maxsim")
  c.maxsim.source = source
  if source == _E5:
    c.maxsim.query_prefix = "query: "
    c.maxsim.record_prefix = "passage: "
    c.maxsim.query_length = 40
    c.maxsim.record_length = 40
  return c
