"""Report of Ito games: Pass@K against guessing, kinds of error.

Pass@K allows K rounds with feedback, which also helps guessers, so every share
is shown next to the probability that guessers win. There are three kinds of
errors: the period is unknown, the item does not fit the period, the rank does
not fit the items.

Symbols: n seats, K rounds.
"""

import collections
import functools
import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from ctd_jax.evaluation.results import ResultRow
from ctd_jax.evaluation.significance import Proportion
from ctd_jax.tasks.ctm import ito_game
from ctd_jax.utils import output
from ctd_jax_datasets.ctm import periods

CUTOFFS = (1, 3, 8)  # the K of Pass@K; the paper reports 3 and 8


def pass_at_k(states: Sequence[ito_game.State], max_rounds: int) -> Proportion:
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
  hits = sum(state.won_in in range(1, max_rounds + 1) for state in states)
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
  return _joint_probability_from(
    frozenset(itertools.permutations(range(seats))), tuple(range(seats)), rounds
  )


@functools.cache
def _joint_probability_from(
  consistent_orders: frozenset[tuple[int, ...]],
  true_order: tuple[int, ...],
  rounds: int,
) -> float:
  """Returns the probability to guess the true order within the rounds."""
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


# Guesser, see `ito_players.GUESSERS` -> function of (seats, rounds) to its win
# probability.
WIN_PROBABILITIES: Mapping[str, Callable[[int, int], float]] = {
  "random": _random_win_probability,
  "permutation": _permutation_win_probability,
  "elimination": _elimination_win_probability,
  "joint": _joint_win_probability,
}


def count_errors(states: Iterable[ito_game.State]) -> collections.Counter[str]:
  """Returns the counts of errors in all games, with their denominators.

  Returns:
    Counts of
    - `described`: descriptions with a believed period;
    - `unknown`: of these, with a wrong period;
    - `items`: of these, with another item than that of the believed period;
    - `ranked`: ranks in rounds in which every seat gave an item;
    - `inferred`: of these, with another rank than the items imply;
    - `silent`: descriptions without an item and turns without a rank.
  """
  counts = collections.Counter()
  for state in states:
    for past_round in state.rounds:
      for description in past_round.descriptions:
        counts.update(
          _classify_description(description, state, past_round.theme.items)
        )
      counts.update(_classify_ranks(past_round))
  return counts


def _classify_description(
  description: ito_game.Description, state: ito_game.State, items: Sequence[str]
) -> list[str]:
  """Returns the counters of `count_errors` that a description adds to."""
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


def _classify_ranks(past_round: ito_game.Round) -> list[str]:
  """Returns the counters of `count_errors` that the ranks add to."""
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


SEATS_PER_LEVEL = {"easy": 3, "medium": 4, "hard": 5}
ALL_LEVELS = "all"
# Guesser -> its line in the table.
_GUESSER_TITLES = {
  "random": "guessing, right seats locked",
  "permutation": "one random order a round",
  "elimination": "no refuted rank again",
  "joint": "joint consistent order",
}


def group_by_level(
  states: Sequence[ito_game.State],
) -> dict[str, list[ito_game.State]]:
  """Returns level -> games, last all games."""
  games_by_level = {
    level: [state for state in states if state.instance.level == level]
    for level in SEATS_PER_LEVEL
  }
  games_by_level[ALL_LEVELS] = list(states)
  return {level: games for level, games in games_by_level.items() if games}


def available_cutoffs(states: Sequence[ito_game.State]) -> list[int]:
  """Returns the K of Pass@K for which the games have enough rounds."""
  # A game that was won early counts for any K; the budget is what matters.
  rounds = min(len(state.themes) for state in states)
  return [k for k in CUTOFFS if k <= rounds]


def guesser_win_probability(name: str, level: str, rounds: int) -> float:
  """Returns the win probability of a guesser; for all, the mean of levels."""
  levels = [level] if level != ALL_LEVELS else list(SEATS_PER_LEVEL)
  return float(
    np.mean(
      [WIN_PROBABILITIES[name](SEATS_PER_LEVEL[x], rounds) for x in levels]
    )
  )


def format_report(
  name: str,
  states: Sequence[ito_game.State],
  turns: Sequence[Mapping[str, object]],
  notes: Mapping[str, object],
) -> str:
  """Returns the report in Markdown."""
  pass_cutoffs = available_cutoffs(states)
  rows = []
  for level, games in group_by_level(states).items():
    rows.append(
      [
        f"{level}, n={len(games)}",
        *(pass_at_k(games, k) for k in pass_cutoffs),
      ]
    )
    rows += [
      [
        f"{level}: {guesser_title}",
        *(
          f"{100 * guesser_win_probability(guesser, level, k):.1f}"
          for k in pass_cutoffs
        ),
      ]
      for guesser, guesser_title in _GUESSER_TITLES.items()
    ]
  header = ["games", *(f"Pass@{k} in %" for k in pass_cutoffs)]
  blocks = [f"# {name}: {len(states)} games", ""]
  blocks += [f"- {key}: {value}" for key, value in notes.items()]
  num_rounds = np.mean([len(state.rounds) for state in states])
  blocks.append(f"- mean rounds played: {num_rounds:.2f}")
  num_repairs = sum(len(turn["replies"]) - 1 for turn in turns)
  blocks.append(
    f"- replies asked for again: {num_repairs} in {len(turns)} turns"
  )
  num_leaks = sum(bool(turn["leaked"]) for turn in turns)
  blocks += [f"- reasons struck out as leaks: {num_leaks}", ""]
  title = "Games won, 95 % Wilson intervals, above what guessing reaches"
  blocks.append(output.format_table(title, header, rows, markdown=True))
  errors = count_errors(states)
  rows = [
    ["period not known", errors["unknown"], errors["described"]],
    ["item is not the believed period's", errors["items"], errors["described"]],
    ["rank is not what the items say", errors["inferred"], errors["ranked"]],
    ["nothing said that counts", errors["silent"], ""],
  ]
  header = ["measure", "wrong", "of"]
  blocks.append(
    output.format_table("Kinds of error", header, rows, markdown=True)
  )
  return "\n".join(blocks)


def make_result_rows(
  states: Sequence[ito_game.State], **row_fields
) -> list[ResultRow]:
  """Returns Pass@K by level as result rows."""
  return [
    ResultRow(
      **row_fields,
      family=level,
      metric=f"pass@{k}",
      value=share.ratio,
      low=share.interval[0],
      high=share.interval[1],
    )
    for level, games in group_by_level(states).items()
    for k in available_cutoffs(states)
    for share in (pass_at_k(games, k),)
  ]
