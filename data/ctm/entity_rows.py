"""Rows of the fact tables as entities, with the checks of a record."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ctd_jax_datasets.ctm import fact_tables, periods
from ctd_jax_datasets.ctm.entities import Entity, YearInterval
from ctd_jax_datasets.ctm.period_assignment import assign_periods
from ctd_jax_datasets.ctm.vocabulary import (
  APPROXIMATE,
  ERA,
  EVENT,
  EXACT,
  FIGURE,
  HERITAGE,
  INGREDIENT,
  PLACE,
  RULER,
)

_ALLOWED_AGES = range(116)  # years; a longer life is an error of the table
# Kind -> header of its table.
_COLUMNS = {
  FIGURE: "name traditional aliases birth death precision province source"
  " checked",
  RULER: "name traditional aliases polity birth death start end precision"
  " source checked",
  ERA: "name traditional polity ruler start end source checked",
  PLACE: "name traditional aliases city province start end precision source"
  " checked",
  EVENT: "name traditional aliases start end source checked",
  INGREDIENT: "name traditional aliases start precision contested origin"
  " arrival source checked",
  HERITAGE: "name traditional aliases start precision contested province"
  " listed source checked",
}
# Kind -> name of its table; ids of entities depend on this order.
TABLES = {
  FIGURE: "figures",
  RULER: "rulers",
  ERA: "eras",
  PLACE: "places",
  EVENT: "events",
  INGREDIENT: "ingredients",
  HERITAGE: "heritage",
}
_INTEGER_COLUMNS = ("birth", "death", "start", "end", "listed")
_OPTIONAL_COLUMNS = {
  FIGURE: ("aliases", "province"),
  RULER: ("aliases", "birth", "death"),
  ERA: ("ruler",),
  PLACE: ("aliases",),
  EVENT: ("aliases",),
  INGREDIENT: ("aliases", "contested"),
  # Traditions of unknown age stay in the table; no question is about them.
  HERITAGE: ("aliases", "contested", "start", "precision"),
}


def read_rows(kind: str) -> list[dict[str, str]]:
  """Returns the rows of the table of one kind, each as column -> cell.

  Raises:
    ValueError: naming table, line and column at fault.
  """
  return fact_tables.read_table(
    fact_tables.table_path(TABLES[kind]),
    _COLUMNS[kind].split(),
    integers=_INTEGER_COLUMNS,
    optional=_OPTIONAL_COLUMNS[kind],
  )


def read_records(kind: str) -> Iterator[Entity]:
  """Yields the records of one kind; rows of one ruler or place are merged.

  Raises:
    ValueError: naming table, line and column, or the record, at fault.
  """
  rows_by_key: dict[tuple[str, str], list[Mapping[str, str]]] = {}
  for line, row in enumerate(read_rows(kind), start=2):
    # Two eras of one name and polity are two records, as are two homonyms; two
    # reigns of one ruler are one record.
    city_or_polity = row.get("polity") or row.get("city") or ""
    key = (
      row["name"],
      f"{city_or_polity}{line}" if kind in (ERA, FIGURE) else city_or_polity,
    )
    rows_by_key.setdefault(key, []).append(row)
  for number, group in enumerate(rows_by_key.values()):
    yield _build_entity(f"{kind}-{number:04d}", kind, group)


def _build_entity(
  entity_id: str, kind: str, rows: Sequence[Mapping[str, str]]
) -> Entity:
  """Returns the record of the rows that name one entity."""
  row = rows[0]
  names = (
    row["traditional"],
    *fact_tables.split_values(row.get("aliases", "")),
  )
  intervals = tuple(
    interval
    for table_row in rows
    for interval in _read_intervals(kind, table_row)
  )
  if kind == PLACE:  # the first interval is the first use of a name
    intervals = tuple(sorted(intervals, key=lambda interval: interval.start))
  record = Entity(
    entity_id=entity_id,
    name=row["name"],
    aliases=tuple(n for n in dict.fromkeys(names) if n != row["name"]),
    kind=kind,
    intervals=intervals,
    periods=assign_periods(kind, row, intervals),
    place=row.get("city") or row.get("province", ""),
    group=entity_id,
    evidence=_collect_evidence(kind, row),
  )
  if problem := _find_problem(record):
    raise ValueError(
      f"{fact_tables.table_path(TABLES[kind])}: {record.name}: {problem}"
    )
  return record


def _read_intervals(
  kind: str, row: Mapping[str, str]
) -> Iterator[YearInterval]:
  """Yields the intervals of a row; a reign precedes the life."""
  source, precision = row["source"], row.get("precision") or EXACT
  if kind == FIGURE:
    yield YearInterval(
      int(row["birth"]), int(row["death"]), precision, source, "life"
    )
  elif kind in (INGREDIENT, HERITAGE):
    if row["start"]:
      yield YearInterval(int(row["start"]), None, precision, source, "origin")
  else:
    sense = {RULER: "reign", ERA: "era", PLACE: "use", EVENT: "event"}[kind]
    if kind == EVENT and fact_tables.split_checked(row).not_given:
      precision = APPROXIMATE
    yield YearInterval(
      int(row["start"]), int(row["end"]), precision, source, sense
    )
  if kind == RULER and row["birth"] and row["death"]:
    yield YearInterval(
      int(row["birth"]), int(row["death"]), EXACT, source, "life"
    )


def _collect_evidence(kind: str, row: Mapping[str, str]) -> tuple[str, ...]:
  """Returns facts without years, which a question may state."""
  if kind == ERA:
    return (row["polity"], row["ruler"])
  if kind == RULER:
    return (row["polity"],)
  if kind == PLACE:
    return (row["city"], row["province"])
  if kind == INGREDIENT:
    return (row["origin"], row["arrival"])
  if kind == HERITAGE:
    return (row["province"], row["listed"])
  return (row["province"],) if kind == FIGURE and row["province"] else ()


def _find_problem(record: Entity) -> str:
  """Returns the problem of an impossible record, or ""."""
  for interval in record.intervals:
    if 0 in (interval.start, interval.end):
      return "year 0; 1 BCE is -1"
    if interval.precision not in (EXACT, APPROXIMATE):
      return (
        f"precision {interval.precision!r}; there are {EXACT}, {APPROXIMATE}"
      )
    if interval.end is not None and interval.end < interval.start:
      return f"ends in {interval.end}, before it begins in {interval.start}"
    if interval.sense == "life":
      years = periods.count_years_between(interval.start, interval.end)[0]
      if years not in _ALLOWED_AGES:
        return f"lived {years} years"
  return ""
