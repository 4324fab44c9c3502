"""A BERT-geometry encoder in flax.linen.

Why: the paper's first backbone is a BERT, and the small encoder that trains
from scratch has the same geometry (post-layer-norm, exact GELU, learned
positions), so that one module serves both and pretrained weights can be
loaded into it (`hf_weights`). `dual_encoder` and `text_encoder` are the
callers.

Axes: B texts, L tokens, D width, H heads.
"""

from __future__ import annotations

import dataclasses
import functools

import jax
import jax.numpy as jnp
from flax import linen as nn

from ctd_jax.models.encoders import layers
from ctd_jax.models.encoders.layer_stack import apply_layers
from ctd_jax.models.encoders.layers import make_dense


@dataclasses.dataclass(frozen=True)
class BertConfig:
  """Geometry of an encoder; parameters are fp32 whatever `dtype` is.

  Attributes:
    vocab_size: rows of the token table.
    hidden_size: width D of a token's state.
    num_layers: transformer blocks.
    num_heads: attention heads H; divides `hidden_size`.
    mlp_size: width of the feed-forward layer.
    max_length: longest text in tokens.
    dropout: rate after the embeddings and after both sub-layers.
    dtype: what the blocks compute in, "float32" or "bfloat16".
    position_offset: rows of the position table before the first token's; 0
      for BERT, 2 for the XLM-R family.
    type_vocab_size: rows of the segment table; only row 0 is ever used, and
      DistilBERT has no such table, 0.
    layer_norm_eps: added to the variance.
    initializer_range: standard deviation of initial weights.
    scan_layers: whether one compiled layer runs over stacked parameters.
    remat: whether the backward pass computes a layer's activations again.
  """

  vocab_size: int
  hidden_size: int = 128
  num_layers: int = 2
  num_heads: int = 2
  mlp_size: int = 512
  max_length: int = 128
  dropout: float = 0.1
  dtype: str = "float32"
  position_offset: int = 0
  type_vocab_size: int = 2
  layer_norm_eps: float = 1e-12
  initializer_range: float = 0.02
  scan_layers: bool = False
  remat: bool = False

  def __post_init__(self):
    if self.vocab_size < 1:
      raise ValueError(f"vocab_size must be positive, got {self.vocab_size}")
    if self.hidden_size % self.num_heads:
      raise ValueError(
        f"num_heads ({self.num_heads}) must divide hidden_size "
        f"({self.hidden_size})"
      )
    layers.check_dtype(self.dtype)

  def make_encoder(self) -> BertEncoder:
    """Returns the module of this geometry."""
    return BertEncoder(self)


def _make_norm(config: BertConfig, name: str) -> nn.LayerNorm:
  # linen reduces in fp32 even when the input is bf16.
  return nn.LayerNorm(
    epsilon=config.layer_norm_eps, dtype=jnp.dtype(config.dtype), name=name
  )


class BertEmbeddings(nn.Module):
  """Sum of token, position and segment rows, normalised: [B, L, D]."""

  config: BertConfig

  @nn.compact
  def __call__(
    self, ids: jax.Array, mask: jax.Array, deterministic: bool
  ) -> jax.Array:
    """Returns the states that enter the first block, [B, L, D]."""
    config = self.config

    make_table = functools.partial(layers.make_embedding, config)
    positions = layers.token_positions(mask) + config.position_offset
    rows = config.max_length + config.position_offset
    states = make_table(config.vocab_size, "word_embeddings")(ids)
    states += make_table(rows, "position_embeddings")(positions)
    if config.type_vocab_size:
      segments = make_table(config.type_vocab_size, "token_type_embeddings")
      states += segments(jnp.zeros((1, 1), jnp.int32))
    states = _make_norm(config, "layer_norm")(states)
    return nn.Dropout(config.dropout)(states, deterministic)


class SelfAttention(nn.Module):
  """Multi-head attention over the real tokens of each text: [B, L, D].

  Attention probabilities have no dropout of their own: the sub-layer's output
  has one.
  """

  config: BertConfig

  @nn.compact
  def __call__(self, states: jax.Array, attention_mask: jax.Array) -> jax.Array:
    """Returns the projected mixture of values, [B, L, D]."""
    config = self.config
    width, heads = config.hidden_size, config.num_heads

    def split_heads(name: str) -> jax.Array:
      flat = make_dense(config, width, name)(states)
      return flat.reshape(*flat.shape[:2], heads, width // heads)

    projections = (split_heads(name) for name in ("query", "key", "value"))
    mixture = layers.dot_product_attention(*projections, attention_mask)
    return make_dense(config, width, "out")(mixture.reshape(states.shape))


class BertLayer(nn.Module):
  """One post-layer-norm block: attention, then feed-forward; [B, L, D]."""

  config: BertConfig

  @nn.compact
  def __call__(
    self, states: jax.Array, attention_mask: jax.Array, deterministic: bool
  ) -> jax.Array:
    """Returns the states after this block, [B, L, D]."""
    config = self.config
    drop = nn.Dropout(config.dropout)
    attention_output = SelfAttention(config, name="attention")(
      states, attention_mask
    )
    states = states + drop(attention_output, deterministic)
    states = _make_norm(config, "attention_norm")(states)
    inner = make_dense(config, config.mlp_size, "intermediate")(states)
    inner = nn.gelu(inner, approximate=False)
    inner = make_dense(config, config.hidden_size, "output")(inner)
    states = states + drop(inner, deterministic)
    return _make_norm(config, "output_norm")(states)


class BertEncoder(nn.Module):
  """Contextual states of every token, fp32 [B, L, D].

  Source: Devlin et al. 2019; sub-module names follow the reference weights
  (embeddings, layer_<i>/{attention, intermediate, output}), one row each in the
  weight table. States that enter the first block and those that leave each
  are sown as "states" among the intermediates.
  """

  config: BertConfig

  @nn.compact
  def __call__(
    self, ids: jax.Array, mask: jax.Array, deterministic: bool = True
  ) -> jax.Array:
    """Returns the states after the last block.

    Args:
      ids: token ids, int [B, L].
      mask: 1 or True where `ids` holds a token, [B, L]; padding may stand on
        either side. Numbers above 1 are further texts of a row, which see
        nothing of each other.
      deterministic: whether dropout is off; if on, pass rngs={"dropout": key}.

    Returns:
      States, fp32 [B, L, D]; values under padding mean nothing.

    Raises:
      ValueError: if the texts are longer than the position table.
    """
    config = self.config
    layers.check_length(ids, config)
    states = BertEmbeddings(config, name="embeddings")(ids, mask, deterministic)
    self.sow("intermediates", "states", states)
    attention_mask = layers.make_attention_mask(mask)
    states = apply_layers(
      BertLayer, config, states, attention_mask, deterministic=deterministic
    )
    return states.astype(jnp.float32)
