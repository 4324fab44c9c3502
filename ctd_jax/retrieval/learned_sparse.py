"""Sparse vectors of texts without a query encoder.

A masked language model says of every record which vocabulary entries it
suggests; a query is the set of its own tokens, weighted by the idf.json of the
model's folder. The vector of a record, from the highest logit over its
positions:

  log     ln(1 + relu(logit)), of which entries not above `PRUNING_RATIO` times
          the record's largest entry are dropped
  loglog  ln(1 + ln(1 + relu(logit))), nothing dropped: for models trained with
          the l0 penalty

Special tokens weigh nothing. Such vectors stand between BM25, whose terms must
occur in the record, and dense vectors, which name no terms.

Axes: Q queries, N records, B a batch of them, L tokens, D width, V vocabulary.

Source: Geng et al. 2024; Shen et al. 2025 (l0).
"""

from __future__ import annotations

import functools
import pathlib
from collections.abc import Mapping, Sequence

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse
from jaxtyping import Array, Float, Int

from ctd_jax.models import text_checks
from ctd_jax.models.encoders.bert import BertConfig
from ctd_jax.models.pretrained import hub_folders
from ctd_jax.models.pretrained.masked_lm import (
  MaskedLMHead,
  load_masked_lm_head,
)
from ctd_jax.models.text_encoder import TextEncoder
from ctd_jax.models.tokenizer import TextTokenizer

IDF_FILE = "idf.json"
ACTIVATIONS = ("log", "loglog")
PRUNING_RATIO = 0.1  # of the largest entry of a record


def saturate_logits(
  max_logits: Float[np.ndarray, "B V"], activation: str
) -> Float[np.ndarray, "B V"]:
  """Returns the vectors of records from their highest logits.

  Args:
    max_logits: over the positions of each record.
    activation: one of `ACTIVATIONS`, see above.
  """
  weights = np.log1p(np.maximum(max_logits, 0))
  if activation == "loglog":
    return np.log1p(weights)
  largest = weights.max(axis=1, keepdims=True)
  return np.where(weights > PRUNING_RATIO * largest, weights, 0)


class SparseEncoder:
  """A masked language model and the weights of its vocabulary."""

  def __init__(
    self,
    source: str,
    *,
    activation: str = "log",
    query_length: int = 128,
    record_length: int = 256,
    batch_size: int = 8,
    dtype: str = "float32",
  ):
    """Loads a folder or the model of a hub id.

    Args:
      source: folder with idf.json, or hub id.
      activation: one of `ACTIVATIONS`.
      query_length: tokens read of a query.
      record_length: tokens read of a record.
      batch_size: records encoded at once.
      dtype: of the activations.

    Raises:
      FileNotFoundError: if the folder or one of its files is missing.
      ValueError: if a file does not fit.
    """
    folder = hub_folders.find_model_folder(source)
    self._encoder = TextEncoder.load(
      folder,
      pooling="mean",  # nothing is pooled; any tokenizer will do
      normalize=False,
      prefix="",
      max_length=record_length,
      dtype=dtype,
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
    self._activation = activation
    self._query_length = query_length
    self._batch_size = batch_size

  def encode_records(self, texts: Sequence[str]) -> scipy.sparse.csr_array:
    """Returns the vectors of texts, fp32 [N, V]."""
    batch_rows, batch_vectors = [], []
    for batch, states, mask in self._encoder.iter_token_states(
      texts, self._batch_size
    ):
      max_logits = _max_logits(
        self._encoder.config, *self._head_and_table, states, mask
      )
      # The last batch is padded to full size; [len(batch), V] remain.
      max_logits = np.array(max_logits)[: len(batch)]
      max_logits[:, self._encoder.tokenizer.special_ids] = 0
      vectors = saturate_logits(max_logits, self._activation)
      batch_vectors.append(scipy.sparse.csr_array(vectors))
      batch_rows.append(batch)
    # Batches go by length; rows return to the order of the texts.
    order = np.argsort(np.concatenate(batch_rows))
    return scipy.sparse.vstack(batch_vectors, format="csr")[order]

  def encode_queries(self, texts: Sequence[str]) -> scipy.sparse.csr_array:
    """Returns the weights of the tokens of texts, fp32 [Q, V]."""
    tokens, full_lengths = self._encoder.tokenizer.tokenize(
      texts, self._query_length
    )
    text_checks.warn_of_cuts(
      full_lengths, self._query_length, "queries", "query_length"
    )
    text_checks.warn_of_collapse(texts, tokens, "queries")
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
  params: Mapping[str, Array],
  token_table: Float[Array, "V D"],
  states: Float[Array, "B L D"],
  mask: Int[Array, "B L"],
) -> Float[Array, "B V"]:
  """Returns the highest logit of every entry over a text's tokens."""

  def max_logits_of_text(inputs: tuple[jax.Array, jax.Array]) -> jax.Array:
    states, mask = inputs
    logits = MaskedLMHead(config).apply({"params": params}, states, token_table)
    return jnp.where(mask[:, None] > 0, logits, 0.0).max(axis=0)

  # One text at a time: the logits [B, L, V] of a batch would fill gigabytes.
  return jax.lax.map(max_logits_of_text, (states, mask))
