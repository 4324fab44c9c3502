"""What games come to: rounds won in, chance lines, kinds of error, rank tau.

Why: Pass@K is a budget of K rounds with feedback, which guessing exhausts too;
so every share stands beside what guessers reach, and errors are told apart:
not knowing the period, choosing another item than the period's, ranking other
than the items say. Called by `report` and the benchmarks.
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

from ctd_jax.evaluation.significance import Share
from ctd_jax.tasks.ctm.ito import agents, game
from ctd_jax_datasets.ctm import periods

CUTOFFS = (1, 3, 8)


def pass_at(states: Sequence[game.State], rounds: int) -> Share:
  """Returns the share of games won within so many rounds.

  Raises:
    ValueError: if there is no game, or one was cut off before that round.
  """
  if not states:
    raise ValueError("no game to count")
  for state in states:
    if state.won_in is None and len(state.rounds) < rounds:
      raise ValueError(
        f"game {state.instance.instance_id} had {len(state.rounds)} rounds; "
        f"Pass@{rounds} needs {rounds}"
      )
  won = [state.won_in for state in states]
  hits = sum(number is not None and number <= rounds for number in won)
  return Share(hits, len(states))


def _locked(seats: int, rounds: int) -> float:
  return (1 - (1 - 1 / seats) ** rounds) ** seats


def _permutation(seats: int, rounds: int) -> float:
  return 1 - (1 - 1 / math.factorial(seats)) ** rounds


def _elimination(seats: int, rounds: int) -> float:
  return min(1.0, rounds / seats) ** seats


def _joint(seats: int, rounds: int) -> float:
  """Returns the chance of the joint guesser, by all courses of a game."""
  everything = frozenset(itertools.permutations(range(seats)))
  return _joint_from(everything, tuple(range(seats)), rounds)


@functools.cache
def _joint_from(
  left: frozenset[tuple[int, ...]], truth: tuple[int, ...], rounds: int
) -> float:
  """Returns the chance to name `truth`, one of `left`, within the rounds."""
  if rounds == 0:
    return 0.0
  total = 0.0
  for order in left:
    right = tuple(map(int.__eq__, order, truth))
    if all(right):
      total += 1
      continue
    fitting = frozenset(
      other for other in left if tuple(map(int.__eq__, order, other)) == right
    )
    total += _joint_from(fitting, truth, rounds - 1)
  return total / len(left)


# Guesser -> chance to win with so many seats within so many rounds.
CHANCE: dict[type[agents.Guesser], Callable[[int, int], float]] = {
  agents.Random: _locked,
  agents.Permutation: _permutation,
  agents.Elimination: _elimination,
  agents.JointPermutation: _joint,
}


@dataclasses.dataclass(frozen=True)
class Errors:
  """Where games go wrong.

  Attributes:
    described: descriptions of which the believed period is known.
    unknown: of them, the period is wrong.
    items: of them, the item is not that of the believed period.
    ranked: ranks said, where the items of all give an order.
    inferred: of them, not the rank that the items give.
    silent: descriptions without an item and turns without a rank.
  """

  described: int
  unknown: int
  items: int
  ranked: int
  inferred: int
  silent: int


def errors(states: Iterable[game.State]) -> Errors:
  """Returns how often each kind of error was made in all games."""
  count = collections.Counter()
  for state in states:
    for past in state.rounds:
      for said in past.descriptions:
        count.update(_of_description(said, state, past.theme.items))
      count.update(_of_ranks(past))
  return Errors(*(count[f.name] for f in dataclasses.fields(Errors)))


def _of_description(
  said: game.Description, state: game.State, items: Sequence[str]
) -> list[str]:
  if said.item is None:
    return ["silent"]
  if said.label is None:
    return []
  truth = state.instance.seats[said.seat].period
  wrong = items[periods.period(said.label).index] != said.item
  found = ["described", *["unknown"] * (said.label != truth)]
  return [*found, *["items"] * wrong]


def _of_ranks(past: game.Round) -> list[str]:
  """Returns what the ranks are by the items; ties allow either order."""
  places = {
    said.seat: past.theme.items.index(said.item)
    for said in past.descriptions
    if said.item is not None
  }
  found = []
  for seat in past.asked:
    rank = past.rank_of(seat)
    if rank is None:
      found.append("silent")
    elif len(places) == len(past.descriptions):
      below = sum(place < places[seat] for place in places.values())
      tied = sum(place == places[seat] for place in places.values())
      found += ["ranked", *["inferred"] * (not below < rank <= below + tied)]
  return found


def rank_tau(states: Iterable[game.State]) -> dict[int, tuple[float, int]]:
  """Returns round -> (mean Kendall tau-b of ranks and truth, games in it).

  Games in which a seat has no rank, or all seats have one and the same, have
  no tau in that round and are not counted.
  """
  found: dict[int, list[float]] = collections.defaultdict(list)
  for state in states:
    for number, past in enumerate(state.rounds, start=1):
      ranks = [past.rank_of(seat) for seat in range(len(past.descriptions))]
      if past.wrong is None or None in ranks or len(set(ranks)) == 1:
        continue
      tau = scipy.stats.kendalltau(ranks, state.instance.ranks).statistic
      found[number].append(float(tau))
  return {
    number: (float(np.mean(taus)), len(taus))
    for number, taus in sorted(found.items())
  }


def expected_rounds(states: Sequence[game.State]) -> float:
  """Returns the mean number of rounds played, won or not."""
  return float(np.mean([len(state.rounds) for state in states]))
