"""Events of a built data set, dated one at a time as loose passages.

A `PassageDater` is fitted on all records, with the labels of train months
alone. Each event of the scored split is then dated by its text, its own record
left out of the corpus and everything else in it (track T0). Prints accuracy and
calibration of the months and the size of the credible sets.

  python -m tests.benchmarks.loose_passages --data_dir=DIR
    [--name=chunqiutr/rebuilt] [--split=validation] [--rows=FILE]
"""

import pathlib
import tempfile
import time

import numpy as np

from ctd_jax.benchmark import runs
from ctd_jax.benchmark.benchmark import EVENT, NO_EVENT
from ctd_jax.dating.corpus import MonthAxis
from ctd_jax.dating.passages.passages import PassageDater
from ctd_jax.evaluation import results
from ctd_jax.systems import dated_gallery
from ctd_jax_datasets import load
from tests.benchmarks import posterior_metrics, result_rows


def main() -> None:
  """Reads the flags, measures and prints."""
  flags = result_rows.make_parser(__doc__).parse_args()
  start = time.monotonic()
  benchmark = load.load_benchmark(flags.name, flags.data_dir)
  months = np.array(
    [benchmark.timeline.ordinal(record.key) for record in benchmark.records]
  )
  is_scored = np.array(benchmark.record_splits) == flags.split
  rows = np.flatnonzero(is_scored & (benchmark.kinds == EVENT))
  texts = [record.text for record in benchmark.records]
  with tempfile.TemporaryDirectory() as temporary:
    folder = pathlib.Path(temporary) / "dater"
    PassageDater.fit(
      texts,
      dated_gallery.make_train_labels(benchmark),
      benchmark.timeline,
      is_placeholder=benchmark.kinds == NO_EVENT,
    ).save(folder)
    # As an index opens it.
    dater = PassageDater.open(folder, benchmark.timeline)
    log_p = [
      dater.date(texts[row], exclude=[row]).log_p for row in rows.tolist()
    ]
  year_of = MonthAxis.from_timeline(benchmark.timeline).year_of
  years = [np.bincount(year_of, np.exp(row[:-1])).argmax() for row in log_p]
  figures = posterior_metrics.measure_dates(
    np.array(log_p), np.array(years), months[rows], year_of
  )
  about = result_rows.describe_run("loose_passages", time.monotonic() - start)
  names = (
    *(f"dating/{benchmark.name}", "passage-dater", runs.TRAINED),
    *(dated_gallery.SCORE_MODE, flags.split, "loose_passages", "all"),
  )
  measured = [
    results.ResultRow(*names, metric, value, **about)
    for metric, value in figures.items()
  ]
  result_rows.print_rows(measured)
  result_rows.write_rows(flags.rows, measured)


if __name__ == "__main__":
  main()
