"""Themes and instances of the Timeline Ito game."""

from __future__ import annotations

import msgspec

from ctd_jax_datasets.ctm.entities import Relation


class Theme(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
  """Theme of the game: ten items, of which item k stands for period k.

  Attributes:
    name: e.g. 水果大小.
    low: meaning of the earliest item (最小).
    high: meaning of the latest item (最大).
    items: in order, one for each period.
    measures: rising figures that justify the order, in `unit`.
    unit: unit of the measures.
    source: authorities for the measures; `chosen` are usual ones of ours.
  """

  name: str
  low: str
  high: str
  items: tuple[str, ...]
  measures: tuple[float, ...]
  unit: str
  source: str


class ItoInstance(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
  """Game: one entity for each player, no two of one period.

  Attributes:
    instance_id: e.g. `ito-easy-01`.
    level: easy (3 players), medium (4) or hard (5).
    seats: entity of each player, player 1 first.
    ranks: true rank of each player, 1 = earliest.
    split: always test.
  """

  instance_id: str
  level: str
  seats: tuple[Relation, ...]
  ranks: tuple[int, ...]
  split: str = "test"
