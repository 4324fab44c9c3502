"""Paired tests between the runs of the plan of results.

  python -m tests.benchmarks.compare_runs --group=small --runs=runs/results \\
    --data_dir=runs/results/data --output=comparisons.tsv

Pairs are those of a group of `COMPARED`, on test, in both modes that the pages
show; Holm's correction is over the pairs of a group and mode.
"""

import argparse
import pathlib

from ctd_jax.evaluation import results, significance, summary
from ctd_jax.utils import files
from ctd_jax_datasets import load

SPLIT = "test"
# Group -> systems whose difference the pages speak of.
COMPARED = {
  "small": (
    ("ctd-small", "ft-small"),
    ("ctd-small", "bm25"),
    ("posterior-small", "ctd-small"),
    ("posterior-small", "rules"),
    ("ctd_posterior-small", "posterior-small"),
  ),
  "e5_small": (("ft-e5-small", "bm25"), ("ctd-e5-small", "ft-e5-small")),
}
BASELINES = ("bm25", "rules")  # of the step `baselines`


def find_run_folders(runs: pathlib.Path, group: str) -> list[pathlib.Path]:
  """Returns the folders of the run files of all systems of a group.

  Raises:
    FileNotFoundError: naming a step without run files.
  """
  systems = {system for pair in COMPARED[group] for system in pair}
  folders = [
    runs / name / "evaluation" for name in sorted(systems.difference(BASELINES))
  ]
  folders += sorted((runs / "baselines" / "evaluation").glob("chunqiutr_*"))
  for folder in folders:
    if not any(folder.glob(f"run.*.{SPLIT}.*.trec")):
      raise FileNotFoundError(f"{folder}: no run file of {SPLIT}")
  return folders


def main() -> None:
  """Reads the runs, compares and writes."""
  parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
  parser.add_argument("--group", required=True, choices=COMPARED)
  parser.add_argument("--runs", required=True, type=pathlib.Path)
  parser.add_argument("--data_dir", required=True)
  parser.add_argument("--output", required=True, type=pathlib.Path)
  parser.add_argument("--dataset", default="chunqiutr/rebuilt")
  flags = parser.parse_args()
  benchmark = load.load_benchmark(flags.dataset, flags.data_dir)
  tables = {
    (table.system, table.mode): table
    for table in summary.score_runs(
      find_run_folders(flags.runs, flags.group), benchmark
    )
    if table.split == SPLIT
  }
  years = significance.find_query_years(benchmark, SPLIT)
  rows = []
  for mode in summary.REPORT_MODES:
    pairs = [
      (tables[a, mode], tables[b, mode]) for a, b in COMPARED[flags.group]
    ]
    rows += results.make_comparison_rows(
      significance.compare_system_pairs(pairs, years),
      flags.group,
      benchmark.name,
      SPLIT,
      mode,
      commit=files.code_commit(),
    )
  results.write_comparison_rows(flags.output, rows)


if __name__ == "__main__":
  main()
