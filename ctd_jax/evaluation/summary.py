"""Everything that is computed from a folder of run files.

Why: run files are the border between systems and evaluation. Whoever puts a
`run.<system>.<split>.<gallery>.trec` into the folder appears in the tables,
our model no otherwise than the baselines or a system of somebody else.
Called by `evaluate`.
"""

from __future__ import annotations

import csv
import io
import json
import pathlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ctd_jax import files
from ctd_jax.evaluation import (
  measures,
  protocol,
  report,
  results,
  significance,
)
from ctd_jax.retrieval import runs

if TYPE_CHECKING:
  from ctd_jax.benchmark import Benchmark

# How run files came about: system -> command, commit, seconds, seeds.
ORIGIN = "origin.json"
# Columns of per_query.tsv before the measures.
_ABOUT_QUERY = (
  "system",
  "split",
  "mode",
  "family",
  "query_id",
  "paper_family",
  "months",
)
_SHOWN_MODES = (protocol.OFFICIAL, protocol.EVENT_ONLY)


def score_runs(
  folders: Sequence[pathlib.Path], benchmark: Benchmark
) -> list[protocol.PerQuery]:
  """Returns the measures of every run file, in every mode of its gallery.

  Args:
    folders: where run files lie; of two runs of one system, split and gallery
      the first counts.
    benchmark: what they were run on.

  Raises:
    ValueError: naming the file, if it is malformed or of another benchmark.
  """
  kinds = {record.record_id: record.kind for record in benchmark.records}
  paths = {}
  for folder in folders:
    for path in sorted(folder.glob("run.*.trec")):
      paths.setdefault(path.name, path)
  tables = []
  for path in paths.values():
    run = runs.read_run(path)
    if run.split not in benchmark.queries:
      raise ValueError(f"{path}: {benchmark.name} has no split {run.split!r}")
    depth = max(map(len, run.rankings.values()))
    names = measures.DEEP if depth >= 50 else measures.DEFAULT
    for mode in protocol.MODES.values():
      if mode.gallery == run.gallery:
        queries = benchmark.queries[run.split]
        tables.append(protocol.evaluate_run(run, queries, kinds, mode, names))
  return tables


def read_origin(folder: pathlib.Path) -> dict[str, dict]:
  """Returns what is known of the systems of a folder, {} if nothing is."""
  path = folder / ORIGIN
  return json.loads(path.read_text()) if path.exists() else {}


def summarise(
  folders: Sequence[pathlib.Path],
  benchmark: Benchmark,
  system: str,
  order: Sequence[str] = (),
) -> str:
  """Returns the main tables as text; writes all tables, rows and plots.

  Written into the first folder: results.txt (the main tables, then every mode
  and family), results.json (rows with intervals), per_query.tsv and
  hit_by_reign.<split>.<mode>.png.

  Args:
    folders: where run files lie; the first is the run's own.
    benchmark: what they were run on.
    system: the one that is compared with every other of its track.
    order: systems that stand first in the tables.
  """
  tables = score_runs(folders, benchmark)
  # The system at hand stands last, below what it has to beat.
  place = {name: i for i, name in enumerate(order)}
  tables.sort(
    key=lambda t: (
      place.get(t.system, len(place)),
      t.system == system,
      t.system,
    )
  )
  splits = list(dict.fromkeys(table.split for table in tables))
  years = {split: years_of(benchmark, split) for split in splits}
  origin = {}
  for folder in reversed(folders):
    origin |= read_origin(folder)
  rows = []
  for table in tables:
    rows += results.result_rows(
      table,
      benchmark.name,
      years[table.split],
      **origin.get(table.system, {}),
    )
  main, grid = [], []
  for split in splits:
    for mode in protocol.MODES:
      chosen = results.select(rows, split=split, mode=mode)
      if mode in _SHOWN_MODES:
        everybody = results.select(chosen, family="all")
        main.append(report.format_table(everybody))
        main.append(_comparisons(tables, system, split, mode, years[split]))
        _plot(folders[0], tables, benchmark, split, mode)
      grid.append(report.format_table(chosen))
  text = "\n".join(part for part in main if part)
  folder = folders[0]
  files.write_text(
    folder / "results.txt",
    f"{text}\nEvery mode and family\n\n" + "\n".join(grid),
  )
  results.write_rows(folder / "results.json", rows)
  files.write_text(folder / "per_query.tsv", _per_query(tables, benchmark))
  return text


def years_of(benchmark: Benchmark, split: str) -> dict[str, tuple[int, int]]:
  """Returns query id -> (reign, year) in which its interval begins.

  Queries about one year share records, so years are what is independent.
  """
  return {
    query.query_id: query.interval.start.triple[:2]
    for query in benchmark.queries[split]
  }


def _per_query(
  tables: Sequence[protocol.PerQuery], benchmark: Benchmark
) -> str:
  """Returns every value of every query as tab-separated lines.

  `family` is the release's, `paper_family` that of the paper's text, `months`
  is |Q|, how many months the query asks for.
  """
  out = io.StringIO()
  writer = csv.writer(out, delimiter="\t", lineterminator="\n")
  names = dict.fromkeys(name for table in tables for name in table.values)
  writer.writerow([*_ABOUT_QUERY, *names])
  for table in tables:
    for query in benchmark.queries[table.split]:
      if query.query_id not in table.families:
        continue
      first, last = benchmark.timeline.ordinals(query.interval)
      writer.writerow(
        [table.system, table.split, table.mode, query.family, query.query_id]
        + [query.paper_family, last - first + 1]
        + [
          f"{table.values[name][query.query_id]:.6g}"
          if name in table.values
          else ""
          for name in names
        ]
      )
  return out.getvalue()


def _chosen(
  tables: Sequence[protocol.PerQuery], split: str, mode: str
) -> list[protocol.PerQuery]:
  return [t for t in tables if (t.split, t.mode) == (split, mode)]


def _comparisons(
  tables: Sequence[protocol.PerQuery],
  system: str,
  split: str,
  mode: str,
  years: Mapping[str, tuple[int, int]],
) -> str:
  """Returns paired tests of hit@1 against every system of the same track."""
  chosen = _chosen(tables, split, mode)
  ours = next((t for t in chosen if t.system == system), None)
  lines = []
  for other in chosen:
    if ours and other is not ours and other.track == ours.track:
      pair = ours.values["hit@1"], other.values["hit@1"]
      by_query = significance.paired_randomisation(*pair)
      by_year = significance.paired_randomisation(*pair, groups=years)
      lines.append(
        f"  {system} - {other.system}: {by_query}; "
        f"whole years swapped: p = {by_year.p_value:.4f}\n"
      )
  if not lines:
    return ""
  return "hit@1, paired randomisation over queries\n" + "".join(lines)


def _plot(
  folder: pathlib.Path,
  tables: Sequence[protocol.PerQuery],
  benchmark: Benchmark,
  split: str,
  mode: str,
) -> None:
  # Tracks are not drawn side by side: a bar that reads gold keys would look
  # like a better system.
  values = {
    t.system: t.values["hit@1"]
    for t in _chosen(tables, split, mode)
    if t.track == "T0" and t.values["hit@1"]
  }
  if not values:
    return
  report.plot_hit_by_reign(
    values,
    {q.query_id: q.interval.start.reign for q in benchmark.queries[split]},
    report.reign_labels(benchmark.timeline),
    folder / f"hit_by_reign.{split}.{mode}.png",
    f"{benchmark.name}, {split}, {mode}, track T0",
  )
