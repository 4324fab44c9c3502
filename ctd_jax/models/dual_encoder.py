"""The calendrical temporal dual encoder (CTD), and plain ones as its switches.

Why: one module gives the vectors of texts and the score of a query against a
record, with every temporal part behind a switch, so that the fine-tuned
baseline and each ablation are configurations. The same `score` runs inside
the loss and inside the search: what is trained is what is scored.
`train_step` and `evaluate` are the callers.

Axes: B queries (or texts), N records, L tokens, D width, G reigns, Y years,
M months of a year, K months of the timeline, F features of a year.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import flax.struct
import jax
import jax.numpy as jnp
from flax import linen as nn

from ctd_jax.models import calendar_heads, month_posterior, offset_table
from ctd_jax.models.packing import PackedTexts
from ctd_jax.models.pooling import POOLINGS, pool_packed, pool_tokens
from ctd_jax.models.pretrained.geometry import EncoderConfig

SCORE_MODES = ("semantic", "absolute", "ctd", "posterior")
INNER_PRODUCTS = ("semantic", "absolute")  # modes without terms for pairs


@dataclasses.dataclass(frozen=True)
class CTDConfig:
  """A dual encoder; a config of an experiment sets every field.

  The defaults are a CTD whose codes and offsets can see months. The release is
  use_context, use_bias, codebook="release", offset_features="release",
  scalar_axis="release", gate_init=1.0, bias_scale_init=0.0. The fine-tuned
  baseline has both switches off.

  Attributes:
    encoder: geometry of the text encoder.
    class_counts: (G, Y, M), sizes of the calendar heads.
    reign_starts: ordinal of each reign's first month, 0 = the timeline's
      first month; G of them.
    month_classes: (reign, year, month) of each month of the timeline, from 0;
      K of them.
    pooling: "mean", "cls" or "last".
    use_context: whether `absolute` vectors carry the code of their date.
    use_bias: whether mode "ctd" adds the bias of the offset in time.
    codebook: "index" or "release".
    offset_features: "index" or "release".
    scalar_axis: "timeline" or "release".
    context_dim: columns of each codebook.
    bias_dim: offset features, and hidden width of the bias; even.
    gate_init: initial gate of the context.
    bias_scale_init: initial scale of the bias.
    use_posterior: whether mode "posterior" has the posterior of the month.
    posterior_dim: features of a year in it; even.
    mass_weight_init: initial weight of its log mass.
    temperature: divides cosines; a constant.
  """

  encoder: EncoderConfig
  class_counts: tuple[int, int, int]
  reign_starts: tuple[int, ...]
  month_classes: tuple[tuple[int, int, int], ...]
  pooling: str = "mean"
  use_context: bool = True
  use_bias: bool = True
  codebook: str = "index"
  offset_features: str = "index"
  scalar_axis: str = "timeline"
  context_dim: int = 64
  bias_dim: int = 32
  gate_init: float = 0.1
  bias_scale_init: float = 0.1
  use_posterior: bool = False
  posterior_dim: int = 64
  mass_weight_init: float = 1.0
  temperature: float = 0.05

  def __post_init__(self):
    # Lists become tuples: a config is a static, hashable argument of jit.
    for name in ("class_counts", "reign_starts"):
      object.__setattr__(self, name, tuple(map(int, getattr(self, name))))
    classes = tuple(tuple(map(int, month)) for month in self.month_classes)
    object.__setattr__(self, "month_classes", classes)
    choices = {
      "pooling": POOLINGS,
      "codebook": calendar_heads.CODEBOOKS,
      "offset_features": calendar_heads.OFFSET_FEATURES,
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


@flax.struct.dataclass
class Encoding:
  """What the encoder says of each text; a pytree, fp32 unless said.

  Attributes:
    semantic: unit vectors of the text alone, [B, D].
    absolute: unit vectors with the date's code, [B, D]; the same array as
      `semantic` when the context is off.
    scalar: expected position in time, [B]; 0 = first, 1 = last month.
    logits: of reign [B, G], year [B, Y] and month [B, M].
    year_code: what the posterior reads of the regnal year, [B, F]; F = 0 when
      it is off.
    interval: first and last month that a query asks for where that is known
      from elsewhere, int [B, 2]; -1 where the heads have to say it.
  """

  semantic: jax.Array
  absolute: jax.Array
  scalar: jax.Array
  logits: calendar_heads.CalendarLogits
  year_code: jax.Array
  interval: jax.Array

  def vectors(self, mode: str) -> jax.Array:
    """Returns the unit vectors whose cosine a score mode has, [B, D]."""
    return self.semantic if mode == "semantic" else self.absolute


def normalize_vectors(vectors: jax.Array) -> jax.Array:
  """Returns vectors of length 1, [B, D]; a zero vector stays zero."""
  square = jnp.square(vectors).sum(axis=-1, keepdims=True)
  # Clamped under the root, where the gradient at zero would be infinite.
  return vectors * jax.lax.rsqrt(jnp.maximum(square, 1e-24))


class DualEncoder(nn.Module):
  """One encoder for queries and records, and the score between the two.

  Call it through `apply`, e.g.
  `model.apply({"params": params}, ids, mask, method="encode")` and
  `model.apply({"params": params}, queries, records, "ctd", method="score")`.
  """

  config: CTDConfig

  def setup(self):
    """Makes the parts that the configuration switches on."""
    config = self.config
    self.encoder = config.encoder.make_encoder()
    self.heads = calendar_heads.CalendarHeads(config.class_counts)
    if config.use_context:
      self.context = calendar_heads.AbsoluteContext(
        config.codebook, config.context_dim, config.gate_init
      )
    if config.use_bias:
      self.offset = calendar_heads.OffsetBias(
        config.offset_features,
        config.bias_dim,
        len(config.month_classes),
        config.bias_scale_init,
      )
    if config.use_posterior:
      self.posterior = month_posterior.MonthPosterior(
        config.month_classes, config.posterior_dim, config.mass_weight_init
      )

  def __call__(
    self, ids: jax.Array, mask: jax.Array, deterministic: bool = True
  ) -> tuple[Encoding, jax.Array]:
    """Returns the encoding of texts and their mutual scores [B, B].

    For `init`: it touches every parameter.
    """
    encoding = self.encode(ids, mask, deterministic)
    return encoding, self.score(encoding, encoding, SCORE_MODES[-1])

  def encode(
    self, ids: jax.Array, mask: jax.Array, deterministic: bool = True
  ) -> Encoding:
    """Returns vectors and dates of texts, queries and records alike.

    Args:
      ids: token ids, int [B, L].
      mask: 1 or True where a token stands, [B, L].
      deterministic: whether dropout is off; if on, pass rngs={"dropout": key}.
    """
    token_states = self.encoder(ids, mask, deterministic)
    return self._describe(pool_tokens(token_states, mask, self.config.pooling))

  def encode_packed(
    self, texts: PackedTexts, deterministic: bool = True
  ) -> Encoding:
    """Returns what `encode` does, of texts in rows: its arrays are [P, T, ...].

    Args:
      texts: P packs of T texts.
      deterministic: as in `encode`.
    """
    width = texts.ids.shape[2]
    ids, segments = (x.reshape(-1, width) for x in (texts.ids, texts.segments))
    token_states = self.encoder(ids, segments, deterministic)
    pooled = pool_packed(token_states, texts, self.config.pooling)
    shape = texts.slots.shape
    encoding = self._describe(pooled.reshape(shape[0] * shape[1], -1))
    return jax.tree.map(lambda x: x.reshape(*shape, *x.shape[1:]), encoding)

  def _describe(self, pooled: jax.Array) -> Encoding:
    """Returns what is said of texts whose pooled states are [B, D]."""
    config = self.config
    logits = self.heads(pooled)
    scalar = calendar_heads.latent_scalar(
      logits,
      config.scalar_axis,
      config.reign_starts,
      len(config.month_classes),
    )
    semantic = normalize_vectors(pooled)
    absolute = semantic
    if config.use_context:
      absolute = normalize_vectors(self.context(pooled, logits))
    size = len(pooled)
    year_code = jnp.zeros((size, 0), jnp.float32)
    if config.use_posterior:
      year_code = self.posterior.code(pooled)
    interval = jnp.full((size, 2), -1, jnp.int32)
    return Encoding(semantic, absolute, scalar, logits, year_code, interval)

  def bias(self, query: Encoding, record: Encoding) -> jax.Array:
    """Returns the bias of every pair, fp32 [B, N]; zeros when it is off."""
    if not self.config.use_bias:
      shape = query.scalar.shape[0], record.scalar.shape[0]
      return jnp.zeros(shape, jnp.float32)
    return self.offset(query.scalar, record.scalar)

  @nn.nowrap
  def tables(self, params: Mapping[str, Any]) -> dict[str, Any]:
    """Returns what `apply` takes beside the parameters to score many pairs.

    The bias is then looked up, see `offset_table`; nothing if it is off.

    Args:
      params: of this module; those of the encoder may be missing.
    """
    config = self.config
    if not config.use_bias:
      return {}
    months = len(config.month_classes)
    reach = calendar_heads.max_latent_scalar(
      config.scalar_axis, config.reign_starts, config.class_counts, months
    )
    frequencies = calendar_heads.offset_frequencies(
      config.bias_dim // 2, config.offset_features, months
    )
    table, _ = offset_table.tabulate_bias(params["offset"], frequencies, reach)
    return {calendar_heads.TABLES: {"offset": {"bias": table}}}

  def log_months(self, encoding: Encoding) -> jax.Array:
    """Returns log p(month | text) by the heads, fp32 [B, K].

    Needs `use_posterior`.
    """
    return self.posterior.log_p(encoding.logits, encoding.year_code)

  def log_mass(self, query: Encoding, record: Encoding) -> jax.Array:
    """Returns the weighted log mass of every pair, fp32 [B, N]; 0 if off."""
    if not self.config.use_posterior:
      shape = query.scalar.shape[0], record.scalar.shape[0]
      return jnp.zeros(shape, jnp.float32)
    months = len(self.config.month_classes)
    query_p = jnp.where(
      query.interval[:, :1] >= 0,
      month_posterior.uniform_over_interval(query.interval, months),
      jnp.exp(self.log_months(query)),
    )
    return self.posterior.log_mass(query_p, jnp.exp(self.log_months(record)))

  def cosine(self, query: Encoding, record: Encoding, mode: str) -> jax.Array:
    """Returns the cosine of every pair over the temperature, fp32 [B, N].

    Args:
      query: encodings of B queries.
      record: encodings of N records.
      mode: of the score; all but "semantic" have the vectors with context.
    """
    # Accelerators would round the operands, and with them the ranking.
    cosine = jnp.matmul(
      query.vectors(mode),
      record.vectors(mode).T,
      precision=jax.lax.Precision.HIGHEST,
    )
    return cosine / self.config.temperature

  def temporal(self, query: Encoding, record: Encoding, mode: str) -> jax.Array:
    """Returns what a mode adds to the cosine of every pair, fp32 [B, N]."""
    terms = jnp.zeros((query.scalar.shape[0], record.scalar.shape[0]))
    if mode in ("ctd", "posterior"):
      terms = self.bias(query, record)
    if mode == "posterior":
      terms = terms + self.log_mass(query, record)
    return terms

  def score(self, query: Encoding, record: Encoding, mode: str) -> jax.Array:
    """Returns the logits of every query against every record, fp32 [B, N].

    Args:
      query: encodings of B queries.
      record: encodings of N records.
      mode: "semantic" = cosine of the plain vectors over the temperature;
        "absolute" = the same of the vectors with context; "ctd" = that plus
        the bias of every pair; "posterior" = that plus the weighted log chance
        that both are of one month. A part that is switched off adds nothing,
        so with all off the four modes are equal to the bit.

    Raises:
      ValueError: if `mode` is unknown.

    Source: paper, section 4, the scorer, and the released code.
    """
    if mode not in SCORE_MODES:
      raise ValueError(f"score mode must be one of {SCORE_MODES}, got {mode!r}")
    return self.cosine(query, record, mode) + self.temporal(query, record, mode)
