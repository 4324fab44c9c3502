"""Decoders of the Qwen3, Qwen2 and Mistral families as text encoders.

The paper's second backbone is Qwen3-Embedding. The families are one network
with three switches: norms of queries and keys (Qwen3), biases of the
projections (Qwen2), and whether a token attends to later ones (GTE-Qwen2 does).
`pretrained.weights` loads published weights.

Axes: B texts, L tokens, S tokens whose states are wanted, D features, H query
heads, J key and value heads, E features of a head.
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
class DecoderConfig:
  """Geometry of a decoder; parameters are fp32 whatever `dtype` is."""

  vocab_size: int  # rows of the token table
  hidden_size: int = 128  # features D of a token's state
  num_layers: int = 2
  num_heads: int = 4  # query heads H
  num_kv_heads: int = 2  # key and value heads J; divides num_heads
  head_dim: int = 32  # E, even; D is not always H * E
  mlp_size: int = 384  # hidden units of the gated feed-forward layer
  max_length: int = 512  # longest text in tokens
  qk_norm: bool = True  # queries and keys of each head are normalised: Qwen3
  qkv_bias: bool = False  # of their projections: Qwen2
  causal: bool = True  # a token attends only to itself and earlier tokens
  rope_theta: float = 10000.0  # Qwen3-Embedding has 1,000,000
  rms_norm_eps: float = 1e-6
  attention_dropout: float = 0.0  # as published; there is no other dropout
  dtype: str = "float32"  # of the blocks' computations, or "bfloat16"
  scan_layers: bool = False  # changes the names of parameters
  remat: bool = False  # about a third more time, far less memory
  initializer_range: float = 0.02
  lora: LoraConfig | None = None
  # Not of the architecture: vectors that were stored with another are kept.
  attention: str = dataclasses.field(default=attention.AUTO, repr=False)
  kept_activations: str = dataclasses.field(default=layers.AUTO, repr=False)

  def __post_init__(self):
    if self.num_heads % self.num_kv_heads:
      raise ValueError(
        f"num_kv_heads ({self.num_kv_heads}) must divide num_heads "
        f"({self.num_heads})"
      )
    if self.head_dim % 2:
      raise ValueError(f"head_dim must be even, got {self.head_dim}")
    attention.check_options(self)

  def make_encoder(self) -> Decoder:
    """Returns the module of this geometry."""
    return Decoder(self)


def _make_norm(config: DecoderConfig, name: str) -> nn.RMSNorm:
  # linen reduces in fp32 even when the input is bf16.
  return nn.RMSNorm(
    epsilon=config.rms_norm_eps, dtype=jnp.dtype(config.dtype), name=name
  )


def rotary_angles(
  positions: Int[Array, "B L"], head_dim: int, theta: float
) -> Float[Array, "B L {head_dim//2}"]:
  """Returns the angle of every pair of features, fp32 [B, L, E/2].

  Source: Su et al. 2021, eq. 15.
  """
  # angle(position, i) = position * theta^(-2i/E)
  exponents = jnp.arange(0, head_dim, 2, dtype=jnp.float32) / head_dim
  return positions[..., None].astype(jnp.float32) * theta**-exponents


def rotate_heads(
  vectors: Float[Array, "B L H E"], angles: Float[Array, "B L E//2"]
) -> Float[Array, "B L H E"]:
  """Returns queries or keys rotated by their positions, [B, L, H, E].

  Feature i is paired with feature i + E/2, as published weights expect; Su et
  al. pair neighbours.
  """
  # The same angles for every head: [B, L, 1, E/2].
  sine, cosine = jnp.sin(angles)[:, :, None], jnp.cos(angles)[:, :, None]
  first, second = jnp.split(vectors.astype(jnp.float32), 2, axis=-1)
  rotated_halves = (
    first * cosine - second * sine,
    second * cosine + first * sine,
  )
  return jnp.concatenate(rotated_halves, axis=-1).astype(vectors.dtype)


class GroupedAttention(nn.Module):
  """Attention whose query heads share key and value heads: [B, S, D]."""

  config: DecoderConfig

  @nn.compact
  def __call__(
    self,
    states: Float[Array, "B L D"],
    columns: Int[Array, "B S"] | None,
    scope: AttentionScope,
    angles: Float[Array, "B L _"],
    deterministic: bool,
  ) -> Float[Array, "B S D"]:
    """Returns the projected sum of weighted values.

    Args:
      states: states of all tokens, normalised.
      columns: positions of the tokens whose states are wanted; None = all.
      scope: scope of all tokens.
      angles: rotations of all tokens, [B, L, E/2].
    """
    config = self.config

    def split_heads(name: str, heads: int, states: jax.Array) -> jax.Array:
      # [B, L or S, D] -> [B, L or S, heads, E]
      width = heads * config.head_dim
      flat = make_dense(config, width, name, config.qkv_bias)(states)
      return flat.reshape(*flat.shape[:2], heads, config.head_dim)

    attending, taken = attention.split_columns(scope, columns)
    query = split_heads(
      "query", config.num_heads, layers.take_tokens(states, attending)
    )
    key = split_heads("key", config.num_kv_heads, states)
    value = split_heads("value", config.num_kv_heads, states)
    if config.qk_norm:
      # Over the features of each head, before the rotation.
      query = _make_norm(config, "query_norm")(query)
      key = _make_norm(config, "key_norm")(key)
    mixture = attention.attend(
      rotate_heads(query, layers.take_tokens(angles, attending)),
      rotate_heads(key, angles),
      value,
      attention.select_attending(scope, attending),
      layers.get_precision(config),
      functools.partial(
        nn.Dropout(config.attention_dropout), deterministic=deterministic
      ),
    )
    flat = mixture.reshape(*mixture.shape[:2], -1)  # [B, L or S, H * E]
    return make_dense(config, config.hidden_size, "out", bias=False)(
      layers.take_tokens(flat, taken)
    )


class DecoderLayer(nn.Module):
  """One pre-norm block: attention, then gated feed-forward; [B, S, D]."""

  config: DecoderConfig

  @nn.compact
  def __call__(
    self,
    states: Float[Array, "B L D"],
    columns: Int[Array, "B S"] | None,
    scope: AttentionScope,
    angles: Float[Array, "B L _"],
    deterministic: bool,
  ) -> Float[Array, "B S D"]:
    """Returns the states after this block, [B, S, D]."""
    config = self.config
    # Pre-norm: x = x + f(norm(x)) for both sub-layers.
    inner = _make_norm(config, "input_norm")(states)
    mix_tokens = GroupedAttention(config, name="attention")
    states = layers.take_tokens(states, columns) + mix_tokens(
      inner, columns, scope, angles, deterministic
    )
    inner = _make_norm(config, "mlp_norm")(states)
    # SwiGLU: W_down(silu(W_gate x) * W_up x), Shazeer 2020, eq. 6.
    gate = nn.silu(
      make_dense(config, config.mlp_size, "gate", bias=False)(inner)
    )
    inner = gate * make_dense(config, config.mlp_size, "up", bias=False)(inner)
    return states + make_dense(config, config.hidden_size, "down", bias=False)(
      inner
    )


class Decoder(nn.Module):
  """Contextual states of every token or of some, fp32 [B, S, D].

  Source: Qwen3 technical report (2025), section 2; Qwen2 (2024), section 2.2;
  Jiang et al. 2023 (Mistral), whose sliding window no text here exceeds.
  """

  config: DecoderConfig

  @nn.compact
  def __call__(
    self,
    ids: TokenIds,
    mask: TokenMask,
    deterministic: bool = True,
    columns: Int[Array, "B S"] | None = None,
  ) -> Float[Array, "B S D"]:
    """Returns the states after the final norm; see `BertEncoder`."""
    config = self.config
    layers.check_length(ids, config)
    angles = rotary_angles(
      layers.token_positions(mask), config.head_dim, config.rope_theta
    )
    scope = attention.make_scope(config, mask, config.causal, deterministic)
    table = layers.make_embedding(config, config.vocab_size, "embed_tokens")
    states = table(ids).astype(config.dtype)
    self.sow("intermediates", "states", states)
    states = layers.apply_layers(
      DecoderLayer,
      config,
      states,
      columns,
      scope,
      angles,
      deterministic=deterministic,
    )
    return _make_norm(config, "norm")(states).astype(jnp.float32)
