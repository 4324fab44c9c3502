"""The gallery of the rebuilt Annals dated from its texts; nothing is trained.

  python -m ctd_jax.evaluate --baselines_only --config=configs/dating.py \\
    --workdir=runs/dating
  python -m ctd_jax.evaluate --baselines_only --config=configs/dating.py \\
    --workdir=runs/dating-external --config.dating.outside=FOLDER

FOLDER holds the source texts: the second command reads the bracket notes
of all editions in it (track T0+external). The log names each stage and, every
half minute, its progress. Hardware: 2 CPU cores; a chronicle of your own of two
thousand records (--dataset=beir:FOLDER) takes about a minute of processor time.
The rows are in tests/results/dating.json.
"""

import ml_collections

from ctd_jax.systems import dating_systems, registry
from ctd_jax.training import config as training_config


def get_config() -> ml_collections.ConfigDict:
  """Returns the config."""
  c = training_config.base_config()
  c.dataset = "chunqiutr/rebuilt"
  c.eval.baselines = dating_systems.SYSTEM_NAMES
  c.dating = registry.default_section("dating")
  return c
