"""Dates that a question names, and the months that they mean.

`find_mentions` finds the dates, `find_months` their months, leap months among
them; `windows` reads the words around a date. A name such as 「泰始」 can be of
several reigns: a mention holds all but those that the rest of the question
excludes.
"""

import dataclasses
import re
from collections.abc import Sequence

from ctd_jax.chronology import calendar_tables, dates, western_dates
from ctd_jax.chronology.dates import (
  FIRST_MONTH_OF_SEASON,
  DateCue,
  build_grammar,
  candidate_reigns,
  iterate_matches,
  read_common_year,
)
from ctd_jax.chronology.numerals import DateError, fold_script
from ctd_jax.chronology.query_calendar import Months, QueryCalendar, RegnalYear
from ctd_jax.chronology.reigns import (
  Timeline,
)
from ctd_jax.chronology.western_dates import EraYear
from ctd_jax.utils.notes import Note

# What says that the time of a reign is meant, behind its name.
REIGN_SUFFIX = re.compile(
  "年間|[末初]年|中葉|[初末晚]期|之世|在位(?:期間|時期?|之時)?|時期|時代|之時|期間|一朝|[時代末初](?!年)"
  # 「中郎」 and 「朝鮮」 continue.
  "|中(?![郎書山原國央常宮丞興平元和統宗軍護尉])|朝(?![鮮廷臣])"
)
MAX_NAME = 12  # characters of a reign's name with state and ruler
_FIRST_YEAR = "元年"


def find_named_reigns(
  folded: str, end: int, timeline: Timeline
) -> tuple[int, list[int]]:
  """Returns where the name of a reign begins, and the numbers of its reigns.

  The question is folded to Traditional script, and the name ends at `end`.
  Without a name, returns `end` and no number.
  """
  # What can be the reign of a first year is the name of a reign.
  head = max(end - MAX_NAME, 0)
  for match, cue in dates.iterate_matches(
    folded[head:end] + _FIRST_YEAR, timeline
  ):
    # One character is the duke of a gloss, 「僖八年」, and no name.
    if (
      cue.reign
      and cue.end == end - head + len(_FIRST_YEAR)
      and cue.start <= end - head - 2
    ):
      numbers = dates.candidate_reigns(match, cue, timeline)
      return head + cue.start, numbers
  return end, []


@dataclasses.dataclass(frozen=True)
class DateMention:
  """Stretch of a question that looks like a date."""

  start: int  # position of its first character
  end: int  # position after its last character
  # Numbers of the reigns it can mean; empty if it names none.
  reigns: tuple[int, ...] = ()
  year: int | None = None  # regnal year, if said
  month: int | None = None  # 1-12, if said
  season: str | None = None  # one of 春夏秋冬, if said
  leap: bool = False  # whether the month is intercalary
  # That it means, where no reign tells: of the common era; else None.
  months: Months | None = None
  day: str | None = None  # sexagenary pair such as 「癸未」, if said
  has_month: bool = False  # whether `months` are less than a year

  @property
  def is_full(self) -> bool:
    """Whether it names months without the help of another."""
    return bool(self.reigns) or self.months is not None

  @property
  def is_bare_year(self) -> bool:
    """Whether it names a whole year."""
    return self.month is None and self.season is None and not self.has_month


@dataclasses.dataclass(frozen=True)
class MentionSearch:
  """The dates of a question."""

  mentions: tuple[DateMention, ...]  # in order
  # Those of the common era that are printed without 年.
  years: tuple[EraYear, ...]


def find_mentions(text: str, calendar: QueryCalendar) -> MentionSearch:
  """Returns the dates that a question names.

  Raises:
    DateError: for a ruler without a reign of that name, a year of the common
      era that the calendar lacks, or a month of a sexagenary year alone.
  """
  folded = fold_script(text)
  years = western_dates.find_common_era_years(text)
  matches = [
    (match, cue)
    for match, cue in iterate_matches(folded, calendar.timeline)
    if not any(cue.start < year.end and year.start < cue.end for year in years)
  ]
  for _, cue in matches:
    if cue.year_cycle and not cue.year and (cue.month or cue.season):
      raise DateError(
        Note("problem.date.cycle_alone", cycle=cue.year_cycle),
        text,
        cue.start,
      )
  mentions = [
    _make_mention(match, cue, text, calendar) for match, cue in matches
  ]
  if any(mention.is_full for mention in mentions):
    # Beside a date "120-150" is as good as any number.
    years = [year for year in years if year.has_era]
  for year in years:
    try:
      months, name = calendar.find_common_year(year.year)
    except KeyError as error:
      raise DateError(error.args[0], text, year.start) from None
    mention = DateMention(year.start, year.end, months=months)
    mentions.append(_complete_mention(mention, name))
  mentions.sort(key=lambda mention: mention.start)
  mentions = _settle_reigns(mentions, folded, calendar.timeline)
  return MentionSearch(tuple(mentions), tuple(years))


def with_lone_reign(
  mentions: Sequence[DateMention], text: str, timeline: Timeline
) -> list[DateMention]:
  """Returns mentions with the first year in the reign named before it.

  For 「魯隱公在位時，自元年正月至三月」, where the name is apart from the year
  and no mention has both.
  """
  folded = fold_script(text)
  mentions = list(mentions)
  for index, mention in enumerate(mentions):
    if mention.year is None:
      continue
    preceding_reigns = [
      (folded.rfind(name, 0, mention.start), numbers)
      for name, numbers in build_grammar(timeline).reigns.items()
      if len(name) > 1 and name in folded[: mention.start]
    ]
    if preceding_reigns:
      mentions[index] = dataclasses.replace(
        mention, reigns=max(preceding_reigns)[1]
      )
    break
  return mentions


def _make_mention(
  match: re.Match[str], cue: DateCue, text: str, calendar: QueryCalendar
) -> DateMention:
  """Returns a match as a mention, with all reigns that it can mean."""
  if match["common_year"]:
    return _make_common_era_mention(match, cue, text, calendar)
  candidates = candidate_reigns(match, cue, calendar.timeline)
  dates.check_ruler(candidates, match, cue, text, calendar.timeline)
  return DateMention(
    cue.start,
    cue.end,
    tuple(candidates),
    cue.year,
    cue.month,
    cue.season,
    cue.leap,
    day=cue.day,
  )


def _make_common_era_mention(
  match: re.Match[str], cue: DateCue, text: str, calendar: QueryCalendar
) -> DateMention:
  """Returns the mention of a date such as 「公元479年正月」."""
  try:
    year = read_common_year(match)
    month = cue.month or FIRST_MONTH_OF_SEASON.get(cue.season)
    months, name = calendar.find_common_year(year, month)
    if cue.season and not cue.month:
      last, _ = calendar.find_common_year(year, month + 2)
      months = Months(months.first, last.last)
    if cue.leap and cue.month and name is not None:
      months = calendar.find_month(*name, cue.month, cue.leap)
  except (KeyError, ValueError) as error:
    raise DateError(error.args[0], text, cue.start) from None
  return _complete_mention(
    DateMention(
      cue.start,
      cue.end,
      month=cue.month,
      season=cue.season,
      leap=cue.leap,
      months=months,
      day=cue.day,
    ),
    name,
  )


def _complete_mention(
  mention: DateMention, name: RegnalYear | None
) -> DateMention:
  """Returns a mention of the common era with the regnal year that it opens."""
  if name is None:
    return mention
  return dataclasses.replace(mention, reigns=(name.reign,), year=name.year)


def _settle_reigns(
  mentions: Sequence[DateMention], folded: str, timeline: Timeline
) -> list[DateMention]:
  """Returns the mentions; the whole question tells reigns of one name apart."""
  # By its other date (「自晉泰始元年至泰始三年」), or by a ruler or dynasty
  # that is named elsewhere (「《資治通鑑·齊紀》在建元元年」). If there is none,
  # or several, the mention stays ambiguous.
  settled = {
    mention.reigns[0] for mention in mentions if len(mention.reigns) == 1
  }
  characters = list(folded)
  for mention in mentions:
    characters[mention.start : mention.end] = "〇" * (
      mention.end - mention.start
    )
  outside_dates = "".join(characters)

  def narrow_reigns(reigns: tuple[int, ...]) -> tuple[int, ...]:
    if len(reigns) < 2:
      return reigns
    named = [
      number
      for number in reigns
      if number in settled
      or re.search(
        calendar_tables.build_mention_pattern(
          calendar_tables.ruler_names(timeline.reigns[number - 1].state)
        ),
        outside_dates,
      )
    ]
    return tuple(named) or reigns

  return [
    dataclasses.replace(mention, reigns=narrow_reigns(mention.reigns))
    for mention in mentions
  ]


def find_months(
  mention: DateMention,
  error_mention: DateMention,
  text: str,
  calendar: QueryCalendar,
) -> Months:
  """Returns the first and last month of a date.

  `error_mention` is the date as printed, which errors point at. DateError if
  several reigns have the date or the calendar lacks it.
  """
  if mention.months is not None:
    return mention.months
  timeline = calendar.timeline
  if len(mention.reigns) != 1:
    names = ", ".join(map(timeline.full_reign_name, mention.reigns))
    raise DateError(
      Note("problem.date.reign", names=names), text, error_mention.start
    )
  (reign,) = mention.reigns
  name = timeline.full_reign_name(reign)
  try:
    calendar.find_year(reign, mention.year)
  except KeyError:
    raise DateError(
      Note(
        "problem.date.reign_years",
        calendar=timeline.name,
        name=name,
        number=timeline.reigns[reign - 1].years,
      ),
      text,
      error_mention.start,
    ) from None
  try:
    return _find_regnal_months(reign, mention, error_mention, text, calendar)
  except KeyError:
    raise DateError(
      Note(
        "problem.date.reign_year",
        calendar=timeline.name,
        year=mention.year,
        name=name,
      ),
      text,
      error_mention.start,
    ) from None


def _find_regnal_months(
  reign: int,
  mention: DateMention,
  error_mention: DateMention,
  text: str,
  calendar: QueryCalendar,
) -> Months:
  """Returns the months of a date of a reign."""
  year = calendar.find_year(reign, mention.year)
  if mention.season and not mention.month:
    first_month = FIRST_MONTH_OF_SEASON[mention.season]
    return calendar.find_season(reign, mention.year, first_month)
  if mention.month:
    return calendar.find_month(
      reign,
      mention.year,
      mention.month,
      mention.leap,
      dates.FIRST_BY_NUMBER.search(text, mention.start, mention.end)
      is not None,
    )
  if not mention.leap:
    return year
  # 「閏月」 without a number: clear if the year has one leap month.
  leap_months = calendar.find_leap_months(reign, mention.year)
  if leap_months is None:
    return year
  if len(leap_months) != 1:
    raise DateError(
      Note("problem.date.leap_many", number=len(leap_months))
      if leap_months
      else Note("problem.date.leap_none"),
      text,
      error_mention.start,
    )
  return calendar.find_month(reign, mention.year, leap_months[0], True)
