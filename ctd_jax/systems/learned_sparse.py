"""Sparse retrieval without a query encoder: the records suggest, idf weighs.

A masked language model says of every record which vocabulary entries it
suggests; a query is the set of its own tokens, weighted by the idf.json of the
model's folder. The vector of a record, over the positions of its text:

  log     ln(1 + relu(highest logit)), of which what is not above `PRUNING`
          times the record's largest entry is dropped
  loglog  ln(1 + ln(1 + relu(highest logit))), nothing dropped: for models
          trained with the l0 penalty

Special tokens weigh nothing. A record without any entry that is asked for has
score 0 and is not found, so a ranking may be shorter than k. Why: between BM25,
whose terms must occur, and vectors, which say nothing of terms. Track T0: it
reads texts alone. Called by `baselines`.

Axes: Q queries, N records, B a batch of them, L tokens, D width, V vocabulary.

Source: ChunQiuTR, baselines SPLADE-IDF and SPLADE-l0, whose release keeps the
best 2,000 of all kinds before it filters, while each gallery is searched whole
here; Geng et al. 2024, Shen et al. 2025 (l0).
"""

from __future__ import annotations

import functools
import pathlib
from collections.abc import Callable, Mapping, Sequence

import jax
import jax.numpy as jnp
import ml_collections
import numpy as np
import scipy.sparse

from ctd_jax.models.encoders.bert import BertConfig
from ctd_jax.models.pretrained import hub_folders
from ctd_jax.models.pretrained.masked_lm import (
  MaskedLMHead,
  load_masked_lm_head,
)
from ctd_jax.models.text_encoder import TextEncoder
from ctd_jax.models.tokenizer import TextTokenizer
from ctd_jax.retrieval import search
from ctd_jax.retrieval.search import TopK

TRACK = "T0"
SCORE_MODE = "sparse"
IDF_FILE = "idf.json"
ACTIVATIONS = ("log", "loglog")
PRUNING_RATIO = 0.1


def saturate_logits(max_logits: np.ndarray, activation: str) -> np.ndarray:
  """Returns the vectors of records from their highest logits, [B, V].

  Args:
    max_logits: over the positions of each record, [B, V].
    activation: one of `ACTIVATIONS`, see above.
  """
  weights = np.log1p(np.maximum(max_logits, 0))
  if activation == "loglog":
    return np.log1p(weights)
  largest = weights.max(axis=1, keepdims=True)
  return np.where(weights > PRUNING_RATIO * largest, weights, 0)


class SparseEncoder:
  """A masked language model and the weights of its vocabulary."""

  def __init__(self, config: ml_collections.ConfigDict):
    """Loads a folder or the model of a hub id.

    Args:
      config: `sparse` of a config.

    Raises:
      FileNotFoundError: if the folder or one of its files is missing.
      ValueError: if a file does not fit.
    """
    folder = hub_folders.find_model_folder(config.source)
    self._encoder = TextEncoder.load(
      folder,
      pooling="mean",  # nothing is pooled; any tokenizer will do
      max_length=config.record_length,
      dtype=config.dtype,
      scan_layers=True,
    )
    if not isinstance(self._encoder.config, BertConfig):
      raise ValueError(f"{folder}: a decoder is no masked language model")
    self._head_and_table = load_masked_lm_head(
      folder, self._encoder.config, self._encoder.params
    )
    self._idf = _read_idf(
      folder, self._encoder.tokenizer, self._encoder.config.vocab_size
    )
    self._config = config

  def encode_records(self, texts: Sequence[str]) -> scipy.sparse.csr_array:
    """Returns the vectors of texts, fp32 [N, V]."""
    batch_rows, batch_vectors = [], []
    batch_size = self._config.batch_size
    for batch, states, mask in self._encoder.iter_token_states(
      texts, batch_size
    ):
      max_logits = _max_logits(
        self._encoder.config, *self._head_and_table, states, mask
      )
      max_logits = np.array(max_logits)[: len(batch)]
      max_logits[:, self._encoder.tokenizer.special_ids] = 0
      vectors = saturate_logits(max_logits, self._config.activation)
      batch_vectors.append(scipy.sparse.csr_array(vectors))
      batch_rows.append(batch)
    order = np.argsort(np.concatenate(batch_rows))
    return scipy.sparse.vstack(batch_vectors, format="csr")[order]

  def encode_queries(self, texts: Sequence[str]) -> scipy.sparse.csr_array:
    """Returns the weights of the tokens of texts, fp32 [Q, V]."""
    tokens = self._encoder.tokenizer.token_ids(texts, self._config.query_length)
    vectors = scipy.sparse.lil_array(
      (len(texts), len(self._idf)), dtype=np.float32
    )
    for row, ids in enumerate(tokens):
      vectors[row, ids] = self._idf[ids]
    return vectors.tocsr()


def _read_idf(
  folder: pathlib.Path, tokenizer: TextTokenizer, vocab_size: int
) -> np.ndarray:
  """Returns the weight of every vocabulary entry in a query, fp32 [V].

  Special tokens and those that the file does not name weigh nothing.

  Args:
    folder: of the model, with an idf.json: token -> weight.
    tokenizer: its vocabulary.
    vocab_size: V, at least that of the vocabulary.

  Raises:
    FileNotFoundError: if there is no such file.
    ValueError: naming the token that is unknown or has no number.
  """
  path = folder / IDF_FILE
  weights = np.zeros(vocab_size, np.float32)
  for token, weight in hub_folders.read_json(path).items():
    index = tokenizer.token_id(token)
    if index is None:
      raise ValueError(f"{path}: {token!r} is not in the vocabulary")
    if not isinstance(weight, int | float) or not np.isfinite(weight):
      raise ValueError(f"{path}: the weight of {token!r} is {weight!r}")
    weights[index] = weight
  weights[tokenizer.special_ids] = 0
  return weights


@functools.partial(jax.jit, static_argnames="config")
def _max_logits(
  config: BertConfig,
  params: Mapping[str, jax.Array],
  token_table: jax.Array,
  states: jax.Array,
  mask: jax.Array,
) -> jax.Array:
  """Returns the highest logit of every entry over a text's tokens, [B, V]."""

  def max_logits_of_text(inputs: tuple[jax.Array, jax.Array]) -> jax.Array:
    states, mask = inputs
    logits = MaskedLMHead(config).apply({"params": params}, states, token_table)
    return jnp.where(mask[:, None] > 0, logits, 0.0).max(axis=0)

  # One after the other: the logits of a batch would fill gigabytes.
  return jax.lax.map(max_logits_of_text, (states, mask))


def make_sparse_ranker(
  texts: Sequence[str], config: ml_collections.ConfigDict
) -> Callable[[Sequence[str], int, Mapping[str, np.ndarray]], TopK]:
  """Returns what ranks records for queries; it loads and encodes when called.

  Args:
    texts: of the records [N].
    config: `sparse` of a config.
  """

  @functools.cache
  def load_and_encode() -> tuple[SparseEncoder, scipy.sparse.csr_array]:
    encoder = SparseEncoder(config)
    return encoder, encoder.encode_records(texts)

  def rank_records(
    queries: Sequence[str], k: int, galleries: Mapping[str, np.ndarray]
  ) -> TopK:
    encoder, records = load_and_encode()
    query_vectors = encoder.encode_queries(queries)

    def make_scorer(members: np.ndarray):
      transposed = records[members].T.tocsr()
      return lambda start, stop: (
        query_vectors[start:stop] @ transposed
      ).toarray()

    top_k = search.search_top_k_by_gallery(
      make_scorer, len(queries), len(texts), k, galleries
    )
    return {
      name: (np.where(s > 0, i, -1), np.where(s > 0, s, -np.inf))
      for name, (i, s) in top_k.items()
    }

  return rank_records
