"""Reading of a passage: its printed date, and its text without it.

Axes: K months, D days of the cycle by what is said of each, S offsets
of the calendar.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable

import numpy as np
from jaxtyping import Float32, Int
from scipy.special import logsumexp

from ctd_jax.chronology import sexagenary
from ctd_jax.chronology.reigns import Timeline
from ctd_jax.dating import corpus
from ctd_jax.dating.chronicle import emissions, undated_texts
from ctd_jax.dating.chronicle.calendar import Calendar
from ctd_jax.dating.chronicle.sections import DAY_STATEMENTS, Section
from ctd_jax.dating.corpus import Corpus, MonthAxis
from ctd_jax.dating.experts import base, date_features
from ctd_jax.dating.experts.date_features import DateTables

_CACHED_STATEMENTS = 128  # of dates, whose months are kept in memory


@dataclasses.dataclass(frozen=True, eq=False)
class DayTable:
  """What a sexagenary day says of the months of a calendar."""

  # Of a day in every month and outside of the calendar, up to a constant, by
  # the offset of the calendar.
  log_p: Float32[np.ndarray, "D S months"]

  @classmethod
  def from_calendar(cls, calendar: Calendar) -> DayTable:
    """Returns the table of a calendar."""
    blank = undated_texts.read_head("", calendar)
    sections = [
      dataclasses.replace(blank, statements=((name, day),))
      for name in DAY_STATEMENTS
      for day in range(sexagenary.CYCLE_LENGTH)
    ]
    return cls(emissions.SectionEmissions(sections, calendar)(0, len(sections)))


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class ScoredHead(undated_texts.HeadDates):
  """The printed date of one passage."""

  log_p: Float32[np.ndarray, " K"]  # of every month, up to a constant

  def score_dates(
    self, rows: Int[np.ndarray, " n"]
  ) -> Float32[np.ndarray, "n K"]:
    """Returns log p of the date for every row; see `head_dates.HeadDates`."""
    return np.tile(self.log_p, (len(rows), 1))


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class PassageReading:
  """A passage as it was read."""

  passage: Corpus  # as a corpus of one
  dates: base.DateExpert  # what its printed date says
  # What the date says of a time outside of the calendar, against the months
  # together, 0 at least.
  outside_log_ratio: float = 0.0

  @property
  def body(self) -> str:
    """The plain text without its date."""
    return self.passage.bodies[0]


@dataclasses.dataclass(frozen=True, eq=False)
class PassageReader:
  """Reads the passages of a calendar."""

  calendar: Timeline | Calendar  # by whose months they are dated
  tables: DateTables | DayTable  # of printed dates

  @functools.cached_property
  def axis(self) -> MonthAxis:
    """The months."""
    return make_axis(self.calendar)

  def read(self, text: str) -> PassageReading:
    """Returns a passage with what its date says.

    Args:
      text: of the passage.
    """
    if isinstance(self.tables, DayTable):
      return self._read_head(text)
    passage = corpus.read_axis_corpus([text], self.axis)
    dates = date_features.FittedDates(
      corpus=passage, is_event=np.array([True]), tables=self.tables
    )
    return PassageReading(passage=passage, dates=dates)

  def _read_head(self, text: str) -> PassageReading:
    passage, (head,) = undated_texts.read_headed_corpus(
      [text], self.axis, self.calendar
    )
    log_p = self._score_head(head)
    expert = ScoredHead(
      calendar=self.calendar,
      heads=[head],
      is_read=np.array([True]),
      log_p=log_p[:-1],
    )
    # Against the mean of all months: a date that fits none of them well.
    ratio = log_p[-1] - logsumexp(log_p[:-1]) + np.log(len(log_p) - 1)
    return PassageReading(
      passage=passage,
      dates=undated_texts.FittedHeadDates(corpus=passage, expert=expert),
      outside_log_ratio=max(float(ratio), 0.0),
    )

  def _score_head(self, head: Section) -> Float32[np.ndarray, " months"]:
    """Returns log p of a head, as `emissions.SectionEmissions` has it."""
    result = np.zeros(len(self.axis) + 1, np.float32)
    days = []
    for statement in emissions.name_calendars(head).statements:
      if statement[0] in DAY_STATEMENTS:
        days.append(statement)
      else:
        result = result + self._score_statement(statement)
    if days:
      columns = [
        DAY_STATEMENTS.index(name) * sexagenary.CYCLE_LENGTH + day
        for name, day in days
      ]
      by_offset = self.tables.log_p[columns].sum(axis=0)
      if len(by_offset) > 1:
        by_offset = (
          by_offset + np.log(date_features.make_offset_prior())[:, None]
        )
      result = result + logsumexp(by_offset, axis=0)
    return result.astype(np.float32)

  @functools.cached_property
  def _score_statement(self) -> Callable[..., np.ndarray]:
    score = functools.partial(emissions.score_statement, calendar=self.calendar)
    return functools.lru_cache(_CACHED_STATEMENTS)(score)


def make_tables(dates: base.DateExpert) -> DateTables | DayTable:
  """Returns the tables of fitted dates, of a timeline or a calendar."""
  if isinstance(dates, undated_texts.FittedHeadDates):
    return DayTable.from_calendar(dates.expert.calendar)
  return dates.tables


def make_axis(calendar: Timeline | Calendar) -> MonthAxis:
  """Returns the months of a timeline or a calendar."""
  if isinstance(calendar, Timeline):
    return MonthAxis.from_timeline(calendar)
  return undated_texts.make_month_axis(calendar)
