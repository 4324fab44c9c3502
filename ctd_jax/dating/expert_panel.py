"""Panel of experts fitted on the same labels, and what it says of records.

log score(month) = dates + weights . (words, encoder, citations, parallels) of
the year + messages along the links + log prior of the year, to which
`posterior` adds the capacity of the month.

Time grows with the records and memory with what is kept of each: the scores of
the experts are made for a block of records at a time.

Axes: N records, n records scored, m targets among them, b a block of these,
K months, Y regnal years, f pooled scores.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import scipy.sparse
from jaxtyping import Float, Float32, Int

from ctd_jax.dating.corpus import UNKNOWN, Labels
from ctd_jax.dating.experts import base, citations, parallel_texts
from ctd_jax.dating.features import CorpusFeatures

# Experts in the order of fitting: each may read the scores of those before it.
FITTING_ORDER = (
  "prior",
  "dates",
  "words",
  "neural",
  "cited",
  "parallels",
  "known",
  "room",
)
_REQUIRED = ("prior", "dates")
# Experts whose weights are learned, and their scores in the pool [f]. An expert
# that is left out keeps its place with scores of 0, so that all ablations share
# one layout of weights.
POOL_SLICES = {
  "words": slice(0, 1),
  "neural": slice(1, 2),
  "cited": slice(2, 2 + citations.NUM_SCORES),
  "parallels": slice(
    2 + citations.NUM_SCORES,
    2 + citations.NUM_SCORES + parallel_texts.NUM_POOLED,
  ),
}
NUM_POOLED = POOL_SLICES["parallels"].stop
BLOCK = 512  # records whose months are held at once


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExpertPanel:
  """Experts fitted on the same labels.

  Attributes:
    features: the texts.
    labels: the known records.
    experts: by name, in the order of fitting.
  """

  features: CorpusFeatures
  labels: Labels
  experts: Mapping[str, base.FittedExpert]

  @property
  def year_prior(self) -> np.ndarray:
    """Chance of each year, [Y]."""
    return self.experts["prior"].chances

  def score_words(self, rows: Int[np.ndarray, " n"]) -> np.ndarray:
    """Returns the weighted scores of words, float32 [n, Y]; 0 without them."""
    if "words" not in self.experts:
      return self._blank(len(rows))
    return self.experts["words"].year_scores(rows)

  def score_dates(self, rows: Int[np.ndarray, " n"]) -> np.ndarray:
    """Returns log ratios of years by printed dates, float32 [n, Y]."""
    dates, axis = self.experts["dates"], self.features.axis
    blocks = [
      axis.to_years(dates.log_scores(rows[block]))
      for block in iter_blocks(len(rows))
    ]
    return np.concatenate(blocks or [self._blank(0)])

  def score_events(
    self,
    rows: Int[np.ndarray, " n"],
    targets: Int[np.ndarray, " m"] | None = None,
  ) -> EventScores:
    """Returns the scores of events whose months are hidden.

    Args:
      rows: events that may be evidence of one another, ascending.
      targets: indices into `rows` of those to score; all by default.
    """
    if targets is None:
      targets = np.arange(len(rows))
    encoder_scores = self._blank(len(targets))
    if "neural" in self.experts:
      encoder_scores = self.experts["neural"].log_scores(rows[targets])[0]
    citation_scores = [
      scipy.sparse.csr_array(
        (len(rows), self.features.axis.num_years), dtype=np.float32
      )
    ] * citations.NUM_SCORES
    if "cited" in self.experts:
      citation_scores = self.experts["cited"].sparse_scores(rows)
    pooling_matrix = None
    if "parallels" in self.experts:
      pooling_matrix = parallel_texts.make_pooling_matrix(
        self.experts["parallels"].build_event_graph(
          self.index_rows(rows), len(rows)
        )
      )
    return EventScores(
      date_log_ratios=self.score_dates(rows),
      word_scores=self.score_words(rows),
      encoder_scores=encoder_scores,
      citation_scores=citation_scores,
      pooling_matrix=pooling_matrix,
      targets=targets,
    )

  def index_rows(self, rows: Int[np.ndarray, " n"]) -> Int[np.ndarray, " N"]:
    """Returns the index of every record in `rows`, or UNKNOWN."""
    result = np.full(len(self.features.corpus), UNKNOWN)
    result[rows] = np.arange(len(rows))
    return result

  def _blank(self, num_rows: int) -> np.ndarray:
    return np.zeros((num_rows, self.features.axis.num_years), np.float32)


@dataclasses.dataclass(frozen=True, kw_only=True)
class EventScores:
  """Scores of hidden events by the pooled experts, given block by block.

  Attributes:
    date_log_ratios: log ratios of years by printed dates.
    word_scores: weighted scores of the words.
    encoder_scores: scores of the encoder, of the targets alone.
    citation_scores: `citations.NUM_SCORES` sparse [n, Y].
    pooling_matrix: chances of one month, sparse [n, n]; None without parallels.
    targets: indices of the events to score, ascending.
  """

  date_log_ratios: Float32[np.ndarray, "n Y"]
  word_scores: Float32[np.ndarray, "n Y"]
  encoder_scores: Float32[np.ndarray, "m Y"]
  citation_scores: Sequence[scipy.sparse.csr_array]
  pooling_matrix: scipy.sparse.csr_array | None
  targets: Int[np.ndarray, " m"]

  def expert_scores(self, block: slice) -> Float32[np.ndarray, "f b Y"]:
    """Returns the scores of a block of the targets, in order of the pool."""
    rows = self.targets[block]
    result = np.zeros(
      (NUM_POOLED, *self.encoder_scores[block].shape), np.float32
    )
    result[POOL_SLICES["words"]] = self.word_scores[rows]
    result[POOL_SLICES["neural"]] = self.encoder_scores[block]
    result[POOL_SLICES["cited"]] = [
      scores[rows].toarray() for scores in self.citation_scores
    ]
    if self.pooling_matrix is not None:
      result[POOL_SLICES["parallels"]] = parallel_texts.pool_parallels(
        self.pooling_matrix,
        self.citation_scores,
        self.word_scores,
        self.date_log_ratios,
        rows,
      )
    return result

  def pool_experts(
    self, weights: Float[np.ndarray, " f"]
  ) -> Float32[np.ndarray, "m Y"]:
    """Returns the weighted sum of the scores."""
    result = np.zeros_like(self.encoder_scores)
    for block in iter_blocks(len(result)):
      scores = self.expert_scores(block)
      result[block] = np.tensordot(weights.astype(np.float32), scores, 1)
    return result


def fit_panel(
  experts: Sequence[base.Expert],
  features: CorpusFeatures,
  labels: Labels,
  expert_weights: Mapping[str, np.ndarray] | None = None,
  fitted: Mapping[str, base.FittedExpert] | None = None,
) -> ExpertPanel:
  """Returns the experts fitted on labels, in their order.

  Args:
    experts: to fit; "prior" and "dates" must be among them.
    features: the texts.
    labels: the known records.
    expert_weights: of the scores of experts that have weights of their own, by
      name: of the groups of strings of "words", of the scores of "known".
    fitted: experts that are fitted on these labels already, by name.

  Raises:
    ValueError: if an expert is missing, unknown or given twice.
  """
  by_name = check_experts(experts)
  panel = dict(fitted or {})
  for name in FITTING_ORDER:
    if name in by_name and name not in panel:
      panel[name] = by_name[name].fit(features, labels, panel)
    if name in panel and name in (expert_weights or {}):
      panel[name] = dataclasses.replace(
        panel[name], weights=expert_weights[name]
      )
  return ExpertPanel(features=features, labels=labels, experts=panel)


def check_experts(experts: Sequence[base.Expert]) -> dict[str, base.Expert]:
  """Returns the experts by name.

  Raises:
    ValueError: if an expert is missing, unknown or given twice.
  """
  by_name = {expert.name: expert for expert in experts}
  if len(by_name) < len(experts):
    names = sorted(expert.name for expert in experts)
    raise ValueError(f"an expert is given twice: {', '.join(names)}")
  unknown_names = [name for name in by_name if name not in FITTING_ORDER]
  missing_names = [name for name in _REQUIRED if name not in by_name]
  if unknown_names or missing_names:
    raise ValueError(
      f"experts should be some of {', '.join(FITTING_ORDER)}, with "
      f"{' and '.join(_REQUIRED)}; got {', '.join(by_name) or 'none'}"
    )
  return by_name


def iter_blocks(size: int) -> Iterator[slice]:
  """Yields slices of at most BLOCK of `size` rows."""
  for start in range(0, size, BLOCK):
    yield slice(start, min(start + BLOCK, size))
