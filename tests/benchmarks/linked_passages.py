"""Events of a built data set, dated one at a time beside a linked corpus.

  python -m tests.benchmarks.linked_passages --data_dir=DIR --trained=FOLDER
    [--name=chunqiutr/rebuilt] [--split=validation] [--number=200] [--show=N]
    [--profile]

A trained linked dater is applied to the records of a data set, labels of train
months known. Events of the split, drawn by their texts, are then dated as
passages, twice:

  in the corpus  their own record left out. Printed is how far their posteriors
                 are from those that they have as records: equal but for
                 rounding, where no tie decides between links
  new            beside a corpus without any of them, as texts are that come
                 later. Printed is how right they are, the same events in the
                 corpus beside them, and the milliseconds of each: reading,
                 linking and scoring, without reasons and with them

One passage of each is dated before, so that no compilation is counted.
`--profile` prints what takes the time.
"""

from __future__ import annotations

import argparse
import cProfile
import dataclasses
import pstats
import time

import numpy as np

from ctd_jax.benchmark.dataset import Benchmark
from ctd_jax.benchmark.records import EVENT
from ctd_jax.dating import calibration
from ctd_jax.dating.linked.linked_model import LinkedDatingModel
from ctd_jax.dating.linked.linked_passages import LinkedPassageDater
from ctd_jax.dating.linked.trained_dater import TrainedDater
from ctd_jax.systems import dated_gallery
from ctd_jax_datasets import load

_EQUAL = 1e-3  # difference of a chance that is rounding
_PROFILED = 25  # functions that --profile names


def draw_events(
  benchmark: Benchmark, gallery: dated_gallery.DatedGallery, flags
) -> np.ndarray:
  """Returns the rows of events of the split, by hashes of their texts.

  Of the kind "event", and read as events: a passage is.
  """
  features = gallery.features
  rows = np.flatnonzero(
    (np.array(benchmark.record_splits) == flags.split)
    & (benchmark.kinds == EVENT)
    & features.is_event
    & ~features.corpus.is_placeholder
  )
  order = np.argsort(features.corpus.text_hashes[rows], kind="stable")
  return np.sort(rows[order[: flags.number]])


def time_passages(
  dater: LinkedPassageDater, texts: list[str], exclude: list[list[int]]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
  """Returns log p [n, K], seconds of each date, and with its reasons."""
  dater.date(texts[0], exclude[0]).explain()
  log_p, dated, explained = [], [], []
  for text, rows in zip(texts, exclude, strict=True):
    started = time.perf_counter()
    passage = dater.date(text, rows)
    dated.append(time.perf_counter() - started)
    passage.explain()
    explained.append(time.perf_counter() - started)
    log_p.append(passage.log_p)
  return np.array(log_p), np.array(dated), np.array(explained)


def measure_dates(
  axis, log_p: np.ndarray, months: np.ndarray
) -> dict[str, float]:
  """Returns how right the dates are."""
  years = axis.to_years(log_p).argmax(axis=1)
  return {
    "month": float((log_p.argmax(axis=1) == months).mean()),
    "year": float((years == axis.year_of[months]).mean()),
    "nll": float(-log_p[np.arange(len(months)), months].mean()),
    **calibration.measure_credible_sets(log_p, months),
  }


def print_figures(name: str, figures: dict[str, float]) -> None:
  """Prints one line."""
  print(name, " ".join(f"{key} {value:.4g}" for key, value in figures.items()))


def profile_passages(dater: LinkedPassageDater, texts: list[str]) -> None:
  """Prints what takes the time."""
  profile = cProfile.Profile()
  profile.enable()
  for text in texts:
    dater.date(text)
  profile.disable()
  pstats.Stats(profile).sort_stats("tottime").print_stats(_PROFILED)


def make_dater(
  benchmark: Benchmark, model: LinkedDatingModel
) -> tuple[dated_gallery.DatedGallery, LinkedPassageDater]:
  """Returns the gallery and what dates passages beside it."""
  started = time.perf_counter()
  gallery = dated_gallery.read_dated_gallery(benchmark, (), model)
  dater = gallery.fitted_model.make_passage_dater()
  seconds = time.perf_counter() - started
  print(f"{len(benchmark.records):,} records read and dated in {seconds:.1f} s")
  return gallery, dater


def leave_out(benchmark: Benchmark, rows: np.ndarray) -> Benchmark:
  """Returns the benchmark without some records."""
  kept = np.delete(np.arange(len(benchmark.records)), rows).tolist()
  return dataclasses.replace(
    benchmark,
    records=tuple(benchmark.records[row] for row in kept),
    record_splits=tuple(benchmark.record_splits[row] for row in kept),
  )


def print_milliseconds(name: str, seconds: np.ndarray) -> None:
  """Prints one line."""
  milliseconds = 1000 * np.quantile(seconds, (0.5, 0.95, 1))
  labels = ("median", "95%", "slowest")
  print_figures(
    f"milliseconds {name}", dict(zip(labels, milliseconds, strict=True))
  )


def read_flags() -> argparse.Namespace:
  """Returns the flags."""
  parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
  parser.add_argument("--name", default="chunqiutr/rebuilt")
  parser.add_argument("--data_dir")
  parser.add_argument("--trained", required=True, help="folder of a dater")
  parser.add_argument("--split", default="validation")
  parser.add_argument("--number", type=int, default=200, help="of events")
  parser.add_argument("--show", type=int, default=0, help="passages explained")
  parser.add_argument("--profile", action="store_true")
  return parser.parse_args()


def main() -> None:
  """Reads the flags, measures and prints."""
  flags = read_flags()
  benchmark = load.load_benchmark(flags.name, flags.data_dir)
  model = LinkedDatingModel.from_trained(TrainedDater.load(flags.trained))
  gallery, dater = make_dater(benchmark, model)
  axis = gallery.features.axis
  rows = draw_events(benchmark, gallery, flags)
  records = [benchmark.records[row] for row in rows.tolist()]
  texts = [record.text for record in records]
  months = np.array(
    [benchmark.timeline.ordinal(record.key) for record in records]
  )
  together = gallery.make_posterior("fitted").log_p(rows)
  print_figures("as records", measure_dates(axis, together, months))
  alone, _, _ = time_passages(dater, texts, [[row] for row in rows.tolist()])
  difference = np.abs(np.exp(alone) - np.exp(together)).max(axis=1)
  equality = {
    "equal": float((difference <= _EQUAL).mean()),
    "median": float(np.median(difference)),
    "most": float(difference.max()),
  }
  print_figures("left out: difference from these", equality)
  _, dater = make_dater(leave_out(benchmark, rows), model)
  new, dated, explained = time_passages(dater, texts, [[]] * len(texts))
  print_figures("new", measure_dates(axis, new, months))
  print_milliseconds(f"of {len(texts)} passages", dated)
  print_milliseconds("with reasons", explained)
  for text in texts[: flags.show]:
    print(f"\n{text}")
    for reason in dater.date(text).explain():
      note = reason.evidence.note[:100]
      print(f"  {reason.weight:+.2f} {reason.expert} {note}")
  if flags.profile:
    profile_passages(dater, texts)


if __name__ == "__main__":
  main()
