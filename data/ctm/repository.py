"""The entity repository: figures, rulers, eras, places, events and things.

Why: questions are made from records, answers are looked up in them, and a
record is only as good as its checks. The facts are tables in `data/ctm/facts`
with a source in each row; this module reads them into `Entity`, decides which
periods each belongs to, and says what is wrong or missing. Called by the
builder of `ctm`, the answerers and the judge.

How a record gets its periods (the paper gives one `dynasty` to each):

- The years decide, the first label is that with most of them. Of a life only
  the years from the twentieth on count, so who grew up under one dynasty and
  worked under the next belongs to the next. All others are accepted as well.
- A tenth of the years at least: a name given in the last years of one dynasty
  and used under the next belongs to the next.
- What lies before -2100 counts as 先秦.
- A ruler of a regime mapped by convention (十国, 辽) has that label too.
- Things have the label of their first attested year, and those that the
  authorities disagree about.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence

from ctd_jax_datasets.ctm import fact_tables, periods
from ctd_jax_datasets.ctm.questions import (
  APPROXIMATE,
  ERA,
  EVENT,
  EXACT,
  FIGURE,
  HERITAGE,
  INGREDIENT,
  PLACE,
  RULER,
  Entity,
  Relation,
  Theme,
  YearInterval,
)

ADULT_AGE = 20
# A period with less of the years than this is not one of a record's labels.
_MIN_SHARE = 0.1
# A life outside this is a slip of the table.
_ALLOWED_AGES = range(116)
_COLUMNS = {
  FIGURE: "name traditional aliases birth death precision province source",
  RULER: "name traditional aliases polity birth death start end precision"
  " source",
  ERA: "name traditional polity ruler start end source",
  PLACE: "name traditional aliases city province start end precision source",
  EVENT: "name traditional aliases start end source",
  INGREDIENT: "name traditional aliases start precision contested origin"
  " arrival source",
  HERITAGE: "name traditional aliases start precision contested province"
  " listed source",
}
_TABLES = {
  FIGURE: "figures",
  RULER: "rulers",
  ERA: "eras",
  PLACE: "places",
  EVENT: "events",
  INGREDIENT: "ingredients",
  HERITAGE: "heritage",
}
_THEME_COLUMNS = "theme low high position item measure unit source"
_INTEGER_COLUMNS = ("birth", "death", "start", "end", "listed")
_OPTIONAL_COLUMNS = {
  FIGURE: ("aliases", "province"),
  RULER: ("aliases", "birth", "death"),
  ERA: ("ruler",),
  PLACE: ("aliases",),
  EVENT: ("aliases",),
  INGREDIENT: ("aliases", "contested"),
  # Traditions of unknown age are listed, and no question asks for it.
  HERITAGE: ("aliases", "contested", "start", "precision"),
}


@functools.cache
def load_entities() -> tuple[Entity, ...]:
  """Returns all records, in order of kinds and rows.

  Raises:
    ValueError: naming table, line and column, or the record, at fault.
  """
  records: list[Entity] = []
  for kind, table in _TABLES.items():
    rows = fact_tables.read_table(
      fact_tables.table_path(table),
      _COLUMNS[kind].split(),
      integers=_INTEGER_COLUMNS,
      optional=_OPTIONAL_COLUMNS[kind],
    )
    records += _build_records(kind, rows)
  return tuple(records)


def _build_records(
  kind: str, rows: Sequence[Mapping[str, str]]
) -> Iterator[Entity]:
  """Yields the records of a table; rows of one ruler or place are one."""
  rows_by_key: dict[tuple[str, str], list[Mapping[str, str]]] = {}
  for line, row in enumerate(rows, start=2):
    # Two eras of one name and polity are two; two reigns of a man are one man.
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
  """Returns the record of its rows."""
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
  if kind == PLACE:  # what is first tells since when a name was in use
    intervals = tuple(sorted(intervals, key=lambda interval: interval.start))
  record = Entity(
    entity_id=entity_id,
    name=row["name"],
    aliases=tuple(n for n in dict.fromkeys(names) if n != row["name"]),
    kind=kind,
    intervals=intervals,
    periods=_assign_periods(kind, row, intervals),
    place=row.get("city") or row.get("province", ""),
    group=entity_id,
    evidence=_collect_evidence(kind, row),
  )
  if problem := _find_problem(record):
    raise ValueError(
      f"{fact_tables.table_path(_TABLES[kind])}: {record.name}: {problem}"
    )
  return record


def _read_intervals(
  kind: str, row: Mapping[str, str]
) -> Iterator[YearInterval]:
  """Yields when the entity of a row was; a reign comes before the life."""
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
    yield YearInterval(
      int(row["start"]), int(row["end"]), precision, source, sense
    )
  if kind == RULER and row["birth"] and row["death"]:
    yield YearInterval(
      int(row["birth"]), int(row["death"]), EXACT, source, "life"
    )


def _assign_periods(
  kind: str, row: Mapping[str, str], intervals: Sequence[YearInterval]
) -> tuple[str, ...]:
  """Returns the labels of a record, the main one first."""
  years: collections.Counter[str] = collections.Counter()
  for interval in intervals:
    if interval.sense == "life" and kind == RULER:
      continue
    first, last = interval.start, interval.end
    if interval.sense == "life" and last - first > ADULT_AGE:
      first += ADULT_AGE
    years.update(_count_years_by_label(first, first if last is None else last))
  num_years = years.total()
  labels = [
    label
    for label, count in years.most_common()
    if count >= num_years * _MIN_SHARE
  ]
  labels += fact_tables.split_values(row.get("contested", ""))
  if kind == RULER:
    regimes = periods.find_aliases(row["polity"])
    labels += [
      label
      for regime in regimes
      if regime.is_convention
      for label in regime.labels
    ]
  return tuple(dict.fromkeys(labels))


def _count_years_by_label(first: int, last: int) -> dict[str, int]:
  """Returns how many of the years `first` to `last` each period has."""
  starts = [period.start for period in periods.PERIODS]
  # A period lasts until the next begins: where two overlap the later one wins.
  ends = [*starts[1:], periods.LAST_YEAR + 1]
  starts[0] = min(starts[0], first)
  year_counts = {
    label: min(last + 1, end) - max(first, start)
    for label, start, end in zip(periods.LABELS, starts, ends, strict=True)
  }
  return {label: years for label, years in year_counts.items() if years > 0}


def _collect_evidence(kind: str, row: Mapping[str, str]) -> tuple[str, ...]:
  """Returns what a question may tell of an entity without its years."""
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
  """Returns what cannot be true of a record, or ""."""
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


def find_life(record: Entity) -> YearInterval | None:
  """Returns when somebody lived, None if unknown or not a person."""
  return next((i for i in record.intervals if i.sense == "life"), None)


def make_relation(
  record: Entity, interval: YearInterval | None = None
) -> Relation:
  """Returns what a question needs to know of an entity.

  Args:
    record: has at least one interval.
    interval: of it; None takes the first.
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

  A name of a city may have been in use before, under another dynasty.
  """
  for interval in record.intervals:
    last = interval.start if interval.end is None else interval.end
    if record.periods[0] in _count_years_by_label(interval.start, last):
      return interval
  return record.intervals[0]


def index_by_name(records: Iterable[Entity]) -> dict[str, tuple[Entity, ...]]:
  """Returns name or alias -> records, several of what bears one name."""
  records_by_name: dict[str, tuple[Entity, ...]] = {}
  for record in records:
    for name in (record.name, *record.aliases):
      records_by_name[name] = (*records_by_name.get(name, ()), record)
  return records_by_name


def assign_groups(records: Sequence[Entity]) -> tuple[Entity, ...]:
  """Returns the records with `group` set: who shares a name is one group.

  The names of one city, and a name that two records share, tie records
  together; what is tied over several steps is one group as well.
  """
  leaders = {record.entity_id: record.entity_id for record in records}

  def find_leader(entity_id: str) -> str:
    while leaders[entity_id] != entity_id:
      entity_id = leaders[entity_id]
    return entity_id

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
    dataclasses.replace(record, group=find_leader(record.entity_id))
    for record in records
  )


def hash_fact_tables() -> str:
  """Returns the sha256 of the tables, of which questions are a function."""
  digest = hashlib.sha256()
  for name in sorted((*_TABLES.values(), "regimes", "themes")):
    digest.update(fact_tables.table_path(name).read_bytes())
  return digest.hexdigest()


@functools.cache
def load_themes() -> tuple[Theme, ...]:
  """Returns the eight themes of the game, each with ten items that rise.

  Raises:
    ValueError: naming the theme whose measures do not rise.
  """
  rows = fact_tables.read_table(
    fact_tables.table_path("themes"),
    _THEME_COLUMNS.split(),
    integers=("position",),
  )
  by_theme: dict[str, list[dict[str, str]]] = {}
  for row in rows:
    by_theme.setdefault(row["theme"], []).append(row)
  themes = []
  for name, items in by_theme.items():
    measures = tuple(float(row["measure"]) for row in items)
    is_rising = tuple(sorted(set(measures))) == measures
    if not is_rising or len(items) != len(periods.PERIODS):
      raise ValueError(
        f"{fact_tables.table_path('themes')}: {name}: needs "
        f"{len(periods.PERIODS)} items whose measures rise"
      )
    first_row = items[0]
    themes.append(
      Theme(
        name=name,
        low=first_row["low"],
        high=first_row["high"],
        items=tuple(row["item"] for row in items),
        measures=measures,
        unit=first_row["unit"],
        source=first_row["source"],
      )
    )
  return tuple(themes)
