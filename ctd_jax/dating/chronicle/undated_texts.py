"""Undated texts dated with a chronicle, on the months of its calendar.

Such a text prints at most a part of its date, at its head. The head is read as
in a chronicle, the rest by a dating model.

Axes: N records, n of them, K months, S offsets.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from jaxtyping import Bool, Float, Float32, Int
from scipy.special import logsumexp

from ctd_jax.chronology.reigns import MONTHS_PER_YEAR
from ctd_jax.dating import corpus, dating_model
from ctd_jax.dating.chronicle import emissions, section_reading, western
from ctd_jax.dating.chronicle.calendar import Calendar
from ctd_jax.dating.chronicle.sections import Section
from ctd_jax.dating.corpus import (
  NO_OPENING,
  UNKNOWN,
  Corpus,
  Labels,
  MonthAxis,
  plain_text,
)
from ctd_jax.dating.experts import base, date_features, parallels
from ctd_jax.dating.experts.base import CorpusFeatures
from ctd_jax.texts.works import Entry, Place


def make_month_axis(calendar: Calendar) -> MonthAxis:
  """Returns the months of a calendar as an axis, by its leading readings."""
  # Where calendars change, a month may be counted to a year already past.
  civil_year, year_of = np.unique(
    np.maximum.accumulate(calendar.years), return_inverse=True
  )
  members = calendar.memberships
  regnal_years = {
    (int(members.reigns[row]), int(members.regnal_years[row])): int(
      year_of[members.lunations[row]]
    )
    # Before an era began its first year is another's.
    for row in np.flatnonzero(members.in_use)[::-1]
  }
  return MonthAxis(
    timeline=calendar.timeline,
    month_of_year=calendar.months,
    year_of=year_of.reshape(-1),
    civil_year=civil_year,
    regnal_years=np.array(
      [(*names, year) for names, year in reversed(regnal_years.items())]
    ).reshape(-1, 3),
  )


def read_head(text: str, calendar: Calendar) -> Section:
  """Returns the first section of a text that stands alone."""
  if western.is_western(calendar):
    return western.read_all_western_sections([Entry(text, Place("", 1))])[0]
  return section_reading.read_sections(0, text, calendar)[0]


def read_headed_corpus(
  texts: Sequence[str],
  axis: MonthAxis,
  calendar: Calendar,
  external_texts: Sequence[str] = (),
) -> tuple[Corpus, list[Section]]:
  """Returns undated texts as a corpus, and the first section of each."""
  heads = [read_head(text, calendar) for text in texts]
  return make_headed_corpus(axis, texts, heads, external_texts), heads


def make_headed_corpus(
  axis: MonthAxis,
  texts: Sequence[str],
  heads: Sequence[Section],
  external_texts: Sequence[str],
) -> Corpus:
  """Returns a corpus of texts without the dates at their heads.

  It has no openings and days: `HeadDates` scores those.
  """
  zeros = np.zeros(len(texts), np.int32)
  return Corpus(
    axis=axis,
    texts=tuple(texts),
    plain_texts=tuple(map(plain_text, texts)),
    bodies=tuple(
      plain_text(text[head.date_end :])
      for text, head in zip(texts, heads, strict=True)
    ),
    opening=zeros + NO_OPENING,
    opening_manner=zeros,
    opening_year=zeros,
    opening_span=np.stack([zeros, zeros], axis=1),
    days=((),) * len(texts),
    first_day_mark=zeros,
    placeholder_month=zeros + UNKNOWN,
    external_texts=tuple(external_texts),
  )


# A text may print a part of its date: a month, a day, a year without its era.
# It is scored as the sections of a chronicle are, so leap months, parallel
# calendars and days count alike. Only the head is read: later dates belong
# to what the text tells next.


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class HeadDates:
  """The expert of printed dates for any calendar; fitting learns nothing."""

  corpus: Corpus  # the texts
  calendar: Calendar  # of the corpus
  heads: Sequence[Section]  # first section of each text, [N]
  # Whether the date of a text counts; a chronicle's do not.
  is_read: Bool[np.ndarray, " N"]
  name = "dates"

  @functools.cached_property
  def has_date(self) -> Bool[np.ndarray, " N"]:
    """Whether a text prints a date that counts."""
    return self.is_read & [bool(head.statements) for head in self.heads]

  @functools.cached_property
  def date_numbers(self) -> Int[np.ndarray, " N"]:
    """Number of each text's date, the same for equal dates; UNKNOWN if none."""
    numbers: dict[tuple, int] = {}
    result = np.full(len(self.heads), UNKNOWN)
    for row in np.flatnonzero(self.has_date).tolist():
      head = self.heads[row]
      key = (head.statements, head.is_of_other_time)
      result[row] = numbers.setdefault(key, len(numbers))
    return result

  @functools.cached_property
  def _emissions(self) -> emissions.SectionEmissions:
    numbers, first = np.unique(self.date_numbers, return_index=True)
    dated = [self.heads[row] for row in first[numbers != UNKNOWN]]
    return emissions.SectionEmissions(dated, self.calendar)

  def log_scores(
    self, rows: Int[np.ndarray, " n"]
  ) -> Float32[np.ndarray, "n K"]:
    """Returns log p of printed dates, up to a constant; 0 without a date."""
    result = np.zeros((len(rows), len(self.calendar)), np.float32)
    numbers = self.date_numbers[rows]
    for number in np.unique(numbers[numbers != UNKNOWN]).tolist():
      result[numbers == number] = self._score_date(number)
    return result

  def _score_date(self, number: int) -> Float32[np.ndarray, " K"]:
    by_offset = self._emissions(number, number + 1)[0, :, :-1]  # [S, K]
    if len(by_offset) == 1:
      return by_offset[0]
    log_prior = np.log(date_features.OFFSET_PRIOR)[:, None]
    return logsumexp(by_offset + log_prior, axis=0).astype(np.float32)

  def fit(
    self,
    features: CorpusFeatures,
    labels: Labels,
    peers: Mapping[str, base.FittedExpert],
  ) -> HeadDates:
    """Returns the expert itself; see `base.Expert`."""
    return self

  def month_of_year_chances(
    self, rows: Int[np.ndarray, " n"]
  ) -> Float[np.ndarray, "n 12"]:
    """Returns the chance of each month of the year by the printed date."""
    result = np.full((len(rows), MONTHS_PER_YEAR), 1 / MONTHS_PER_YEAR)
    months = self.corpus.axis.month_of_year - 1
    sizes = np.maximum(np.bincount(months, minlength=MONTHS_PER_YEAR), 1)
    numbers = self.date_numbers[rows]
    is_dated = np.flatnonzero(numbers != UNKNOWN)
    for first in np.unique(numbers[is_dated], return_index=True)[1]:
      position = is_dated[first]
      scores = self.log_scores(rows[[position]])[0]
      mass = np.exp(scores - scores.max())
      chances = np.bincount(months, mass, MONTHS_PER_YEAR) / sizes
      result[numbers == numbers[position]] = chances / chances.sum()
    return result

  def split_log_scores(self, row: int) -> dict[str, np.ndarray]:
    """Returns the log scores of a record's printed date, name -> [K]."""
    if not self.has_date[row]:
      return {}
    return {"openings": self.log_scores(np.array([row]))[0]}

  def explain(self, row: int, year: int) -> base.Evidence:
    """Returns the printed date of a record; see `base.FittedExpert`."""
    if not self.has_date[row]:
      return base.Evidence()
    head = self.heads[row]
    return base.Evidence(
      spans=((head.start, head.date_end),),
      note=self.corpus.texts[row][head.start : head.date_end],
    )


def make_text_model(
  dates: HeadDates, without: Iterable[str] = (), seed: int = 42
) -> dating_model.DatingModel:
  """Returns a model that dates texts with the help of a chronicle.

  Args:
    without: names of evidence to leave out; ValueError if unknown.
    seed: seed of the year encoder.
  """
  # A chronicle names a month as often as it likes, and does not say that a
  # month without a record has none. So the room of months is not evidence.
  experts = dating_model.make_experts({*without, "room"}, seed, dates)
  return dating_model.DatingModel(
    (*experts, parallels.KnownParallels()),
    use_punctuation=False,
    fold_by=corpus.RECORDS,
    sharpening=0.0,  # of other texts it is not known
  )
