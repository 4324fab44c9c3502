"""Checks of figures: on other splits, and on what a leak would show.

Every variant of the data set is evaluated by a process of its own in
WORKDIR/VARIANT, and not again once it has results; a training run that was cut
off resumes. See `benchmark.variants`.
"""

import collections
import pathlib
import sys
from collections.abc import Mapping, Sequence

import numpy as np

from ctd_jax.benchmark import variants
from ctd_jax.evaluation import (
  calibration,
  protocol,
  result_tables,
  results,
  summary,
)
from ctd_jax.evaluation.results import ResultRow
from ctd_jax.experiments import grid
from ctd_jax.training.run_folder import EVALUATION_FOLDER
from ctd_jax.utils import files
from ctd_jax_datasets import load

PUBLISHED = "published"  # folder of the data set itself
_MEASURES = ("hit@1", "ndcg@10")
# What is shown -> mode of the protocol and family of queries.
QUESTIONS: Mapping[str, tuple[str, str]] = {
  "only_events": (protocol.OFFICIAL_MODE, protocol.ONLY_EVENTS),
  "official": (protocol.OFFICIAL_MODE, "all"),
  "event_mode": (protocol.EVENT_ONLY_MODE, "all"),
}
DATES = "dates"  # what is shown of dates


def run_variants(
  workdir: pathlib.Path,
  dataset: str,
  names: Sequence[str],
  module: str,
  arguments: Sequence[str],
) -> None:
  """Evaluates a data set and variants of it, one after the other.

  Args:
    workdir: holds a folder for each.
    dataset: name of the data set.
    names: variants besides the data set itself.
    module: "ctd_jax.train", or "ctd_jax.evaluate" for untrained systems.
    arguments: of the module, without data set and workdir.

  Raises:
    ValueError: if runs failed, after all others have ended; the message names
      them.
  """
  cells, commands = [], []
  for name in (PUBLISHED, *names):
    folder = workdir / name
    if not _find_results(folder):
      variant = dataset if name == PUBLISHED else f"{dataset}+{name}"
      cells.append(grid.GridCell("", 0, folder))
      commands.append(
        [
          *(sys.executable, "-m", module, *arguments),
          f"--config.dataset={variant}",
          "--config.eval.splits=('test',)",
          f"--workdir={folder}",
        ]
      )
  grid.run_commands(cells, commands, jobs=1)


def _find_results(folder: pathlib.Path) -> list[pathlib.Path]:
  """Returns the file of rows of a variant, [] before it was evaluated."""
  return [*(folder / EVALUATION_FOLDER).glob(f"**/{summary.RESULTS_FILE}")]


def read_figures(
  folder: pathlib.Path, dataset: str, data_dir: str | None
) -> dict[tuple[str, str, str, str, str], float]:
  """Returns (system, track, score, what is shown, metric) -> value.

  Args:
    folder: of a variant that was evaluated.
    dataset: name of the variant.
    data_dir: folder of the data sets.
  """
  (path,) = _find_results(folder)
  rows = results.read_result_rows(path)
  about = {row.system: (row.track, row.score_mode) for row in rows}
  figures = {
    (row.system, row.track, row.score_mode, shown, row.metric): row.value
    for shown, (mode, family) in QUESTIONS.items()
    for row in results.select_rows(rows, mode=mode, family=family, split="test")
    if row.metric in _MEASURES
  }
  if any(path.parent.glob("dates.*.tsv")):
    benchmark = load.load_benchmark(dataset, data_dir)
    accuracy = calibration.evaluate_date_files([path.parent], benchmark, "test")
    for system, dates in accuracy.items():
      for metric, value in dates.summarize().items():
        figures[system, *about[system], DATES, metric] = value
  return figures


def check_splits(
  workdir: pathlib.Path, dataset: str, count: int, data_dir: str | None
) -> str:
  """Returns tables of means over other splits; writes splits.json.

  Args:
    workdir: see `run_variants`, which made what is in it.
    dataset: name of the data set.
    count: number of splits.
    data_dir: folder of the data sets.
  """
  import scipy.stats

  figures = [
    read_figures(workdir / f"split{seed}", f"{dataset}+split{seed}", data_dir)
    for seed in range(1, count + 1)
  ]
  published = read_figures(workdir / PUBLISHED, dataset, data_dir)
  shown: dict[str, dict] = collections.defaultdict(dict)
  intervals = {}
  for names in published:
    values = np.array([each[names] for each in figures])
    shown[PUBLISHED][names] = published[names]
    shown["mean"][names] = values.mean()
    if count > 1:
      deviation = values.std(ddof=1)
      shown["sd"][names] = deviation
      half = scipy.stats.t.ppf(0.975, count - 1) * deviation / count**0.5
      intervals["mean", names] = values.mean() - half, values.mean() + half
    shown["lowest"][names], shown["highest"][names] = values.min(), values.max()
  return _write_rows(workdir / "splits.json", dataset, shown, intervals)


def check_leaks(
  workdir: pathlib.Path, dataset: str, data_dir: str | None
) -> str:
  """Returns tables of what systems score on `variants.AUDITS`.

  Writes audit.json; for the arguments see `check_splits`.
  """
  shown = {PUBLISHED: read_figures(workdir / PUBLISHED, dataset, data_dir)}
  for name in variants.AUDITS:
    figures = read_figures(workdir / name, f"{dataset}+{name}", data_dir)
    # The keys of `hidden` are not true, so dates are not judged by them.
    shown[name] = {
      names: v for names, v in figures.items() if names[3] != DATES
    }
  return _write_rows(workdir / "audit.json", dataset, shown, {})


def _write_rows(
  path: pathlib.Path,
  dataset: str,
  shown: Mapping[str, Mapping[tuple, float]],
  intervals: Mapping[tuple, tuple[float, float]],
) -> str:
  """Returns tables with a column for each key of `shown`; writes their rows."""
  rows = [
    ResultRow(
      f"{path.stem}/{dataset}",
      *(system, track, score_mode, "test", column, family, metric),
      float(value),
      *intervals.get((column, (system, track, score_mode, family, metric)), ()),
      command=files.command_line(),
      commit=files.code_commit(),
    )
    for column, values in shown.items()
    for (system, track, score_mode, family, metric), value in values.items()
  ]
  results.write_result_rows(path, rows)
  return result_tables.format_table(
    rows, list(shown), intervals=True, columns="mode"
  )
