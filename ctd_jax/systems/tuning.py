"""BM25 and its time prior with constants chosen on validation queries.

The published rows have the constants of a library and of a script's flags, and
a system that beats an untuned baseline has shown little. The candidate with the
highest hit@1 in the selecting mode is taken, the first one if several are
equal; the published constants come first. BM25 is tuned alone, then the prior
on top of it. Only validation queries and their labels are read.

Axes: Q queries, N records, k results.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Callable, Mapping, Sequence

from absl import logging

from ctd_jax.benchmark import runs
from ctd_jax.benchmark.benchmark import Benchmark
from ctd_jax.evaluation import protocol
from ctd_jax.retrieval import bm25
from ctd_jax.retrieval.host_search import Galleries, TopK
from ctd_jax.systems import registry, time_prior
from ctd_jax.utils import output

TUNING_MEASURE = "hit@1"  # the headline measure of the benchmark
# Fields of `bm25.BM25Constants` and `time_prior.TimePriorConstants`.
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
RankFn = Callable[[Sequence[str], int, Galleries, bm25.BM25Constants], TopK]


@dataclasses.dataclass(frozen=True)
class TunedSystem:
  """System with free constants, which are chosen at its first search."""

  benchmark: Benchmark  # whose validation queries choose
  mode: protocol.EvaluationMode  # by which they choose
  published: bm25.BM25Constants  # the first candidate
  grid: Grid  # values of its fields; every combination is a candidate
  # (texts of queries, k, galleries, candidate) -> rankings.
  rank_records: RankFn
  # Its constants, tuned before, replace the published ones of the same names.
  base: TunedSystem | None = None

  @functools.cached_property
  def candidates(self) -> list[tuple[bm25.BM25Constants, float]]:
    """The candidates with their validation hit@1, the best first.

    Raises:
      ValueError: if the benchmark has no validation query.
    """
    if not self.benchmark.queries["validation"]:
      raise ValueError(
        f"{self.benchmark.name} has no validation queries to choose constants "
        "by; leave the tuned systems out of config.eval.baselines"
      )
    published = self.published
    if self.base:
      tuned_before = dataclasses.asdict(self.base.constants)
      published = dataclasses.replace(published, **tuned_before)
    points = itertools.product(*self.grid.values())
    combinations = (
      dataclasses.replace(published, **dict(zip(self.grid, point, strict=True)))
      for point in points
    )
    grid = list(dict.fromkeys((published, *combinations)))
    values = [
      self._validation_value(candidate)
      for candidate in output.Progress(grid, "tune", unit="candidate")
    ]
    # The sort is stable: of equals the first, the published constants, wins.
    scored_candidates = sorted(
      zip(grid, values, strict=True), key=lambda pair: -pair[1]
    )
    (best, value), *_ = scored_candidates
    logging.info(
      "chosen of %d: %s, %s %.4f", len(grid), best, TUNING_MEASURE, value
    )
    return scored_candidates

  @property
  def constants(self) -> bm25.BM25Constants:
    """The best of `candidates`."""
    return self.candidates[0][0]

  def rank_with_tuned_constants(
    self, queries: Sequence[str], k: int, galleries: Galleries
  ) -> TopK:
    """Returns the k best records with the constants that were chosen.

    Args:
      queries: [Q] texts, of any split.
      k: results per query.
      galleries: name -> [N] bool.
    """
    return self.rank_records(queries, k, galleries, self.constants)

  def format_candidates(self) -> str:
    """Returns `candidates` as lines of tab-separated values, with a header."""
    names = dataclasses.asdict(self.constants)
    lines = [[*names, f"validation_{TUNING_MEASURE}"]] + [
      [*map(str, dataclasses.astuple(constants)), f"{value:.6f}"]
      for constants, value in self.candidates
    ]
    return "".join("\t".join(line) + "\n" for line in lines)

  def _validation_value(self, candidate: bm25.BM25Constants) -> float:
    """Returns the validation hit@1 of a candidate."""
    queries, mode = self.benchmark.queries["validation"], self.mode
    kinds = self.benchmark.kinds
    gallery = {mode.gallery: protocol.gallery_mask(kinds, mode.gallery)}
    ids = self.benchmark.record_ids
    (run,) = runs.make_runs(
      *("tuned", time_prior.TRACK, bm25.SCORE_MODE, "validation"),
      [query.query_id for query in queries],
      ids,
      self.rank_records(
        [query.text for query in queries], 1, gallery, candidate
      ),
    )
    query_scores = protocol.evaluate_run(
      run, queries, dict(zip(ids, kinds, strict=True)), mode, (TUNING_MEASURE,)
    )
    return query_scores.mean_of_family(TUNING_MEASURE)


def make_tuned_systems(
  benchmark: Benchmark, mode: protocol.EvaluationMode
) -> tuple[TunedSystem, TunedSystem]:
  """Returns BM25, and BM25 with the time prior; nothing is computed yet.

  Args:
    benchmark: benchmark whose gallery is ranked, and whose validation queries
      choose.
    mode: mode that they choose by.
  """
  months = time_prior.month_ordinals(benchmark)
  num_months = len(benchmark.timeline)

  @functools.cache
  def count_tokens() -> bm25.TokenCounts:
    return bm25.TokenCounts.from_texts(
      [record.text for record in benchmark.records]
    )

  def rank_lexical(queries, k, galleries, constants) -> TopK:
    return bm25.rank_by_bm25(queries, count_tokens(), k, galleries, constants)

  def rank_prior(queries, k, galleries, constants) -> TopK:
    return time_prior.rank_by_time_prior(
      queries, count_tokens(), months, num_months, k, galleries, constants
    )

  lexical = TunedSystem(
    benchmark, mode, bm25.PUBLISHED_CONSTANTS, LEXICAL_GRID, rank_lexical
  )
  return lexical, TunedSystem(
    benchmark,
    mode,
    time_prior.PUBLISHED_CONSTANTS,
    PRIOR_GRID,
    rank_prior,
    base=lexical,
  )


@registry.register("bm25_tuned", "bm25_timekde_tuned")
def make_tuned_baselines(
  benchmark: Benchmark,
  config: registry.SystemConfig,
  context: registry.Context,
) -> dict[str, registry.System]:
  """Returns both systems; the prior is tuned on top of the tuned BM25."""
  names = "bm25_tuned", "bm25_timekde_tuned"
  modules = bm25, time_prior
  systems = make_tuned_systems(benchmark, context.mode)
  return {
    name: registry.System(
      track=module.TRACK,
      score_mode=module.SCORE_MODE,
      search=tuned.rank_with_tuned_constants,
      tuning_table=tuned.format_candidates,
    )
    for name, module, tuned in zip(names, modules, systems, strict=True)
  }
