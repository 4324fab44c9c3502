"""Everything that is computed from a folder of run files.

Why: run files are the border between systems and evaluation. Whoever puts a
`run.<system>.<split>.<gallery>.trec` into the folder appears in the tables,
our model no otherwise than the baselines or a system of somebody else.
Called by `evaluate`.
"""

from __future__ import annotations

import csv
import dataclasses
import io
import json
import pathlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ctd_jax.benchmark import measures, runs
from ctd_jax.chronology import timelines
from ctd_jax.evaluation import (
  plots,
  protocol,
  result_tables,
  results,
  significance,
)
from ctd_jax.systems import registry
from ctd_jax.utils import files

if TYPE_CHECKING:
  from ctd_jax.benchmark.dataset import Benchmark

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
SHOWN_MODES = (protocol.OFFICIAL, protocol.EVENT_ONLY)
GRID_METRICS = (
  *result_tables.DEFAULT_METRICS,
  "recall@10",
  "recall@50",
  *protocol.FIRST_OF_KIND,
)


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
  tables = []
  for path in run_paths(folders).values():
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


def run_paths(folders: Sequence[pathlib.Path]) -> dict[str, pathlib.Path]:
  """Returns file name -> path of every run file; the first folder wins.

  Raises:
    ValueError: naming both, if files of a system that is made of a chosen
      model differ: they may be of two models.
  """
  paths = {}
  for folder in folders:
    for path in sorted(folder.glob("run.*.trec")):
      first = paths.setdefault(path.name, path)
      variants = path.name.split(".")[1] in registry.NEEDED
      if variants and first.read_bytes() != path.read_bytes():
        raise ValueError(
          f"{first} and {path} differ: two variants of one system cannot stand "
          "in one table; leave one of the folders out of --also"
        )
  return paths


def read_origin(folder: pathlib.Path) -> dict[str, dict]:
  """Returns what is known of the systems of a folder, {} if nothing is."""
  path = folder / ORIGIN
  return json.loads(path.read_text()) if path.exists() else {}


@dataclasses.dataclass(frozen=True)
class Summary:
  """What the run files of some folders are worth; `collect` makes it.

  Attributes:
    folders: of the run files; the first is the run's own.
    benchmark: what was asked.
    system: the one at hand, which is compared with every other of its track.
    tables: values by query, in the order in which systems are shown.
    rows: means with intervals of the same.
    years: split -> query id -> (reign, year), see `years_of`.
    origin: what is known of each system, see `ORIGIN`.
  """

  folders: tuple[pathlib.Path, ...]
  benchmark: Benchmark
  system: str
  tables: tuple[protocol.PerQuery, ...]
  rows: tuple[results.ResultRow, ...]
  years: Mapping[str, Mapping[str, tuple[int, int]]]
  origin: Mapping[str, Mapping]

  def chosen(self, split: str, mode: str) -> list[protocol.PerQuery]:
    """Returns the tables of all systems in one mode."""
    return [t for t in self.tables if (t.split, t.mode) == (split, mode)]

  def drawn(self, split: str, mode: str) -> list[protocol.PerQuery]:
    """Returns those that may be drawn side by side.

    Of one track, that of the system at hand: a bar that reads gold keys would
    look like a better system.
    """
    chosen = self.chosen(split, mode)
    track = next((t.track for t in chosen if t.system == self.system), "T0")
    return [t for t in chosen if t.track == track and t.values["hit@1"]]

  def compare(
    self, split: str, mode: str, measure: str = "hit@1"
  ) -> list[Comparison]:
    """Returns the system at hand against every other of its track."""
    chosen, years = self.chosen(split, mode), self.years[split]
    ours = next((t for t in chosen if t.system == self.system), None)
    others = [t for t in chosen if ours and t.track == ours.track]
    pairs = [(ours, other) for other in others if other is not ours]
    return compare_pairs(pairs, years, measure)


@dataclasses.dataclass(frozen=True)
class Comparison:
  """A system minus another, in one mode.

  Attributes:
    system: name of the first.
    other: name of the other.
    by_query: paired randomisation over queries.
    by_year: the same, whole years swapped.
    interval: of the difference, by resampling whole years.
    corrected: p-value by years after Holm, over the pairs compared.
  """

  system: str
  other: str
  by_query: significance.PairedTest
  by_year: significance.PairedTest
  interval: tuple[float, float]
  corrected: float = 1.0

  def __str__(self) -> str:
    return (
      f"{self.by_query}; whole years swapped: p = {self.by_year.p_value:.4f}, "
      f"after Holm {self.corrected:.4f}"
    )


def compare_pairs(
  pairs: Sequence[tuple[protocol.PerQuery, protocol.PerQuery]],
  years: Mapping[str, tuple[int, int]],
  measure: str = "hit@1",
) -> list[Comparison]:
  """Returns the first of each pair against the second.

  Args:
    pairs: tables of one mode.
    years: query id -> (reign, year).
    measure: what is compared.
  """
  found = []
  for first, second in pairs:
    values = first.values[measure], second.values[measure]
    found.append(
      Comparison(
        first.system,
        second.system,
        significance.paired_randomisation(*values),
        significance.paired_randomisation(*values, groups=years),
        significance.bootstrap_interval(
          {q: values[0][q] - values[1][q] for q in values[0]}, years
        ),
      )
    )
  corrected = significance.holm([each.by_year.p_value for each in found])
  return [
    dataclasses.replace(each, corrected=p_value)
    for each, p_value in zip(found, corrected, strict=True)
  ]


def collect(
  folders: Sequence[pathlib.Path],
  benchmark: Benchmark,
  system: str,
  order: Sequence[str] = (),
) -> Summary:
  """Returns what the run files of some folders are worth.

  Args:
    folders: where run files lie; the first is the run's own.
    benchmark: what they were run on.
    system: the one at hand; it stands last, below what it has to beat.
    order: systems that stand first.

  Raises:
    ValueError: naming the file, if a run is malformed or of another benchmark.
  """
  place = {name: i for i, name in enumerate(order)}
  tables = sorted(
    score_runs(folders, benchmark),
    key=lambda t: (
      place.get(t.system, len(place)),
      t.system == system,
      t.system,
    ),
  )
  years = {
    split: years_of(benchmark, split)
    for split in dict.fromkeys(table.split for table in tables)
  }
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
  return Summary(
    tuple(folders),
    benchmark,
    system,
    tuple(tables),
    tuple(rows),
    years,
    origin,
  )


def write(summary: Summary) -> str:
  """Returns the main tables as text; writes all tables, rows and plots.

  Written into the first folder: results.txt (the main tables, then every mode
  and family), results.json (rows with intervals), per_query.tsv and
  hit_by_reign.<split>.<mode>.png.
  """
  main, grid = [], []
  for split in summary.years:
    for mode in protocol.MODES:
      chosen = results.select(summary.rows, split=split, mode=mode)
      if mode in SHOWN_MODES:
        everybody = results.select(chosen, family="all")
        main.append(result_tables.format_table(everybody))
        main.append(_cells(chosen))
        main.append(_comparisons(summary, split, mode))
        plot_hits(summary, split, mode, "reign")
      grid.append(result_tables.format_table(chosen, GRID_METRICS))
  text = "\n".join(part for part in main if part)
  folder = summary.folders[0]
  files.write_text(
    folder / "results.txt",
    f"{text}\nEvery mode and family\n\n" + "\n".join(grid),
  )
  results.write_rows(folder / "results.json", summary.rows)
  values = _per_query(summary.tables, summary.benchmark)
  files.write_text(folder / "per_query.tsv", values)
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


def _cells(rows: Sequence[results.ResultRow]) -> str:
  """Returns hit@1 of one mode by what answers the query."""
  cells = [*protocol.CELLS, protocol.MACRO]
  asked = {row.family for row in rows}
  shown = [family for family in cells if family in asked]
  chosen = results.select(rows, metric="hit@1")
  return result_tables.format_table(chosen, shown, columns="family")


def _comparisons(summary: Summary, split: str, mode: str) -> str:
  """Returns paired tests of hit@1 against every system of the same track."""
  lines = [
    f"  {summary.system} - {each.other}: {each}\n"
    for each in summary.compare(split, mode)
  ]
  if not lines:
    return ""
  return "hit@1, paired randomisation over queries\n" + "".join(lines)


def plot_hits(summary: Summary, split: str, mode: str, by: str) -> str | None:
  """Returns the name of the plot written; None if there is nothing to plot.

  Args:
    summary: whose systems are drawn.
    split: of the queries.
    mode: of the protocol.
    by: "reign" or "month" (of the year) in which a query's interval begins.
  """
  drawn = summary.drawn(split, mode)
  if not drawn:
    return None
  benchmark = summary.benchmark
  labels = {
    "reign": result_tables.reign_labels(benchmark.timeline),
    "month": list(map(str, range(1, timelines.MONTHS_PER_YEAR + 1))),
  }
  name = f"hit_by_{by}.{split}.{mode}.png"
  plots.plot_hit_by_group(
    {table.system: table.values["hit@1"] for table in drawn},
    {
      query.query_id: getattr(query.interval.start, by)
      for query in benchmark.queries[split]
    },
    labels[by],
    summary.folders[0] / name,
    f"{benchmark.name}, {split}, {mode}, track {drawn[0].track}",
    f"{by} in which the query's interval begins",
  )
  return name
