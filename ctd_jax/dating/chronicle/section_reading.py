"""Reading of sections: what the records of a chronicle print of their dates.

The dates are read from the text alone: opening dates, days of the sexagenary
cycle, names of eras, marks of streams. A record goes on over months and days
(「夏，四月，…五月，…甲子，…」), so it is read as sections, each under the date
that opens a clause; the sections of a record cover its text.

Texts without punctuation are cut by what stands before and after a date.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from ctd_jax.dating.chronicle.clauses import Clauses
from ctd_jax.dating.chronicle.date_glyphs import fold_date_glyphs
from ctd_jax.dating.chronicle.date_reading import find_printed_dates
from ctd_jax.dating.chronicle.month_calendar import Calendar
from ctd_jax.dating.chronicle.printed_dates import (
  DatePart,
  PrintedDate,
  doubt_month,
)
from ctd_jax.dating.chronicle.punctuation import is_blank, is_punctuated
from ctd_jax.dating.chronicle.reign_names import find_new_eras
from ctd_jax.dating.chronicle.relative_dates import resolve_relative_years
from ctd_jax.dating.chronicle.section_headings import (
  match_stream_mark,
  read_heading,
)
from ctd_jax.dating.chronicle.sections import Section, SectionDraft
from ctd_jax.dating.sequence import section_kinds

# The counts of years of rulers of Han who began to count anew.
_COUNTS_OF_YEARS = ("前", "中", "後")
_COUNTING_KINDS = (
  section_kinds.MONTH,
  section_kinds.SEASON,
  section_kinds.YEAR,
)


def read_sections(
  record: int, text: str, calendar: Calendar, is_heading: bool = False
) -> list[Section]:
  """Returns the sections of a record, at least one.

  They cover the text: each begins at its date, the first at 0. Dates in speech
  and in flashbacks (「初，」) open none.

  Args:
    record: its number.
    text: one record, punctuated or not.
    calendar: whose reign names to look for.
    is_heading: whether the text heads others, which makes it one section.
  """
  text = fold_date_glyphs(text)
  dates = find_printed_dates(text, calendar)
  heading = read_heading(text, dates, calendar.timeline, is_heading)
  if heading is not None:
    return [
      Section(
        record,
        0,
        len(text),
        heading.date_end,
        heading.kind,
        tuple(heading.statements),
        True,
      )
    ]
  drafts = _cut_record(text, dates)
  resolve_relative_years(drafts)
  for position, statement in find_new_eras(text, calendar.timeline):
    draft = [draft for draft in drafts if draft.start <= position][-1]
    if statement not in draft.statements:
      draft.statements.append(statement)
  stops = [draft.start for draft in drafts[1:]] + [len(text)]
  told = set() if is_punctuated(text) else _find_told(drafts)
  return [
    Section(
      record,
      draft.start,
      stop,
      draft.date_end if draft.last_part >= 0 else draft.start,
      draft.kind,
      tuple(draft.statements),
      draft.kind != section_kinds.NO_DATE
      and is_blank(text[draft.date_end : stop]),
      draft.start in told,
    )
    for draft, stop in zip(drafts, stops, strict=True)
  ]


def _find_told(drafts: Sequence[SectionDraft]) -> set[int]:
  """Returns where the sections start whose date a record may but tell of.

  A year that a month, a season or another year counts from is the record's.

  Args:
    drafts: sections of a record without punctuation, in order.
  """
  last_year = max(
    (
      before.start
      for before, draft in itertools.pairwise(drafts)
      if draft.kind in _COUNTING_KINDS
    ),
    default=0,
  )
  return {
    draft.start
    for draft in drafts[1:]
    if draft.kind < section_kinds.YEAR or draft.start > last_year
  }


def _cut_record(text: str, dates: Sequence[PrintedDate]) -> list[SectionDraft]:
  """Returns the sections of a record that is more than a date."""
  stream = match_stream_mark(text)
  drafts = [
    SectionDraft(0, stream.end(), kind=section_kinds.STREAM)
    if stream
    else SectionDraft(0, 0)
  ]
  clauses = Clauses(text)
  for date in dates:
    draft = drafts[-1]
    between = text[draft.date_end : date.start]
    if (
      (is_blank(between) or _heads_count_of_years(between, date, draft))
      and date.first_part > draft.last_part
      and (draft.last_part >= 0 or clauses.can_open_record(date))
    ):
      draft.add_date(date)
    elif clauses.opens_section(date, drafts):
      drafts.append(SectionDraft(date.start, date.start))
      drafts[-1].add_date(date)
    elif clauses.may_open_section(date, drafts):
      drafts.append(SectionDraft(date.start, date.start))
      drafts[-1].add_date(doubt_month(date))
    elif date.first_part == DatePart.DAY and clauses.is_narrated(date):
      # A day inside a sentence belongs to the section that it is in.
      draft.statements += date.statements
  return drafts


def _heads_count_of_years(
  text: str, date: PrintedDate, draft: SectionDraft
) -> bool:
  """Returns whether a text before a year says of which count of a ruler it is.

  「前三年冬十月」 opens a year of 文帝, before the count began anew.
  """
  return (
    text in _COUNTS_OF_YEARS
    and draft.start == draft.date_end == 0
    and date.first_part == DatePart.YEAR
    and date.has_season
  )
