"""Time and peak memory of dating a gallery of growing size.

The gallery of a built data set is repeated. The first copy is as it stands; in
every other, one character of a text and one more for every forty are drawn anew
from the whole gallery, so that hardly a text but placeholders stands twice and
nothing is cheap for being equal. What is measured is cost: months of a repeated
gallery are fuller than months are, and its posteriors mean little. Every copy
is known, or not, as the original is, and every size is measured in a process of
its own. Stages: read the texts, learn the weights, date (fitted), rank the test
questions; the memory is the most that the process had taken by the end of the
last.

  python tests/benchmarks/dating_scale.py --data_dir=DIR [--copies=1,10,96]
"""

import argparse
import dataclasses
import multiprocessing
import resource
import time

import numpy as np

from ctd_jax.benchmark.benchmark import NO_EVENT
from ctd_jax.dating import query_posterior
from ctd_jax.systems import dated_gallery
from ctd_jax_datasets import load

_EVERY = 40  # characters of a text, for one more that is changed


def vary_text(text: str, letters: str, rng: np.random.Generator) -> str:
  """Returns a text with some characters changed, one at least."""
  changed = list(text)
  count = 1 + len(text) // _EVERY
  places = rng.integers(len(text), size=count)
  drawn = rng.integers(len(letters), size=count)
  for place, letter in zip(places, drawn, strict=True):
    changed[place] = letters[letter]
  return "".join(changed)


def repeated(benchmark, copies: int):
  """Returns the benchmark with every record `copies` times, texts varied."""
  letters = "".join(record.text for record in benchmark.records)
  records = list(benchmark.records)
  for copy in range(1, copies):
    rng = np.random.default_rng(copy)
    for record in benchmark.records:
      text = record.text
      if record.kind != NO_EVENT:
        text = vary_text(text, letters, rng)
      records.append(
        dataclasses.replace(
          record, record_id=f"{record.record_id}-{copy}", text=text
        )
      )
  return dataclasses.replace(
    benchmark,
    records=tuple(records),
    record_splits=benchmark.record_splits * copies,
  )


def measure(flags: argparse.Namespace, copies: int) -> None:
  """Prints one row."""
  benchmark = load.load_benchmark(flags.name, flags.data_dir)
  queries = [query.text for query in benchmark.queries["test"]]
  benchmark = repeated(benchmark, copies)
  size = len(benchmark.records)
  print(f"{size:>9,} records", end="", flush=True)
  clock = time.monotonic()

  def lap(stage: str) -> None:
    nonlocal clock
    now = time.monotonic()
    print(f"  {stage} {now - clock:7.1f} s", end="", flush=True)
    clock = now

  dated = dated_gallery.read_dated_gallery(benchmark)
  lap("read")
  _ = dated.fitted_model
  lap("learn")
  dates = dated.date("fitted")
  lap("date")
  query_posterior.rank_by_posterior(
    queries, dates, 10, {"all": np.ones(size, bool)}
  )
  lap("rank")
  peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
  print(f"  {peak:5.1f} GiB", flush=True)


def main() -> None:
  """Reads the flags and measures every size."""
  parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
  parser.add_argument("--name", default="chunqiutr/rebuilt")
  parser.add_argument("--data_dir", required=True)
  parser.add_argument("--copies", default="1,10,96")
  flags = parser.parse_args()
  context = multiprocessing.get_context("spawn")
  for copies in map(int, flags.copies.split(",")):
    process = context.Process(target=measure, args=(flags, copies))
    process.start()
    process.join()
    if process.exitcode:
      raise SystemExit(f"{copies} copies: stopped with {process.exitcode}")


if __name__ == "__main__":
  main()
