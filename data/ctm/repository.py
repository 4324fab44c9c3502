"""Entity repository: figures, rulers, eras, places, events and things.

The facts are tables in `facts/*.tsv` with a source in each row. A record is
read by `entity_rows`; its periods are computed by `period_assignment`.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterable, Sequence

import msgspec

from ctd_jax_datasets.ctm import entity_rows, fact_tables
from ctd_jax_datasets.ctm.entities import Entity, Relation, YearInterval
from ctd_jax_datasets.ctm.period_assignment import count_years_by_label
from ctd_jax_datasets.ctm.vocabulary import PLACE


@functools.cache
def load_entities() -> tuple[Entity, ...]:
  """Returns all records, in order of kinds and rows.

  Raises:
    ValueError: naming table, line and column, or the record, at fault.
  """
  return tuple(
    record
    for kind in entity_rows.TABLES
    for record in entity_rows.read_records(kind)
  )


def make_relation(
  record: Entity, interval: YearInterval | None = None
) -> Relation:
  """Returns the relation of an entity.

  Args:
    record: entity with at least one interval.
    interval: interval of the entity; None takes the first.
  """
  interval = interval or record.intervals[0]
  return Relation(
    entity=record.name,
    kind=record.kind,
    period=record.periods[0],
    start=interval.start,
    end=interval.end,
    entity_id=record.entity_id,
    precision=interval.precision,
    place=record.place,
  )


def find_main_interval(record: Entity) -> YearInterval:
  """Returns the first interval with years of the main period of a record.

  A city name may have been in use before, under another dynasty.
  """
  for interval in record.intervals:
    last = interval.start if interval.end is None else interval.end
    if record.periods[0] in count_years_by_label(interval.start, last):
      return interval
  return record.intervals[0]


def index_by_name(records: Iterable[Entity]) -> dict[str, tuple[Entity, ...]]:
  """Returns name or alias -> records, several for a shared name."""
  records_by_name: dict[str, tuple[Entity, ...]] = {}
  for record in records:
    for name in (record.name, *record.aliases):
      records_by_name[name] = (*records_by_name.get(name, ()), record)
  return records_by_name


def assign_groups(records: Sequence[Entity]) -> tuple[Entity, ...]:
  """Returns the records with `group` set, for splits without leaks.

  A shared name ties two records, and so does the city of two place names; the
  connected components of these ties are the groups.
  """
  # Union-find: entity id -> id of a record in its group, up to the leader.
  leaders = {record.entity_id: record.entity_id for record in records}

  def find_leader(entity_id: str) -> str:
    while leaders[entity_id] != entity_id:
      entity_id = leaders[entity_id]
    return entity_id

  # Tie -> records: a shared name, or a city.
  records_by_tie = dict(index_by_name(records))
  for record in records:
    if record.kind == PLACE:
      city = f"city {record.place}"
      records_by_tie[city] = (*records_by_tie.get(city, ()), record)
  for tied_records in records_by_tie.values():
    for record in tied_records[1:]:
      leaders[find_leader(record.entity_id)] = find_leader(
        tied_records[0].entity_id
      )
  return tuple(
    msgspec.structs.replace(record, group=find_leader(record.entity_id))
    for record in records
  )


def hash_fact_tables() -> str:
  """Returns the sha256 of all tables, which determine the questions."""
  digest = hashlib.sha256()
  for name in sorted((*entity_rows.TABLES.values(), "regimes", "themes")):
    digest.update(fact_tables.table_path(name).read_bytes())
  return digest.hexdigest()
