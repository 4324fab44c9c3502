"""Phrases of an answer: probabilities, spans of months, reasons.

The terminal and the page say them alike.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from ctd_jax.index import calendars
from ctd_jax.index.answers.answer import Span

MAX_SPANS = 3
# Kinds of evidence as a reader knows them; the others are called as in data.
_NAMES_OF_EVIDENCE = {
  "openings": "printed date",
  "days": "day",
  "cited": "citations",
  "parallels": "parallels without a date",
  "known": "parallels with a date",
  "empty": "empty months",
  "room": "one opening a month",
  "unknown": "unknown words",
  "corpus": "other records",
}
_GIVEN = ("keys", "reader")  # what is given needs no weight
_MIN_WEIGHT = 0.05  # below, a weight is printed as 0
_CONTROL = re.compile(
  r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]"
)
_WHITE_SPACE = re.compile(r"\s+")
_YEAR_AND_MONTH = re.compile(r"(.*年)(.+月)\Z")


def clean(text: str) -> str:
  """Returns a text on one line, control characters shown as 「␛」."""
  return _CONTROL.sub("\N{SYMBOL FOR ESCAPE}", _WHITE_SPACE.sub(" ", text))


def format_chance(probability: float) -> str:
  """Returns a probability with as many digits as can be told apart."""
  if probability >= 0.9995:
    return "1"
  if probability < 0.001:
    return "<.001"
  return f"{probability:.3f}"[1:].rstrip("0") or "0"


def format_spans(spans: Sequence[Span], max_spans: int = MAX_SPANS) -> str:
  """Returns spans of months; of many their number, the first and the last.

  A year that was just named is not named again: 「元狩二年三月 – 五月, 七月」.

  Args:
    spans: in order; one outside of the calendar is the last.
    max_spans: that are named one by one.
  """
  inside = [span for span in spans if span.name != calendars.OUTSIDE]
  if len(inside) > max_spans:
    ends = inside[0].name.split(" – ")[0], inside[-1].name.split(" – ")[-1]
    size = sum(span.last - span.first + 1 for span in inside)
    text = f"{size:,} months, {ends[0]} … {ends[1]}"
  else:
    text = _name_spans(inside)
  if len(inside) == len(spans):
    return text
  return f"{text}, or {calendars.OUTSIDE}" if text else calendars.OUTSIDE


def _name_spans(spans: Sequence[Span]) -> str:
  year, parts = None, []
  for span in spans:
    names = []
    for name in span.name.split(" – "):
      match = _YEAR_AND_MONTH.match(name)
      names.append(match[2] if match and match[1] == year else name)
      year = match[1] if match else None
    parts.append(" – ".join(names))
  return ", ".join(parts)


def name_evidence(expert: str) -> str:
  """Returns a kind of evidence as a reader knows it."""
  return _NAMES_OF_EVIDENCE.get(expert, expert)


def list_weighty(reasons: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
  """Returns the reasons that are given or whose weight is not 0."""
  return [
    reason
    for reason in reasons
    if reason["expert"] in _GIVEN or abs(reason["weight"]) >= _MIN_WEIGHT
  ]


def name_weightless(reasons: Sequence[dict[str, Any]]) -> str:
  """Returns the kinds of evidence that were read and weigh nothing."""
  weighty = list_weighty(reasons)
  return ", ".join(
    dict.fromkeys(
      name_evidence(reason["expert"])
      for reason in reasons
      if reason not in weighty
    )
  )


def format_reasons(
  reasons: Sequence[dict[str, Any]], number: int | None
) -> list[str]:
  """Returns reasons as lines, the weightiest first, weights in nats.

  Args:
    reasons: of a date.
    number: how many; all if None, and last those that weigh nothing.
  """
  lines = [
    clean(reason["note"])
    if reason["expert"] in _GIVEN
    else f"{reason['weight']:+.1f} {name_evidence(reason['expert'])}: "
    f"{clean(reason['note'])}"
    for reason in list_weighty(reasons)[:number]
  ]
  weightless = name_weightless(reasons)
  if weightless and (number is None or not lines):
    lines.append(f" 0.0 of no weight: {weightless}")
  return lines
