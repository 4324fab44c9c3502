"""Language model that reads query and record together and says no or yes.

The probability of yes among {no, yes} as the next token is the score of a
pair. Two texts read together are understood better than two vectors; a forward
pass a pair is the cost, so another system chooses the candidates.

Axes: P pairs, B a batch of them, L tokens, D width.

Source: model card of Qwen3-Reranker (prompt).
"""

from __future__ import annotations

import pathlib
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from ctd_jax.models.encoders.decoder import DecoderConfig
from ctd_jax.models.pooling import pool_tokens
from ctd_jax.models.pretrained import hub_folders
from ctd_jax.models.text_encoder import TextEncoder

ANSWER_TOKENS = ("no", "yes")  # the score is the probability of the second
_OUTPUT_TENSOR = "lm_head.weight"
# The published rerankers were trained with this text, to the letter.
_PROMPT_PREFIX = (
  "<|im_start|>system\nJudge whether the Document meets the requirements based "
  "on the Query and the Instruct provided. Note that the answer can only be "
  '"yes" or "no".<|im_end|>\n<|im_start|>user\n'
)
_PROMPT_SUFFIX = "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"


def _format_prompt(instruction: str, query: str, record: str) -> str:
  """Returns the question between prefix and suffix."""
  return f"<Instruct>: {instruction}\n<Query>: {query}\n<Document>: {record}"


class Reranker:
  """A causal language model that says no or yes."""

  def __init__(
    self,
    source: str,
    *,
    instruction: str,
    max_length: int = 4096,
    batch_size: int = 8,
    dtype: str = "bfloat16",
  ):
    """Loads a folder or the model of a hub id.

    Args:
      source: folder or hub id.
      instruction: the task, one sentence.
      max_length: tokens of a prompt; a longer record loses its end.
      batch_size: pairs a step.
      dtype: of the activations.

    Raises:
      FileNotFoundError: if the folder or one of its files is missing.
      ValueError: if a file does not fit, a token is missing, or it is no
        causal language model.
    """
    folder = hub_folders.find_model_folder(source)
    self._instruction = instruction
    self._batch_size = batch_size
    self._encoder = TextEncoder.load(
      folder,
      pooling="last",
      normalize=False,
      max_length=max_length,
      dtype=dtype,
      scan_layers=True,
      prefix="",  # a pair has the whole prompt
      suffix=_PROMPT_SUFFIX,
    )
    encoder_config = self._encoder.config
    if not (
      isinstance(encoder_config, DecoderConfig) and encoder_config.causal
    ):
      raise ValueError(f"{folder}: expected a causal language model")
    empty_prompt = (
      _PROMPT_PREFIX + _format_prompt(instruction, "", "") + _PROMPT_SUFFIX
    )
    tokens, _ = self._encoder.tokenizer.tokenize(
      [empty_prompt], encoder_config.max_length
    )
    if max_length <= len(tokens[0]):
      raise ValueError(
        f"config.rerank.max_length={max_length}: the prompt alone has "
        f"{len(tokens[0])} tokens"
      )
    self._answer_head = _answer_rows(folder, self._encoder)

  def score_pairs(
    self, pairs: Sequence[tuple[str, str]]
  ) -> Float[np.ndarray, " P"]:
    """Returns p(yes) of pairs of query and record, fp32."""
    texts = [
      _PROMPT_PREFIX + _format_prompt(self._instruction, *pair)
      for pair in pairs
    ]
    probabilities = np.zeros(len(pairs), np.float32)
    for rows, states, mask in self._encoder.iter_token_states(
      texts, self._batch_size
    ):
      # The last batch is padded to full size.
      probabilities[rows] = _probability_of_yes(
        states, mask, self._answer_head
      )[: len(rows)]
    return probabilities


def _answer_rows(
  folder: pathlib.Path, encoder: TextEncoder
) -> Float[np.ndarray, "2 D"]:
  """Returns the rows of the output layer for `ANSWER_TOKENS`.

  The token table is the output layer where the folder has no other.
  """
  ids = [encoder.tokenizer.token_id(answer) for answer in ANSWER_TOKENS]
  if None in ids:
    raise ValueError(
      f"{folder}: {ANSWER_TOKENS[ids.index(None)]!r} is not one token of the "
      "vocabulary; a reranker answers with no or yes"
    )
  tensors = hub_folders.TensorFiles(folder)
  if _OUTPUT_TENSOR in tensors.shapes:
    rows = [
      tensors.read_tensor(_OUTPUT_TENSOR, (slice(i, i + 1), slice(None)))
      for i in ids
    ]
    return np.concatenate(rows)
  if not hub_folders.read_json(folder / hub_folders.CONFIG_FILE).get(
    "tie_word_embeddings"
  ):
    raise ValueError(
      f"{folder}: no tensor {_OUTPUT_TENSOR}, and config.json does not say "
      "tie_word_embeddings"
    )
  return np.asarray(encoder.params["embed_tokens"]["embedding"])[ids]


@jax.jit
def _probability_of_yes(
  states: Float[Array, "B L D"],
  mask: Int[Array, "B L"],
  head: Float[Array, "2 D"],
) -> Float[Array, " B"]:
  """Returns the probability of the second answer after each text."""
  # The suffix ends every prompt, so the last token predicts the answer.
  last_states = pool_tokens(states, mask, "last")
  # [B, 2]; highest: a TPU would multiply in bfloat16.
  logits = jnp.matmul(last_states, head.T, precision="highest")
  return jax.nn.softmax(logits, axis=-1)[:, 1]
