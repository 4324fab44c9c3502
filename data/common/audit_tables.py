"""Audit tables: figures of a build beside published ones, where there are any.

The counts of `summary` and the account that a builder leaves of its work
(`audit.json`) become figures with a table, a row and a column.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ctd_jax_datasets.common import summary
from ctd_jax_datasets.common.summary import TOTAL

# Table -> row -> column -> figure.
Figures = Mapping[str, Mapping[str, Mapping[str, float]]]


@dataclasses.dataclass(frozen=True)
class AuditTable:
  """A table of the audit.

  Attributes:
    title: heading of the table.
    paper_table: table of the paper with the same figures, empty if none.
    is_transposed: whether the columns of the figures are printed as lines.
  """

  title: str
  paper_table: str = ""
  is_transposed: bool = False


TABLES = {
  "units": AuditTable("units; lengths of units or pieces", "Table 8"),
  "splits": AuditTable(
    "by split", "Table 9; families from Tables 14 and 15", is_transposed=True
  ),
  "events": AuditTable("events"),
  "acceptance": AuditTable(
    "commentary aligned with what it explains", "Tables 18 and 19"
  ),
  "rejected": AuditTable("candidates that were not accepted"),
  "scores": AuditTable("fit of the accepted pieces", "Tables 18 and 19"),
  "printed_months": AuditTable(
    "months that commentary prints, beside the month of its entry"
  ),
  "agreement": AuditTable("events that two works tell of, shares that agree"),
  "decisions": AuditTable("what gave the parts of the base texts their months"),
  "left_out": AuditTable("left out"),
  "coverage": AuditTable("months with an event by ruler", "Figure 8"),
}


BASE_TEXTS = "base texts"


COMMENTARY = "commentary"


def compute_figures(statistics: Mapping[str, Any]) -> Figures:
  """Returns the figures of a build.

  Args:
    statistics: from `summary.summarise_dataset`; without the builder's account
      under `audit` there are fewer tables.
  """
  audit = statistics["audit"]
  alignment = audit.get("alignment", {})
  figures_by_table = {
    "units": _unit_rows(statistics),
    "splits": _index_rows(statistics["splits"], "split"),
    "events": {"all": statistics["events"]},
    "acceptance": {
      source: {
        "candidates": row["candidates"],
        "accepted": row["accepted"],
        "share": _ratio(row["accepted"], row["candidates"]),
        "pieces": row["pieces"],
        "too_short": row["dropped_short"],
        "years_checked": row["years_checked"],
        "years_agreed": row["years_agreed"],
      }
      for source, row in alignment.items()
    },
    "rejected": {
      source: row["rejected"]
      for source, row in alignment.items()
      if row["rejected"]
    },
    "scores": _index_rows(statistics["scores"], "source"),
    "printed_months": audit.get("printed_months", {}),
    "agreement": {
      works: {
        "compared": row["compared"],
        "same_year": _ratio(row["same_year"], row["compared"]),
        "same_month": _ratio(row["same_month"], row["compared"]),
      }
      for works, row in audit.get("agreement", {}).items()
    },
    "decisions": {
      name: {"n": count} for name, count in audit.get("decisions", {}).items()
    },
    "left_out": {
      name: {"n": count} for name, count in audit.get("left_out", {}).items()
    },
    "coverage": _index_rows(statistics["reigns"], "ruler"),
  }
  return {table: rows for table, rows in figures_by_table.items() if rows}


def _index_rows(
  rows: Iterable[Mapping[str, Any]], name: str
) -> dict[str, dict[str, float]]:
  return {
    row[name]: {key: value for key, value in row.items() if key != name}
    for row in rows
  }


def _ratio(numerator: float, denominator: float) -> float:
  # A work without pieces has share 0 rather than no row.
  return round(numerator / max(denominator, 1), 4)


def _unit_rows(statistics: Mapping[str, Any]) -> dict[str, dict[str, float]]:
  """Returns rows of Table 8: every source, and both layers together.

  Lengths are Chinese characters: of the units of the base texts, and of the
  pieces into which commentary was cut.
  """
  audit = statistics["audit"]
  # A work of which nothing was accepted has no records.
  record_counts: Mapping[str, Mapping[str, Any]] = collections.defaultdict(
    lambda: {"records": 0, "characters": 0},
    {row["source"]: row for row in statistics["sources"]},
  )
  table: dict[str, dict[str, float]] = {}
  base_rows = {
    source: {
      "units": row["units"],
      "characters": row["characters"],
      "average": _average(row["characters"], row["units"]),
      "longest": row["longest"],
      "records": record_counts[source]["records"],
    }
    for source, row in audit.get("units", {}).items()
  }
  comment_rows = {
    source: {
      "units": row["units"],
      "characters": record_counts[source]["characters"],
      "average": row["mean_chars"],
      "longest": row["max_chars"],
      "records": record_counts[source]["records"],
    }
    for source, row in audit.get("alignment", {}).items()
  }
  for total, rows in ((BASE_TEXTS, base_rows), (COMMENTARY, comment_rows)):
    if rows:
      table |= rows
      table[total] = {
        name: sum(row[name] for row in rows.values())
        for name in ("units", "characters", "records")
      }
  return table


def _average(total: float, count: float) -> float:
  return round(total / max(count, 1), 1)


def gap_share(figures: Figures) -> float | None:
  """Returns the share of empty months, None if it is not known."""
  row = figures.get("coverage", {}).get(TOTAL)
  # The figures themselves hold rounded shares; this one is exact.
  return row and 1 - row["with_event"] / row["months"]


def format_report(figures: Figures, paper_figures: Figures) -> str:
  """Returns the tables, aligned for a terminal."""
  return "\n\n".join(
    summary.format_table(title, lines)
    for _, title, lines in iterate_tables(figures, paper_figures)
  )


def iterate_tables(
  figures: Figures, paper_figures: Figures
) -> Iterator[tuple[str, str, list[dict[str, str]]]]:
  """Yields (name, title, lines) of every table that `figures` has figures for.

  A cell holds our figure, the paper's after a slash, and the difference.
  """
  for name, table in TABLES.items():
    rows = figures.get(name, {})
    if not rows:
      continue
    columns = list(dict.fromkeys(c for row in rows.values() for c in row))
    paper_rows = paper_figures.get(name, {})
    cells = {
      (row, column): _format_cell(
        rows[row].get(column), paper_rows.get(row, {}).get(column)
      )
      for row in rows
      for column in columns
    }
    # Transposed, a table with many columns fits the width of a terminal.
    if table.is_transposed:
      lines = [
        {"": column, **{row: cells[row, column] for row in rows}}
        for column in columns
      ]
    else:
      lines = [
        {"": row, **{column: cells[row, column] for column in columns}}
        for row in rows
      ]
    paper_note = (
      f" ({table.paper_table})" if paper_figures and table.paper_table else ""
    )
    yield name, table.title + paper_note, lines


def _format_cell(value: float | None, paper_value: float | None) -> str:
  text = "–" if value is None else f"{value:,}"
  if paper_value is not None:
    text += f" / {paper_value:,}"
    if value is not None:
      text += f" {(value - paper_value) / paper_value:+.1%}"
  return text
