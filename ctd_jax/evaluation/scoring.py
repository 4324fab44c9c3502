"""Evaluation of any system in one call: `ctd_jax.evaluate`.

A system is an object with a method `search`, or TREC run files that some
program wrote. Its rankings are measured in every mode of the protocol whose
gallery they cover:

  >>> import ctd_jax
  >>> benchmark = ctd_jax.load_benchmark("chunqiutr/mini")
  >>> class EqualScores:
  ...   def search(self, queries, k):
  ...     return [[(name, 0.0) for name in benchmark.record_ids[:k]]
  ...             for _ in queries]
  >>> result = ctd_jax.evaluate(EqualScores(), benchmark)
  >>> print(result.table())  # doctest: +SKIP
  >>> print(result.compare(ctd_jax.evaluate("runs/tiny/evaluation", benchmark,
  ...                                       name="tiny")))  # doctest: +SKIP
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Collection, Hashable, Mapping, Sequence
from typing import Any, Protocol

from ctd_jax.benchmark import runs
from ctd_jax.benchmark.benchmark import Benchmark, Query
from ctd_jax.evaluation import protocol, result_tables, results, significance
from ctd_jax.utils import files

DEFAULT_DEPTH = 100  # records per query; recall@50 needs 50
_GROWTH = 4  # of k, for queries whose first k lack records of a gallery


class Searcher(Protocol):
  """A system that ranks the whole gallery of a benchmark.

  Attributes `name`, `track` and `score_mode` are read where it has them.
  """

  def search(self, queries: Sequence[str], k: int) -> Sequence[Sequence[Any]]:
    """Returns for each query the k best records, best first.

    A record is an object with `record_id` and `score`, or such a pair.
    """
    ...


@dataclasses.dataclass(frozen=True)
class EvaluationResult:
  """Measures of one system on one split, query by query and as means."""

  dataset: str  # name of the benchmark
  system: str  # name of the system
  track: str  # information it may read, one of `runs.TRACKS`
  split: str  # of the queries
  # Mode -> values of every query, see `protocol.PerQueryScores`.
  scores: Mapping[str, protocol.PerQueryScores] = dataclasses.field(repr=False)
  # Query id -> (reign, year), the clusters of intervals and tests.
  years: Mapping[str, Hashable] = dataclasses.field(repr=False)

  def per_query(
    self,
    measure: str = "hit@1",
    mode: str = protocol.OFFICIAL_MODE,
    family: str = "all",
  ) -> dict[str, float]:
    """Returns query id -> value.

    Args:
      family: one of `protocol.FAMILIES`.

    Raises:
      ValueError: listing what there is, if there is no such measure, mode or
        family.
    """
    return self._scores(measure, mode).values_of_family(measure, family)

  def mean(
    self,
    measure: str = "hit@1",
    mode: str = protocol.OFFICIAL_MODE,
    family: str = "all",
  ) -> float:
    """Returns the mean over the queries; see `per_query`."""
    return self._scores(measure, mode).mean_of_family(measure, family)

  def interval(
    self,
    measure: str = "hit@1",
    mode: str = protocol.OFFICIAL_MODE,
    family: str = "all",
  ) -> tuple[float, float]:
    """Returns the 95 % bootstrap interval of `mean`, over whole years."""
    scores = self._scores(measure, mode)
    return significance.compute_bootstrap_interval(
      scores.values_of_family(measure, family),
      self.years,
      scores.cell_by_query(family),
    )

  def rows(
    self,
    modes: Sequence[str] | None = None,
    families: Sequence[str] = ("all",),
    metrics: Sequence[str] = result_tables.DEFAULT_METRICS,
    **provenance,
  ) -> list[results.ResultRow]:
    """Returns means with intervals, as `results.write_result_rows` takes them.

    Args:
      modes: names of modes; all that were evaluated if None.
      families: see `protocol.FAMILIES`.
      **provenance: seeds, command, commit, seconds of the rows.
    """
    return [
      row
      for mode in modes or self.scores
      for row in results.make_result_rows(
        self._scores(metrics[0], mode),
        self.dataset,
        self.years,
        families,
        metrics,
        **provenance,
      )
    ]

  def table(
    self,
    modes: Sequence[str] | None = None,
    families: Sequence[str] = ("all",),
    metrics: Sequence[str] = result_tables.DEFAULT_METRICS,
    markdown: bool = False,
    intervals: bool = True,
  ) -> str:
    """Returns a table for each mode and family; see `rows` for arguments."""
    return result_tables.format_table(
      self.rows(modes, families, metrics), metrics, markdown, intervals
    )

  def compare(
    self,
    baseline: EvaluationResult,
    measure: str = "hit@1",
    mode: str = protocol.OFFICIAL_MODE,
  ) -> significance.SystemComparison:
    """Returns this system minus a baseline, with paired tests.

    Args:
      baseline: result on the same benchmark and split.

    Raises:
      ValueError: if the results come from different data, or the baseline may
        read what this system may not.
    """
    for field in ("dataset", "split", "track"):
      values = getattr(self, field), getattr(baseline, field)
      is_fair = field == "track" and runs.reads_no_more(*reversed(values))
      if values[0] != values[1] and not is_fair:
        raise ValueError(
          f"{self.system} and {baseline.system} cannot be compared: {field} "
          f"{values[0]} and {values[1]}"
        )
    pair = self._scores(measure, mode), baseline._scores(measure, mode)
    return significance.compare_system_pairs([pair], self.years, measure)[0]

  def _scores(self, measure: str, mode: str) -> protocol.PerQueryScores:
    if mode not in self.scores:
      raise ValueError(
        f"{self.system} was evaluated in {', '.join(self.scores)}; not in "
        f"{mode!r}"
      )
    scores = self.scores[mode]
    if measure not in scores.values:
      raise ValueError(
        f"measure is one of {', '.join(scores.values)}; got {measure!r}"
      )
    return scores


def evaluate(
  system_or_run: Searcher | str | os.PathLike,
  benchmark: Benchmark,
  split: str = "test",
  depth: int = DEFAULT_DEPTH,
  name: str | None = None,
  mask_train: bool = False,
) -> EvaluationResult:
  """Returns the measures of a system on a split of a benchmark.

  A system is searched over all records; its ranking of a smaller gallery is
  that ranking without the records left out, searched deeper until it holds
  `depth` records or the system has no more. Run files cover the galleries that
  their names say.

  Args:
    system_or_run: an object with `search(queries, k)`, see `Searcher`; or a
      run file, which covers all records unless it is named
      run.<system>.<split>.<gallery>.trec; or a folder of files so named.
    depth: records per query of a system; at 50 or more recall@50 is measured.
    name: name of the system; in a folder with runs of several, the one to
      evaluate. By default the attribute `name` or the class of an object, and
      what the run file says.
    mask_train: leave the records of train months out of every ranking; see
      `protocol.mask_train_records`.

  Raises:
    FileNotFoundError: if there is no such run file.
    TypeError: if the object has no method `search`, or the benchmark is none.
    ValueError: if a split, file, line or record is bad; the message names it.
  """
  if not isinstance(benchmark, Benchmark):
    raise TypeError(
      "expected a benchmark, as ctd_jax.load_benchmark returns it; got "
      f"{type(benchmark).__name__}"
    )
  is_path = isinstance(system_or_run, str | os.PathLike)
  if not is_path and not callable(getattr(system_or_run, "search", None)):
    raise TypeError(
      "expected an object with search(queries, k), or the path of run files; "
      f"got {type(system_or_run).__name__}"
    )
  if not benchmark.queries.get(split):
    raise ValueError(
      f"{benchmark.name} has no queries of split {split!r}; splits: "
      f"{', '.join(benchmark.queries)}"
    )
  queries = benchmark.queries[split]
  kinds = {record.record_id: record.kind for record in benchmark.records}
  if is_path:
    system_runs = _read_runs(files.as_path(system_or_run), split, name)
  else:
    # One search over all records serves the four galleries.
    left_out = set()
    if mask_train:
      pairs = zip(benchmark.record_ids, benchmark.record_splits, strict=True)
      left_out = {name for name, of_record in pairs if of_record == "train"}
    rankings = _search_galleries(system_or_run, queries, kinds, depth, left_out)
    system_runs = [
      runs.Run(
        name or getattr(system_or_run, "name", type(system_or_run).__name__),
        getattr(system_or_run, "track", "T0"),
        getattr(system_or_run, "score_mode", "search"),
        split,
        gallery,
        gallery_rankings,
      )
      for gallery, gallery_rankings in rankings.items()
    ]
  if mask_train:
    system_runs = [
      protocol.mask_train_records(run, benchmark) for run in system_runs
    ]
  run_by_gallery = {run.gallery: run for run in system_runs}
  scores = {
    mode.name: protocol.evaluate_run(
      run_by_gallery[mode.gallery],
      queries,
      kinds,
      mode,
      runs.select_measures(run_by_gallery[mode.gallery].depth),
    )
    for mode in protocol.MODES.values()
    if mode.gallery in run_by_gallery
  }
  return EvaluationResult(
    benchmark.name,
    system_runs[0].system,
    system_runs[0].track,
    split,
    scores,
    significance.find_query_years(benchmark, split),
  )


def _read_runs(
  path: files.AnyPath, split: str, name: str | None
) -> list[runs.Run]:
  """Returns the runs of one system, one for each gallery."""
  paths = [path]
  if path.is_dir():
    paths = sorted(path.glob(f"run.{name or '*'}.{split}.*.trec"))
  elif not path.exists():
    paths = []
  if not paths:
    raise FileNotFoundError(
      f"{path}: no run file run.{name or '<system>'}.{split}.<gallery>.trec"
    )
  # The file of another program has a name of its own.
  is_foreign = path.is_file() and not runs.is_run_file_name(path.name)
  names = (split, protocol.MODES[protocol.OFFICIAL_MODE].gallery)
  system_runs = [
    runs.read_run(run_path, *(names if is_foreign else ()))
    for run_path in paths
  ]
  # A name with a dot would make `run.a.*` match the runs of `a.b`; tags decide.
  tags = sorted({run.tag for run in system_runs})
  if len(tags) > 1:
    raise ValueError(
      f"{path}: runs of {', '.join(tags)}; say which one with name="
    )
  if system_runs[0].split != split:
    raise ValueError(
      f"{path}: a run of split {system_runs[0].split}, not of {split}"
    )
  return system_runs


def _search_galleries(
  system: Searcher,
  queries: Sequence[Query],
  kinds: Mapping[str, str],
  depth: int,
  left_out: Collection[str],
) -> dict[str, dict[str, runs.Ranking]]:
  """Returns gallery -> query id -> the first `depth` records it holds."""
  sizes = {
    gallery: sum(
      kind in gallery_kinds and name not in left_out
      for name, kind in kinds.items()
    )
    for gallery, gallery_kinds in protocol.GALLERY_KINDS.items()
  }
  rankings: dict[str, dict[str, runs.Ranking]] = {name: {} for name in sizes}
  k = depth
  while queries:
    k = min(k, len(kinds))
    # Only queries whose ranking lacks records of a gallery are asked again.
    hit_lists = list(system.search([query.text for query in queries], k))
    if len(hit_lists) != len(queries):
      raise ValueError(
        f"search returned {len(hit_lists)} rankings for {len(queries)} queries;"
        " expected one for each, empty if nothing was found"
      )
    short_queries = []
    for query, hits in zip(queries, hit_lists, strict=True):
      ranking = _read_hits(query.query_id, hits, kinds)
      is_short = False
      for gallery, gallery_kinds in protocol.GALLERY_KINDS.items():
        hits_of_gallery = [
          hit
          for hit in ranking
          if kinds[hit[0]] in gallery_kinds and hit[0] not in left_out
        ]
        rankings[gallery][query.query_id] = hits_of_gallery[:depth]
        is_short |= len(hits_of_gallery) < min(depth, sizes[gallery])
      # Fewer than k: the system has no more.
      if is_short and len(ranking) == k < len(kinds):
        short_queries.append(query)
    queries, k = short_queries, k * _GROWTH
  return rankings


def _read_hits(
  query_id: str, hits: Sequence[Any], kinds: Mapping[str, str]
) -> runs.Ranking:
  """Returns the ranking of a query, ordered as a run file orders it."""
  scores: dict[str, float] = {}
  for hit in hits:
    if hasattr(hit, "record_id"):
      record_id, score = hit.record_id, hit.score
    elif not isinstance(hit, str) and len(hit) == 2:
      record_id, score = hit
    else:
      raise ValueError(
        f"query {query_id}: search returned {hit!r}; expected pairs of record "
        "id and score, or objects with record_id and score"
      )
    if record_id not in kinds:
      raise ValueError(
        f"query {query_id}: {record_id} is not a record of the benchmark"
      )
    if record_id in scores:
      raise ValueError(f"query {query_id}: record {record_id} occurs twice")
    scores[record_id] = score
  return runs.sort_ranking(scores)
