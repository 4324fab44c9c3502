"""BM25 with a prior of validity: whether a record still holds when asked.

A true statement stops being true; of two records that match a query equally
well, the one whose validity curve is higher at the time asked should come
first. The system links Chronocept to retrieval:

  score = BM25 + weight * log(validity of the record at the time asked)

with a validity of 1 at the curve's peak. A record is published at the start of
its month, and a query asks in the last minute of the months that it names. A
query whose date cannot be read leaves plain BM25. Track T1: the key of every
record is read, test months included.

The curves are a stand-in. No chronicle has annotated validity, and the
predictors of `tasks.chronocept` read English; so every record has one and the
same curve, the mean of *synthetic* Chronocept samples, whose sentences are
invented and whose targets are drawn with published means. That curve peaks
hours after publication and reaches the floor after two months, so the row
measures a preference for records of the last month asked, not a prediction
from what a record says. `make_rescore` takes a curve for each record, if you
have them.

Axes: Q queries, b a block of them, N records, n records of a gallery, k
results; the last axis of curves is (location, scale, skewness).
"""

import dataclasses
from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from jaxtyping import Float

from ctd_jax.benchmark.benchmark import Benchmark
from ctd_jax.chronology import questions
from ctd_jax.retrieval import bm25
from ctd_jax.retrieval.host_search import Galleries, TopK
from ctd_jax.systems import registry
from ctd_jax.systems.time_prior import month_ordinals

TRACK = "T1"
SCORE_MODE = "lexical_validity"
# Before publication, and far down the curve's tail: the term is bounded, so
# that a record is put last rather than lost.
MIN_VALIDITY = 1e-6
MINUTES_PER_MONTH = 43_200.0  # 30 days, as on the axis of Chronocept


@dataclasses.dataclass(frozen=True, kw_only=True)
class ValidityPriorConfig(registry.SystemConfig):
  """Weight of the prior, and the samples that its curve is the mean of."""

  SECTION: ClassVar[str] = "validity_prior"

  weight: float = 1.0  # of the log validity, in units of a BM25 score
  imitates: str = "benchmark_1"  # what the synthetic samples imitate
  seed: int = 0  # of the synthetic samples

  def validate(self) -> None:
    """Raises ValueError for a negative weight or an unknown benchmark."""
    from ctd_jax_datasets.chronocept.sample_records import BENCHMARKS

    if self.weight < 0:
      raise self.field_error("weight", "expected at least 0")
    self.check_choice("imitates", BENCHMARKS)


def compute_log_validity(
  query_minutes: Float[np.ndarray, " b"],
  record_minutes: Float[np.ndarray, " n"],
  curves: Float[np.ndarray, "n 3"],
) -> Float[np.ndarray, "b n"]:
  """Returns the log validity of records at the queries' times.

  The axis of log time begins a minute after publication; a query within that
  minute is asked at its end. Before publication the validity is
  `MIN_VALIDITY`, and no validity falls below it.

  Args:
    query_minutes: times asked, in minutes since any common origin.
    record_minutes: times of publication, since the same origin.
    curves: curves of the records, over log time since publication.
  """
  from ctd_jax.tasks.chronocept import curves as validity_curves

  # float64: minutes since the first month need more than 24 bits.
  age = query_minutes[:, None].astype(float) - record_minutes[None, :]
  log_age = validity_curves.to_log_time(np.maximum(age, 1.0).astype(np.float32))
  validity = np.asarray(
    validity_curves.validity(
      validity_curves.SkewNormal(*curves.T.astype(np.float32)), log_age
    )
  )
  return np.log(np.where(age < 0, 0, validity).clip(MIN_VALIDITY))


def make_rescore(
  query_minutes: Float[np.ndarray, " Q"],
  record_minutes: Float[np.ndarray, " N"],
  curves: Float[np.ndarray, "N 3"],
  weight: float,
) -> bm25.RescoreFn:
  """Returns a function that adds weighted log validity to BM25 scores.

  Args:
    query_minutes: times asked, NaN where a query names none.
    record_minutes: times of publication, since the same origin.
    curves: curves of the records.
    weight: weight of the log validity; 0 leaves BM25.
  """

  def rescore_block(
    block: slice, members: np.ndarray, scores: np.ndarray
  ) -> np.ndarray:
    minutes = query_minutes[block]
    log_validity = compute_log_validity(
      np.nan_to_num(minutes), record_minutes[members], curves[members]
    )
    log_validity[np.isnan(minutes)] = 0
    return scores + weight * log_validity

  return rescore_block


@registry.register("validity_prior", config=ValidityPriorConfig)
def make_validity_prior(
  benchmark: Benchmark, config: ValidityPriorConfig, context: registry.Context
) -> registry.System:
  """Returns BM25 with the prior; one curve serves all records."""
  texts = [record.text for record in benchmark.records]
  timeline = benchmark.timeline
  record_minutes = MINUTES_PER_MONTH * month_ordinals(benchmark)

  def search(queries: Sequence[str], k: int, galleries: Galleries) -> TopK:
    from ctd_jax_datasets.chronocept import chronocept_dataset_builder

    intervals = questions.parse_query_intervals(queries, timeline)
    # A minute before the next month begins, whose records are not yet out.
    query_minutes = [
      MINUTES_PER_MONTH * (timeline.interval_ordinals(interval)[1] + 1) - 1
      if interval
      else np.nan
      for interval in intervals
    ]
    # Drawn at the first search: a thousand samples are made for it.
    samples = chronocept_dataset_builder.generate_samples(
      config.imitates, config.seed
    )["train"]
    curve = np.mean(
      [(s.location, s.scale, s.skewness) for s in samples], axis=0
    )
    rescore = make_rescore(
      np.array(query_minutes, float),
      record_minutes,
      np.tile(curve, (len(texts), 1)),
      config.weight,
    )
    return bm25.rank_by_rescored_bm25(queries, texts, k, galleries, rescore)

  return registry.System(
    track=TRACK, score_mode=SCORE_MODE, search=search, seeds=(config.seed,)
  )
