"""Scores of games: Pass@K, win probabilities of guessers, errors, rank tau.

Pass@K allows K rounds with feedback, which also helps guessers, so every share
has to be compared with theirs. Errors are of three kinds: the period is not
known, the item is not that of the period, the rank is not that of the items.

Symbols: n seats, K rounds.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import itertools
import math
from collections.abc import Callable, Iterable, Sequence

import numpy as np
import scipy.stats

from ctd_jax.evaluation.significance import Proportion
from ctd_jax.tasks.ctm.ito import agents, game
from ctd_jax_datasets.ctm import periods

CUTOFFS = (1, 3, 8)  # the K of Pass@K; the paper reports 3 and 8


def pass_at_k(states: Sequence[game.State], max_rounds: int) -> Proportion:
  """Returns the share of games won within `max_rounds` rounds.

  Raises:
    ValueError: if there is no game, or one ended unwon before that round.
  """
  if not states:
    raise ValueError("no game to count")
  for state in states:
    if state.won_in is None and len(state.rounds) < max_rounds:
      raise ValueError(
        f"game {state.instance.instance_id} had {len(state.rounds)} rounds; "
        f"Pass@{max_rounds} needs {max_rounds}"
      )
  winning_rounds = [state.won_in for state in states]
  hits = sum(
    winning_round is not None and winning_round <= max_rounds
    for winning_round in winning_rounds
  )
  return Proportion(hits, len(states))


def _random_win_probability(seats: int, rounds: int) -> float:
  """Returns (1 - (1 - 1/n)^K)^n: each seat is locked once it is right."""
  return (1 - (1 - 1 / seats) ** rounds) ** seats


def _permutation_win_probability(seats: int, rounds: int) -> float:
  """Returns 1 - (1 - 1/n!)^K: a new order in each round, without feedback."""
  return 1 - (1 - 1 / math.factorial(seats)) ** rounds


def _elimination_win_probability(seats: int, rounds: int) -> float:
  """Returns min(1, K/n)^n: a seat is right after 1 to n draws."""
  return min(1.0, rounds / seats) ** seats


def _joint_win_probability(seats: int, rounds: int) -> float:
  """Returns the win probability of the joint guesser, by enumeration."""
  # By symmetry any true order has the same probability.
  all_orders = frozenset(itertools.permutations(range(seats)))
  return _joint_probability_from(all_orders, tuple(range(seats)), rounds)


@functools.cache
def _joint_probability_from(
  consistent_orders: frozenset[tuple[int, ...]],
  true_order: tuple[int, ...],
  rounds: int,
) -> float:
  """Returns the probability to guess the true order within the rounds.

  Args:
    consistent_orders: orders that no verdict excludes, the true one included.
    true_order: rank of each seat.
    rounds: remaining rounds.
  """
  if rounds == 0:
    return 0.0
  total = 0.0
  # Every consistent order is guessed with the same probability.
  for order in consistent_orders:
    verdict = tuple(map(int.__eq__, order, true_order))
    if all(verdict):
      total += 1
      continue
    remaining_orders = frozenset(
      candidate_order
      for candidate_order in consistent_orders
      if tuple(map(int.__eq__, order, candidate_order)) == verdict
    )
    total += _joint_probability_from(remaining_orders, true_order, rounds - 1)
  return total / len(consistent_orders)


# Guesser -> function of (seats, rounds) to its win probability.
WIN_PROBABILITIES: dict[type[agents.Guesser], Callable[[int, int], float]] = {
  agents.RandomGuesser: _random_win_probability,
  agents.PermutationGuesser: _permutation_win_probability,
  agents.EliminationGuesser: _elimination_win_probability,
  agents.JointPermutationGuesser: _joint_win_probability,
}


@dataclasses.dataclass(frozen=True)
class ErrorCounts:
  """Counts of errors, with their denominators.

  Attributes:
    described: descriptions with a believed period.
    unknown: of these, with a wrong period.
    items: of these, with another item than that of the believed period.
    ranked: ranks in rounds in which every seat gave an item.
    inferred: of these, with another rank than the items imply.
    silent: descriptions without an item and turns without a rank.
  """

  described: int
  unknown: int
  items: int
  ranked: int
  inferred: int
  silent: int


def count_errors(states: Iterable[game.State]) -> ErrorCounts:
  """Returns the counts of errors in all games."""
  counts = collections.Counter()
  for state in states:
    for past_round in state.rounds:
      for description in past_round.descriptions:
        counts.update(
          _classify_description(description, state, past_round.theme.items)
        )
      counts.update(_classify_ranks(past_round))
  return ErrorCounts(*(counts[f.name] for f in dataclasses.fields(ErrorCounts)))


def _classify_description(
  description: game.Description, state: game.State, items: Sequence[str]
) -> list[str]:
  """Returns the fields of `ErrorCounts` to which a description counts."""
  if description.item is None:
    return ["silent"]
  if description.label is None:
    return []
  true_label = state.instance.seats[description.seat].period
  is_wrong_item = (
    items[periods.get_period(description.label).index] != description.item
  )
  outcomes = ["described", *["unknown"] * (description.label != true_label)]
  return [*outcomes, *["items"] * is_wrong_item]


def _classify_ranks(past_round: game.Round) -> list[str]:
  """Returns the fields of `ErrorCounts` to which the ranks count.

  Seats with the same item may take their ranks in either order.
  """
  item_positions = {
    description.seat: past_round.theme.items.index(description.item)
    for description in past_round.descriptions
    if description.item is not None
  }
  outcomes = []
  for seat in past_round.ranking_seats:
    rank = past_round.rank_of(seat)
    if rank is None:
      outcomes.append("silent")
    elif len(item_positions) == len(past_round.descriptions):
      # Tied seats may take ranks num_below + 1 to num_below + num_tied.
      num_below = sum(
        position < item_positions[seat] for position in item_positions.values()
      )
      num_tied = sum(
        position == item_positions[seat] for position in item_positions.values()
      )
      outcomes += [
        "ranked",
        *["inferred"] * (not num_below < rank <= num_below + num_tied),
      ]
  return outcomes


def mean_rank_tau(states: Iterable[game.State]) -> dict[int, tuple[float, int]]:
  """Returns round -> (mean Kendall tau-b of ranks and truth, its games).

  Games in which a seat has no rank, or all seats have the same one, have no
  tau in that round and are left out.
  """
  taus_by_round: dict[int, list[float]] = collections.defaultdict(list)
  for state in states:
    for number, past_round in enumerate(state.rounds, start=1):
      ranks = [
        past_round.rank_of(seat) for seat in range(len(past_round.descriptions))
      ]
      if (
        past_round.wrong_seats is None or None in ranks or len(set(ranks)) == 1
      ):
        continue
      tau = scipy.stats.kendalltau(ranks, state.instance.ranks).statistic
      taus_by_round[number].append(float(tau))
  return {
    number: (float(np.mean(taus)), len(taus))
    for number, taus in sorted(taus_by_round.items())
  }


def mean_rounds(states: Sequence[game.State]) -> float:
  """Returns the mean number of rounds played, won or not."""
  return float(np.mean([len(state.rounds) for state in states]))
