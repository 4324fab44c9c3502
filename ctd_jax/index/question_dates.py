"""Dates of a question about an index: which months it asks for.

One date or a range of two, with the window around it (`query_dates`), also of
dates without a regnal year (`question_spans`); a month of any year; a day of
the sexagenary cycle. Where a name is of several reigns, all are read.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from ctd_jax.chronology import (
  date_expressions,
  numerals,
  query_dates,
  query_mentions,
  query_ranges,
  query_windows,
  reign_tables,
  sexagenary,
  window_patterns,
)
from ctd_jax.chronology.common_era_years import EraYear
from ctd_jax.chronology.date_grammar import FIRST_MONTH_OF_SEASON, DateCue
from ctd_jax.chronology.numerals import DateError, fold_script
from ctd_jax.chronology.query_calendar import Months
from ctd_jax.chronology.query_mentions import DateMention, MentionSearch
from ctd_jax.dating.chronicle import date_glyphs, unknown_eras
from ctd_jax.index import calendars, question_spans
from ctd_jax.index.question_calendar import (
  CalendarMonths,
  find_runs,
  format_years,
)
from ctd_jax.index.question_spans import DateSpan
from ctd_jax.index.question_types import MonthSpan, QuestionError, Reading

_BLANK = "□"  # for what is no regnal date; no date holds it
_RULER_ENDINGS = frozenset("公王侯伯帝宗")
_MAX_RULER = 4  # characters quoted
_MARKS = ("朔", "晦")
# What may stand before a year without a reign: not 「哪一年」, 「每三年」.
_BEFORE_YEAR = re.compile(r"(?:^|[\s，、。；：的□在於自從至到及與和]|自從)$")
# Beyond, the days of an uncertain calendar take too long to compute.
_MAX_COMPUTED_MONTHS = 600
_MONTHS_PER_SEASON = 3
_MAX_NUMERAL = 99  # of `numerals.format_numeral`


class Day(NamedTuple):
  """A sexagenary day of a question.

  Attributes:
    start: position of the pair.
    end: position after it.
    index: 0 = 甲子.
    mark: one of `sexagenary.DAY_MARKS`.
  """

  start: int
  end: int
  index: int
  mark: int


@dataclasses.dataclass(frozen=True)
class QuestionDates:
  """The dates of a question.

  Attributes:
    readings: what the date means: one if that is clear, several if not, none
      without a date.
    intervals: months that are asked for; of a month of any year there are many.
    days: in order.
    rest: the question without its dates, of the same length.
    notes: what was understood.
  """

  readings: tuple[Reading, ...]
  intervals: tuple[MonthSpan, ...]
  days: tuple[Day, ...]
  rest: str
  notes: tuple[str, ...]


def read_dates(
  text: str, months: CalendarMonths, printed_reigns: Collection[int] = ()
) -> QuestionDates:
  """Returns the dates of a question.

  Args:
    text: without titles and quotations, which may hold what looks like a date.
    months: of the calendar of the index.
    printed_reigns: rows of reigns that the works of the index name; they come
      first among those that a date may mean.

  Raises:
    QuestionError: for a date that the calendar lacks, an unknown era, or a
      window that cannot be read.
  """
  try:
    return _read_dates(text, months, printed_reigns)
  except DateError as error:
    raise QuestionError(
      f"{error}; the calendar holds {format_years(months.years)}"
    ) from None


def _read_dates(
  text: str, months: CalendarMonths, printed_reigns: Collection[int]
) -> QuestionDates:
  printed_text = text
  text = date_glyphs.fold_date_glyphs(text)
  spans = question_spans.find_date_spans(text, months)
  blanked = list(text)
  for span in spans:
    blanked[span.start : span.end] = _BLANK * (span.end - span.start)
  blanked = "".join(blanked)
  _check_eras(text, blanked, months)
  search = query_mentions.find_mentions(blanked, months)
  days = _find_days(blanked, months)
  notes = [span.note for span in spans if span.note]
  choices = _list_choices(text, blanked, search, spans, months, printed_reigns)
  if choices:
    readings = _resolve_choices(blanked, choices, months, printed_reigns)
    intervals = tuple(dict.fromkeys(reading.span for reading in readings))
    used = _list_used(blanked, choices[0].search.mentions, months)
  else:
    readings = ()
    intervals, used = _find_months_of_any_year(text, blanked, months, notes)
  # 「丙子朔」: where the day stood in its month is known, and no word.
  used += [
    DateMention(day.start, day.end + (blanked[day.end : day.end + 1] in _MARKS))
    for day in days
  ]
  if days and intervals:
    intervals = _narrow_to_day(
      intervals, days[0], months, notes, _list_reigns(choices)
    )
    readings = [
      reading
      for reading in readings
      if any(
        reading.span.first <= span.last and span.first <= reading.span.last
        for span in intervals
      )
    ]
  blanks = query_windows.blank_window_words(fold_script(blanked), used)
  rest = "".join(
    " " if blank == " " else character
    for character, blank in zip(printed_text, blanks, strict=True)
  )
  return QuestionDates(
    tuple(readings), intervals, tuple(days), rest, tuple(notes)
  )


def _list_used(
  text: str, mentions: Sequence[DateMention], months: CalendarMonths
) -> list[DateMention]:
  """Returns the stretches of a question that tell its months.

  Not 「三月」 of 「三月而葬」, which is a length of time.
  """
  cues = date_expressions.find_date_cues(text, months.timeline)
  cue_starts = {cue.start for cue in cues}
  used = [m for m in mentions if m.is_full or m.start in cue_starts]
  first = next(mention for mention in mentions if mention.is_full)
  second = query_ranges.find_second_date(
    first, mentions, fold_script(text), months
  )
  if second is not None:  # with the word between, and a bare 「冬」 or 「年底」
    used.append(DateMention(first.end, second[0].end))
  return sorted(used, key=lambda mention: (mention.start, mention.end))


def _list_reigns(choices: Sequence[_Choice]) -> list[int]:
  """Returns the numbers of the reigns that the dates of a question name."""
  return [
    number
    for choice in choices
    for mention in choice.search.mentions
    for number in mention.reigns
  ]


class _Choice(NamedTuple):
  """The dates of a question under one meaning of the first.

  Attributes:
    named_mentions: name and mention of each, in order.
    search: the same for the readers of windows.
  """

  named_mentions: tuple[tuple[str, DateMention], ...]
  search: MentionSearch


def _list_choices(
  text: str,
  blanked: str,
  search: MentionSearch,
  spans: Sequence[DateSpan],
  months: CalendarMonths,
  printed_reigns: Collection[int],
) -> list[_Choice]:
  """Returns the dates under every meaning of the first; none without a date."""
  mentions = list(search.mentions)
  if not spans and not any(mention.is_full for mention in mentions):
    mentions = _add_reigns(text, blanked, mentions, months)
  options = [_list_options(mention, months) for mention in mentions]
  options += [_list_span_options(span) for span in spans]
  options.sort(key=lambda named: named[0][1].start)
  full = [row for row, named in enumerate(options) if named[0][1].is_full]
  if not full:
    return []
  anchor = full[0]
  years = search.years + tuple(
    EraYear(span.start, span.end, span.year)
    for span in spans
    if span.year is not None
  )
  choices = []
  for name, mention in _sort_options(options[anchor], printed_reigns):
    named_mentions = [
      (name, mention) if row == anchor else _pick(named, mention, months)
      for row, named in enumerate(options)
    ]
    choices.append(
      _Choice(
        tuple(named_mentions),
        MentionSearch(tuple(m for _, m in named_mentions), years),
      )
    )
  return choices


def _sort_options(
  named: Sequence[tuple[str, DateMention]], printed_reigns: Collection[int]
) -> list[tuple[str, DateMention]]:
  """Returns the meanings of a date, those of printed reigns first."""
  return sorted(
    named,
    key=lambda option: (
      not any(number - 1 in printed_reigns for number in option[1].reigns)
    ),
  )


def _pick(
  named: Sequence[tuple[str, DateMention]],
  anchor: DateMention,
  months: CalendarMonths,
) -> tuple[str, DateMention]:
  """Returns the meaning of a second date that fits the first.

  The one of its reign, else the first that is not earlier.
  """
  for name, mention in named:
    if mention.reigns and mention.reigns == anchor.reigns:
      return name, mention
  reigns = months.timeline.reigns
  if anchor.reigns:
    start = reigns[anchor.reigns[0] - 1].accession + (anchor.year or 1) - 1
    for name, mention in named:
      if mention.reigns and mention.year:
        row = reigns[mention.reigns[0] - 1]
        if row.accession + mention.year - 1 >= start:
          return name, mention
  return named[0]


def _list_options(
  mention: DateMention, months: CalendarMonths
) -> list[tuple[str, DateMention]]:
  """Returns the names and meanings of a date, one for every reign."""
  if mention.months is not None:
    year = int(months.calendar.years[mention.months.first])
    name = reign_tables.format_common_era_year(year)
    return [(name + _name_month(mention), mention)]
  if not mention.reigns:
    return [("", mention)]
  return [
    (
      months.timeline.full_reign_name(number)
      + _name_year(mention.year)
      + _name_month(mention),
      dataclasses.replace(mention, reigns=(number,)),
    )
    for number in mention.reigns
  ]


def _list_span_options(span: DateSpan) -> list[tuple[str, DateMention]]:
  return [
    (
      meaning.name,
      DateMention(
        span.start,
        span.end,
        months=meaning.months,
        has_month=span.has_month,
      ),
    )
    for meaning in span.meanings
  ]


def _name_year(year: int | None) -> str:
  if year is None or year == 1:
    return "元年" if year else ""
  if year > _MAX_NUMERAL:
    return f"{year}年"
  return f"{numerals.format_numeral(year)}年"


def _name_month(mention: DateMention) -> str:
  leap = "閏" * mention.leap
  if mention.month is None:
    return f"{leap}月" if leap else mention.season or ""
  number = numerals.format_numeral(mention.month)
  return f"{leap}{'正' if mention.month == 1 else number}月"


def _add_reigns(
  text: str, blanked: str, mentions: list[DateMention], months: CalendarMonths
) -> list[DateMention]:
  """Returns the mentions, the first year with all reigns that it may be of.

  Raises:
    DateError: if the year is that of a ruler whom the calendar lacks.
  """
  first = next((m for m in mentions if m.year is not None), None)
  if first is None:
    return mentions
  before = fold_script(blanked[: first.start])
  preceding = text[max(first.start - _MAX_RULER, 0) : first.start].split()
  if preceding and fold_script(preceding[-1])[-1] in _RULER_ENDINGS:
    raise DateError(
      f"{preceding[-1]!r} names no reign of timeline {months.timeline.name!r}",
      text,
      first.start,
    )
  if not (before == "" or _BEFORE_YEAR.search(before)) and not any(
    cue.start == first.start and (cue.month or cue.season or cue.year == 1)
    for cue in date_expressions.find_date_cues(blanked, months.timeline)
  ):
    return [m for m in mentions if m.year is None]
  with_name = query_mentions.with_lone_reign(mentions, blanked, months.timeline)
  if any(mention.reigns for mention in with_name):
    return with_name
  numbers = tuple(
    number
    for number, reign in enumerate(months.timeline.reigns, start=1)
    if reign.years >= first.year
  )
  if not numbers:
    raise DateError(
      f"no reign of timeline {months.timeline.name!r} has {first.year} years",
      text,
      first.start,
    )
  row = mentions.index(first)
  mentions[row] = dataclasses.replace(first, reigns=numbers)
  return mentions


def _resolve_choices(
  text: str,
  choices: Sequence[_Choice],
  months: CalendarMonths,
  printed_reigns: Collection[int],
) -> list[Reading]:
  """Returns the months of every choice that the calendar has.

  Raises:
    DateError: of the first choice, if it has none of them.
  """
  readings: list[Reading] = []
  errors: list[DateError] = []
  for choice in choices:
    try:
      found = query_dates.resolve_mentions(text, choice.search, months)
    except DateError as error:
      errors.append(error)
      continue
    name, anchor = next(
      (name, mention)
      for name, mention in choice.named_mentions
      if mention.is_full
    )
    reading = Reading(
      name, _name_span(name, anchor, found, text, months, printed_reigns)
    )
    if reading not in readings:
      readings.append(reading)
  if not readings:
    raise errors[0]
  return readings


def _name_span(
  name: str,
  anchor: DateMention,
  found: Months,
  text: str,
  months: CalendarMonths,
  printed_reigns: Collection[int],
) -> MonthSpan:
  """Returns months with the name of their date, or of their ends."""
  try:
    own = query_windows.resolve_window(" " * len(text), [anchor], months)
  except DateError:
    own = None
  if own != found:
    name = _name_run(found, months, anchor.reigns, printed_reigns)
  return MonthSpan(*found, name)


def _check_eras(text: str, blanked: str, months: CalendarMonths) -> None:
  """Raises QuestionError for a year of an era that the calendar lacks."""
  eras = unknown_eras.find_unknown_eras(blanked, months.calendar)
  for suffix in question_spans.ERA_SUFFIX.finditer(blanked):
    first_year = f"{blanked[: suffix.start()]}元年"
    eras += [
      era
      for era in unknown_eras.find_unknown_eras(first_year, months.calendar)
      if era.known and era.stop == len(first_year)
    ]
  for era in eras:
    if era.known:
      eras = ", ".join(
        f"{polity} ({reign_tables.format_common_era_year(first)} to "
        f"{reign_tables.format_common_era_year(last)})"
        for polity, first, last in era.known
      )
      hint = f"it was counted in {eras}"
    elif era.nearest:
      hint = f"the nearest known are {', '.join(era.nearest)}"
    else:
      hint = "write a reign of it, such as " + "、".join(
        months.timeline.full_reign_name(number)
        for number in range(1, min(len(months.timeline.reigns), 3) + 1)
      )
    raise QuestionError(
      f"{text[era.start : era.stop]!r}: {era.name} is no reign of calendar "
      f"{months.timeline.name!r}, which holds {format_years(months.years)}; "
      f"{hint}"
    )


def _find_days(text: str, months: CalendarMonths) -> list[Day]:
  """Returns the sexagenary days of a question."""
  folded = fold_script(text)
  days = []
  for cue in date_expressions.find_date_cues(text, months.timeline):
    if cue.day:
      days.append(
        Day(
          cue.end - len(cue.day),
          cue.end,
          sexagenary.parse_cyclic_index(cue.day),
          sexagenary.find_day_mark(folded, cue.end),
        )
      )
  return days


def _find_months_of_any_year(
  text: str, blanked: str, months: CalendarMonths, notes: list[str]
) -> tuple[tuple[MonthSpan, ...], list[DateMention]]:
  """Returns every month of a number or season that no year stands beside."""
  cues = [
    cue
    for cue in date_expressions.find_date_cues(blanked, months.timeline)
    if (cue.month or cue.season or cue.leap) and not cue.year
  ]
  if not cues:
    return (), []
  calendar, first_cue = months.calendar, cues[0]
  end = first_cue.end
  is_match = calendar.is_leap if first_cue.leap else ~calendar.is_leap
  if first_cue.month or first_cue.season:
    first, last = _month_numbers(first_cue)
    connector = window_patterns.RANGE_CONNECTOR.match(fold_script(text), end)
    if connector and len(cues) > 1 and cues[1].start == connector.end():
      end, last = cues[1].end, _month_numbers(cues[1])[1]
      is_match = np.ones(len(calendar), bool)
    number = calendar.months
    is_match = is_match & (first <= number) & (number <= last)
  name = text[first_cue.start : end]
  if not is_match.any():
    raise DateError(
      f"timeline {months.timeline.name!r} has no such month", text, end
    )
  notes.append(f"{name} of any year: no year is named")
  spans = tuple(MonthSpan(*run, name) for run in find_runs(is_match))
  return spans, [DateMention(first_cue.start, end)]


def _month_numbers(cue: DateCue) -> tuple[int, int]:
  """Returns the first and the last month of a month or season."""
  if cue.month:
    return cue.month, cue.month
  first = FIRST_MONTH_OF_SEASON.get(cue.season, 1)
  return first, first + _MONTHS_PER_SEASON - 1


def _narrow_to_day(
  intervals: Sequence[MonthSpan],
  day: Day,
  months: CalendarMonths,
  notes: list[str],
  numbers: Sequence[int],
) -> tuple[MonthSpan, ...]:
  """Returns the months of intervals that can have a day; all if none can."""
  pair = sexagenary.format_cyclic_index(day.index)
  if months.calendar.readings.day_spans is None:
    num_months = sum(span.last + 1 - span.first for span in intervals)
    if num_months == len(intervals):
      return tuple(intervals)  # single months, whose days are not certain
    if num_months > _MAX_COMPUTED_MONTHS:
      notes.append(f"too many months to tell which have a day {pair}")
      return tuple(intervals)
  has_day = _find_months_of_day(day, intervals, months)
  narrowed = [
    MonthSpan(
      *run,
      interval.name
      if run == (interval.first, interval.last)
      else _name_run(run, months, numbers),
    )
    for interval in intervals
    for run in _find_runs_within(has_day, interval)
  ]
  if not narrowed:
    notes.append(f"none of the months has a day {pair}; all are searched")
    return tuple(intervals)
  if sum(span.last - span.first for span in narrowed) < sum(
    span.last - span.first for span in intervals
  ) or len(narrowed) != len(intervals):
    notes.append(f"only months that can have a day {pair}")
  return tuple(dict.fromkeys(narrowed))


def _find_runs_within(
  is_member: np.ndarray, interval: MonthSpan
) -> Iterator[Months]:
  for run in find_runs(is_member[interval.first : interval.last + 1]):
    yield Months(interval.first + run.first, interval.first + run.last)


def _name_run(
  run: Months,
  months: CalendarMonths,
  numbers: Sequence[int] = (),
  printed_reigns: Collection[int] = (),
) -> str:
  """Returns the names of the first and last month, by reigns that are named."""
  reigns = {number - 1 for number in numbers} or printed_reigns
  first, last = (
    calendars.name_month(months.calendar, month, reigns) for month in run
  )
  return first if first == last else f"{first} – {last}"


def _find_months_of_day(
  day: Day, intervals: Sequence[MonthSpan], months: CalendarMonths
) -> np.ndarray:
  """Returns which lunations of intervals can have a day at its place."""
  is_asked = np.zeros(len(months), bool)
  for span in intervals:
    is_asked[span.first : span.last + 1] = True
  calendar = months.calendar
  if calendar.readings.day_spans is None:
    column = day.mark * sexagenary.CYCLE_LENGTH + day.index
    chances = calendar.take(is_asked).day_chances()[:, :, column]
    is_asked[is_asked] = chances.any(0)
    return is_asked
  first, length = calendar.readings.day_spans.T
  offset = (
    day.index - sexagenary.cyclic_index_of_day(first)
  ) % sexagenary.CYCLE_LENGTH
  is_match = {
    sexagenary.ANY_DAY: offset < length,
    sexagenary.FIRST_DAY: offset == 0,
    sexagenary.LAST_DAY: offset == length - 1,
  }[day.mark]
  return is_asked & calendar.readings.find_lunations(is_match)
