"""Explanations: what each expert adds to the log score of a record.

The scores are sums, so the reasons of a record are: over all of them,
`log_scores` adds up to the unnormalised log score of its months.

Axes: K months, Y regnal years.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ctd_jax.dating.expert_panel import POOL_SLICES, ExpertPanel
from ctd_jax.dating.experts import base
from ctd_jax.dating.posterior import LOG_IMPOSSIBLE, PosteriorBlock
from ctd_jax.dating.record_scores import RecordScores

LABEL = "label"  # name of the reason of a record whose month is known
PLACEHOLDER = "placeholder"  # likewise, of one that states its month


def explain_hidden_record(
  scores: RecordScores,
  block: PosteriorBlock,
  pool_weights: np.ndarray,
  row: int,
  month: int,
) -> list[base.Reason]:
  """Returns the reasons for a month of a hidden record, the weightiest first.

  Args:
    scores: of the hidden records, with `own_year_scores` kept.
    block: made of `scores`.
    pool_weights: of the pooled experts, [f].
    row: the record, one of `scores.rows`.
    month: ordinal month to explain.
  """
  axis, panel = scores.panel.features.axis, scores.panel
  year_terms = _year_terms(scores, pool_weights, row)
  month_terms = {
    name: year_scores[axis.year_of] for name, year_scores in year_terms.items()
  }
  dates = panel.experts["dates"]
  month_terms |= dates.split_log_scores(row)
  index = int(np.flatnonzero(scores.rows == row)[0])
  if "parallels" in month_terms:
    month_terms["parallels"] = (
      month_terms["parallels"]
      + scores.month_of_year_log_ratios[index][axis.month_of_year - 1]
    )
  if "known" in panel.experts:
    month_terms["known"] = panel.experts["known"].log_scores(np.array([row]))[0]
  if "room" in panel.experts and panel.features.opens_month[row]:
    month_terms["room"] = block.month_log_factors
  if not block.allowed_months.all():
    # Added after the temperature, so divided by it to belong to the sum.
    month_terms["elimination"] = np.where(
      block.allowed_months, 0, LOG_IMPOSSIBLE / block.inverse_temperature
    )
  year = int(axis.year_of[month])
  reasons = [
    _make_reason(
      name, log_scores, month, _find_evidence(panel, name, row, year)
    )
    for name, log_scores in month_terms.items()
  ]
  return sorted(reasons, key=lambda reason: -abs(reason.weight))


def explain_certain_record(
  name: str, num_months: int, known_month: int, month: int
) -> list[base.Reason]:
  """Returns the one reason of a record whose month is certain.

  Args:
    name: LABEL or PLACEHOLDER.
    num_months: number of months K.
    known_month: ordinal month of the record.
    month: ordinal month to explain.
  """
  log_scores = np.full(num_months, LOG_IMPOSSIBLE)
  log_scores[known_month] = 0
  return [_make_reason(name, log_scores, month, base.Evidence())]


def _make_reason(
  name: str, log_scores: np.ndarray, month: int, evidence: base.Evidence
) -> base.Reason:
  return base.Reason(
    expert=name,
    log_scores=log_scores,
    weight=float(log_scores[month] - log_scores.mean()),
    evidence=evidence,
  )


def _year_terms(
  scores: RecordScores, pool_weights: np.ndarray, row: int
) -> Mapping[str, np.ndarray]:
  """Returns what each expert adds to the log scores of years, name -> [Y]."""
  panel = scores.panel
  index = int(np.flatnonzero(scores.rows == row)[0])
  terms = {"prior": np.log(panel.year_prior)}
  num_events = len(scores.events.targets)
  if index < num_events:
    pooled = scores.events.expert_scores(slice(index, index + 1))[:, 0]
    for name, places in POOL_SLICES.items():
      if name in panel.experts:
        terms[name] = np.tensordot(pool_weights[places], pooled[places], 1)
  elif "words" in panel.experts:
    terms["words"] = panel.score_words(np.array([row]))[0]
  if "parallels" in panel.experts:
    messages = scores.year_scores[index] - scores.own_year_scores[index]
    terms["parallels"] = terms.get("parallels", 0) + messages
  return terms


def _find_evidence(
  panel: ExpertPanel, name: str, row: int, year: int
) -> base.Evidence:
  """Returns what an expert read in a record that speaks for a year."""
  experts = panel.experts
  if name == "openings":
    return experts["dates"].explain(row, year)
  if name == "days":
    return experts["dates"].explain_days(row)
  if name == "empty":
    return base.Evidence(note="months with a placeholder have no other record")
  if name == "elimination":
    return base.Evidence(note="months with a known record have no others")
  return experts[name].explain(row, year)
