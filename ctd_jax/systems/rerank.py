"""First records of another system, put in order by a language model.

  score = (1 - mixing) * p(yes) + mixing * clip((cosine + 1) / 2, 0, 1)

with the probability of `retrieval.llm_reranker` and the cosine of the first
system, whose run files are read: a dense encoder's, BM25's, somebody else's.
The track is that of the first system, because the model reads texts alone.

Axes: Q queries, n candidates of a query, k results.

Source: ChunQiuTR, optional reranker.
"""

from __future__ import annotations

import dataclasses
import functools
import glob
import pathlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from ctd_jax.benchmark import runs
from ctd_jax.benchmark.dataset import Benchmark
from ctd_jax.retrieval.host_search import Galleries, TopK
from ctd_jax.systems import registry

if TYPE_CHECKING:  # it imports JAX
  from ctd_jax.retrieval.llm_reranker import Reranker

SCORE_MODE = "reranked"


@dataclasses.dataclass(frozen=True, kw_only=True)
class RerankConfig(registry.SystemConfig):
  """Reranker, and the run files that it starts from."""

  SECTION: ClassVar[str] = "rerank"
  REQUIRED: ClassVar[tuple[str, ...]] = ("source", "runs")

  source: str | None = None  # folder or hub id
  runs: str | None = None  # folder of run files
  first: str = "bm25"  # the system whose run files are read there
  depth: int = 50  # records of a query that are put in order
  instruction: str = "Retrieve the records that answer the query."
  mixing: float = 0.0  # share of the first system's cosine in the score
  temperature: float = 0.05  # times a score of the first system: a cosine
  max_length: int = 4096  # tokens of a prompt
  batch_size: int = 8  # pairs a step
  dtype: str = "bfloat16"  # activations; parameters are always fp32

  def validate(self) -> None:
    """Raises ValueError for a missing source or folder or a wrong value."""
    if not 0 <= self.mixing <= 1:
      raise self.field_error("mixing", "expected 0 to 1")
    self.check_positive("depth", "max_length", "batch_size")
    super().validate()
    self.check_path("runs")


@dataclasses.dataclass(frozen=True)
class FirstStage:
  """Rankings of the system that chooses the candidates.

  Attributes:
    track: of that system.
    rankings: gallery -> text of a query -> records with scores, best first.
  """

  track: str
  rankings: Mapping[str, Mapping[str, runs.Ranking]]


def read_first_stage(config: RerankConfig, benchmark: Benchmark) -> FirstStage:
  """Returns the rankings in the run files of the first system.

  Queries of the same text share a ranking: systems are given texts alone.

  Args:
    config: of the reranker; without its `runs` there are no rankings.
    benchmark: that was searched.

  Raises:
    FileNotFoundError: if there is none.
    ValueError: naming the file, if one is malformed or of another data set.
  """
  if not config.runs:
    return FirstStage("T0", {})
  folder = pathlib.Path(config.runs).expanduser()
  allowed_names = set(benchmark.record_ids)
  tracks, rankings = set(), {}
  for split, queries in benchmark.queries.items():
    pattern = runs.run_file_name(glob.escape(config.first), split, "*")
    for path in sorted(folder.glob(pattern)):
      run = runs.read_run(path)
      ranked_names = {
        name for ranking in run.rankings.values() for name, _ in ranking
      }
      if ranked_names - allowed_names:
        raise ValueError(
          f"{path}: {min(ranked_names - allowed_names)} is no record of "
          f"{benchmark.name}"
        )
      tracks.add(run.track)
      rankings.setdefault(run.gallery, {}).update(
        {query.text: run.rankings.get(query.query_id, []) for query in queries}
      )
  if len(tracks) != 1:
    raise FileNotFoundError(
      f"config.rerank.runs={config.runs}: expected run.{config.first}.*.trec "
      f"of one track, found {', '.join(sorted(tracks)) or 'none'}"
    )
  return FirstStage(tracks.pop(), rankings)


def make_search(
  benchmark: Benchmark,
  first_stage: FirstStage,
  config: RerankConfig,
) -> registry.SearchFn:
  """Returns the search; its first call loads the model.

  Args:
    benchmark: whose records are ranked.
    first_stage: what chooses the candidates.
    config: of the reranker.
  """
  rows = {name: row for row, name in enumerate(benchmark.record_ids)}

  @functools.cache
  def load_reranker() -> Reranker:
    from ctd_jax.retrieval.llm_reranker import Reranker

    return Reranker(
      config.source,
      instruction=config.instruction,
      max_length=config.max_length,
      batch_size=config.batch_size,
      dtype=config.dtype,
    )

  def first_stage_candidates(gallery: str, query: str) -> runs.Ranking:
    try:
      return first_stage.rankings[gallery][query][: config.depth]
    except KeyError:
      raise ValueError(
        f"config.rerank.runs={config.runs}: {config.first} was not asked over "
        f"{gallery}: {query}"
      ) from None

  def search(queries: Sequence[str], k: int, galleries: Galleries) -> TopK:
    candidates_by_gallery = {
      name: [first_stage_candidates(name, q) for q in queries]
      for name in galleries
    }
    # Galleries share most pairs; the model reads a pair once.
    pairs = sorted(
      {
        (query, name)
        for rankings in candidates_by_gallery.values()
        for query, ranking in zip(queries, rankings, strict=True)
        for name, _ in ranking
      }
    )
    if config.mixing:  # fail before the model is loaded
      _check_cosines(candidates_by_gallery, config)
    texts = [(q, benchmark.records[rows[name]].text) for q, name in pairs]
    p_yes = dict(zip(pairs, load_reranker().score_pairs(texts), strict=True))

    def rerank_candidates(query: str, ranking: runs.Ranking):
      candidate_p_yes = [p_yes[query, name] for name, _ in ranking]
      mixed_scores = _mix_scores(
        candidate_p_yes, [score for _, score in ranking], config
      )
      return _select_top_k([rows[name] for name, _ in ranking], mixed_scores, k)

    top_k = {}
    for name, rankings in candidates_by_gallery.items():
      reranked = list(map(rerank_candidates, queries, rankings))
      top_k[name] = tuple(map(np.stack, zip(*reranked, strict=True)))
    return top_k

  return search


def _check_cosines(
  rankings_by_gallery: Mapping[str, Sequence[runs.Ranking]],
  config: RerankConfig,
) -> None:
  """Refuses, before the model is asked, scores that are no cosines."""
  cosines = (
    config.temperature * score
    for rankings in rankings_by_gallery.values()
    for ranking in rankings
    for _, score in ranking
  )
  max_abs_cosine = max(cosines, key=abs, default=0.0)
  if abs(max_abs_cosine) > 1.001:
    raise ValueError(
      f"config.rerank.mixing={config.mixing} needs cosines, and config.rerank."
      f"temperature={config.temperature} times a score of the first system is "
      f"{max_abs_cosine:.4g}"
    )


def _mix_scores(
  p_yes: Sequence[float],
  first_stage_scores: Sequence[float],
  config: RerankConfig,
) -> np.ndarray:
  """Returns the scores of the module docstring, fp32 [n].

  Args:
    p_yes: of the candidates [n].
    first_stage_scores: their scores by the first system [n].
    config: mixing is read, and temperature if that is not 0.
  """
  mixing = config.mixing
  p_yes_array = np.asarray(p_yes, np.float32)
  if not mixing:
    return p_yes_array
  cosines = config.temperature * np.asarray(first_stage_scores, np.float32)
  return (1 - mixing) * p_yes_array + mixing * np.clip((cosines + 1) / 2, 0, 1)


def _select_top_k(
  rows: Sequence[int], values: np.ndarray, k: int
) -> tuple[np.ndarray, np.ndarray]:
  """Returns the k best rows and their scores; -1 and -inf fill up.

  Ties go by row, which is by record id.
  """
  order = np.lexsort((rows, -values))[:k]
  indices = np.full(k, -1, np.int32)
  scores = np.full(k, -np.inf, np.float32)
  indices[: len(order)] = np.array(rows, np.int32)[order]
  scores[: len(order)] = values[order]
  return indices, scores


@registry.register("rerank", config=RerankConfig)
def make_rerank(
  benchmark: Benchmark, config: RerankConfig, context: registry.Context
) -> registry.System:
  """Returns the reranker; the run files of the first system are read now."""
  first_stage = read_first_stage(config, benchmark)
  return registry.System(
    track=first_stage.track,
    score_mode=SCORE_MODE,
    search=make_search(benchmark, first_stage, config),
  )
