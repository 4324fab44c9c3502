"""Reading of a passage: its printed date, and its text without it.

Axes: K months, O openings, M manners of opening.
"""

from __future__ import annotations

import dataclasses

import numpy as np
from jaxtyping import Float, Float32

from ctd_jax.chronology.timelines import Timeline
from ctd_jax.dating import corpus as corpus_lib
from ctd_jax.dating.chronicle import head_dates, undated_texts
from ctd_jax.dating.chronicle.month_calendar import Calendar
from ctd_jax.dating.corpus import Corpus
from ctd_jax.dating.experts import base, date_features
from ctd_jax.dating.month_axis import MonthAxis


@dataclasses.dataclass(frozen=True, eq=False)
class DateTables:
  """What the dates that open records say of their months, of a timeline.

  Attributes: as of `date_features.FittedDates`.
  """

  opening_month_chances: Float[np.ndarray, "O 12"]
  opening_log_ratios: Float32[np.ndarray, "O M K"]
  day_chances: Float32[np.ndarray, "K 3 60"]
  placeholder_log_ratios: Float32[np.ndarray, " K"]

  @classmethod
  def from_fitted(cls, dates: date_features.FittedDates) -> DateTables:
    """Returns the tables of a fitted expert."""
    return cls(
      **{
        field.name: getattr(dates, field.name)
        for field in dataclasses.fields(cls)
      }
    )


@dataclasses.dataclass(frozen=True, eq=False)
class PassageReader:
  """Reads the passages of a calendar.

  Attributes:
    calendar: by whose months they are dated.
    axis: these months.
    tables: of a timeline; None for a calendar, which needs none.
  """

  calendar: Timeline | Calendar
  axis: MonthAxis
  tables: DateTables | None = None

  def read(self, text: str) -> tuple[Corpus, base.FittedDates]:
    """Returns a passage as a corpus of one, and what its date says.

    Args:
      text: of the passage.
    """
    if self.tables is None:
      head = undated_texts.read_head(text, self.calendar)
      passage = undated_texts.make_headed_corpus(
        self.axis, [text], [head], ()
      )
      expert = head_dates.HeadDates(
        calendar=self.calendar, heads=[head], is_read=np.array([True])
      )
      return passage, head_dates.FittedHeadDates(corpus=passage, expert=expert)
    passage = corpus_lib.read_axis_corpus([text], self.axis)
    tables = {
      field.name: getattr(self.tables, field.name)
      for field in dataclasses.fields(self.tables)
    }
    return passage, date_features.FittedDates(
      corpus=passage, is_event=np.array([True]), **tables
    )


def make_axis(calendar: Timeline | Calendar) -> MonthAxis:
  """Returns the months of a timeline or a calendar."""
  if isinstance(calendar, Timeline):
    return MonthAxis.from_timeline(calendar)
  return undated_texts.make_month_axis(calendar)
