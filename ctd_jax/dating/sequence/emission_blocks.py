"""Emissions of a chronicle, checked and read block by block.

Axes: N sections, B sections of a block, K months, P = K + 1 places: the months
and, last, outside of the calendar; W months of a window; S offsets of the
calendar, one if the emissions have no such axis. A name ends in the axes of its
array.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np

from ctd_jax.dating.sequence import transitions
from ctd_jax.dating.sequence.section_kinds import NUM_KINDS
from ctd_jax.utils import progress

BLOCK_SIZE = 128  # sections whose messages are held at once

# Rows [N, P] or [N, S, P], or a function that gives the rows start..stop and,
# if a slice of months is its third argument, of these and of outside alone.
Emissions = np.ndarray | Callable[..., np.ndarray]


class EmissionBlocks:
  """Emissions and kinds of a chronicle, checked, block by block.

  Attributes:
    kinds_N: of the sections.
    num_months: of the calendar.
    log_prior_SxP: log weights of the first place, which add up to 1.
    block_size: sections of a block.
  """

  def __init__(
    self,
    emissions: Emissions,
    kinds_N: Sequence[int] | np.ndarray,
    log_transitions: transitions.Transitions,
    prior: np.ndarray | None,
    block_size: int,
  ):
    """Checks what can be checked before the emissions are read.

    Arguments are those of `decoder.iter_posteriors`.

    Raises:
      ValueError: saying what should be otherwise.
    """
    self.kinds_N = np.asarray(kinds_N, np.int32)
    self.num_months = log_transitions.stay.shape[1]
    self.block_size = block_size
    self._emissions = emissions
    if self.kinds_N.ndim != 1 or not len(self.kinds_N):
      raise ValueError("a chronicle needs at least one section")
    if not ((self.kinds_N >= 0) & (self.kinds_N < NUM_KINDS)).all():
      raise ValueError(f"the kind of a section should be 0-{NUM_KINDS - 1}")
    if block_size < 1:
      raise ValueError(f"block should be at least 1, got {block_size}")
    num_places = self.num_months + 1
    shape = log_transitions.offset_transition.shape[1], num_places
    prior = np.zeros(shape) if prior is None else np.asarray(prior)
    if prior.shape not in (shape, shape[1:]) or not np.isfinite(prior.max()):
      raise ValueError(
        f"prior should be [{num_places}] or {list(shape)} with a finite "
        f"log probability, got {list(prior.shape)}"
      )
    prior = np.broadcast_to(prior, shape)
    self.log_prior_SxP = jax.nn.log_softmax(
      jnp.asarray(prior, jnp.float32), axis=(0, 1)
    )

  def __len__(self) -> int:
    """Number of blocks."""
    return -(-len(self.kinds_N) // self.block_size)

  def find_span(self, block_index: int) -> tuple[int, int]:
    """Returns the sections start..stop of a block."""
    start = block_index * self.block_size
    return start, min(start + self.block_size, len(self.kinds_N))

  def read_rows(
    self, block_index: int, months: slice | None = None
  ) -> np.ndarray:
    """Returns the emissions of a block, [B, S, P].

    Args:
      block_index: of the block.
      months: first and last of a window, beside outside; all if None.

    Raises:
      ValueError: naming the sections whose emissions have another shape.
    """
    start, stop = self.find_span(block_index)
    if callable(self._emissions):
      window = () if months is None else (months,)
      rows = self._emissions(start, stop, *window)
    else:
      rows = self._emissions[start:stop]
      if months is not None:
        rows = np.concatenate([rows[..., months], rows[..., -1:]], axis=-1)
    rows = np.asarray(rows, np.float32)
    num_months = self.num_months
    if months is not None:
      num_months = len(range(num_months)[months])
    shape = stop - start, len(self.log_prior_SxP), num_months + 1
    expected_shape = shape
    if rows.ndim == 2 and shape[1] == 1:
      expected_shape = shape[::2]  # [N, P], without the axis S
    if rows.shape != expected_shape:
      raise ValueError(
        f"evidence of sections {start}-{stop - 1} should be "
        f"{list(expected_shape)}, got {list(rows.shape)}"
      )
    return rows.reshape(shape)

  def read_block(
    self, block_index: int, months: slice | None = None
  ) -> tuple[jax.Array, jax.Array, int]:
    """Returns emissions [B, S, P], kinds [B] and how many are sections.

    The last block is padded with sections that emit and move nothing.

    Args:
      block_index: of the block.
      months: as of `read_rows`.

    Raises:
      ValueError: naming the section for which no month is possible.
    """
    start, stop = self.find_span(block_index)
    rows = self.read_rows(block_index, months)
    max_emissions = rows.max((1, 2))
    if not np.isfinite(max_emissions).all():
      section = start + np.argmin(np.isfinite(max_emissions))
      raise ValueError(
        f"section {section}: no month is possible, or its evidence is not a "
        "number"
      )
    num_padding = self.block_size - len(rows)
    kinds = self.kinds_N[start:stop].copy()
    if block_index == 0:
      # What lies before the first section is the prior: it moves nothing.
      kinds[0] = NUM_KINDS
    return (
      jnp.asarray(np.pad(rows, ((0, num_padding), (0, 0), (0, 0)))),
      jnp.asarray(np.pad(kinds, (0, num_padding), constant_values=NUM_KINDS)),
      stop - start,
    )

  def check_norms(self, block_index: int, norms: jax.Array) -> np.ndarray:
    """Returns the log norms of the sections of a block, in float64.

    Args:
      block_index: of the block.
      norms: of the block, padding included.

    Raises:
      ValueError: naming the section that no month is left for.
    """
    start, stop = self.find_span(block_index)
    norms = np.asarray(norms, np.float64)[: stop - start]
    if not np.isfinite(norms).all():
      section = start + int(np.argmin(np.isfinite(norms)))
      raise ValueError(f"section {section}: no month is possible in this order")
    return norms


def exponentiate(log_emission_BxSxP, log_other_BxS=None):
  """Returns emissions and those of other months, up to factors [B] in logs.

  Args:
    log_emission_BxSxP: of the months of a window and of outside.
    log_other_BxS: of months outside of the window together; none if None.
  """
  if log_other_BxS is None:
    log_other_BxS = jnp.full(log_emission_BxSxP.shape[:2], -jnp.inf)
  largest_B = jnp.maximum(log_emission_BxSxP.max((1, 2)), log_other_BxS.max(1))
  return (
    jnp.exp(log_emission_BxSxP - largest_B[:, None, None]),
    jnp.exp(log_other_BxS - largest_B[:, None]),
    largest_B,
  )


def progress_bar(steps: range, label: str) -> progress.Progress:
  """Returns the blocks, with a bar where standard error is a terminal.

  Args:
    steps: indices of blocks, in order of the pass.
    label: of the bar.
  """
  return progress.Progress(steps, label, unit="block")
