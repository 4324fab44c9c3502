"""Cost of the grid of modes, families and measures, from embeddings.

Ours ranks once for all galleries and takes every mode and family from those
run files in memory. Compared with a plain script in numpy that evaluates each
mode, or each family of each mode, by itself: a matrix of all scores, a full
argsort, measures by indexing. Queries of validation and test; all sides give
the same table, which is checked, and take turns. Seconds of CPU are
printed as well: other programs do not change them much.

  python -m ctd_jax.export --workdir=runs/ft --output=vectors --vectors
  python tests/benchmarks/protocol_grid.py --data_dir=DIR \\
    --name=chunqiutr/rebuilt --vectors=vectors --repeats=3

Without --vectors they are random, a query's near those of its positives.
"""

from __future__ import annotations

import argparse
import pathlib
import time

import jax
import jax.numpy as jnp
import numpy as np

from ctd_jax.benchmark import runs
from ctd_jax.benchmark.dataset import Benchmark
from ctd_jax.evaluation import protocol
from ctd_jax.retrieval import search
from ctd_jax_datasets import load

SPLITS = ("validation", "test")
DEPTH = 10
WIDTH = 128
FAMILIES = [name for name in protocol.FAMILIES if name != protocol.MACRO_FAMILY]
CUTOFFS = (1, 5, 10)
# (split, mode, family, measure) -> value.
Grid = dict[tuple[str, str, str, str], float]


def unit(vectors: np.ndarray) -> np.ndarray:
  """Returns vectors of length 1, fp32."""
  lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
  return (vectors / lengths).astype(np.float32)


def random_vectors(benchmark: Benchmark) -> dict[str, np.ndarray]:
  """Returns vectors of records and of each split's queries."""
  rng = np.random.default_rng(0)
  records = unit(rng.standard_normal((len(benchmark.records), WIDTH)))
  place = {record_id: i for i, record_id in enumerate(benchmark.record_ids)}
  found = {"records": records}
  for split in SPLITS:
    queries = benchmark.queries[split]
    centres = [
      records[[place[i] for i in query.positives]].mean(0) for query in queries
    ]
    noise = rng.standard_normal((len(queries), WIDTH)) / np.sqrt(WIDTH)
    found[split] = unit(unit(np.stack(centres)) + 2 * noise)
  return found


def read_vectors(folder: pathlib.Path) -> dict[str, np.ndarray]:
  """Returns the vectors of an export."""
  found = {split: np.load(folder / f"queries.{split}.npy") for split in SPLITS}
  return {"records": np.load(folder / "records.npy"), **found}


def dot(queries: jax.Array, records: jax.Array) -> jax.Array:
  """Returns the inner products, fp32 [b, n]."""
  return jnp.matmul(queries, records.T, precision=jax.lax.Precision.HIGHEST)


SCORE = jax.tree_util.Partial(dot)


def ours(benchmark: Benchmark, vectors: dict[str, np.ndarray]) -> Grid:
  """Returns the grid as `ctd_jax.evaluate` makes it."""
  kinds = {record.record_id: record.kind for record in benchmark.records}
  masks = protocol.gallery_masks(benchmark.kinds)
  grid = {}
  for split in SPLITS:
    queries = benchmark.queries[split]
    found = runs.make_runs(
      "system",
      "T0",
      "semantic",
      split,
      [query.query_id for query in queries],
      benchmark.record_ids,
      search.search_top_k(
        vectors[split], vectors["records"], SCORE, DEPTH, masks
      ),
    )
    of_gallery = {run.gallery: run for run in found}
    for mode in protocol.MODES.values():
      table = protocol.evaluate_run(
        of_gallery[mode.gallery], queries, kinds, mode
      )
      for family in FAMILIES:
        for measure, value in table.means_by_measure(family).items():
          if measure not in protocol.FIRST_KIND_BY_MEASURE:
            grid[split, mode.name, family, measure] = value
  return grid


def dense(
  benchmark: Benchmark, vectors: dict[str, np.ndarray], by_family: bool
) -> Grid:
  """Returns the grid by sorting all scores of each mode.

  Args:
    by_family: sort anew for each family, not only for each mode.
  """
  kinds = {record.record_id: record.kind for record in benchmark.records}
  place = {record_id: i for i, record_id in enumerate(benchmark.record_ids)}
  grid = {}
  for split in SPLITS:
    queries = benchmark.queries[split]
    row = {query.query_id: i for i, query in enumerate(queries)}
    families = {q.query_id: protocol.families_of(q, kinds) for q in queries}
    for mode in protocol.MODES.values():
      judged = protocol.build_qrels(queries, kinds, mode)
      mask = protocol.gallery_mask(benchmark.kinds, mode.gallery)
      members = np.flatnonzero(mask)

      def values_of(ids, split=split, row=row, judged=judged, members=members):
        found = measures(
          vectors[split][[row[i] for i in ids]],
          vectors["records"],
          members,
          [[place[r] for r in judged[i]] for i in ids],
        )
        return dict(zip(ids, found, strict=True))

      values = {} if by_family else values_of(list(judged))
      for family in FAMILIES:
        kept = [i for i in judged if family in families[i]]
        if by_family and kept:
          values = values_of(kept)
        means = np.mean([values[i] for i in kept] or [[0.0] * 6], axis=0)
        for measure, mean in zip(MEASURES, means, strict=True):
          grid[split, mode.name, family, measure] = float(mean)
  return grid


MEASURES = (*(f"hit@{k}" for k in CUTOFFS), "mrr@10", "ndcg@10", "recall@10")


def measures(
  queries: np.ndarray,
  records: np.ndarray,
  members: np.ndarray,
  positives: list[list[int]],
) -> np.ndarray:
  """Returns `MEASURES` of every query, [Q, 6], by a full argsort."""
  order = np.argsort(-(queries @ records[members].T), axis=1)
  first = members[order[:, :DEPTH]]
  hits = np.array(
    [np.isin(row, right) for row, right in zip(first, positives, strict=True)]
  ).reshape(-1, DEPTH)
  gains = 1 / np.log2(np.arange(DEPTH) + 2)
  ideal = np.cumsum(gains)[[min(len(right), DEPTH) - 1 for right in positives]]
  counts = np.array([len(right) for right in positives])
  rank = np.where(hits.any(1), 1 / (hits.argmax(1) + 1.0), 0)
  return np.stack(
    [hits[:, :k].any(1) for k in CUTOFFS]
    + [rank, hits @ gains / ideal, hits.sum(1) / counts],
    axis=1,
  )


def main() -> None:
  """Reads the flags, compares and prints."""
  parser = argparse.ArgumentParser(
    description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
  )
  parser.add_argument("--name", default="chunqiutr/rebuilt")
  parser.add_argument("--data_dir", required=True)
  parser.add_argument("--vectors", help="folder of `ctd_jax.export --vectors`")
  parser.add_argument("--repeats", type=int, default=3)
  flags = parser.parse_args()
  benchmark = load.load_benchmark(flags.name, flags.data_dir)
  vectors = random_vectors(benchmark)
  if flags.vectors:
    vectors = read_vectors(pathlib.Path(flags.vectors))
  ways = {
    "one ranking for all (ours)": lambda: ours(benchmark, vectors),
    "dense, per mode": lambda: dense(benchmark, vectors, by_family=False),
    "dense, per mode and family": lambda: dense(benchmark, vectors, True),
  }
  ours(benchmark, vectors)  # compiles
  seconds, grids = {name: [] for name in ways}, {}
  for _ in range(flags.repeats):
    for name, way in ways.items():
      started = time.perf_counter(), time.process_time()
      grids[name] = way()
      ended = time.perf_counter(), time.process_time()
      seconds[name].append(np.subtract(ended, started))
  first, *others = grids.values()
  for other in others:
    if first.keys() != other.keys():
      raise SystemExit("error: the grids have different cells")
    worst = max(abs(first[cell] - other[cell]) for cell in first)
    # Scores of another order of summation may change two places.
    if worst > 2e-3:
      raise SystemExit(f"error: the grids differ, by up to {worst}")
  count = sum(len(benchmark.queries[split]) for split in SPLITS)
  print(
    f"{count} queries, {len(benchmark.records)} records, {len(first)} cells, "
    f"median of {flags.repeats}"
  )
  medians = {name: np.median(took, axis=0) for name, took in seconds.items()}
  first = next(iter(medians.values()))
  print(f"{'':28} {'seconds':>8} {'ratio':>6} {'of CPU':>8} {'ratio':>6}")
  for name, (wall, busy) in medians.items():
    print(
      f"{name:28} {wall:>8.2f} {wall / first[0]:>6.1f} "
      f"{busy:>8.2f} {busy / first[1]:>6.1f}"
    )


if __name__ == "__main__":
  main()
