"""Facets of results: how many belong to each work, reign, decade and so on.

Each value is a link that narrows the question to it, or takes that back.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

import numpy as np
from jaxtyping import Float, Float32, Int, Int32, UInt8

from ctd_jax.index import database
from ctd_jax.index.date_levels import ALMOST, EVEN
from ctd_jax.index.ranking import Ranking
from ctd_jax.web import queries, timeline
from ctd_jax.web.queries import PageQuery
from ctd_jax.web.served_index import ServedIndex

WORK, REIGN, DECADE, KIND, CERTAINTY = FACETS = (
  *("work", "reign", "decade", "kind", "certainty"),
)
# Least probabilities, surest first, with their codes.
_CERTAINTIES = ((ALMOST, "sure"), (EVEN, "likely"), (0.0, "unsure"))


@dataclasses.dataclass(frozen=True)
class FacetValue:
  """A value of a facet, with the number of results that have it."""

  name: str  # a title, years, a reign, or a code for `kind` and `certainty`
  number: int
  query: PageQuery | None  # narrowed to it, or not any more; None if it cannot
  is_chosen: bool = False


@dataclasses.dataclass(frozen=True, eq=False)
class _Columns:
  """What facets count, by row."""

  months: Int32[np.ndarray, " rows"]  # most probable
  chances: Float32[np.ndarray, " rows"]  # of these
  kinds: UInt8[np.ndarray, " rows"]  # number of the kind


def _read_columns(served: ServedIndex, _: str) -> _Columns:
  records = served.index.connection.execute(
    "SELECT row, best_month, best_probability, kind FROM records"
  ).fetchall()
  size = max((row for row, *_ in records), default=0) + 1
  number_of = {kind: number for number, kind in enumerate(_list_kinds(served))}
  columns = _Columns(
    np.zeros(size, np.int32),
    np.zeros(size, np.float32),
    np.zeros(size, np.uint8),
  )
  if records:
    rows, months, chances, kinds = zip(*records, strict=True)
    index = np.array(rows)
    columns.months[index] = months
    columns.chances[index] = chances
    columns.kinds[index] = [number_of[kind] for kind in kinds]
  return columns


def _list_kinds(served: ServedIndex) -> list[str]:
  return [*dict.fromkeys((*served.index.kinds, database.HEADING))]


def read_ahead(served: ServedIndex) -> None:
  """Reads what the first question needs."""
  served.remember(_read_columns, "")
  served.remember(timeline.find_reigns, "")


def count_facets(
  served: ServedIndex, query: PageQuery, found: Ranking
) -> dict[str, list[FacetValue]]:
  """Returns the values of each facet that tells results apart."""
  columns = served.remember(_read_columns, "")
  rows = found.rows
  months = columns.months[rows]
  months = months[months < len(served.years)]
  counts = {
    WORK: _count_works(served, query, rows),
    REIGN: _count_reigns(served, query, months),
    DECADE: _count_decades(served, query, months),
    KIND: _count_kinds(served, query, columns.kinds[rows]),
    CERTAINTY: _count_certainties(
      query, found.columns.get("mass"), columns.chances[rows]
    ),
  }
  return {
    facet: values
    for facet, values in counts.items()
    if len(values) > 1 or any(value.is_chosen for value in values)
  }


def _count_works(
  served: ServedIndex, query: PageQuery, rows: Int[np.ndarray, " n"]
) -> list[FacetValue]:
  values = []
  for work in served.index.works:
    is_of_work = (rows >= work.rows.start) & (rows < work.rows.stop)
    is_chosen = work.name in query.works
    works = () if is_chosen else (work.name,)
    values.append(
      FacetValue(
        work.title or work.name,
        int(is_of_work.sum()),
        query.replace(works=works),
        is_chosen,
      )
    )
  return _sort(values)


def _count_kinds(
  served: ServedIndex, query: PageQuery, kinds: UInt8[np.ndarray, " n"]
) -> list[FacetValue]:
  numbers = np.bincount(kinds, minlength=len(_list_kinds(served))).tolist()
  return _sort(
    FacetValue(
      kind,
      number,
      query.replace(kinds=() if kind in query.kinds else (kind,)),
      kind in query.kinds,
    )
    for kind, number in zip(_list_kinds(served), numbers, strict=True)
  )


def _sort(values: Iterable[FacetValue]) -> list[FacetValue]:
  """Returns the values that results have, the most frequent first."""
  return sorted((it for it in values if it.number), key=lambda it: -it.number)


def _count_reigns(
  served: ServedIndex, query: PageQuery, months: Int[np.ndarray, " n"]
) -> list[FacetValue]:
  reigns = served.remember(timeline.find_reigns, "")
  values = []
  for reign, number in zip(
    *map(np.ndarray.tolist, np.unique(reigns[months], return_counts=True)),
    strict=True,
  ):
    of_reign = np.flatnonzero(reigns == reign)
    narrowed = _narrow(query, int(of_reign[0]), int(of_reign[-1]))
    name = timeline.name_reign(served, reign)
    values.append((int(of_reign[0]), FacetValue(name, number, narrowed)))
  return [value for _, value in sorted(values, key=lambda it: it[0])]


def _count_decades(
  served: ServedIndex, query: PageQuery, months: Int[np.ndarray, " n"]
) -> list[FacetValue]:
  decades = served.years // 10
  values = []
  for decade, number in zip(
    *map(np.ndarray.tolist, np.unique(decades[months], return_counts=True)),
    strict=True,
  ):
    first, end = np.searchsorted(decades, (decade, decade + 1)).tolist()
    years = queries.format_years(served.years, first, end - 1)
    values.append(FacetValue(years, number, _narrow(query, first, end - 1)))
  return values


def _narrow(query: PageQuery, first: int, last: int) -> PageQuery:
  return query.replace(first=f"@{first}", last=f"@{last}")


def _count_certainties(
  query: PageQuery,
  mass: Float[np.ndarray, " n"] | None,
  chances: Float[np.ndarray, " n"],
) -> list[FacetValue]:
  """Returns how many are sure of the time, or else of their month."""
  values, most = [], 2.0
  shown = chances if mass is None else mass
  for least, code in _CERTAINTIES:
    number = int(((shown >= least) & (shown < most)).sum())
    narrowed = None
    if mass is not None and least:
      is_chosen = query.confidence == least
      changed = PageQuery.confidence if is_chosen else least
      narrowed = query.replace(confidence=changed)
    values.append(FacetValue(code, number, narrowed))
    most = least
  return [value for value in values if value.number]
