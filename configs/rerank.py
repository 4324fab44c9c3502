"""A reranker over the first 50 records of another system, nothing trained.

  python -m ctd_jax.train --config=configs/zero_shot.py:qwen3_embedding_0_6b \\
    --workdir=runs/zs
  python -m ctd_jax.evaluate --baselines_only --config=configs/rerank.py \\
    --config.rerank.runs=runs/zs/evaluation --workdir=runs/rerank

The first command writes run files; those of any system serve, by
--config.rerank.first=NAME and the folder of run.NAME.*.trec. See
`ctd_jax.systems.rerank`. The weights are read from --config.rerank.source: a
folder, or a hub id, which is downloaded.

Hardware: one accelerator; every query is read with each of its candidates. The
paper has no figure of it. Not measured with this config yet.
"""

import ml_collections

from ctd_jax.systems import registry
from ctd_jax.training import config as training_config
from ctd_jax_configs import qwen


def get_config() -> ml_collections.ConfigDict:
  """Returns the config."""
  c = training_config.base_config()
  c.dataset = "chunqiutr/rebuilt"
  c.eval.baselines = ("rerank",)
  c.rerank = registry.default_section("rerank")
  c.rerank.source = "Qwen/Qwen3-Reranker-0.6B"
  c.rerank.first = "zs-qwen3-embedding-0-6b"
  c.rerank.instruction = qwen.TASK
  return c
