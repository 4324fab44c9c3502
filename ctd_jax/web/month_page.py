"""Month and year: the same event as each work tells it, side by side.

Records of a month are put together by their wording. Rare words count more, and
words that are usual around that time count less.

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
from ctd_jax.web.requests import PageError, answer_in_time, index_of
from ctd_jax.web.served_index import ServedIndex

# Weight of shared strings from which on two records are of one event. Two
# records of a month that share a name of three characters have about 15.
MIN_WEIGHT = 12.0
_DAY_WEIGHT = 8.0  # of a day that both print
# A short record that another holds nearly whole is of its event, too.
_MIN_CONTAINED, _MIN_CONTAINED_WEIGHT = 0.7, 4.0
_LAST_CHARACTER = chr(sys.maxunicode)
_MARKS = re.compile(r"[\W_]+")
_MARKS_WITHIN_LINE = re.compile(r"[^\w\n]+|_+")
_YEAR = re.compile(sexagenary.YEAR_PATTERN)
_PAIR = re.compile(sexagenary.PAIR_PATTERN)


@dataclasses.dataclass(frozen=True)
class WorkText:
  """A record to be aligned.

  Attributes:
    row: of the record.
    column: of its work.
    text: of the record.
    opening: its first words, without the date; "" if they are not known.
  """

  row: int
  column: int
  text: str
  opening: str = ""


@dataclasses.dataclass(frozen=True, eq=False)
class UsualWording:
  """Strings of the texts of some years.

  Attributes:
    months: of the texts.
    occurrences: of their strings.
  """

  months: Int[np.ndarray, " T"]
  occurrences: wording.Occurrences

  @classmethod
  def read(
    cls, texts: Sequence[str], months: Sequence[int] | Int[np.ndarray, " T"]
  ) -> UsualWording:
    """Returns the strings of texts."""
    return cls(
      np.array(months, int),
      wording.Occurrences.find(_prepare_all(texts), wording.LENGTHS),
    )

  def count(
    self, strings: wording.NgramVocabulary, without_month: int
  ) -> tuple[Int[np.ndarray, " V"], int]:
    """Returns how many texts hold strings, and how many there are.

    Args:
      without_month: whose texts are left out.
    """
    is_other = self.months != without_month
    others = self.occurrences.select(is_other[self.occurrences.rows])
    return strings.count_texts(others), int(is_other.sum())


def align_records(
  records: Sequence[WorkText], usual: UsualWording, month: int
) -> list[list[WorkText]]:
  """Returns the records by event, in order of time as far as the works say.

  Args:
    records: by column, within it in order of the work.
    usual: of the time around, by which wording is rare or usual.
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
  """Returns the event that a record shares most with; None if with none."""
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
  """Returns what every two records share."""
  texts = [_prepare(record.text) for record in records]
  # Strings of the usual texts alone are shared by no two records.
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
  weights += _DAY_WEIGHT * _share_days([record.text for record in records])
  openings = [_prepare(record.opening) for record in records]
  lengths = np.array([len(opening) for opening in openings])
  quoted = _mark_quoted(openings)
  return weights + np.where(quoted, MIN_WEIGHT + lengths[:, None], 0)


def _share_days(texts: Sequence[str]) -> Bool[np.ndarray, "n n"]:
  """Returns which two texts print the same day."""
  has_day = np.zeros((len(texts), sexagenary.CYCLE_LENGTH), np.float32)
  for row, text in enumerate(texts):
    has_day[row, list(find_days(text))] = 1
  return has_day @ has_day.T > 0


def _mark_quoted(texts: Sequence[str]) -> Bool[np.ndarray, "n n"]:
  """Returns of which two texts one begins with the whole of the other."""
  begins = np.zeros((len(texts), len(texts)), bool)
  order = sorted(range(len(texts)), key=texts.__getitem__)
  ordered = [texts[row] for row in order]
  for row, text in enumerate(texts):
    if text:
      # What begins with it stands together.
      first = bisect.bisect_left(ordered, text)
      end = bisect.bisect_right(ordered, text + _LAST_CHARACTER)
      begins[row, order[first:end]] = True
  return begins | begins.T


def _prepare(text: str) -> str:
  """Returns a text in one script without its marks, which editions vary."""
  return _MARKS.sub("", numerals.fold_script(text))


def _prepare_all(texts: Sequence[str]) -> list[str]:
  """Returns many texts as `_prepare` does, at once."""
  joined = "\n".join(text.replace("\n", "") for text in texts)
  folded = numerals.fold_script(joined)
  return _MARKS_WITHIN_LINE.sub("", folded).split("\n")


def find_days(text: str) -> frozenset[int]:
  """Returns the sexagenary days that a text prints, 0 = 甲子."""
  folded = _YEAR.sub("", sections.fold_date_glyphs(text))
  return frozenset(
    sexagenary.parse_cyclic_index(pair) for pair in _PAIR.findall(folded)
  )


MAX_RECORDS = 300  # of a month that are shown
MAX_DOUBTFUL = 40
_MIN_PROBABILITY = 0.5  # of the month, to stand in its columns
_MIN_DOUBT = 0.05  # to be named below them
_USUAL_MONTHS = 36  # on either side, for what wording is usual
_OPENING = 60  # characters of a text, for what it begins with
_MAX_MONTHS = 96  # that are remembered, up to 200 kB each
_MAX_USUAL = 16  # stretches whose usual wording is remembered, 2 MB each
_MONTHS_AT_ONCE = 12  # that have the same wording as usual
_MAX_USUAL = 600  # texts of these; more say the same
_MIN_DAY_CHANCE = 0.05  # of a day, where calendars are not known to the day


@dataclasses.dataclass(frozen=True)
class MonthRecord:
  """A record of a month.

  Attributes:
    row: in the index.
    work: name of its work.
    text: as printed.
    kind: of the record.
    probability: that it is of the month.
    date_end: end of the date by which the text begins, 0 without one.
  """

  row: int
  work: str
  text: str
  kind: str
  probability: float
  date_end: int


@dataclasses.dataclass(frozen=True)
class MissingWork:
  """A work without a record of a month.

  Attributes:
    name: of the work.
    title: likewise.
    is_silent: whether it has records before and after the month.
    span: the time of its records; "" without any.
  """

  name: str
  title: str
  is_silent: bool
  span: str


@dataclasses.dataclass(frozen=True)
class CalendarDay:
  """A day of a month.

  Attributes:
    number: in the month, from 1; None if that is not known.
    name: sexagenary.
    date: of the Julian calendar, from 1582-10-15 on of the Gregorian; "" if
      that is not known.
    chance: that the month has it.
    rows: of the records that print it.
  """

  number: int | None
  name: str
  date: str
  chance: float
  rows: tuple[int, ...]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Month:
  """What is known of a month.

  Attributes:
    ordinal: of the month.
    month: as `calendars.describe_month` says it.
    common_era: its year.
    names: other names of it.
    works: (name, title) of the columns.
    events: records by event.
    doubtful: records that may be of the month, the likeliest first.
    missing: works without a record.
    num_left: records that are not shown, there being too many.
    days: of the month.
  """

  ordinal: int
  month: dict[str, Any]
  common_era: str
  names: tuple[str, ...]
  works: tuple[tuple[str, str], ...]
  events: tuple[tuple[MonthRecord, ...], ...]
  doubtful: tuple[MonthRecord, ...]
  missing: tuple[MissingWork, ...]
  num_left: int
  days: tuple[CalendarDay, ...]

  @property
  def num_records(self) -> int:
    """Number of records that are shown."""
    return sum(map(len, self.events))

  @property
  def table(self) -> list[list[list[MonthRecord]]]:
    """The records of each event by column."""
    column_of = {name: column for column, (name, _) in enumerate(self.works)}
    rows = []
    for event in self.events:
      rows.append([[] for _ in self.works])
      for record in event:
        rows[-1][column_of[record.work]].append(record)
    return rows

  @property
  def rows(self) -> list[int]:
    """Rows of the records that are shown, also of those that may be of it."""
    events = (*self.events, self.doubtful)
    return [record.row for event in events for record in event]


def recall_month(served: ServedIndex, ordinal: int) -> Month:
  """Returns what `read_month` does; the last months are kept."""
  return served.remember(read_month, ordinal, _MAX_MONTHS)


def read_month(served: ServedIndex, ordinal: int) -> Month:
  """Returns what is known of a month.

  Args:
    ordinal: of the month, within the calendar.
  """
  index = served.index
  certain, doubtful = _find_records(served, ordinal)
  shown = certain[:MAX_RECORDS]
  columns = _order_columns(served, {record.work for record in shown})
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
  """Returns the records of a month, and those that may be of it."""
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


def _order_columns(
  served: ServedIndex, names: set[str]
) -> list[database.IndexedWork]:
  """Returns works, those that tell events before those that explain them."""
  works = [work for work in served.index.works if work.name in names]
  return sorted(works, key=lambda work: work.work_id in served.commentaries)


def _align(
  served: ServedIndex,
  ordinal: int,
  records: list[MonthRecord],
  columns: list[database.IndexedWork],
) -> tuple[tuple[MonthRecord, ...], ...]:
  """Returns records by event."""
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
    served.remember(read_usual, ordinal // _MONTHS_AT_ONCE, _MAX_USUAL),
    ordinal,
  )
  return tuple(tuple(by_row[text.row] for text in event) for event in events)


def read_usual(served: ServedIndex, stretch: int) -> UsualWording:
  """Returns the wording of the years around a stretch of months.

  Args:
    stretch: number of the stretch, a year or so.
  """
  first = stretch * _MONTHS_AT_ONCE
  last = first + _MONTHS_AT_ONCE - 1
  months = served.best_months
  rows = np.flatnonzero(
    (months >= first - _USUAL_MONTHS) & (months <= last + _USUAL_MONTHS)
  )
  # Evenly drawn from all of the years.
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
  """Returns the names of a month in the reigns of its time but the first."""
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
  """Returns the days of a month; those that it may have, if not known."""
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
  """Returns the days that a month may have, in order of the cycle.

  Where it may have any, only those that its records print.
  """
  chances = served.index.day_chances[ordinal]
  possible = chances >= _MIN_DAY_CHANCE
  start = 0
  if possible.all():
    possible = np.isin(np.arange(sexagenary.CYCLE_LENGTH), list(rows))
  elif possible.any():
    # The cycle is cut where the month has no day.
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
  """Returns a day of a month as texts count it, 初一."""
  return ("初" if number <= 10 else "") + numerals.format_numeral(number)


router = APIRouter(include_in_schema=False)


@router.get("/month/{ordinal}")
@router.get(rendering.SAVE_PREFIX + "/month/{ordinal}")
async def show_month(request: Request, ordinal: int) -> Response:
  """Returns the page of a month."""
  return await answer_in_time(
    request, _make_month_page, request, index_of(request), ordinal
  )


@router.get("/year/{ordinal}")
@router.get(rendering.SAVE_PREFIX + "/year/{ordinal}")
async def show_year(request: Request, ordinal: int) -> Response:
  """Returns the page of the year that a month is of."""
  return await answer_in_time(
    request, _make_year_page, request, index_of(request), ordinal
  )


def check_month(served: ServedIndex, ordinal: int) -> None:
  """Raises PageError, 404, for a month that the calendar lacks."""
  last = len(served.index.calendar) - 1
  if not 0 <= ordinal <= last:
    raise PageError(
      404, "error.month", {"ordinal": str(ordinal)[:20], "last": last}
    )


def _make_month_page(
  request: Request, served: ServedIndex, ordinal: int
) -> Response:
  check_month(served, ordinal)
  month = recall_month(served, ordinal)
  return rendering.render_page(
    request,
    served,
    "month.html",
    permalink=_make_permalink(served, f"/month/{ordinal}"),
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


def _make_year_page(
  request: Request, served: ServedIndex, ordinal: int
) -> Response:
  check_month(served, ordinal)
  first, last = find_year(served, ordinal)
  months = [recall_month(served, month) for month in range(first, last + 1)]
  rows = [row for month in months for row in month.rows]
  return rendering.render_page(
    request,
    served,
    "year.html",
    permalink=_make_permalink(served, f"/year/{ordinal}"),
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


def find_year(served: ServedIndex, ordinal: int) -> tuple[int, int]:
  """Returns first and last month of the year that a month is of."""
  months = np.flatnonzero(served.years == served.years[ordinal])
  return int(months[0]), int(months[-1])


def _make_permalink(served: ServedIndex, path: str) -> str:
  return f"{path}?index={served.index.versions.index_sha256}"


def _name_neighbours(
  served: ServedIndex, first: int, last: int
) -> dict[str, tuple[int, str]]:
  """Returns the months before and after, as (ordinal, name)."""
  calendar = served.index.calendar
  reigns = served.index.printed_reigns
  return {
    name: (month, calendars.name_month(calendar, month, reigns))
    for name, month in (("previous", first - 1), ("next", last + 1))
    if 0 <= month < len(calendar)
  }
