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
from jaxtyping import Bool, Float, Float32, Int

from ctd_jax.dating.corpus import UNKNOWN, Labels
from ctd_jax.dating.experts import base, citations, date_features, parallels
from ctd_jax.dating.features import CorpusFeatures
from ctd_jax.dating.posterior import PosteriorBlock

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
    2 + citations.NUM_SCORES + parallels.NUM_POOLED,
  ),
}
NUM_POOLED = POOL_SLICES["parallels"].stop
BLOCK = 512  # records whose months are held at once


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExpertPanel:
  """Experts fitted on the same labels."""

  features: CorpusFeatures  # the texts
  labels: Labels  # the known records
  experts: Mapping[str, base.FittedExpert]  # by name, in the order of fitting

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
      pooling_matrix = parallels.make_pooling_matrix(
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
  """Scores of hidden events by the pooled experts, given block by block."""

  # Log ratios of years by printed dates.
  date_log_ratios: Float32[np.ndarray, "n Y"]
  word_scores: Float32[np.ndarray, "n Y"]  # weighted scores of the words
  # Scores of the encoder, of the targets alone.
  encoder_scores: Float32[np.ndarray, "m Y"]
  # `citations.NUM_SCORES` sparse [n, Y].
  citation_scores: Sequence[scipy.sparse.csr_array]
  # Chances of one month, sparse [n, n]; None without parallels.
  pooling_matrix: scipy.sparse.csr_array | None
  targets: Int[np.ndarray, " m"]  # indices of the events to score, ascending

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
      result[POOL_SLICES["parallels"]] = parallels.pool_parallels(
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


# ----------------------------------------------------------------------------
# Scores of hidden records: the pooled experts, then messages along the links.
#
# Axes: N records, n hidden ones, K months, Y regnal years, f pooled scores.


@dataclasses.dataclass(frozen=True, kw_only=True)
class RecordScores:
  """Log scores of the hidden records, up to a constant for each."""

  panel: ExpertPanel  # the experts
  rows: Int[np.ndarray, " n"]  # hidden records, events before commentary
  events: EventScores  # scores of the events, the first of `rows`
  # Of years without messages; None unless kept.
  own_year_scores: Float32[np.ndarray, "n Y"] | None
  year_scores: Float32[np.ndarray, "n Y"]  # of years, with messages
  # Messages on the months of a year.
  month_of_year_log_ratios: Float32[np.ndarray, "n 12"]

  def make_block(
    self, inverse_temperature: float, is_target: Bool[np.ndarray, " N"]
  ) -> PosteriorBlock:
    """Returns the posteriors of some of the hidden records.

    All of them share the capacity of the months.

    Args:
      inverse_temperature: of the posterior.
      is_target: which records are wanted.
    """
    features, order = self.panel.features, np.argsort(self.rows)
    rows = self.rows[order]
    block = PosteriorBlock(
      rows=rows,
      dates=self.panel.experts["dates"],
      year_scores=self.year_scores[order],
      month_of_year_log_ratios=self.month_of_year_log_ratios[order],
      month_log_factors=np.zeros(len(features.axis), np.float32),
      opens_month=features.opens_month[rows],
      inverse_temperature=inverse_temperature,
      allowed_months=np.ones(len(features.axis), bool),
      month_experts=tuple(
        expert for name, expert in self.panel.experts.items() if name == "known"
      ),
    )
    if "room" in self.panel.experts:
      factors = _balance_capacity(self.panel.experts["room"], block)
      block = dataclasses.replace(block, month_log_factors=factors)
    return block.select(is_target[rows])


def score_hidden_records(
  panel: ExpertPanel,
  pool_weights: Float[np.ndarray, " f"],
  keep_own_scores: bool = False,
) -> RecordScores:
  """Returns the scores of all records whose month is not known.

  Args:
    panel: experts, their words weighted.
    pool_weights: of the pooled scores.
    keep_own_scores: whether scores without messages are kept.
  """
  features, labels = panel.features, panel.labels
  is_hidden = ~labels.is_known & ~features.corpus.is_placeholder
  event_rows = np.flatnonzero(is_hidden & features.is_event)
  comment_rows = np.flatnonzero(is_hidden & ~features.is_event)
  events = panel.score_events(event_rows)
  rows = np.concatenate([event_rows, comment_rows])
  # Commentary is dated by its words, and by the events that it is linked to.
  year_scores = np.concatenate(
    [events.pool_experts(pool_weights), panel.score_words(comment_rows)]
  )
  year_scores += np.log(panel.year_prior)
  own_year_scores = year_scores.copy() if keep_own_scores else None
  month_of_year_log_ratios = np.zeros((len(rows), 12), np.float32)
  if "parallels" in panel.experts:
    graph = panel.experts["parallels"].build_record_graph(
      panel.index_rows(rows), len(rows)
    )
    # What a record believes, and sends, includes its printed date.
    beliefs = year_scores.copy()
    beliefs[: len(event_rows)] += events.date_log_ratios
    year_scores += parallels.propagate_beliefs(graph, beliefs, panel.year_prior)
    # The date is counted again month by month, so it is taken out here.
    year_scores -= beliefs
    month_of_year_log_ratios = parallels.propagate_months_of_year(
      graph, panel.experts["dates"].month_of_year_chances(rows)
    )
  return RecordScores(
    panel=panel,
    rows=rows,
    events=events,
    own_year_scores=own_year_scores,
    year_scores=year_scores.astype(np.float32),
    month_of_year_log_ratios=month_of_year_log_ratios.astype(np.float32),
  )


def _balance_capacity(
  room: date_features.FittedMonthCapacity, block: PosteriorBlock
) -> Float32[np.ndarray, " K"]:
  """Returns the log factors that balance a block with the capacity."""
  openers = np.flatnonzero(block.opens_month)

  def iter_scores():
    for rows in iter_blocks(len(openers)):
      yield block.score_months(openers[rows])

  return date_features.fit_month_log_factors(
    iter_scores, room.capacity, room.must_fill
  )
