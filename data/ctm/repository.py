"""Entity repository: figures, rulers, eras, places, events and things.

Rows of the fact tables become entities; their periods are computed from their
years. It also reads the themes of the Ito game.
"""

import collections
import functools
import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from ctd_jax_datasets.ctm import periods
from ctd_jax_datasets.ctm.periods import (
  APPROXIMATE,
  ERA,
  EVENT,
  EXACT,
  FIGURE,
  HERITAGE,
  INGREDIENT,
  PLACE,
  RULER,
  TOLERANCE,
)
from ctd_jax_datasets.ctm.schema import Entity, Relation, Theme, YearInterval

ADULT_AGE = 20  # years of a life before it count for no period
_MIN_SHARE = 0.1  # of the years, for a period to be one of the labels
_DATED_ONCE = (EVENT, INGREDIENT, HERITAGE)


def assign_periods(
  kind: str, row: Mapping[str, str], intervals: Sequence[YearInterval]
) -> tuple[str, ...]:
  """Returns the labels of a record, the main one first."""
  years: collections.Counter[str] = collections.Counter()
  for interval in intervals:
    # A ruler belongs to the years of the reign.
    if interval.sense == "life" and kind == RULER:
      continue
    first, last = interval.start, interval.end
    # Who died young keeps all years.
    if interval.sense == "life" and last - first > ADULT_AGE:
      first += ADULT_AGE
    years.update(count_years_by_label(first, first if last is None else last))
  num_years = years.total()
  labels = [
    label
    for label, count in years.most_common()
    if count >= num_years * _MIN_SHARE
  ]
  if kind in _DATED_ONCE and intervals:
    # 崖山海战 ended 宋 and began 元. An approximate start may lie on the other
    # side of a boundary.
    start, slack = intervals[0].start, TOLERANCE[intervals[0].precision]
    for year in (start - slack, start, start + slack):
      if year:  # there is no year 0
        labels += periods.list_acceptable_labels(year)
  labels += periods.split_values(row.get("contested", ""))
  if "polity" in row:
    # The dynasty decides, not the year: 忽必烈 of 1260 is 元, 弘光 of 1645 明.
    regimes = periods.find_aliases(row["polity"])
    if not regimes:
      raise ValueError(
        f"{periods.table_path('regimes')}: no polity {row['polity']}, which "
        f"{TABLES[kind]}.tsv names"
      )
    own = [label for regime in regimes for label in regime.labels]
    own = [label for label in labels if label in own] or own
    if any(regime.is_convention for regime in regimes):
      # 西夏 existed beside 宋: its rulers belong to the periods of their years.
      own += labels
    labels = own
  return tuple(dict.fromkeys(labels))


def count_years_by_label(first: int, last: int) -> dict[str, int]:
  """Returns label -> number of the years from `first` to `last`."""
  starts = [period.start for period in periods.PERIODS]
  # A period lasts until the next begins: where two overlap the later one wins.
  ends = [*starts[1:], periods.LAST_YEAR + 1]
  starts[0] = min(starts[0], first)
  year_counts = {
    label: min(last + 1, end) - max(first, start)
    for label, start, end in zip(periods.LABELS, starts, ends, strict=True)
  }
  return {label: years for label, years in year_counts.items() if years > 0}


_ALLOWED_AGES = range(116)  # years; a longer life is an error of the table
# Kind -> header of its table.
_COLUMNS = {
  FIGURE: "name traditional aliases birth death precision contested province"
  " source checked",
  RULER: "name traditional aliases polity birth death start end precision"
  " source checked",
  ERA: "name traditional aliases polity ruler start end source checked",
  PLACE: "name traditional aliases city province start end precision contested"
  " source checked",
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
  FIGURE: ("aliases", "contested", "province"),
  RULER: ("aliases", "birth", "death"),
  ERA: ("aliases", "ruler"),
  PLACE: ("aliases", "contested"),
  EVENT: ("aliases",),
  INGREDIENT: ("aliases", "contested"),
  # Traditions of unknown age stay in the table; no question is about them.
  HERITAGE: ("aliases", "contested", "start", "precision"),
}


def read_rows(kind: str) -> list[dict[str, str]]:
  """Returns the rows of the table of one kind, each as column -> cell."""
  return periods.read_table(
    periods.table_path(TABLES[kind]),
    _COLUMNS[kind].split(),
    integers=_INTEGER_COLUMNS,
    optional=_OPTIONAL_COLUMNS[kind],
  )


def read_records(kind: str) -> Iterator[Entity]:
  """Yields the records of one kind; rows of one ruler or place are merged."""
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
    *periods.split_values(row.get("aliases", "")),
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
    # Where the province is disputed, the first is the usual one.
    place=row.get("city") or row.get("province", "").split("|")[0],
    group=entity_id,
    evidence=_collect_evidence(kind, row),
  )
  if problem := _find_problem(record):
    raise ValueError(
      f"{periods.table_path(TABLES[kind])}: {record.name}: {problem}"
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
    checked = periods.split_checked(row)
    differs = checked.differing if kind in (ERA, PLACE) else ()
    if differs or (kind in (EVENT, ERA) and checked.not_given):
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
  return periods.split_values(row["province"]) if kind == FIGURE else ()


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


_THEME_COLUMNS = "theme low high position item measure unit source checked"


@functools.cache
def load_themes() -> tuple[Theme, ...]:
  """Returns the eight themes of the game.

  Raises:
    ValueError: if a theme does not have ten items of rising measure; the
      message names it.
  """
  rows = periods.read_table(
    periods.table_path("themes"),
    _THEME_COLUMNS.split(),
    integers=("position",),
  )
  by_theme: dict[str, list[dict[str, str]]] = {}
  for row in rows:
    by_theme.setdefault(row["theme"], []).append(row)
  themes = []
  for name, items in by_theme.items():
    # Item k stands for period k, so a tie would make a hint ambiguous.
    measures = tuple(float(row["measure"]) for row in items)
    is_rising = tuple(sorted(set(measures))) == measures
    if not is_rising or len(items) != len(periods.PERIODS):
      raise ValueError(
        f"{periods.table_path('themes')}: {name}: needs "
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
        source=periods.ITEM_SEPARATOR.join(
          dict.fromkeys(row["source"] for row in items)
        ),
      )
    )
  return tuple(themes)


@functools.cache
def load_entities() -> tuple[Entity, ...]:
  """Returns all records, in order of kinds and rows."""
  return tuple(record for kind in TABLES for record in read_records(kind))


def make_relation(
  record: Entity, interval: YearInterval | None = None
) -> Relation:
  """Returns the relation of an entity.

  Args:
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
  for first, *others in records_by_tie.values():
    for record in others:
      leaders[find_leader(record.entity_id)] = find_leader(first.entity_id)
  return tuple(
    msgspec.structs.replace(record, group=find_leader(record.entity_id))
    for record in records
  )


def hash_fact_tables() -> str:
  """Returns the sha256 of all tables, which determine the questions."""
  digest = hashlib.sha256()
  for name in sorted((*TABLES.values(), "regimes", "themes")):
    digest.update(periods.table_path(name).read_bytes())
  return digest.hexdigest()
