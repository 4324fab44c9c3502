"""Time, memory and recall of a search in shards beside exact searches.

Vectors of length 1 around random centres, and questions likewise, one asked
after the other: by the search of ctd_jax over files that are mapped, by shards
(`corpora.shard_search`, an eighth of their lists or all vectors), and by DuckDB
over the parquet files of vectors. Each has a process of its own; memory is the
most that it allocated, pages of files apart, as beam_scale measures it.

  python -m tests.benchmarks.shard_search --folder=/tmp/shards \\
    --records=2000000 --width=64

It needs LanceDB and DuckDB (pip install 'ctd_jax[lance,sql]'). --rows
writes result rows.
"""

from __future__ import annotations

import argparse
import multiprocessing
import pathlib
import shutil
import statistics
import threading
import time
from collections.abc import Callable

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from ctd_jax.corpora import corpus_files, shards
from ctd_jax.corpora.corpus_files import CorpusFile, WorkOutcome
from tests.benchmarks import cost_rows, search_scale

SYSTEMS = ("exact", "lance", "lance-exact", "duckdb")
_WORK_ROWS = 20_000
_ROWS_OF_CENTRE = 200
_SPREAD = 0.7  # length of what is added to a centre
_FIRST_DAY = 1_457_000  # 724 BCE


def make_vectors(count: int, width: int, centres: int, seed: int) -> np.ndarray:
  """Returns vectors of length 1 around the same centres, fp32."""
  rng = np.random.default_rng((seed, centres))
  middle = search_scale.unit_vectors(centres, width, seed=0)
  vectors = middle[rng.integers(centres, size=count)]
  vectors += _SPREAD * search_scale.unit_vectors(count, width, seed + 1)
  return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def write_corpus(folder: pathlib.Path, flags: argparse.Namespace) -> CorpusFile:
  """Writes the dates and vectors of a corpus, also as one .npy; no dating."""
  centres = max(1, flags.records // _ROWS_OF_CENTRE)
  works = []
  whole = np.lib.format.open_memmap(
    folder / "vectors.npy", "w+", np.float32, (flags.records, flags.width)
  )
  for start in range(0, flags.records, _WORK_ROWS):
    count = min(_WORK_ROWS, flags.records - start)
    name = f"work{start // _WORK_ROWS:06}"
    work = WorkOutcome(
      source=name, work=name, name=name, sections=count, fingerprint=name
    )
    vectors = make_vectors(count, flags.width, centres, seed=2 + start)
    whole[start : start + count] = vectors
    days = _FIRST_DAY + 30 * np.arange(count)
    columns = {
      "work": [name] * count,
      "row": np.arange(count),
      "text": [f"{name} {row}" for row in range(count)],
      "common_era": [""] * count,
      "edtf": [""] * count,
      "probability": np.ones(count),
      "first_julian_day": days,
      "last_julian_day": days + 29,
    }
    path = corpus_files.find_path(folder, corpus_files.DATES_FOLDER, name)
    path.parent.mkdir(exist_ok=True)
    parquet.write_table(pa.table(columns), path)
    corpus_files.write_vectors(
      corpus_files.find_path(folder, corpus_files.VECTORS_FOLDER, name),
      work,
      vectors,
      name,
    )
    works.append(work)
  whole.flush()
  return CorpusFile(version="", reigns="", works=tuple(works))


def open_search(
  system: str, folder: pathlib.Path, depth: int
) -> Callable[[np.ndarray], list[int]]:
  """Returns what finds the rows of the corpus that are next to a question."""
  if system == "exact":
    import jax
    import jax.numpy as jnp

    from ctd_jax.retrieval import search

    records = np.load(folder / "vectors.npy", mmap_mode="r")
    everything = {"all": np.ones(len(records), bool)}
    score = jax.tree_util.Partial(
      lambda q, r: jnp.matmul(q, r.T, precision=jax.lax.Precision.HIGHEST)
    )
    return lambda question: search.search_top_k(
      question[None], records, score, depth, everything
    )["all"][0][0].tolist()
  if system == "duckdb":
    import duckdb

    connection = duckdb.connect()
    connection.execute("SET preserve_insertion_order = false")

    def by_duckdb(question: np.ndarray) -> list[int]:
      rows = connection.execute(
        f"SELECT work, row FROM '{folder}/vectors/*.parquet' ORDER BY "
        "list_inner_product(vector, $1::FLOAT[]) DESC LIMIT $2",
        [question.tolist(), depth],
      ).fetchall()
      return [_number(*row) for row in rows]

    return by_duckdb

  from ctd_jax.corpora import shard_search

  def by_shards(question: np.ndarray) -> list[int]:
    [hits] = shard_search.search_shards(
      folder, question[None], depth, is_exact=system == "lance-exact"
    )
    return [_number(hit.work, hit.row) for hit in hits]

  return by_shards


def _number(work: str, row: int) -> int:
  return int(work.removeprefix("work")) * _WORK_ROWS + row


def ask(system: str, flags: argparse.Namespace, pipe) -> None:
  """Asks all questions; tells the seconds of each, the rows and the memory."""
  peak, done = [search_scale.allocated()], threading.Event()

  def watch() -> None:
    while not done.wait(0.01):
      peak[0] = max(peak[0], search_scale.allocated())

  threading.Thread(target=watch, daemon=True).start()
  folder = pathlib.Path(flags.folder)
  centres = max(1, flags.records // _ROWS_OF_CENTRE)
  questions = make_vectors(flags.questions, flags.width, centres, seed=1)
  find = open_search(system, folder, flags.depth)
  find(questions[0])
  seconds, processor, found = [], time.process_time(), []
  for question in questions:
    start = time.perf_counter()
    found.append(find(question))
    seconds.append(time.perf_counter() - start)
  processor = (time.process_time() - processor) / len(questions)
  done.set()
  pipe.send((statistics.median(seconds), processor, found, peak[0]))


def main() -> None:
  """Reads the flags, writes the corpus, measures every system."""
  parser = argparse.ArgumentParser(
    description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
  )
  parser.add_argument("--folder", required=True, help="is made and removed")
  parser.add_argument("--records", type=int, default=200_000)
  parser.add_argument("--width", type=int, default=64)
  parser.add_argument("--shard_rows", type=int, default=1_000_000)
  parser.add_argument("--questions", type=int, default=30)
  parser.add_argument("--depth", type=int, default=10)
  parser.add_argument("--systems", default=",".join(SYSTEMS))
  parser.add_argument("--rows", type=pathlib.Path, help="file of result rows")
  flags = parser.parse_args()
  folder = pathlib.Path(flags.folder)
  if folder.exists():
    raise SystemExit(f"error: --folder={folder} exists; name a new one")
  folder.mkdir(parents=True)
  context = multiprocessing.get_context("spawn")
  rows, expected = [], None
  try:
    corpus = write_corpus(folder, flags)
    wall, processor = time.perf_counter(), time.process_time()
    planned = shards.plan_shards(corpus, flags.shard_rows)
    for shard in planned:
      shards.write_shard(str(folder), shard)
    shards.write_list(folder, planned)
    wall, processor = (
      time.perf_counter() - wall,
      time.process_time() - processor,
    )
    disk = cost_rows.count_bytes(folder / corpus_files.SHARDS_FOLDER)
    print(
      f"shards of {flags.records:,} vectors of {flags.width}: {wall:.1f} s, "
      f"{processor:.1f} of processor, {disk / 2**20:,.0f} MiB",
      flush=True,
    )
    figures = {
      "build": {"seconds": wall, "processor": processor, "disk": disk / 2**30}
    }
    print("system        ms  processor  recall      MiB")
    for system in flags.systems.split(","):
      ours, theirs = context.Pipe()
      process = context.Process(target=ask, args=(system, flags, theirs))
      process.start()
      theirs.close()
      seconds, processor, found, peak = ours.recv()
      process.join()
      expected = expected or found
      recall = np.mean(
        [
          len({*one} & {*other}) / flags.depth
          for one, other in zip(found, expected, strict=True)
        ]
      )
      print(
        f"{system:<12} {1000 * seconds:>5.1f} {1000 * processor:>10.1f} "
        f"{recall:>7.3f} {peak / 2**20:>8,.0f}",
        flush=True,
      )
      figures[system] = {
        "median_ms": 1000 * seconds,
        "processor_ms": 1000 * processor,
        "recall": recall,
        "gibibytes": peak / 2**30,
        "load": cost_rows.read_load(),
      }
    for system, values in figures.items():
      rows += cost_rows.make_cost_rows(
        "tests.benchmarks.shard_search",
        f"vectors-{flags.width}",
        f"{system}-{flags.records}",
        "shards",
        values,
      )
    cost_rows.write_rows(flags.rows, rows)
  finally:
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
  main()
