"""Dates of a passage, and the reasons for one of its months.

Axes: K months, Y years.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from jaxtyping import Float

from ctd_jax.utils.notes import Note


@dataclasses.dataclass(frozen=True, kw_only=True)
class PassageReason:
  """What one kind of evidence says of the month that is shown.

  Attributes:
    expert: name of the evidence: "openings", "days", "words", "cited",
      "parallels", "known", "room", "unknown", "together".
    weight: its share of the log odds of the month, in nats; over all reasons of
      a passage they add up to the log odds of the posterior less those of the
      prior.
    note: the evidence in words.
    spans: (start, end) of the characters of the passage that count.
    linked: rows of the records that count, the weightiest first.
    months: (ordinal month, log ratio) of the months it speaks for most.
    probability_without: of the shown month, were this evidence left out.
  """

  expert: str
  weight: float
  note: Note | str = ""
  spans: tuple[tuple[int, int], ...] = ()
  linked: tuple[int, ...] = ()
  months: tuple[tuple[int, float], ...] = ()
  probability_without: float = 0.0

  def to_dict(self) -> dict[str, Any]:
    """Returns the reason as JSON has it."""
    return {
      "expert": self.expert,
      "weight": self.weight,
      "note": self.note,
      "spans": [list(span) for span in self.spans],
      "linked": list(self.linked),
      "months": [list(month) for month in self.months],
      "probability_without": self.probability_without,
    }


@dataclasses.dataclass(frozen=True, kw_only=True)
class PassageDates:
  """When a passage is of, and why.

  Attributes:
    log_p: log probability of every month, and last of none of them, [K + 1].
    month: ordinal month that the reasons are for; K for none of the calendar.
    prior_log_odds: log odds of that month before anything is read.
    reasons: the weightiest first; empty if they were not asked for.
  """

  log_p: Float[np.ndarray, " months"]
  month: int
  prior_log_odds: float
  reasons: tuple[PassageReason, ...] = ()

  @property
  def log_odds(self) -> float:
    """Log odds of the month: those of the prior and the weights of reasons."""
    others = np.delete(self.log_p, self.month)
    return float(self.log_p[self.month] - np.logaddexp.reduce(others))
