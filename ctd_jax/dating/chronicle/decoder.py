"""Order decoder: the months of a chronicle's sections, by an HMM on a timeline.

The hidden state is the month of a section, or a place outside the calendar;
where the calendar's days are not known, its offset is hidden too. Any emissions
log p(section | place) will do.

Only the forward message at the head of each block is kept, so memory is
O((N / B + B) x K x S) and time O(N x K x S).

Axes: N sections, B of a block, K months, P = K + 1 places: the months and,
last, outside the calendar; S offsets, 1 if the emissions have no such axis. An
array's name ends in its axes.

Source: Rabiner 1989, "A tutorial on hidden Markov models": forward-backward.
"""

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float32, Int, Int32

from ctd_jax.dating.chronicle import transitions
from ctd_jax.dating.chronicle.chronicle_dates import CredibleMonths
from ctd_jax.dating.chronicle.sections import NUM_KINDS
from ctd_jax.utils import output

BLOCK_SIZE = 128  # sections whose messages are held at once

# Gives the rows [B, P] or [B, S, P] of sections start..stop; with a slice of
# months as third argument, those of these months and of outside alone.
Emissions = Callable[..., np.ndarray]


class EmissionBlocks:
  """Emissions and kinds of a chronicle, block by block."""

  def __init__(
    self,
    emissions: Emissions,
    kinds_N: Sequence[int] | np.ndarray,
    log_transitions: transitions.Transitions,
    prior: np.ndarray | None,
    block_size: int,
  ):
    """Takes the arguments of `iter_posteriors`."""
    self.kinds_N = np.asarray(kinds_N, np.int32)
    self.num_months = log_transitions.stay.shape[1]
    self.block_size = block_size
    self._emissions = emissions
    shape = log_transitions.offset_transition.shape[1], self.num_months + 1
    prior = np.broadcast_to(0.0 if prior is None else prior, shape)
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
    """Returns a block's emissions, [B, S, P], of all months or a window."""
    start, stop = self.find_span(block_index)
    window = () if months is None else (months,)
    rows = self._emissions(start, stop, *window)
    return rows.reshape(stop - start, len(self.log_prior_SxP), -1)

  def read_block(
    self, block_index: int, months: slice | None = None
  ) -> tuple[jax.Array, jax.Array, int]:
    """Returns emissions [B, S, P], kinds [B] and the number of real sections.

    The last block is padded with sections that emit and move nothing.
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
      # What is before the first section is the prior: it moves nothing.
      kinds[0] = NUM_KINDS
    return (
      jnp.asarray(np.pad(rows, ((0, num_padding), (0, 0), (0, 0)))),
      jnp.asarray(np.pad(kinds, (0, num_padding), constant_values=NUM_KINDS)),
      stop - start,
    )

  def check_norms(self, block_index: int, norms: jax.Array) -> np.ndarray:
    """Returns the log norms of the sections of a block, float64."""
    start, stop = self.find_span(block_index)
    norms = np.asarray(norms, np.float64)[: stop - start]
    if not np.isfinite(norms).all():
      section = start + int(np.argmin(np.isfinite(norms)))
      raise ValueError(f"section {section}: no month is possible in this order")
    return norms


def exponentiate(log_emission_BxSxP, log_other_BxS=None):
  """Returns emissions, those of other months, and log factors, [B]."""
  if log_other_BxS is None:
    log_other_BxS = jnp.full(log_emission_BxSxP.shape[:2], -jnp.inf)
  largest_B = jnp.maximum(log_emission_BxSxP.max((1, 2)), log_other_BxS.max(1))
  return (
    jnp.exp(log_emission_BxSxP - largest_B[:, None, None]),
    jnp.exp(log_other_BxS - largest_B[:, None]),
    largest_B,
  )


def progress_bar(steps: range, label: str) -> output.Progress:
  """Returns the blocks, with a progress bar on a terminal."""
  return output.Progress(steps, label, unit="block")


CREDIBLE = 0.9  # probability of the set of credible places
# Most sections are sure of a few months; of more a set is sorted as a whole.
_NUM_SORTED = 64

Temper = Callable[[np.ndarray, int], np.ndarray]


@dataclasses.dataclass(frozen=True)
class DecodedMonths:
  """Posteriors of all sections; a place is a month or, as K, outside."""

  months: Int32[np.ndarray, "N 2"]  # most probable place and the next
  probabilities: Float32[np.ndarray, "N 2"]  # of these
  # Smallest sets of places with the wanted probability.
  credible: CredibleMonths
  # Probability that the section is outside the calendar.
  outside: Float32[np.ndarray, " N"]
  log_likelihood: float  # of all emissions


@dataclasses.dataclass(frozen=True, eq=False)
class ReadoutOptions:
  """Options for choosing the months of sections from their posteriors."""

  # (posterior [B, P], first section) -> posterior that allows for an unreliable
  # text.
  temper: Temper | None = None
  credible: float = CREDIBLE  # probability of the sets of credible places
  # Number of a section -> months that it tells of. It may stand elsewhere, if
  # told out of order.
  allowed_months: Mapping[int, Bool[np.ndarray, " K"]] = dataclasses.field(
    default_factory=dict
  )


class SectionPosteriors(NamedTuple):
  """Posteriors of a block of sections."""

  start: int  # its first section
  # P(place where each stands | all evidence).
  standing: Float32[np.ndarray, "B P"]
  # The part of it where the section tells of its own place.
  own: Float32[np.ndarray, "B P"]
  # P(it tells of this month and stands elsewhere).
  other: Float32[np.ndarray, "B P"]
  log_likelihood: float  # of all emissions

  def date(self, temper: Temper | None = None) -> Float32[np.ndarray, "B P"]:
    """Returns p(place that each section tells of), with `own` tempered."""
    if temper is None:
      return self.own + self.other
    share = self.own.sum(1, keepdims=True)
    own = self.own / np.maximum(share, np.finfo(np.float32).tiny)
    return share * temper(own, self.start) + self.other


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

  emission_BxSxP, _, log_factor_B = exponentiate(log_emission_BxSxP)
  emission_BxSxP = transitions.add_flashback(
    moves.outlier, emission_BxSxP, kinds_B
  )
  messages, norms = jax.lax.scan(step, message_SxP, (emission_BxSxP, kinds_B))[
    1
  ]
  return messages, jnp.log(norms) + log_factor_B


@jax.jit
def _backward_block(
  moves, message_SxP, forward_BxSxP, log_emission_BxSxP, kinds_B
):
  """Returns the message before a block, and `SectionPosteriors` [B, P]."""
  pull = jax.vmap(transitions.propagate_backward, in_axes=(None, 0, None))

  def step(message_SxP, section):
    forward_SxP, emission_SxP, kind = section
    weight_SxP = forward_SxP * message_SxP
    message_SxP = pull(moves, message_SxP * emission_SxP, kind)
    message_SxP = moves.offset_transition[kind] @ message_SxP
    return message_SxP / message_SxP.max(), weight_SxP

  own_BxSxP, *_ = exponentiate(log_emission_BxSxP)
  emission_BxSxP = transitions.add_flashback(moves.outlier, own_BxSxP, kinds_B)
  message_SxP, weight_BxSxP = jax.lax.scan(
    step, message_SxP, (forward_BxSxP, emission_BxSxP, kinds_B), reverse=True
  )
  # Emissions may be 0; then the forward message is 0 too.
  is_possible = emission_BxSxP > 0
  before_BxSxP = jnp.where(
    is_possible, weight_BxSxP / jnp.where(is_possible, emission_BxSxP, 1), 0
  )
  parts = transitions.part_told(moves.outlier, before_BxSxP, own_BxSxP, kinds_B)
  # [S, P] to [P]: the offset is summed out.
  parts_BxP = [part.sum(1) for part in (weight_BxSxP, *parts)]
  return message_SxP, [
    part / parts_BxP[0].sum(1)[:, None] for part in parts_BxP
  ]


def _compute_heads(
  blocks: EmissionBlocks, moves: transitions.Transitions
) -> tuple[list[jax.Array], float]:
  """Returns the message before every block and after all, and the norm."""
  heads, log_norm = [jnp.exp(blocks.log_prior_SxP)], 0.0
  for block_index in progress_bar(range(len(blocks)), "forward"):
    log_emissions, kinds, count = blocks.read_block(block_index)
    messages, norms = _forward_block(moves, heads[-1], log_emissions, kinds)
    log_norm += blocks.check_norms(block_index, norms).sum()
    heads.append(messages[count - 1])
  return heads, float(log_norm)


def iter_posteriors(
  emissions: Emissions,
  kinds: Sequence[int] | np.ndarray,
  log_transitions: transitions.Transitions,
  prior: np.ndarray | None = None,
  block_size: int = BLOCK_SIZE,
) -> Iterator[SectionPosteriors]:
  """Yields the posteriors of blocks, from the last to the first.

  Args:
    emissions: gives log p(section | offset, place), float32; called twice for
      each block. A constant added to a row changes only the likelihood.
    prior: log weight of the first section's place [P], or offset and place
      [S, P]; None for uniform.

  Raises:
    ValueError: if a section has no possible month; the message names it.
  """
  blocks = EmissionBlocks(emissions, kinds, log_transitions, prior, block_size)
  moves = transitions.to_probabilities(log_transitions)
  heads, log_likelihood = _compute_heads(blocks, moves)
  message = jnp.ones_like(blocks.log_prior_SxP)
  for block_index in progress_bar(range(len(blocks) - 1, -1, -1), "backward"):
    log_emissions, row_kinds, count = blocks.read_block(block_index)
    forward, _ = _forward_block(
      moves, heads[block_index], log_emissions, row_kinds
    )
    message, parts = _backward_block(
      moves, message, forward, log_emissions, row_kinds
    )
    yield SectionPosteriors(
      block_index * block_size,
      *(np.asarray(part)[:count] for part in parts),
      log_likelihood,
    )


def decode_months(
  emissions: Emissions,
  kinds: Sequence[int] | np.ndarray,
  log_transitions: transitions.Transitions,
  prior: np.ndarray | None = None,
  block_size: int = BLOCK_SIZE,
  options: ReadoutOptions = ReadoutOptions(),
) -> DecodedMonths:
  """Returns the posteriors of all sections; see `iter_posteriors`."""
  num_sections = len(kinds)
  months = np.empty((num_sections, 2), np.int32)
  probabilities = np.empty((num_sections, 2), np.float32)
  outside = np.empty(num_sections, np.float32)
  credible_sets: list[np.ndarray] = [np.empty(0, np.int32)] * num_sections
  credible_chances: list[np.ndarray] = [np.empty(0)] * num_sections
  log_likelihood = 0.0
  for block in iter_posteriors(
    emissions, kinds, log_transitions, prior, block_size
  ):
    log_likelihood, start = block.log_likelihood, block.start
    posterior = np.array(block.date(options.temper))
    stop = start + len(posterior)
    for row in options.allowed_months.keys() & range(start, stop):
      posterior[row - start] = _limit_months(
        posterior[row - start], options.allowed_months[row]
      )
    order = _sort_likely_places(posterior)
    months[start:stop] = order[:, :2]
    probabilities[start:stop] = np.take_along_axis(posterior, order[:, :2], 1)
    outside[start:stop] = posterior[:, -1]
    for row, (places, chances) in enumerate(zip(order, posterior, strict=True)):
      sums = np.cumsum(chances[places])
      if sums[-1] < options.credible:
        places = np.argsort(-chances, kind="stable")
        sums = np.cumsum(chances[places])
      # The first places that reach the share; rounding may leave all below it.
      size = min(int((sums < options.credible).sum()) + 1, len(places))
      credible_sets[start + row] = np.sort(places[:size]).astype(np.int32)
      credible_chances[start + row] = chances[credible_sets[start + row]]
  return DecodedMonths(
    months,
    probabilities,
    CredibleMonths(
      np.cumsum([0, *map(len, credible_sets)], dtype=np.int32),
      np.concatenate(credible_sets),
      np.concatenate(credible_chances),
    ),
    outside,
    log_likelihood,
  )


def _limit_months(
  posterior: Float32[np.ndarray, " P"], is_allowed: Bool[np.ndarray, " K"]
) -> Float32[np.ndarray, " P"]:
  """Returns a posterior of allowed months, uniform if all are improbable."""
  if not is_allowed.any():  # dates that exclude each other
    return posterior
  allowed = np.append(is_allowed, False).astype(np.float32)
  limited = posterior * allowed
  total = limited.sum()
  # Below, what is left of the months is a matter of rounding.
  if total < np.finfo(np.float32).eps:
    limited, total = allowed, allowed.sum()
  return limited / total


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
