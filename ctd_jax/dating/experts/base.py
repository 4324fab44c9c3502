"""Protocol of the experts: sources of evidence about the date of a record.

An `Expert` holds options. Fitted on a corpus and the labels that it may use, it
becomes a `FittedExpert`, which scores the months or the years of records and
names the evidence behind a score. Each kind has methods of its own for scores.

Axes: K months, Y regnal years, n rows.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float, Float32, Int


@dataclasses.dataclass(frozen=True, kw_only=True)
class Evidence:
  """What an expert read in one record, for people."""

  # (start, end) of the characters of the record's text that count.
  spans: tuple[tuple[int, int], ...] = ()
  # Other records that count, the weightiest first.
  linked_rows: tuple[int, ...] = ()
  note: str = ""  # the evidence in words


@dataclasses.dataclass(frozen=True, kw_only=True)
class Reason:
  """What one expert adds to the log score of every month of a record."""

  expert: str  # name of the expert, or "prior"
  # Added to the unnormalised log score of each month.
  log_scores: Float[np.ndarray, " K"] = dataclasses.field(repr=False)
  # `log_scores` at the explained month less their mean over all months;
  # positive evidence speaks for the month.
  weight: float
  evidence: Evidence = Evidence()  # what the expert read

  @property
  def favoured_months(self) -> Int[np.ndarray, " m"]:
    """Ordinal months of the highest score, ascending."""
    return np.flatnonzero(self.log_scores >= self.log_scores.max() - 1e-6)


@runtime_checkable
class FittedExpert(Protocol):
  """An expert that knows the labels it may use."""

  @property
  def name(self) -> str:
    """Name of the expert."""

  def explain(self, row: int, year: int) -> Evidence:
    """Returns the evidence of one record.

    Args:
      row: the record.
      year: index of the regnal year that is explained.
    """


@runtime_checkable
class MonthExpert(FittedExpert, Protocol):
  """An expert that scores months."""

  def log_scores(
    self, rows: Int[np.ndarray, " n"]
  ) -> Float32[np.ndarray, "n K"]:
    """Returns the log scores of the months, up to a constant for each row.

    Args:
      rows: records to score, none of them labelled or a placeholder.
    """


@runtime_checkable
class DateExpert(MonthExpert, Protocol):
  """The expert of printed dates."""

  corpus: Any

  def month_of_year_chances(
    self, rows: Int[np.ndarray, " n"]
  ) -> Float[np.ndarray, "n 12"]:
    """Returns the chance of each month of the year by the printed date."""

  def split_log_scores(self, row: int) -> dict[str, np.ndarray]:
    """Returns the terms that `log_scores` of a record adds up, name -> [K]."""


@runtime_checkable
class Expert(Protocol):
  """A source of evidence, with its options."""

  @property
  def name(self) -> str:
    """Name of the expert."""

  def fit(
    self, features: Any, labels: Any, peers: Mapping[str, FittedExpert]
  ) -> FittedExpert:
    """Returns the expert fitted on labelled records.

    Args:
      features: `features.CorpusFeatures`, the texts as all experts read them.
      labels: `corpus.Labels`, the known months.
      peers: experts fitted on the same labels before this one, by name; an
        expert whose evidence builds on another's reads it there.
    """
