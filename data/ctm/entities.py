"""Entities and relations: named things with the years in which they existed.

Years are written as by historians: -278 is 278 BCE, there is no year 0 (see
`periods`). An end of None means that the entity still exists, e.g. maize in
China.
"""

from __future__ import annotations

import msgspec

from ctd_jax_datasets.ctm.vocabulary import EXACT


class YearInterval(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
  """Interval of years: a life, a reign, an era, the use of a name, an event.

  Attributes:
    start: first year; of an import from abroad, the first attested year.
    end: last year, None if the interval is open.
    precision: `EXACT` or `APPROXIMATE`, of the less exact end.
    source: authority for the years.
    sense: life, reign, era, use, event or origin.
  """

  start: int
  end: int | None
  precision: str
  source: str
  sense: str


class Entity(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
  """Record of the entity repository.

  Attributes:
    entity_id: e.g. `figure-0001`.
    name: in Simplified script.
    aliases: other names and the spellings in Traditional script.
    kind: one of `KINDS`.
    intervals: years; questions are about the first interval.
    periods: labels, the main one first; several for a life across periods.
    place: present province, or the city that a place name belongs to; ""
      if unknown.
    group: entities of one group are in one split.
    evidence: facts that a question may state, as short phrases; of an era
      (polity, ruler), of a ruler (polity,).
  """

  entity_id: str
  name: str
  aliases: tuple[str, ...]
  kind: str
  intervals: tuple[YearInterval, ...]
  periods: tuple[str, ...]
  place: str = ""
  group: str = ""
  evidence: tuple[str, ...] = ()


class Relation(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
  """Entity with one interval of years: the knowledge that a question needs.

  Attributes:
    entity: name as written in the question.
    kind: kind of the entity.
    period: main label of the entity.
    start: first year.
    end: last year, None if the interval is open.
    entity_id: id of the entity.
    precision: precision of the years.
    place: as in `Entity`.
  """

  entity: str
  kind: str
  period: str
  start: int
  end: int | None
  entity_id: str = ""
  precision: str = EXACT
  place: str = ""

  @property
  def label(self) -> str:
    """The form of the paper: 'entity-dynasty'."""
    return f"{self.entity}-{self.period}"
