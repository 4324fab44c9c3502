"""Networks that predict the parameters of a validity curve.

Why: the published baselines on frozen features (a feed-forward network on
vectors, a bidirectional LSTM on token states) and the fine-tuned encoder, in
flax.linen. `validity.neural` trains them; all give [B, 3] in the order
location, scale, skewness, in whatever units they are trained on.

Axes: B samples, F features, L tokens, D width, S fields of a sample.

Source: Chronocept, arXiv 2505.07637v1, section on baselines.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from flax import linen as nn

from ctd_jax.models.pooling import pool_tokens
from ctd_jax.models.pretrained.geometry import EncoderConfig

TARGETS = 3  # location, scale, skewness


class FeedForward(nn.Module):
  """Two hidden layers, the second half as wide, over one vector: [B, 3].

  Attributes:
    hidden_size: width of the first layer.
    dropout: rate after both.
  """

  hidden_size: int
  dropout: float = 0.0

  @nn.compact
  def __call__(
    self, vectors: jax.Array, deterministic: bool = True
  ) -> jax.Array:
    """Returns the parameters, [B, 3], of vectors [B, F]."""
    for width in (self.hidden_size, self.hidden_size // 2):
      vectors = nn.relu(nn.Dense(width)(vectors))
      vectors = nn.Dropout(self.dropout)(vectors, deterministic)
    return nn.Dense(TARGETS)(vectors)


class BiLstm(nn.Module):
  """One LSTM layer in each direction, its last states to a line: [B, 3].

  Attributes:
    hidden_size: of each direction.
  """

  hidden_size: int

  @nn.compact
  def __call__(
    self, states: jax.Array, lengths: jax.Array, deterministic: bool = True
  ) -> jax.Array:
    """Returns the parameters, [B, 3].

    Args:
      states: of tokens, [B, L, D].
      lengths: how many of them are read, int [B]; those behind are not.
      deterministic: nothing here is random.
    """
    del deterministic
    final_states = []
    for name, reverse in (("forward", False), ("backward", True)):
      cell = nn.OptimizedLSTMCell(self.hidden_size, name=name)
      layer = nn.RNN(cell, return_carry=True, reverse=reverse)
      (_, final_state), _ = layer(states, seq_lengths=lengths)
      final_states.append(final_state)
    return nn.Dense(TARGETS)(jnp.concatenate(final_states, axis=-1))


class EncoderRegression(nn.Module):
  """An encoder, fine-tuned, over each field; its vectors to a line: [B, 3].

  A field without a text is a zero vector and is not attended to. The reference
  reads its pooler's output; here it is the first token's state, since not
  every published encoder has a pooler.

  Attributes:
    geometry: of the encoder, whose parameters are those of `encoder`.
    dropout: rate on the concatenated vectors.
  """

  geometry: EncoderConfig
  dropout: float = 0.0

  def setup(self):
    """Makes the encoder and the head."""
    self.encoder = self.geometry.make_encoder()
    self.drop = nn.Dropout(self.dropout)
    self.head = nn.Dense(TARGETS)

  def __call__(
    self,
    ids: jax.Array,
    mask: jax.Array,
    axis_ids: jax.Array | None = None,
    axis_mask: jax.Array | None = None,
    deterministic: bool = True,
  ) -> jax.Array:
    """Returns the parameters, [B, 3].

    Args:
      ids: tokens of the parents, int [B, 1, L].
      mask: 1 where a token stands, [B, 1, L].
      axis_ids: tokens of the other fields, int [B, S - 1, L] with an L of
        their own; None without axes.
      axis_mask: likewise; all 0 where a field is absent.
      deterministic: whether dropout is off.
    """
    vectors = self._encode_fields(ids, mask, deterministic)
    if axis_ids is not None:
      axes = self._encode_fields(axis_ids, axis_mask, deterministic)
      vectors = jnp.concatenate([vectors, axes], axis=1)
    return self.head(self.drop(vectors, deterministic))

  def _encode_fields(
    self, ids: jax.Array, mask: jax.Array, deterministic: bool
  ) -> jax.Array:
    """Returns the vectors of fields [B, S, L] in a row, [B, S * D]."""
    batch, _, length = ids.shape
    flat = mask.reshape(-1, length)
    is_present = flat.any(axis=1, keepdims=True)
    # A row without a token would attend to nothing: its first pad stands in.
    attention_mask = flat.at[:, 0].set(1)
    states = self.encoder(
      ids.reshape(-1, length), attention_mask, deterministic
    )
    vectors = jnp.where(
      is_present, pool_tokens(states, attention_mask, "cls"), 0.0
    )
    return vectors.reshape(batch, -1)
