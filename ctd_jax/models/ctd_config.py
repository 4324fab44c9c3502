"""Configuration of the dual encoder, and the names of its scores.

Axes: G reigns, Y year numbers, M months of a year, K months of the timeline.
"""

from __future__ import annotations

import dataclasses

from ctd_jax.models import calendar_heads, temporal_bias
from ctd_jax.models.pooling import POOLINGS
from ctd_jax.models.pretrained.geometry import EncoderConfig

SCORE_MODES = ("semantic", "absolute", "ctd", "posterior", "temps")
INNER_PRODUCTS = ("semantic", "absolute")  # modes without terms for pairs


@dataclasses.dataclass(frozen=True)
class CTDConfig:
  """Geometry and switches of a dual encoder.

  The defaults are a CTD whose codes and offsets resolve months. The released
  model is use_context, use_bias, codebook="release", offset_features="release",
  scalar_axis="release", gate_init=1.0, bias_scale_init=0.0. The fine-tuned
  baseline has use_context and use_bias off.
  """

  encoder: EncoderConfig
  # (G, Y, M), classes of the three calendar heads; (12, 32, 12) in the release.
  class_counts: tuple[int, int, int]
  reign_starts: tuple[int, ...]  # ordinal of each reign's first month; G
  # (reign, year, month) of each month of the timeline, from 0; K of them.
  month_classes: tuple[tuple[int, int, int], ...]
  pooling: str = "mean"  # or "cls", "last"; see `pooling.pool_texts`
  use_context: bool = True  # `absolute` vectors carry the code of their date
  use_bias: bool = True  # mode "ctd" adds the bias of the offset in time
  codebook: str = "index"  # "release" cannot tell months apart
  offset_features: str = "index"  # see `temporal_bias.offset_frequencies`
  scalar_axis: str = "timeline"  # see `calendar_heads.latent_scalar`
  context_dim: int = 64  # columns of each codebook
  bias_dim: int = 32  # offset features, and hidden units of the bias; even
  gate_init: float = 0.1  # the release starts the untrained code at 1.0
  bias_scale_init: float = 0.1  # at 0.0 only the scale itself has a gradient
  use_posterior: bool = False  # mode "posterior" adds the log mass of the month
  posterior_dim: int = 64  # features of a regnal year; even
  mass_weight_init: float = 1.0  # of the log mass
  use_gaussian: bool = False  # mode "temps" mixes in the similarity in time
  gaussian_dim: int = 8  # of a text's Gaussian over time
  # Divides cosines; never learned. Of the released code; the paper names none.
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
