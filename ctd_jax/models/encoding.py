"""Encoding of texts: vectors and dates, as one pytree.

Leaves are not annotated with shapes: `jax.tree.map` fills the same structure
with shardings, file names and arrays of packs.

Axes: B texts, D features, G reigns, Y year numbers, M months of a year, F
features of a regnal year, Z dimensions of a Gaussian.
"""

import flax.struct
import jax

from ctd_jax.models.calendar_heads import CalendarLogits, Gaussians


@flax.struct.dataclass
class Encoding:
  """Vectors and predicted dates of B texts; fp32 unless noted.

  Attributes:
    interval: first and last ordinal month of a query whose text states them,
      int [B, 2]; -1 if the date is left to the heads
  """

  # Vectors of the text alone, of unit length where cosines are compared, [B, D]
  semantic: jax.Array
  # The same with the date's code, [B, D]; the same array as `semantic` when the
  # context is off.
  absolute: jax.Array
  scalar: jax.Array  # expected position in time, [B]; 0 = first, 1 = last month
  logits: CalendarLogits  # of reign [B, G], year [B, Y] and month [B, M]
  # Projection that the posterior compares with the features of each regnal
  # year, [B, F]; F = 0 when the posterior is off.
  year_code: jax.Array
  # Over time, mean and log variance [B, Z]; Z = 0 when it is off.
  gaussian: Gaussians
  # Not predicted by the encoder: `encode` fills it with -1, and the caller
  # replaces it for queries.
  interval: jax.Array

  def vectors(self, mode: str) -> jax.Array:
    """Returns the vectors whose product enters a score mode, [B, D]."""
    return self.semantic if mode in ("semantic", "temps") else self.absolute
