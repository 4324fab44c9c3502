"""Eras that a text names and its calendar lacks.

「洪武三年」 under a table without 洪武 is no third year of any of its reigns.
Names that the installed tables know are found wherever a year follows them;
others only at the head of a record, where nothing but a date is expected.
"""

from __future__ import annotations

import dataclasses
import difflib
import functools
import re

from ctd_jax.chronology import calendar_tables, numerals
from ctd_jax.chronology.numerals import fold_script
from ctd_jax.chronology.timelines import Timeline
from ctd_jax.dating.chronicle.date_glyphs import fold_date_glyphs
from ctd_jax.dating.chronicle.month_calendar import Calendar

_YEAR = re.compile(rf"(?P<year>元|{numerals.NUMERAL_PATTERN})年")
# Years counted by the ruler alone have these for names; 「前元年」 is none.
_NAMES_OF_PARTS = ("前元", "中元", "後元")
# Before a name that is a place or a word as well: 居長安三年, 天下太平三年.
_NO_ERA_BEFORE = re.compile("[居在至入於于守據保留鎮屯還都下致享]$")
_NO_ERA_NAMES = re.compile(
  "[公王侯伯子帝宗祖君后後主氏之其是此今去明來前上下年歲月日春夏秋冬位立即既"
  f"居凡積經傳生崩卒自至及不在有無又共計期滿數幾每約第百千萬{numerals.UNIT_DIGITS}十零]"
)
# What follows a year that heads a record.
_GOES_ON = re.compile(
  rf"[，、：。\s]*(?:[春夏秋冬]|王?閏?(?:正|{numerals.NUMERAL_PATTERN})?月|\Z)"
)
_ORNAMENT = " \t\u3000○〇◎●△▲【〔[（(《〈#*"
_NAME_LENGTH = 2  # of nearly all eras
_MAX_HEAD_LENGTH = 6  # with the polity
_HAN = re.compile("[\u4e00-\u9fff\u3400-\u4dbf]+")
_NUM_NEAREST = 3
_NEAREST_CUTOFF = 0.5


@dataclasses.dataclass(frozen=True)
class UnknownEra:
  """A year of an era that the calendar lacks.

  Attributes:
    start: position of its first character, of the polity where one stands
      before the name.
    stop: position after its last.
    name: of the era, as the tables spell it or, unknown, as printed.
    regnal_year: from 1.
    known: (polity, first year, last year) of each era of that name in the
      installed tables; years are astronomical.
    nearest: names that are like it, the nearest first, if none is known.
  """

  start: int
  stop: int
  name: str
  regnal_year: int
  known: tuple[tuple[str, int, int], ...]
  nearest: tuple[str, ...] = ()


def find_unknown_eras(text: str, calendar: Calendar) -> list[UnknownEra]:
  """Returns the years of eras that the calendar lacks, in order.

  Args:
    text: one record, in either script.
    calendar: of the chronicle.
  """
  folded = None
  found = []
  for match in _YEAR.finditer(text):
    folded = folded or fold_script(fold_date_glyphs(text))
    era = _read_known_era(folded, match, calendar.timeline)
    if era is None:
      era = _read_strange_era(text, folded, match, calendar.timeline)
    if era is not None:
      found.append(era)
  return found


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
  """Returns how many characters names have, the most first."""
  return tuple(sorted({len(name) for name in _index_eras()}, reverse=True))


@functools.cache
def _names_of_polities() -> frozenset[str]:
  """Returns the folded names, 明, 大明, 皇明."""
  polities = {era.polity for era in calendar_tables.load_eras()}
  names = {
    fold_script(name)
    for polity in polities
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
  """Returns the era that stands before a year if only the tables know it."""
  stop = match.start()
  own_names = _names_of_calendar(timeline)
  regnal_year = numerals.parse_numeral(match["year"], "year")
  for length in _name_lengths():
    start = stop - length
    name = folded[max(start, 0) : stop]
    if start < 0 or name not in _index_eras():
      continue
    if name in own_names:
      return None
    eras = [era for era in _index_eras()[name] if regnal_year <= era.years]
    if not eras or _NO_ERA_BEFORE.search(folded, max(start - 1, 0), start):
      return None
    start, eras = _read_state(folded, start, eras)
    known = dict.fromkeys(
      (era.polity.name, era.first_year, era.first_year + era.years - 1)
      for era in eras
    )
    return UnknownEra(
      start, match.end(), eras[0].name, regnal_year, tuple(known)
    )
  return None


def _read_state(
  folded: str, start: int, eras: list[calendar_tables.Era]
) -> tuple[int, list[calendar_tables.Era]]:
  """Returns where polity and ruler before a name begin, and the eras of them.

  All of the eras, if neither is named.
  """
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
  text: str, folded: str, match: re.Match[str], timeline: Timeline
) -> UnknownEra | None:
  """Returns an era that no table has, at the head of a record."""
  stop = match.start()
  start = len(folded) - len(folded.lstrip(_ORNAMENT))
  if not start < stop <= start + _MAX_HEAD_LENGTH:
    return None
  start += max(
    (
      length
      for length in range(1, stop - start)
      if folded[start : start + length] in _names_of_polities()
    ),
    default=0,
  )
  name = folded[start:stop]
  if (
    len(name) != _NAME_LENGTH
    or not _HAN.fullmatch(name)
    or _NO_ERA_NAMES.search(name)
    or not (match["year"] == "元" or _GOES_ON.match(folded, match.end()))
    or name in _names_of_calendar(timeline)
    or name in _index_eras()
  ):
    return None
  return UnknownEra(
    len(folded) - len(folded.lstrip(_ORNAMENT)),
    match.end(),
    text[start:stop],
    numerals.parse_numeral(match["year"], "year"),
    (),
    _find_nearest(name, timeline),
  )


@functools.lru_cache(maxsize=1024)
def _find_nearest(name: str, timeline: Timeline) -> tuple[str, ...]:
  """Returns names that are like one, the nearest first."""
  names = sorted(_names_of_calendar(timeline) | _index_eras().keys())
  return tuple(
    difflib.get_close_matches(name, names, _NUM_NEAREST, _NEAREST_CUTOFF)
  )
