"""Order decoder: months of a chronicle's sections by an HMM along a timeline.

Most sections of a chronicle say little of their month and all of them together
say nearly everything. The hidden state is the month under which a section
stands, or that it stands outside of the calendar; `transitions` says how it
goes on. Where the calendar is not known, its offset (see `experts.days`) is
hidden as well. Any emissions that give log p(section | place) will do.

Only the forward message at the head of every block is kept, the rest is
computed again on the way back, so that memory is O(N / B x K + B x K) and time
O(N x K), both times S.

Axes: N sections, B sections of a block, K months, P = K + 1 places: the months
and, last, outside of the calendar; S offsets of the calendar, one if the
emissions have no such axis. A name ends in the axes of its array.

Source: Rabiner 1989, "A tutorial on hidden Markov models": forward-backward and
Viterbi algorithms.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float32, Int, Int32

from ctd_jax.dating.sequence import transitions
from ctd_jax.dating.sequence.section_kinds import NUM_KINDS
from ctd_jax.utils import progress

BLOCK_SIZE = 128  # sections whose messages are held at once
CREDIBLE = 0.9  # probability of the set of credible places
# Most sections are sure of a few months; of more a set is sorted as a whole.
_NUM_SORTED = 64

Emissions = np.ndarray | Callable[[int, int], np.ndarray]
Temper = Callable[[np.ndarray], np.ndarray]


@dataclasses.dataclass(frozen=True)
class DecodedMonths:
  """When every section happened; a place is a month or, K, none.

  Attributes:
    months: most probable place and the next.
    probabilities: of these.
    credible_starts: where each section's set begins in `credible_places`; the
      last entry is their number.
    credible_places: smallest sets that hold `CREDIBLE` of the probability, or
      what was asked for, the places of each ascending.
    credible_probabilities: of these places.
    outside: probability that the section is of no month of the calendar.
    log_likelihood: of all emissions.
  """

  months: Int32[np.ndarray, "N 2"]
  probabilities: Float32[np.ndarray, "N 2"]
  credible_starts: Int32[np.ndarray, " starts"]
  credible_places: Int32[np.ndarray, " total"]
  credible_probabilities: Float32[np.ndarray, " total"]
  outside: Float32[np.ndarray, " N"]
  log_likelihood: float


def _exponentiate(log_emission_BxSxP):
  """Returns emissions up to a factor for each section, and its log [B]."""
  largest_B = log_emission_BxSxP.max((1, 2))
  return jnp.exp(log_emission_BxSxP - largest_B[:, None, None]), largest_B


@jax.jit
def _forward_block(moves, message_SxP, log_emission_BxSxP, kinds_B):
  """Returns the messages of a block [B, S, P] and their log norms [B]."""
  push = jax.vmap(transitions.propagate_forward, in_axes=(None, 0, None))

  def step(message_SxP, section):
    emission_SxP, kind = section
    message_SxP = moves.offset_transition[kind].T @ message_SxP
    message_SxP = push(moves, message_SxP, kind) * emission_SxP
    # Normalised at every section: fp32 could not hold the sums of a long text.
    norm = message_SxP.sum()
    message_SxP /= norm
    return message_SxP, (message_SxP, norm)

  emission_BxSxP, log_factor_B = _exponentiate(log_emission_BxSxP)
  emission_BxSxP = transitions.add_flashback(moves, emission_BxSxP, kinds_B)
  messages, norms = jax.lax.scan(step, message_SxP, (emission_BxSxP, kinds_B))[
    1
  ]
  return messages, jnp.log(norms) + log_factor_B


@jax.jit
def _backward_block(
  moves, message_SxP, forward_BxSxP, log_emission_BxSxP, kinds_B
):
  """Returns the message before a block and its posterior [B, P]."""
  pull = jax.vmap(transitions.propagate_backward, in_axes=(None, 0, None))

  def step(message_SxP, section):
    forward_SxP, emission_SxP, kind = section
    # [S, P] to [P]: the offset is summed out.
    posterior_P = (forward_SxP * message_SxP).sum(0)
    posterior_P /= posterior_P.sum()
    message_SxP = pull(moves, message_SxP * emission_SxP, kind)
    message_SxP = moves.offset_transition[kind] @ message_SxP
    return message_SxP / message_SxP.max(), posterior_P

  emission_BxSxP, _ = _exponentiate(log_emission_BxSxP)
  emission_BxSxP = transitions.add_flashback(moves, emission_BxSxP, kinds_B)
  return jax.lax.scan(
    step, message_SxP, (forward_BxSxP, emission_BxSxP, kinds_B), reverse=True
  )


@jax.jit
def _best_block(moves, log_moves, message_SxP, log_emission_BxSxP, kinds_B):
  """Returns the log weights of the best ways to the places of a block."""
  push = jax.vmap(transitions.propagate_best, in_axes=(None, 0, None))

  def step(message_SxP, section):
    log_emission_SxP, kind = section
    message_SxP = (
      log_moves.offset_transition[kind][..., None] + message_SxP[:, None]
    ).max(0)
    message_SxP = push(log_moves, message_SxP, kind) + log_emission_SxP
    norm = message_SxP.max()
    message_SxP -= norm
    return message_SxP, (message_SxP, norm)

  emission_BxSxP, log_factor_B = _exponentiate(log_emission_BxSxP)
  emission_BxSxP = transitions.add_flashback(moves, emission_BxSxP, kinds_B)
  messages, norms = jax.lax.scan(
    step, message_SxP, (jnp.log(emission_BxSxP), kinds_B)
  )[1]
  return messages, norms + log_factor_B


@jax.jit
def _trace_block(log_moves, state, best_BxSxP, kinds_B):
  """Returns the best states of a block [B] and the state before the block.

  `state`, offset x P + place, is that of the last section of the block;
  `best_BxSxP` are the messages of the sections before each of the block.
  """
  num_places = best_BxSxP.shape[-1]

  def step(state, section):
    previous_SxP, kind = section
    offset, place = jnp.divmod(state, num_places)
    ways_SxP = previous_SxP + log_moves.offset_transition[kind][:, offset, None]
    ways_SxP += transitions.score_best_moves(log_moves, place, kind)
    return jnp.argmax(ways_SxP).astype(state.dtype), state

  return jax.lax.scan(step, state, (best_BxSxP, kinds_B), reverse=True)


class _EmissionBlocks:
  """Emissions and kinds of a chronicle, checked, block by block."""

  def __init__(
    self,
    emissions: Emissions,
    kinds_N: Sequence[int] | np.ndarray,
    log_transitions: transitions.Transitions,
    prior: np.ndarray | None,
    block_size: int,
  ):
    self.kinds_N = np.asarray(kinds_N, np.int32)
    self.num_places = log_transitions.stay.shape[1] + 1
    self.log_moves = log_transitions
    self.moves = transitions.to_probabilities(log_transitions)
    self.block_size = block_size
    self.emissions = emissions
    if self.kinds_N.ndim != 1 or not len(self.kinds_N):
      raise ValueError("a chronicle needs at least one section")
    if not ((self.kinds_N >= 0) & (self.kinds_N < NUM_KINDS)).all():
      raise ValueError(f"the kind of a section should be 0-{NUM_KINDS - 1}")
    if block_size < 1:
      raise ValueError(f"block should be at least 1, got {block_size}")
    shape = log_transitions.offset_transition.shape[1], self.num_places
    prior = np.zeros(shape) if prior is None else np.asarray(prior)
    if prior.shape not in (shape, shape[1:]) or not np.isfinite(prior.max()):
      raise ValueError(
        f"prior should be [{self.num_places}] or {list(shape)} with a finite "
        f"log probability, got {list(prior.shape)}"
      )
    prior = np.broadcast_to(prior, shape)
    self.log_prior_SxP = jax.nn.log_softmax(
      jnp.asarray(prior, jnp.float32), axis=(0, 1)
    )

  def __len__(self) -> int:
    return -(-len(self.kinds_N) // self.block_size)

  def read_block(self, block_index: int) -> tuple[jax.Array, jax.Array, int]:
    """Returns emissions [B, S, P], classes [B] and how many are sections.

    The last block is padded with sections that emit and move nothing.
    """
    start = block_index * self.block_size
    stop = min(start + self.block_size, len(self.kinds_N))
    emission_rows = (
      self.emissions(start, stop)
      if callable(self.emissions)
      else self.emissions[start:stop]
    )
    emission_rows = np.asarray(emission_rows, np.float32)
    expected_shape = (stop - start, *self.log_prior_SxP.shape)
    if emission_rows.ndim == 2 and expected_shape[1] == 1:
      expected_shape = expected_shape[::2]  # [N, P], without the axis S
    if emission_rows.shape != expected_shape:
      raise ValueError(
        f"evidence of sections {start}-{stop - 1} should be "
        f"{list(expected_shape)}, got {list(emission_rows.shape)}"
      )
    emission_rows = emission_rows.reshape(
      stop - start, *self.log_prior_SxP.shape
    )
    max_emissions = emission_rows.max((1, 2))
    if not np.isfinite(max_emissions).all():
      section = start + np.argmin(np.isfinite(max_emissions))
      raise ValueError(
        f"section {section}: no month is possible, or its evidence is not a "
        "number"
      )
    num_padding = self.block_size - len(emission_rows)
    kinds = self.kinds_N[start:stop].copy()
    if block_index == 0:
      # What lies before the first section is the prior: it moves nothing.
      kinds[0] = NUM_KINDS
    return (
      jnp.asarray(np.pad(emission_rows, ((0, num_padding), (0, 0), (0, 0)))),
      jnp.asarray(np.pad(kinds, (0, num_padding), constant_values=NUM_KINDS)),
      stop - start,
    )

  def compute_heads(self, use_max: bool) -> tuple[list[jax.Array], float]:
    """Returns the message before every block and after all, and the norm."""
    head = self.log_prior_SxP if use_max else jnp.exp(self.log_prior_SxP)
    heads, log_norm = [head], 0.0
    for block_index in _progress_bar(
      range(len(self)), "best path" if use_max else "forward"
    ):
      messages, norms, count = self.pass_block(block_index, heads[-1], use_max)
      norms = np.asarray(norms[:count], np.float64)
      if not np.isfinite(norms).all():
        section_index = block_index * self.block_size + int(
          np.argmin(np.isfinite(norms))
        )
        raise ValueError(
          f"section {section_index}: no month is possible in this order"
        )
      log_norm += norms.sum()  # in float64, over all sections
      heads.append(messages[count - 1])
    return heads, float(log_norm)

  def pass_block(
    self, block_index: int, head: jax.Array, use_max: bool
  ) -> tuple[jax.Array, jax.Array, int]:
    """Returns messages, log norms and number of the sections of a block."""
    log_emissions, kinds, count = self.read_block(block_index)
    if use_max:
      passed = _best_block(
        self.moves, self.log_moves, head, log_emissions, kinds
      )
    else:
      passed = _forward_block(self.moves, head, log_emissions, kinds)
    return *passed, count


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
  """Yields (first section, p(place | all evidence) [B, P], log likelihood).

  Blocks come from the last to the first.

  Args:
    emissions: float32 [N, P] or [N, S, P], log p(section | offset, place), or a
      function that gives the rows start..stop; it is called twice for every
      block. A constant added to a row changes nothing but the likelihood.
    kinds: kind of every section, by what it prints of its date, [N].
    log_transitions: of the timeline.
    prior: float [P] or [S, P], log weight of the first section's place, or of
      offset and place; any if None.
    block_size: sections at a time.

  Raises:
    ValueError: naming the section for which no month is possible.
  """
  blocks = _EmissionBlocks(emissions, kinds, log_transitions, prior, block_size)
  heads, log_likelihood = blocks.compute_heads(use_max=False)
  message = jnp.ones_like(blocks.log_prior_SxP)
  for block_index in _progress_bar(range(len(blocks) - 1, -1, -1), "backward"):
    log_emissions, row_kinds, count = blocks.read_block(block_index)
    forward, _ = _forward_block(
      blocks.moves, heads[block_index], log_emissions, row_kinds
    )
    message, posterior = _backward_block(
      blocks.moves, message, forward, log_emissions, row_kinds
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
) -> tuple[Int32[np.ndarray, " N"], Int32[np.ndarray, " N"]]:
  """Returns the most probable places of all sections together, and offsets.

  The way of each move (stay, step, crossing, jump) and the offset of the
  calendar are maximised with the months. Arguments and errors are those of
  `iter_posteriors`.
  """
  blocks = _EmissionBlocks(emissions, kinds, log_transitions, prior, block_size)
  heads, _ = blocks.compute_heads(use_max=True)
  states = np.empty(len(blocks.kinds_N), np.int32)
  state = jnp.argmax(heads[-1]).astype(jnp.int32)  # of [S, P], flattened
  for block_index in range(len(blocks) - 1, -1, -1):
    messages, _, count = blocks.pass_block(
      block_index, heads[block_index], use_max=True
    )
    previous_messages = jnp.concatenate(
      [heads[block_index][None], messages[:-1]]
    )
    _, row_kinds, _ = blocks.read_block(block_index)
    state, block_states = _trace_block(
      blocks.log_moves, state, previous_messages, row_kinds
    )
    start = block_index * block_size
    states[start : start + count] = block_states[:count]
  offsets, places = np.divmod(states, blocks.num_places)
  return places, offsets


def decode_months(
  emissions: Emissions,
  kinds: Sequence[int] | np.ndarray,
  log_transitions: transitions.Transitions,
  prior: np.ndarray | None = None,
  block_size: int = BLOCK_SIZE,
  temper: Temper | None = None,
  credible: float = CREDIBLE,
) -> DecodedMonths:
  """Returns when every section happened.

  Args:
    emissions: as of `iter_posteriors`.
    kinds: as of `iter_posteriors`.
    log_transitions: of the timeline.
    prior: as of `iter_posteriors`.
    block_size: sections at a time.
    temper: from a posterior [B, P] to one that allows for how reliable the
      model of the text is; none if None.
    credible: probability of the sets of credible places.

  Raises:
    ValueError: as of `iter_posteriors`.
  """
  num_sections = len(kinds)
  months = np.empty((num_sections, 2), np.int32)
  probabilities = np.empty((num_sections, 2), np.float32)
  outside = np.empty(num_sections, np.float32)
  credible_sets: list[np.ndarray] = [np.empty(0, np.int32)] * num_sections
  credible_chances: list[np.ndarray] = [np.empty(0)] * num_sections
  log_likelihood = 0.0
  for start, posterior, block_log_likelihood in iter_posteriors(
    emissions, kinds, log_transitions, prior, block_size
  ):
    log_likelihood = block_log_likelihood
    stop = start + len(posterior)
    if temper is not None:
      posterior = temper(posterior)
    order = _sort_likely_places(posterior)
    months[start:stop] = order[:, :2]
    probabilities[start:stop] = np.take_along_axis(posterior, order[:, :2], 1)
    outside[start:stop] = posterior[:, -1]
    for row, (places, chances) in enumerate(zip(order, posterior, strict=True)):
      sums = np.cumsum(chances[places])
      if sums[-1] < credible:
        places = np.argsort(-chances, kind="stable")
        sums = np.cumsum(chances[places])
      # The first places that reach the share; rounding may leave all below it.
      size = min(int((sums < credible).sum()) + 1, len(places))
      credible_sets[start + row] = np.sort(places[:size]).astype(np.int32)
      credible_chances[start + row] = chances[credible_sets[start + row]]
  return DecodedMonths(
    months,
    probabilities,
    np.cumsum([0, *map(len, credible_sets)], dtype=np.int32),
    np.concatenate(credible_sets),
    np.concatenate(credible_chances),
    outside,
    log_likelihood,
  )


def _sort_likely_places(
  posterior: Float32[np.ndarray, "B P"],
) -> Int[np.ndarray, "B n"]:
  """Returns the most probable places of each section, the best first."""
  num_places = posterior.shape[1]
  if num_places > _NUM_SORTED:
    places = np.argpartition(-posterior, _NUM_SORTED - 1, axis=1)
    # Ascending, so that of equally probable ones the earlier is the first.
    places = np.sort(places[:, :_NUM_SORTED], axis=1)
  else:
    places = np.broadcast_to(np.arange(num_places), posterior.shape)
  chances = np.take_along_axis(posterior, places, 1)
  order = np.argsort(-chances, axis=1, kind="stable")
  return np.take_along_axis(places, order, 1)
