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
from ctd_jax.models.pretrained.masked_lm import MaskedLMHead, load_head
from ctd_jax.models.text_encoder import TextEncoder
from ctd_jax.models.tokenizer import TextTokenizer
from ctd_jax.retrieval import search
from ctd_jax.retrieval.search import Found

TRACK = "T0"
SCORE_MODE = "sparse"
IDF = "idf.json"
ACTIVATIONS = ("log", "loglog")
PRUNING = 0.1


def saturate(highest: np.ndarray, activation: str) -> np.ndarray:
  """Returns the vectors of records from their highest logits, [B, V].

  Args:
    highest: over the positions of each record, [B, V].
    activation: one of `ACTIVATIONS`, see above.
  """
  weights = np.log1p(np.maximum(highest, 0))
  if activation == "loglog":
    return np.log1p(weights)
  largest = weights.max(axis=1, keepdims=True)
  return np.where(weights > PRUNING * largest, weights, 0)


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
    folder = hub_folders.find(config.source)
    self._encoder = TextEncoder.load(
      folder,
      pooling="mean",  # nothing is pooled; any tokenizer will do
      max_length=config.record_length,
      dtype=config.dtype,
      scan_layers=True,
    )
    if not isinstance(self._encoder.config, BertConfig):
      raise ValueError(f"{folder}: a decoder is no masked language model")
    self._head = load_head(folder, self._encoder.config, self._encoder.params)
    self._idf = _read_idf(
      folder, self._encoder.tokenizer, self._encoder.config.vocab_size
    )
    self._settings = config

  def encode_records(self, texts: Sequence[str]) -> scipy.sparse.csr_array:
    """Returns the vectors of texts, fp32 [N, V]."""
    rows, parts = [], []
    size = self._settings.batch_size
    for batch, states, mask in self._encoder.batches(texts, size):
      highest = _highest(self._encoder.config, *self._head, states, mask)
      highest = np.array(highest)[: len(batch)]
      highest[:, self._encoder.tokenizer.special_ids] = 0
      vectors = saturate(highest, self._settings.activation)
      parts.append(scipy.sparse.csr_array(vectors))
      rows.append(batch)
    order = np.argsort(np.concatenate(rows))
    return scipy.sparse.vstack(parts, format="csr")[order]

  def encode_queries(self, texts: Sequence[str]) -> scipy.sparse.csr_array:
    """Returns the weights of the tokens of texts, fp32 [Q, V]."""
    tokens = self._encoder.tokenizer.token_ids(
      texts, self._settings.query_length
    )
    vectors = scipy.sparse.lil_array(
      (len(texts), len(self._idf)), dtype=np.float32
    )
    for row, ids in enumerate(tokens):
      vectors[row, ids] = self._idf[ids]
    return vectors.tocsr()


def _read_idf(
  folder: pathlib.Path, tokenizer: TextTokenizer, size: int
) -> np.ndarray:
  """Returns the weight of every vocabulary entry in a query, fp32 [V].

  Special tokens and those that the file does not name weigh nothing.

  Args:
    folder: of the model, with an idf.json: token -> weight.
    tokenizer: its vocabulary.
    size: V, at least that of the vocabulary.

  Raises:
    FileNotFoundError: if there is no such file.
    ValueError: naming the token that is unknown or has no number.
  """
  path = folder / IDF
  weights = np.zeros(size, np.float32)
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
def _highest(
  config: BertConfig,
  params: Mapping[str, jax.Array],
  table: jax.Array,
  states: jax.Array,
  mask: jax.Array,
) -> jax.Array:
  """Returns the highest logit of every entry over a text's tokens, [B, V]."""

  def of_text(inputs: tuple[jax.Array, jax.Array]) -> jax.Array:
    states, mask = inputs
    logits = MaskedLMHead(config).apply({"params": params}, states, table)
    return jnp.where(mask[:, None] > 0, logits, 0.0).max(axis=0)

  # One after the other: the logits of a batch would fill gigabytes.
  return jax.lax.map(of_text, (states, mask))


def system(
  texts: Sequence[str], config: ml_collections.ConfigDict
) -> Callable[[Sequence[str], int, Mapping[str, np.ndarray]], Found]:
  """Returns what ranks records for queries; it loads and encodes when called.

  Args:
    texts: of the records [N].
    config: `sparse` of a config.
  """

  @functools.cache
  def encoded() -> tuple[SparseEncoder, scipy.sparse.csr_array]:
    encoder = SparseEncoder(config)
    return encoder, encoder.encode_records(texts)

  def rank(
    queries: Sequence[str], k: int, galleries: Mapping[str, np.ndarray]
  ) -> Found:
    encoder, records = encoded()
    asked = encoder.encode_queries(queries)

    def scorer_of(members: np.ndarray):
      transposed = records[members].T.tocsr()
      return lambda start, stop: (asked[start:stop] @ transposed).toarray()

    found = search.topk_by_gallery(
      scorer_of, len(queries), len(texts), k, galleries
    )
    return {
      name: (np.where(s > 0, i, -1), np.where(s > 0, s, -np.inf))
      for name, (i, s) in found.items()
    }

  return rank
