"""Events of a built data set, dated one at a time as loose passages.

A `PassageDater` is fitted on all records, with the labels of train months
alone. Each event of the scored split is then dated by its text, its own record
left out of the corpus and everything else in it (track T0). Prints accuracy and
calibration of the months, the size of the credible sets, and the time of one
passage; beside them the transductive figures of the same events with
`--transductive`.

  python -m tests.benchmarks.loose_passages --data_dir=DIR
    [--name=chunqiutr/rebuilt] [--split=validation] [--folder=DIR]
    [--transductive] [--show=5] [--rows=FILE]
"""

import argparse
import pathlib
import shlex
import sys
import tempfile
import time

import numpy as np

from ctd_jax.benchmark.benchmark import EVENT
from ctd_jax.dating.corpus import MonthAxis
from ctd_jax.dating.dating_model import DatingModel
from ctd_jax.dating.passages.passages import PassageDater
from ctd_jax.evaluation import calibration, results
from ctd_jax.systems import dated_gallery
from ctd_jax.utils import files
from ctd_jax_datasets import load
from tests.benchmarks import posterior_metrics

SYSTEM = "passage-dater"
OUTSIDE = "outside"  # mean mass of none of the months; no row


def read_flags() -> argparse.Namespace:
  """Returns the flags."""
  parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
  parser.add_argument("--name", default="chunqiutr/rebuilt")
  parser.add_argument("--data_dir", required=True, help="of the built data set")
  parser.add_argument("--split", default="validation")
  parser.add_argument(
    "--folder",
    type=pathlib.Path,
    help="of the fitted dater: opened if it is there, else written",
  )
  parser.add_argument(
    "--transductive",
    action="store_true",
    help="the same events dated together, without the neural encoder",
  )
  parser.add_argument("--show", type=int, default=0, help="passages explained")
  parser.add_argument("--rows", type=pathlib.Path, help="file for result rows")
  return parser.parse_args()


def open_dater(benchmark, folder: pathlib.Path) -> tuple[PassageDater, dict]:
  """Returns the dater of a benchmark, and the seconds that it took."""
  seconds = {}
  if not (folder / "state.json").is_file():
    start, processor = time.monotonic(), time.process_time()
    dater = PassageDater.fit(
      [record.text for record in benchmark.records],
      dated_gallery.make_train_labels(benchmark),
      benchmark.timeline,
    )
    seconds["fit_seconds"] = time.monotonic() - start
    seconds["fit_processor_seconds"] = time.process_time() - processor
    dater.save(folder)
  start = time.monotonic()
  dater = PassageDater.open(folder, benchmark.timeline)
  seconds["open_seconds"] = time.monotonic() - start
  seconds["megabytes"] = sum(f.stat().st_size for f in folder.iterdir()) / 1e6
  return dater, seconds


def measure_dates(
  log_p: np.ndarray, months: np.ndarray, year_of: np.ndarray
) -> dict[str, float]:
  """Returns the figures of `compute_posterior_metrics`, and of the sets.

  Args:
    log_p: of the months and of none of them, [n, K + 1].
    months: true ordinal months, [n].
    year_of: year of every month, [K].
  """
  best = log_p.argmax(axis=1)
  years = [np.bincount(year_of, np.exp(row[:-1])).argmax() for row in log_p]
  return {
    "month": float((best == months).mean()),
    "within_1": float((np.abs(best - months) <= 1).mean()),
    "year": float((np.array(years) == year_of[months]).mean()),
    "nll": float(-log_p[np.arange(len(months)), months].mean()),
    "ece": calibration.expected_calibration_error(
      np.exp(log_p.max(axis=1)), best == months
    ),
    **posterior_metrics.measure_credible_sets(log_p, months),
    OUTSIDE: float(np.exp(log_p[:, -1]).mean()),
  }


def show_reasons(dater: PassageDater, record, row: int, month: int) -> None:
  """Prints a passage, its month and its reasons."""
  dates = dater.date(record.text, exclude=[row])
  print(f"\n{record.text}\n  month {dates.month}, right: {month}", end="; ")
  print(f"p {np.exp(dates.log_p[dates.month]):.3f}")
  for reason in dates.reasons:
    print(
      f"  {reason.weight:+.2f} {reason.expert} {str(reason.note)[:100]} "
      f"(without it {reason.probability_without:.3f})"
    )


def report(name: str, figures: dict[str, float]) -> None:
  """Prints one line of figures."""
  print(name, " ".join(f"{key} {value:.4g}" for key, value in figures.items()))


def make_rows(benchmark, split: str, figures: dict[str, float], seconds: float):
  """Returns the result rows of the dater."""
  return [
    results.ResultRow(
      f"dating/{benchmark.name}",
      SYSTEM,
      dated_gallery.TRACK,
      dated_gallery.SCORE_MODE,
      split,
      "loose_passages",
      "all",
      metric,
      value,
      seeds=(),
      command=shlex.join(
        ["python", "-m", "tests.benchmarks.loose_passages", *sys.argv[1:]]
      ),
      commit=files.code_commit(),
      seconds=round(seconds, 1),
    )
    for metric, value in figures.items()
    if metric != OUTSIDE
  ]


def main() -> None:
  """Reads the flags, measures and prints."""
  flags = read_flags()
  start = time.monotonic()
  benchmark = load.load_benchmark(flags.name, flags.data_dir)
  months = np.array(
    [benchmark.timeline.ordinal(record.key) for record in benchmark.records]
  )
  is_scored = np.array(benchmark.record_splits) == flags.split
  rows = np.flatnonzero(is_scored & (benchmark.kinds == EVENT))
  with tempfile.TemporaryDirectory() as temporary:
    folder = flags.folder or pathlib.Path(temporary) / "dater"
    dater, seconds = open_dater(benchmark, folder)
    report("dater", seconds)
    log_p, times = [], []
    for row in rows.tolist():
      began = time.monotonic()
      dates = dater.date(benchmark.records[row].text, exclude=[row])
      times.append(time.monotonic() - began)
      log_p.append(dates.log_p)
    year_of = MonthAxis.from_timeline(benchmark.timeline).year_of
    figures = measure_dates(np.array(log_p), months[rows], year_of)
    report(f"{SYSTEM} {flags.split} {len(rows)} passages", figures)
    milliseconds = 1000 * np.quantile(times, (0.5, 0.95, 1))
    report(
      "milliseconds",
      dict(zip(("median", "95%", "most"), milliseconds, strict=True)),
    )
    for row in rows[: flags.show].tolist():
      show_reasons(dater, benchmark.records[row], row, int(months[row]))
  if flags.transductive:
    model = DatingModel.without(["neural"])
    dated = dated_gallery.read_dated_gallery(benchmark, (), model)
    posterior = dated.date("fitted").posterior
    together = posterior_metrics.compute_posterior_metrics(
      posterior, rows, months[rows]
    )
    report("dated together", together)
  if flags.rows:
    results.write_result_rows(
      flags.rows,
      make_rows(benchmark, flags.split, figures, time.monotonic() - start),
    )


if __name__ == "__main__":
  main()
