"""BM25 with a prior over months, estimated from the query's best records.

The strongest published sparse row. It reads the time key of every record of
the gallery, test months included, so it belongs to track T1 and must not be
ranked with systems that read text only.

Axes: Q queries, b a block of them, N records, n records of a gallery, r records
of feedback, K months, k results.

Source: ChunQiuTR release, BM25 + TimeKDE: a Gaussian kernel density over the
months of the 200 best records, in the manner of Li and Croft (2003).
"""

import dataclasses
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Int

from ctd_jax.benchmark.benchmark import Benchmark
from ctd_jax.retrieval import bm25, host_search
from ctd_jax.retrieval.host_search import Galleries, TopK
from ctd_jax.systems import registry

TRACK = "T1"
SCORE_MODE = "lexical_time_prior"
_MIN_PROBABILITY = 1e-8  # keeps the logarithm finite


@dataclasses.dataclass(frozen=True)
class TimePriorConstants(bm25.BM25Constants):
  """The free constants, with those of BM25; as published by default."""

  feedback: int = 200  # records whose months make the density
  bandwidth: float = 3.0  # months, standard deviation of the kernel
  weight: float = 1.0  # of the log prior

  def gaussian_kernel(self) -> Float[np.ndarray, " offsets"]:
    """Returns the Gaussian, 1 at its centre, out to 3 standard deviations."""
    # Truncated, and 1 at its centre: the sum is normalised later.
    radius = max(1, int(3 * self.bandwidth))
    return np.exp(
      -(np.arange(-radius, radius + 1) ** 2) / (2 * self.bandwidth**2)
    )


PUBLISHED_CONSTANTS = TimePriorConstants()


def estimate_month_density(
  ordinals: Int[np.ndarray, "b r"],
  num_months: int,
  constants: TimePriorConstants = PUBLISHED_CONSTANTS,
) -> Float[np.ndarray, "b K"]:
  """Returns a prior over the months for each row of feedback records.

  A kernel that reaches over an end of the calendar loses what is outside and
  is not renormalised by itself; only the sum over all records is.

  Args:
    ordinals: ordinal months of the feedback, 0 = first of the timeline.
    num_months: K.
    constants: constants of the prior.

  Returns:
    The prior, every row summing to 1; constant where r is 0.
  """
  import scipy.ndimage

  rows, num_feedback = ordinals.shape
  if num_feedback == 0:
    return np.full((rows, num_months), 1 / num_months)
  counts = np.zeros((rows, num_months))
  np.add.at(counts, (np.arange(rows)[:, None], ordinals), 1.0)
  mass = scipy.ndimage.convolve1d(
    counts, constants.gaussian_kernel(), axis=1, mode="constant"
  )
  return mass / mass.sum(axis=1, keepdims=True)


def add_time_prior(
  scores: Float[np.ndarray, "b n"],
  ordinals: Int[np.ndarray, " n"],
  num_months: int,
  constants: TimePriorConstants = PUBLISHED_CONSTANTS,
) -> Float[np.ndarray, "b n"]:
  """Returns BM25 scores plus the weighted log prior of each record's month.

  Args:
    scores: BM25.
    ordinals: ordinal month of every record.
    num_months: K.
    constants: constants of the prior.

  Returns:
    The sum; a query without any BM25 hit gets a constant prior.
  """
  best, _ = host_search.select_top_k(
    scores, min(constants.feedback, scores.shape[1])
  )
  prior = estimate_month_density(ordinals[best], num_months, constants)
  # Without any hit the feedback is arbitrary: ties by index.
  prior[~scores.any(axis=1)] = 1 / num_months
  return scores + constants.weight * np.log(
    prior[:, ordinals] + _MIN_PROBABILITY
  )


def rank_by_time_prior(
  queries: Sequence[str],
  records: Sequence[str] | bm25.TokenCounts,
  ordinals: np.ndarray,
  num_months: int,
  k: int,
  galleries: Galleries,
  constants: TimePriorConstants = PUBLISHED_CONSTANTS,
) -> TopK:
  """Returns the k best records by BM25 and the prior over months.

  Args:
    queries: [Q] texts.
    records: [N] texts or their counts.
    ordinals: ordinal month of every record [N], 0 = first of the timeline.
    num_months: length of the timeline.
    k: results per query.
    galleries: name -> [N] bool.
    constants: constants of BM25 and of the prior.

  Returns:
    gallery -> (indices [Q, k], scores [Q, k]), see `search.search_top_k`.
  """

  def rescore_block(_, members: np.ndarray, scores: np.ndarray) -> np.ndarray:
    return add_time_prior(scores, ordinals[members], num_months, constants)

  return bm25.rank_by_rescored_bm25(
    queries, records, k, galleries, rescore_block, constants
  )


def month_ordinals(benchmark: Benchmark) -> Int[np.ndarray, " N"]:
  """Returns the ordinal month of every record, 0 = first of the timeline."""
  ordinal = benchmark.timeline.ordinal
  return np.array([ordinal(record.key) for record in benchmark.records])


@registry.register("bm25_timekde")
def make_time_prior(
  benchmark: Benchmark,
  config: registry.SystemConfig,
  context: registry.Context,
) -> registry.System:
  """Returns BM25 with the prior, both with the published constants."""
  texts = [record.text for record in benchmark.records]
  ordinals = month_ordinals(benchmark)

  def search(queries: Sequence[str], k: int, galleries: Galleries) -> TopK:
    return rank_by_time_prior(
      queries, texts, ordinals, len(benchmark.timeline), k, galleries
    )

  return registry.System(track=TRACK, score_mode=SCORE_MODE, search=search)
