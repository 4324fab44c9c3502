"""Months of a chronicle's records from their order: an HMM along a timeline.

Why: most records of a chronicle say little of their month and all of them
together say nearly everything. The hidden state is the month under which a
record stands; it never goes back, and `motion` says how it goes on. Where the
calendar is not known, its place (see `days`) is hidden as well. Called by
`ctd_jax.date`; any evidence that gives log p(record | month) will do.

Only the forward message at the head of every block is kept, the rest is
computed again on the way back, so that memory is O(N / B x K + B x K) and time
O(N x K), both times S.

Axis letters: N records, B records of a block, K months, S places of the
calendar; one if the evidence has no such axis.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator, Sequence

import jax
import jax.numpy as jnp
import numpy as np
import tqdm

from ctd_jax.dating.sequence import transitions

BLOCK = 128

Emissions = np.ndarray | Callable[[int, int], np.ndarray]


@dataclasses.dataclass(frozen=True)
class Decoded:
  """When every record happened.

  Attributes:
    months: int32 [N, 2], most probable month and the next, ordinals.
    probabilities: float32 [N, 2] of these.
    expected: float32 [N], mean of `values` under the posterior.
    path: int32 [N], most probable sequence of months; never falls.
    log_likelihood: of all evidence.
  """

  months: np.ndarray
  probabilities: np.ndarray
  expected: np.ndarray
  path: np.ndarray
  log_likelihood: float


@functools.partial(jax.jit, static_argnames="best")
def _forward(moves, message_SxK, evidence_BxSxK, kinds_B, best=False):
  """Returns the messages of a block [B, S, K] and their log norms [B]."""
  push = jax.vmap(
    functools.partial(transitions.push, best=best), in_axes=(None, 0, None)
  )

  def step(message_SxK, record):
    evidence_SxK, kind = record
    message_SxK = transitions.turn(moves.turn[kind], message_SxK, best)
    message_SxK = push(moves, message_SxK, kind)
    message_SxK += evidence_SxK
    norm = (jnp.max if best else jax.nn.logsumexp)(message_SxK)
    message_SxK -= norm
    return message_SxK, (message_SxK, norm)

  evidence_BxSxK = transitions.with_flashback(moves, evidence_BxSxK)
  return jax.lax.scan(step, message_SxK, (evidence_BxSxK, kinds_B))[1]


@jax.jit
def _backward(moves, message_SxK, forward_BxSxK, evidence_BxSxK, kinds_B):
  """Returns the message before a block and its log posterior [B, K]."""
  pull = jax.vmap(transitions.pull, in_axes=(None, 0, None))

  def step(message_SxK, record):
    forward_SxK, evidence_SxK, kind = record
    posterior_K = jax.nn.logsumexp(forward_SxK + message_SxK, axis=0)
    posterior_K -= jax.nn.logsumexp(posterior_K)
    message_SxK = pull(moves, message_SxK + evidence_SxK, kind)
    message_SxK = transitions.turn(moves.turn[kind].T, message_SxK)
    return message_SxK - jnp.max(message_SxK), posterior_K

  evidence_BxSxK = transitions.with_flashback(moves, evidence_BxSxK)
  return jax.lax.scan(
    step,
    message_SxK,
    (forward_BxSxK, evidence_BxSxK, kinds_B),
    reverse=True,
  )


@jax.jit
def _trace(moves, state, forward_BxSxK, kinds_B):
  """Returns the best months of a block [B] and the state before the block.

  `state`, place x K + month, is that of the last record of the block;
  `forward_BxSxK` are the messages of the records before each of the block.
  """
  size = forward_BxSxK.shape[-1]

  def step(state, record):
    before_SxK, kind = record
    place, month = jnp.divmod(state, size)
    ways_SxK = before_SxK + moves.turn[kind][:, place, None]
    ways_SxK += transitions.ways_to(moves, month, kind)
    return jnp.argmax(ways_SxK).astype(state.dtype), month

  return jax.lax.scan(step, state, (forward_BxSxK, kinds_B), reverse=True)


class _Blocks:
  """Evidence and classes of a chronicle, block by block."""

  def __init__(
    self,
    evidence: Emissions,
    kinds_N: Sequence[int],
    moves: transitions.Moves,
    prior: np.ndarray | None,
    block: int,
  ):
    self.kinds_N = np.asarray(kinds_N, np.int32)
    self.size = moves.stay.shape[1]
    self.moves, self.block, self.evidence = moves, block, evidence
    if self.kinds_N.ndim != 1 or not len(self.kinds_N):
      raise ValueError("a chronicle needs at least one record")
    if not ((self.kinds_N >= 0) & (self.kinds_N < transitions.CLASSES)).all():
      raise ValueError(
        f"the class of a record should be 0-{transitions.CLASSES - 1}"
      )
    if block < 1:
      raise ValueError(f"block should be at least 1, got {block}")
    shape = moves.turn.shape[1], self.size
    prior = np.zeros(shape) if prior is None else np.asarray(prior)
    if prior.shape not in (shape, shape[1:]) or not np.isfinite(prior.max()):
      raise ValueError(
        f"prior should be [{self.size}] or {list(shape)} with a finite log "
        f"probability, got {list(prior.shape)}"
      )
    prior = np.broadcast_to(prior, shape)
    self.prior_SxK = jax.nn.log_softmax(
      jnp.asarray(prior, jnp.float32), axis=(0, 1)
    )

  def __len__(self) -> int:
    return -(-len(self.kinds_N) // self.block)

  def read(self, number: int) -> tuple[jax.Array, jax.Array, int]:
    """Returns evidence [B, S, K], classes [B] and how many are records."""
    start = number * self.block
    stop = min(start + self.block, len(self.kinds_N))
    rows = (
      self.evidence(start, stop)
      if callable(self.evidence)
      else self.evidence[start:stop]
    )
    rows = np.asarray(rows, np.float32)
    expected = (stop - start, *self.prior_SxK.shape)
    if rows.ndim == 2 and expected[1] == 1:
      expected = expected[::2]
    if rows.shape != expected:
      raise ValueError(
        f"evidence of records {start}-{stop - 1} should be {list(expected)}, "
        f"got {list(rows.shape)}"
      )
    rows = rows.reshape(stop - start, *self.prior_SxK.shape)
    best = rows.max((1, 2))
    if not np.isfinite(best).all():
      raise ValueError(
        f"record {start + np.argmin(np.isfinite(best))}: no month is possible, "
        "or its evidence is not a number"
      )
    missing = self.block - len(rows)
    kinds = self.kinds_N[start:stop].copy()
    if number == 0:
      kinds[0] = transitions.CLASSES  # what lies before the first is the prior
    return (
      jnp.asarray(np.pad(rows, ((0, missing), (0, 0), (0, 0)))),
      jnp.asarray(
        np.pad(kinds, (0, missing), constant_values=transitions.CLASSES)
      ),
      stop - start,
    )

  def heads(self, best: bool) -> tuple[list[jax.Array], float]:
    """Returns the message before every block and after all, and the norm."""
    heads, total = [self.prior_SxK], 0.0
    for number in _bar(range(len(self)), "best path" if best else "forward"):
      evidence, kinds, count = self.read(number)
      messages, norms = _forward(self.moves, heads[-1], evidence, kinds, best)
      norms = np.asarray(norms[:count], np.float64)
      if not np.isfinite(norms).all():
        place = number * self.block + int(np.argmin(np.isfinite(norms)))
        raise ValueError(f"record {place}: no month is possible in this order")
      total += norms.sum()
      heads.append(messages[count - 1])
    return heads, float(total)


def _bar(steps: range, label: str):
  # disable=None: quiet where standard error is not a terminal.
  return tqdm.tqdm(steps, label, unit="block", delay=2.0, disable=None)


def posteriors(
  evidence: Emissions,
  kinds: Sequence[int],
  moves: transitions.Moves,
  prior: np.ndarray | None = None,
  block: int = BLOCK,
) -> Iterator[tuple[int, np.ndarray, float]]:
  """Yields (first record, log p(month | all evidence) [B, K], likelihood).

  Blocks come from the last to the first.

  Args:
    evidence: float32 [N, K] or [N, S, K], log p(record | place, month), or a
      function that gives the rows start..stop; it is called twice for every
      block. A constant added to a row changes nothing but the likelihood.
    kinds: class of every record, what it prints of its date.
    moves: of the timeline.
    prior: float [K] or [S, K], log weight of the first record's month, or of
      place and month; any if None.
    block: records at a time.

  Raises:
    ValueError: naming the record for which no month is possible.
  """
  blocks = _Blocks(evidence, kinds, moves, prior, block)
  heads, total = blocks.heads(best=False)
  message = jnp.zeros_like(blocks.prior_SxK)
  for number in _bar(range(len(blocks) - 1, -1, -1), "backward"):
    rows, row_kinds, count = blocks.read(number)
    forward, _ = _forward(moves, heads[number], rows, row_kinds)
    message, posterior = _backward(moves, message, forward, rows, row_kinds)
    yield number * block, np.asarray(posterior[:count]), total


def best_path(
  evidence: Emissions,
  kinds: Sequence[int],
  moves: transitions.Moves,
  prior: np.ndarray | None = None,
  block: int = BLOCK,
) -> np.ndarray:
  """Returns the most probable months of all records together, int32 [N].

  The way of each move (stay, step, crossing, jump) and the place of the
  calendar are part of what is maximised. Arguments and errors as of
  `posteriors`.
  """
  blocks = _Blocks(evidence, kinds, moves, prior, block)
  heads, _ = blocks.heads(best=True)
  path = np.empty(len(blocks.kinds_N), np.int32)
  state = jnp.argmax(heads[-1]).astype(jnp.int32)
  for number in range(len(blocks) - 1, -1, -1):
    rows, row_kinds, count = blocks.read(number)
    forward, _ = _forward(moves, heads[number], rows, row_kinds, True)
    before = jnp.concatenate([heads[number][None], forward[:-1]])
    state, months = _trace(moves, state, before, row_kinds)
    path[number * block : number * block + count] = months[:count]
  return path


def decode(
  evidence: Emissions,
  kinds: Sequence[int],
  moves: transitions.Moves,
  values: np.ndarray | None = None,
  prior: np.ndarray | None = None,
  block: int = BLOCK,
) -> Decoded:
  """Returns when every record happened.

  Args:
    evidence: as of `posteriors`.
    kinds: as of `posteriors`.
    moves: of the timeline.
    values: float [K], what is averaged, e.g. the year of every month; the
      ordinal if None.
    prior: as of `posteriors`.
    block: records at a time.

  Raises:
    ValueError: as of `posteriors`.
  """
  count = len(kinds)
  months = np.empty((count, 2), np.int32)
  probabilities = np.empty((count, 2), np.float32)
  expected = np.empty(count, np.float32)
  likelihood = 0.0
  if values is None:
    values = np.arange(moves.stay.shape[1])
  for start, posterior, total in posteriors(
    evidence, kinds, moves, prior, block
  ):
    likelihood = total
    stop = start + len(posterior)
    order = np.argpartition(-posterior, min(1, posterior.shape[1] - 1), axis=1)
    order = order[:, :2]
    top = np.take_along_axis(posterior, order, 1)
    swap = np.argsort(-top, axis=1, kind="stable")
    months[start:stop] = np.take_along_axis(order, swap, 1)
    probabilities[start:stop] = np.exp(np.take_along_axis(top, swap, 1))
    expected[start:stop] = np.exp(posterior, dtype=np.float64) @ values
  path = best_path(evidence, kinds, moves, prior, block)
  return Decoded(months, probabilities, expected, path, likelihood)
