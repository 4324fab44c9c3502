"""Order decoder: months of a chronicle's records by an HMM along a timeline.

Most records of a chronicle say little of their month and all of them together
say nearly everything. The hidden state is the month under which a record
stands; it never goes back, and `transitions` says how it goes on. Where the
calendar is not known, its offset (see `experts.days`) is hidden as well. Any
emissions that give log p(record | month) will do.

Only the forward message at the head of every block is kept, the rest is
computed again on the way back, so that memory is O(N / B x K + B x K) and time
O(N x K), both times S.

Axes: N records, B records of a block, K months, S offsets of the calendar; one
if the emissions have no such axis. A name ends in the axes of its array.

Source: Rabiner 1989, "A tutorial on hidden Markov models": forward-backward and
Viterbi algorithms.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float32, Int32

from ctd_jax.dating.sequence import transitions
from ctd_jax.utils import progress

BLOCK_SIZE = 128  # records whose messages are held at once

Emissions = np.ndarray | Callable[[int, int], np.ndarray]


@dataclasses.dataclass(frozen=True)
class DecodedMonths:
  """When every record happened.

  Attributes:
    months: ordinals of the most probable month and the next; a timeline of one
      month has no next.
    probabilities: of these.
    expected: mean of `values` under the posterior.
    best_path: most probable sequence of months; never falls.
    log_likelihood: of all emissions.
  """

  months: Int32[np.ndarray, "N m"]
  probabilities: Float32[np.ndarray, "N m"]
  expected: Float32[np.ndarray, " N"]
  best_path: Int32[np.ndarray, " N"]
  log_likelihood: float


@functools.partial(jax.jit, static_argnames="best")
def _forward_block(
  log_transitions, message_SxK, emission_BxSxK, kinds_B, best=False
):
  """Returns the messages of a block [B, S, K] and their log norms [B]."""
  push = jax.vmap(
    functools.partial(transitions.propagate_forward, best=best),
    in_axes=(None, 0, None),
  )

  def step(message_SxK, record):
    emission_SxK, kind = record
    message_SxK = transitions.propagate_offset(
      log_transitions.offset_transition[kind], message_SxK, best
    )
    message_SxK = push(log_transitions, message_SxK, kind)
    message_SxK += emission_SxK
    # Normalised at every record: fp32 could not hold the sums of a long text.
    norm = (jnp.max if best else jax.nn.logsumexp)(message_SxK)
    message_SxK -= norm
    return message_SxK, (message_SxK, norm)

  emission_BxSxK = transitions.add_flashback(log_transitions, emission_BxSxK)
  return jax.lax.scan(step, message_SxK, (emission_BxSxK, kinds_B))[1]


@jax.jit
def _backward_block(
  log_transitions, message_SxK, forward_BxSxK, emission_BxSxK, kinds_B
):
  """Returns the message before a block and its log posterior [B, K]."""
  pull = jax.vmap(transitions.propagate_backward, in_axes=(None, 0, None))

  def step(message_SxK, record):
    forward_SxK, emission_SxK, kind = record
    # [S, K] to [K]: the offset is summed out.
    posterior_K = jax.nn.logsumexp(forward_SxK + message_SxK, axis=0)
    posterior_K -= jax.nn.logsumexp(posterior_K)
    message_SxK = pull(log_transitions, message_SxK + emission_SxK, kind)
    message_SxK = transitions.propagate_offset(
      log_transitions.offset_transition[kind].T, message_SxK
    )
    return message_SxK - jnp.max(message_SxK), posterior_K

  emission_BxSxK = transitions.add_flashback(log_transitions, emission_BxSxK)
  return jax.lax.scan(
    step,
    message_SxK,
    (forward_BxSxK, emission_BxSxK, kinds_B),
    reverse=True,
  )


@jax.jit
def _trace_block(log_transitions, state, forward_BxSxK, kinds_B):
  """Returns the best months of a block [B] and the state before the block.

  `state`, offset x K + month, is that of the last record of the block;
  `forward_BxSxK` are the messages of the records before each of the block.
  """
  num_months = forward_BxSxK.shape[-1]

  def step(state, record):
    previous_SxK, kind = record
    offset, month = jnp.divmod(state, num_months)
    ways_SxK = (
      previous_SxK + log_transitions.offset_transition[kind][:, offset, None]
    )
    ways_SxK += transitions.score_best_moves(log_transitions, month, kind)
    return jnp.argmax(ways_SxK).astype(state.dtype), month

  return jax.lax.scan(step, state, (forward_BxSxK, kinds_B), reverse=True)


class _EmissionBlocks:
  """Emissions and classes of a chronicle, checked, block by block."""

  def __init__(
    self,
    emissions: Emissions,
    kinds_N: Sequence[int] | np.ndarray,
    log_transitions: transitions.Transitions,
    prior: np.ndarray | None,
    block_size: int,
  ):
    self.kinds_N = np.asarray(kinds_N, np.int32)
    self.num_months = log_transitions.stay.shape[1]
    self.log_transitions = log_transitions
    self.block_size = block_size
    self.emissions = emissions
    if self.kinds_N.ndim != 1 or not len(self.kinds_N):
      raise ValueError("a chronicle needs at least one record")
    if not (
      (self.kinds_N >= 0) & (self.kinds_N < transitions.NUM_CLASSES)
    ).all():
      raise ValueError(
        f"the class of a record should be 0-{transitions.NUM_CLASSES - 1}"
      )
    if block_size < 1:
      raise ValueError(f"block should be at least 1, got {block_size}")
    shape = log_transitions.offset_transition.shape[1], self.num_months
    prior = np.zeros(shape) if prior is None else np.asarray(prior)
    if prior.shape not in (shape, shape[1:]) or not np.isfinite(prior.max()):
      raise ValueError(
        f"prior should be [{self.num_months}] or {list(shape)} with a finite "
        f"log probability, got {list(prior.shape)}"
      )
    prior = np.broadcast_to(prior, shape)
    self.prior_SxK = jax.nn.log_softmax(
      jnp.asarray(prior, jnp.float32), axis=(0, 1)
    )

  def __len__(self) -> int:
    return -(-len(self.kinds_N) // self.block_size)

  def read_block(self, block_index: int) -> tuple[jax.Array, jax.Array, int]:
    """Returns emissions [B, S, K], classes [B] and how many are records.

    The last block is padded with records that emit and move nothing.
    """
    start = block_index * self.block_size
    stop = min(start + self.block_size, len(self.kinds_N))
    emission_rows = (
      self.emissions(start, stop)
      if callable(self.emissions)
      else self.emissions[start:stop]
    )
    emission_rows = np.asarray(emission_rows, np.float32)
    expected_shape = (stop - start, *self.prior_SxK.shape)
    if emission_rows.ndim == 2 and expected_shape[1] == 1:
      expected_shape = expected_shape[::2]  # [N, K], without the axis S
    if emission_rows.shape != expected_shape:
      raise ValueError(
        f"evidence of records {start}-{stop - 1} should be "
        f"{list(expected_shape)}, got {list(emission_rows.shape)}"
      )
    emission_rows = emission_rows.reshape(stop - start, *self.prior_SxK.shape)
    max_emissions = emission_rows.max((1, 2))
    if not np.isfinite(max_emissions).all():
      record = start + np.argmin(np.isfinite(max_emissions))
      raise ValueError(
        f"record {record}: no month is possible, or its evidence is not a "
        "number"
      )
    num_padding = self.block_size - len(emission_rows)
    kinds = self.kinds_N[start:stop].copy()
    if block_index == 0:
      # What lies before the first record is the prior: it moves nothing.
      kinds[0] = transitions.NUM_CLASSES
    return (
      jnp.asarray(np.pad(emission_rows, ((0, num_padding), (0, 0), (0, 0)))),
      jnp.asarray(
        np.pad(kinds, (0, num_padding), constant_values=transitions.NUM_CLASSES)
      ),
      stop - start,
    )

  def compute_heads(self, use_max: bool) -> tuple[list[jax.Array], float]:
    """Returns the message before every block and after all, and the norm."""
    heads, log_norm = [self.prior_SxK], 0.0
    for block_index in _progress_bar(
      range(len(self)), "best path" if use_max else "forward"
    ):
      emissions, kinds, count = self.read_block(block_index)
      messages, norms = _forward_block(
        self.log_transitions, heads[-1], emissions, kinds, use_max
      )
      norms = np.asarray(norms[:count], np.float64)
      if not np.isfinite(norms).all():
        record_index = block_index * self.block_size + int(
          np.argmin(np.isfinite(norms))
        )
        raise ValueError(
          f"record {record_index}: no month is possible in this order"
        )
      log_norm += norms.sum()  # in float64, over all records
      heads.append(messages[count - 1])
    return heads, float(log_norm)


def _progress_bar(steps: range, label: str) -> progress.Progress:
  # disable=None: quiet where standard error is not a terminal.
  return progress.Progress(steps, label, unit="block")


def iter_posteriors(
  emissions: Emissions,
  kinds: Sequence[int] | np.ndarray,
  log_transitions: transitions.Transitions,
  prior: np.ndarray | None = None,
  block_size: int = BLOCK_SIZE,
) -> Iterator[tuple[int, np.ndarray, float]]:
  """Yields (first record, log p(month | all evidence) [B, K], likelihood).

  Blocks come from the last to the first.

  Args:
    emissions: float32 [N, K] or [N, S, K], log p(record | offset, month), or a
      function that gives the rows start..stop; it is called twice for every
      block. A constant added to a row changes nothing but the likelihood.
    kinds: class of every record, by what it prints of its date, [N].
    log_transitions: of the timeline.
    prior: float [K] or [S, K], log weight of the first record's month, or of
      offset and month; any if None.
    block_size: records at a time.

  Raises:
    ValueError: naming the record for which no month is possible.
  """
  blocks = _EmissionBlocks(emissions, kinds, log_transitions, prior, block_size)
  heads, log_likelihood = blocks.compute_heads(use_max=False)
  message = jnp.zeros_like(blocks.prior_SxK)
  for block_index in _progress_bar(range(len(blocks) - 1, -1, -1), "backward"):
    emission_rows, row_kinds, count = blocks.read_block(block_index)
    forward, _ = _forward_block(
      log_transitions, heads[block_index], emission_rows, row_kinds
    )
    message, posterior = _backward_block(
      log_transitions, message, forward, emission_rows, row_kinds
    )
    yield (
      block_index * block_size,
      np.asarray(posterior[:count]),
      log_likelihood,
    )


def find_best_path(
  emissions: Emissions,
  kinds: Sequence[int] | np.ndarray,
  log_transitions: transitions.Transitions,
  prior: np.ndarray | None = None,
  block_size: int = BLOCK_SIZE,
) -> np.ndarray:
  """Returns the most probable months of all records together, int32 [N].

  The way of each move (stay, step, crossing, jump) and the offset of the
  calendar are maximised with the months. Arguments and errors are those of
  `iter_posteriors`.
  """
  blocks = _EmissionBlocks(emissions, kinds, log_transitions, prior, block_size)
  heads, _ = blocks.compute_heads(use_max=True)
  path = np.empty(len(blocks.kinds_N), np.int32)
  state = jnp.argmax(heads[-1]).astype(jnp.int32)  # of [S, K], flattened
  for block_index in range(len(blocks) - 1, -1, -1):
    emission_rows, row_kinds, count = blocks.read_block(block_index)
    forward, _ = _forward_block(
      log_transitions, heads[block_index], emission_rows, row_kinds, True
    )
    previous_messages = jnp.concatenate(
      [heads[block_index][None], forward[:-1]]
    )
    state, months = _trace_block(
      log_transitions, state, previous_messages, row_kinds
    )
    path[block_index * block_size : block_index * block_size + count] = months[
      :count
    ]
  return path


def decode_months(
  emissions: Emissions,
  kinds: Sequence[int] | np.ndarray,
  log_transitions: transitions.Transitions,
  values: np.ndarray | None = None,
  prior: np.ndarray | None = None,
  block_size: int = BLOCK_SIZE,
) -> DecodedMonths:
  """Returns when every record happened.

  Args:
    emissions: as of `iter_posteriors`.
    kinds: as of `iter_posteriors`.
    log_transitions: of the timeline.
    values: float [K], numbers to average, e.g. the year of every month; the
      ordinals if None.
    prior: as of `iter_posteriors`.
    block_size: records at a time.

  Raises:
    ValueError: as of `iter_posteriors`.
  """
  num_records = len(kinds)
  months = np.empty((num_records, 2), np.int32)
  probabilities = np.empty((num_records, 2), np.float32)
  expected_values = np.empty(num_records, np.float32)
  log_likelihood = 0.0
  if values is None:
    values = np.arange(log_transitions.stay.shape[1])
  for start, posterior, block_log_likelihood in iter_posteriors(
    emissions, kinds, log_transitions, prior, block_size
  ):
    log_likelihood = block_log_likelihood
    stop = start + len(posterior)
    top_months = np.argpartition(
      -posterior, min(1, posterior.shape[1] - 1), axis=1
    )
    top_months = top_months[:, :2]
    top_log_p = np.take_along_axis(posterior, top_months, 1)
    by_probability = np.argsort(-top_log_p, axis=1, kind="stable")
    months[start:stop] = np.take_along_axis(top_months, by_probability, 1)
    probabilities[start:stop] = np.exp(
      np.take_along_axis(top_log_p, by_probability, 1)
    )
    expected_values[start:stop] = np.exp(posterior, dtype=np.float64) @ values
  path = find_best_path(emissions, kinds, log_transitions, prior, block_size)
  return DecodedMonths(
    months, probabilities, expected_values, path, log_likelihood
  )
