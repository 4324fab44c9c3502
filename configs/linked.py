"""The gallery of the rebuilt Annals dated by a model that links its records.

  python -m ctd_jax.evaluate --baselines_only --config=configs/linked.py \\
    --workdir=runs/linked
  python -m ctd_jax.evaluate --baselines_only --config=configs/linked.py \\
    --workdir=runs/linked-external --config.linked.outside=FOLDER

The model is fitted on the records of train months and then dates the others.
FOLDER is that of the source texts: the second command reads the bracket notes
of all editions in it (track T0+external). Hardware: 2 CPU cores. The rows are
in tests/results/linked.json.
"""

import ml_collections

from ctd_jax.systems import linked_dating, registry
from ctd_jax.training import config as training_config


def get_config() -> ml_collections.ConfigDict:
  """Returns the config."""
  c = training_config.base_config()
  c.dataset = "chunqiutr/rebuilt"
  c.eval.baselines = linked_dating.SYSTEM_NAMES
  c.linked = registry.default_section("linked")
  return c
