"""Attention of all encoders, in one of several implementations.

"plain" is the reference: matrix products, for every device and type. "xla" and
"cudnn" are those of `jax.nn.dot_product_attention`, and "splash" is JAX's TPU
kernel. The kernels keep no L x L weights in memory, compute in bf16 and cannot
drop weights. All give the same result, up to rounding.

Axes: B texts, L tokens, S attending tokens, H query heads, J key and value
heads, E features of a head.
"""

import functools
from collections.abc import Callable

import flax.struct
import jax
import jax.numpy as jnp
from absl import logging
from jax.experimental.pallas.ops.tpu.splash_attention import (
  splash_attention_kernel,
  splash_attention_mask,
)
from jax.sharding import PartitionSpec
from jaxtyping import Array, Bool, Float, Int

from ctd_jax.models.encoders import layers
from ctd_jax.models.encoders.layers import (
  DATA,
  FSDP,
  TENSOR,
  EncoderFields,
  TokenMask,
  find_platform,
)

AUTO, PLAIN, XLA, CUDNN, SPLASH = "auto", "plain", "xla", "cudnn", "splash"
IMPLEMENTATIONS = (AUTO, PLAIN, XLA, CUDNN, SPLASH)
# Tokens that an implementation takes a multiple of: with a mask, cuDNN has no
# gradient at odd lengths; a vector of a TPU has 128 lanes.
_TOKEN_MULTIPLES = {CUDNN: 2, SPLASH: 128}
_SPLASH_BLOCKS = (512, 256, 128)  # tokens of a tile, the largest that divides
_FLASH_CAPABILITY = 8.0  # of the first GPUs on which cuDNN has it: Ampere
_MAX_CUDNN_HEAD = 128  # features; newer GPUs take more
# Attention score of a masked token. Not -inf: where a row attends to nothing,
# the softmax of its scores would be NaN.
_MASKED_SCORE = -1e30


class AttentionScope(flax.struct.PyTreeNode):
  """The tokens that each token attends to, as an implementation needs them."""

  # One of `IMPLEMENTATIONS`, never "auto".
  implementation: str = flax.struct.field(pytree_node=False)
  # Whether a token attends only to itself and earlier tokens.
  causal: bool = flax.struct.field(pytree_node=False)
  # Bool [B, 1, S, L], whether each attending token attends to each token. For
  # "splash", text numbers, int [B, 2, L]: of attending tokens, then of attended
  # ones. A pair attends if both numbers are equal.
  mask: jax.Array


def check_options(config: EncoderFields) -> None:
  """Raises ValueError if an option is unknown or out of range."""
  for name, choices in (
    ("dtype", layers.DTYPES),
    ("attention", IMPLEMENTATIONS),
    ("kept_activations", layers.KEPT),
  ):
    value = getattr(config, name)
    if value not in choices:
      raise ValueError(f"{name} must be one of {choices}, got {value!r}")
  for name in ("dropout", "attention_dropout"):
    rate = getattr(config, name, 0.0)  # a decoder has no dropout of states
    if not 0 <= rate < 1:
      raise ValueError(f"{name} must be at least 0 and below 1, got {rate}")


def choose_implementation(
  config: EncoderFields, drops_weights: bool, platform: str
) -> str:
  """Returns the implementation for a platform, e.g. "gpu"; logs why."""
  if config.attention != AUTO:
    reason = _find_obstacle(config.attention, config, drops_weights, platform)
    if reason:
      raise ValueError(
        f"config.model.encoder.attention={config.attention!r}: {reason}; "
        "'auto' takes one that works"
      )
    _log_choice(config.attention, "as configured")
    return config.attention
  reasons = []
  for kernel in (SPLASH, CUDNN):
    reason = _find_obstacle(kernel, config, drops_weights, platform)
    if not reason:
      _log_choice(kernel, f"on a {platform} in {config.dtype}")
      return kernel
    reasons.append(f"no {kernel}: {reason}")
  _log_choice(PLAIN, "; ".join(reasons))
  return PLAIN


def _find_obstacle(
  implementation: str,
  config: EncoderFields,
  drops_weights: bool,
  platform: str,
) -> str:
  """Returns why an implementation cannot be used; "" if it can."""
  if implementation == PLAIN:
    return ""
  if drops_weights:
    rate = config.attention_dropout
    return f"it drops no weights, and attention_dropout is {rate}"
  if implementation == XLA:
    return ""
  needed_platform = {CUDNN: "gpu", SPLASH: "tpu"}[implementation]
  if platform != needed_platform:
    return f"it is for a {needed_platform}, and this is a {platform}"
  if config.dtype != "bfloat16":
    return f"it computes in bfloat16, and dtype is {config.dtype}"
  if implementation == SPLASH:
    return ""
  if config.head_dim % 8 or config.head_dim > _MAX_CUDNN_HEAD:
    return (
      f"it takes heads of 8, 16, ... {_MAX_CUDNN_HEAD} features, and these "
      f"have {config.head_dim}"
    )
  # GPUs of other makers have a name instead of a number.
  capability = getattr(jax.local_devices()[0], "compute_capability", "none")
  try:
    is_able = float(capability) >= _FLASH_CAPABILITY
  except ValueError:
    is_able = False
  if not is_able:
    return (
      f"it needs an NVIDIA GPU of compute capability {_FLASH_CAPABILITY}, and "
      f"this one has {capability}"
    )
  return ""


@functools.cache
def _log_choice(implementation: str, reason: str) -> None:
  logging.info("attention %s: %s", implementation, reason)


def make_scope(
  config: EncoderFields,
  mask: TokenMask,
  causal: bool,
  deterministic: bool,
) -> AttentionScope:
  """Returns the scope of a batch of texts.

  Args:
    mask: number of each token's text in its row, 0 = no token, [B, L].
    causal: whether a token attends only to itself and earlier tokens.
  """
  implementation = choose_implementation(
    config,
    drops_weights=config.attention_dropout > 0 and not deterministic,
    platform=find_platform(),
  )
  mask = jnp.asarray(mask, jnp.int32)
  if implementation == SPLASH:
    # Padding attends to the text that it comes after, as it does by a mask
    # where a row has one text: states of mask tokens that fill up a query.
    attending = jnp.where(mask > 0, mask, jax.lax.cummax(mask, axis=1))
    return AttentionScope(SPLASH, causal, jnp.stack([attending, mask], axis=1))
  attention_mask = make_attention_mask(mask)
  if causal:
    # Columns, not positions: packed texts stand in the order of their tokens.
    length = mask.shape[1]
    attention_mask &= jnp.tril(jnp.ones((length, length), bool))
  return AttentionScope(implementation, causal, attention_mask)


def split_columns(
  scope: AttentionScope, columns: Int[Array, "B S"] | None
) -> tuple[Int[Array, "B S"] | None, Int[Array, "B S"] | None]:
  """Returns (before, after): where to take the wanted tokens.

  "plain" and "xla" attend for the wanted tokens only, so `columns` comes first.
  A kernel attends for all tokens of a row; the wanted ones are then taken from
  its result, and `columns` comes second. The other one is None.
  """
  if scope.implementation in (PLAIN, XLA):
    return columns, None
  return None, columns


def select_attending(
  scope: AttentionScope, columns: Int[Array, "B S"] | None
) -> AttentionScope:
  """Returns the scope of the tokens in `columns`; they attend to all tokens.

  None = all tokens. Other columns need "plain" or "xla".
  """
  if columns is None:
    return scope
  mask = jnp.take_along_axis(scope.mask, columns[:, None, :, None], axis=2)
  return scope.replace(mask=mask)


def make_attention_mask(mask: TokenMask) -> Bool[Array, "B 1 L L"]:
  """Returns whether each token attends to each other token, bool [B, 1, L, L].

  A token attends to the tokens of its own text. Padding attends to all texts of
  its row, as in published implementations, so that the states of mask tokens
  after a query match theirs.
  """
  # Axes: text, head (one mask for all), attending token, attended token.
  mask = jnp.asarray(mask)
  query_segments, key_segments = mask[:, None, :, None], mask[:, None, None, :]
  return (key_segments != 0) & (
    (key_segments == query_segments) | (query_segments == 0)
  )


def attend(
  query: Float[Array, "B S H E"],
  key: Float[Array, "B L J E"],
  value: Float[Array, "B L J E"],
  scope: AttentionScope,
  precision: jax.lax.Precision | None = None,
  drop_weights: Callable[[jax.Array], jax.Array] | None = None,
) -> Float[Array, "B S H E"]:
  """Returns the weighted sum of values of each head, [B, S, H, E].

  Args:
    query: queries of the attending tokens.
    key: J divides H; H / J consecutive query heads share one key head.
    value: values, like `key`.
    scope: scope of the attending tokens.
    precision: precision of the products of "plain" and "xla".
    drop_weights: dropout of the weights [B, H, S, L], for "plain" only.

  Source: Vaswani et al. 2017, eq. 1.
  """
  implementation = scope.implementation
  if implementation == PLAIN:
    return dot_product_attention(
      query, key, value, scope.mask, precision, drop_weights
    )
  if implementation == XLA:
    is_highest = precision == jax.lax.Precision.HIGHEST
    with jax.default_matmul_precision("highest" if is_highest else "default"):
      return jax.nn.dot_product_attention(
        query, key, value, mask=scope.mask, implementation="xla"
      )
  length = query.shape[1]
  padding = -length % _TOKEN_MULTIPLES[implementation]
  if padding:
    pad_tokens = functools.partial(_pad_axis, axis=1, padding=padding)
    query, key, value = (pad_tokens(x) for x in (query, key, value))
    mask = _pad_axis(scope.mask, -1, padding)
    if implementation == CUDNN:
      mask = _pad_axis(mask, -2, padding)
    scope = scope.replace(mask=mask)
  if implementation == CUDNN:
    mixture = jax.nn.dot_product_attention(
      query, key, value, mask=scope.mask, implementation="cudnn"
    )
  else:
    mixture = _attend_by_splash(query, key, value, scope)
  return mixture[:, :length]


def _pad_axis(x: jax.Array, axis: int, padding: int) -> jax.Array:
  """Returns `x` with zeros appended to an axis."""
  widths = [(0, 0)] * x.ndim
  widths[axis] = 0, padding
  return jnp.pad(x, widths)


def _attend_by_splash(
  query: Float[Array, "B L H E"],
  key: Float[Array, "B L J E"],
  value: Float[Array, "B L J E"],
  scope: AttentionScope,
) -> Float[Array, "B L H E"]:
  """Returns the same as `attend`; L must be a multiple of 128."""
  length, features = query.shape[1], query.shape[3]
  block = next(size for size in _SPLASH_BLOCKS if length % size == 0)
  make_mask = (
    splash_attention_mask.CausalMask
    if scope.causal
    else splash_attention_mask.FullMask
  )

  def attend_rows(query, key, value, segments):
    """Attention of the rows and heads of one device."""
    local_heads = query.shape[2]
    kernel = splash_attention_kernel.make_splash_mha(
      splash_attention_mask.MultiHeadMask(
        [make_mask((length, length))] * local_heads
      ),
      block_sizes=splash_attention_kernel.BlockSizes(*[block] * 8),
      head_shards=1,
      q_seq_shards=1,
      residual_checkpoint_name=layers.PRODUCT,
    )
    # The kernel does not scale, and has heads in front of tokens.
    scaled_query = (query * features**-0.5).astype(query.dtype)
    mixture = jax.vmap(kernel)(
      *(x.swapaxes(1, 2) for x in (scaled_query, key, value)),
      splash_attention_kernel.SegmentIds(segments[:, 0], segments[:, 1]),
    )
    return mixture.astype(value.dtype).swapaxes(1, 2)

  mesh = jax.sharding.get_abstract_mesh()
  if mesh.empty or mesh.size == 1:
    return attend_rows(query, key, value, scope.mask)
  # The compiler does not partition a kernel by itself.
  splits_heads = key.shape[2] % mesh.shape[TENSOR] == 0
  rows = PartitionSpec((DATA, FSDP))
  states = PartitionSpec((DATA, FSDP), None, TENSOR if splits_heads else None)
  return jax.shard_map(
    attend_rows,
    in_specs=(states, states, states, rows),
    out_specs=states,
    check_vma=False,
  )(query, key, value, scope.mask)


def dot_product_attention(
  query: Float[Array, "B S H E"],
  key: Float[Array, "B L J E"],
  value: Float[Array, "B L J E"],
  attention_mask: Bool[Array, "B 1 S L"],
  precision: jax.lax.Precision | None = None,
  drop_weights: Callable[[jax.Array], jax.Array] | None = None,
) -> Float[Array, "B S H E"]:
  """Returns the same as `jax.nn.dot_product_attention`, [B, S, H, E].

  Heads come before tokens, and the sum is divided by the sum of the weights
  instead of the weights themselves. This saves a quarter to a half of the time
  on a CPU. For the arguments see `attend`; `attention_mask` comes from
  `make_attention_mask` or is stricter.

  Source: Vaswani et al. 2017, eq. 1.
  """
  heads_per_key = query.shape[2] // key.shape[2]
  # [B, H, S, E], then [B, H, L, E] twice.
  query, key, value = (
    jnp.repeat(x, repeats, axis=2).swapaxes(1, 2)
    for x, repeats in ((query, 1), (key, heads_per_key), (value, heads_per_key))
  )
  # Sums are in fp32 also where the states are bf16.
  matmul = functools.partial(
    jnp.matmul, precision=precision, preferred_element_type=jnp.float32
  )
  scale = query.shape[-1] ** -0.5
  scores = matmul(query, key.swapaxes(2, 3)) * scale
  scores = jnp.where(attention_mask, scores, _MASKED_SCORE)
  # The softmax does not depend on the subtrahend, nor does its gradient.
  highest = jax.lax.stop_gradient(scores.max(axis=-1, keepdims=True))
  weights = jnp.exp(scores - highest)
  # The sum of all weights: what is dropped was part of the softmax.
  total = weights.sum(axis=-1, keepdims=True)
  if drop_weights is not None:
    weights = drop_weights(weights)
  mixture = matmul(weights.astype(value.dtype), value) / total
  return mixture.astype(value.dtype).swapaxes(1, 2)
