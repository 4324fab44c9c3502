"""Best path: the most probable places of all sections together.

A long chronicle may be in thousands of months, each section in a few.
`find_windows` finds these from the posterior of a first model; best paths of
later models search only them.

Axes: as in `decoder`; W months of a window, Q = W + 1 places: these and, last,
outside the calendar.

Source: Rabiner 1989, "A tutorial on hidden Markov models": Viterbi.
"""

import dataclasses
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float32, Int, Int32
from scipy.special import logsumexp

from ctd_jax.dating.chronicle import decoder, transitions
from ctd_jax.dating.chronicle.decoder import (
  BLOCK_SIZE,
  EmissionBlocks,
  Emissions,
  exponentiate,
  progress_bar,
)

# A month is in the window if one section gives it this probability.
_MIN_PROBABILITY = 1e-4
# Months after the last of these.
_MARGIN = 12
# Months of a window, each size compiled once.
_SIZES = (64, 256, 1024, 4096)
# Messages of this many states are kept; those of a longer text are made again.
_MAX_KEPT_STATES = 2**24


@dataclasses.dataclass(frozen=True)
class Windows:
  """Months to search for the path of each block."""

  first_months: Int[np.ndarray, " blocks"]  # of each block
  sizes: Int[np.ndarray, " blocks"]  # number of months of each block
  # Log sum of a section's emissions outside the window, of months before it or,
  # if told of, of all.
  log_other: Float32[np.ndarray, "N S"]
  block_size: int  # sections of a block

  def hold(self, months: Int[np.ndarray, " N"]) -> Bool[np.ndarray, " N"]:
    """Returns whether the window of each section holds its month."""
    blocks = np.arange(len(months)) // self.block_size
    first_months = self.first_months[blocks]
    return (months >= first_months) & (
      months < first_months + self.sizes[blocks]
    )


@jax.jit
def _best_block(
  log_moves, message_SxQ, log_emission_BxSxQ, log_other_BxS, kinds_B
):
  """Returns the log weights of the best ways to the places of a block."""
  push = jax.vmap(transitions.propagate_best, in_axes=(None, 0, None))

  def step(message_SxQ, section):
    log_emission_SxQ, kind = section
    message_SxQ = (
      log_moves.offset_transition[kind][..., None] + message_SxQ[:, None]
    ).max(0)
    message_SxQ = push(log_moves, message_SxQ, kind) + log_emission_SxQ
    norm = message_SxQ.max()
    message_SxQ -= norm
    return message_SxQ, (message_SxQ, norm)

  emission_BxSxQ, other_BxS, log_factor_B = exponentiate(
    log_emission_BxSxQ, log_other_BxS
  )
  emission_BxSxQ = transitions.add_flashback(
    jnp.exp(log_moves.outlier), emission_BxSxQ, kinds_B, other_BxS
  )
  messages, norms = jax.lax.scan(
    step, message_SxQ, (jnp.log(emission_BxSxQ), kinds_B)
  )[1]
  return messages, norms + log_factor_B


@jax.jit
def _trace_block(log_moves, state, head_SxQ, messages_BxSxQ, kinds_B):
  """Returns the best states of a block [B], and the state before it."""
  num_places = messages_BxSxQ.shape[-1]
  previous_BxSxQ = jnp.concatenate([head_SxQ[None], messages_BxSxQ[:-1]])

  def step(state, section):
    previous_SxQ, kind = section
    offset, place = jnp.divmod(state, num_places)
    ways_SxQ = previous_SxQ + log_moves.offset_transition[kind][:, offset, None]
    ways_SxQ += transitions.score_best_moves(log_moves, place, kind)
    return jnp.argmax(ways_SxQ).astype(state.dtype), state

  return jax.lax.scan(step, state, (previous_BxSxQ, kinds_B), reverse=True)


class _WindowBlocks:
  """Blocks of a chronicle, each with the months of its window."""

  def __init__(
    self,
    blocks: EmissionBlocks,
    log_transitions: transitions.Transitions,
    windows: Windows | None,
  ):
    self._blocks = blocks
    self._log_transitions = log_transitions
    self._windows = windows

  def find_window(self, block_index: int) -> tuple[int, int]:
    """Returns the first month of a block's window, and how many it has."""
    if self._windows is None:
      return 0, self._blocks.num_months
    return (
      int(self._windows.first_months[block_index]),
      int(self._windows.sizes[block_index]),
    )

  def read_block(self, block_index: int) -> tuple[tuple[jax.Array, ...], int]:
    """Returns emissions, those of other months, kinds; how many sections."""
    first, size = self.find_window(block_index)
    is_whole = size == self._blocks.num_months
    log_emissions, kinds, count = self._blocks.read_block(
      block_index, None if is_whole else slice(first, first + size)
    )
    log_other = np.full(log_emissions.shape[:2], -np.inf, np.float32)
    if not is_whole:
      start, stop = self._blocks.find_span(block_index)
      log_other[:count] = self._windows.log_other[start:stop]
    return (log_emissions, jnp.asarray(log_other), kinds), count

  def take_moves(self, block_index: int) -> transitions.Transitions:
    """Returns the log weights of the moves within the window of a block."""
    first, size = self.find_window(block_index)
    if size == self._blocks.num_months:
      return self._log_transitions._replace(sums=None)
    return transitions.take_months(self._log_transitions, first, size)

  def enter_window(
    self, message: jax.Array, window: tuple[int, int], new_window
  ) -> jax.Array:
    """Returns the message of a window, [S, Q], by the places of another."""
    if window == new_window:
      return message
    by_month = np.full((len(message), self._blocks.num_months), -np.inf)
    message = np.asarray(message)
    first, size = window
    by_month[:, first : first + size] = message[:, :-1]
    first, size = new_window
    return jnp.asarray(
      np.hstack([by_month[:, first : first + size], message[:, -1:]]),
      jnp.float32,
    )

  def read_states(
    self, block_index: int, states: Int32[np.ndarray, " n"]
  ) -> tuple[np.ndarray, np.ndarray]:
    """Returns the offsets and the places in the calendar of states."""
    first, size = self.find_window(block_index)
    offsets, places = np.divmod(states, size + 1)
    return offsets, np.where(
      places == size, self._blocks.num_months, places + first
    )

  def find_state(self, block_index: int, offset: int, place: int) -> int:
    """Returns the state of an offset and a place in the calendar."""
    first, size = self.find_window(block_index)
    is_outside = place == self._blocks.num_months
    return offset * (size + 1) + (size if is_outside else place - first)


def find_best_path(
  emissions: Emissions,
  kinds: Sequence[int] | np.ndarray,
  log_transitions: transitions.Transitions,
  prior: np.ndarray | None = None,
  block_size: int = BLOCK_SIZE,
  windows: Windows | None = None,
) -> tuple[Int32[np.ndarray, " N"], Int32[np.ndarray, " N"]]:
  """Returns the most probable places of all sections together, and offsets.

  Arguments and errors as in `decoder.iter_posteriors`; `windows` are the months
  to search, from `find_windows` with the same block size.
  """
  blocks = EmissionBlocks(emissions, kinds, log_transitions, prior, block_size)
  in_window = _WindowBlocks(blocks, log_transitions, windows)
  heads, window = [], (0, blocks.num_months)
  message = blocks.log_prior_SxP
  kept, num_kept = {}, 0
  for block_index in progress_bar(range(len(blocks)), "best path"):
    new_window = in_window.find_window(block_index)
    heads.append(in_window.enter_window(message, window, new_window))
    rows, count = in_window.read_block(block_index)
    log_moves = in_window.take_moves(block_index)
    messages, norms = _best_block(log_moves, heads[-1], *rows)
    blocks.check_norms(block_index, norms)
    message, window = messages[count - 1], new_window
    num_kept += messages.size
    if num_kept <= _MAX_KEPT_STATES:
      kept[block_index] = messages, rows[-1], count
  offsets = np.empty(len(blocks.kinds_N), np.int32)
  places = np.empty_like(offsets)
  state = int(jnp.argmax(message))  # of [S, Q], flattened
  for block_index in range(len(blocks) - 1, -1, -1):
    log_moves = in_window.take_moves(block_index)
    if block_index in kept:
      messages, row_kinds, count = kept[block_index]
    else:
      (*rows, row_kinds), count = in_window.read_block(block_index)
      messages, _ = _best_block(log_moves, heads[block_index], *rows, row_kinds)
    state_before, states = _trace_block(
      log_moves, jnp.int32(state), heads[block_index], messages, row_kinds
    )
    span = slice(*blocks.find_span(block_index))
    offsets[span], places[span] = in_window.read_states(
      block_index, np.asarray(states)[:count]
    )
    if block_index:
      before = in_window.read_states(block_index, np.array([state_before]))
      state = in_window.find_state(block_index - 1, *np.ravel(before).tolist())
  return places, offsets


def find_windows(
  emissions: Emissions,
  kinds: Sequence[int] | np.ndarray,
  log_transitions: transitions.Transitions,
  prior: np.ndarray | None = None,
  block_size: int = BLOCK_SIZE,
) -> Windows:
  """Returns the months that the best path can pass in each block.

  Arguments as in `decoder.iter_posteriors`.
  """
  blocks = EmissionBlocks(emissions, kinds, log_transitions, prior, block_size)
  num_months = blocks.num_months
  # Of each block the first and last month of its sections, and of the last.
  spans = np.tile([num_months, -1], (2, len(blocks), 1))
  for block in decoder.iter_posteriors(
    emissions, kinds, log_transitions, prior, block_size
  ):
    is_likely = block.standing[:, :-1] >= _MIN_PROBABILITY
    for span, rows in zip(
      spans[:, block.start // block_size],
      (is_likely, is_likely[-1:]),
      strict=True,
    ):
      months = np.flatnonzero(rows.any(0))
      if len(months):
        span[:] = months[[0, -1]]
  # A path enters a block from the last section of the block before.
  first_months, last_months = spans[0].T
  first_months[1:] = np.minimum(first_months[1:], spans[1, :-1, 0])
  last_months[1:] = np.maximum(last_months[1:], spans[1, :-1, 1])
  year_start = np.asarray(log_transitions.year_start)
  first_months = year_start[np.minimum(first_months, num_months - 1)]
  num_needed = last_months + _MARGIN + 1 - first_months
  sizes = np.append(np.minimum(_SIZES, num_months), num_months)
  sizes = sizes[np.minimum(np.searchsorted(sizes, num_needed), len(sizes) - 1)]
  first_months = np.minimum(first_months, num_months - sizes)
  return Windows(
    first_months,
    sizes,
    _sum_other_months(blocks, first_months, sizes),
    block_size,
  )


def _sum_other_months(
  blocks: EmissionBlocks,
  first_months: Int[np.ndarray, " blocks"],
  sizes: Int[np.ndarray, " blocks"],
) -> Float32[np.ndarray, "N S"]:
  """Returns `log_other` of windows."""
  log_other = np.full(
    (len(blocks.kinds_N), len(blocks.log_prior_SxP)), -np.inf, np.float32
  )
  is_told = transitions.is_told(blocks.kinds_N)
  for block_index, first in enumerate(first_months.tolist()):
    start, stop = blocks.find_span(block_index)
    end = first + int(sizes[block_index])
    if first:
      rows = blocks.read_rows(block_index, slice(0, first))
      log_other[start:stop] = logsumexp(rows[..., :-1], axis=-1)
    is_later = is_told[start:stop]
    if end < blocks.num_months and is_later.any():
      rows = blocks.read_rows(block_index, slice(end, blocks.num_months))
      log_other[start:stop][is_later] = np.logaddexp(
        log_other[start:stop][is_later],
        logsumexp(rows[is_later][..., :-1], axis=-1),
      )
  return log_other
