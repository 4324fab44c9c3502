"""Shares of log odds: what each kind of evidence adds to that of a month.

The score of a month is the log of its prior and a sum of what the experts say,
and its log odds depend on the scores of all other months. So that the shares of
the experts add up, each gets the mean of what it adds over all orders in which
the experts may be heard: its Shapley value.

Axes: e experts, c = 2**e sets of them, K months.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping

import numpy as np
from jaxtyping import Float
from scipy.special import logsumexp

UNKNOWN_WORDS = "unknown"  # name of the evidence that none of the months is it
_CELLS_PER_BLOCK = 2**20  # sets by months whose scores are held at once


@dataclasses.dataclass(frozen=True, eq=False)
class Evidence:
  """What is said of the months, for and against.

  Attributes:
    log_prior: of the months, normalised.
    terms: name -> log ratios of the months, as they count in the sum.
    substitutes: (name, other) -> the term of an expert where another is left
      out that says the same, and so took its share.
    outside_log_odds: prior log odds that it is none of the months.
    outside_term: added to these by words that are not known.
  """

  log_prior: Float[np.ndarray, " K"]
  terms: Mapping[str, Float[np.ndarray, " K"]]
  outside_log_odds: float
  outside_term: float
  substitutes: Mapping[tuple[str, str], Float[np.ndarray, " K"]] = (
    dataclasses.field(default_factory=dict)
  )

  def log_p(self) -> Float[np.ndarray, " months"]:
    """Returns log p of every month, and last of none of them, [K + 1]."""
    scores = self.log_prior + sum(self.terms.values())
    odds = self.outside_log_odds + self.outside_term
    log_inside, log_outside = -np.logaddexp(0, odds), -np.logaddexp(0, -odds)
    return np.append(scores - logsumexp(scores) + log_inside, log_outside)

  def share_log_odds(
    self, month: int
  ) -> tuple[float, dict[str, float], dict[str, float]]:
    """Returns prior log odds, share of each expert, and log odds without it.

    Args:
      month: K for none of the months.
    """
    names = [*self.terms, UNKNOWN_WORDS]
    values = self._score_sets(month)
    size = len(names)
    sets = np.arange(2**size)
    num_members = np.array([int(each).bit_count() for each in sets])
    shares, without = {}, {}
    for position, name in enumerate(names):
      others = sets[(sets >> position) & 1 == 0]
      gains = values[others | 1 << position] - values[others]
      weights = [
        1 / (size * math.comb(size - 1, int(count)))
        for count in num_members[others]
      ]
      shares[name] = float(np.dot(weights, gains))
      without[name] = float(values[(2**size - 1) ^ (1 << position)])
    return float(values[0]), shares, without

  def _score_sets(self, month: int) -> np.ndarray:
    """Returns the log odds of a month by every set of experts, [2c].

    Bit i of an index is the i-th term; the highest is that of unknown words.
    """
    size, num_months = len(self.terms), len(self.log_prior)
    names = list(self.terms)
    log_inside = np.zeros(2**size)
    if month < num_months:
      terms = np.array([*self.terms.values()]).reshape(size, num_months)
      step = max(1, _CELLS_PER_BLOCK // num_months)
      for start in range(0, 2**size, step):
        sets = np.arange(start, min(start + step, 2**size))
        is_member = (sets[:, None] >> np.arange(size)) & 1 > 0
        scores = self.log_prior + is_member @ terms
        for (name, other), substitute in self.substitutes.items():
          is_alone = (
            is_member[:, names.index(name)] & ~is_member[:, names.index(other)]
          )
          scores += np.outer(is_alone, substitute - self.terms[name])
        log_inside[sets] = scores[:, month] - logsumexp(scores, axis=1)
    result = []
    for odds in (
      self.outside_log_odds,
      self.outside_log_odds + self.outside_term,
    ):
      if month == num_months:
        result.append(np.full(2**size, odds))
        continue
      log_p = log_inside - np.logaddexp(0, odds)
      result.append(log_p - np.log(-np.expm1(np.minimum(log_p, -1e-15))))
    return np.concatenate(result)


def to_probability(log_odds: float) -> float:
  """Returns the probability of log odds."""
  return float(np.exp(-np.logaddexp(0, -log_odds)))
