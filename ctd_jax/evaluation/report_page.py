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
from ctd_jax.dating import calibration
from ctd_jax.evaluation import (
  dates,
  errors,
  plots,
  protocol,
  result_tables,
  results,
  summary,
)
from ctd_jax.utils import files

NAME = "report.html"
METRICS = (*result_tables.DEFAULT_METRICS, "recall@10", "recall@50")
_GRID_FAMILIES = ("all", "point", WINDOW)
_GRID_METRICS = ("hit@1", "mrr@10", "ndcg@10")


@dataclasses.dataclass(frozen=True)
class Table:
  """A table of the page.

  Attributes:
    title: above it.
    header: of the columns.
    body: cells of each line; a cell is text or (text, smaller text below).
    words: how many columns from the left hold words and not figures.
  """

  title: str
  header: Sequence[str]
  body: Sequence[Sequence[str | tuple[str, str]]]
  words: int = 1


def write(found: summary.Summary) -> pathlib.Path:
  """Returns the path of the page, written into the first folder.

  The pictures are written beside it as well.

  Raises:
    ValueError: naming the file of dates that cannot be read.
  """
  split = "test" if "test" in found.years else next(iter(found.years))
  template = jinja2.Environment(
    loader=jinja2.PackageLoader("ctd_jax", "evaluation"),
    autoescape=True,
    trim_blocks=True,
    lstrip_blocks=True,
    undefined=jinja2.StrictUndefined,
  ).get_template("page.html")
  path = found.folders[0] / NAME
  text = template.render(
    name=found.benchmark.name,
    system=found.system,
    split=split,
    sizes=_sizes(found),
    shown=[_mode(found, split, mode) for mode in summary.SHOWN_MODES],
    others=[
      table
      for other in found.years
      if other != split
      for mode in summary.SHOWN_MODES
      for table in _results(found, other, mode)
    ],
    grid=_grid(found, split),
    calibration=_calibration(found, split),
    gallery=_gallery(found, split),
    timeline=found.benchmark.timeline,
    origin=found.origin,
    month=date_expressions.format_key,
    asked=asked,
  )
  files.write_text(path, text)
  return path


def asked(query: Query, timeline: Timeline) -> str:
  """Returns the months that a query asks for, as a chronicle writes them."""
  ends = query.interval.start, query.interval.end
  names = dict.fromkeys(
    date_expressions.format_key(key, timeline) for key in ends
  )
  return " – ".join(names)


def _sizes(found: summary.Summary) -> dict[str, int]:
  sizes = {"records": len(found.benchmark.records)}
  return sizes | {
    f"{split} queries": len(found.benchmark.queries[split])
    for split in found.years
  }


def _mode(found: summary.Summary, split: str, mode: str) -> dict[str, Any]:
  """Returns what is told of one mode: tables, pictures, comparisons."""
  pictures = [
    summary.plot_hits(found, split, mode, "reign"),
    summary.plot_hits(found, split, mode, "month"),
  ]
  drawn = found.drawn(split, mode)
  if drawn:
    name = f"hit_by_cell.{split}.{mode}.png"
    title = f"{found.benchmark.name}, {split}, {mode}, track {drawn[0].track}"
    plots.plot_first_of_kind(drawn, found.folders[0] / name, title)
    pictures.insert(0, name)
  return {
    "name": mode,
    "results": _results(found, split, mode),
    "cells": _cells(found, split, mode),
    "compared": _compared(found, split, mode),
    "pictures": [_picture(found.folders[0] / p) for p in pictures if p],
  }


def _picture(path: pathlib.Path) -> dict[str, str]:
  data = base64.b64encode(path.read_bytes()).decode()
  return {"name": path.name, "source": f"data:image/png;base64,{data}"}


def _tracks(rows: Sequence[results.ResultRow]) -> list[str]:
  present = {row.track for row in rows}
  return [track for track in runs.TRACKS if track in present]


def _results(found: summary.Summary, split: str, mode: str) -> list[Table]:
  """Returns measures with intervals, a table for each track."""
  rows = results.select(found.rows, split=split, mode=mode, family="all")
  return [
    _table(
      f"{split}, {mode}, track {track} ({result_tables.TRACK_NOTES[track]})",
      results.select(rows, track=track),
      [(metric, "all", metric) for metric in METRICS],
    )
    for track in _tracks(rows)
  ]


def _cells(found: summary.Summary, split: str, mode: str) -> list[Table]:
  """Returns hit@1 by what answers a query and by what was hit."""
  rows = results.select(found.rows, split=split, mode=mode)
  asked_of = {row.family for row in rows}
  columns = [
    ("hit@1", cell, plots.CELL_LABELS[cell])
    for cell in protocol.CELLS
    if cell in asked_of
  ]
  columns.append(("hit@1", protocol.MACRO, "macro average"))
  columns += [
    ("event_hit@1", "all", "all: an event"),
    ("placeholder_hit@1", "all", "all: a placeholder"),
  ]
  return [
    _table(
      f"hit@1 by what answers, {split}, {mode}, track {track}",
      results.select(rows, track=track),
      columns,
    )
    for track in _tracks(rows)
  ]


def _table(
  title: str,
  rows: Sequence[results.ResultRow],
  columns: Sequence[tuple[str, str, str]],
) -> Table:
  """Returns a line for each system.

  Args:
    title: of the table.
    rows: of one split, mode and track.
    columns: (metric, family, header) of each.
  """
  cells = {(r.system, r.metric, r.family): r for r in rows}
  body = [
    [system, *(_figure(cells.get((system, *c[:2]))) for c in columns)]
    for system in dict.fromkeys(row.system for row in rows)
  ]
  return Table(title, ["system", *(c[2] for c in columns)], body)


def _figure(row: results.ResultRow | None) -> str | tuple[str, str]:
  if row is None:
    return "–"
  text = f"{row.value:.4f}"
  if row.low is None or row.high is None:
    return text
  return text, f"{row.low:.3f}–{row.high:.3f}"


def _grid(found: summary.Summary, split: str) -> list[Table]:
  """Returns every mode and system for the families of the release."""
  tables = []
  rows = results.select(found.rows, split=split)
  for track in _tracks(rows):
    of_track = results.select(rows, track=track)
    cells = {(r.mode, r.system, r.family, r.metric): r.value for r in of_track}
    lines = dict.fromkeys((row.mode, row.system) for row in of_track)
    order = list(protocol.MODES)
    body = [
      [
        *line,
        *(
          f"{cells[*line, family, metric]:.4f}"
          if (*line, family, metric) in cells
          else "–"
          for family in _GRID_FAMILIES
          for metric in _GRID_METRICS
        ),
      ]
      for line in sorted(lines, key=lambda line: order.index(line[0]))
    ]
    header = ["mode", "system"] + [
      f"{family} {metric}"
      for family in _GRID_FAMILIES
      for metric in _GRID_METRICS
    ]
    tables.append(Table(f"{split}, track {track}", header, body, words=2))
  return tables


def _compared(found: summary.Summary, split: str, mode: str) -> Table | None:
  """Returns the system at hand minus every other of its track."""
  compared = found.compare(split, mode)
  means = {t.system: t.mean("hit@1") for t in found.chosen(split, mode)}
  body = [
    [
      each.other,
      f"{means[each.other]:.4f}",
      (
        f"{each.by_query.difference:+.4f}",
        f"{each.interval[0]:+.3f} to {each.interval[1]:+.3f}",
      ),
      str(each.by_query.wins),
      str(each.by_query.losses),
      f"{each.by_query.p_value:.4f}",
      f"{each.by_year.p_value:.4f}",
      f"{each.corrected:.4f}",
    ]
    for each in compared
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
  title = f"{found.system} minus every other, hit@1, {split}, {mode}"
  return Table(title, header, body) if body else None


def _calibration(found: summary.Summary, split: str) -> dict[str, Any] | None:
  """Returns how right and how sure the dates of events are."""
  dated = dates.judge_folders(found.folders, found.benchmark, split)
  # In the order of the other tables and pictures.
  systems = dict.fromkeys(row.system for row in found.rows)
  judged = {name: dated[name] for name in systems if name in dated}
  if not judged:
    return None
  path = found.folders[0] / f"calibration.{split}.png"
  plots.plot_reliability(
    {name: (each.sure, each.month) for name, each in judged.items()},
    path,
    f"{found.benchmark.name}, {split}, dates of events",
  )
  body = []
  for name, each in judged.items():
    error = calibration.expected_error(each.sure, each.month)
    shares = each.month, each.within_1, each.year, each.sure
    means = [f"{np.mean(values):.4f}" for values in shares]
    body.append([name, str(len(each.sure)), *means, f"{error:.4f}"])
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
    "table": Table(f"dates of the events of {split} months", header, body),
    "picture": _picture(path),
  }


def _gallery(found: summary.Summary, split: str) -> list[dict[str, Any]]:
  """Returns counts of errors of all systems and examples of the one at hand."""
  benchmark = found.benchmark
  kinds = {record.record_id: record.kind for record in benchmark.records}
  records = {record.record_id: record for record in benchmark.records}
  found_at = summary.run_paths(found.folders)
  parts = []
  for name in summary.SHOWN_MODES:
    mode = protocol.mode(name)
    judged = protocol.qrels(benchmark.queries[split], kinds, mode)
    missed = {
      table.system: errors.misses(
        runs.read_run(
          found_at[runs.file_name(table.system, split, mode.gallery)]
        ),
        benchmark.queries[split],
        judged,
        records,
        benchmark.timeline,
      )
      for table in found.chosen(split, name)
    }
    counted = {system: errors.counts(each) for system, each in missed.items()}
    tracks = {t.system: t.track for t in found.chosen(split, name)}
    parts.append(
      {
        "mode": name,
        "tables": [
          _reasons(
            f"what the first record is, {split}, {name}, track {track}",
            {s: count for s, count in counted.items() if tracks[s] == track},
            len(judged),
          )
          for track in runs.TRACKS
          if track in tracks.values()
        ],
        "examples": errors.examples(missed.get(found.system, [])),
      }
    )
  return parts


def _reasons(
  title: str, counted: Mapping[str, Mapping[str, int]], queries: int
) -> Table:
  reasons = [
    reason
    for reason in errors.REASONS
    if any(reason in count for count in counted.values())
  ]
  body = [
    [system, str(queries - sum(count.values()))]
    + [str(count.get(reason, 0)) for reason in reasons]
    for system, count in counted.items()
  ]
  return Table(title, ["system", "right", *reasons], body)
