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
from ctd_jax.retrieval.search import Found
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

NAMES = (
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
  *dating.NAMES,
)
# Fields of the config without which a system cannot be run.
NEEDED = {
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
    topk: (texts of queries [Q], k, gallery name -> [N] bool) -> rankings.
    seeds: that it depends on.
    log_months: rows of records [n] -> log p(month | record) [n, K], of a
      system that dates the gallery.
    tuning: the constants that were tried and what they were worth on
      validation, best first, of a system that is tuned; see `tuning.Tuned`.
  """

  track: str
  score_mode: str
  topk: Callable[[Sequence[str], int, Mapping[str, np.ndarray]], Found]
  seeds: tuple[int, ...] = ()
  log_months: Callable[[np.ndarray], np.ndarray] | None = None
  tuning: Callable[[], str] | None = None


def make(
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

  def lexical(module, **options) -> Baseline:
    def topk(queries, k, galleries):
      return module.topk(queries, texts, k=k, galleries=galleries, **options)

    return Baseline(module.TRACK, module.SCORE_MODE, topk)

  def tuned(module, system: tuning.Tuned) -> Baseline:
    return Baseline(
      module.TRACK, module.SCORE_MODE, system.topk, tuning=system.table
    )

  mode = protocol.mode(config.eval.mode)
  first = llm_reranker.read_first(config.rerank, benchmark)
  tuned_lexical, tuned_prior = tuning.systems(benchmark, mode)
  return {
    "bm25": lexical(bm25),
    "bm25_timekde": lexical(
      time_prior, ordinals=months, num_months=len(timeline)
    ),
    "bm25_tuned": tuned(bm25, tuned_lexical),
    "bm25_timekde_tuned": tuned(time_prior, tuned_prior),
    "rules": lexical(date_lookup, timeline=timeline),
    "time_keys": lexical(
      time_keys,
      keys=[record.key for record in benchmark.records],
      timeline=timeline,
    ),
    "maxsim": Baseline(
      late_interaction.TRACK,
      late_interaction.SCORE_MODE,
      late_interaction.system(texts, config.maxsim),
    ),
    "pqr": Baseline(
      pqr.TRACK,
      pqr.SCORE_MODE,
      pqr.system(benchmark.record_ids, texts, config.pqr),
      (pqr.SEED,),
    ),
    "sparse": Baseline(
      learned_sparse.TRACK,
      learned_sparse.SCORE_MODE,
      learned_sparse.system(texts, config.sparse),
    ),
    "rerank": Baseline(
      first.track,
      llm_reranker.SCORE_MODE,
      llm_reranker.system(benchmark, first, config.rerank),
    ),
    **_dated(benchmark, config),
  }


def _dated(
  benchmark: Benchmark, config: ml_collections.ConfigDict
) -> dict[str, Baseline]:
  """Returns the variants of the dated gallery, which share what they read."""
  folder = config.dating.outside
  track = dating.EXTERNAL_TRACK if folder else dating.TRACK

  @functools.cache
  def gallery() -> dating.DatedGallery:
    notes = dating.bracket_notes(pathlib.Path(folder)) if folder else ()
    experts = Experts.without(config.dating.off)
    return dating.read(benchmark, notes, experts, config.seed)

  @functools.cache
  def posterior(variant: str):
    return gallery().posterior(variant)

  def variant_of(variant: str) -> Baseline:
    def topk(queries, k, galleries):
      return gallery().topk(queries, posterior(variant), k, galleries)

    def log_months(rows):
      return posterior(variant).log_p(rows)

    return Baseline(track, dating.SCORE_MODE, topk, (config.seed,), log_months)

  return {
    name: variant_of(variant)
    for name, variant in zip(dating.NAMES, dating.VARIANTS, strict=True)
  }
