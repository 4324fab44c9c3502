"""Summary of a folder of run files: tables, rows, per-query values and plots.

Run files are the border between systems and evaluation. Every system with a
`run.<system>.<split>.<gallery>.trec` in the folder appears in the tables: our
model, the baselines, somebody else's system.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, TypedDict

import msgspec

from ctd_jax.benchmark import runs
from ctd_jax.chronology import reigns
from ctd_jax.evaluation import (
  plots,
  protocol,
  result_tables,
  results,
  significance,
)
from ctd_jax.utils import files, output

if TYPE_CHECKING:
  from ctd_jax.benchmark.benchmark import Benchmark

ORIGIN_FILE = "origin.json"  # system -> `RunOrigin`
RESULTS_FILE = "results.json"  # rows of all systems of the folder
# Columns of per_query.tsv before the measures.
_QUERY_COLUMNS = (
  "system",
  "split",
  "mode",
  "family",
  "query_id",
  "paper_family",
  "months",
)
# Modes of the main tables; all modes stand in results.txt.
REPORT_MODES = (protocol.OFFICIAL_MODE, protocol.EVENT_ONLY_MODE)
# Measures of the tables of all modes and families.
GRID_METRICS = (
  *result_tables.DEFAULT_METRICS,
  "recall@10",
  "recall@50",
  *protocol.FIRST_KIND_BY_MEASURE,
)


# Columns of the table that is printed: (mode, family, metric, header).
_HEADLINE_COLUMNS = (
  (protocol.OFFICIAL_MODE, "all", "hit@1", "hit@1"),
  *(
    (protocol.OFFICIAL_MODE, "all", metric, header)
    for metric, header in zip(
      protocol.FIRST_KIND_BY_MEASURE, ("an event", "a placeholder"), strict=True
    )
  ),
  (
    protocol.OFFICIAL_MODE,
    protocol.ONLY_EVENTS,
    "hit@1",
    "hit@1, only events answer",
  ),
  (protocol.OFFICIAL_MODE, "all", "mrr@10", "mrr@10"),
  (protocol.EVENT_ONLY_MODE, "all", "hit@1", "hit@1, events alone"),
)


def score_runs(
  folders: Sequence[files.AnyPath],
  benchmark: Benchmark,
  variant_systems: Collection[str] = (),
  mask_train: bool = False,
) -> list[protocol.PerQueryScores]:
  """Returns the measures of every run file, in every mode of its gallery.

  Args:
    folders: folders of run files; of two runs of one system, split and gallery
      the first counts.
    variant_systems: see `find_run_paths`.
    mask_train: measure each run once more without the records of train months.

  Raises:
    ValueError: if a file is malformed or belongs to another benchmark; the
      message names it.
  """
  kinds = {record.record_id: record.kind for record in benchmark.records}
  tables = []
  for path in find_run_paths(folders, variant_systems).values():
    run = runs.read_run(path)
    if run.split not in benchmark.queries:
      raise ValueError(f"{path}: {benchmark.name} has no split {run.split!r}")
    names = runs.select_measures(run.depth)
    modes = [m for m in protocol.MODES.values() if m.gallery == run.gallery]
    measured = [run]
    if mask_train and run.split != "train":
      measured.append(protocol.mask_train_records(run, benchmark))
    tables += [
      protocol.evaluate_run(
        each, benchmark.queries[run.split], kinds, mode, names
      )
      for each in measured
      for mode in modes
    ]
  return tables


def find_run_paths(
  folders: Sequence[files.AnyPath], variant_systems: Collection[str] = ()
) -> dict[str, files.AnyPath]:
  """Returns file name -> path of every run file; the first folder wins.

  Args:
    variant_systems: systems made of a model that the config chooses: one name
      may stand for two models.

  Raises:
    ValueError: if two folders have different run files of such a system; the
      message names both files.
  """
  paths = {}
  for folder in folders:
    for path in sorted(folder.glob("run.*.trec")):
      first_path = paths.setdefault(path.name, path)
      system = path.name.split(".")[1]
      if (
        system in variant_systems
        and first_path.read_bytes() != path.read_bytes()
      ):
        raise ValueError(
          f"{first_path} and {path} differ: two variants of one system "
          "cannot stand in one table; leave one of the folders out of --also"
        )
  return paths


class RunOrigin(TypedDict, total=False):
  """Provenance of the run files of a system, fields of its result rows."""

  command: str  # that wrote them
  commit: str  # of this repository
  seconds: float  # wall time of training and evaluation
  seeds: list[int]  # of the runs


def read_run_origin(folder: files.AnyPath) -> dict[str, RunOrigin]:
  """Returns system -> provenance of its run files, {} if none is recorded.

  Raises:
    ValueError: if a field cannot be read; the message names file, system and
      field.
  """
  path = folder / ORIGIN_FILE
  if not path.exists():
    return {}
  try:
    return msgspec.json.decode(files.read_text(path), type=dict[str, RunOrigin])
  except msgspec.MsgspecError as error:
    raise ValueError(f"{path}: {error}") from None


@dataclasses.dataclass(frozen=True)
class RunSummary:
  """Measures of the run files of some folders; `summarize_runs` makes it."""

  # Of the run files; the first is the run's own.
  folders: tuple[files.AnyPath, ...]
  benchmark: Benchmark  # whose queries were answered
  # The run's own system; it is compared with all others of its track.
  system: str
  # Values by query, in the order in which systems are shown.
  tables: tuple[protocol.PerQueryScores, ...]
  rows: tuple[results.ResultRow, ...]  # means with intervals of the same
  # Split -> query id -> (reign, year), see `significance.find_query_years`.
  years: Mapping[str, Mapping[str, tuple[int, int]]]
  origin: Mapping[str, RunOrigin]  # system -> provenance of its run files

  def tables_of_mode(
    self, split: str, mode: str
  ) -> list[protocol.PerQueryScores]:
    """Returns the tables of all systems in one mode."""
    return [
      table
      for table in self.tables
      if (table.split, table.mode) == (split, mode)
    ]

  def comparable_tables(
    self, split: str, mode: str
  ) -> list[protocol.PerQueryScores]:
    """Returns the tables that may be drawn side by side.

    None reads more than the run's own system: the bar of a system that reads
    gold time keys would look like a better system.
    """
    mode_tables = self.tables_of_mode(split, mode)
    # Without a run of its own (--baselines_only), T0 is drawn.
    track = next(
      (table.track for table in mode_tables if table.system == self.system),
      "T0",
    )
    return [
      table
      for table in mode_tables
      if runs.reads_no_more(table.track, track) and table.values["hit@1"]
    ]

  def compare_systems(
    self, split: str, mode: str
  ) -> list[significance.SystemComparison]:
    """Returns hit@1 of the run's own system against those that read no more."""
    mode_tables = self.tables_of_mode(split, mode)
    pairs = [
      (own, other)
      for own in mode_tables
      for other in mode_tables
      if own.system == self.system != other.system
      and runs.reads_no_more(other.track, own.track)
    ]
    return significance.compare_system_pairs(pairs, self.years[split])


def summarize_runs(
  folders: Sequence[files.AnyPath],
  benchmark: Benchmark,
  system: str,
  order: Sequence[str] = (),
  variant_systems: Collection[str] = (),
  mask_train: bool = False,
) -> RunSummary:
  """Returns the measures of the run files of some folders.

  Args:
    folders: folders of run files; the first is the run's own.
    system: the run's own system; it comes last, below those it has to beat.
    order: systems that stand first, in this order.
    variant_systems: see `find_run_paths`.
    mask_train: see `score_runs`.

  Raises:
    ValueError: if a run is malformed or belongs to another benchmark; the
      message names the file.
  """
  order_by_system = {name: i for i, name in enumerate(order)}
  tables = sorted(
    score_runs(folders, benchmark, variant_systems, mask_train),
    key=lambda table: (
      order_by_system.get(
        table.system.removesuffix(protocol.MASK), len(order_by_system)
      ),
      table.system == system,
      table.system,
    ),
  )
  years = {
    split: significance.find_query_years(benchmark, split)
    for split in dict.fromkeys(table.split for table in tables)
  }
  origin = {}
  for folder in reversed(folders):  # the first folder wins
    origin |= read_run_origin(folder)
  rows = []
  for table in tables:
    rows += results.make_result_rows(
      table,
      benchmark.name,
      years[table.split],
      **origin.get(table.system.removesuffix(protocol.MASK), {}),
    )
  return RunSummary(
    tuple(folders),
    benchmark,
    system,
    tuple(tables),
    tuple(rows),
    years,
    origin,
  )


def format_headline(summary: RunSummary) -> str:
  """Returns one table: hits of the systems, and of what kind the hits are.

  The table covers the test split, or the first split if there is no test split,
  and the track of the run's own system; tables of tracks that read less come
  before it. Systems of other tracks are named below.
  """
  splits = list(summary.years)
  split = "test" if "test" in splits else splits[0]
  rows = results.select_rows(summary.rows, split=split)
  track_by_system = {row.system: row.track for row in rows}
  # Without a run of its own (--baselines_only), T0 is shown.
  tracks = sorted(set(track_by_system.values()), key=runs.TRACKS.index)
  track = track_by_system.get(summary.system, tracks[0])
  cells = {(row.system, row.mode, row.family, row.metric): row for row in rows}
  header = ["system", *(label for *_, label in _HEADLINE_COLUMNS)]
  num_queries = len(summary.benchmark.queries[split])
  title = f"{summary.benchmark.name}, {num_queries:,} {split} queries; track "
  shown = [each for each in tracks if runs.reads_no_more(each, track)]
  tables = [
    output.format_table(
      f"{title}{each} ({result_tables.TRACK_NOTES[each]})",
      header,
      [
        [
          system,
          *(
            # Only hit@1 shows its interval.
            result_tables.format_figure(
              cells[system, mode, family, metric], metric == "hit@1"
            )
            if (system, mode, family, metric) in cells
            else "–"
            for mode, family, metric, _ in _HEADLINE_COLUMNS
          ),
        ]
        for system in track_by_system
        if track_by_system[system] == each
      ],
    )
    for each in shown
  ]
  other_systems = [
    f"{system} ({other_track}: {result_tables.TRACK_NOTES[other_track]})"
    for system, other_track in track_by_system.items()
    if other_track not in shown
  ]
  if other_systems:
    tables.append(
      f"Read more, so not in these tables: {', '.join(other_systems)}\n"
    )
  return "\n".join(tables)


def write_summary(summary: RunSummary) -> str:
  """Returns `format_headline`; writes all tables, rows and plots.

  Written into the first folder: results.txt (the same table, those of the main
  modes, then every mode and family), results.json (rows with intervals),
  results.csv (the same, a column for each measure), per_query.tsv and
  hit_by_reign.<split>.<mode>.png.
  """
  headline = format_headline(summary)
  main_tables, grid_tables = [headline], []
  for split in summary.years:
    for mode in protocol.MODES:
      mode_rows = results.select_rows(summary.rows, split=split, mode=mode)
      if mode in REPORT_MODES:
        main_tables.append(
          result_tables.format_table(
            results.select_rows(mode_rows, family="all")
          )
        )
        # hit@1 by what answers the query.
        cells = [
          family
          for family in (*protocol.CELLS, protocol.MACRO_FAMILY)
          if any(row.family == family for row in mode_rows)
        ]
        hit_rows = results.select_rows(mode_rows, metric="hit@1")
        main_tables.append(
          result_tables.format_table(hit_rows, cells, columns="family")
        )
        lines = [
          f"  {summary.system} - {test.other_system}: {test}\n"
          for test in summary.compare_systems(split, mode)
        ]
        if lines:
          lines.insert(0, "hit@1, paired randomisation over queries\n")
        main_tables.append("".join(lines))
        plot_hits_by_group(summary, split, mode, "reign")
      grid_tables.append(result_tables.format_table(mode_rows, GRID_METRICS))
  text = "\n".join(table for table in main_tables if table)
  folder = summary.folders[0]
  files.write_text(
    folder / "results.txt",
    f"{text}\nEvery mode and family\n\n" + "\n".join(grid_tables),
  )
  results.write_result_rows(folder / RESULTS_FILE, summary.rows)
  results.write_wide_table(folder / "results.csv", summary.rows)
  values = _format_per_query(summary.tables, summary.benchmark)
  files.write_text(folder / "per_query.tsv", values)
  return headline


def _format_per_query(
  tables: Sequence[protocol.PerQueryScores], benchmark: Benchmark
) -> str:
  """Returns every value of every query as tab-separated lines."""
  # `family` is the release's, `paper_family` that of the paper's text, `months`
  # is |Q|, the number of months that the query asks for.
  rows = []
  # Deep runs have measures that others lack; their cells stay empty.
  names = dict.fromkeys(name for table in tables for name in table.values)
  for table in tables:
    for query in benchmark.queries[table.split]:
      if query.query_id not in table.families:
        continue
      first, last = benchmark.timeline.interval_ordinals(query.interval)
      rows.append(
        [table.system, table.split, table.mode, query.family, query.query_id]
        + [query.paper_family, last - first + 1]
        + [
          f"{table.values[name][query.query_id]:.6g}"
          if name in table.values
          else ""
          for name in names
        ]
      )
  return output.format_delimited([*_QUERY_COLUMNS, *names], rows)


def plot_hits_by_group(
  summary: RunSummary, split: str, mode: str, group_by: str
) -> str | None:
  """Returns the name of the plot written; None if there is nothing to plot.

  Args:
    group_by: "reign" or "month" (of the year), in which a query's interval
      begins.
  """
  comparable_tables = summary.comparable_tables(split, mode)
  if not comparable_tables:
    return None
  benchmark = summary.benchmark
  labels = {
    "reign": reigns.make_reign_labels(benchmark.timeline),
    "month": list(map(str, range(1, reigns.MONTHS_PER_YEAR + 1))),
  }
  name = f"hit_by_{group_by}.{split}.{mode}.png"
  plots.plot_hit_by_group(
    {table.system: table.values["hit@1"] for table in comparable_tables},
    {
      query.query_id: getattr(query.interval.start, group_by)
      for query in benchmark.queries[split]
    },
    labels[group_by],
    summary.folders[0] / name,
    f"{benchmark.name}, {split}, track {comparable_tables[0].track}\n"
    f"{protocol.MODES[mode].title}",
    f"{group_by} in which the query's interval begins",
  )
  return name
