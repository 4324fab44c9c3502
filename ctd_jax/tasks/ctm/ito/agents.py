"""Agents that need no model: guessers, and agents that know the periods.

With published feedback blind guessing wins many games, so the share of games
that a model wins has to be compared with theirs. Draws depend only on seed,
game, seat and round: agents keep no state, and a game is the same whenever it
is played.
"""

from __future__ import annotations

import abc
import dataclasses
import itertools
import json
import random
from collections.abc import Mapping, Sequence

from ctd_jax.tasks.ctm.ito import schema
from ctd_jax.tasks.ctm.ito.game import DESCRIBE
from ctd_jax.tasks.ctm.ito.views import View
from ctd_jax_datasets.ctm import periods

_REASON = "按时间先后选的。"  # replies need one; no agent here reads it


def _make_turn_rng(
  seed: int | str, view: View, *, is_joint: bool = False
) -> random.Random:
  """Returns the generator of a turn, a joint one for all seats if so."""
  seat = "all" if is_joint else view.seat
  turn_key = (view.instance_id, seat, len(view.rounds), view.phase)
  return random.Random(":".join(map(str, (seed, *turn_key))))


def _format_description(item: str, label: str | None = None) -> str:
  fields = {schema.REASON: _REASON, schema.ITEM: item}
  if label is not None:
    fields[schema.LABEL] = label
  return json.dumps(fields, ensure_ascii=False)


def _format_ranking(rank: int) -> str:
  return json.dumps({schema.RANK: rank}, ensure_ascii=False)


@dataclasses.dataclass(frozen=True)
class Guesser(abc.ABC):
  """Agent that describes by a random item; subclasses guess the rank.

  Attributes:
    seed: seed of all draws.
  """

  seed: int | str = 0

  def reply(self, view: View, complaints: Sequence[str] = ()) -> str:
    """Returns the JSON of the phase; complaints do not occur."""
    if view.phase == DESCRIBE:
      return _format_description(
        _make_turn_rng(self.seed, view).choice(view.theme.items)
      )
    return _format_ranking(self.guess_rank(view))

  @abc.abstractmethod
  def guess_rank(self, view: View) -> int:
    """Returns the rank."""


class RandomGuesser(Guesser):
  """Guesser of any rank, each time anew."""

  def guess_rank(self, view: View) -> int:
    """Returns a rank drawn uniformly."""
    return _make_turn_rng(self.seed, view).randint(1, view.num_seats)


class EliminationGuesser(Guesser):
  """Guesser of any rank that no verdict has refuted for this seat."""

  def guess_rank(self, view: View) -> int:
    """Returns a rank drawn uniformly from the open ones."""
    open_ranks = set(range(1, view.num_seats + 1)) - view.refuted_ranks()
    return _make_turn_rng(self.seed, view).choice(sorted(open_ranks))


class PermutationGuesser(Guesser):
  """Guesser of one random order for all seats, anew in each round."""

  def guess_rank(self, view: View) -> int:
    """Returns the seat's place in the order."""
    # The joint generator gives all seats the same order.
    order = list(range(1, view.num_seats + 1))
    _make_turn_rng(self.seed, view, is_joint=True).shuffle(order)
    return order[view.seat]


class JointPermutationGuesser(Guesser):
  """Guesser of one order for all seats, consistent with all verdicts.

  Every seat computes the same orders, since draws are joint and verdicts are
  public.
  """

  def guess_rank(self, view: View) -> int:
    """Returns the seat's place in the order."""
    consistent_orders = list(
      itertools.permutations(range(1, view.num_seats + 1))
    )
    # The draws of all earlier rounds are repeated, the last is the guess.
    for num_rounds, past_round in enumerate(view.rounds, start=1):
      past_view = dataclasses.replace(view, rounds=view.rounds[:num_rounds])
      order = _make_turn_rng(self.seed, past_view, is_joint=True).choice(
        consistent_orders
      )
      if past_round.wrong_seats is None:
        continue
      # An order stays if it explains which ranks were right and which wrong.
      consistent_orders = [
        candidate_order
        for candidate_order in consistent_orders
        if all(
          (rank == candidate_rank) == (seat not in past_round.wrong_seats)
          for seat, (rank, candidate_rank) in enumerate(
            zip(order, candidate_order, strict=True)
          )
        )
      ]
    return order[view.seat]


@dataclasses.dataclass(frozen=True)
class InformedAgent:
  """Agent that describes its believed period and ranks by the items.

  Attributes:
    labels: entity -> its period.
    accuracy: probability to know the period of an entity; otherwise it
      believes in any other one, for the whole game. 1 is the oracle.
    seed: seed of all draws.
  """

  labels: Mapping[str, str]
  accuracy: float = 1.0
  seed: int | str = 0

  def reply(self, view: View, complaints: Sequence[str] = ()) -> str:
    """Returns the JSON that the phase asks for."""
    label = self._believed_label(view)
    if view.phase == DESCRIBE:
      return _format_description(
        view.theme.items[periods.get_period(label).index], label
      )
    return _format_ranking(self._infer_rank(view))

  def _believed_label(self, view: View) -> str:
    """Returns the period that the seat believes in, the same in all rounds."""
    true_label = self.labels[view.entity]
    rng = random.Random(f"{self.seed}:{view.instance_id}:{view.entity}")
    if rng.random() < self.accuracy:
      return true_label
    return rng.choice(
      [label for label in periods.LABELS if label != true_label]
    )

  def _infer_rank(self, view: View) -> int:
    """Returns the rank by the items, or the nearest one not refuted."""
    # Rank 1 if the seat itself gave no item.
    ranks_by_items = rank_by_items(view)
    implied_rank = ranks_by_items.get(view.seat, 1)
    open_ranks = set(range(1, view.num_seats + 1)) - view.refuted_ranks()
    return min(
      open_ranks or {implied_rank},
      key=lambda rank: (abs(rank - implied_rank), rank),
    )


def rank_by_items(view: View) -> dict[int, int]:
  """Returns seat -> rank by the items of the round; ties by seat."""
  items = view.theme.items
  item_positions = sorted(
    (items.index(description.item), description.seat)
    for description in view.rounds[-1].descriptions
    if description.item is not None
  )
  return {seat: rank for rank, (_, seat) in enumerate(item_positions, start=1)}
