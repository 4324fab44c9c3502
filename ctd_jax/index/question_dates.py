"""The dates of a question: the months that it asks for.

A question names one date or a range of two, with a window around it. If several
reigns share a name, each is read with the same window and second date. A month
without a year is that month of any year.
"""

import contextlib
import dataclasses
import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ctd_jax.chronology import (
  dates,
  numerals,
  questions,
  reigns,
  sexagenary,
  windows,
)
from ctd_jax.chronology import mentions as mentions_lib
from ctd_jax.chronology.mentions import DateMention, MentionSearch
from ctd_jax.chronology.numerals import DateError, fold_script
from ctd_jax.chronology.query_calendar import Months
from ctd_jax.chronology.western_dates import COMMON_ERA_PATTERN, EraYear
from ctd_jax.dating.chronicle import eras as eras_lib
from ctd_jax.dating.chronicle import sections, western
from ctd_jax.index import calendars, question_calendar, question_spans
from ctd_jax.index.question_calendar import (
  CalendarMonths,
  DateMeaning,
  Day,
  MonthSpan,
  QuestionError,
  find_runs,
  format_years,
)
from ctd_jax.index.question_spans import DateSpan
from ctd_jax.utils import notes as notes_lib
from ctd_jax.utils.notes import Note

_RULER_ENDINGS = frozenset("公王侯伯帝宗")
_MAX_RULER = 4  # characters quoted
# What may come before a year without a reign: not 「哪一年」, 「每三年」.
_BEFORE_YEAR = re.compile(r"(?:^|[\s，、。；：的□在於自從至到及與和]|自從)$")
_PAIR = re.compile(sexagenary.PAIR_PATTERN)
_BLANK = "□"  # for what is not a regnal date; no date holds it
_MARKS = ("朔", "晦")
_NUM_EXAMPLES = 3
_MAX_LATE_NOTES = 3
_MAX_PLAIN = 20  # characters of a question that is plain
_TWO_SEASONS = re.compile("(?<=年)(?:(?=春夏|夏秋|秋冬)([春夏秋])([夏秋冬]))")
_NUMBER = f"(?:元|{numerals.NUMERAL_PATTERN})"
_MONTH = f"閏?(?:正|{numerals.MONTH_NUMERAL_PATTERN})月|閏月"
_DATE = (
  f"(?:{_NUMBER}年(?:{_MONTH}|[{dates.SEASONS}])?|{_MONTH}|[{dates.SEASONS}])"
)
# 「五月或八月」, 「元年、三年、五年」; not 「元年與三年之間」 and 「三年之喪」.
_EITHER = re.compile(
  rf"(?P<first>{_DATE})(?P<others>(?:[或與和及、]{_DATE}(?![的]?(?:之|中?間|期間|兩月|而)))+)"
)
_YEAR_OF_DATE = re.compile(f"{_NUMBER}年")
# 「四、五年」 and 「五、六月」.
_TWO_NUMBERS = re.compile(f"({_NUMBER}|正)[、，]({_NUMBER})([年月])")
_OR = re.compile(r"或|\s+or\s+")
_NUMBERED_DAY = re.compile(
  f"(?<=月)(初{numerals.NUMERAL_PATTERN}日?|{numerals.NUMERAL_PATTERN}[日號号])"
)
_WESTERN_MONTH = re.compile(
  rf"{COMMON_ERA_PATTERN}\s*前?\s*\S{{1,5}}年\s*\S{{1,3}}月\Z"
)
# Readers of running text expect a place after these range words.
_RANGE_WORDS = str.maketrans(dict.fromkeys("至到自從由迄", "，"))


class DateChoice(NamedTuple):
  """The dates of a question under one meaning of the first full one."""

  name: str  # of that meaning
  anchor: DateMention  # the first full date
  search: MentionSearch  # all dates


def list_choices(
  text: str,
  blanked: str,
  search: MentionSearch,
  spans: Sequence[DateSpan],
  months: CalendarMonths,
  printed_reigns: frozenset[int],
) -> list[DateChoice]:
  """Returns the dates under every meaning of the first; none without a date.

  Args:
    blanked: the text without what `spans` holds.
    search: regnal dates and years of the common era.
    printed_reigns: rows of the reigns whose meanings come first.
  """
  mentions = list(search.mentions)
  if not spans and not any(mention.is_full for mention in mentions):
    mentions = _add_reigns(text, blanked, mentions, months)
  options = [_list_options(mention, months) for mention in mentions]
  options += [
    [
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
    for span in spans
  ]
  options.sort(key=lambda named: named[0][1].start)
  anchors = next((named for named in options if named[0][1].is_full), [])
  years = search.years + tuple(
    EraYear(span.start, span.end, span.year)
    for span in spans
    if span.year is not None
  )

  def is_unprinted(option: tuple[str, DateMention]) -> bool:
    return printed_reigns.isdisjoint(number - 1 for number in option[1].reigns)

  choices = []
  for name, anchor in sorted(anchors, key=is_unprinted):
    chosen = tuple(
      anchor if named is anchors else _pick(named, anchor, months)
      for named in options
    )
    choices.append(DateChoice(name, anchor, MentionSearch(chosen, years)))
  return choices


def _pick(
  named: Sequence[tuple[str, DateMention]],
  anchor: DateMention,
  months: CalendarMonths,
) -> DateMention:
  """Returns the meaning of a second date that fits the first."""
  # A second date is taken in the reign of the first, else in the first reign
  # that puts it no earlier.
  mentions = [mention for _, mention in named]
  for mention in mentions:
    if mention.reigns and mention.reigns == anchor.reigns:
      return mention
  reigns = months.timeline.reigns
  if anchor.reigns:
    start = reigns[anchor.reigns[0] - 1].accession + (anchor.year or 1) - 1
    for mention in mentions:
      if mention.reigns and mention.year:
        row = reigns[mention.reigns[0] - 1]
        if row.accession + mention.year - 1 >= start:
          return mention
  return mentions[0]


def _list_options(
  mention: DateMention, months: CalendarMonths
) -> list[tuple[str, DateMention]]:
  if mention.months is not None:
    year = int(months.calendar.years[mention.months.first])
    name = reigns.format_common_era_year(year)
    month = _name_month(mention)
    return [(f"{name}, {month}" if month else name, mention)]
  if not mention.reigns:
    return [("", mention)]
  year = "" if mention.year is None else calendars.format_year(mention.year)
  return [
    (
      months.timeline.full_reign_name(number) + year + _name_month(mention),
      dataclasses.replace(mention, reigns=(number,)),
    )
    for number in mention.reigns
  ]


def _name_month(mention: DateMention) -> str:
  leap = "閏" * mention.leap
  if mention.month is None:
    return f"{leap}月" if leap else mention.season or ""
  return leap + calendars.format_month(mention.month)


def _add_reigns(
  text: str, blanked: str, mentions: list[DateMention], months: CalendarMonths
) -> list[DateMention]:
  """Gives the first year all reigns that it may belong to."""
  first = next((m for m in mentions if m.year is not None), None)
  if first is None or western.is_western(months.calendar):
    return mentions
  before = fold_script(blanked[: first.start])
  preceding = text[max(first.start - _MAX_RULER, 0) : first.start].split()
  if preceding and fold_script(preceding[-1])[-1] in _RULER_ENDINGS:
    raise DateError(
      Note(
        "problem.question.preceding",
        text=preceding[-1],
        calendar=months.timeline.name,
      ),
      text,
      first.start,
    )
  if not (before == "" or _BEFORE_YEAR.search(before)) and not any(
    cue.start == first.start and (cue.month or cue.season or cue.year == 1)
    for cue in dates.find_date_cues(blanked, months.timeline)
  ):
    return [m for m in mentions if m.year is None]
  with_name = mentions_lib.with_lone_reign(mentions, blanked, months.timeline)
  if any(mention.reigns for mention in with_name):
    return with_name
  numbers = tuple(
    number
    for number, reign in enumerate(months.timeline.reigns, start=1)
    if reign.years >= first.year
  )
  if not numbers:
    raise DateError(
      Note(
        "problem.question.reign_years",
        calendar=months.timeline.name,
        number=first.year,
      ),
      text,
      first.start,
    )
  row = mentions.index(first)
  mentions[row] = dataclasses.replace(first, reigns=numbers)
  return mentions


def resolve_choices(
  text: str,
  choices: Sequence[DateChoice],
  months: CalendarMonths,
  printed_reigns: frozenset[int],
) -> list[DateMeaning]:
  """Returns the months of every choice that the calendar has.

  Args:
    printed_reigns: rows of reigns for the names of months.
  """
  readings: list[DateMeaning] = []
  errors: list[DateError] = []
  for choice in choices:
    try:
      found = questions.resolve_mentions(text, choice.search, months)
    except DateError as error:
      errors.append(error)
      continue
    own = None
    with contextlib.suppress(DateError):
      own = windows.resolve_window(" " * len(text), [choice.anchor], months)
    name = choice.name
    if own != found:
      name = question_calendar.name_months(
        found, months, choice.anchor.reigns, printed_reigns
      )
    reading = DateMeaning(choice.name, MonthSpan(*found, name))
    if reading not in readings:
      readings.append(reading)
  if not readings:
    raise errors[0]
  return readings


def list_doubts(
  choice: DateChoice, reading: DateMeaning, months: CalendarMonths
) -> list[str]:
  """Returns warnings about a date that has one meaning."""
  doubts = []
  calendar = months.calendar
  mention = choice.anchor
  if mention.leap and not calendar.is_leap.any():
    doubts.append(
      Note(
        "note.question.leap",
        date=reading.name,
        other=reading.name.replace("閏", ""),
      )
      if mention.month
      else Note("note.question.leap_year")
    )
  elif (
    mention.month
    and mention.months is None
    and months.lacks_month(mention.reigns[0], mention.year, mention.month)
  ):
    doubts.append(Note("note.question.month_lacking", date=reading.name))
  members = calendar.memberships
  is_member = (
    np.isin(members.reigns + 1, mention.reigns)
    & (members.lunations >= reading.span.first)
    & (members.lunations <= reading.span.last)
  )
  if (
    mention.months is None
    and is_member.any()
    and not (members.in_use[is_member].any())
  ):
    names = calendars.name_month(calendar, reading.span.first)
    doubts.append(
      Note("note.question.reign_unused", date=reading.name, names=names)
    )
  return doubts


@dataclasses.dataclass(frozen=True)
class QuestionDates:
  """The dates of a question."""

  readings: tuple[DateMeaning, ...]  # one if clear, several if not
  intervals: tuple[MonthSpan, ...]  # many for a month of any year
  days: tuple[Day, ...]  # in order
  rest: str  # text with dates blanked, of the same length
  notes: tuple[Note, ...]  # what was understood
  is_season_alone: bool = False  # whether all it says is a season of any year
  late_spans: tuple[Months, ...] = ()  # before the era that it names


_SEASON_ALONE = re.compile("[春夏秋冬]")
_BLANK_BEFORE_YEAR = re.compile(
  rf"(?<=[\u3400-\u9fff])\s+(?=(?:元|{numerals.NUMERAL_PATTERN})\s?年)"
)


def read_dates(
  text: str, months: CalendarMonths, printed_reigns: frozenset[int]
) -> QuestionDates:
  """Returns the dates of a question.

  Args:
    text: without titles and quotations, which may look like dates.
    printed_reigns: rows of reigns whose meanings come first.
  """
  try:
    return _read_either(text, months, printed_reigns)
  except DateError as error:
    years = format_years(months.years)
    # In a short question the place of the fault is plain.
    problem = error.problem if len(text) <= _MAX_PLAIN else error
    if str(years) in str(problem):
      raise QuestionError(notes_lib.of_error(ValueError(problem))) from None
    raise QuestionError(
      Note("problem.question.holds", problem=problem, years=years)
    ) from None


def _read_either(
  text: str, months: CalendarMonths, printed_reigns: frozenset[int]
) -> QuestionDates:
  """Returns the dates of a question that may name one date or another."""
  if match := _EITHER.search(text):
    # What the second leaves out, it shares with the first.
    first, *others = re.split("[或與和及、]", match[0])
    year = _YEAR_OF_DATE.match(first)
    if year and not _YEAR_OF_DATE.match(others[0]):
      others[0] = year[0] + others[0]
    before, after = text[: match.start()], text[match.end() :]
    blank = " " * len(match["others"])
    one = _read_dates(before + first + blank + after, months, printed_reigns)
    other = before + "、".join(others) + after
    two = _read_either(other, months, printed_reigns)
    return _join(one, two, one.rest)
  match = _OR.search(text)
  if match is None:
    return _read_dates(text, months, printed_reigns)
  # Of two whole dates, each with words of its own.
  sides = text[: match.start()], text[match.end() :]
  try:
    one, two = (_read_dates(side, months, printed_reigns) for side in sides)
  except DateError:
    return _read_dates(text, months, printed_reigns)
  if not (one.readings and two.readings):
    return _read_dates(text, months, printed_reigns)
  return _join(one, two, one.rest + match[0] + two.rest)


def _join(one: QuestionDates, two: QuestionDates, rest: str) -> QuestionDates:
  """Returns the dates of either of two."""
  readings = tuple(dict.fromkeys(one.readings + two.readings))
  is_clear = max(len(one.readings), len(two.readings)) == 1
  return QuestionDates(
    readings=() if is_clear else readings,
    intervals=tuple(dict.fromkeys(one.intervals + two.intervals)),
    days=one.days or two.days,
    rest=rest,
    notes=tuple(dict.fromkeys(one.notes + two.notes)),
    is_season_alone=one.is_season_alone and two.is_season_alone,
    late_spans=one.late_spans + two.late_spans,
  )


def _read_dates(
  text: str, months: CalendarMonths, printed_reigns: frozenset[int]
) -> QuestionDates:
  notes: list[Note] = []
  # 「萬曆 十五年」; of 「王彌 五年」 the blank parts a word from a date.
  names = dates.build_grammar(months.timeline).reigns

  def join(match: re.Match[str]) -> str:
    folded = fold_script(text[: match.start()])
    ends = [folded[-length:] for length in range(2, 6)]
    # An unknown era counts too: the answer then says that it is unknown.
    is_reign = any(end in names or eras_lib.find_years(end, 1) for end in ends)
    return "" if is_reign else match[0]

  text = _BLANK_BEFORE_YEAR.sub(join, text)
  printed_text = _spell_out(text, notes)
  text = sections.fold_date_glyphs(printed_text)
  spans = question_spans.find_date_spans(text, months)
  characters = list(text)
  for span in spans:
    characters[span.start : span.end] = _BLANK * (span.end - span.start)
  blanked = "".join(characters)
  notes += _check_eras(text, blanked, months)
  notes += [span.note for span in spans if span.note]
  choices = list_choices(
    text,
    blanked,
    mentions_lib.find_mentions(blanked, months),
    spans,
    months,
    printed_reigns,
  )
  readings: list[DateMeaning] = []
  if choices:
    readings = resolve_choices(blanked, choices, months, printed_reigns)
    intervals = tuple(dict.fromkeys(reading.span for reading in readings))
    used = _list_used(blanked, choices[0].search.mentions, months)
    if len(choices) == 1:
      notes += list_doubts(choices[0], readings[0], months)
  else:
    intervals, used = _find_months_of_any_year(text, blanked, months, notes)
  late_spans = _find_late_spans(choices, readings, months, notes)
  days = question_calendar.find_days(blanked, months)
  if days and intervals:
    reigns_named = [
      number
      for choice in choices
      for mention in choice.search.mentions
      for number in mention.reigns
    ]
    intervals = question_calendar.narrow_to_day(
      intervals, days[0], months, notes, reigns_named
    )
  # 「丙子朔」: 朔 says where the day is in its month; it is not a word.
  used += [
    DateMention(day.start, day.end + (blanked[day.end : day.end + 1] in _MARKS))
    for day in days
  ]
  readings = [
    reading
    for reading in readings
    if any(
      reading.span.first <= span.last and span.first <= reading.span.last
      for span in intervals
    )
  ]
  folded = fold_script(blanked)
  used = [_with_season_word(mention, folded) for mention in used]
  blanks = windows.blank_window_words(folded, used)
  rest = "".join(
    " " if blank == " " else character
    for character, blank in zip(printed_text, blanks, strict=True)
  )
  used_text = "".join(text[mention.start : mention.end] for mention in used)
  return QuestionDates(
    tuple(readings),
    intervals,
    tuple(days),
    rest,
    tuple(notes),
    bool(intervals) and _SEASON_ALONE.fullmatch(used_text) is not None,
    late_spans,
  )


def _spell_out(text: str, notes: list[Note]) -> str:
  # 「五年春夏」 is 五年春至夏, 「四、五年」 is 四年至五年. Numbers of days
  # are dropped: an index knows months only.
  text = dates.join_parts(text)
  text = _TWO_SEASONS.sub(r"\1至\2", text)
  text = _TWO_NUMBERS.sub(r"\1\3至\2\3", text)

  def leave_out(match: re.Match[str]) -> str:
    if _WESTERN_MONTH.search(text, 0, match.start()):
      return match[0]
    notes.append(Note("note.question.day_left_out", day=match[1]))
    return ""

  return _NUMBERED_DAY.sub(leave_out, text)


def _list_used(
  text: str, mentions: Sequence[DateMention], months: CalendarMonths
) -> list[DateMention]:
  # 「三月」 in 「三月而葬」 is a length of time and opens no date:
  # it has no cue.
  cues = dates.find_date_cues(text, months.timeline)
  cue_starts = {cue.start for cue in cues}
  used = [m for m in mentions if m.is_full or m.start in cue_starts]
  first = next(mention for mention in mentions if mention.is_full)
  second = windows.find_second_date(first, mentions, fold_script(text), months)
  if second is not None:  # with the word between, and a bare 「冬」 or 「年底」
    used.append(DateMention(first.end, second[0].end))
  return sorted(used, key=lambda mention: (mention.start, mention.end))


def _find_late_spans(
  choices: Sequence[DateChoice],
  readings: Sequence[DateMeaning],
  months: CalendarMonths,
  notes: list[Note],
) -> tuple[Months, ...]:
  """Returns the months of first years that were over when their era began.

  Args:
    notes: list that receives a note on each, if they are few.
  """
  named = {choice.name: choice.anchor for choice in choices}
  late = np.zeros(len(months), bool)
  in_use = np.zeros(len(months), bool)
  late_notes = []
  for reading in readings:
    anchor = named[reading.name]
    first, last, _ = reading.span
    start = first
    if anchor.months is None and anchor.is_bare_year and anchor.year == 1:
      (reign,) = anchor.reigns
      if months.find_year(reign, 1).first == first:
        start = months.find_start(reign) or first
    in_use[start : last + 1] = True
    late[first:start] = True
    if start > first:
      names = question_calendar.name_months(Months(first, start - 1), months)
      late_notes.append(
        Note("note.question.before_era", date=reading.name, names=names)
      )
  if len(late_notes) <= _MAX_LATE_NOTES:
    notes += late_notes
  return tuple(find_runs(late & ~in_use))


def _with_season_word(mention: DateMention, folded: str) -> DateMention:
  """Returns a mention with the second character of 秋天."""
  if not questions.SEASON_WORD.match(folded, mention.end):
    return mention
  return dataclasses.replace(mention, end=mention.end + 1)


def _check_eras(text: str, blanked: str, months: CalendarMonths) -> list[Note]:
  """Raises QuestionError for a year of an era that the calendar lacks.

  Before a sexagenary pair, 「萬曆丁亥」, it may be a word: returns notes.
  """
  eras = [
    era
    for written in (blanked, fold_script(blanked).translate(_RANGE_WORDS))
    for era in eras_lib.find_unknown_eras(written, months.calendar)
  ]

  def find_before(suffix: re.Match[str]) -> list[eras_lib.UnknownEra]:
    first_year = f"{blanked[: suffix.start()]}元年"
    return [
      dataclasses.replace(era, stop=suffix.end())
      for era in eras_lib.find_unknown_eras(first_year, months.calendar)
      if era.known and era.stop == len(first_year)
    ]

  for suffix in question_spans.ERA_SUFFIX.finditer(blanked):
    eras += find_before(suffix)
  for era in eras:
    raise QuestionError(_describe_era(era, text, months))
  return [
    _describe_era(era, text, months)
    for pair in _PAIR.finditer(blanked)
    for era in find_before(pair)
  ]


def _describe_era(
  era: eras_lib.UnknownEra, text: str, months: CalendarMonths
) -> Note:
  if era.known:
    hint = Note(
      "problem.question.reign.known", states=era.list_owners("note.owner")
    )
  elif era.nearest:
    hint = Note("problem.question.reign.near", names=", ".join(era.nearest))
  else:
    numbers = range(1, min(len(months.timeline.reigns), _NUM_EXAMPLES) + 1)
    names = map(months.timeline.full_reign_name, numbers)
    hint = Note("problem.question.reign.write", names="、".join(names))
  return Note(
    "problem.question.reign",
    text=text[era.start : era.stop],
    name=era.name,
    calendar=months.timeline.name,
    years=format_years(months.years),
    hint=hint,
  )


def _find_months_of_any_year(
  text: str, blanked: str, months: CalendarMonths, notes: list[Note]
) -> tuple[tuple[MonthSpan, ...], list[DateMention]]:
  """Returns every month of a number or season without a year."""
  cues = [
    cue
    for cue in dates.find_date_cues(blanked, months.timeline)
    if (cue.month or cue.season or cue.leap) and not cue.year
  ]
  if not cues:
    return (), []
  first_cue, last_cue, end = cues[0], None, cues[0].end
  if first_cue.month or first_cue.season:
    connector = windows.RANGE_CONNECTOR.match(fold_script(text), end)
    if connector and len(cues) > 1 and cues[1].start == connector.end():
      last_cue, end = cues[1], cues[1].end
  calendar = months.calendar
  is_match = questions.match_cue(
    first_cue, calendar.months, calendar.is_leap, True, last_cue
  )
  name = text[first_cue.start : end]
  if not is_match.any():
    raise DateError(
      Note("problem.date.timeline", calendar=months.timeline.name), text, end
    )
  notes.append(Note("note.question.any_year", date=name))
  spans = tuple(MonthSpan(*run, name) for run in find_runs(is_match))
  return spans, [DateMention(first_cue.start, end)]
