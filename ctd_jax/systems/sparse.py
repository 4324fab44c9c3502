"""Sparse retrieval without a query encoder (track T0).

A record without any entry that the query has scores 0 and is no result, so a
ranking may be shorter than k. The vectors are those of
`retrieval.learned_sparse`.

Source: ChunQiuTR, baselines SPLADE-IDF and SPLADE-l0, whose release keeps the
best 2,000 of all kinds before it filters, while each gallery is searched whole
here.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from ctd_jax.benchmark.dataset import Benchmark
from ctd_jax.retrieval import host_search
from ctd_jax.retrieval.host_search import Galleries, TopK
from ctd_jax.systems import registry

if TYPE_CHECKING:  # they import JAX
  import scipy.sparse

  from ctd_jax.retrieval.learned_sparse import SparseEncoder

TRACK = "T0"  # it reads texts alone
SCORE_MODE = "sparse"
ACTIVATIONS = ("log", "loglog")  # `retrieval.learned_sparse` describes them


@dataclasses.dataclass(frozen=True, kw_only=True)
class SparseConfig(registry.SystemConfig):
  """Masked language model whose vectors are searched."""

  SECTION: ClassVar[str] = "sparse"
  REQUIRED: ClassVar[tuple[str, ...]] = ("source",)

  source: str | None = None  # folder or hub id
  activation: str = "log"  # or "loglog", of models with the l0 penalty
  query_length: int = 128  # tokens
  record_length: int = 256  # tokens
  batch_size: int = 8  # records a step
  dtype: str = "float32"  # activations; parameters are always fp32

  def validate(self) -> None:
    """Raises ValueError for a missing source or a wrong value."""
    self.check_choice("activation", ACTIVATIONS)
    self.check_positive("query_length", "record_length", "batch_size")
    super().validate()


def make_search(
  texts: Sequence[str], config: SparseConfig
) -> registry.SearchFn:
  """Returns the search; its first call loads the model and encodes.

  Args:
    texts: of the records [N].
    config: of the model.
  """

  @functools.cache
  def load_and_encode() -> tuple[SparseEncoder, scipy.sparse.csr_array]:
    from ctd_jax.retrieval.learned_sparse import SparseEncoder

    encoder = SparseEncoder(**dataclasses.asdict(config))
    return encoder, encoder.encode_records(texts)

  def search(queries: Sequence[str], k: int, galleries: Galleries) -> TopK:
    encoder, records = load_and_encode()
    query_vectors = encoder.encode_queries(queries)

    def make_scorer(members: np.ndarray) -> host_search.BlockScorer:
      # [V, n]: rows of the vocabulary, which a query has few of.
      transposed = records[members].T.tocsr()
      return lambda start, stop: (
        query_vectors[start:stop] @ transposed
      ).toarray()

    top_k = host_search.search_top_k_by_gallery(
      make_scorer, len(queries), len(texts), k, galleries
    )
    # Score 0 means no entry in common: no result.
    return {
      name: (np.where(s > 0, i, -1), np.where(s > 0, s, -np.inf))
      for name, (i, s) in top_k.items()
    }

  return search


@registry.register("sparse", config=SparseConfig)
def make_sparse(
  benchmark: Benchmark, config: SparseConfig, context: registry.Context
) -> registry.System:
  """Returns sparse retrieval over the gallery."""
  texts = [record.text for record in benchmark.records]
  return registry.System(
    track=TRACK, score_mode=SCORE_MODE, search=make_search(texts, config)
  )
