"""Views of the Ito game: what the next seat knows.

A view has no rank and no believed period of another seat. With feedback off it
has no verdict either, and nothing from which one could be inferred.
"""

from __future__ import annotations

import dataclasses

from ctd_jax.tasks.ctm.ito.game import Round, State
from ctd_jax_datasets.ctm.game_schema import Theme


@dataclasses.dataclass(frozen=True)
class View:
  """Knowledge of the next seat.

  Attributes:
    instance_id: id of the game.
    phase: describe or rank.
    seat: number of the seat, from 0.
    num_seats: number of all seats.
    entity: entity of the seat.
    feedback: whether `wrong_seats` of past rounds is published.
    rounds: all so far; of ranks and believed periods only those of the seat.
  """

  instance_id: str
  phase: str
  seat: int
  num_seats: int
  entity: str
  feedback: bool
  rounds: tuple[Round, ...]

  @property
  def theme(self) -> Theme:
    """The theme of the current round."""
    return self.rounds[-1].theme

  def refuted_ranks(self) -> set[int | None]:
    """Returns the ranks of the seat that a verdict has called wrong."""
    return {
      past_round.rank_of(self.seat)
      for past_round in self.rounds
      if past_round.wrong_seats is not None
      and self.seat in past_round.wrong_seats
    }


def make_view(state: State) -> View:
  """Returns the view of the next seat."""
  seat = state.next_seat
  return View(
    state.instance.instance_id,
    state.phase,
    seat,
    len(state.instance.seats),
    state.instance.seats[seat].entity,
    state.feedback,
    tuple(
      _hide_other_seats(past_round, seat, state.feedback)
      for past_round in state.rounds
    ),
  )


def _hide_other_seats(past_round: Round, seat: int, feedback: bool) -> Round:
  """Returns a round without the secrets of other seats."""
  return dataclasses.replace(
    past_round,
    descriptions=tuple(
      description
      if description.seat == seat or description.label is None
      else dataclasses.replace(description, label=None)
      for description in past_round.descriptions
    ),
    ranks=tuple(
      seat_rank for seat_rank in past_round.ranks if seat_rank[0] == seat
    ),
    # Who ranks again tells who was wrong.
    ranking_seats=past_round.ranking_seats if feedback else (),
    wrong_seats=past_round.wrong_seats if feedback else None,
  )
