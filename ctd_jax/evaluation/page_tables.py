"""Tables of the report page: figures with intervals, cells, comparisons.

Figures of different tracks never stand in one table, since their systems read
different information.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from ctd_jax.benchmark import runs
from ctd_jax.benchmark.queries import WINDOW
from ctd_jax.evaluation import (
  errors,
  plots,
  protocol,
  result_tables,
  results,
  summary,
)

# Columns of the tables of one mode.
PAGE_METRICS = (*result_tables.DEFAULT_METRICS, "recall@10", "recall@50")
# Columns of the table of all modes: metrics of each family.
_GRID_FAMILIES = ("all", "point", WINDOW)
_GRID_METRICS = ("hit@1", "mrr@10", "ndcg@10")
# A figure that was not measured.
_NO_FIGURE = "–"


@dataclasses.dataclass(frozen=True)
class PageTable:
  """A table of the page.

  Attributes:
    title: above it.
    header: of the columns.
    body: cells of each line; a cell is text or (text, smaller text below).
    num_text_columns: columns from the left that hold words, not figures.
  """

  title: str
  header: Sequence[str]
  body: Sequence[Sequence[str | tuple[str, str]]]
  num_text_columns: int = 1


def _tracks_of_rows(rows: Sequence[results.ResultRow]) -> list[str]:
  present = {row.track for row in rows}
  return [track for track in runs.TRACKS if track in present]


def make_results_tables(
  run_summary: summary.RunSummary, split: str, mode: str
) -> list[PageTable]:
  """Returns measures with intervals, a table for each track."""
  rows = results.select_rows(
    run_summary.rows, split=split, mode=mode, family="all"
  )
  return [
    _systems_table(
      f"{split}, {mode}, track {track} ({result_tables.TRACK_NOTES[track]})",
      results.select_rows(rows, track=track),
      [(metric, "all", metric) for metric in PAGE_METRICS],
    )
    for track in _tracks_of_rows(rows)
  ]


def make_cell_tables(
  run_summary: summary.RunSummary, split: str, mode: str
) -> list[PageTable]:
  """Returns hit@1 by what answers a query and by what was hit."""
  rows = results.select_rows(run_summary.rows, split=split, mode=mode)
  families = {row.family for row in rows}
  columns = [
    ("hit@1", cell, plots.CELL_LABELS[cell])
    for cell in protocol.CELLS
    if cell in families
  ]
  columns.append(("hit@1", protocol.MACRO_FAMILY, "macro average"))
  columns += [
    ("event_hit@1", "all", "all: an event"),
    ("placeholder_hit@1", "all", "all: a placeholder"),
  ]
  return [
    _systems_table(
      f"hit@1 by what answers, {split}, {mode}, track {track}",
      results.select_rows(rows, track=track),
      columns,
    )
    for track in _tracks_of_rows(rows)
  ]


def _systems_table(
  title: str,
  rows: Sequence[results.ResultRow],
  columns: Sequence[tuple[str, str, str]],
) -> PageTable:
  """Returns a line for each system.

  Args:
    title: of the table.
    rows: of one split, mode and track.
    columns: (metric, family, header) of each.
  """
  cells = {(row.system, row.metric, row.family): row for row in rows}
  body = [
    [
      system,
      *(_format_figure(cells.get((system, *column[:2]))) for column in columns),
    ]
    for system in dict.fromkeys(row.system for row in rows)
  ]
  return PageTable(title, ["system", *(column[2] for column in columns)], body)


def _format_figure(row: results.ResultRow | None) -> str | tuple[str, str]:
  if row is None:
    return _NO_FIGURE
  text = f"{row.value:.4f}"
  if row.low is None or row.high is None:
    return text  # a published row without an interval
  return text, f"{row.low:.3f}–{row.high:.3f}"


def make_grid_tables(
  run_summary: summary.RunSummary, split: str
) -> list[PageTable]:
  """Returns figures of every mode and system for the release's families."""
  tables = []
  rows = results.select_rows(run_summary.rows, split=split)
  for track in _tracks_of_rows(rows):
    track_rows = results.select_rows(rows, track=track)
    cells = {
      (r.mode, r.system, r.family, r.metric): r.value for r in track_rows
    }
    mode_systems = dict.fromkeys((row.mode, row.system) for row in track_rows)
    order = list(protocol.MODES)  # systems keep their order within a mode
    body = [
      [
        *mode_system,
        *(
          f"{cells[*mode_system, family, metric]:.4f}"
          if (*mode_system, family, metric) in cells
          else _NO_FIGURE
          for family in _GRID_FAMILIES
          for metric in _GRID_METRICS
        ),
      ]
      for mode_system in sorted(
        mode_systems, key=lambda mode_system: order.index(mode_system[0])
      )
    ]
    header = ["mode", "system"] + [
      f"{family} {metric}"
      for family in _GRID_FAMILIES
      for metric in _GRID_METRICS
    ]
    tables.append(
      PageTable(f"{split}, track {track}", header, body, num_text_columns=2)
    )
  return tables


def make_comparison_table(
  run_summary: summary.RunSummary, split: str, mode: str
) -> PageTable | None:
  """Returns the system at hand minus every other of its track."""
  comparisons = run_summary.compare_systems(split, mode)
  means = {
    table.system: table.mean_of_family("hit@1")
    for table in run_summary.tables_of_mode(split, mode)
  }
  body = [
    [
      comparison.other_system,
      f"{means[comparison.other_system]:.4f}",
      (
        f"{comparison.by_query.difference:+.4f}",
        f"{comparison.interval[0]:+.3f} to {comparison.interval[1]:+.3f}",
      ),
      str(comparison.by_query.num_wins),
      str(comparison.by_query.num_losses),
      f"{comparison.by_query.p_value:.4f}",
      f"{comparison.by_year.p_value:.4f}",
      f"{comparison.corrected_p_value:.4f}",
    ]
    for comparison in comparisons
  ]
  header = [
    "without, or instead",
    "its hit@1",
    "difference",
    "better",
    "worse",
    "p by queries",
    "p by years",
    "after Holm",
  ]
  title = f"{run_summary.system} minus every other, hit@1, {split}, {mode}"
  return PageTable(title, header, body) if body else None


def make_reason_table(
  title: str,
  counts_by_system: Mapping[str, Mapping[str, int]],
  num_queries: int,
) -> PageTable:
  """Returns how often each reason made a first record wrong.

  Args:
    title: of the table.
    counts_by_system: system -> reason -> misses, see `errors.count_reasons`.
    num_queries: of the mode.
  """
  # Columns of reasons that no system has are left out.
  reasons = [
    reason
    for reason in errors.ERROR_REASONS
    if any(reason in count for count in counts_by_system.values())
  ]
  body = [
    [system, str(num_queries - sum(count.values()))]
    + [str(count.get(reason, 0)) for reason in reasons]
    for system, count in counts_by_system.items()
  ]
  return PageTable(title, ["system", "right", *reasons], body)
