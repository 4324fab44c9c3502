"""Eras and rulers that a text names and its calendar lacks.

「洪武三年」 under a table without 洪武 is not year 3 of any reign in it. Names
in the installed tables are found before any year; unknown names only at the
head of a record, where little but a date can stand.
"""

import collections
import dataclasses
import difflib
import functools
import re
from collections.abc import Sequence

from ctd_jax.chronology import calendar_tables, dates, numerals
from ctd_jax.chronology.calendar_tables import build_names_pattern
from ctd_jax.chronology.numerals import fold_script
from ctd_jax.chronology.reigns import Timeline, format_common_era_year
from ctd_jax.dating.chronicle import emissions
from ctd_jax.dating.chronicle.calendar import Calendar
from ctd_jax.dating.chronicle.sections import (
  NAMED,
  PUNCTUATION,
  UNKNOWN_ERA_STATEMENT,
  YEAR,
  DateStatement,
  Section,
  find_statement,
  fold_date_glyphs,
)
from ctd_jax.texts.works import Entry
from ctd_jax.utils import deadlines
from ctd_jax.utils.notes import Note

_YEAR = re.compile(
  rf"(?P<year>元|{numerals.REGNAL_NUMERAL_PATTERN})(?:年|(?P<old>[載载])(?!初))"
)
# Years counted by the ruler alone have these for names; 「前元年」 is none.
_NAMES_OF_PARTS = ("前元", "中元", "後元")
# Before a name that is a place or a word too: 居長安三年, 天下太平三年.
_NO_ERA_BEFORE = re.compile("[居在至入於于守據保留鎮屯還都下致享]$")
_NO_ERA_NAMES = re.compile(
  "[公王侯伯子帝宗祖君后後主氏之其是此今去明來前上下年歲月日春夏秋冬位立即既"
  f"居凡積經傳生崩卒自至及不在有無又共計期滿數幾每約第百千萬{numerals.UNIT_DIGITS}十零]"
)
_NO_LONG_NAME = re.compile("[改號曰朝國以乎縣州府]|建元")
# What follows a year that heads a record.
_GOES_ON = re.compile(
  rf"[，、：。\s]*(?:[春夏秋冬]|王?閏?(?:正|{numerals.NUMERAL_PATTERN})?月|\Z)"
)
# At the head of a record: 平王三年. Not 先王三年 or 諸侯王三年.
RANKS = ("王", "公", "侯", "帝", "宗", "祖", "后")
_RULER = re.compile(rf"[\u4e00-\u9fff\u3400-\u4dbf]{{1,4}}[{''.join(RANKS)}]")
_NO_RULER = re.compile(
  "[先今大我其之是此諸列封立即為曰生及與而以於年歲月日春夏秋冬百千萬女太子]"
  "|^[天上皇]"
)
_ORNAMENT = " \t\u3000○〇◎●△▲【〔[（(《〈#*"
_MAX_RULER_LENGTH = 9  # with the polity
_NAME_LENGTH = 2  # of nearly all eras
_LONG_NAME_LENGTH = 4
_MAX_HEAD_LENGTH = 6  # with the polity
_HAN = re.compile("[\u4e00-\u9fff\u3400-\u4dbf]+")
_NUM_NEAREST = 3
_NEAREST_CUTOFF = 0.5


@dataclasses.dataclass(frozen=True)
class UnknownEra:
  """A year of an era that the calendar lacks."""

  start: int  # position of its first character, the polity's if one is named
  stop: int  # position after its last
  name: str  # as the tables spell it or, if unknown, as printed
  regnal_year: int  # from 1
  # (polity, first year, last year) of each era of that name in the installed
  # tables; years are astronomical.
  known: tuple[tuple[str, int, int], ...]
  # Similar names, the nearest first, if `known` is empty.
  nearest: tuple[str, ...] = ()
  # Whether years are counted by the ruler and not by an era.
  is_ruler: bool = False

  def list_owners(self, code: str) -> list[Note]:
    """Returns the polities with such an era and its years, a note each."""
    return [
      Note(
        code,
        polity=polity,
        first=format_common_era_year(first),
        last=format_common_era_year(last),
      )
      for polity, first, last in self.known
    ]


def find_unknown_eras(text: str, calendar: Calendar) -> list[UnknownEra]:
  """Returns the years of eras that the calendar lacks, in order of the text."""
  folded = None
  found = []
  for match in _YEAR.finditer(text):
    deadlines.check()
    if folded is None:
      folded = fold_script(fold_date_glyphs(text))
      head = len(folded) - len(folded.lstrip(_ORNAMENT))
    arguments = folded, match, calendar.timeline
    era = (
      _read_known_era(*arguments)
      if match["old"]
      else (
        _read_longer_era(*arguments, head)
        or _read_known_era(*arguments)
        or _read_known_ruler(*arguments, head)
        or _read_strange_ruler(*arguments, head)
        or _read_strange_era(*arguments, head)
      )
    )
    if era is not None:
      if not era.known:
        # As it is printed.
        stop = match.start()
        era = dataclasses.replace(era, name=text[stop - len(era.name) : stop])
      found.append(era)
  return found


def find_years(name: str, regnal_year: int) -> tuple[int, ...]:
  """Returns the astronomical years that a year of an era or ruler can be."""
  folded = fold_script(name)
  eras = {*_index_eras().get(folded, ()), *_index_rulers().get(folded, ())}
  # The name of a state tells eras of one name apart, 唐貞觀.
  eras |= {
    era
    for length in _name_lengths()
    for era in _index_eras().get(folded[-length:], ())
    if fold_script(era.polity.name) == folded[:-length]
  }
  return tuple(
    era.first_year + regnal_year - 1 for era in eras if regnal_year <= era.years
  )


@functools.cache
def _index_eras() -> dict[str, tuple[calendar_tables.Era, ...]]:
  """Returns folded name -> eras of the installed tables."""
  eras: dict[str, tuple[calendar_tables.Era, ...]] = {}
  for era in calendar_tables.load_eras():
    for name in {fold_script(name) for name in (era.name, *era.spellings)}:
      if name and name not in _NAMES_OF_PARTS:
        eras[name] = (*eras.get(name, ()), era)
  return eras


@functools.cache
def _name_lengths() -> tuple[int, ...]:
  """Returns the lengths of names in characters, the longest first."""
  return tuple(sorted({len(name) for name in _index_eras()}, reverse=True))


@functools.cache
def _names_of_polities() -> frozenset[str]:
  """Returns the folded names, 明, 大明, 皇明."""
  names = {
    fold_script(name)
    for polity in {era.polity for era in calendar_tables.load_eras()}
    for name in calendar_tables.list_printed_names(polity)
  }
  return frozenset(
    prefix + name for name in names for prefix in ("", "大", "皇")
  )


@functools.lru_cache(maxsize=8)
def _names_of_calendar(timeline: Timeline) -> frozenset[str]:
  return frozenset(
    fold_script(name)
    for reign in timeline.reigns
    for name in (reign.name, *reign.aliases)
  )


def _read_known_era(
  folded: str, match: re.Match[str], timeline: Timeline
) -> UnknownEra | None:
  """Returns the era that comes before a year if only the tables know it."""
  stop = match.start()
  own_names = _names_of_calendar(timeline)
  regnal_year = numerals.parse_numeral(match["year"], "year")
  for length in _name_lengths():
    start = stop - length
    name = folded[max(start, 0) : stop]
    if start < 0 or name not in _index_eras():
      continue
    if name in own_names:
      return _read_other_state(folded, match, name, timeline)
    eras = [era for era in _index_eras()[name] if regnal_year <= era.years]
    if not eras or _NO_ERA_BEFORE.search(folded, max(start - 1, 0), start):
      return None
    start, eras = _read_state(folded, start, eras)
    return UnknownEra(
      start, match.end(), eras[0].name, regnal_year, _list_spans(eras)
    )
  return None


def _read_other_state(
  folded: str, match: re.Match[str], name: str, timeline: Timeline
) -> UnknownEra | None:
  """Returns an era whose name the calendar has, of a state that it lacks."""
  name_start = match.start() - len(name)
  regnal_year = numerals.parse_numeral(match["year"], "year")
  eras = [era for era in _index_eras()[name] if regnal_year <= era.years]
  if not eras:
    return None
  start, eras = _read_state(folded, name_start, eras)
  own_reigns = dates.find_named_reigns(name, timeline)
  if (
    start == name_start
    # A reign of no state may be that of any.
    or not all(timeline.reigns[row].state for row in own_reigns)
    or dates.find_named_reigns(folded[start : match.start()], timeline)
  ):
    return None
  return UnknownEra(
    start,
    match.end(),
    eras[0].polity.name + eras[0].name,
    regnal_year,
    _list_spans(eras),
  )


def _list_spans(
  eras: list[calendar_tables.Era],
) -> tuple[tuple[str, int, int], ...]:
  """Returns polity, first and last year of each era, none twice."""
  return tuple(
    dict.fromkeys(
      (era.polity.name, era.first_year, era.first_year + era.years - 1)
      for era in eras
    )
  )


@functools.cache
def _index_rulers() -> dict[str, tuple[calendar_tables.Era, ...]]:
  """Returns folded name -> years counted by rulers without eras."""
  eras: dict[str, tuple[calendar_tables.Era, ...]] = {}
  for era in calendar_tables.load_eras():
    if era.ruler is None or (era.name and era.name not in _NAMES_OF_PARTS):
      continue
    names = {fold_script(name) for name in era.ruler.names}
    polities = calendar_tables.list_printed_names(era.polity)
    for polity in ("", *map(fold_script, polities)):
      for name in names:
        if len(polity + name) > 1 and era not in eras.get(polity + name, ()):
          eras[polity + name] = (*eras.get(polity + name, ()), era)
  return eras


def _read_known_ruler(
  folded: str, match: re.Match[str], timeline: Timeline, head: int
) -> UnknownEra | None:
  """Returns the years of a ruler that only the tables know."""
  stop = match.start()
  regnal_year = numerals.parse_numeral(match["year"], "year")
  for start in range(max(head, stop - _MAX_RULER_LENGTH), stop - 1):
    name = folded[start:stop]
    eras = [e for e in _index_rulers().get(name, ()) if regnal_year <= e.years]
    has_polity = any(
      name not in map(fold_script, era.ruler.names) for era in eras
    )
    if not eras or not (has_polity or start == head):
      continue
    if name in _names_of_rulers(timeline) or (
      dates.find_named_reigns(name, timeline)
    ):
      return None
    return UnknownEra(
      start,
      match.end(),
      eras[0].ruler.name,
      regnal_year,
      _list_spans(eras),
      is_ruler=True,
    )
  return None


def _read_strange_ruler(
  folded: str, match: re.Match[str], timeline: Timeline, start: int
) -> UnknownEra | None:
  """Returns the years of a ruler of no table, at the head of a record."""
  stop = match.start()
  name = folded[start : min(stop, start + _MAX_RULER_LENGTH)]
  if (
    start + len(name) != stop
    or not _RULER.fullmatch(name)
    or _NO_RULER.search(name)
    or not (match["year"] == "元" or _GOES_ON.match(folded, match.end()))
    or any(
      folded[position:stop] in _names_of_rulers(timeline)
      or dates.find_named_reigns(folded[position:stop], timeline)
      for position in range(start, stop - 1)
    )
  ):
    return None
  return _make_strange(start, match, name, timeline, is_ruler=True)


@functools.lru_cache(maxsize=8)
def _names_of_rulers(timeline: Timeline) -> frozenset[str]:
  """Returns the folded names of the rulers of eras, alone and after a state."""
  states = {reign.state for reign in timeline.reigns} - {""}
  return frozenset(
    dynasty + name
    for names in map(calendar_tables.ruler_names, states)
    for name in names.names
    for dynasty in ("", *names.dynasties)
  )


def _read_state(
  folded: str, start: int, eras: list[calendar_tables.Era]
) -> tuple[int, list[calendar_tables.Era]]:
  """Returns where the polity and ruler before a name begin, and their eras."""
  named: dict[int, list[calendar_tables.Era]] = {}
  for era in eras:
    printed_names = calendar_tables.list_printed_names(era.polity)
    polities = set(map(fold_script, printed_names))
    rulers = {fold_script(n) for n in (era.ruler.names if era.ruler else ())}
    position = start
    for names in (rulers, polities):
      position -= max(
        (len(n) for n in names if folded.endswith(n, 0, position)), default=0
      )
    named.setdefault(position, []).append(era)
  first = min(named)
  return (first, named[first]) if first < start else (start, eras)


def _read_strange_era(
  folded: str, match: re.Match[str], timeline: Timeline, head: int
) -> UnknownEra | None:
  """Returns an era that no table has, at the head of a record."""
  stop = match.start()
  if not head < stop <= head + _MAX_HEAD_LENGTH:
    return None
  start = head + max(
    (
      length
      for length in range(1, stop - head)
      if folded[head : head + length] in _names_of_polities()
    ),
    default=0,
  )
  name = folded[start:stop]
  if (
    not (
      len(name) == _NAME_LENGTH
      or (
        _may_be_long_name(name) and not _is_name(name[-_NAME_LENGTH:], timeline)
      )
    )
    or not _HAN.fullmatch(name)
    or _NO_ERA_NAMES.search(name)
    or not (match["year"] == "元" or _GOES_ON.match(folded, match.end()))
    or _is_name(name, timeline)
  ):
    return None
  return _make_strange(head, match, name, timeline)


def _read_longer_era(
  folded: str, match: re.Match[str], timeline: Timeline, head: int
) -> UnknownEra | None:
  """Returns an unknown era that ends with a known name, 「天資寶祐」."""
  stop = match.start()
  name = folded[max(stop - _LONG_NAME_LENGTH, 0) : stop]
  start = stop - len(name)
  prefix, known = name[:-_NAME_LENGTH], name[-_NAME_LENGTH:]
  if (
    # Where a clause begins; elsewhere a verb may be before a name.
    not (start == head or folded[start - 1] in PUNCTUATION)
    or not _is_name(known, timeline)
    or _is_name(name, timeline)
    or _is_name(prefix, timeline)
    or not _may_be_long_name(name)
    or _NO_ERA_NAMES.search(prefix)
    or _NO_LONG_NAME.search(prefix)
    or dates.find_named_reigns(name, timeline)
    or any(
      prefix.startswith(polity) or prefix.endswith(polity)
      for polity in _names_of_polities()
    )
    or any(prefix in ruler for ruler in _index_rulers())
  ):
    return None
  return _make_strange(start, match, name, timeline)


def _make_strange(
  start: int,
  match: re.Match[str],
  name: str,
  timeline: Timeline,
  is_ruler: bool = False,
) -> UnknownEra:
  """Returns an era or ruler of no table, with the names that are like it."""
  return UnknownEra(
    start,
    match.end(),
    name,
    numerals.parse_numeral(match["year"], "year"),
    (),
    _find_nearest(name, timeline),
    is_ruler,
  )


def _is_name(name: str, timeline: Timeline) -> bool:
  """Returns whether a calendar or the tables have an era of a folded name."""
  return name in _index_eras() or name in _names_of_calendar(timeline)


def _may_be_long_name(name: str) -> bool:
  """Returns whether a name begins as long eras do, 「太平興國」."""
  return len(name) == _LONG_NAME_LENGTH and name[0] in _initials_of_long_names()


@functools.cache
def _initials_of_long_names() -> frozenset[str]:
  return frozenset(
    name[0] for name in _index_eras() if len(name) == _LONG_NAME_LENGTH
  )


@functools.lru_cache(maxsize=1024)
def _find_nearest(name: str, timeline: Timeline) -> tuple[str, ...]:
  """Returns names that are like one, the nearest first."""
  names = sorted(
    _names_of_calendar(timeline) | _index_eras().keys() | _index_rulers().keys()
  )
  return tuple(
    difflib.get_close_matches(name, names, _NUM_NEAREST, _NEAREST_CUTOFF)
  )


# The annals of 周 are not of Qin and Han, whatever months they print. A stretch
# of another time begins with a heading of another state (「周本紀」), a year of
# a ruler or era of another time, or a year past the end of an era's table. It
# ends with the heading, or where a reign of the calendar is printed. One that
# begins inside a record may be quoted there, 「唐開元二年」, and ends with it.
# Where no other year follows the first, it ends when the months begin again.
#
# A heading is a guess: 「元帝紀」 is no annals of the Yuan where 元帝 is a
# ruler of the calendar, nor is any chapter that prints the calendar's eras.
#
# Parallel states are not another time: the calendar of 曹魏 has the months of
# 黃武.


def mark_outside_stretches(
  records: Sequence[Entry], sections: Sequence[Section], calendar: Calendar
) -> list[Section]:
  """Returns the sections, with those of another time marked."""
  marked = []
  stretch = _Stretch()
  other_headings = _find_other_headings(records, sections, calendar)
  for section in sections:
    record = records[section.record]
    if stretch.quoting_record not in (None, section.record):
      stretch = _Stretch(known_year=stretch.year_before)
    if record.is_heading and not section.statements:
      # Another chapter, which may continue with the count of years.
      stretch = _Stretch(known_year=stretch.known_year)
    if other_headings[section.record] is not None:
      stretch = _Stretch()
      is_other = True
    else:
      statement = _find_year(section)
      if statement is not None:
        year_before, was_other = stretch.known_year, stretch.is_of_other_time
        stretch.read_year(statement, _is_of_other_time(statement, calendar))
        if not stretch.is_of_other_time:
          stretch.quoting_record = None
        elif section.start > 0 and not was_other:
          stretch.quoting_record = section.record
          stretch.year_before = year_before
        stretch.last_month = _find_month(section)
      elif stretch.is_past_its_year(_find_month(section)):
        stretch = _Stretch(known_year=stretch.known_year)
      is_other = stretch.is_of_other_time
    marked.append(dataclasses.replace(section, is_of_other_time=is_other))
  return marked


@dataclasses.dataclass
class _Stretch:
  """Tracks whose years are being read."""

  is_of_other_time: bool = False
  known_year: int | None = None
  other_year: int | None = None
  num_years: int = 0  # read of another time
  last_month: int = 0  # of its year
  # Record inside which the stretch began, and the last year before it.
  quoting_record: int | None = None
  year_before: int | None = None

  def is_past_its_year(self, month: int) -> bool:
    """Reads the month of a section without a year, 0 if it prints none.

    Returns whether the month belongs to a later year, whose number the text
    does not print.
    """
    is_earlier = 0 < month < self.last_month
    self.last_month = month or self.last_month
    return is_earlier and self.is_of_other_time and self.num_years == 1

  def read_year(self, statement: DateStatement, is_of_other_time: bool) -> None:
    """Takes in the year at the head of a section."""
    kind, name, year = statement
    is_misprint = (
      kind == UNKNOWN_ERA_STATEMENT
      and not self.is_of_other_time
      and _follows(year, self.known_year)
    )
    if is_misprint:
      # 「嘉平四年」 after 熹平三年.
      self.known_year = year
    elif is_of_other_time:
      self.is_of_other_time, self.other_year = True, year
      self.num_years += 1
    elif not self.is_of_other_time:
      self.known_year = year
    elif name is not None or (
      _follows(year, self.known_year) and not _follows(year, self.other_year)
    ):
      # An aside: 「十二年」, a year of another, 「十三年」.
      self.is_of_other_time, self.known_year = False, year
    else:
      self.known_year, self.other_year = None, year


def list_other_headings(
  records: Sequence[Entry], sections: Sequence[Section], calendar: Calendar
) -> dict[str, int]:
  """Returns heading of a state of another time -> its number of records."""
  counts: dict[str, int] = {}
  headings = _find_other_headings(records, sections, calendar)
  for record, heading in zip(records, headings, strict=True):
    if heading is not None:
      counts[heading] = counts.get(heading, 0) + (not record.is_heading)
  return counts


def _find_other_headings(
  records: Sequence[Entry], sections: Sequence[Section], calendar: Calendar
) -> list[str | None]:
  """Returns the heading of another time's state over each record, or None."""
  headings = [_find_other_heading(record, calendar) for record in records]
  # Years of eras of the calendar, less those of other times.
  own_years: collections.Counter[str | None] = collections.Counter()
  for section in sections:
    statement = _find_year(section)
    if headings[section.record] is None or statement is None:
      continue
    kind, name, _ = statement
    if _is_of_other_time(statement, calendar):
      own_years[headings[section.record]] -= 1
    elif kind == "year" and name is not None and not name.endswith(RANKS):
      own_years[headings[section.record]] += 1
  return [None if own_years[heading] > 0 else heading for heading in headings]


def _find_year(section: Section) -> DateStatement | None:
  """Returns the year that heads a section, of an unknown era too."""
  if section.kind not in (YEAR, NAMED):
    return None
  return find_statement(section, "year", UNKNOWN_ERA_STATEMENT)


def _find_month(section: Section) -> int:
  """Returns the month of a section, or the first of its season, or 0."""
  statement = find_statement(section, "month", "season")
  if statement is None:
    return 0
  name, value = statement
  return value if name == "month" else 3 * value + 1


def _follows(year: int, last_year: int | None) -> bool:
  """Returns whether a year is the last one, or the next."""
  return last_year is not None and year in (last_year, last_year + 1)


def _is_of_other_time(statement: DateStatement, calendar: Calendar) -> bool:
  """Returns whether a year is outside the years of the calendar."""
  name, *values = statement
  if name != UNKNOWN_ERA_STATEMENT:
    return emissions.is_past_calendar(statement, calendar)
  years = find_years(*values)
  if not years:
    # A ruler of no table; an era may be a misprint.
    return values[0].endswith(RANKS)
  return all(
    not calendar.years[0] <= year <= calendar.years[-1] for year in years
  )


def _find_other_heading(record: Entry, calendar: Calendar) -> str | None:
  """Returns the heading of another time's state that a record is under."""
  years = calendar.years
  own = (record.text,) if record.is_heading else ()
  # The nearest heading that names a state decides.
  for heading in (*own, *reversed(record.headings)):
    is_other = _names_other_state(
      heading, calendar.timeline, int(years[0]), int(years[-1])
    )
    if is_other is not None:
      return heading if is_other else None
  return None


@functools.lru_cache(maxsize=1024)
def _names_other_state(
  heading: str, timeline: Timeline, first_year: int, last_year: int
) -> bool | None:
  """Returns whether a heading names a state of another time, or None."""
  match = _heading_pattern().match(fold_script(heading))
  if match is None:
    return None
  name = match["state"]
  if match["emperor"] and name + "帝" in _list_rulers(timeline):
    return False
  return name not in _index_own_states(timeline) and all(
    last < first_year or first > last_year
    for first, last in _index_states()[name]
  )


@functools.cache
def _heading_pattern() -> re.Pattern[str]:
  """Returns the pattern of a heading 「周本紀第四」, folded."""
  states = build_names_pattern(_index_states())
  return re.compile(
    rf"[\W\d]*(?P<state>{states})[朝國]?(?:本|(?P<emperor>帝))?[紀记]"
  )


@functools.cache
def _index_states() -> dict[str, tuple[tuple[int, int], ...]]:
  """Returns folded name of a state -> first and last year of each of it."""
  spans: dict[str, set[tuple[int, int]]] = {}
  for state in calendar_tables.load_early_states():
    for name in state.names:
      spans.setdefault(fold_script(name), set()).add(
        (state.first_year, state.last_year)
      )
  for era in calendar_tables.load_eras():
    span = (era.first_year, era.first_year + era.years - 1)
    for name in calendar_tables.list_printed_names(era.polity):
      spans.setdefault(fold_script(name), set()).add(span)
  return {name: tuple(found) for name, found in spans.items()}


@functools.lru_cache(maxsize=8)
def _list_rulers(timeline: Timeline) -> frozenset[str]:
  """Returns the folded names of the rulers of a timeline."""
  return frozenset(
    name
    for state in ({reign.state for reign in timeline.reigns} - {""})
    for name in calendar_tables.ruler_names(state).names
  )


@functools.lru_cache(maxsize=8)
def _index_own_states(timeline: Timeline) -> dict[str, tuple[str, ...]]:
  """Returns folded name -> states of a timeline that have it."""
  states: dict[str, tuple[str, ...]] = {}
  for state in dict.fromkeys(reign.state for reign in timeline.reigns):
    for name in calendar_tables.ruler_names(state).dynasties if state else ():
      states[name] = (*states.get(name, ()), state)
  return states


def find_states(heading: str, timeline: Timeline) -> tuple[str, ...] | None:
  """Returns the states of a timeline whose annals a heading opens.

  None if it names no state, as 「元帝紀」.
  """
  match = _heading_pattern().match(fold_script(heading))
  if match is None or match["emperor"]:
    return None
  return _index_own_states(timeline).get(match["state"], ())
