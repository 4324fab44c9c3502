"""Comparisons as data: rows of paired tests, in TSV files and in tables.

Beside the figures of `evaluation.results`, a page says which differences are
more than chance. These rows are written by the commands that run the tests and
shown by `evaluation.result_tables`, never typed.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

import msgspec

from ctd_jax.evaluation.comparison import SystemComparison
from ctd_jax.utils import csv_rows, files, tables

COMPARISON_FILE = "comparisons.tsv"
_TABLE_HEADER = (
  "system",
  "against",
  "difference",
  "better",
  "worse",
  "p by query",
  "p by year",
  "after Holm",
)


class ComparisonRow(msgspec.Struct, frozen=True):
  """A system against another, in one mode.

  Attributes:
    group: of the pairs over which Holm's correction was made.
    dataset: with its version.
    split: of the queries.
    mode: of the protocol.
    measure: what was compared.
    system: name of the first.
    other_system: name of the other.
    difference: mean of the first minus mean of the other.
    low: lower end of its 95 % interval, years resampled.
    high: upper end.
    better: queries on which the first is better.
    worse: queries on which it is worse.
    p_by_query: of paired randomisation over queries.
    p_by_year: the same, whole years swapped.
    p_after_holm: p by year, corrected over the pairs of the group and mode.
    commit: of this repository.
  """

  group: str
  dataset: str
  split: str
  mode: str
  measure: str
  system: str
  other_system: str
  difference: float
  low: float
  high: float
  better: int
  worse: int
  p_by_query: float
  p_by_year: float
  p_after_holm: float
  commit: str


def make_comparison_rows(
  comparisons: Iterable[SystemComparison],
  group: str,
  dataset: str,
  split: str,
  mode: str,
  measure: str = "hit@1",
  commit: str = "",
) -> list[ComparisonRow]:
  """Returns the rows of paired tests; for the arguments see `ComparisonRow`."""
  return [
    ComparisonRow(
      group,
      dataset,
      split,
      mode,
      measure,
      each.system,
      each.other_system,
      each.by_query.difference,
      *each.interval,
      each.by_query.num_wins,
      each.by_query.num_losses,
      each.by_query.p_value,
      each.by_year.p_value,
      each.corrected_p_value,
      commit,
    )
    for each in comparisons
  ]


def write_comparison_rows(
  path: str | os.PathLike, rows: Iterable[ComparisonRow]
) -> None:
  """Writes rows as TSV with a header."""
  lines = map(msgspec.structs.astuple, rows)
  files.write_text(
    path, tables.format_delimited(ComparisonRow.__struct_fields__, lines)
  )


def read_comparison_rows(path: str | os.PathLike) -> list[ComparisonRow]:
  """Returns the rows of a TSV file.

  Raises:
    ValueError: naming file, line and column of what cannot be read.
  """
  return [
    row
    for _, row in csv_rows.read_csv_rows(path, ComparisonRow, delimiter="\t")
  ]


def format_comparison_tables(rows: Sequence[ComparisonRow]) -> str:
  """Returns Markdown tables, one for each data set, split, mode and measure."""
  blocks: dict[tuple[str, ...], list[list[str]]] = {}
  for row in rows:
    title = row.dataset, row.split, row.mode, row.measure
    blocks.setdefault(title, []).append(
      [
        row.system,
        row.other_system,
        f"{row.difference:+.4f} [{row.low:+.3f}, {row.high:+.3f}]",
        str(row.better),
        str(row.worse),
        *(
          f"{p:.4f}" for p in (row.p_by_query, row.p_by_year, row.p_after_holm)
        ),
      ]
    )
  return "\n".join(
    tables.format_table(", ".join(title), _TABLE_HEADER, body, markdown=True)
    for title, body in blocks.items()
  )
