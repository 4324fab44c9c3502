"""BM25 and its time prior with constants chosen on validation queries.

Why: the published rows have the constants of a library and of a script's
flags, and whoever is better than a baseline that nobody tuned has shown
little. The candidate with the highest hit@1 of the mode that selects is taken;
of equals the first, and the published constants stand first. BM25 is tuned
alone, then the prior on top of it. Only validation queries and their labels
are read. Called by `baselines`.

Axes: Q queries, k results.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import tqdm
from absl import logging

from ctd_jax.benchmark import runs
from ctd_jax.benchmark.dataset import Benchmark
from ctd_jax.evaluation import protocol
from ctd_jax.retrieval import bm25
from ctd_jax.retrieval.search import Found
from ctd_jax.systems import time_prior

MEASURE = "hit@1"
# Fields of `bm25.Constants` and `time_prior.Constants`.
LEXICAL_GRID = {
  "k1": (0.5, 0.9, 1.5, 2.5, 4.0),
  "b": (0.0, 0.25, 0.5, 0.75, 1.0),
}
PRIOR_GRID = {
  "feedback": (5, 20, 50, 200),
  "bandwidth": (3.0, 6.0, 12.0, 24.0),
  "weight": (1.0, 2.0, 4.0, 8.0, 16.0),
}

Grid = Mapping[str, Sequence[float]]
Rank = Callable[
  [Sequence[str], int, Mapping[str, np.ndarray], bm25.Constants], Found
]


@dataclasses.dataclass(frozen=True)
class Tuned:
  """A system with free constants, which are chosen when it is first asked.

  Attributes:
    benchmark: whose validation queries choose.
    mode: by which they choose.
    grid: returns the candidates.
    rank: (texts of queries, k, galleries, candidate) -> rankings.
  """

  benchmark: Benchmark
  mode: protocol.Mode
  grid: Callable[[], Sequence[bm25.Constants]]
  rank: Rank

  @functools.cached_property
  def candidates(self) -> list[tuple[bm25.Constants, float]]:
    """The candidates with their validation hit@1, the best first.

    Raises:
      ValueError: if the benchmark has no validation query.
    """
    if not self.benchmark.queries["validation"]:
      raise ValueError(
        f"{self.benchmark.name} has no validation queries to choose constants "
        "by; leave the tuned systems out of config.eval.baselines"
      )
    grid = self.grid()
    bar = tqdm.tqdm(grid, "tune", unit="candidate", disable=None)
    values = [self._value(candidate) for candidate in bar]
    # The sort is stable: equals stay in order.
    found = sorted(zip(grid, values, strict=True), key=lambda pair: -pair[1])
    best, value = found[0]
    logging.info("chosen of %d: %s, %s %.4f", len(grid), best, MEASURE, value)
    return found

  @property
  def constants(self) -> bm25.Constants:
    """The best of `candidates`."""
    return self.candidates[0][0]

  def topk(
    self, queries: Sequence[str], k: int, galleries: Mapping[str, np.ndarray]
  ) -> Found:
    """Returns the k best records with the constants that were chosen.

    Args:
      queries: [Q] texts, of any split.
      k: results per query.
      galleries: name -> [N] bool.
    """
    return self.rank(queries, k, galleries, self.constants)

  def table(self) -> str:
    """Returns `candidates` as lines of tab-separated values, with a header."""
    names = dataclasses.asdict(self.constants)
    lines = [[*names, f"validation_{MEASURE}"]] + [
      [*map(str, dataclasses.astuple(constants)), f"{value:.6f}"]
      for constants, value in self.candidates
    ]
    return "".join("\t".join(line) + "\n" for line in lines)

  def _value(self, candidate: bm25.Constants) -> float:
    """Returns the validation hit@1 of a candidate."""
    queries, mode = self.benchmark.queries["validation"], self.mode
    kinds = self.benchmark.kinds
    gallery = {mode.gallery: protocol.gallery_mask(kinds, mode.gallery)}
    ids = self.benchmark.record_ids
    (run,) = runs.from_topk(
      *("tuned", time_prior.TRACK, bm25.SCORE_MODE, "validation"),
      [query.query_id for query in queries],
      ids,
      self.rank([query.text for query in queries], 1, gallery, candidate),
    )
    kind_of = dict(zip(ids, kinds, strict=True))
    table = protocol.evaluate_run(run, queries, kind_of, mode, (MEASURE,))
    return table.mean(MEASURE)


def systems(
  benchmark: Benchmark,
  mode: protocol.Mode,
  lexical_grid: Grid = LEXICAL_GRID,
  prior_grid: Grid = PRIOR_GRID,
) -> tuple[Tuned, Tuned]:
  """Returns BM25, and BM25 with the time prior; nothing is computed yet.

  Args:
    benchmark: whose gallery is ranked, and whose validation queries choose.
    mode: by which they choose.
    lexical_grid: values of constants of BM25.
    prior_grid: values of constants of the prior.
  """
  timeline = benchmark.timeline
  months = np.array([timeline.ordinal(r.key) for r in benchmark.records])

  @functools.cache
  def counts() -> bm25.TokenCounts:
    return bm25.TokenCounts.of([record.text for record in benchmark.records])

  def rank(queries, k, galleries, constants) -> Found:
    return bm25.topk(queries, counts(), k, galleries, constants)

  def rank_prior(queries, k, galleries, constants) -> Found:
    return time_prior.topk(
      queries, counts(), months, len(timeline), k, galleries, constants
    )

  def grid() -> list[bm25.Constants]:
    return _candidates(bm25.PUBLISHED, lexical_grid)

  def grid_prior() -> list[bm25.Constants]:
    chosen = dataclasses.asdict(lexical.constants)
    first = dataclasses.replace(time_prior.PUBLISHED, **chosen)
    return _candidates(first, prior_grid)

  lexical = Tuned(benchmark, mode, grid, rank)
  return lexical, Tuned(benchmark, mode, grid_prior, rank_prior)


def _candidates(first: bm25.Constants, grid: Grid) -> list[bm25.Constants]:
  """Returns `first`, then what it becomes with every point of the grid."""
  rest = (
    dataclasses.replace(first, **dict(zip(grid, point, strict=True)))
    for point in itertools.product(*grid.values())
  )
  return list(dict.fromkeys((first, *rest)))
