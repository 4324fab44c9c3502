"""Prints time and peak memory of dating a gallery of growing size.

The gallery of a built data set is repeated; every copy is known, or not, as the
original is, and every size is measured in a process of its own. Stages: read
the texts, learn the weights, date (fitted), rank the test questions.

  python tests/benchmarks/dating_scale.py --data_dir=DIR [--copies=1,10]
"""

from __future__ import annotations

import argparse
import dataclasses
import multiprocessing
import resource
import time

import numpy as np

from ctd_jax.dating import system
from ctd_jax.dating.evidence import Experts
from ctd_jax_datasets import load


def repeated(benchmark, copies: int):
  """Returns the benchmark with every record `copies` times."""
  records = [
    dataclasses.replace(record, record_id=f"{record.record_id}-{copy}")
    for copy in range(copies)
    for record in benchmark.records
  ]
  return dataclasses.replace(
    benchmark,
    records=tuple(records),
    record_splits=benchmark.record_splits * copies,
  )


def measure(name: str, data_dir: str, copies: int, off: list[str]) -> None:
  """Prints one row."""
  benchmark = load.load_benchmark(name, data_dir)
  queries = [query.text for query in benchmark.queries["test"]]
  benchmark = repeated(benchmark, copies)
  size = len(benchmark.records)
  clock, cells = time.monotonic(), []

  def lap(stage: str) -> None:
    nonlocal clock
    now = time.monotonic()
    cells.append(f"{stage} {now - clock:7.1f} s")
    clock = now

  dated = system.read(benchmark, experts=Experts.without(off))
  lap("read")
  _ = dated.weights
  lap("learn")
  posterior = dated.posterior("fitted")
  lap("date")
  dated.topk(queries, posterior, 10, {"all": np.ones(size, bool)})
  lap("rank")
  peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
  print(f"{size:>9,} records  {'  '.join(cells)}  {peak:5.1f} GiB", flush=True)


def main() -> None:
  """Reads the flags and measures every size."""
  parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
  parser.add_argument("--name", default="chunqiutr/rebuilt")
  parser.add_argument("--data_dir", required=True)
  parser.add_argument("--copies", default="1,10")
  parser.add_argument("--off", default="", help="experts to switch off")
  flags = parser.parse_args()
  off = [name for name in flags.off.split(",") if name]
  context = multiprocessing.get_context("spawn")
  for copies in map(int, flags.copies.split(",")):
    process = context.Process(
      target=measure, args=(flags.name, flags.data_dir, copies, off)
    )
    process.start()
    process.join()
    if process.exitcode:
      raise SystemExit(f"{copies} copies: stopped with {process.exitcode}")


if __name__ == "__main__":
  main()
