"""The figures of the data set beside those of the paper.

Why: a rebuilt benchmark is worth as much as its comparison with the published
one. What `summary` counted in a build and what the gallery says of its own
making become figures with a table, a row and a column; `paper.tsv` holds the
published ones under the same names, and `differences.tsv` says why they differ
where they do by more than `TOLERANCE`. Called by `build` and `audit_readme`.

The gallery says of its making (`Gallery.audit`, fit for JSON):

  units: source -> {units, characters, longest}: entries of the four base
    texts as the editions print them, before they are cut.
  alignment: source -> {units, candidates, accepted, ...} of each later work;
    units as the edition prints them, candidates as they are aligned; years are
    checked where the edition names one and it was not used.
  agreement: "source source" -> {compared, same_year, same_month}: what two
    works say of the same events.
  decisions: rule -> how often it applied.
  disagreements: [{column: value}]: events that two works put into different
    months. Works, places and months, no text.

Source: ChunQiuTR Tables 8, 9, 18 and 19, Figure 8.
"""

from __future__ import annotations

import collections
import csv
import dataclasses
import fnmatch
import pathlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ctd_jax_datasets import summary
from ctd_jax_datasets.summary import TOTAL

PAPER_FIGURES = pathlib.Path(__file__).with_name("paper.tsv")
DIFFERENCE_REASONS = pathlib.Path(__file__).with_name("differences.tsv")
# Differences from the paper beyond this share are explained.
TOLERANCE = 0.05
BASE_TEXTS = "base texts"
COMMENTARY = "commentary"

# Table -> row -> column -> figure.
Figures = Mapping[str, Mapping[str, Mapping[str, float]]]


@dataclasses.dataclass(frozen=True)
class AuditTable:
  """A table of the audit.

  Attributes:
    title: what it shows.
    paper_table: where the paper does, empty if nowhere.
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
  "agreement": AuditTable("events that two works tell of, shares that agree"),
  "decisions": AuditTable("what gave the parts of the base texts their months"),
  "left_out": AuditTable("left out"),
  "coverage": AuditTable("months with an event by ruler", "Figure 8"),
}


@dataclasses.dataclass(frozen=True)
class Difference:
  """A figure that is not the paper's.

  Attributes:
    table: name in `TABLES`.
    row: of the table.
    column: of the table.
    value: figure.
    paper_value: figure.
    reason: a sentence, empty if there is none.
  """

  table: str
  row: str
  column: str
  value: float
  paper_value: float
  reason: str


def compute_figures(statistics: Mapping[str, Any]) -> Figures:
  """Returns the figures of a build.

  Args:
    statistics: what `summary.summarise_dataset` counted; `audit` in it is what the
      gallery said of its making, without it the tables are fewer.
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


def read_figures(path: pathlib.Path) -> Figures:
  """Returns the figures of a TSV file: table, row, column, value, ...

  Raises:
    ValueError: naming file and line of what is no number or stands twice.
  """
  figures: dict[str, dict[str, dict[str, float]]] = {}
  for line, row in _read_tsv(path):
    columns = figures.setdefault(row["table"], {}).setdefault(row["row"], {})
    try:
      value = float(row["value"])
    except ValueError:
      raise ValueError(
        f"{path}, line {line}: {row['value']!r} is not a number"
      ) from None
    if row["column"] in columns:
      raise ValueError(f"{path}, line {line}: the figure stands above as well")
    columns[row["column"]] = int(value) if value.is_integer() else value
  return figures


def find_differences(
  figures: Figures,
  paper_figures: Figures,
  reasons: pathlib.Path = DIFFERENCE_REASONS,
) -> list[Difference]:
  """Returns the figures that differ by more than `TOLERANCE`, with reasons.

  Args:
    figures: of a build.
    paper_figures: published.
    reasons: TSV file: table, row and column as patterns (`*`), and the
      sentence; the first line that fits counts.
  """
  patterns = [row for _, row in _read_tsv(reasons)]
  results = []
  for (table, row, column), paper_value in _flatten_figures(paper_figures):
    value = figures.get(table, {}).get(row, {}).get(column)
    if value is None or abs(value - paper_value) <= TOLERANCE * paper_value:
      continue
    labels = {"table": table, "row": row, "column": column}
    reason = next(
      (
        pattern["reason"]
        for pattern in patterns
        if all(fnmatch.fnmatchcase(labels[key], pattern[key]) for key in labels)
      ),
      "",
    )
    results.append(Difference(table, row, column, value, paper_value, reason))
  return results


def read_paper_figures(statistics: Mapping[str, Any]) -> Figures:
  """Returns the paper's figures, none for a data set it does not describe."""
  is_chunqiutr = statistics["name"].startswith("chunqiutr/")
  is_described = is_chunqiutr and not statistics["synthetic"]
  return read_figures(PAPER_FIGURES) if is_described else {}


def gap_share(figures: Figures) -> float | None:
  """Returns the share of empty months, None if it is not known."""
  row = figures.get("coverage", {}).get(TOTAL)
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

  A cell is our figure, then the paper's behind a stroke and the difference.
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


def _flatten_figures(
  figures: Figures,
) -> Iterator[tuple[tuple[str, str, str], float]]:
  for table, rows in figures.items():
    for row, columns in rows.items():
      for column, value in columns.items():
        yield (table, row, column), value


def _read_tsv(path: pathlib.Path) -> Iterator[tuple[int, dict[str, str]]]:
  """Yields (line, row) of a TSV file with a header."""
  with path.open(encoding="utf-8", newline="") as file:
    rows = csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
    for line, row in enumerate(rows, 2):
      if None in row or None in row.values():
        raise ValueError(
          f"{path}, line {line}: should have the columns {rows.fieldnames}"
        )
      yield line, row
