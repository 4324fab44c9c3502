"""Calendrical temporal dual encoder (CTD); every temporal term is a switch.

One module returns the vectors of texts and the score of a query against a
record. The fine-tuned baseline and each ablation are configurations of it. The
same `score` runs in the loss and in the search.

Axes: B texts, Q queries, N records, L tokens, D features, K months of the
timeline, P packs, T texts of a pack, W columns of a row, S slots for texts in a
row.
"""

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from flax import linen as nn
from jaxtyping import Array, Float

from ctd_jax.models import calendar_heads, packing, temporal_bias
from ctd_jax.models.calendar_heads import PRECISION, Gaussians
from ctd_jax.models.encoders.layers import TokenIds, TokenMask
from ctd_jax.models.encoding import Encoding
from ctd_jax.models.packing import POOLINGS, PackedTexts
from ctd_jax.models.pretrained.folders import EncoderConfig

# Configuration of the dual encoder, and the names of its scores.
#
# Axes: G reigns, Y year numbers, M months of a year, K months of the
# timeline.


SCORE_MODES = ("semantic", "absolute", "ctd", "posterior", "temps")
INNER_PRODUCTS = ("semantic", "absolute")  # modes without terms for pairs
SIMILARITIES = ("cosine", "dot")


@dataclasses.dataclass(frozen=True)
class CTDConfig:
  """Geometry and switches of a dual encoder.

  The defaults are a CTD whose codes and offsets resolve months. The released
  model is use_context, use_bias, codebook="release", offset_features="release",
  scalar_axis="release", gate_init=1.0, bias_scale_init=0.0. The fine-tuned
  baseline has use_context and use_bias off. Sequences are kept as tuples.
  """

  encoder: EncoderConfig
  # (G, Y, M), classes of the three calendar heads; (12, 32, 12) in the release.
  class_counts: Sequence[int]
  reign_starts: Sequence[int]  # ordinal of each reign's first month; G
  # (reign, year, month) of each month of the timeline, from 0; K of them.
  month_classes: Sequence[Sequence[int]]
  pooling: str = "mean"  # or "cls", "last"; see `packing.pool_texts`
  use_context: bool = True  # `absolute` vectors carry the code of their date
  use_bias: bool = True  # mode "ctd" adds the bias of the offset in time
  codebook: str = "index"  # "release" cannot tell months apart
  offset_features: str = "index"  # see `temporal_bias.offset_frequencies`
  scalar_axis: str = "timeline"  # see `calendar_heads.latent_scalar`
  context_dim: int = 64  # columns of each codebook
  context_bias: bool = True  # of the projection of the codes
  bias_dim: int = 32  # offset features, and hidden units of the bias; even
  gate_init: float = 0.1  # the release starts the untrained code at 1.0
  bias_scale_init: float = 0.1  # at 0.0 only the scale itself has a gradient
  use_posterior: bool = False  # mode "posterior" adds the log mass of the month
  posterior_dim: int = 64  # features of a regnal year; even
  mass_weight_init: float = 1.0  # of the log mass
  use_gaussian: bool = False  # mode "temps" mixes in the similarity in time
  gaussian_dim: int = 8  # of a text's Gaussian over time
  similarity: str = "cosine"  # of two vectors; see `scale_vectors`
  # Divides similarities. Of the released code, which never learns it; the paper
  # names none.
  temperature: float = 0.05
  learn_temperature: bool = False  # from that value on, see `clip_temperature`
  separate_towers: bool = False  # queries have an encoder of their own

  def __post_init__(self):
    # Lists become tuples: a config is a static, hashable argument of jit.
    for name in ("class_counts", "reign_starts"):
      object.__setattr__(self, name, tuple(map(int, getattr(self, name))))
    classes = tuple(tuple(map(int, month)) for month in self.month_classes)
    object.__setattr__(self, "month_classes", classes)
    choices = {
      "pooling": POOLINGS,
      "similarity": SIMILARITIES,
      "codebook": calendar_heads.CODEBOOKS,
      "offset_features": temporal_bias.OFFSET_FEATURES,
      "scalar_axis": calendar_heads.SCALAR_AXES,
    }
    for name, allowed in choices.items():
      if getattr(self, name) not in allowed:
        raise ValueError(
          f"{name} must be one of {allowed}, got {getattr(self, name)!r}"
        )
    if len(self.reign_starts) != self.class_counts[0]:
      raise ValueError(
        f"reign_starts has {len(self.reign_starts)} entries for "
        f"{self.class_counts[0]} reigns in class_counts"
      )
    for name in ("bias_dim", "posterior_dim"):
      if getattr(self, name) % 2:
        raise ValueError(f"{name} must be even, got {getattr(self, name)}")
    if self.temperature <= 0:
      raise ValueError(f"temperature must be > 0, got {self.temperature}")


def drop_old_values(fields: Mapping[str, Any]) -> dict[str, Any]:
  """Returns fields of a config without later ones that change nothing.

  Checkpoints and indexes from before then have the same description.
  """
  old_values = {
    "similarity": "cosine",
    "context_bias": True,
    "learn_temperature": False,
    "separate_towers": False,
  }
  return {
    name: value
    for name, value in fields.items()
    if name not in old_values or value != old_values[name]
  }


LOG_SCALE = "log_scale"  # parameter: log of the inverse temperature
MIN_TEMPERATURE = 0.01  # of a learned one


def clip_temperature(params: Mapping[str, Any]) -> Mapping[str, Any]:
  """Returns parameters whose learned temperature, if any, is in its bounds.

  Source: CLIP, which clips it after every update so that logits grow at most a
  hundredfold; open_clip has the other bound, 1.
  """
  if LOG_SCALE not in params:
    return params
  scale = jnp.clip(params[LOG_SCALE], 0.0, -math.log(MIN_TEMPERATURE))
  return {**params, LOG_SCALE: scale}


def truncate_encoding(encoding: Encoding, dimension: int) -> Encoding:
  """Returns unit vectors of the first dimensions of each; 0 = all of them."""
  if not dimension:
    return encoding
  return encoding.replace(
    semantic=normalize_vectors(encoding.semantic[:, :dimension]),
    absolute=normalize_vectors(encoding.absolute[:, :dimension]),
  )


# Vectors of the slots of all rows, [rows, S, D] -> of the texts, [B, D].
TakeTexts = Callable[[Float[Array, "_ S D"]], Float[Array, "B D"]]

# Subtrees of the parameters. The second is there with separate towers alone,
# and takes the place of the first for queries.
ENCODER, QUERY_ENCODER = "encoder", "query_encoder"


def choose_query_tower(params: Mapping[str, Any]) -> Mapping[str, Any]:
  """Returns the parameters with which the model encodes queries."""
  return {**params, ENCODER: params.get(QUERY_ENCODER, params[ENCODER])}


def normalize_vectors(vectors: Float[Array, "B D"]) -> Float[Array, "B D"]:
  """Returns vectors of length 1; a zero vector stays zero."""
  square = jnp.square(vectors).sum(axis=-1, keepdims=True)
  # Clamped under the root, where the gradient at zero would be infinite.
  return vectors * jax.lax.rsqrt(jnp.maximum(square, 1e-24))


def scale_vectors(
  vectors: Float[Array, "B D"], similarity: str
) -> Float[Array, "B D"]:
  """Returns vectors whose inner product is a similarity.

  "cosine"; or "dot", their product over the root of D, as in attention, so that
  one temperature serves encoders of every width.
  """
  if similarity == "cosine":
    return normalize_vectors(vectors)
  return vectors * vectors.shape[-1] ** -0.25


class DualEncoder(nn.Module):
  """One encoder for queries and records, and the score between the two.

  Call it through `apply`, e.g.
  `model.apply({"params": params}, ids, mask, method="encode")` and
  `model.apply({"params": params}, queries, records, "ctd", method="score")`.
  """

  config: CTDConfig

  def setup(self):
    """Makes the submodules that the configuration switches on."""
    config = self.config
    if config.learn_temperature:
      start = jnp.float32(-math.log(config.temperature))
      self.temperature = jnp.exp(-self.param(LOG_SCALE, lambda _: start))
    else:
      self.temperature = config.temperature
    self.encoder = config.encoder.make_encoder()
    self.heads = calendar_heads.CalendarHeads(config.class_counts)
    if config.use_context:
      self.context = calendar_heads.AbsoluteContext(
        config.codebook,
        config.context_dim,
        config.gate_init,
        config.context_bias,
      )
    if config.use_bias:
      self.offset = temporal_bias.OffsetBias(
        config.offset_features,
        config.bias_dim,
        len(config.month_classes),
        config.bias_scale_init,
      )
    if config.use_posterior:
      self.posterior = calendar_heads.MonthPosterior(
        config.month_classes, config.posterior_dim, config.mass_weight_init
      )
    if config.use_gaussian:
      self.gaussian = calendar_heads.TimeGaussian(config.gaussian_dim)

  def __call__(
    self, ids: TokenIds, mask: TokenMask, deterministic: bool = True
  ) -> tuple[Encoding, Float[Array, "B B"]]:
    """Returns the encoding of texts and their mutual scores [B, B].

    For `init`: it touches every parameter.
    """
    encoding = self.encode(ids, mask, deterministic)
    return encoding, self.score(encoding, encoding, "posterior")

  def encode(
    self, ids: TokenIds, mask: TokenMask, deterministic: bool = True
  ) -> Encoding:
    """Returns vectors and dates of texts, queries and records alike.

    Args:
      ids: token ids.
      mask: 1 or True for a token.
      deterministic: whether dropout is off; if not, pass rngs={"dropout": key}.
    """
    segments = jnp.asarray(mask, jnp.int32)
    return self._encode_rows(
      ids, segments, 1, lambda pooled: pooled[:, 0], deterministic
    )

  def encode_packed(
    self, texts: PackedTexts, deterministic: bool = True
  ) -> Encoding:
    """Returns the encoding of packed texts, whose arrays are [P, T, ...]."""
    ids, segments = packing.flatten_packs(texts)
    max_texts = packing.slots_per_row(ids.shape[1])
    shape = texts.slots.shape  # (P, T)

    def take(pooled: jax.Array) -> jax.Array:
      vectors = packing.take_packed(pooled, texts)
      return vectors.reshape(shape[0] * shape[1], -1)

    encoding = self._encode_rows(ids, segments, max_texts, take, deterministic)
    return jax.tree.map(lambda x: x.reshape(*shape, *x.shape[1:]), encoding)

  def _encode_rows(
    self,
    ids: TokenIds,
    segments: TokenMask,
    max_texts: int,
    take: TakeTexts,
    deterministic: bool,
  ) -> Encoding:
    """Returns the encoding of the texts of packed rows."""
    config = self.config
    if config.use_gaussian:
      # Its module reads the states of all tokens.
      token_states = self.encoder(ids, segments, deterministic)
      slot_vectors = packing.pool_texts(
        token_states, segments, config.pooling, max_texts
      )
    else:
      slot_vectors = packing.encode_texts(
        self.encoder, ids, segments, config.pooling, max_texts, deterministic
      )
    pooled = take(slot_vectors)
    logits = self.heads(pooled)
    scalar = calendar_heads.latent_scalar(
      logits,
      config.scalar_axis,
      config.reign_starts,
      len(config.month_classes),
    )
    # Heads and context read the pooled state itself, which is not normalised.
    semantic = scale_vectors(pooled, config.similarity)
    absolute = semantic
    if config.use_context:
      # h~ = h + gate * context(p)
      absolute = scale_vectors(self.context(pooled, logits), config.similarity)
    size = len(pooled)
    # Without a posterior an array without columns: the pytree stays the same.
    year_code = jnp.zeros((size, 0), jnp.float32)
    if config.use_posterior:
      year_code = self.posterior.code(pooled)
    gaussian = Gaussians(*[jnp.zeros((size, 0), jnp.float32)] * 2)
    if config.use_gaussian:
      # Frozen for the module: the cosines alone train the encoder.
      states = jax.lax.stop_gradient(token_states)
      scores = self.gaussian.score_tokens(states)
      weighted_means = packing.pool_texts(
        states, segments, packing.ATTENTION, max_texts, scores
      )
      gaussian = self.gaussian(take(weighted_means))
    # -1: the date is left to the heads. Callers replace it for queries.
    interval = jnp.full((size, 2), -1, jnp.int32)
    return Encoding(
      semantic, absolute, scalar, logits, year_code, gaussian, interval
    )

  @nn.nowrap
  def read_temperature(self, params: Mapping[str, Any]) -> Any:
    """Returns the temperature, which parameters may have learned."""
    if not self.config.learn_temperature:
      return self.config.temperature
    return jnp.exp(-params[LOG_SCALE])

  @nn.nowrap
  def tables(self, params: Mapping[str, Any]) -> dict[str, Any]:
    """Returns variables with which `apply` scores many pairs faster.

    The bias is then looked up in a table; see `temporal_bias`. Without a bias
    there is none. `params` may lack those of the encoder.
    """
    config = self.config
    if not config.use_bias:
      return {}
    months = len(config.month_classes)
    reach = calendar_heads.max_latent_scalar(
      config.scalar_axis, config.reign_starts, config.class_counts, months
    )
    frequencies = temporal_bias.offset_frequencies(
      config.bias_dim // 2, config.offset_features, months
    )
    table, _ = temporal_bias.tabulate_bias(params["offset"], frequencies, reach)
    return {temporal_bias.TABLES: {"offset": {"bias": table}}}

  def log_months(self, encoding: Encoding) -> Float[Array, "B K"]:
    """Returns log p(month | text), fp32 [B, K]; needs `use_posterior`."""
    return self.posterior.log_p(encoding.logits, encoding.year_code)

  def month_p(self, encoding: Encoding, mode: str) -> Float[Array, "B K"]:
    """Returns p(month) as a score mode compares it, fp32.

    Uniform over the interval that a query states, else the posterior of the
    text. There are no columns in a mode that compares no months.
    """
    if mode != "posterior" or not self.config.use_posterior:
      return jnp.zeros((len(encoding.scalar), 0), jnp.float32)
    months = len(self.config.month_classes)
    return jnp.where(
      encoding.interval[:, :1] >= 0,
      calendar_heads.uniform_over_interval(encoding.interval, months),
      jnp.exp(self.log_months(encoding)),
    )

  def cosine(
    self, query: Encoding, record: Encoding, mode: str
  ) -> Float[Array, "Q N"]:
    """Returns the cosine of every pair over the temperature, fp32 [Q, N]."""
    # Accelerators would round the operands, and with them the ranking.
    cosine = jnp.matmul(
      query.vectors(mode), record.vectors(mode).T, precision=PRECISION
    )
    return cosine / self.temperature

  def temporal(
    self,
    query: Encoding,
    record: Encoding,
    mode: str,
    query_p: Float[Array, "Q K"],
    record_p: Float[Array, "N K"],
  ) -> Float[Array, "Q N"]:
    """Returns the temporal terms of every pair in a mode, fp32 [Q, N].

    Args:
      query_p: their `month_p`, made once if a text meets many blocks.
    """
    terms = jnp.zeros((query.scalar.shape[0], record.scalar.shape[0]))
    if mode in ("ctd", "posterior") and self.config.use_bias:
      terms = self.offset(query.scalar, record.scalar)
    if mode == "posterior" and self.config.use_posterior:
      terms = terms + self.posterior.log_mass(query_p, record_p)
    return terms

  def score(
    self, query: Encoding, record: Encoding, mode: str
  ) -> Float[Array, "Q N"]:
    """Returns the logits of every query against every record, fp32 [Q, N].

    A term that is switched off adds nothing; with all off the modes are equal
    to the bit.

    Args:
      mode: "semantic" = cosine of the plain vectors over the temperature;
        "absolute" = the same with context vectors; "ctd" = that plus the bias
        of the pair; "posterior" = that plus the weighted log probability that
        both are from the same month; "temps" = cosine of the plain vectors,
        mixed with the similarity in time.

    Source: paper, section 4, the scorer, and the released code.
    """
    if mode not in SCORE_MODES:
      raise ValueError(f"score mode must be one of {SCORE_MODES}, got {mode!r}")
    if mode == "temps" and self.config.use_gaussian:
      similarity = calendar_heads.time_similarity(
        query.gaussian, record.gaussian
      )
      return self.gaussian.fuse(
        self.cosine(query, record, mode), similarity / self.temperature
      )
    # s(q, r) = cos(h_q, h_r) / temperature + b(u_r - u_q) + w log mass(q, r)
    query_p, record_p = (self.month_p(each, mode) for each in (query, record))
    return self.cosine(query, record, mode) + self.temporal(
      query, record, mode, query_p, record_p
    )
