"""Sections of a chronicle: what its records print of their dates.

The dates are read from the text alone: opening dates, days of the sexagenary
cycle, names of eras. A record goes on over months (「夏，四月，…五月，…」), so
it is read as sections, each under the date that opens a sentence.
"""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Hashable

from ctd_jax.chronology import annals, date_expressions, sexagenary
from ctd_jax.chronology.name_patterns import build_names_pattern
from ctd_jax.chronology.timelines import Timeline
from ctd_jax.dating.sequence import transitions
from ctd_jax.dating.sequence.month_calendar import Calendar

# Names of statements that are days, in the order of `sexagenary.DAY_MARKS`.
DAY_STATEMENTS = ("day", "first day", "last day")
# A record that opens so tells what came before; its dates are not its own.
_FLASHBACK_OPENINGS = ("初，", "初、", "先是，", "始，", "昔，")
_NEW_ERA_VERBS = ("改元", "改年", "建元", "年號")
_PUNCTUATION = "，、：。；． \u3000"
_SEASON_DELIMITERS = "，、。；："
_HEADING_BRACKETS = "【】《》〈〉〔〕[]#＃"

# A name of `emissions.LOG_ERROR_ODDS` and its values.
DateStatement = tuple[Hashable, ...]


@dataclasses.dataclass(frozen=True)
class Section:
  """A stretch of a record under one date.

  Attributes:
    record: number of the record, from 0.
    kind: largest unit of the date that opens it, a class of `transitions`.
    statements: of its date, each a name of `emissions.LOG_ERROR_ODDS` and
      values.
  """

  record: int
  kind: int
  statements: tuple[DateStatement, ...] = ()


def read_sections(record: int, text: str, calendar: Calendar) -> list[Section]:
  """Returns the sections of a record, at least one.

  Args:
    record: its number.
    text: one record, punctuated or not.
    calendar: whose reign names to look for.
  """
  heading = _find_heading(text, calendar.timeline)
  if heading is not None:
    return [Section(record, transitions.YEAR, (("year", heading, 0),))]
  if text.startswith(_FLASHBACK_OPENINGS):
    return [Section(record, transitions.NO_DATE)]
  opens_sentence = annals.make_sentence_start_test(text)
  sections: list[tuple[int, list[DateStatement]]] = [(transitions.NO_DATE, [])]
  date_end = 0  # of the date expression that is being read
  for cue in date_expressions.find_date_cues(text, calendar.timeline):
    continues_date = not text[date_end : cue.start].strip(_PUNCTUATION)
    season = cue.season
    if season and not (cue.month or cue.leap or cue.day):
      # A season is set off or goes before a month; else it is a name.
      is_delimited = text[cue.end : cue.end + 1] in ("", *_SEASON_DELIMITERS)
      season = season if is_delimited or not _is_punctuated(text) else None
    kind = _classify_cue(cue, season)
    if kind != transitions.NO_DATE and (
      continues_date or opens_sentence(cue.start)
    ):
      statements = _read_date_statements(cue, season, text)
      if continues_date:
        last_kind, last_statements = sections[-1]
        sections[-1] = (max(last_kind, kind), last_statements + statements)
      else:
        sections.append((kind, statements))
      date_end = cue.end
    elif cue.day and kind == transitions.NO_DATE:
      # A day inside a sentence belongs to the section that it is in.
      sections[-1][1].append(_read_day_statement(cue, text))
      date_end = cue.end if continues_date else date_end
  sections[0][1].extend(_find_new_eras(text, calendar.timeline))
  return [
    Section(record, kind, tuple(statements)) for kind, statements in sections
  ]


def _is_punctuated(text: str) -> bool:
  return any(mark in text for mark in "，。")


def _classify_cue(cue: date_expressions.DateCue, season: str | None) -> int:
  """Returns the class of a section that the cue opens."""
  if cue.year is not None or cue.year_cycle:
    return transitions.YEAR
  if season:
    return transitions.SEASON
  return transitions.MONTH if cue.month or cue.leap else transitions.NO_DATE


def _read_date_statements(
  cue: date_expressions.DateCue, season: str | None, text: str
) -> list[DateStatement]:
  """Returns the statements of a date expression."""
  statements: list[DateStatement] = []
  if cue.year is not None:
    statements.append(("year", cue.reign, cue.year))
  if cue.year_cycle:
    statements.append(("cycle", sexagenary.parse_cyclic_index(cue.year_cycle)))
  if cue.leap:
    statements.append(("leap", cue.month))
  elif cue.month:
    statements.append(("month", cue.month))
  elif season:
    statements.append(("season", date_expressions.SEASONS.index(season)))
  if cue.day:
    statements.append(_read_day_statement(cue, text))
  return statements


def _read_day_statement(
  cue: date_expressions.DateCue, text: str
) -> DateStatement:
  """Returns the statement of a day, 「壬辰朔」 or 「辛未，朔」."""
  mark = sexagenary.find_day_mark(text, cue.end)
  return DAY_STATEMENTS[mark], sexagenary.parse_cyclic_index(cue.day)


@dataclasses.dataclass(frozen=True)
class _ReignNames:
  """Names of the reigns of a timeline, for look-ups.

  Attributes:
    by_heading: what a heading may be, with and without the state -> reign.
    by_name: names and aliases -> reigns.
    new_era: a verb of a new era and a name.
  """

  by_heading: dict[str, str]
  by_name: dict[str, tuple[str, ...]]
  new_era: re.Pattern[str]


@functools.lru_cache(maxsize=8)
def _index_reign_names(timeline: Timeline) -> _ReignNames:
  by_heading: dict[str, str] = {}
  by_name: dict[str, tuple[str, ...]] = {}
  for reign in timeline.reigns:
    for name in (reign.name, *reign.aliases):
      by_heading.setdefault(name, reign.name)
      by_heading.setdefault(reign.state + name, reign.name)
      reigns = by_name.get(name, ())
      by_name[name] = tuple(dict.fromkeys((*reigns, reign.name)))
  verbs = build_names_pattern(_NEW_ERA_VERBS)
  return _ReignNames(
    by_heading,
    by_name,
    re.compile(f"{verbs}({build_names_pattern(by_name)})"),
  )


def _find_heading(text: str, timeline: Timeline) -> str | None:
  """Returns the reign that is all a line names: 「莊公」, 【僖公】."""
  heading = text.strip(_PUNCTUATION + _HEADING_BRACKETS)
  return _index_reign_names(timeline).by_heading.get(heading)


def _find_new_eras(text: str, timeline: Timeline) -> list[DateStatement]:
  """Returns the eras that a record says begin, as in 「改元太康」."""
  names = _index_reign_names(timeline)
  return list(
    dict.fromkeys(
      ("era", reign)
      for name in names.new_era.findall(text)
      for reign in names.by_name[name]
    )
  )
