"""Lexical systems on the rebuilt Annals, besides those of every evaluation.

  python -m ctd_jax.evaluate --baselines_only --config=configs/lexical.py \\
    --workdir=runs/lexical

BM25 and BM25 with the time prior, their constants chosen on validation (all
candidates are in tuning.*.tsv of the evaluation folder), and the metadata
oracle. Hardware: a CPU core and ten minutes. The rows are in
tests/results/untrained.json.
"""

import ml_collections

from ctd_jax.training import config as training_config


def get_config() -> ml_collections.ConfigDict:
  """Returns the config."""
  c = training_config.base_config()
  c.dataset = "chunqiutr/rebuilt"
  c.eval.baselines = ("bm25_tuned", "bm25_timekde_tuned", "time_keys")
  return c
