"""Dates of a chronicle: the months of its sections, and a summary of them.

A section is dated by its most probable month and the next, by the smallest set
of months that holds 90 % (the credible months), and by the probability that it
is of no month of the calendar. That stands for the ordinal after the last.

Axes: n sections, m months given for each: the most probable and the next.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Bool, Float, Int

from ctd_jax.chronology import reign_tables
from ctd_jax.dating.chronicle.month_calendar import Calendar
from ctd_jax.dating.chronicle.sections import Section
from ctd_jax.texts.works import Entry, Place

# Bounds of certainty, of all that is written and of the summary: from the one
# on a date is certain, below the other doubtful.
CERTAIN, DOUBTFUL = 0.9, 0.5


@dataclasses.dataclass(frozen=True)
class CredibleMonths:
  """The credible months of every section.

  Attributes:
    starts: where those of each section begin in `ordinals`; the last entry is
      their number, [n + 1].
    ordinals: of the months, ascending for each section; that after the last of
      the calendar is of no month.
    probabilities: of these; None where they were not kept.
  """

  starts: Int[np.ndarray, " starts"]
  ordinals: Int[np.ndarray, " total"]
  probabilities: Float[np.ndarray, " total"] | None = None

  def months_of(self, section: int) -> Int[np.ndarray, " k"]:
    """Returns the ordinals of a section."""
    return self.ordinals[self.starts[section] : self.starts[section + 1]]

  def probabilities_of(self, section: int) -> Float[np.ndarray, " k"] | None:
    """Returns the probabilities of the months of a section."""
    if self.probabilities is None:
      return None
    return self.probabilities[self.starts[section] : self.starts[section + 1]]


@dataclasses.dataclass(frozen=True)
class ChronicleDates:
  """The sections of a chronicle with their months.

  Attributes:
    records: text and headings, in order.
    sections: of the records, in order.
    months: ordinals of the most probable month and the next; the number of the
      calendar's months stands for none of them.
    probabilities: of these.
    credible: months that hold 90 % of the probability of each section.
    outside: probability that a section is of no month of the calendar.
    offsets: of the calendar, an index of `experts.days`; None where its days
      are known, or no section prints a day.
    is_fixed: whether the month was given, not found.
    calendar: names the ordinals.
    statement_counts: how often a month, a season, ... is printed.
    printed_reigns: rows of the reigns that the text names.
    warnings: what a reader of the dates should know.
  """

  records: Sequence[Entry]
  sections: Sequence[Section]
  months: Int[np.ndarray, "n m"]
  probabilities: Float[np.ndarray, "n m"]
  credible: CredibleMonths
  outside: Float[np.ndarray, " n"]
  offsets: Int[np.ndarray, " n"] | None
  is_fixed: Bool[np.ndarray, " n"]
  calendar: Calendar
  statement_counts: Mapping[str, int]
  printed_reigns: frozenset[int] = frozenset()
  warnings: Sequence[str] = ()

  def __len__(self) -> int:
    """Number of sections."""
    return len(self.sections)

  def is_outside(self, ordinal: int | np.integer) -> bool:
    """Whether an ordinal stands for no month of the calendar."""
    return bool(ordinal >= len(self.calendar))

  def name_month(self, ordinal: int | np.integer) -> tuple[str, int, str]:
    """Returns reign, regnal year and month, as the text would say it.

    Args:
      ordinal: of a month of the calendar.
    """
    return self.calendar.name_month(ordinal, self.printed_reigns)

  @functools.cached_property
  def reigns_of_sections(self) -> Sequence[frozenset[int]]:
    """Rows of the reigns that each section, or the last before it, names."""
    rows: frozenset[int] = frozenset()
    rows_of_sections = []
    for section in self.sections:
      for name, *values in section.statements:
        if name in ("year", "era") and values[0] is not None:
          rows = frozenset(self.calendar.find_reigns(values[0])) or rows
      rows_of_sections.append(rows)
    return rows_of_sections

  def find_naming_reigns(
    self, section: int, ordinal: int | np.integer
  ) -> frozenset[int]:
    """Returns the rows of the reigns by which a section would name a month.

    The reigns that it prints or goes on with; else others of their polities;
    else all that the text names.

    Args:
      section: its number.
      ordinal: of a month of the calendar.
    """
    key = self.reigns_of_sections[section], int(ordinal)
    if key not in self._naming_reigns:
      self._naming_reigns[key] = self._choose_naming_reigns(*key)
    return self._naming_reigns[key]

  @functools.cached_property
  def _naming_reigns(self) -> dict[tuple[frozenset[int], int], frozenset[int]]:
    """What names a month, by the reigns of a section: many share both."""
    return {}

  def _choose_naming_reigns(
    self, own: frozenset[int], ordinal: int
  ) -> frozenset[int]:
    """See `find_naming_reigns`; `own` are the reigns of the section."""
    polities = self.calendar.polities
    same_polity = np.isin(polities, polities[list(own)])
    for rows in (own, frozenset(np.flatnonzero(same_polity).tolist())):
      if self.calendar.find_reign(ordinal, rows) in rows:
        return rows
    return self.printed_reigns

  def text_of(self, section: int) -> str:
    """Returns the whole text of a section."""
    span = self.sections[section]
    return self.records[span.record].text[span.start : span.stop]

  def place_of(self, section: int) -> Place:
    """Returns where the first character of a section is printed."""
    span = self.sections[section]
    return self.records[span.record].place_at(span.start)


def format_span(years: Sequence[int] | np.ndarray) -> str:
  """Returns the first and last year, as in "300 CE to 329 CE"."""
  first, last = (
    reign_tables.format_common_era_year(int(year))
    for year in (min(years), max(years))
  )
  return f"{first} to {last}"
