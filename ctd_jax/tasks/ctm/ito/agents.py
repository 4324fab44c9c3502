"""Seats that need no model: what a result of one has to be compared with.

Why: under published feedback, blind guessing wins many games, so the share of
games that a model wins means nothing without these. All draw their chances
from (seed, game, seat, round), so that they remember nothing and a game is the
same whenever it is played. Called by `python -m ctd_jax.tasks.ctm ito`.
"""

from __future__ import annotations

import abc
import dataclasses
import itertools
import json
import random
from collections.abc import Mapping, Sequence

from ctd_jax.tasks.ctm.ito import schema
from ctd_jax.tasks.ctm.ito.game import DESCRIBE, View
from ctd_jax_datasets.ctm import periods

# Said by seats that have nothing to say: no agent here reads reasons.
_REASON = "按时间先后选的。"


def _chance(
  seed: int | str, view: View, *, joint: bool = False
) -> random.Random:
  """Returns the chances of a turn; joint ones are the same for all seats."""
  seat = "all" if joint else view.seat
  place = (view.instance_id, seat, len(view.rounds), view.phase)
  return random.Random(":".join(map(str, (seed, *place))))


def _describe(item: str, label: str | None = None) -> str:
  fields = {schema.REASON: _REASON, schema.ITEM: item}
  if label is not None:
    fields[schema.LABEL] = label
  return json.dumps(fields, ensure_ascii=False)


def _rank(rank: int) -> str:
  return json.dumps({schema.RANK: rank}, ensure_ascii=False)


@dataclasses.dataclass(frozen=True)
class Guesser(abc.ABC):
  """Describes by any item; subclasses say how the rank is guessed.

  Attributes:
    seed: of its chances.
  """

  seed: int | str = 0

  def reply(self, view: View, complaints: Sequence[str] = ()) -> str:
    """Returns the JSON that the phase asks for."""
    if view.phase == DESCRIBE:
      return _describe(_chance(self.seed, view).choice(view.theme.items))
    return _rank(self.guess(view))

  @abc.abstractmethod
  def guess(self, view: View) -> int:
    """Returns the rank."""


class Random(Guesser):
  """Any rank, each time anew."""

  def guess(self, view: View) -> int:
    """Returns a rank drawn uniformly."""
    return _chance(self.seed, view).randint(1, view.seats)


class Elimination(Guesser):
  """Any rank that no verdict has refuted for this seat."""

  def guess(self, view: View) -> int:
    """Returns a rank drawn uniformly from those left."""
    left = set(range(1, view.seats + 1)) - view.refuted()
    return _chance(self.seed, view).choice(sorted(left))


class Permutation(Guesser):
  """One drawn order for all seats, anew in each round."""

  def guess(self, view: View) -> int:
    """Returns the seat's place in the order."""
    order = list(range(1, view.seats + 1))
    _chance(self.seed, view, joint=True).shuffle(order)
    return order[view.seat]


class JointPermutation(Guesser):
  """One order for all seats, drawn from those that fit all verdicts.

  Every seat works out the same orders: the chances are shared and verdicts
  are public.
  """

  def guess(self, view: View) -> int:
    """Returns the seat's place in the order."""
    left = list(itertools.permutations(range(1, view.seats + 1)))
    for number, past in enumerate(view.rounds, start=1):
      moment = dataclasses.replace(view, rounds=view.rounds[:number])
      order = _chance(self.seed, moment, joint=True).choice(left)
      if past.wrong is None:
        continue
      left = [
        other
        for other in left
        if all(
          (mine == theirs) == (seat not in past.wrong)
          for seat, (mine, theirs) in enumerate(zip(order, other, strict=True))
        )
      ]
    return order[view.seat]


@dataclasses.dataclass(frozen=True)
class Knowing:
  """Describes by the item of the period it believes in, ranks by the items.

  Attributes:
    labels: entity -> its period.
    accuracy: chance to know the period of an entity; otherwise it believes in
      any other one, for the whole game. 1 is the oracle.
    seed: of its chances.
  """

  labels: Mapping[str, str]
  accuracy: float = 1.0
  seed: int | str = 0

  def reply(self, view: View, complaints: Sequence[str] = ()) -> str:
    """Returns the JSON that the phase asks for."""
    label = self._belief(view)
    if view.phase == DESCRIBE:
      return _describe(view.theme.items[periods.period(label).index], label)
    return _rank(self._infer(view))

  def _belief(self, view: View) -> str:
    truth = self.labels[view.entity]
    chance = random.Random(f"{self.seed}:{view.instance_id}:{view.entity}")
    if chance.random() < self.accuracy:
      return truth
    return chance.choice([label for label in periods.LABELS if label != truth])

  def _infer(self, view: View) -> int:
    """Returns the rank by items; a refuted one gives way to the nearest."""
    said = implied_ranks(view)
    mine = said.get(view.seat, 1)
    left = set(range(1, view.seats + 1)) - view.refuted()
    return min(left or {mine}, key=lambda rank: (abs(rank - mine), rank))


def implied_ranks(view: View) -> dict[int, int]:
  """Returns seat -> rank by the items of the round; ties by seat."""
  items = view.theme.items
  order = sorted(
    (items.index(said.item), said.seat)
    for said in view.rounds[-1].descriptions
    if said.item is not None
  )
  return {seat: rank for rank, (_, seat) in enumerate(order, start=1)}
