"""Fields of a training run and of untrained systems; being dissolved.

The fields of a run are in `ctd_jax.training.config`; the sections below go to
the systems that read them.
"""

import ml_collections
from ml_collections import config_dict

from ctd_jax.training import config as training_config
from ctd_jax.training.config import (  # noqa: F401
  METHODS,
  RELEASE,
  REPAIRS,
  apply_method,
  use_published_encoder,
)


def base_config() -> ml_collections.ConfigDict:
  """Returns the config of CTD with the sections of untrained systems."""
  c = training_config.base_config()

  # The dated systems among the baselines.
  c.dating = ml_collections.ConfigDict()
  # Folder of source texts whose bracket notes are read for their citations
  # (track T0+external); None = the gallery alone (T0).
  c.dating.outside = config_dict.placeholder(str)
  c.dating.off = ()  # experts to do without, see ctd_jax.dating.features

  # Late interaction among the baselines. None = what the folder declares, else
  # what is said here.
  c.maxsim = ml_collections.ConfigDict()
  c.maxsim.source = config_dict.placeholder(str)  # folder or hub id
  c.maxsim.query_prefix = config_dict.placeholder(str)  # none
  c.maxsim.record_prefix = config_dict.placeholder(str)  # none
  c.maxsim.query_length = config_dict.placeholder(int)  # 32 tokens
  c.maxsim.record_length = config_dict.placeholder(int)  # 180 tokens

  # Pseudo-queries among the baselines.
  c.pqr = ml_collections.ConfigDict()
  c.pqr.source = config_dict.placeholder(str)  # folder or hub id
  # File of JSON lines, see ctd_jax.systems.pseudo_queries.
  c.pqr.pseudo_queries = config_dict.placeholder(str)
  c.pqr.pooling = "cls"
  c.pqr.end_token = ""  # ends every text; "" = what the folder says
  c.pqr.query_prefix = ""  # before queries and pseudo-queries
  c.pqr.record_prefix = ""  # before the text of a record without any
  c.pqr.query_length = 128  # tokens
  c.pqr.record_length = 256  # tokens, also of pseudo-queries

  # Sparse vectors of a masked language model among the baselines.
  c.sparse = ml_collections.ConfigDict()
  c.sparse.source = config_dict.placeholder(str)  # folder or hub id
  c.sparse.activation = "log"  # or "loglog", of models with the l0 penalty
  c.sparse.query_length = 128  # tokens
  c.sparse.record_length = 256  # tokens
  c.sparse.batch_size = 8  # records a step
  c.sparse.dtype = "float32"  # activations; parameters are always fp32

  # A language model among the baselines that orders what another system found.
  c.rerank = ml_collections.ConfigDict()
  c.rerank.source = config_dict.placeholder(str)  # folder or hub id
  c.rerank.runs = config_dict.placeholder(str)  # folder of run files
  c.rerank.first = "bm25"  # the system whose run files are read there
  c.rerank.depth = 50  # records of a query that are put in order
  c.rerank.instruction = "Retrieve the records that answer the query."
  c.rerank.mixing = 0.0  # share of the first system's cosine in the score
  c.rerank.temperature = 0.05  # times a score of the first system: a cosine
  c.rerank.max_length = 4096  # tokens of a prompt
  c.rerank.batch_size = 8  # pairs a step
  c.rerank.dtype = "bfloat16"  # activations; parameters are always fp32
  return c
