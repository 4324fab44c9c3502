"""Dates of a question about an index: which months it asks for.

One date or a range of two, with the window around it (`query_dates`), also of
dates without a regnal year (`question_spans`); a month of any year; a day of
the sexagenary cycle. Where a name is of several reigns, all are read.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Collection, Sequence

import numpy as np

from ctd_jax.chronology import (
  date_expressions,
  numerals,
  query_mentions,
  query_ranges,
  query_windows,
  reign_tables,
  window_patterns,
)
from ctd_jax.chronology.date_grammar import FIRST_MONTH_OF_SEASON, DateCue
from ctd_jax.chronology.numerals import DateError, fold_script
from ctd_jax.chronology.query_mentions import DateMention
from ctd_jax.dating.chronicle import date_glyphs, unknown_eras
from ctd_jax.index.questions import (
  question_days,
  question_readings,
  question_spans,
)
from ctd_jax.index.questions.question_calendar import (
  CalendarMonths,
  find_runs,
  format_years,
)
from ctd_jax.index.questions.question_days import Day
from ctd_jax.index.questions.question_types import (
  MonthSpan,
  QuestionError,
  Reading,
)

_BLANK = "□"  # for what is no regnal date; no date holds it
_MARKS = ("朔", "晦")
_MONTHS_PER_SEASON = 3
_NUM_EXAMPLES = 3
_TWO_SEASONS = re.compile("(?<=年)(?:(?=春夏|夏秋|秋冬)([春夏秋])([夏秋冬]))")
_NUMBER = f"(?:元|{numerals.NUMERAL_PATTERN})"
_TWO_YEARS = re.compile(f"({_NUMBER})[、，]({_NUMBER})年")
_EITHER_YEAR = re.compile(f"年[或與和](?={_NUMBER}年)")
_NUMBERED_DAY = re.compile(
  f"(?<=月)(初{numerals.NUMERAL_PATTERN}日?|{numerals.NUMERAL_PATTERN}[日號号])"
)
_WESTERN_MONTH = re.compile(r"[公西][元曆歷历]前?\s*\S{1,5}年\s*\S{1,3}月\Z")
# Range words, after which the readers of running text expect a place.
_RANGE_WORDS = str.maketrans(dict.fromkeys("至到自從由迄", "，"))


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
    years = format_years(months.years)
    told = "" if years in str(error) else f"; the calendar holds {years}"
    raise QuestionError(f"{error}{told}") from None


def _read_dates(
  text: str, months: CalendarMonths, printed_reigns: Collection[int]
) -> QuestionDates:
  notes: list[str] = []
  printed_text = _spell_out(text, notes)
  text = date_glyphs.fold_date_glyphs(printed_text)
  spans = question_spans.find_date_spans(text, months)
  characters = list(text)
  for span in spans:
    characters[span.start : span.end] = _BLANK * (span.end - span.start)
  blanked = "".join(characters)
  _check_eras(text, blanked, months)
  notes += [span.note for span in spans if span.note]
  choices = question_readings.list_choices(
    text,
    blanked,
    query_mentions.find_mentions(blanked, months),
    spans,
    months,
    printed_reigns,
  )
  readings: list[Reading] = []
  if choices:
    readings = question_readings.resolve_choices(
      blanked, choices, months, printed_reigns
    )
    intervals = tuple(dict.fromkeys(reading.span for reading in readings))
    used = _list_used(blanked, choices[0].search.mentions, months)
    if len(choices) == 1:
      notes += question_readings.list_doubts(choices[0], readings[0], months)
  else:
    intervals, used = _find_months_of_any_year(text, blanked, months, notes)
  days = question_days.find_days(blanked, months)
  if days and intervals:
    intervals = question_days.narrow_to_day(
      intervals,
      days[0],
      months,
      notes,
      question_readings.list_reigns(choices),
    )
  # 「丙子朔」: where the day stood in its month is known, and no word.
  used += [
    DateMention(day.start, day.end + (blanked[day.end : day.end + 1] in _MARKS))
    for day in days
  ]
  return QuestionDates(
    tuple(
      reading
      for reading in readings
      if any(_overlap(reading.span, span) for span in intervals)
    ),
    intervals,
    tuple(days),
    _blank_dates(printed_text, blanked, used),
    tuple(notes),
  )


def _spell_out(text: str, notes: list[str]) -> str:
  """Returns a question with the dates written out that it writes in short.

  「五年春夏」 is 五年春至夏, 「四、五年」 and 「四年或五年」 四年至五年. The
  number of a day is left out: an index knows months.
  """
  text = _TWO_SEASONS.sub(r"\1至\2", text)
  text = _TWO_YEARS.sub(r"\1年至\2年", text)
  text = _EITHER_YEAR.sub("年至", text)

  def leave_out(match: re.Match[str]) -> str:
    if _WESTERN_MONTH.search(text, 0, match.start()):
      return match[0]
    notes.append(f"{match[1]} is left out: an index knows months, not days")
    return ""

  return _NUMBERED_DAY.sub(leave_out, text)


def _overlap(first: MonthSpan, second: MonthSpan) -> bool:
  return first.first <= second.last and second.first <= first.last


def _blank_dates(
  printed_text: str, blanked: str, used: Sequence[DateMention]
) -> str:
  """Returns a question, as printed, without dates and words of windows."""
  blanks = query_windows.blank_window_words(fold_script(blanked), used)
  return "".join(
    " " if blank == " " else character
    for character, blank in zip(printed_text, blanks, strict=True)
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


def _check_eras(text: str, blanked: str, months: CalendarMonths) -> None:
  """Raises QuestionError for a year of an era that the calendar lacks."""
  eras = [
    era
    for written in (blanked, fold_script(blanked).translate(_RANGE_WORDS))
    for era in unknown_eras.find_unknown_eras(written, months.calendar)
  ]
  for suffix in question_spans.ERA_SUFFIX.finditer(blanked):
    first_year = f"{blanked[: suffix.start()]}元年"
    eras += [
      era
      for era in unknown_eras.find_unknown_eras(first_year, months.calendar)
      if era.known and era.stop == len(first_year)
    ]
  for era in eras:
    if era.known:
      known = ", ".join(
        f"{polity} ({reign_tables.format_common_era_year(first)} to "
        f"{reign_tables.format_common_era_year(last)})"
        for polity, first, last in era.known
      )
      hint = f"it was counted in {known}"
    elif era.nearest:
      hint = f"the nearest known are {', '.join(era.nearest)}"
    else:
      hint = "write a reign of it, such as " + "、".join(
        months.timeline.full_reign_name(number)
        for number in range(
          1, min(len(months.timeline.reigns), _NUM_EXAMPLES) + 1
        )
      )
    raise QuestionError(
      f"{text[era.start : era.stop]!r}: {era.name} is no reign of calendar "
      f"{months.timeline.name!r}, which holds {format_years(months.years)}; "
      f"{hint}"
    )


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
  # The leap months of a season belong to it.
  is_match = np.ones(len(calendar), bool)
  if first_cue.leap or first_cue.month:
    is_match = calendar.is_leap == first_cue.leap
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
