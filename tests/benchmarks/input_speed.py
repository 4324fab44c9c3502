"""Prints how many queries a second are read, laid out and packed.

  python tests/benchmarks/input_speed.py --data_dir=data
  python tests/benchmarks/input_speed.py --data_dir=data --workers=2

Batches of `chunqiutr/rebuilt` at the lengths of the published recipe, one
positive and one or three hard negatives a query. With --processes=N, N
processes read at once, each its share, as on N hosts; a query counts once.
`queries/s` is by the clock on the wall, `us/query` the processor time that a
process spends for a query of the whole batch, without its workers: where no
core is free it says what N hosts would do. `full` is the share of columns that
hold a token.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import multiprocessing
import os
import time

import numpy as np

from ctd_jax.models import packing
from ctd_jax.training import input_pipeline
from ctd_jax.training.batch_reader import Share
from ctd_jax_datasets import load

QUERY_LENGTH, RECORD_LENGTH = 128, 256  # tokens, of the published recipe
MAX_LENGTH = 512  # tokens that the encoder takes
NEGATIVES = {
  1: {"release_comment": 1},
  3: {"same_month_comment": 1, "near_placeholder": 1, "near_event": 1},
}
CASES = ((16, 1), (16, 8), (64, 1), (64, 8), (1024, 8), (4096, 64))


def read_tokens(data_dir: str):
  """Returns the data set, and the tokens of its queries and records."""
  benchmark = load.build_benchmark("chunqiutr/rebuilt", data_dir)
  tokenizer = input_pipeline.build_tokenizer(benchmark)
  texts = {
    QUERY_LENGTH: [query.text for query in benchmark.queries["train"]],
    RECORD_LENGTH: [record.text for record in benchmark.records],
  }
  return benchmark, *(
    input_pipeline.tokenize_texts(tokenizer, part, length)
    for length, part in texts.items()
  )


def list_cases(flags: argparse.Namespace) -> list[tuple[int, int]]:
  """Returns the sizes of batches, with the packs, that are measured."""
  return [
    (size, packs)
    for size, packs in CASES
    if packs % flags.processes == 0 and flags.batch_size in (None, size)
  ]


def read_share(flags: argparse.Namespace, index: int, barrier, results) -> None:
  """Reads the share of a process and puts its figures into `results`."""
  data = read_tokens(flags.data_dir)
  width = packing.row_width(RECORD_LENGTH, MAX_LENGTH)
  for size, packs in list_cases(flags):
    for count, negatives in NEGATIVES.items():
      batches = input_pipeline.training_batches(
        *data,
        batch_size=size,
        seed=0,
        negatives=negatives,
        balance_kinds=True,
        packs=packs,
        widths=packing.row_widths(width, MAX_LENGTH, 32),
        share=Share(index, flags.processes),
        workers=flags.workers,
      )
      with contextlib.closing(batches):
        for _ in range(8 * max(1, flags.workers)):  # what was read ahead
          next(batches)
        number = max(8, flags.queries // size)
        shapes, tokens, columns = collections.Counter(), 0, 0
        barrier.wait()
        start, start_work = time.perf_counter(), time.process_time()
        for _ in range(number):
          texts = next(batches)["texts"]
          shapes[texts.ids.shape[1:]] += 1
          columns += texts.ids.size
          tokens += np.count_nonzero(texts.segments)
        work = time.process_time() - start_work
        barrier.wait()
        speed = number * size / (time.perf_counter() - start)
        work *= 1e6 / (number * size)
      results.put((size, packs, count, speed, work, tokens / columns, shapes))


def main() -> None:
  """Reads the flags, starts the processes and prints."""
  parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
  parser.add_argument("--data_dir", help="of the data set chunqiutr/rebuilt")
  parser.add_argument("--queries", type=int, default=20_000, help="of a case")
  parser.add_argument("--batch_size", type=int, help="this one alone")
  parser.add_argument("--workers", type=int, default=0, help="of a process")
  parser.add_argument("--processes", type=int, default=1)
  flags = parser.parse_args()
  cores = len(os.sched_getaffinity(0))
  print(f"{cores} cores, load {os.getloadavg()[0]:.1f}")
  context = multiprocessing.get_context("spawn")
  barrier, results = context.Barrier(flags.processes), context.SimpleQueue()
  processes = [
    context.Process(target=read_share, args=(flags, index, barrier, results))
    for index in range(flags.processes)
  ]
  for process in processes:
    process.start()
  print("batch packs negatives queries/s us/query  full  batches of each shape")
  for size, packs in list_cases(flags):
    for count in NEGATIVES:
      found = [results.get() for _ in processes]
      assert {row[:3] for row in found} == {(size, packs, count)}
      shapes = ", ".join(
        f"{number} of {rows}x{width}"
        for (rows, width), number in found[0][6].most_common()
      )
      print(
        f"{size:>5} {packs:>5} {count:>9} {min(row[3] for row in found):>9,.0f}"
        f" {max(row[4] for row in found):>8.2f}"
        f" {np.mean([row[5] for row in found]):>5.2f}  {shapes}",
        flush=True,
      )
  for process in processes:
    process.join()


if __name__ == "__main__":
  main()
