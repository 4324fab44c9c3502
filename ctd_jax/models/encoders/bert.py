"""Encoder of the BERT family: BERT, DistilBERT and XLM-R.

The paper's first backbone is a BERT, and the small encoder that trains from
scratch has the same geometry: post-layer-norm, exact GELU, learned positions.
`pretrained.weights` loads published weights.

Axes: B texts, L tokens, S tokens whose states are wanted, D features, H heads,
E features of a head.
"""

from __future__ import annotations

import dataclasses
import functools

import jax
import jax.numpy as jnp
from flax import linen as nn
from jaxtyping import Array, Float, Int

from ctd_jax.models.encoders import attention, layers
from ctd_jax.models.encoders.attention import AttentionScope
from ctd_jax.models.encoders.layers import (
  LoraConfig,
  TokenIds,
  TokenMask,
  make_dense,
)


@dataclasses.dataclass(frozen=True)
class BertConfig:
  """Geometry of an encoder; parameters are fp32 whatever `dtype` is."""

  vocab_size: int  # rows of the token table
  hidden_size: int = 128  # features D of a token's state
  num_layers: int = 2
  num_heads: int = 2  # H; divides hidden_size
  mlp_size: int = 512  # hidden units of the feed-forward layer
  max_length: int = 128  # longest text in tokens
  dropout: float = 0.1  # after the embeddings and after both sub-layers
  dtype: str = "float32"  # of the blocks' computations, or "bfloat16"
  # Rows of the position table before that of position 0. XLM-R has 2: the pad
  # token's row and the one before it.
  position_offset: int = 0
  # Rows of the segment table, of which only row 0 is used; DistilBERT has none.
  type_vocab_size: int = 2
  layer_norm_eps: float = 1e-12  # XLM-R has 1e-5
  initializer_range: float = 0.02  # standard deviation
  attention_dropout: float = 0.0  # published BERTs have 0.1
  scan_layers: bool = False  # changes the names of parameters
  remat: bool = False  # about a third more time, far less memory
  lora: LoraConfig | None = None
  # Not of the architecture: vectors that were stored with another are kept.
  attention: str = dataclasses.field(default=attention.AUTO, repr=False)
  kept_activations: str = dataclasses.field(default=layers.AUTO, repr=False)

  def __post_init__(self):
    if self.vocab_size < 1:
      raise ValueError(f"vocab_size must be positive, got {self.vocab_size}")
    if self.hidden_size % self.num_heads:
      raise ValueError(
        f"num_heads ({self.num_heads}) must divide hidden_size "
        f"({self.hidden_size})"
      )
    attention.check_options(self)

  @property
  def head_dim(self) -> int:
    """Features E of a head."""
    return self.hidden_size // self.num_heads

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
    self, ids: TokenIds, mask: TokenMask, deterministic: bool
  ) -> Float[Array, "B L D"]:
    """Returns the states that enter the first block, [B, L, D]."""
    config = self.config
    make_table = functools.partial(layers.make_embedding, config)
    positions = layers.token_positions(mask) + config.position_offset
    rows = config.max_length + config.position_offset
    states = make_table(config.vocab_size, "word_embeddings")(ids)
    states += make_table(rows, "position_embeddings")(positions)
    if config.type_vocab_size:
      segments = make_table(config.type_vocab_size, "token_type_embeddings")
      # Texts are never pairs: all tokens are in segment 0.
      states += segments(jnp.zeros((1, 1), jnp.int32))
    # In fp32 up to here: gradients of rows are sums over many tokens.
    states = _make_norm(config, "layer_norm")(states)
    return nn.Dropout(config.dropout)(states, deterministic)


class SelfAttention(nn.Module):
  """Multi-head attention within each text: [B, S, D]."""

  config: BertConfig

  @nn.compact
  def __call__(
    self,
    states: Float[Array, "B L D"],
    columns: Int[Array, "B S"] | None,
    scope: AttentionScope,
    deterministic: bool,
  ) -> Float[Array, "B S D"]:
    """Returns the projected sum of weighted values.

    Args:
      states: states of all tokens.
      columns: positions of the tokens whose states are wanted; None = all.
      scope: scope of all tokens.
    """
    config = self.config
    width = config.hidden_size

    def split_heads(name: str, states: jax.Array) -> jax.Array:
      # [B, L or S, D] -> [B, L or S, H, E]
      flat = make_dense(config, width, name)(states)
      return flat.reshape(*flat.shape[:2], config.num_heads, config.head_dim)

    attending, taken = attention.split_columns(scope, columns)
    query = split_heads("query", layers.take_tokens(states, attending))
    key, value = split_heads("key", states), split_heads("value", states)
    drop = functools.partial(
      nn.Dropout(config.attention_dropout), deterministic=deterministic
    )
    mixture = attention.attend(
      query,
      key,
      value,
      attention.select_attending(scope, attending),
      layers.get_precision(config),
      drop,
    )
    flat = mixture.reshape(*mixture.shape[:2], width)
    return make_dense(config, width, "out")(layers.take_tokens(flat, taken))


class BertLayer(nn.Module):
  """One post-layer-norm block: attention, then feed-forward; [B, S, D]."""

  config: BertConfig

  @nn.compact
  def __call__(
    self,
    states: Float[Array, "B L D"],
    columns: Int[Array, "B S"] | None,
    scope: AttentionScope,
    deterministic: bool,
  ) -> Float[Array, "B S D"]:
    """Returns the states after this block; arguments as in `SelfAttention`."""
    config = self.config
    drop = nn.Dropout(config.dropout)
    attention_output = SelfAttention(config, name="attention")(
      states, columns, scope, deterministic
    )
    # Post-layer-norm: x = LN(x + dropout(f(x))) for both sub-layers.
    states = layers.take_tokens(states, columns) + drop(
      attention_output, deterministic
    )
    states = _make_norm(config, "attention_norm")(states)
    inner = make_dense(config, config.mlp_size, "intermediate")(states)
    inner = make_dense(config, config.hidden_size, "output")(layers.gelu(inner))
    states = states + drop(inner, deterministic)
    return _make_norm(config, "output_norm")(states)


class BertEncoder(nn.Module):
  """Contextual states of all tokens or some, fp32 [B, S, D].

  Submodules are named after the reference weights; `weights.tensor_table`
  has one row for each. The states before the first block and after each block
  are sown as "states" into the intermediates.

  Source: Devlin et al. 2019.
  """

  config: BertConfig

  @nn.compact
  def __call__(
    self,
    ids: TokenIds,
    mask: TokenMask,
    deterministic: bool = True,
    columns: Int[Array, "B S"] | None = None,
  ) -> Float[Array, "B S D"]:
    """Returns the states after the last block; those of padding mean nothing.

    Args:
      ids: token ids.
      mask: 1 or True for a token, 0 for padding on either side. Larger numbers
        are further texts of a row, which do not attend to each other.
      deterministic: whether dropout is off; if not, pass rngs={"dropout": key}.
      columns: positions of the tokens whose states are wanted; None = all.
    """
    config = self.config
    layers.check_length(ids, config)
    states = BertEmbeddings(config, name="embeddings")(ids, mask, deterministic)
    self.sow("intermediates", "states", states)
    scope = attention.make_scope(config, mask, False, deterministic)
    states = layers.apply_layers(
      BertLayer, config, states, columns, scope, deterministic=deterministic
    )
    return states.astype(jnp.float32)
