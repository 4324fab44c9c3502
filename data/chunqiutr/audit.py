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

PAPER = pathlib.Path(__file__).with_name("paper.tsv")
REASONS = pathlib.Path(__file__).with_name("differences.tsv")
# Differences from the paper beyond this share are explained.
TOLERANCE = 0.05
BASE_TEXTS = "base texts"
COMMENTARY = "commentary"

# Table -> row -> column -> figure.
Figures = Mapping[str, Mapping[str, Mapping[str, float]]]


@dataclasses.dataclass(frozen=True)
class Table:
  """A table of the audit.

  Attributes:
    title: what it shows.
    place: where the paper does, empty if nowhere.
    turned: whether the columns of the figures are printed as lines.
  """

  title: str
  place: str = ""
  turned: bool = False


TABLES = {
  "units": Table("units; lengths of units or pieces", "Table 8"),
  "splits": Table(
    "by split", "Table 9; families from Tables 14 and 15", turned=True
  ),
  "events": Table("events"),
  "acceptance": Table(
    "commentary aligned with what it explains", "Tables 18 and 19"
  ),
  "rejected": Table("candidates that were not accepted"),
  "scores": Table("fit of the accepted pieces", "Tables 18 and 19"),
  "agreement": Table("events that two works tell of, shares that agree"),
  "decisions": Table("what gave the parts of the base texts their months"),
  "left_out": Table("left out"),
  "coverage": Table("months with an event by ruler", "Figure 8"),
}


@dataclasses.dataclass(frozen=True)
class Difference:
  """A figure that is not the paper's.

  Attributes:
    table: name in `TABLES`.
    row: of the table.
    column: of the table.
    ours: figure.
    paper: figure.
    reason: a sentence, empty if there is none.
  """

  table: str
  row: str
  column: str
  ours: float
  paper: float
  reason: str


def figures(statistics: Mapping[str, Any]) -> Figures:
  """Returns the figures of a build.

  Args:
    statistics: what `summary.summarise` counted; `audit` in it is what the
      gallery said of its making, without it the tables are fewer.
  """
  audit = statistics["audit"]
  alignment = audit.get("alignment", {})
  found = {
    "units": _units(statistics),
    "splits": _rows(statistics["splits"], "split"),
    "events": {"all": statistics["events"]},
    "acceptance": {
      source: {
        "candidates": row["candidates"],
        "accepted": row["accepted"],
        "share": _share(row["accepted"], row["candidates"]),
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
    "scores": _rows(statistics["scores"], "source"),
    "agreement": {
      works: {
        "compared": row["compared"],
        "same_year": _share(row["same_year"], row["compared"]),
        "same_month": _share(row["same_month"], row["compared"]),
      }
      for works, row in audit.get("agreement", {}).items()
    },
    "decisions": {
      name: {"n": count} for name, count in audit.get("decisions", {}).items()
    },
    "left_out": {
      name: {"n": count} for name, count in audit.get("left_out", {}).items()
    },
    "coverage": _rows(statistics["reigns"], "ruler"),
  }
  return {table: rows for table, rows in found.items() if rows}


def _rows(
  rows: Iterable[Mapping[str, Any]], name: str
) -> dict[str, dict[str, float]]:
  return {
    row[name]: {key: value for key, value in row.items() if key != name}
    for row in rows
  }


def _share(part: float, whole: float) -> float:
  return round(part / max(whole, 1), 4)


def _units(statistics: Mapping[str, Any]) -> dict[str, dict[str, float]]:
  """Returns rows of Table 8: every source, and both layers together.

  Lengths are Chinese characters: of the units of the base texts, and of the
  pieces into which commentary was cut.
  """
  audit = statistics["audit"]
  # A work of which nothing was accepted has no records.
  made: Mapping[str, Mapping[str, Any]] = collections.defaultdict(
    lambda: {"records": 0, "characters": 0},
    {row["source"]: row for row in statistics["sources"]},
  )
  table: dict[str, dict[str, float]] = {}
  base = {
    source: {
      "units": row["units"],
      "characters": row["characters"],
      "average": _per(row["characters"], row["units"]),
      "longest": row["longest"],
      "records": made[source]["records"],
    }
    for source, row in audit.get("units", {}).items()
  }
  commentary = {
    source: {
      "units": row["units"],
      "characters": made[source]["characters"],
      "average": row["mean_chars"],
      "longest": row["max_chars"],
      "records": made[source]["records"],
    }
    for source, row in audit.get("alignment", {}).items()
  }
  for total, rows in ((BASE_TEXTS, base), (COMMENTARY, commentary)):
    if rows:
      table |= rows
      table[total] = {
        name: sum(row[name] for row in rows.values())
        for name in ("units", "characters", "records")
      }
  return table


def _per(whole: float, number: float) -> float:
  return round(whole / max(number, 1), 1)


def read_figures(path: pathlib.Path) -> Figures:
  """Returns the figures of a TSV file: table, row, column, value, ...

  Raises:
    ValueError: naming file and line of what is no number or stands twice.
  """
  found: dict[str, dict[str, dict[str, float]]] = {}
  for line, row in _read(path):
    columns = found.setdefault(row["table"], {}).setdefault(row["row"], {})
    try:
      value = float(row["value"])
    except ValueError:
      raise ValueError(
        f"{path}, line {line}: {row['value']!r} is not a number"
      ) from None
    if row["column"] in columns:
      raise ValueError(f"{path}, line {line}: the figure stands above as well")
    columns[row["column"]] = int(value) if value.is_integer() else value
  return found


def differences(
  ours: Figures, paper: Figures, reasons: pathlib.Path = REASONS
) -> list[Difference]:
  """Returns the figures that differ by more than `TOLERANCE`, with reasons.

  Args:
    ours: of a build.
    paper: published.
    reasons: TSV file: table, row and column as patterns (`*`), and the
      sentence; the first line that fits counts.
  """
  patterns = [row for _, row in _read(reasons)]
  found = []
  for (table, row, column), published in _flat(paper):
    value = ours.get(table, {}).get(row, {}).get(column)
    if value is None or abs(value - published) <= TOLERANCE * published:
      continue
    place = {"table": table, "row": row, "column": column}
    reason = next(
      (
        pattern["reason"]
        for pattern in patterns
        if all(fnmatch.fnmatchcase(place[key], pattern[key]) for key in place)
      ),
      "",
    )
    found.append(Difference(table, row, column, value, published, reason))
  return found


def paper_of(statistics: Mapping[str, Any]) -> Figures:
  """Returns the paper's figures, none for a data set it does not describe."""
  ours = statistics["name"].startswith("chunqiutr/")
  described = ours and not statistics["synthetic"]
  return read_figures(PAPER) if described else {}


def gap_share(figures: Figures) -> float | None:
  """Returns the share of empty months, None if it is not known."""
  row = figures.get("coverage", {}).get(TOTAL)
  return row and 1 - row["with_event"] / row["months"]


def text(ours: Figures, paper: Figures) -> str:
  """Returns the tables, aligned for a terminal."""
  return "\n\n".join(
    summary.table(title, lines) for _, title, lines in tables(ours, paper)
  )


def tables(
  ours: Figures, paper: Figures
) -> Iterator[tuple[str, str, list[dict[str, str]]]]:
  """Yields (name, title, lines) of every table that `ours` has figures for.

  A cell is our figure, then the paper's behind a stroke and the difference.
  """
  for name, shape in TABLES.items():
    rows = ours.get(name, {})
    if not rows:
      continue
    columns = list(dict.fromkeys(c for row in rows.values() for c in row))
    published = paper.get(name, {})
    cells = {
      (row, column): _cell(
        rows[row].get(column), published.get(row, {}).get(column)
      )
      for row in rows
      for column in columns
    }
    if shape.turned:
      lines = [
        {"": column, **{row: cells[row, column] for row in rows}}
        for column in columns
      ]
    else:
      lines = [
        {"": row, **{column: cells[row, column] for column in columns}}
        for row in rows
      ]
    place = f" ({shape.place})" if paper and shape.place else ""
    yield name, shape.title + place, lines


def _cell(ours: float | None, paper: float | None) -> str:
  text = "–" if ours is None else f"{ours:,}"
  if paper is not None:
    text += f" / {paper:,}"
    if ours is not None:
      text += f" {(ours - paper) / paper:+.1%}"
  return text


def _flat(figures: Figures) -> Iterator[tuple[tuple[str, str, str], float]]:
  for table, rows in figures.items():
    for row, columns in rows.items():
      for column, value in columns.items():
        yield (table, row, column), value


def _read(path: pathlib.Path) -> Iterator[tuple[int, dict[str, str]]]:
  """Yields (line, row) of a TSV file with a header."""
  with path.open(encoding="utf-8", newline="") as file:
    rows = csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
    for line, row in enumerate(rows, 2):
      if None in row or None in row.values():
        raise ValueError(
          f"{path}, line {line}: should have the columns {rows.fieldnames}"
        )
      yield line, row
