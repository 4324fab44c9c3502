"""Tiny random models of the published implementations, and what they compute.

Why: both the golden files and the live comparison start from the same five
families. Needs the extra [parity].

Axes: B texts, L tokens, D width, S states (one more than layers).
"""

from __future__ import annotations

import pathlib

import numpy as np
import torch
import transformers

torch.set_num_threads(1)  # models too small to share
LENGTHS = (9, 5, 1, 7)
VOCABULARY = 40
_SIZES = {
  "vocab_size": VOCABULARY,
  "hidden_size": 16,
  "num_hidden_layers": 3,
  "num_attention_heads": 4,
  "intermediate_size": 24,
  "max_position_embeddings": 32,
  # Larger than in use: with tiny weights any mask looks right.
  "initializer_range": 0.3,
}
_GROUPED = {**_SIZES, "num_key_value_heads": 2, "pad_token_id": 0}
FAMILIES = {
  "bert": transformers.BertConfig(**_SIZES),
  "xlm-roberta": transformers.XLMRobertaConfig(
    **{**_SIZES, "max_position_embeddings": 34}, type_vocab_size=1
  ),
  "qwen2": transformers.Qwen2Config(**_GROUPED),
  "qwen2-bidirectional": transformers.Qwen2Config(**_GROUPED, is_causal=False),
  "qwen3": transformers.Qwen3Config(
    **_GROUPED,
    head_dim=8,
    rope_parameters={"rope_theta": 1e6, "rope_type": "default"},
  ),
  "mistral": transformers.MistralConfig(**_GROUPED, sliding_window=16),
}


def make(family: str, seed: int) -> transformers.PreTrainedModel:
  """Returns a model whose every parameter is random, in evaluation mode."""
  torch.manual_seed(seed)
  model = transformers.AutoModel.from_config(FAMILIES[family]).eval()
  with torch.no_grad():
    for parameter in model.parameters():
      # Zero biases and unit scales would hide a forgotten one.
      parameter.add_(0.1 * torch.randn_like(parameter))
  return model


def texts(side: str, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
  """Returns ids and mask of random texts padded on one side, [B, L]."""
  columns = max(LENGTHS) + 2
  rng = np.random.default_rng(seed)
  # 1 is the pad token of the XLM-R family, 0 of the others.
  ids = np.ones((len(LENGTHS), columns), np.int32)
  mask = np.zeros_like(ids)
  for row, length in enumerate(LENGTHS):
    first = columns - length if side == "left" else 0
    tokens = rng.integers(4, VOCABULARY, length)
    ids[row, first : first + length] = tokens
    mask[row, first : first + length] = 1
  return ids, mask


def positions(mask: np.ndarray) -> torch.Tensor:
  """Returns the place of each token in its text, from 0, [B, L]."""
  return torch.tensor(np.maximum(mask.cumsum(1) - 1, 0))


def states(
  model: transformers.PreTrainedModel, ids: np.ndarray, mask: np.ndarray
) -> np.ndarray:
  """Returns what enters the first layer and leaves each, [S, B, L, D].

  The last is what the model returns, after a decoder's final norm.
  """
  place = positions(mask)
  if model.config.model_type == "xlm-roberta":
    place = (place + 1) * torch.tensor(mask) + model.config.pad_token_id
  with torch.no_grad():
    output = model(
      input_ids=torch.tensor(ids, dtype=torch.long),
      attention_mask=torch.tensor(mask, dtype=torch.long),
      position_ids=place,
      output_hidden_states=True,
    )
  return np.stack([state.numpy() for state in output.hidden_states])


def save(model: transformers.PreTrainedModel, folder: pathlib.Path) -> None:
  """Writes config.json and weights as their library does."""
  model.save_pretrained(folder)
