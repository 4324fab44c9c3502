"""Summary of an index: its works, how they are dated, what is doubtful."""

from __future__ import annotations

import contextlib
import dataclasses
import pathlib
import sqlite3

from ctd_jax.dating.chronicle.calendar import Calendar
from ctd_jax.dating.chronicle.chronicle_dates import CERTAIN, DOUBTFUL
from ctd_jax.index import (
  calendars,
  correction_checks,
  database,
  encoders,
  manifest,
)
from ctd_jax.index.building.index_builder import BuildResult
from ctd_jax.index.database import IndexedWork
from ctd_jax.index.index_folder import IndexFolder

_WIDTH = 13  # of the names of lines
_MAX_WARNINGS = 3  # of each work


@dataclasses.dataclass(frozen=True)
class _Counts:
  """Counts of the records of a work without headings."""

  records: int
  certain: int
  doubtful: int
  outside: int
  first: int | None
  last: int | None
  by_manner: dict[str, int]


def format_summary(
  folder: pathlib.Path, result: BuildResult | None = None
) -> str:
  """Returns what an index holds, and what a build changed, as lines."""
  index_manifest = manifest.read_manifest(folder)
  calendar = calendars.load_index_calendar(folder)
  first, last = (
    calendars.name_month(calendar, month) for month in (0, len(calendar) - 1)
  )
  lines = [
    ("index", f"{folder}, generation {index_manifest.generation}"),
    (
      "calendar",
      f"{index_manifest.calendar['spec']}: {first} to {last}, "
      f"{len(calendar):,} months",
    ),
  ]
  if (dense := index_manifest.dense) is not None:
    name = encoders.describe_encoder(dense.name, dense.sha256)
    lines.append(
      (
        "vectors",
        f"{dense.vectors:,} of {dense.dimensions} dimensions, by {name} in "
        f"{dense.path}",
      )
    )
  lines += _describe_corrections(folder)
  with contextlib.closing(database.open_database(folder)) as connection:
    works = sorted(
      database.list_works(connection), key=lambda work: work.work_id
    )
    total = sum(work.num_records for work in works)
    lines.append(("works", f"{len(works):,}, with {total:,} records"))
    for work in works:
      lines += _describe_work(connection, work, calendar, result)
  if result is not None:
    lines += _describe_changes(result)
  return "\n".join(f"{name:<{_WIDTH}}{text}".rstrip() for name, text in lines)


def _describe_changes(result: BuildResult) -> list[tuple[str, str]]:
  replaced = [name for name in result.added if name in result.removed]
  changes = {
    "added": [name for name in result.added if name not in replaced],
    "replaced": replaced,
    "unchanged": result.unchanged,
    "removed": [name for name in result.removed if name not in replaced],
  }
  return [(name, ", ".join(names)) for name, names in changes.items() if names]


def _describe_corrections(folder: pathlib.Path) -> list[tuple[str, str]]:
  index = IndexFolder.open(folder)
  works = [row.work for row in index.corrections.active()]
  pending = correction_checks.count_pending(index)
  if not works and not pending:
    return []
  text = f"{len(works):,} by readers"
  if pending:
    text += (
      f"; changes that --redate is to date {sum(pending.values()):,}, of "
      f"{', '.join(pending)}"
    )
  lines = [("corrections", text)]
  lost = sorted({*works} - {work.name for work in index.works})
  if lost:
    count = sum(work in lost for work in works)
    lines.append(
      ("", f"  {count:,} of works that were removed: {', '.join(lost)}")
    )
  return lines


def _describe_work(
  connection: sqlite3.Connection,
  work: IndexedWork,
  calendar: Calendar,
  result: BuildResult | None,
) -> list[tuple[str, str]]:
  counts = _count_records(connection, work, len(calendar))
  manners = ", ".join(
    f"{number:,} by {manner}" for manner, number in counts.by_manner.items()
  )
  title = f" ({work.title})" if work.title not in work.name else ""
  lines = [("", f"{work.name}{title}: {counts.records:,} records, {manners}")]
  if counts.first is not None:
    names = [
      calendars.name_month(calendar, month, work.printed_reigns)
      for month in (counts.first, counts.last)
    ]
    lines.append(
      (
        "",
        f"  {names[0]} to {names[1]}; certain {counts.certain:,}, doubtful "
        f"{counts.doubtful:,}, outside of the calendar {counts.outside:,}",
      )
    )
  if result is None or work.name in result.added:
    warnings = [*work.warnings[:_MAX_WARNINGS]]
    if len(work.warnings) > _MAX_WARNINGS:
      warnings.append(f"and {len(work.warnings) - _MAX_WARNINGS} more warnings")
    lines += [("", f"  warning: {warning}") for warning in warnings]
  return lines


def _count_records(
  connection: sqlite3.Connection, work: IndexedWork, num_months: int
) -> _Counts:
  condition = "row >= ? AND row < ? AND kind != 'heading'"
  span = (work.rows.start, work.rows.stop)
  records, certain, doubtful, outside, first, last = connection.execute(
    "SELECT count(*), "
    "total(best_probability >= ? AND best_month < ?), "
    "total(best_probability < ?), total(best_month >= ?), "
    "min(CASE WHEN best_probability >= ? AND best_month < ? "
    "THEN best_month END), "
    "max(CASE WHEN best_probability >= ? AND best_month < ? "
    f"THEN best_month END) FROM records WHERE {condition}",
    (
      CERTAIN,
      num_months,
      DOUBTFUL,
      num_months,
      CERTAIN,
      num_months,
      CERTAIN,
      num_months,
      *span,
    ),
  ).fetchone()
  by_manner = connection.execute(
    f"SELECT dated_by, count(*) FROM records WHERE {condition} "
    "GROUP BY dated_by ORDER BY 2 DESC",
    span,
  ).fetchall()
  return _Counts(
    records,
    int(certain),
    int(doubtful),
    int(outside),
    first,
    last,
    dict(by_manner),
  )
