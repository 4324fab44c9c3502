"""Vague dates of questions: what is said of the time where no year is named.

「隱公時，衛桓公葬在何時？」 names a reign and no year, 「夏，…在哪一年？」 a
season of any year. `query_dates` reads neither, since they are no interval; a
vague date is the set of the months that they admit.

Axes: K months. Positions count the characters of the text as given.
"""

from __future__ import annotations

import dataclasses
import re

import numpy as np
from jaxtyping import Bool

from ctd_jax.chronology import date_expressions, query_mentions, query_reigns
from ctd_jax.chronology.date_grammar import FIRST_MONTH_OF_SEASON, DateCue
from ctd_jax.chronology.numerals import DateError, fold_script
from ctd_jax.chronology.query_calendar import TimelineMonths
from ctd_jax.chronology.timelines import Timeline

_MONTHS_PER_SEASON = 3
# The year that is asked for: of 「哪一年的五月」 the month is known.
_ASKED_YEAR = re.compile("(?:哪一?|[何幾])年[的之]?")
_SEASON_WORDS = ("天", "季")
_PAIR_LENGTH = 2  # characters of a sexagenary day


@dataclasses.dataclass(frozen=True, eq=False)
class VagueDate:
  """What a question says of the time.

  Attributes:
    months: that it admits; None where it says nothing of them.
    rest: the question with blanks where it says so.
  """

  months: Bool[np.ndarray, " K"] | None
  rest: str


def read_vague_date(text: str, timeline: Timeline) -> VagueDate:
  """Returns the months that a question admits: reign, year, season, month.

  What contradicts what was read before, as a second date does, is no date.

  Args:
    text: a question in which `query_dates` reads no interval.
    timeline: the calendar.
  """
  folded = fold_script(text)
  # A clause ends there, so that what follows opens one, as dates do.
  folded = _ASKED_YEAR.sub(lambda match: "。" * len(match[0]), folded)
  reign_of, year_of, month_of, is_leap = _list_keys(timeline)
  admitted, spans = np.ones(len(timeline), bool), []
  for suffix in query_reigns.REIGN_SUFFIX.finditer(folded):
    start, reigns = query_reigns.find_named_reigns(
      folded, suffix.start(), timeline
    )
    if reigns:
      admitted = np.isin(reign_of, reigns)
      spans.append((start, suffix.end()))
      break
  for cue in date_expressions.find_date_cues(folded, timeline):
    if any(cue.start < end and start < cue.end for start, end in spans):
      continue
    months = admitted.copy()
    if cue.reign:
      months &= np.isin(reign_of, _find_reigns(cue, text, timeline))
    if cue.year:
      months &= year_of == cue.year
    if cue.month:
      months &= month_of == cue.month
    elif cue.season:
      first = FIRST_MONTH_OF_SEASON[cue.season]
      months &= (first <= month_of) & (month_of < first + _MONTHS_PER_SEASON)
    if cue.leap and is_leap.any():
      months &= is_leap
    if months.any() and not np.array_equal(months, admitted):
      admitted = months
      # The day may be printed, so it stays a word.
      end = cue.end - (_PAIR_LENGTH if cue.day else 0)
      if cue.season and not (cue.month or cue.day):
        end += folded.startswith(_SEASON_WORDS, end)  # 夏天, 秋季
      spans.append((cue.start, end))
  if not spans:
    return VagueDate(None, text)
  characters = list(text)
  for start, end in spans:
    characters[start:end] = " " * (end - start)
  return VagueDate(admitted, "".join(characters))


def _list_keys(timeline: Timeline) -> tuple[np.ndarray, ...]:
  """Returns reign, year, number and leap mark of every month, [K] each."""
  keys = timeline.months
  return (
    np.array([key.reign for key in keys]),
    np.array([key.year for key in keys]),
    np.array([key.month for key in keys]),
    np.array([key.leap for key in keys]),
  )


def _find_reigns(cue: DateCue, text: str, timeline: Timeline) -> list[int]:
  """Returns the numbers of the reigns that a cue may mean."""
  try:
    search = query_mentions.find_mentions(text, TimelineMonths(timeline))
  except DateError:
    return []
  return [
    number
    for mention in search.mentions
    if mention.start == cue.start
    for number in mention.reigns
  ]
