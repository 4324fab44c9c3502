"""Report page: one HTML file about the run files of some folders.

An average does not show where a system fails. The page has what you check
before you believe one: intervals, modes, cells, reigns and months, calibration,
comparisons, and missed queries with the records that were ranked instead. It
needs no other file, so you can read, send and print it: pictures are embedded,
and it has no scripts.
"""

import base64
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ctd_jax.benchmark import runs
from ctd_jax.benchmark.benchmark import WINDOW, Query
from ctd_jax.chronology import dates as dates_lib
from ctd_jax.chronology.reigns import Timeline
from ctd_jax.evaluation import (
  calibration,
  plots,
  protocol,
  result_tables,
  results,
  summary,
)
from ctd_jax.utils import files, output

# Figures of different tracks never stand in one table, since their systems
# read different information.

# Columns of the tables of one mode.
PAGE_METRICS = (*result_tables.DEFAULT_METRICS, "recall@10", "recall@50")
# Columns of the table of all modes: metrics of each family.
_GRID_FAMILIES = ("all", "point", WINDOW)
_GRID_METRICS = ("hit@1", "mrr@10", "ndcg@10")
# A figure that was not measured.
_NO_FIGURE = "–"


@dataclasses.dataclass(frozen=True)
class PageTable:
  """A table of the page."""

  title: str  # above it
  header: Sequence[str]  # of the columns
  # Cells of each line; a cell is text or (text, smaller text below).
  body: Sequence[Sequence[str | tuple[str, str]]]
  # Columns from the left that hold words, not figures.
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
      f"{split}: {protocol.MODES[mode].title}; track {track} "
      f"({result_tables.TRACK_NOTES[track]})",
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
      f"hit@1 by what answers; {split}: {protocol.MODES[mode].title}; "
      f"track {track}",
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
  """Returns a line for each system."""
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
        protocol.MODES[mode_system[0]].title,
        mode_system[1],
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
  """Returns the run's own system compared with all others of its track."""
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
  title = (
    f"hit@1 of {run_summary.system} minus every other; {split}: "
    f"{protocol.MODES[mode].title}"
  )
  return PageTable(title, header, body) if body else None


PAGE_FILE_NAME = "report.html"
TRAINING_PLOT = "training.png"
_CALIBRATION_HEADER = (
  "system",
  "events",
  "month right",
  "to one month",
  "year right",
  "mean confidence",
  "calibration error",
)


# Name of a metric -> (steps, values).
TrainingCurves = Mapping[str, tuple[Sequence[int], Sequence[float]]]


def write_page(
  run_summary: summary.RunSummary, curves: TrainingCurves | None = None
) -> files.AnyPath:
  """Returns the path of the page, written into the first folder.

  The plots are written next to it.

  Args:
    run_summary: summary of the run files; the page is about its test split if
      it has one, else about its first.
    curves: training curves of the run's own system, if it was trained.

  Raises:
    ValueError: if a file of dates cannot be read; the message names it.
  """
  splits = list(run_summary.years)
  split = "test" if "test" in splits else splits[0]
  template = output.open_templates("evaluation").get_template(
    "report_page.html"
  )
  text = template.render(
    name=run_summary.benchmark.name,
    system=run_summary.system,
    split=split,
    sizes={
      "records": len(run_summary.benchmark.records),
      **{
        f"{name} queries": len(run_summary.benchmark.queries[name])
        for name in splits
      },
    },
    modes=[
      _make_mode_section(run_summary, split, mode)
      for mode in summary.REPORT_MODES
    ],
    other_splits=[
      table
      for other_split in splits
      if other_split != split
      for mode in summary.REPORT_MODES
      for table in make_results_tables(run_summary, other_split, mode)
    ],
    grid=make_grid_tables(run_summary, split),
    calibration=_make_calibration_section(run_summary, split),
    training=_draw_training(run_summary, curves or {}),
    errors=[
      _make_error_section(run_summary, split, mode)
      for mode in summary.REPORT_MODES
    ],
    timeline=run_summary.benchmark.timeline,
    origin=run_summary.origin,
    format_month=dates_lib.format_key,
    format_query_months=format_query_months,
  )
  path = run_summary.folders[0] / PAGE_FILE_NAME
  files.write_text(path, text)
  return path


def format_query_months(query: Query, timeline: Timeline) -> str:
  """Returns the first and last month of a query, as a chronicle writes them."""
  end_keys = query.interval.start, query.interval.end
  formatted_months = dict.fromkeys(  # one month is written once
    dates_lib.format_key(key, timeline) for key in end_keys
  )
  return " – ".join(formatted_months)


def _make_mode_section(
  run_summary: summary.RunSummary, split: str, mode: str
) -> dict[str, Any]:
  """Returns tables, pictures and comparisons of one mode."""
  pictures = [
    summary.plot_hits_by_group(run_summary, split, mode, "reign"),
    summary.plot_hits_by_group(run_summary, split, mode, "month"),
  ]
  comparable_tables = run_summary.comparable_tables(split, mode)
  if comparable_tables:
    # First of the pictures: it shows at once whether hits are placeholders.
    name = f"hit_by_cell.{split}.{mode}.png"
    plots.plot_first_record_kinds(
      comparable_tables,
      run_summary.folders[0] / name,
      f"{run_summary.benchmark.name}, {split}, track "
      f"{comparable_tables[0].track}\n{protocol.MODES[mode].title}",
    )
    pictures.insert(0, name)
  return {
    "name": mode,
    "title": protocol.MODES[mode].title,
    "results": make_results_tables(run_summary, split, mode),
    "cells": make_cell_tables(run_summary, split, mode),
    "comparison": make_comparison_table(run_summary, split, mode),
    "pictures": [
      _encode_picture(run_summary.folders[0] / picture_name)
      for picture_name in pictures
      if picture_name
    ],
  }


def _encode_picture(path: files.AnyPath) -> dict[str, str]:
  # Inside the page, which is then one file.
  data = base64.b64encode(path.read_bytes()).decode()
  return {"name": path.name, "source": f"data:image/png;base64,{data}"}


def _draw_training(
  run_summary: summary.RunSummary, curves: TrainingCurves
) -> dict[str, str] | None:
  """Returns the plot of the training curves, or None without curves."""
  if not curves:
    return None
  path = run_summary.folders[0] / TRAINING_PLOT
  title = f"{run_summary.system}, trained on {run_summary.benchmark.name}"
  plots.plot_training_curves(curves, path, title)
  return _encode_picture(path)


def _make_calibration_section(
  run_summary: summary.RunSummary, split: str
) -> dict[str, Any] | None:
  """Returns accuracy and calibration of the dates of events, if any."""
  # Of the systems that wrote dates, see `dates`.
  accuracy_by_name = calibration.evaluate_date_files(
    run_summary.folders, run_summary.benchmark, split
  )
  # In the order of the other tables and pictures.
  systems = dict.fromkeys(row.system for row in run_summary.rows)
  accuracy_by_system = {
    name: accuracy_by_name[name] for name in systems if name in accuracy_by_name
  }
  if not accuracy_by_system:
    return None
  path = run_summary.folders[0] / f"calibration.{split}.png"
  plots.plot_reliability(
    {
      name: (accuracy.confidence, accuracy.is_month_right)
      for name, accuracy in accuracy_by_system.items()
    },
    path,
    f"{run_summary.benchmark.name}, {split}, dates of events",
  )
  body = [
    [
      name,
      str(len(accuracy.confidence)),
      *(
        f"{np.mean(values):.4f}"
        for values in (
          accuracy.is_month_right,
          accuracy.is_within_1,
          accuracy.is_year_right,
          accuracy.confidence,
        )
      ),
      "{:.4f}".format(
        calibration.expected_calibration_error(
          accuracy.confidence, accuracy.is_month_right
        )
      ),
    ]
    for name, accuracy in accuracy_by_system.items()
  ]
  return {
    "table": PageTable(
      f"dates of the events of {split} months", _CALIBRATION_HEADER, body
    ),
    "picture": _encode_picture(path),
  }


def _make_error_section(
  run_summary: summary.RunSummary, split: str, mode_name: str
) -> dict[str, Any]:
  """Returns error counts of all systems, and examples of the run's own."""
  benchmark = run_summary.benchmark
  mode = protocol.get_mode(mode_name)
  records = {record.record_id: record for record in benchmark.records}
  kinds = {name: record.kind for name, record in records.items()}
  qrels = protocol.build_qrels(benchmark.queries[split], kinds, mode)
  path_by_file_name = summary.find_run_paths(run_summary.folders)
  tracks, misses_by_system = {}, {}
  for table in run_summary.tables_of_mode(split, mode_name):
    if table.system.endswith(protocol.MASK):
      continue  # it has no run file
    file_name = runs.run_file_name(table.system, split, mode.gallery)
    # Read again: `tables` hold measures, not rankings.
    run = runs.read_run(path_by_file_name[file_name])
    tracks[table.system] = table.track
    misses_by_system[table.system] = calibration.find_misses(
      run, benchmark.queries[split], qrels, records, benchmark.timeline
    )
  tables = []
  for track in runs.TRACKS:
    counts_by_system = {
      system: calibration.count_reasons(misses)
      for system, misses in misses_by_system.items()
      if tracks[system] == track
    }
    # Columns of reasons that no system has are left out.
    reasons = [
      reason
      for reason in calibration.ERROR_REASONS
      if any(reason in counts for counts in counts_by_system.values())
    ]
    if counts_by_system:
      tables.append(
        PageTable(
          f"what the first record is; {split}: {mode.title}; track {track}",
          ["system", "right", *reasons],
          [
            [system, str(len(qrels) - sum(counts.values()))]
            + [str(counts.get(reason, 0)) for reason in reasons]
            for system, counts in counts_by_system.items()
          ],
        )
      )
  examples = calibration.select_examples(
    misses_by_system.get(run_summary.system, [])
  )
  return {"title": mode.title, "tables": tables, "examples": examples}
