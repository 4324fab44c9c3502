"""Networks that predict the parameters of a validity curve.

The published baselines in flax.linen: a feed-forward network on vectors and a
bidirectional LSTM on token states of a frozen encoder, and a fine-tuned
encoder. All return location, scale and skewness in the units they are trained
on.

Axes: B samples, F features of a sample's vector, L tokens, D features of a
token, S fields of a sample.

Source: Chronocept, arXiv 2505.07637v1, section on baselines.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from flax import linen as nn
from jaxtyping import Array, Float, Int

from ctd_jax.models.pooling import encode_texts
from ctd_jax.models.pretrained.geometry import EncoderConfig

NUM_TARGETS = 3  # location, scale, skewness


class FeedForward(nn.Module):
  """Two hidden layers over one vector, the second half as wide.

  Attributes:
    hidden_size: width of the first layer.
    dropout: rate after both layers.
  """

  hidden_size: int
  dropout: float = 0.0

  @nn.compact
  def __call__(
    self, vectors: Float[Array, "B F"], deterministic: bool = True
  ) -> Float[Array, "B 3"]:
    """Returns the curve parameters.

    Args:
      vectors: concatenated vectors of the fields.
      deterministic: whether dropout is off.
    """
    for width in (self.hidden_size, self.hidden_size // 2):
      vectors = nn.relu(nn.Dense(width)(vectors))
      vectors = nn.Dropout(self.dropout)(vectors, deterministic)
    return nn.Dense(NUM_TARGETS)(vectors)


class BiLstm(nn.Module):
  """One LSTM layer in each direction and a linear map of its last states.

  Attributes:
    hidden_size: of each direction.
  """

  hidden_size: int

  @nn.compact
  def __call__(
    self,
    states: Float[Array, "B L D"],
    lengths: Int[Array, " B"],
    deterministic: bool = True,
  ) -> Float[Array, "B 3"]:
    """Returns the curve parameters.

    Args:
      states: token states of the fields.
      lengths: number of states to read; those behind are padding.
      deterministic: unused, since nothing here is random.
    """
    del deterministic
    final_states = []
    for name, reverse in (("forward", False), ("backward", True)):
      cell = nn.OptimizedLSTMCell(self.hidden_size, name=name)
      layer = nn.RNN(cell, return_carry=True, reverse=reverse)
      # The carry is (cell, hidden), taken at `lengths` and not at L.
      (_, final_state), _ = layer(states, seq_lengths=lengths)
      final_states.append(final_state)
    return nn.Dense(NUM_TARGETS)(jnp.concatenate(final_states, axis=-1))


class EncoderRegression(nn.Module):
  """A fine-tuned encoder of each field and a linear map of the vectors.

  A field without text has a zero vector. The reference implementation reads
  the output of the pooler; here the state of the first token is read, since
  not every published encoder has a pooler.

  Attributes:
    geometry: shape of the encoder; its parameters are under `encoder`.
    dropout: rate on the concatenated vectors.
  """

  geometry: EncoderConfig
  dropout: float = 0.0

  def setup(self):
    """Makes the encoder and the head."""
    self.encoder = self.geometry.make_encoder()
    self.drop = nn.Dropout(self.dropout)
    self.head = nn.Dense(NUM_TARGETS)

  def __call__(
    self,
    ids: Int[Array, "B 1 L"],
    mask: Int[Array, "B 1 L"],
    axis_ids: Int[Array, "B S L_axis"] | None = None,
    axis_mask: Int[Array, "B S L_axis"] | None = None,
    deterministic: bool = True,
  ) -> Float[Array, "B 3"]:
    """Returns the curve parameters.

    Args:
      ids: tokens of the parents.
      mask: 1 at tokens, 0 at padding.
      axis_ids: tokens of the axes, padded to a length of their own; None if
        axes are not read.
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
    """Returns the concatenated vectors of fields [B, S, L], [B, S * D]."""
    batch, _, length = ids.shape
    # [B, S, L] -> [B * S, L]: the encoder sees fields as separate texts.
    flat = mask.reshape(-1, length)
    is_present = flat.any(axis=1, keepdims=True)
    # A row without tokens would attend to nothing and give NaN, so its first
    # padding position is attended to; the vector is set to 0 below.
    attention_mask = flat.at[:, 0].set(1)
    vectors = encode_texts(
      self.encoder,
      ids.reshape(-1, length),
      attention_mask,
      "cls",
      1,
      deterministic,
    )
    return jnp.where(is_present, vectors[:, 0], 0.0).reshape(batch, -1)
