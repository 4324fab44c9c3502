"""Reasons: what every expert read in a passage, in words and in data.

Axes: K months, Y years.
"""

from __future__ import annotations

import numpy as np

from ctd_jax.dating.experts import parallel_texts
from ctd_jax.dating.passages import log_odds
from ctd_jax.dating.passages.passage_dates import PassageReason
from ctd_jax.dating.passages.passage_scores import (
  Links,
  PassageScorer,
  PassageScores,
)
from ctd_jax.utils.notes import Note

_MAX_NOTED_RECORDS = 5  # that a note tells
_MAX_NOTED_CHARS = 40  # of each
_MAX_MONTHS = 6  # that a reason names
_NO_LINKS = Note("note.no_links")
_OTHER_CITATIONS = Note("note.cited.other")
_OTHER_WORDS = Note("note.words.other")
_NOTES = {
  "empty": Note("note.empty"),
  "room": Note("note.room"),
  log_odds.UNKNOWN_WORDS: Note("note.words.unknown"),
}


def find_reasons(
  scorer: PassageScorer,
  scores: PassageScores,
  evidence: log_odds.Evidence,
  month: int,
) -> tuple[float, tuple[PassageReason, ...]]:
  """Returns the prior log odds of a month and its reasons, weightiest first.

  Args:
    scorer: of the corpus.
    scores: of the passage.
    evidence: made of them.
    month: ordinal; K for none of the months.
  """
  prior, shares, without = evidence.share_log_odds(month)
  # Of none of the months, the months that are likeliest if it is one.
  shown = int(np.argmax(evidence.log_p()[:-1]))
  shown = month if month < len(evidence.log_prior) else shown
  reasons = []
  for name, share in shares.items():
    if abs(share) < 1e-12 and name not in evidence.terms:
      continue
    spans, linked, note = _find_evidence(scorer, scores, name, shown)
    reasons.append(
      PassageReason(
        expert=name,
        weight=share,
        note=note,
        spans=spans,
        linked=tuple(
          int(scorer.state.row_ids[row]) for row in linked if row >= 0
        ),
        months=_list_months(evidence, name),
        probability_without=log_odds.to_probability(without[name]),
      )
    )
  return prior, tuple(sorted(reasons, key=lambda reason: -abs(reason.weight)))


def _list_months(
  evidence: log_odds.Evidence, name: str
) -> tuple[tuple[int, float], ...]:
  """Returns the months that an expert speaks for most, the first of equals."""
  term = evidence.terms.get(name)
  if term is None:
    return ()
  best = np.argsort(-term, kind="stable")[:_MAX_MONTHS]
  return tuple(
    (int(month), float(term[month])) for month in best if term[month] > 0
  )


def _find_evidence(
  scorer: PassageScorer, scores: PassageScores, name: str, month: int
) -> tuple[tuple[tuple[int, int], ...], tuple[int, ...], Note]:
  """Returns spans, linked rows and the note of an expert."""
  year = int(scorer.reader.axis.year_of[month])
  if name == "openings":
    read = scores.reading.dates.explain(0, year)
    note = (
      Note("note.date.printed", printed=read.note)
      if read.note
      else Note("note.date.none")
    )
    return read.spans, (), note
  if name == log_odds.UNKNOWN_WORDS and scores.reading.outside_log_ratio:
    read = scores.reading.dates.explain(0, year)
    note = Note("note.date.beyond", printed=read.note)
    return read.spans, (), note
  if name == "days":
    read = scores.reading.dates.explain_days(0)
    return read.spans, (), Note("note.days", days=read.note)
  if name == "words":
    text = scores.reading.body
    note = scorer.state.words.note_strings(text, year)
    return (), (), Note("note.words.year", words=note) if note else _OTHER_WORDS
  if name == "cited":
    linked, note = scores.cited.explain(scorer.reader.axis, year)
    return (
      (),
      linked,
      Note("note.cited", texts=note) if note else _OTHER_CITATIONS,
    )
  if name == "parallels":
    return (), *_note_links(scorer, scores.parallels)
  if name == "known":
    return (), *_note_links(scorer, scores.known)
  return (), (), _NOTES[name]


def _note_links(
  scorer: PassageScorer, links: Links
) -> tuple[tuple[int, ...], Note]:
  """Returns all linked records, the surest first, and a note on some."""
  month_chances = links.chances[:, parallel_texts.SAME_MONTH]
  order = np.lexsort((-links.year_chances, -month_chances))
  notes = []
  for index in order[:_MAX_NOTED_RECORDS].tolist():
    text = scorer.state.texts[int(links.rows[index])]
    shown = text[:_MAX_NOTED_CHARS] + "…" * (len(text) > _MAX_NOTED_CHARS)
    notes.append(
      Note(
        "note.text",
        text=shown,
        date=Note(
          "note.text.chances",
          month=float(month_chances[index]),
          year=float(links.year_chances[index]),
        ),
      )
    )
  rows = dict.fromkeys(links.rows[order].tolist())
  shared = [*dict.fromkeys(notes)]
  return tuple(rows), Note("note.link", texts=shared) if shared else _NO_LINKS
