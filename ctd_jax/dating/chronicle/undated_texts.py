"""Undated texts beside a chronicle: months of its calendar, and their heads.

A text that stands in no order prints a part of its date at most, at its head.
What stands there is read as in a chronicle, and the rest as a dating model
reads it.

Axes: N records, K months.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ctd_jax.dating.chronicle import (
  section_reading,
  western_calendar,
  western_sections,
)
from ctd_jax.dating.chronicle.month_calendar import Calendar
from ctd_jax.dating.chronicle.sections import Section
from ctd_jax.dating.corpus import (
  NO_OPENING,
  UNKNOWN,
  Corpus,
  plain_text,
)
from ctd_jax.dating.month_axis import MonthAxis
from ctd_jax.texts.works import Entry, Place


def make_month_axis(calendar: Calendar) -> MonthAxis:
  """Returns the months of a calendar as an axis, by the years of the leading.

  Args:
    calendar: lunations, leap months among them.
  """
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
  """Returns the first section of a text.

  Args:
    text: that stands alone.
    calendar: whose reigns it may name.
  """
  if western_calendar.is_western(calendar):
    entry = Entry(text, Place("", 1))
    return western_sections.read_all_western_sections([entry])[0]
  return section_reading.read_sections(0, text, calendar)[0]


def read_headed_corpus(
  texts: Sequence[str],
  axis: MonthAxis,
  calendar: Calendar,
  external_texts: Sequence[str] = (),
) -> tuple[Corpus, list[Section]]:
  """Returns undated texts as a corpus, and the first section of each.

  Args:
    texts: that stand alone.
    axis: the months of the calendar.
    calendar: whose reigns they may name.
    external_texts: texts that are not to be dated and whose citations count.
  """
  heads = [read_head(text, calendar) for text in texts]
  return make_headed_corpus(axis, texts, heads, external_texts), heads


def make_headed_corpus(
  axis: MonthAxis,
  texts: Sequence[str],
  heads: Sequence[Section],
  external_texts: Sequence[str],
) -> Corpus:
  """Returns texts without the dates at their heads.

  Dates are left to `head_dates`, so there are no openings and days.

  Args:
    axis: the months.
    texts: of the records, [N].
    heads: first section of each.
    external_texts: texts that are not to be dated and whose citations count.
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
