"""Reasons of the linked dater: every attention weight is one.

Axes: n events, m comments, k links into a record, K months, Y years.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import numpy as np

from ctd_jax.dating import explanation
from ctd_jax.dating.corpus import UNKNOWN
from ctd_jax.dating.expert_panel import ExpertPanel
from ctd_jax.dating.experts import base, citations
from ctd_jax.dating.linked.hidden_records import HiddenRecords
from ctd_jax.dating.posterior import LOG_IMPOSSIBLE, PosteriorBlock
from ctd_jax.models.linked_dater import LinkedScores

_MAX_NOTED_LINKS = 5  # that a reason names
_MIN_SHARE = 0.02  # of the attention below which a link is not named


@dataclasses.dataclass(frozen=True)
class ScoredRecords:
  """Hidden records and what the network says of them.

  Attributes:
    records: the hidden records.
    scores: of the network; None where nobody asks for reasons.
  """

  records: HiddenRecords
  scores: LinkedScores | None


def explain_record(
  scored: ScoredRecords,
  block: PosteriorBlock,
  row: int,
  month: int,
) -> list[base.Reason]:
  """Returns the reasons for a month of a hidden record, the weightiest first.

  Args:
    scored: the hidden records, with the scores.
    block: made of them.
    row: the record.
    month: ordinal month to explain.
  """
  records = scored.records
  year = int(records.panel.features.axis.year_of[month])
  terms, evidence = _find_record_terms(records, scored.scores, row, year)
  return _make_reasons(records.panel, block, row, month, terms, evidence)


def explain_passage(
  scored: ScoredRecords, block: PosteriorBlock, month: int
) -> list[base.Reason]:
  """Returns the reasons for a month of a passage, the weightiest first.

  Args:
    scored: the hidden records, the passage the one event that hears them.
    block: of the passage.
    month: ordinal month to explain.
  """
  panel = scored.records.panel
  year = int(panel.features.axis.year_of[month])
  terms, evidence = _find_event_terms(scored.records, scored.scores, 0, year)
  return _make_reasons(panel, block, 0, month, terms, evidence)


def _make_reasons(
  panel: ExpertPanel,
  block: PosteriorBlock,
  row: int,
  month: int,
  terms: Mapping[str, np.ndarray],
  evidence: Mapping[str, base.Evidence],
) -> list[base.Reason]:
  """Returns the reasons for a month, the weightiest first.

  Args:
    panel: experts of the record.
    block: that has it.
    row: of the record, in both.
    month: ordinal month to explain.
    terms: log scores of years [Y] by kind.
    evidence: of some kinds; of the others it is the panel's.
  """
  axis = panel.features.axis
  year = int(axis.year_of[month])
  month_terms = {
    name: np.asarray(term)[axis.year_of] for name, term in terms.items()
  }
  month_terms |= panel.experts["dates"].split_log_scores(row)
  index = int(np.searchsorted(block.rows, row))
  months = block.month_of_year_log_ratios[index]
  if months.any():
    month_terms["parallels"] += months[axis.month_of_year - 1]
  if block.opens_month[index] and block.month_log_factors.any():
    month_terms["room"] = block.month_log_factors
  if not block.allowed_months.all():
    # Added after the temperature, so divided by it to belong to the sum.
    month_terms["elimination"] = np.where(
      block.allowed_months, 0, LOG_IMPOSSIBLE / block.inverse_temperature
    )
  reasons = [
    explanation.make_reason(
      name,
      log_scores,
      month,
      evidence[name]
      if name in evidence
      else explanation.find_own_evidence(panel, name, row, year),
    )
    for name, log_scores in month_terms.items()
  ]
  return sorted(reasons, key=lambda reason: -abs(reason.weight))


def _find_record_terms(
  records: HiddenRecords, scores: LinkedScores, row: int, year: int
) -> tuple[Mapping[str, np.ndarray], dict[str, base.Evidence]]:
  """Returns log scores of years [Y] by kind, and what the links show."""
  is_row = records.event_rows == row
  if is_row.any():
    return _find_event_terms(records, scores, int(is_row.argmax()), year)
  index = int((records.comment_rows == row).argmax())
  terms = {name: term[index] for name, term in scores.comment_terms.items()}
  evidence = {}
  if "commented" in terms:
    evidence["commented"] = _explain_links(
      records,
      scores,
      "commented",
      index,
      scores.event_beliefs[:, year],
      records.event_rows,
      year,
    )
  return terms, evidence


def _find_event_terms(
  records: HiddenRecords, scores: LinkedScores, index: int, year: int
) -> tuple[Mapping[str, np.ndarray], dict[str, base.Evidence]]:
  """Returns log scores of years [Y] of an event, and what its links show."""
  terms = {name: term[index] for name, term in scores.event_terms.items()}
  evidence = {}
  if "cited" in terms:
    evidence["cited"] = _explain_citations(records, scores, index, year)
  for name, beliefs, rows in (
    ("parallels", scores.event_beliefs, records.event_rows),
    ("comments", scores.comment_beliefs, records.comment_rows),
  ):
    if name in terms:
      evidence[name] = _explain_links(
        records, scores, name, index, beliefs[:, year], rows, year
      )
  return terms, evidence


def _explain_links(
  records: HiddenRecords,
  scores: LinkedScores,
  name: str,
  index: int,
  beliefs: np.ndarray,
  rows: np.ndarray,
  year: int,
) -> base.Evidence:
  """Returns the linked records that speak for a year, by their attention.

  Args:
    records: the hidden records.
    scores: of the network.
    name: of the kind of links.
    index: of the record among those that the links lead to.
    beliefs: chance of the year, of the records that speak.
    rows: of these.
    year: that is explained.
  """
  inputs = records.inputs
  receivers = inputs.comments if name == "commented" else inputs.events
  links = getattr(receivers, name)
  if not links.is_link[index].any():
    return base.Evidence()
  source = links.source[index]
  ratios = beliefs[source] / inputs.calendar.year_prior[year]
  shares = _share_attention(
    scores.links[name].log_odds[index], ratios, links.is_link[index]
  )
  best = _take_best(shares)
  linked_rows = rows[source[best]]
  texts = records.panel.features.corpus.texts
  return base.Evidence(
    linked_rows=tuple(linked_rows.tolist()),
    note="；".join(
      f"{texts[linked_row]} {share:.2f}"
      for linked_row, share in zip(linked_rows, shares[best], strict=True)
    ),
  )


def _explain_citations(
  records: HiddenRecords, scores: LinkedScores, index: int, year: int
) -> base.Evidence:
  """Returns the citations that speak for a year, by their attention."""
  inputs = records.inputs
  cited, calendar = inputs.events.cited_years, inputs.calendar
  years, hosts = cited.year[index], cited.host[index]
  reign_chances = scores.comment_beliefs @ calendar.has_reign  # [m, R]
  # One more row, of no chance, for citations outside of the comments.
  reign_chances = np.pad(reign_chances, ((0, 1), (0, 0)))
  by_reign = year == calendar.year_table[:, cited.year_number[index]].T
  chances = (by_reign * reign_chances[hosts]).sum(axis=1)
  chances = np.where(years == UNKNOWN, chances, years == year)
  shares = _share_attention(
    scores.links["cited"].log_odds[index],
    chances / calendar.year_prior[year],
    cited.is_link[index],
  )
  best = _take_best(shares)
  pairs = records.citation_pairs
  texts = [
    pairs.citations[pairs.citation_index[pair]]
    for pair in records.cited_pairs[index][best]
  ]
  linked_rows = [text.host for text in texts if text.host != UNKNOWN]
  return base.Evidence(
    linked_rows=tuple(dict.fromkeys(linked_rows)),
    note=citations.note_citations(texts, shares[best]),
  )


def _share_attention(
  log_odds: np.ndarray, ratios: np.ndarray, is_link: np.ndarray
) -> np.ndarray:
  """Returns the share of each link in the attention, mean over heads, [k]."""
  odds = np.exp(log_odds) * (ratios * is_link)[:, None]  # [k, heads]
  return (odds / (1 + odds.sum(axis=0))).mean(axis=1)


def _take_best(shares: np.ndarray) -> np.ndarray:
  """Returns the links that a reason names, the weightiest first."""
  best = np.argsort(-shares, kind="stable")[:_MAX_NOTED_LINKS]
  return best[shares[best] > _MIN_SHARE]
