"""The systems that are evaluated without a training run, by name.

Why: what ranks without a training run, from lexical search to published models
as they are, takes a benchmark and gives rankings; `evaluate` writes them as run
files like those of a model. Called by `evaluate`; `config_checks` refuses
unknown names.

Axes: Q queries, k results, n records, K months.
"""

from __future__ import annotations

import dataclasses
import functools
import pathlib
from collections.abc import Callable, Mapping, Sequence

import ml_collections
import numpy as np

from ctd_jax.benchmark.dataset import Benchmark
from ctd_jax.dating.features import Experts
from ctd_jax.evaluation import protocol
from ctd_jax.retrieval import bm25, date_lookup
from ctd_jax.retrieval.search import TopK
from ctd_jax.systems import dated_gallery as dating
from ctd_jax.systems import (
  late_interaction,
  learned_sparse,
  llm_reranker,
  pqr,
  time_keys,
  time_prior,
  tuning,
)

BASELINE_NAMES = (
  "bm25",
  "bm25_timekde",
  "bm25_tuned",
  "bm25_timekde_tuned",
  "rules",
  "time_keys",
  "maxsim",
  "pqr",
  "sparse",
  "rerank",
  *dating.SYSTEM_NAMES,
)
# Fields of the config without which a system cannot be run.
REQUIRED_FIELDS = {
  "maxsim": ("maxsim.source",),
  "pqr": ("pqr.source", "pqr.pseudo_queries"),
  "sparse": ("sparse.source",),
  "rerank": ("rerank.source", "rerank.runs"),
}


@dataclasses.dataclass(frozen=True)
class Baseline:
  """One system, ready to rank.

  Attributes:
    track: what it reads.
    score_mode: what ranks.
    rank_top_k: (texts of queries [Q], k, gallery name -> [N] bool) -> rankings.
    seeds: that it depends on.
    log_months: rows of records [n] -> log p(month | record) [n, K], of a
      system that dates the gallery.
    format_tuning: the constants that were tried and what they were worth on
      validation, best first, of a system that is tuned; see `format_tuning.Tuned`.
  """

  track: str
  score_mode: str
  rank_top_k: Callable[[Sequence[str], int, Mapping[str, np.ndarray]], TopK]
  seeds: tuple[int, ...] = ()
  log_months: Callable[[np.ndarray], np.ndarray] | None = None
  format_tuning: Callable[[], str] | None = None


def make_baselines(
  benchmark: Benchmark, config: ml_collections.ConfigDict
) -> dict[str, Baseline]:
  """Returns every system of `NAMES`; nothing is computed before `topk`.

  What `rerank` starts from is read: its track is that of the first system.

  Args:
    benchmark: whose gallery is ranked.
    config: seed, eval.mode and the sections of the systems are read.
  """
  timeline = benchmark.timeline
  texts = [record.text for record in benchmark.records]
  months = np.array([timeline.ordinal(r.key) for r in benchmark.records])

  def lexical_baseline(module, rank, **options) -> Baseline:
    def rank_top_k(queries, k, galleries):
      return rank(queries, texts, k=k, galleries=galleries, **options)

    return Baseline(module.TRACK, module.SCORE_MODE, rank_top_k)

  def tuned_baseline(module, system: tuning.TunedSystem) -> Baseline:
    return Baseline(
      module.TRACK,
      module.SCORE_MODE,
      system.rank_with_tuned_constants,
      format_tuning=system.format_candidates,
    )

  mode = protocol.get_mode(config.eval.mode)
  first_stage = llm_reranker.read_first_stage(config.rerank, benchmark)
  tuned_lexical, tuned_prior = tuning.make_tuned_systems(benchmark, mode)
  return {
    "bm25": lexical_baseline(bm25, bm25.rank_by_bm25),
    "bm25_timekde": lexical_baseline(
      time_prior,
      time_prior.rank_by_time_prior,
      ordinals=months,
      num_months=len(timeline),
    ),
    "bm25_tuned": tuned_baseline(bm25, tuned_lexical),
    "bm25_timekde_tuned": tuned_baseline(time_prior, tuned_prior),
    "rules": lexical_baseline(
      date_lookup, date_lookup.rank_by_dates, timeline=timeline
    ),
    "time_keys": lexical_baseline(
      time_keys,
      time_keys.rank_by_time_keys,
      keys=[record.key for record in benchmark.records],
      timeline=timeline,
    ),
    "maxsim": Baseline(
      late_interaction.TRACK,
      late_interaction.SCORE_MODE,
      late_interaction.make_maxsim_ranker(texts, config.maxsim),
    ),
    "pqr": Baseline(
      pqr.TRACK,
      pqr.SCORE_MODE,
      pqr.make_pqr_ranker(benchmark.record_ids, texts, config.pqr),
      (pqr.CLUSTER_SEED,),
    ),
    "sparse": Baseline(
      learned_sparse.TRACK,
      learned_sparse.SCORE_MODE,
      learned_sparse.make_sparse_ranker(texts, config.sparse),
    ),
    "rerank": Baseline(
      first_stage.track,
      llm_reranker.SCORE_MODE,
      llm_reranker.make_reranking_ranker(benchmark, first_stage, config.rerank),
    ),
    **_dated_baselines(benchmark, config),
  }


def _dated_baselines(
  benchmark: Benchmark, config: ml_collections.ConfigDict
) -> dict[str, Baseline]:
  """Returns the variants of the dated gallery, which share what they read."""
  folder = config.dating.outside
  track = dating.EXTERNAL_TRACK if folder else dating.TRACK

  @functools.cache
  def dated_gallery() -> dating.DatedGallery:
    notes = dating.read_bracket_notes(pathlib.Path(folder)) if folder else ()
    experts = Experts.without_experts(config.dating.off)
    return dating.read_dated_gallery(benchmark, notes, experts, config.seed)

  @functools.cache
  def month_posterior(variant: str):
    return dated_gallery().make_posterior(variant)

  def variant_baseline(variant: str) -> Baseline:
    def rank_top_k(queries, k, galleries):
      return dated_gallery().rank_by_posterior(
        queries, month_posterior(variant), k, galleries
      )

    def log_months(rows):
      return month_posterior(variant).log_p(rows)

    return Baseline(
      track, dating.SCORE_MODE, rank_top_k, (config.seed,), log_months
    )

  return {
    name: variant_baseline(variant)
    for name, variant in zip(dating.SYSTEM_NAMES, dating.VARIANTS, strict=True)
  }
