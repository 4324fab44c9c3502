"""Pages of a month and of a year, with each event as every work tells it.

Records of a month are grouped into events by shared wording. Rare words
count more; words common in the surrounding years count less.

Axes: n records, w words.
"""

from __future__ import annotations

import bisect
import dataclasses
import re
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
from fastapi import APIRouter
from jaxtyping import Bool, Float, Int
from starlette.requests import Request
from starlette.responses import Response

from ctd_jax.chronology import numerals, sexagenary
from ctd_jax.dating.chronicle import sections
from ctd_jax.dating.experts import wording
from ctd_jax.index import calendars, database, record_answers
from ctd_jax.web import corrections, rendering
from ctd_jax.web.requests import PageError, endpoint
from ctd_jax.web.served_index import ServedIndex

# Two records sharing n-grams of this weight tell the same event; a shared
# name of three characters weighs about 15.
MIN_WEIGHT = 12.0
_DAY_WEIGHT = 8.0  # added if both print the same day
# A short record nearly contained in another belongs to its event too.
_MIN_CONTAINED, _MIN_CONTAINED_WEIGHT = 0.7, 4.0
_LAST_CHARACTER = chr(sys.maxunicode)
_MARKS = re.compile(r"[\W_]+")
_MARKS_WITHIN_LINE = re.compile(r"[^\w\n]+|_+")
_YEAR = re.compile(sexagenary.YEAR_PATTERN)
_PAIR = re.compile(sexagenary.PAIR_PATTERN)

MAX_RECORDS = 300  # shown on the page of a month
MAX_DOUBTFUL = 40
_MIN_PROBABILITY = 0.5  # to stand in a column of the month
_MIN_DOUBT = 0.05  # to be listed below the columns
_USUAL_MONTHS = 36  # on either side, to learn common wording from
_OPENING = 60  # characters that count as a text's opening
_MAX_MONTHS = 96  # months in the cache, up to 200 kB each
_MAX_STRETCHES = 16  # stretches in the cache, 2 MB each
_MONTHS_AT_ONCE = 12  # that share one `UsualWording`
_MAX_USUAL = 600  # texts to learn from; more change nothing
_MIN_DAY_CHANCE = 0.05  # of a day, in calendars without known days
router = APIRouter(include_in_schema=False)


@dataclasses.dataclass(frozen=True)
class WorkText:
  """A record to align with those of other works."""

  row: int  # row of the record in the index
  column: int  # number of its work
  text: str
  # First words without the date; "" if unknown.
  opening: str = ""


@dataclasses.dataclass(frozen=True, eq=False)
class UsualWording:
  """N-grams of the texts around a month: common wording, as against rare."""

  months: Int[np.ndarray, " T"]  # month of each text
  occurrences: wording.Occurrences  # n-grams of the texts

  @classmethod
  def read(
    cls, texts: Sequence[str], months: Sequence[int] | Int[np.ndarray, " T"]
  ) -> UsualWording:
    """Returns the n-grams of texts with their months."""
    return cls(
      np.array(months, int),
      wording.Occurrences.find(_prepare_all(texts), wording.LENGTHS),
    )

  def count(
    self, strings: wording.NgramVocabulary, without_month: int
  ) -> tuple[Int[np.ndarray, " V"], int]:
    """Returns the number of texts with each n-gram, and the number of texts.

    Args:
      without_month: texts of this month are not counted.
    """
    is_other = self.months != without_month
    others = self.occurrences.select(is_other[self.occurrences.rows])
    return strings.count_texts(others), int(is_other.sum())


def align_records(
  records: Sequence[WorkText], usual: UsualWording, month: int
) -> list[list[WorkText]]:
  """Returns the records grouped by event, in the order of the works.

  Args:
    records: sorted by column, within a column in the order of the work.
    usual: wording of the surrounding years.
  """
  weights = _weigh_pairs(records, usual, month)
  events: list[list[int]] = []
  previous: int | None = None  # position of the event before, in this work
  columns = np.array([record.column for record in records], int)
  for index, column in enumerate(columns):
    if index and column != columns[index - 1]:
      previous = None
    shared = np.where(columns[:index] != column, weights[index, :index], 0)
    event = _find_event(events, shared)
    if event is None:
      event = len(events) if previous is None else previous + 1
      events.insert(event, [])
    events[event].append(index)
    previous = event
  return [[records[index] for index in event] for event in events]


def _find_event(
  events: Sequence[Sequence[int]], weights: Float[np.ndarray, " b"]
) -> int | None:
  """Returns the event that shares most with a record, if any shares enough."""
  most = weights.max(initial=MIN_WEIGHT)
  if most <= MIN_WEIGHT:
    return None
  nearest = {*np.flatnonzero(weights == most).tolist()}
  return next(
    number
    for number, members in enumerate(events)
    if not nearest.isdisjoint(members)
  )


def _weigh_pairs(
  records: Sequence[WorkText], usual: UsualWording, month: int
) -> Float[np.ndarray, "n n"]:
  """Returns the weight of what each two records share."""
  texts = [_prepare(record.text) for record in records]
  # Only n-grams of these records matter; the usual texts give their counts.
  strings = wording.collect_ngrams(texts, wording.LENGTHS)
  usual_counts, num_usual = usual.count(strings, month)
  idf = wording.weigh_strings(
    strings.text_counts + usual_counts, len(texts) + num_usual
  )
  held = strings.encode(texts)
  scaled = held.copy()
  scaled.data = idf[held.indices]
  weights = (scaled @ held.T).toarray()
  whole = np.minimum.outer(weights.diagonal(), weights.diagonal())
  is_contained = (weights >= _MIN_CONTAINED * whole) & (
    weights >= _MIN_CONTAINED_WEIGHT
  )
  weights = np.where(is_contained, weights + MIN_WEIGHT, weights)
  has_day = np.zeros((len(records), sexagenary.CYCLE_LENGTH), np.float32)
  for row, record in enumerate(records):
    has_day[row, list(find_days(record.text))] = 1
  weights += _DAY_WEIGHT * (has_day @ has_day.T > 0)
  openings = [_prepare(record.opening) for record in records]
  lengths = np.array([len(opening) for opening in openings])
  quoted = _mark_quoted(openings)
  return weights + np.where(quoted, MIN_WEIGHT + lengths[:, None], 0)


def _mark_quoted(texts: Sequence[str]) -> Bool[np.ndarray, "n n"]:
  """Returns which pairs have one text that starts with the other."""
  begins = np.zeros((len(texts), len(texts)), bool)
  order = sorted(range(len(texts)), key=texts.__getitem__)
  ordered = [texts[row] for row in order]
  for row, text in enumerate(texts):
    if text:
      # Texts that begin with it are adjacent in sorted order.
      first = bisect.bisect_left(ordered, text)
      end = bisect.bisect_right(ordered, text + _LAST_CHARACTER)
      begins[row, order[first:end]] = True
  return begins | begins.T


def _prepare(text: str) -> str:
  """Returns a text in one script, without punctuation, which editions vary."""
  return _MARKS.sub("", numerals.fold_script(text))


def _prepare_all(texts: Sequence[str]) -> list[str]:
  """Returns many texts prepared as in `_prepare`, in one pass."""
  joined = "\n".join(text.replace("\n", "") for text in texts)
  folded = numerals.fold_script(joined)
  return _MARKS_WITHIN_LINE.sub("", folded).split("\n")


def find_days(text: str) -> frozenset[int]:
  """Returns the sexagenary days printed in a text; 0 is 甲子."""
  folded = _YEAR.sub("", sections.fold_date_glyphs(text))
  return frozenset(
    sexagenary.parse_cyclic_index(pair) for pair in _PAIR.findall(folded)
  )


@dataclasses.dataclass(frozen=True)
class MonthRecord:
  """A record of a month."""

  row: int  # in the index
  work: str  # name of the work
  text: str  # as printed
  kind: str
  probability: float  # that the record belongs to the month
  date_end: int  # end of the date that opens the text; 0 without one


@dataclasses.dataclass(frozen=True)
class MissingWork:
  """A work without a record in a month."""

  name: str  # of the work
  title: str  # of the work
  is_silent: bool  # has records before and after the month
  span: str  # time of its records; "" without any


@dataclasses.dataclass(frozen=True)
class CalendarDay:
  """A day of a month."""

  number: int | None  # in the month, from 1; None if unknown
  name: str  # sexagenary name
  # Julian, Gregorian from 1582-10-15 on; "" if unknown.
  date: str
  chance: float  # probability that the month has this day
  rows: tuple[int, ...]  # records that print it


@dataclasses.dataclass(frozen=True, kw_only=True)
class Month:
  """Records, calendar and works of a month."""

  ordinal: int
  month: dict[str, Any]  # from `calendars.describe_month`
  common_era: str  # year
  names: tuple[str, ...]  # in other reigns
  works: tuple[tuple[str, str], ...]  # (name, title) of each column
  events: tuple[tuple[MonthRecord, ...], ...]  # records grouped by event
  # Less probable records, the likeliest first.
  doubtful: tuple[MonthRecord, ...]
  missing: tuple[MissingWork, ...]  # works without a record
  num_left: int  # records beyond the limits of the page
  days: tuple[CalendarDay, ...]

  @property
  def num_records(self) -> int:
    """Number of records shown in the table."""
    return sum(map(len, self.events))

  @property
  def table(self) -> list[list[list[MonthRecord]]]:
    """The records of each event, by column."""
    column_of = {name: column for column, (name, _) in enumerate(self.works)}
    rows = []
    for event in self.events:
      rows.append([[] for _ in self.works])
      for record in event:
        rows[-1][column_of[record.work]].append(record)
    return rows

  @property
  def rows(self) -> list[int]:
    """Rows of all records shown, doubtful ones included."""
    events = (*self.events, self.doubtful)
    return [record.row for event in events for record in event]


def recall_month(served: ServedIndex, ordinal: int) -> Month:
  """Returns `read_month` from a cache of recent months."""
  return served.remember(read_month, ordinal, _MAX_MONTHS)


def read_month(served: ServedIndex, ordinal: int) -> Month:
  """Returns the records, calendar and works of a month, by its ordinal."""
  index = served.index
  certain, doubtful = _find_records(served, ordinal)
  shown = certain[:MAX_RECORDS]
  names = {record.work for record in shown}
  columns = sorted(
    (work for work in index.works if work.name in names),
    key=lambda work: work.work_id in served.commentaries,  # these last
  )
  events = _align(served, ordinal, shown, columns)
  reigns = index.printed_reigns
  return Month(
    ordinal=ordinal,
    month=calendars.describe_month(index.calendar, ordinal, reigns),
    common_era=record_answers.format_years(index, ordinal, ordinal),
    names=_find_names(served, ordinal),
    works=tuple((work.name, work.title or work.name) for work in columns),
    events=events,
    doubtful=tuple(doubtful[:MAX_DOUBTFUL]),
    missing=_find_missing(served, ordinal, {work.name for work in columns}),
    num_left=len(certain) - len(shown) + max(len(doubtful) - MAX_DOUBTFUL, 0),
    days=_find_days(served, ordinal, events),
  )


def _find_records(
  served: ServedIndex, ordinal: int
) -> tuple[list[MonthRecord], list[MonthRecord]]:
  """Returns the records of a month, and the doubtful ones, likeliest first."""
  index = served.index
  chances: dict[int, float] = {}
  for work in index.works:
    postings = index.posteriors_of(work).postings
    entries = slice(postings.starts[ordinal], postings.starts[ordinal + 1])
    rows = (postings.records[entries] + work.first_row).tolist()
    values = postings.probabilities[entries].tolist()
    chances |= {
      row: value
      for row, value in zip(rows, values, strict=True)
      if value >= _MIN_DOUBT
    }
  certain, doubtful = [], []
  for row, text, kind, date_end, best_month in database.fetch_columns(
    index.connection,
    sorted(chances),
    *("text", "kind", "date_end", "best_month"),
  ):
    if kind == database.HEADING:
      continue
    chance = chances[row]
    is_best = best_month == ordinal
    (certain if is_best or chance >= _MIN_PROBABILITY else doubtful).append(
      MonthRecord(row, index.work_of(row).name, text, kind, chance, date_end)
    )
  return certain, sorted(doubtful, key=lambda it: (-it.probability, it.row))


def _align(
  served: ServedIndex,
  ordinal: int,
  records: list[MonthRecord],
  columns: list[database.IndexedWork],
) -> tuple[tuple[MonthRecord, ...], ...]:
  """Returns the records grouped by event."""
  number_of = {work.name: number for number, work in enumerate(columns)}
  by_row = {record.row: record for record in records}
  texts = sorted(
    (
      WorkText(
        record.row,
        number_of[record.work],
        record.text,
        record.text[record.date_end : _OPENING],
      )
      for record in records
    ),
    key=lambda text: (text.column, text.row),
  )
  if len(columns) < 2:
    return tuple((by_row[text.row],) for text in texts)
  events = align_records(
    texts,
    served.remember(read_usual, ordinal // _MONTHS_AT_ONCE, _MAX_STRETCHES),
    ordinal,
  )
  return tuple(tuple(by_row[text.row] for text in event) for event in events)


def read_usual(served: ServedIndex, stretch: int) -> UsualWording:
  """Returns the wording of the years around a stretch of `_MONTHS_AT_ONCE`
  months.
  """
  first = stretch * _MONTHS_AT_ONCE
  last = first + _MONTHS_AT_ONCE - 1
  months = served.best_months
  rows = np.flatnonzero(
    (months >= first - _USUAL_MONTHS) & (months <= last + _USUAL_MONTHS)
  )
  # Sampled evenly over the years.
  rows = rows[np.argsort(months[rows], kind="stable")]
  step = -(-len(rows) // _MAX_USUAL) or 1
  texts = database.fetch_columns(
    served.index.connection, rows[::step].tolist(), "text"
  )
  return UsualWording.read(
    [text for _, text in texts], months[[row for row, _ in texts]]
  )


def _find_missing(
  served: ServedIndex, ordinal: int, present: set[str]
) -> tuple[MissingWork, ...]:
  missing = []
  for work in served.index.works:
    if work.name in present:
      continue
    first, last = served.coverage.get(work.work_id, (0, -1))
    span = ""
    if first <= last:
      span = record_answers.make_span(
        served.index, first, last, work.printed_reigns
      ).name
    missing.append(
      MissingWork(
        work.name, work.title or work.name, first <= ordinal <= last, span
      )
    )
  return tuple(missing)


def _find_names(served: ServedIndex, ordinal: int) -> tuple[str, ...]:
  """Returns the names of a month in the other reigns of its time."""
  calendar = served.index.calendar
  members = calendar.memberships
  start, end = np.searchsorted(members.lunations, (ordinal, ordinal + 1))
  names = [
    calendars.name_month(calendar, ordinal, (int(members.reigns[row]),))
    for row in range(start, end)
    if members.in_use[row]
  ]
  own = calendars.name_month(calendar, ordinal, served.index.printed_reigns)
  return tuple(name for name in dict.fromkeys(names) if name != own)


def _find_days(
  served: ServedIndex,
  ordinal: int,
  events: tuple[tuple[MonthRecord, ...], ...],
) -> tuple[CalendarDay, ...]:
  """Returns the days of a month; its possible days if they are unknown."""
  calendar = served.index.calendar
  rows: dict[int, list[int]] = {}
  for event in events:
    for record in event:
      for day in find_days(record.text):
        rows.setdefault(day, []).append(record.row)
  if calendar.readings.day_spans is None:
    return _list_possible_days(served, ordinal, rows)
  reading = calendar.find_reading(ordinal, served.index.printed_reigns)
  first, length = calendar.readings.day_spans[reading].tolist()
  days = []
  for number in range(length):
    julian_day = first + number
    cyclic = sexagenary.cyclic_index_of_day(julian_day)
    date = np.array(sexagenary.to_civil_date(julian_day))
    days.append(
      CalendarDay(
        number + 1,
        sexagenary.format_cyclic_index(cyclic),
        sexagenary.format_date(date),
        1.0,
        tuple(rows.get(cyclic, ())),
      )
    )
  return tuple(days)


def _list_possible_days(
  served: ServedIndex, ordinal: int, rows: dict[int, list[int]]
) -> tuple[CalendarDay, ...]:
  """Returns the days that a month may have, in cyclic order."""
  # A month that may have any day lists only those its records print.
  chances = served.index.day_chances[ordinal]
  possible = chances >= _MIN_DAY_CHANCE
  start = 0
  if possible.all():
    possible = np.isin(np.arange(sexagenary.CYCLE_LENGTH), list(rows))
  elif possible.any():
    # Start the cycle after a gap, so that the days run on.
    start = int(np.flatnonzero(possible & ~np.roll(possible, 1))[0])
  order = (start + np.arange(sexagenary.CYCLE_LENGTH)) % sexagenary.CYCLE_LENGTH
  return tuple(
    CalendarDay(
      None,
      sexagenary.format_cyclic_index(day),
      "",
      float(chances[day]),
      tuple(rows.get(day, ())),
    )
    for day in order[possible[order]].tolist()
  )


def name_day_number(number: int) -> str:
  """Returns a day of the month as texts count it, such as 初一."""
  return ("初" if number <= 10 else "") + numerals.format_numeral(number)


@router.get("/month/{ordinal}")
@router.get(rendering.SAVE_PREFIX + "/month/{ordinal}")
@endpoint
def show_month(request: Request, served: ServedIndex, ordinal: int) -> Response:
  """Returns the page of a month."""
  check_month(served, ordinal)
  month = recall_month(served, ordinal)
  return rendering.render_page(
    request,
    served,
    "month.html",
    permalink=served.pin_path(f"/month/{ordinal}"),
    rows=month.rows,
    month=month,
    marks=corrections.find_marks(served, month.rows),
    neighbours=_name_neighbours(served, ordinal, ordinal),
    year=calendars.name_year(
      served.index.calendar, ordinal, served.index.printed_reigns
    ),
    titles=served.titles,
    day_number=name_day_number,
  )


@router.get("/year/{ordinal}")
@router.get(rendering.SAVE_PREFIX + "/year/{ordinal}")
@endpoint
def show_year(request: Request, served: ServedIndex, ordinal: int) -> Response:
  """Returns the page of the year that holds a month."""
  check_month(served, ordinal)
  of_year = np.flatnonzero(served.years == served.years[ordinal])
  first, last = int(of_year[0]), int(of_year[-1])
  months = [recall_month(served, month) for month in range(first, last + 1)]
  rows = [row for month in months for row in month.rows]
  return rendering.render_page(
    request,
    served,
    "year.html",
    permalink=served.pin_path(f"/year/{ordinal}"),
    rows=rows,
    months=months,
    marks=corrections.find_marks(served, rows),
    neighbours=_name_neighbours(served, first, last),
    name=calendars.name_year(
      served.index.calendar, first, served.index.printed_reigns
    ),
    common_era=record_answers.format_years(served.index, first, last),
    first=first,
    last=last,
  )


def check_month(served: ServedIndex, ordinal: int) -> None:
  """Raises a 404 PageError if the calendar has no such month."""
  last = len(served.index.calendar) - 1
  if not 0 <= ordinal <= last:
    raise PageError(
      404, "error.month", {"ordinal": str(ordinal)[:20], "last": last}
    )


def _name_neighbours(
  served: ServedIndex, first: int, last: int
) -> dict[str, tuple[int, str]]:
  """Returns the months before and after a span, as (ordinal, name)."""
  calendar = served.index.calendar
  reigns = served.index.printed_reigns
  return {
    name: (month, calendars.name_month(calendar, month, reigns))
    for name, month in (("previous", first - 1), ("next", last + 1))
    if 0 <= month < len(calendar)
  }
