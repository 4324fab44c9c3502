"""Inference-free sparse retrieval on the rebuilt Annals, nothing trained.

  python -m ctd_jax.evaluate --baselines_only --config=configs/sparse.py \\
    --workdir=runs/sparse
  python -m ctd_jax.evaluate --baselines_only --config=configs/sparse.py:l0 \\
    --workdir=runs/sparse-l0

See `ctd_jax.systems.sparse`. The argument is `idf`, a multilingual BERT, or
`l0`, a model that was trained with the l0 penalty. The weights are read from
--config.sparse.source: a folder with idf.json, or a hub id, which is
downloaded; BERT, DistilBERT and the XLM-R family are supported. The paper does
not say which of several models its l0 row is.

Hardware: one accelerator; only the records are read by the model. Published on
the authors' files (Table 1, test, hit@1): idf .1361, l0 .0006. Not measured
with this config yet.
"""

import ml_collections

from ctd_jax.systems import registry
from ctd_jax.training import config as training_config

_MODEL_PREFIX = "opensearch-project/opensearch-neural-sparse-encoding"
VARIANTS = {
  "idf": (f"{_MODEL_PREFIX}-multilingual-v1", "log"),
  "l0": (f"{_MODEL_PREFIX}-doc-v3-distill", "loglog"),
}


def get_config(argument: str = "idf") -> ml_collections.ConfigDict:
  """Returns the config; `argument` is what follows the colon."""
  if argument not in VARIANTS:
    raise ValueError(
      f"unknown variant {argument!r} after the config's name; expected one of "
      f"{', '.join(VARIANTS)}"
    )
  c = training_config.base_config()
  c.dataset = "chunqiutr/rebuilt"
  c.eval.baselines = ("sparse",)
  c.sparse = registry.default_section("sparse")
  c.sparse.source, c.sparse.activation = VARIANTS[argument]
  return c
