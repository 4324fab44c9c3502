"""Records found by pseudo-queries on the rebuilt Annals, nothing trained.

  python -m tests.benchmarks.unpack_e5 --output=e5_small
  python -m ctd_jax.systems.pseudo_queries --model=NAME --base_url=URL \\
    --workdir=runs/pseudo
  python -m ctd_jax.evaluate --baselines_only --config=configs/pqr.py \\
    --config.pqr.pseudo_queries=runs/pseudo/pseudo_queries.jsonl \\
    --workdir=runs/pqr

Without an argument vectors are those of multilingual-e5-small.
configs/pqr.py:FOLDER takes an encoder that is read as the published row's
(BGE-M3: first token, no prefix). tests/results has no row of it, because it
needs a chat model or a file of pseudo-queries.

Hardware: one accelerator; up to 20 texts are encoded a record.
"""

import ml_collections

from ctd_jax.systems import registry
from ctd_jax.training import config as training_config

_E5 = "e5_small"


def get_config(source: str = _E5) -> ml_collections.ConfigDict:
  """Returns the config; `source` is what follows the colon."""
  c = training_config.base_config()
  c.dataset = "chunqiutr/rebuilt"
  c.eval.baselines = ("pqr",)
  c.pqr = registry.default_section("pqr")
  c.pqr.source = source
  if source == _E5:
    c.pqr.pooling = "mean"
    c.pqr.query_prefix = "query: "
    c.pqr.record_prefix = "passage: "
  return c
