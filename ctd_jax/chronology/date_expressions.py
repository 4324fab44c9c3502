"""Dates in Chinese text: formatting, parsing, search in running text.

「魯隱公元年五月」 in a query, 「夏五月」 in the Annals and 「僖八年」 in a
commentary all give a time. `format_key` and `parse_key` are inverses over a
timeline; `find_date_cues` reports every date cue of a running text to the
scanner in `annals`; `query_dates` reads whole queries.
Traditional and Simplified script are read alike.

Positions count the characters of the text as given.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Sequence

from ctd_jax.chronology import reign_tables, sexagenary
from ctd_jax.chronology.date_grammar import (
  PUNCTUATION,
  SEASONS,
  DateCue,
  build_grammar,
  candidate_reigns,
  iterate_matches,
  read_common_year,
)
from ctd_jax.chronology.numerals import (
  UNIT_DIGITS,
  DateError,
  fold_script,
  format_numeral,
  to_simplified,
)
from ctd_jax.chronology.timelines import TimeKey, Timeline
from ctd_jax.utils.notes import Note

# Styles of `format_key`; the full ones name reign, year and month.
FULL_DATE_STYLES = ("full", "reign", "annals")
DATE_STYLES = (*FULL_DATE_STYLES, "elided", "month")
SCRIPTS = ("traditional", "simplified")

# A bare year number after one of these is another ruler's: 平王三年, 簡之元年.
_FOREIGN_RULER_ENDINGS = frozenset("公王侯伯子帝宗祖之其")
# Around a bare month number: a length of time, not a month of the year.
_BEFORE_LENGTH = re.compile(
  f"[凡居踰逾歷比期各待數已且第幾不位百千十{UNIT_DIGITS}]$"
)
# What may stand before a month in mid-clause of a punctuated text.
_BEFORE_MONTH = re.compile(
  "[自至于於以及唯惟其今年歲春夏秋冬王周書月日當在此]$"
  f"|{sexagenary.PAIR_PATTERN}$"
)
_CLAUSE_MARK = re.compile("[，。、；．]")
_AFTER_LENGTH = re.compile("而|之喪|之後|之久|之期|之服|之中|以上|矣")
# 「己未」 is also "not yet oneself", and prints write 已 for 己: such a pair
# counts only where a clause begins.
_AMBIGUOUS_DAY = re.compile("[已巳戌戍].|.[已己戍戊]|己未")
_LABEL = re.compile(r"(?:^|[\s/¶])[經傳传]$")


def season_of_month(month: int) -> str:
  """Returns the season of a month 1-12: 正月 to 三月 are 春."""
  return SEASONS[(month - 1) // 3]


def format_key(
  key: TimeKey,
  timeline: Timeline,
  style: str = "full",
  with_you: bool = False,
  script: str = "traditional",
) -> str:
  """Returns the month `key` as a date expression.

  Args:
    key: a month of `timeline`.
    timeline: calendar that names the reign.
    style: "full" 魯隱公元年正月, "reign" 隱公元年正月, "annals"
      魯隱公元年春王正月, "elided" 元年正月, "month" 正月.
    with_you: writes 有 in numbers above ten: 十有二月.
    script: "traditional" or "simplified".

  Raises:
    KeyError: if `timeline` has no such month.
    ValueError: if there is no such style or script.
  """
  if style not in DATE_STYLES or script not in SCRIPTS:
    raise ValueError(
      f"no style {style!r} in script {script!r}; styles: "
      f"{', '.join(DATE_STYLES)}; scripts: {', '.join(SCRIPTS)}"
    )
  timeline.ordinal(key)
  year = "元" if key.year == 1 else format_numeral(key.year, with_you)
  month = "正" if key.month == 1 else format_numeral(key.month, with_you)
  text = f"{'閏' * key.leap}{month}月"
  if style == "annals":
    king_mark = "王" * (key.month == 1 and not key.leap)
    text = season_of_month(key.month) + king_mark + text
  if style != "month":
    text = f"{year}年{text}"
  if style == "reign":
    text = timeline.reigns[key.reign - 1].name + text
  elif style in FULL_DATE_STYLES:
    text = timeline.full_reign_name(key.reign) + text
  return to_simplified(text) if script == "simplified" else text


def parse_key(text: str, timeline: Timeline) -> TimeKey:
  """Returns the month that `text`, a full date and nothing else, names.

  Inverse of `format_key` for the styles `FULL_DATE_STYLES` and both scripts.

  Raises:
    DateError: if `text` is no full date, goes on after it, names a reign that
      several of `timeline` share, a month that `timeline` lacks, or a
      sexagenary year that is another.
  """
  for match, cue in iterate_matches(fold_script(text), timeline):
    if cue.start or not (cue.reign or match["common_year"]):
      break  # the text does not begin with a full date
    if cue.end < len(text):
      raise DateError(Note("problem.date.text_after"), text, cue.end)
    if cue.day or not (cue.month or cue.leap):
      raise DateError(Note("problem.date.month_end"), text, cue.end)
    return _resolve_key(match, cue, text, timeline)
  example = format_key(timeline.key_at(0), timeline)
  raise DateError(Note("problem.date.full", example=example), text)


def _resolve_key(
  match: re.Match[str], cue: DateCue, text: str, timeline: Timeline
) -> TimeKey:
  """Returns the key of a cue that names year and month, and any reign."""
  if match["common_year"]:
    return _resolve_common_key(match, cue, text, timeline)
  candidates = candidate_reigns(match, cue, timeline)
  check_ruler(candidates, match, cue, text, timeline)
  if len(candidates) != 1:
    raise DateError(
      Note("problem.date.reign", names=_name_reigns(candidates, timeline)),
      text,
      cue.start,
    )
  (reign,) = candidates
  month = cue.month
  if month is None:  # 「閏月」 without a number
    leaps = [
      leap_month
      for leap_reign, year, leap_month in timeline.leap_months
      if (leap_reign, year) == (reign, cue.year)
    ]
    if len(leaps) != 1:
      raise DateError(
        Note("problem.date.leap_which", number=len(leaps)),
        text,
        cue.start,
      )
    month = leaps[0]
  key = TimeKey(reign, cue.year, month, cue.leap)
  if key not in timeline:
    row = timeline.reigns[reign - 1]
    raise DateError(
      Note(
        "problem.date.reign_years",
        calendar=timeline.name,
        name=timeline.full_reign_name(reign),
        number=row.years,
      ),
      text,
      cue.start,
    )
  cyclic_year = sexagenary.format_cyclic_year(
    reign_tables.astronomical_year_of(timeline, key)
  )
  if cue.year_cycle not in (None, cyclic_year[:2]):
    raise DateError(
      Note("problem.date.cycle", cycle=cue.year_cycle, year=cyclic_year),
      text,
      match.start("cycle"),
    )
  return key


def _resolve_common_key(
  match: re.Match[str], cue: DateCue, text: str, timeline: Timeline
) -> TimeKey:
  """Returns the key of a month of a year of the common era."""
  if cue.leap:
    raise DateError(Note("problem.date.of_year"), text, cue.start)
  try:
    return reign_tables.common_era_interval(
      timeline, read_common_year(match), cue.month
    ).start
  except (KeyError, ValueError) as error:
    raise DateError(str(error.args[0]), text, cue.start) from None


def _name_reigns(reigns: Iterable[int], timeline: Timeline) -> str:
  return ", ".join(map(timeline.full_reign_name, reigns))


def check_ruler(
  candidates: Sequence[int],
  match: re.Match[str],
  cue: DateCue,
  text: str,
  timeline: Timeline,
) -> None:
  """Checks that the ruler of a date had a reign of the name that it gives.

  Args:
    candidates: reigns that the date can mean.
    match: of the date.
    cue: its parts.
    text: that holds it.
    timeline: the reigns.

  Raises:
    DateError: if there is a name and no candidate.
  """
  if cue.reign and not candidates:
    reigns = build_grammar(timeline).reigns[match["reign"] or match["initial"]]
    raise DateError(
      Note(
        "problem.date.state",
        state=text[match.start("state") : match.end("state")],
        reign=cue.reign,
        calendar=timeline.name,
        names=_name_reigns(reigns, timeline),
      ),
      text,
      cue.start,
    )


def _is_date(
  match: re.Match[str], cue: DateCue, folded: str, is_punctuated: bool
) -> bool:
  """Whether a match in running text is a date.

  False for lengths of time (三月而葬), years of other rulers (平王三年),
  seasons that belong to a word, and pairs that are words (己未).
  """
  preceding = folded[max(0, cue.start - 2) : cue.start]
  opens_clause = (
    not preceding or preceding[-1].isspace() or preceding[-1] in PUNCTUATION
  )
  opens_clause = opens_clause or _LABEL.search(preceding) is not None
  # A reign or a sexagenary year is nothing but a date.
  if cue.reign or (cue.year_cycle and not cue.year):
    return True
  if cue.year:
    if preceding[-1:] in _FOREIGN_RULER_ENDINGS and not opens_clause:
      return False
    return (
      match["year"] == "元"
      or bool(cue.season or cue.month or cue.leap or cue.year_cycle)
      or (not preceding.strip() and not _AFTER_LENGTH.match(folded, cue.end))
      or _LABEL.search(preceding) is not None
    )
  # A bare 「三月」 may be a length of time.
  if cue.month or cue.leap:
    if cue.season or cue.leap or match["king"] or cue.day:
      return True
    if (
      is_punctuated and not opens_clause and not _BEFORE_MONTH.search(preceding)
    ):
      return False
    return (
      match["month"] != "一"
      and not _BEFORE_LENGTH.search(preceding)
      and not _AFTER_LENGTH.match(folded, cue.end)
    )
  if cue.season:
    return opens_clause
  return opens_clause or not _AMBIGUOUS_DAY.match(match["day"])


def find_full_dates(
  text: str, timeline: Timeline
) -> list[tuple[int, int, TimeKey]]:
  """Returns (start, end, key) of every full date of `timeline` in `text`.

  A full date names reign, year and month, or a month of the common era. Dates
  of months that the timeline lacks are left out.
  """
  dates = []
  for match, cue in iterate_matches(fold_script(text), timeline):
    if (cue.reign or match["common_year"]) and (cue.month or cue.leap):
      try:
        key = _resolve_key(match, cue, text, timeline)
      except DateError:
        continue
      dates.append((cue.start, cue.end, key))
  return dates


def find_date_cues(
  text: str,
  timeline: Timeline | None = None,
  *,
  with_common_years: bool = False,
) -> list[DateCue]:
  """Returns the date cues of running text, in order.

  Parts that follow one another, with or without punctuation, make one cue:
  「冬，十有二月，癸未」. Left out: lengths of time (「三月而葬」), years of
  other rulers (「晉文公三年」), bare years in mid-sentence, and seasons in
  mid-sentence without a month.

  Args:
    text: punctuated or not, Traditional or Simplified.
    timeline: whose reign names to look for; the dukes of Lu if None.
    with_common_years: also returns dates of the common era, 「公元1597年七月」.
  """
  folded_text = fold_script(text)
  is_punctuated = _CLAUSE_MARK.search(folded_text) is not None
  cues = []
  for match, cue in iterate_matches(
    folded_text, timeline or reign_tables.load_timeline("lu")
  ):
    if match["common_year"]:
      if not with_common_years:
        continue
      try:
        cue = dataclasses.replace(cue, common_year=read_common_year(match))
      except ValueError:  # there is no year 0
        continue
    elif not _is_date(match, cue, folded_text, is_punctuated):
      continue
    cues.append(cue)
  return cues
