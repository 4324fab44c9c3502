"""Figures of the paper, and where those of a build differ from them.

It is separate from `audit_readme`, a command, because the builder imports it.
"""

import dataclasses
import fnmatch
import pathlib
from collections.abc import Iterator, Mapping
from typing import Any

from ctd_jax.utils import files
from ctd_jax_datasets.common.summary import Figures

# A figure that differs from the paper's by more than `TOLERANCE` needs a reason
# in `differences.tsv`.


PAPER_FIGURES = pathlib.Path(__file__).with_name("paper.tsv")
DIFFERENCE_REASONS = pathlib.Path(__file__).with_name("differences.tsv")
TOLERANCE = 0.05  # share of a figure; larger differences need a reason


@dataclasses.dataclass(frozen=True)
class Difference:
  """A figure that is not the paper's."""

  table: str  # name in `TABLES`
  row: str
  column: str
  value: float
  paper_value: float
  reason: str  # a sentence, empty if there is none


def read_figures(path: pathlib.Path) -> Figures:
  """Returns the figures of a TSV file: table, row, column, value, ..."""
  figures: dict[str, dict[str, dict[str, float]]] = {}
  for line, row in enumerate(files.read_tsv_rows(path), start=2):
    columns = figures.setdefault(row["table"], {}).setdefault(row["row"], {})
    try:
      value = float(row["value"])
    except ValueError:
      raise ValueError(
        f"{path}, line {line}: {row['value']!r} is not a number"
      ) from None
    if row["column"] in columns:
      raise ValueError(f"{path}, line {line}: the figure is given above too")
    # Counts print without a decimal point.
    columns[row["column"]] = int(value) if value.is_integer() else value
  return figures


def find_differences(
  figures: Figures,
  paper_figures: Figures,
  reasons: pathlib.Path = DIFFERENCE_REASONS,
) -> list[Difference]:
  """Returns the figures that differ by more than `TOLERANCE`, with reasons.

  Args:
    reasons: TSV file: table, row and column as patterns (`*`), and the
      sentence; the first line that fits counts.
  """
  # The first pattern that fits counts: special rows are above general ones.
  patterns = files.read_tsv_rows(reasons)
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


def _flatten_figures(
  figures: Figures,
) -> Iterator[tuple[tuple[str, str, str], float]]:
  for table, rows in figures.items():
    for row, columns in rows.items():
      for column, value in columns.items():
        yield (table, row, column), value
