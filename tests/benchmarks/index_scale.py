"""Time, memory and size of an index of growing size, and of questions to it.

The records of a built data set are repeated as a BEIR folder, in which hardly a
text stands twice (`dating_scale.vary_text`). Eight copies make up one set of
works. All records have their month but those of one copy, whose works are
undated and are dated by the model. The index is built by the command in a
process of its own; then `ask_speed` asks it. An index that an earlier run has
built and measured is not built again.

  python -m tests.benchmarks.index_scale --data_dir=DIR --folder=FOLDER
    [--records=200000,1000000] [--name=chunqiutr/rebuilt] [--rows=FILE]
"""

import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import time

import numpy as np

from ctd_jax.benchmark.benchmark import NO_EVENT, Benchmark
from ctd_jax.evaluation import results
from ctd_jax_datasets import load
from tests.benchmarks import dating_scale, result_rows

COPIES_PER_WORK = 8
UNDATED_COPY = 1


def write_corpus(
  benchmark: Benchmark,
  folder: pathlib.Path,
  num_records: int,
) -> None:
  """Writes `num_records` records as a BEIR folder without questions."""
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
      if copy == UNDATED_COPY:
        details = {"source": f"{record.source}-undated", "kind": record.kind}
      line = {"_id": f"r{number}", "text": text, "metadata": details}
      file.write(json.dumps(line, ensure_ascii=False) + "\n")


def run(command: list[str], log: pathlib.Path) -> dict[str, float]:
  """Returns what a command cost; what it says is added to the log."""
  load, started = result_rows.read_load(), time.monotonic()
  with log.open("a", encoding="utf-8") as file:
    process = subprocess.Popen(command, stdout=file, stderr=file)
    # Its processor time and the most memory that it had.
    _, status, usage = os.wait4(process.pid, 0)
  process.returncode = os.waitstatus_to_exitcode(status)
  if process.returncode:
    raise SystemExit(f"{' '.join(command)}: stopped, see {log}")
  return {
    "seconds": time.monotonic() - started,
    "processor": usage.ru_utime + usage.ru_stime,
    "gibibytes": usage.ru_maxrss / 2**20,
    "load": (load + result_rows.read_load()) / 2,
  }


def build(
  benchmark: Benchmark,
  index: pathlib.Path,
  size: int,
  flags: argparse.Namespace,
) -> dict[str, float]:
  """Builds an index of one size and returns what it cost."""
  corpus = flags.folder / str(size)
  write_corpus(benchmark, corpus, size)
  figures = run(
    [
      *(sys.executable, "-m", "ctd_jax.index"),
      *(f"--index={index}", f"--add=beir:{corpus}"),
    ],
    flags.folder / f"{size}.log",
  )
  size_on_disk = sum(
    path.stat().st_size for path in index.rglob("*") if path.is_file()
  )
  figures["disk"] = size_on_disk / 2**30
  return figures


def measure(
  benchmark: Benchmark, size: int, flags: argparse.Namespace
) -> list[results.ResultRow]:
  """Measures an index of one size, then what `ask_speed` says of it."""
  index = flags.folder / f"{size}.index"
  build_rows = flags.folder / f"{size}.build.json"
  if not build_rows.exists():
    shutil.rmtree(index, ignore_errors=True)
    figures = build(benchmark, index, size, flags)
    rows = result_rows.make_cost_rows(
      result_rows.describe_run("index_scale", figures["seconds"]),
      benchmark.name,
      result_rows.name_system(size),
      "index",
      figures,
    )
    results.write_result_rows(build_rows, rows)
  ask_rows = flags.folder / f"{size}.ask.json"
  subprocess.run(
    [
      *(sys.executable, "-m", "tests.benchmarks.ask_speed"),
      *(f"--index={index}", f"--name={benchmark.name}", f"--rows={ask_rows}"),
    ],
    check=True,
  )
  return [
    row
    for path in (build_rows, ask_rows)
    for row in results.read_result_rows(path)
  ]


def main() -> None:
  """Reads the flags and measures every size."""
  parser = result_rows.make_parser(__doc__)
  parser.add_argument("--folder", type=pathlib.Path, required=True)
  parser.add_argument("--records", default="200000,1000000")
  flags = parser.parse_args()
  benchmark = load.load_benchmark(flags.name, flags.data_dir)
  rows = []
  for size in map(int, flags.records.split(",")):
    of_size = measure(benchmark, size, flags)
    result_rows.print_rows(of_size)
    rows += of_size
  result_rows.write_rows(flags.rows, rows)


if __name__ == "__main__":
  main()
