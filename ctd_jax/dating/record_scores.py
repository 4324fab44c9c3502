"""Scores of hidden records: the pooled experts, then messages along the links.

Axes: N records, n hidden ones, K months, Y regnal years, f pooled scores.
"""

from __future__ import annotations

import dataclasses

import numpy as np
from jaxtyping import Bool, Float, Float32, Int

from ctd_jax.dating.expert_panel import (
  EventScores,
  ExpertPanel,
  iter_blocks,
)
from ctd_jax.dating.experts import month_capacity, parallel_texts
from ctd_jax.dating.posterior import PosteriorBlock


@dataclasses.dataclass(frozen=True, kw_only=True)
class RecordScores:
  """Log scores of the hidden records, up to a constant for each.

  Attributes:
    panel: the experts.
    rows: hidden records, events before commentary.
    events: scores of the events, the first of `rows`.
    own_year_scores: of years without messages; None unless kept.
    year_scores: of years, with messages.
    month_of_year_log_ratios: messages on the months of a year.
  """

  panel: ExpertPanel
  rows: Int[np.ndarray, " n"]
  events: EventScores
  own_year_scores: Float32[np.ndarray, "n Y"] | None
  year_scores: Float32[np.ndarray, "n Y"]
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
    year_scores += parallel_texts.propagate_beliefs(
      graph, beliefs, panel.year_prior
    )
    # The date is counted again month by month, so it is taken out here.
    year_scores -= beliefs
    month_of_year_log_ratios = parallel_texts.propagate_months_of_year(
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
  room: month_capacity.FittedMonthCapacity, block: PosteriorBlock
) -> Float32[np.ndarray, " K"]:
  """Returns the log factors that balance a block with the capacity."""
  openers = np.flatnonzero(block.opens_month)

  def iter_scores():
    for rows in iter_blocks(len(openers)):
      yield block.score_months(openers[rows])

  return month_capacity.fit_month_log_factors(
    iter_scores, room.capacity, room.must_fill
  )
