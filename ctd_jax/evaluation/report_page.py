"""One HTML page about the run files of some folders, to read, send and print.

Why: an average does not show where a system fails. The page holds what one
looks at before believing it: intervals, modes, cells, reigns and months,
calibration, comparisons, and missed questions with what was found instead. It
needs nothing besides itself: pictures are inside, scripts there are none.
Called by `evaluate --report`.
"""

from __future__ import annotations

import base64
import dataclasses
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import jinja2
import numpy as np

from ctd_jax.benchmark import runs
from ctd_jax.benchmark.queries import WINDOW, Query
from ctd_jax.chronology import date_expressions
from ctd_jax.chronology.timelines import Timeline
from ctd_jax.evaluation import (
  calibration,
  dates,
  errors,
  plots,
  protocol,
  result_tables,
  results,
  summary,
)
from ctd_jax.utils import files

PAGE_FILE_NAME = "report.html"
PAGE_METRICS = (*result_tables.DEFAULT_METRICS, "recall@10", "recall@50")
_GRID_FAMILIES = ("all", "point", WINDOW)
_GRID_METRICS = ("hit@1", "mrr@10", "ndcg@10")


@dataclasses.dataclass(frozen=True)
class PageTable:
  """A table of the page.

  Attributes:
    title: above it.
    header: of the columns.
    body: cells of each line; a cell is text or (text, smaller text below).
    num_text_columns: how many columns from the left hold words and not figures.
  """

  title: str
  header: Sequence[str]
  body: Sequence[Sequence[str | tuple[str, str]]]
  num_text_columns: int = 1


def write_page(run_summary: summary.RunSummary) -> pathlib.Path:
  """Returns the path of the page, written into the first folder.

  The pictures are written beside it as well.

  Raises:
    ValueError: naming the file of dates that cannot be read.
  """
  split = (
    "test" if "test" in run_summary.years else next(iter(run_summary.years))
  )
  template = jinja2.Environment(
    loader=jinja2.PackageLoader("ctd_jax", "evaluation"),
    autoescape=True,
    trim_blocks=True,
    lstrip_blocks=True,
    undefined=jinja2.StrictUndefined,
  ).get_template("report_page.html")
  path = run_summary.folders[0] / PAGE_FILE_NAME
  text = template.render(
    name=run_summary.benchmark.name,
    system=run_summary.system,
    split=split,
    sizes=_count_sizes(run_summary),
    shown=[
      _mode_section(run_summary, split, mode) for mode in summary.REPORT_MODES
    ],
    others=[
      table
      for other_split in run_summary.years
      if other_split != split
      for mode in summary.REPORT_MODES
      for table in _results_tables(run_summary, other_split, mode)
    ],
    grid=_grid_tables(run_summary, split),
    calibration=_calibration_section(run_summary, split),
    gallery=_errors_section(run_summary, split),
    timeline=run_summary.benchmark.timeline,
    origin=run_summary.origin,
    month=date_expressions.format_key,
    asked=format_query_months,
  )
  files.write_text(path, text)
  return path


def format_query_months(query: Query, timeline: Timeline) -> str:
  """Returns the months that a query asks for, as a chronicle writes them."""
  end_keys = query.interval.start, query.interval.end
  formatted_months = dict.fromkeys(
    date_expressions.format_key(key, timeline) for key in end_keys
  )
  return " – ".join(formatted_months)


def _count_sizes(run_summary: summary.RunSummary) -> dict[str, int]:
  sizes = {"records": len(run_summary.benchmark.records)}
  return sizes | {
    f"{split} queries": len(run_summary.benchmark.queries[split])
    for split in run_summary.years
  }


def _mode_section(
  run_summary: summary.RunSummary, split: str, mode: str
) -> dict[str, Any]:
  """Returns what is told of one mode: tables, pictures, comparisons."""
  pictures = [
    summary.plot_hits_by_group(run_summary, split, mode, "reign"),
    summary.plot_hits_by_group(run_summary, split, mode, "month"),
  ]
  comparable_tables = run_summary.comparable_tables(split, mode)
  if comparable_tables:
    name = f"hit_by_cell.{split}.{mode}.png"
    title = f"{run_summary.benchmark.name}, {split}, {mode}, track {comparable_tables[0].track}"
    plots.plot_first_record_kinds(
      comparable_tables, run_summary.folders[0] / name, title
    )
    pictures.insert(0, name)
  return {
    "name": mode,
    "results": _results_tables(run_summary, split, mode),
    "cells": _cells_tables(run_summary, split, mode),
    "compared": _comparison_table(run_summary, split, mode),
    "pictures": [
      _encode_picture(run_summary.folders[0] / picture_name)
      for picture_name in pictures
      if picture_name
    ],
  }


def _encode_picture(path: pathlib.Path) -> dict[str, str]:
  data = base64.b64encode(path.read_bytes()).decode()
  return {"name": path.name, "source": f"data:image/png;base64,{data}"}


def _tracks_of_rows(rows: Sequence[results.ResultRow]) -> list[str]:
  present = {row.track for row in rows}
  return [track for track in runs.TRACKS if track in present]


def _results_tables(
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


def _cells_tables(
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
  cells = {(r.system, r.metric, r.family): r for r in rows}
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
    return "–"
  text = f"{row.value:.4f}"
  if row.low is None or row.high is None:
    return text
  return text, f"{row.low:.3f}–{row.high:.3f}"


def _grid_tables(
  run_summary: summary.RunSummary, split: str
) -> list[PageTable]:
  """Returns every mode and system for the families of the release."""
  tables = []
  rows = results.select_rows(run_summary.rows, split=split)
  for track in _tracks_of_rows(rows):
    track_rows = results.select_rows(rows, track=track)
    cells = {
      (r.mode, r.system, r.family, r.metric): r.value for r in track_rows
    }
    mode_systems = dict.fromkeys((row.mode, row.system) for row in track_rows)
    order = list(protocol.MODES)
    body = [
      [
        *mode_system,
        *(
          f"{cells[*mode_system, family, metric]:.4f}"
          if (*mode_system, family, metric) in cells
          else "–"
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


def _comparison_table(
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


def _calibration_section(
  run_summary: summary.RunSummary, split: str
) -> dict[str, Any] | None:
  """Returns how right and how sure the dates of events are."""
  accuracy_by_name = dates.evaluate_date_files(
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
  body = []
  for name, accuracy in accuracy_by_system.items():
    calibration_error = calibration.expected_calibration_error(
      accuracy.confidence, accuracy.is_month_right
    )
    per_record = (
      accuracy.is_month_right,
      accuracy.is_within_1,
      accuracy.is_year_right,
      accuracy.confidence,
    )
    means = [f"{np.mean(values):.4f}" for values in per_record]
    body.append(
      [name, str(len(accuracy.confidence)), *means, f"{calibration_error:.4f}"]
    )
  header = [
    "system",
    "events",
    "month right",
    "to one month",
    "year right",
    "mean confidence",
    "calibration error",
  ]
  return {
    "table": PageTable(f"dates of the events of {split} months", header, body),
    "picture": _encode_picture(path),
  }


def _errors_section(
  run_summary: summary.RunSummary, split: str
) -> list[dict[str, Any]]:
  """Returns counts of errors of all systems and examples of the one at hand."""
  benchmark = run_summary.benchmark
  kinds = {record.record_id: record.kind for record in benchmark.records}
  records = {record.record_id: record for record in benchmark.records}
  path_by_file_name = summary.find_run_paths(run_summary.folders)
  sections = []
  for name in summary.REPORT_MODES:
    mode = protocol.get_mode(name)
    qrels = protocol.build_qrels(benchmark.queries[split], kinds, mode)
    misses_by_system = {
      table.system: errors.find_misses(
        runs.read_run(
          path_by_file_name[
            runs.run_file_name(table.system, split, mode.gallery)
          ]
        ),
        benchmark.queries[split],
        qrels,
        records,
        benchmark.timeline,
      )
      for table in run_summary.tables_of_mode(split, name)
    }
    counts_by_system = {
      system: errors.count_reasons(misses)
      for system, misses in misses_by_system.items()
    }
    tracks = {
      t.system: t.track for t in run_summary.tables_of_mode(split, name)
    }
    sections.append(
      {
        "mode": name,
        "tables": [
          _reasons_table(
            f"what the first record is, {split}, {name}, track {track}",
            {
              s: count
              for s, count in counts_by_system.items()
              if tracks[s] == track
            },
            len(qrels),
          )
          for track in runs.TRACKS
          if track in tracks.values()
        ],
        "examples": errors.select_examples(
          misses_by_system.get(run_summary.system, [])
        ),
      }
    )
  return sections


def _reasons_table(
  title: str,
  counts_by_system: Mapping[str, Mapping[str, int]],
  num_queries: int,
) -> PageTable:
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
