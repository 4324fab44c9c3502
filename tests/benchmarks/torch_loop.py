"""Contrastive training by PyTorch, the usual way, to compare ours with."""

import pathlib
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
import transformers


class Padded(NamedTuple):
  """Texts of a pass, padded to the longest.

  Attributes:
    ids: of their tokens, [B, L].
    mask: 1 where a token stands, [B, L]; None = everywhere.
    lengths: tokens of each, [B].
  """

  ids: torch.Tensor
  mask: torch.Tensor | None
  lengths: torch.Tensor


class PlainLoop:
  """A plain loop over an encoder of transformers.

  Texts are padded to the longest of their pass, and queries, positives and
  negatives pass one after the other. Parameters are fp32, products are
  computed in bf16 by autocast.
  """

  def __init__(
    self,
    folder: pathlib.Path,
    pooling: str,
    rate: float,
    temperature: float,
    device: str,
  ):
    """Loads the weights of a folder.

    Args:
      folder: with config.json and weights, of an encoder without dropout.
      pooling: "cls" or "last".
      rate: of AdamW.
      temperature: of the cosines.
      device: that computes.
    """
    config = transformers.AutoConfig.from_pretrained(folder)
    # The head of a BERT that is not trained here.
    options = (
      {"add_pooling_layer": False} if config.model_type == "bert" else {}
    )
    self.device = torch.device(device)
    self.model = (
      transformers.AutoModel.from_pretrained(
        folder, dtype=torch.float32, **options
      )
      .to(self.device)
      .train()
    )
    is_cuda = self.device.type == "cuda"
    self.optimizer = torch.optim.AdamW(
      self.model.parameters(), rate, fused=is_cuda or None
    )
    self.pooling = pooling
    self.temperature = temperature

  def pad_texts(self, texts: Sequence[np.ndarray]) -> list[Padded]:
    """Returns queries, positives and negatives, where they are computed.

    Args:
      texts: tokens of a query, its positive and its negative, and so on.
    """
    passes = []
    for texts_of_pass in (texts[k::3] for k in range(3)):
      rows = [torch.from_numpy(text).long() for text in texts_of_pass]
      lengths = torch.tensor([len(row) for row in rows])
      ids = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)
      is_real = torch.arange(ids.shape[1]) < lengths[:, None]
      passes.append(
        Padded(
          ids.to(self.device),
          # Without a mask attention is by a kernel that takes none.
          None if bool(is_real.all()) else is_real.long().to(self.device),
          lengths.to(self.device),
        )
      )
    return passes

  def encode(self, texts: Padded) -> torch.Tensor:
    """Returns unit vectors of texts."""
    with torch.autocast(self.device.type, torch.bfloat16):
      states = self.model(
        texts.ids, attention_mask=texts.mask
      ).last_hidden_state
    states = states.float()
    if self.pooling == "cls":
      pooled = states[:, 0]
    else:
      rows = torch.arange(len(states), device=self.device)
      pooled = states[rows, texts.lengths - 1]
    return torch.nn.functional.normalize(pooled, dim=1)

  def step(self, passes: Sequence[Padded]) -> torch.Tensor:
    """Updates on what `pad_texts` returns; returns the loss."""
    query, positive, negative = map(self.encode, passes)
    forward = query @ torch.cat([positive, negative]).T / self.temperature
    backward = positive @ query.T / self.temperature
    right = torch.arange(len(query), device=self.device)
    cross_entropy = torch.nn.functional.cross_entropy
    loss = (cross_entropy(forward, right) + cross_entropy(backward, right)) / 2
    self.optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
    self.optimizer.step()
    return loss.detach()
