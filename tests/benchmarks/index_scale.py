"""Time, memory and size of an index of growing size, and of questions to it.

The records of a built data set are repeated as a BEIR folder, in which hardly a
text stands twice (`dating_scale.vary_text`). Eight copies make up one set of
works. All records have their month but those of one copy, whose works are
undated and are dated by the model. The index is built by the command in a
process of its own; then `ask_speed` asks it.

  python -m tests.benchmarks.index_scale --data_dir=DIR --folder=FOLDER
    [--records=200000,1000000] [--name=chunqiutr/rebuilt] [--dated]
    [--nopassages]

`--dated` leaves no work undated; `--nopassages` builds an index that does not
date passages.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import subprocess
import sys
import time

import numpy as np

from ctd_jax.benchmark.dataset import Benchmark
from ctd_jax.benchmark.records import NO_EVENT
from ctd_jax_datasets import load
from tests.benchmarks import dating_scale

COPIES_PER_WORK = 8
UNDATED_COPY = 1


def write_corpus(
  benchmark: Benchmark,
  folder: pathlib.Path,
  num_records: int,
  undated_copy: int | None,
) -> None:
  """Writes so many records as a BEIR folder without questions."""
  folder.mkdir(parents=True, exist_ok=True)
  metadata = {"timeline": benchmark.timeline.name}
  (folder / "metadata.json").write_text(json.dumps(metadata))
  letters = "".join(record.text for record in benchmark.records)
  with (folder / "corpus.jsonl").open("w", encoding="utf-8") as file:
    for number in range(num_records):
      copy, row = divmod(number, len(benchmark.records))
      if not row:
        rng = np.random.default_rng(copy)
      record = benchmark.records[row]
      text = record.text
      if copy and record.kind != NO_EVENT:
        text = dating_scale.vary_text(text, letters, rng)
      details = {
        "source": f"{record.source}-{copy // COPIES_PER_WORK}",
        "kind": record.kind,
        "order": record.order,
        "start": str(record.key),
      }
      if copy == undated_copy:
        details = {"source": f"{record.source}-undated", "kind": record.kind}
      line = {"_id": f"r{number}", "text": text, "metadata": details}
      file.write(json.dumps(line, ensure_ascii=False) + "\n")


def run(command: list[str], log: pathlib.Path) -> str:
  """Returns what a command cost; what it says is added to the log."""
  started = time.monotonic()
  with log.open("a", encoding="utf-8") as file:
    process = subprocess.Popen(command, stdout=file, stderr=file)
    # Its processor time and the most memory that it had.
    _, status, usage = os.wait4(process.pid, 0)
  process.returncode = os.waitstatus_to_exitcode(status)
  if process.returncode:
    raise SystemExit(f"{' '.join(command)}: stopped, see {log}")
  return (
    f"{time.monotonic() - started:,.0f} s, of the processor "
    f"{usage.ru_utime + usage.ru_stime:,.0f} s, "
    f"{usage.ru_maxrss / 2**20:.2f} GiB"
  )


def measure(
  benchmark: Benchmark,
  folder: pathlib.Path,
  size: int,
  flags: argparse.Namespace,
) -> None:
  """Prints what an index of one size costs, then what `ask_speed` says."""
  corpus, index = folder / str(size), folder / f"{size}.index"
  undated_copy = None if flags.dated else UNDATED_COPY
  write_corpus(benchmark, corpus, size, undated_copy)
  cost = run(
    [
      *(sys.executable, "-m", "ctd_jax.index"),
      *(f"--index={index}", f"--add=beir:{corpus}"),
      *["--nopassages"] * flags.nopassages,
    ],
    folder / f"{size}.log",
  )
  size_on_disk = sum(
    path.stat().st_size for path in index.rglob("*") if path.is_file()
  )
  print(
    f"{size:,} records: {cost}; {size_on_disk / 2**30:.2f} GiB on disk",
    flush=True,
  )
  subprocess.run(
    [sys.executable, "-m", "tests.benchmarks.ask_speed", f"--index={index}"],
    check=True,
  )


def main() -> None:
  """Reads the flags and measures every size."""
  parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
  parser.add_argument("--name", default="chunqiutr/rebuilt")
  parser.add_argument("--data_dir", required=True)
  parser.add_argument("--folder", type=pathlib.Path, required=True)
  parser.add_argument("--records", default="200000,1000000")
  parser.add_argument("--dated", action="store_true")
  parser.add_argument("--nopassages", action="store_true")
  flags = parser.parse_args()
  benchmark = load.load_benchmark(flags.name, flags.data_dir)
  for size in map(int, flags.records.split(",")):
    measure(benchmark, flags.folder, size, flags)


if __name__ == "__main__":
  main()
