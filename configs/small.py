"""A small encoder trained from scratch on the rebuilt Annals.

  python -m ctd_jax.train --config=configs/small.py:ctd --workdir=runs/ctd
  python -m ctd_jax.train --config=configs/small.py:ft --workdir=runs/ft

Hardware: 2 CPU cores, about 40 minutes each with evaluation. The source texts
are downloaded, or read from --config.sources=FOLDER. Methods: `common.METHODS`.
"""

import ml_collections

from ctd_jax.configs import common


def get_config(method: str = "ctd") -> ml_collections.ConfigDict:
  """Returns the config; `method` is what follows the colon."""
  c = common.base()
  c.name = f"{method}-small"
  c.dataset = "chunqiutr/rebuilt"
  c.num_epochs = 2.0  # longer runs memorise the events of train months
  c.eval_every = 408  # once an epoch of 13,053 queries
  if method == "ft":
    # On validation better than 1e-3; the temporal methods prefer that.
    c.optimizer.learning_rate = 3e-4
  common.apply_method(c, method)
  return c
