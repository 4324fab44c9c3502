"""Time and peak memory of searching galleries of growing size.

Random unit vectors in memory-mapped pieces; the first ten records of every
query by the search of ctd_jax and by a FAISS flat index, both of them exact.
Every size and system has a process of its own for the memory; the processes
take turns. A turn waits until the threads of the others sleep, since numpy's
spin on for a tenth of a second, then searches for half a second at least: its
time is the median of its searches, that of a system the median of its turns.
Memory is the peak of what a process allocates, pages of files left out, in one
more search: looking at it takes a tenth of a core.

FAISS is not a dependency of the project: pip install 'faiss-cpu>=1.9,<2'.

  python tests/benchmarks/search_scale.py --folder=/tmp/scale
"""

import argparse
import multiprocessing
import os
import pathlib
import shutil
import statistics
import threading
import time
from collections.abc import Callable

import numpy as np

PIECE = 65_536
PAUSE = 0.2  # seconds before a turn, until threads of other processes sleep
TURN = 0.5  # seconds of searches in a turn, at least
SYSTEMS = ("ctd_jax", "faiss")
SIZES = (20_000, 200_000, 2_000_000)
QUERIES, WIDTH, DEPTH, REPEATS = 1024, 128, 10, 3


def write(path: pathlib.Path, size: int) -> None:
  """Writes random unit vectors in pieces."""
  vectors = np.lib.format.open_memmap(
    path, "w+", np.float32, shape=(size, WIDTH)
  )
  for start in range(0, size, PIECE):
    count = min(PIECE, size - start)
    vectors[start : start + count] = unit_vectors(count, start)


def unit_vectors(count: int, seed: int) -> np.ndarray:
  """Returns random directions, fp32 [count, WIDTH]."""
  vectors = np.random.default_rng(seed).standard_normal(
    (count, WIDTH), np.float32
  )
  return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def searcher(
  system: str, records, queries: np.ndarray
) -> Callable[[], np.ndarray]:
  """Returns what finds the first records [Q, DEPTH], ready to be timed."""
  if system == "ctd_jax":
    import jax
    import jax.numpy as jnp

    from ctd_jax.retrieval import search

    score = jax.tree_util.Partial(
      lambda q, r: jnp.matmul(q, r.T, precision=jax.lax.Precision.HIGHEST)
    )
    everything = {"all": np.ones(len(records), bool)}
    return lambda: search.search_top_k(
      queries, records, score, DEPTH, everything
    )["all"][0]
  import faiss

  index = faiss.IndexFlatIP(queries.shape[1])
  for start in range(0, len(records), PIECE):
    index.add(np.ascontiguousarray(records[start : start + PIECE]))
  return lambda: index.search(queries, DEPTH)[1]


def allocated() -> int:
  """Returns the bytes of this process that are no pages of files."""
  status = pathlib.Path("/proc/self/status").read_text()
  (line,) = (x for x in status.splitlines() if x.startswith("RssAnon"))
  return 1024 * int(line.split()[1])


def find_peak(search: Callable[[], np.ndarray]) -> int:
  """Returns the most bytes that are allocated while it searches."""
  peak, done = [allocated()], threading.Event()

  def watch() -> None:
    while not done.wait(0.002):
      peak[0] = max(peak[0], allocated())

  watcher = threading.Thread(target=watch, daemon=True)
  watcher.start()
  search()
  done.set()
  watcher.join()
  return peak[0]


def work(system: str, path: pathlib.Path, size: int, pipe) -> None:
  """Searches whenever it is told to; tells seconds and memory."""
  queries = unit_vectors(QUERIES, seed=1)
  search = searcher(system, np.load(path, mmap_mode="r")[:size], queries)
  search()
  while pipe.recv():
    time.sleep(PAUSE)
    seconds = []
    while sum(seconds) < TURN:
      started = time.perf_counter()
      found = search()
      seconds.append(time.perf_counter() - started)
    pipe.send((statistics.median(seconds), found))
  pipe.send(find_peak(search))


def measure(path: pathlib.Path, size: int) -> dict[str, tuple[float, float]]:
  """Returns system -> (median seconds, peak MiB) for one size."""
  context = multiprocessing.get_context("spawn")
  pipes, seconds, lists = {}, {}, {}
  for system in SYSTEMS:
    pipes[system], theirs = context.Pipe()
    process = context.Process(
      target=work, args=(system, path, size, theirs), daemon=True
    )
    process.start()
    theirs.close()  # else an error there would leave us waiting
    seconds[system] = []
  for _ in range(REPEATS):
    for system, pipe in pipes.items():
      pipe.send(True)
      took, lists[system] = pipe.recv()
      seconds[system].append(took)
  first, *others = lists.values()
  for other in others:
    # Sums of another order may change places in the last digits.
    same = np.mean(first == other)
    if same < 0.999:
      raise SystemExit(f"{size} records: only {same:.4f} of the places agree")
  result = {}
  for system, pipe in pipes.items():
    pipe.send(False)
    result[system] = statistics.median(seconds[system]), pipe.recv() / 2**20
  return result


def main() -> None:
  """Reads the flags, writes the vectors, measures every size."""
  parser = argparse.ArgumentParser(
    description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
  )
  parser.add_argument(
    "--folder", required=True, help="for the vectors; is made and removed"
  )
  flags = parser.parse_args()
  folder = pathlib.Path(flags.folder)
  if folder.exists():
    raise SystemExit(f"error: --folder={folder} exists; name a new one")
  # On a machine that others use, threads that spin while they wait cost FAISS
  # half its speed.
  os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
  # Its OpenBLAS takes its oldest kernels, a third as fast, for a CPU that is
  # younger than itself.
  if "avx512f" in pathlib.Path("/proc/cpuinfo").read_text():
    os.environ.setdefault("OPENBLAS_CORETYPE", "SkylakeX")
  try:
    folder.mkdir(parents=True)
    path = folder / "vectors.npy"
    write(path, max(SIZES))
    print(
      f"{QUERIES} queries, width {WIDTH}, depth {DEPTH}, median of {REPEATS}"
    )
    print("   records  system    seconds  ratio      MiB")
    for size in SIZES:
      found = measure(path, size)
      base = found[min(found, key=lambda name: name != "faiss")][0]
      for system, (seconds, memory) in found.items():
        print(
          f"{size:>10,}  {system:8} {seconds:>8.3f} {seconds / base:>6.2f} "
          f"{memory:>8.0f}",
          flush=True,
        )
  finally:
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
  main()
