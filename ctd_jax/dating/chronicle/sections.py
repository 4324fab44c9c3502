"""Sections of a chronicle: stretches of its records, each under one date."""

import collections
import dataclasses
import enum
import functools
import itertools
import re
from collections.abc import Hashable, Iterator, Sequence

import numpy as np
from jaxtyping import Int

from ctd_jax.chronology import numerals
from ctd_jax.chronology.calendar_tables import build_names_pattern
from ctd_jax.chronology.dates import TWENTY
from ctd_jax.chronology.reigns import Timeline

# An edition puts brackets around what it took from elsewhere.
BLANKS = " \t\u3000○〇◎●△▲（(〔"
PUNCTUATION = "，、：。；．.！？・" + BLANKS


def is_blank(text: str) -> bool:
  """Returns whether a text holds nothing but punctuation and blanks."""
  return not text.strip(PUNCTUATION)


def is_punctuated(text: str) -> bool:
  """Returns whether an editor has set the clauses of a text apart."""
  return any(mark in text for mark in "，。")


# Only dates are spelt alike here; `chronology.glyphs` folds what editions are
# compared by. 曆 was taboo when the 四庫全書 was written: 慶厯 is 慶曆. From
# 744 to 758 years were written 載; the grammar knows those of an era.

_SPELLINGS = (
  "熙熈煕凞 寧寜寕 泰㤗 寶寳珤 曆厯歴歷 光灮 初𥘉 卯夘戼 觀覌 豐豊 明眀"
)
_fold_spellings = numerals.make_replacer(
  {variant: group[0] for group in _SPELLINGS.split() for variant in group[1:]}
)
# 「十四載十一月」, 「三載，改元」, but not 千載.
_YEAR_SIGN = re.compile(
  rf"(?<=[元{numerals.UNIT_DIGITS}十])載"
  rf"(?=，?(?:[春夏秋冬正閏]|[{numerals.UNIT_DIGITS}十]+月))"
  rf"|(?:(?<=\A[元{numerals.UNIT_DIGITS}])|(?<=\A十[{numerals.UNIT_DIGITS}]))載(?=[，、])"
)


# 「貞觀二年」三月 at the head of an entry is its date, whatever the marks say.
_MARKED_YEAR = re.compile(
  r"\A(\s*)[「『〈《“‘](\w{1,8}年)[」』〉》”’]"
  rf"(?=[，、]?(?:[春夏秋冬正閏]|[{numerals.UNIT_DIGITS}十]+月))"
)


def fold_date_glyphs(text: str) -> str:
  """Returns a text of the same length with the glyphs of dates folded."""
  text = _MARKED_YEAR.sub("\\1\u3000\\2\u3000", text)
  return TWENTY.sub("廿", _YEAR_SIGN.sub("年", _fold_spellings(text)))


# Kinds of section, by what it prints at its head. DAY is a day of the
# sexagenary cycle; MONTH, SEASON and YEAR are the largest unit of its date;
# NAMED is a reign with its year; STREAM is the mark of a stream, 「傳」.
# TOLD_MONTH and TOLD_YEAR stand inside running text, where the record may only
# mention the date. Only texts of daily entries have BETWEEN_DAYS, NEXT_DAY and
# TOLD_IN_ENTRY (`daily_entries`).

NO_DATE, DAY, MONTH, SEASON, YEAR, NAMED, STREAM = range(7)
BETWEEN_DAYS, NEXT_DAY = range(7, 9)
TOLD_KINDS = TOLD_MONTH, TOLD_YEAR, TOLD_IN_ENTRY = range(9, 12)
NUM_KINDS = 12


# A name of `emissions.LOG_ERROR_ODDS` and its values.
DateStatement = tuple[Hashable, ...]
# Names of statements that are days, in the order of `sexagenary.DAY_MARKS`.
DAY_STATEMENTS = ("day", "first day", "last day")
# Number of a day in its month, 「十五日」; -1 is the last, 「晦」.
MONTH_DAY_STATEMENT = "month day"
# The same with its day of the cycle, 「初九日癸巳」.
NUMBERED_DAY_STATEMENT = "numbered day"
# Number of a month that somebody may but speak of, or a length of time.
DOUBTFUL_MONTH_STATEMENT = "doubtful month"
# Name and regnal year of an era that the calendar lacks.
UNKNOWN_ERA_STATEMENT = "unknown era"
# Astronomical year, 「（1900年）」.
COMMON_YEAR_STATEMENT = "common year"
# First and last day of a month or day of the common era, as Julian day numbers,
# and by how many days later they are if a numeric date is Julian.
COMMON_DAYS_STATEMENT = "common days"
# Year of the cycle, and whether brackets or small type set it apart.
CYCLE_STATEMENT = "cycle"
# Years since the last that is printed; a section has the year itself.
RELATIVE_YEAR_STATEMENT = "relative year"
# Ruler named in the heading over a bare year, and the year.
RULED_YEAR_STATEMENT = "ruled year"


class DatePart(enum.IntEnum):
  """Parts of a date, the largest first; a smaller one continues with it."""

  YEAR = 0
  CYCLE = 1
  SEASON = 2
  MONTH = 3
  MONTH_DAY = 4
  DAY = 5


@dataclasses.dataclass(frozen=True)
class PrintedDate:
  """A date as it is in the text."""

  start: int  # position of its first character
  end: int  # position after its last
  first_part: DatePart  # largest part printed
  last_part: DatePart  # smallest part printed
  kind: int  # of the section that it opens
  statements: tuple[DateStatement, ...]  # see `Section`
  is_tail: bool = False  # whether it only continues a date, 「朔」
  may_be_length: bool = False  # whether it could be a length of time, 「三月」
  has_season: bool = False  # whether it prints a season


def doubt_month(date: PrintedDate) -> PrintedDate:
  """Returns a date whose month may not be that of the record."""
  return dataclasses.replace(
    date,
    kind=DAY,
    statements=tuple(
      (DOUBTFUL_MONTH_STATEMENT, *values)
      if name == "month"
      else (name, *values)
      for name, *values in date.statements
    ),
  )


def list_positions(dates: Sequence[PrintedDate]) -> set[int]:
  """Returns the positions of the characters of dates."""
  return {
    position for date in dates for position in range(date.start, date.end)
  }


@dataclasses.dataclass(frozen=True)
class Section:
  """A stretch of a record under one date."""

  record: int  # number of the record, from 0
  start: int  # position of its first character in the record
  stop: int  # position after its last
  # Position after the date at its head and the mark of a stream before it;
  # `start` if it has none.
  date_end: int
  kind: int  # what its head prints of a date, `NO_DATE` to `TOLD_YEAR`
  # Each a name of `emissions.LOG_ERROR_ODDS` and values.
  statements: tuple[DateStatement, ...] = ()
  is_heading: bool = False  # whether it holds only a date or a heading
  may_be_told: bool = False  # whether the record may only mention its date
  # The year or season that it tells of as a whole, 「是歲」.
  extent: DatePart | None = None
  # Whether it is in a stretch outside the calendar's time.
  is_of_other_time: bool = False
  # Whether it is in the month of the section before it, without doubt.
  continues: bool = False


def find_statement(section: Section, *names: str) -> DateStatement | None:
  """Returns the first statement of a section by some names, or None."""
  return next(
    (statement for statement in section.statements if statement[0] in names),
    None,
  )


@dataclasses.dataclass
class SectionDraft:
  """A section that is being read; fields as in `PrintedDate` and `Section`."""

  start: int
  date_end: int
  last_part: int = -1
  kind: int = NO_DATE
  statements: list[DateStatement] = dataclasses.field(default_factory=list)

  def add_date(self, date: PrintedDate) -> None:
    """Adds a date, or a smaller part of the one at the head."""
    self.kind = max(self.kind, date.kind)
    if self.last_part == DatePart.YEAR and date.first_part == DatePart.DAY:
      # 「元年（甲寅）」 is the name of the year.
      self.statements.append(("cycle", date.statements[0][1]))
      self.last_part = DatePart.CYCLE
    else:
      if (self.last_part, date.first_part) == (
        DatePart.MONTH_DAY,
        DatePart.DAY,
      ):
        number, pair = self.statements[-1][1], date.statements[0][1]
        self.statements.append((NUMBERED_DAY_STATEMENT, (number, pair)))
      self.statements += date.statements
      self.last_part = date.last_part
    self.date_end = date.end


_NEW_ERA_VERBS = ("改元", "改年", "建元", "年號")


@dataclasses.dataclass(frozen=True)
class ReignNames:
  """Look-ups of the reigns of a timeline by name."""

  # Folded heading, with or without the state -> reign.
  by_heading: dict[str, str]
  by_name: dict[str, tuple[str, ...]]  # names and aliases -> reigns
  new_era: re.Pattern[str]  # pattern of a verb of a new era and a name


@functools.lru_cache(maxsize=8)
def index_reign_names(timeline: Timeline) -> ReignNames:
  """Returns the names of the reigns of a timeline, cached."""
  by_heading: dict[str, str] = {}
  by_name: dict[str, tuple[str, ...]] = {}
  # 「太祖」 is a ruler of several eras, and others count years by that name.
  rulers_of_eras = {
    reign.state[start:]
    for reign in timeline.reigns
    for start in range(1, len(reign.state) - 1)
    if not reign.state.endswith(reign.name)
  }
  rows_by_name = collections.Counter(reign.name for reign in timeline.reigns)
  names = [(reign, reign.name) for reign in timeline.reigns]
  # After all names: 元宗, a name of its own, is an alias of 毅宗.
  names += [(reign, name) for reign, _ in names for name in reign.aliases]
  for reign, name in names:
    if name not in rulers_of_eras:
      by_heading.setdefault(numerals.fold_script(name), reign.name)
    # A state tells reigns of one name apart.
    state = reign.state if rows_by_name[reign.name] > 1 else ""
    by_heading.setdefault(
      numerals.fold_script(reign.state + name), state + reign.name
    )
    by_name[name] = tuple(dict.fromkeys((*by_name.get(name, ()), reign.name)))
  verbs = build_names_pattern(_NEW_ERA_VERBS)
  return ReignNames(
    by_heading,
    by_name,
    re.compile(f"{verbs}({build_names_pattern(by_name)})"),
  )


def find_new_eras(
  text: str, timeline: Timeline
) -> Iterator[tuple[int, DateStatement]]:
  """Yields the position and statement of each new era, 「改元太康」."""
  names = index_reign_names(timeline)
  for match in names.new_era.finditer(text):
    for reign in names.by_name[match[1]]:
      yield match.start(), ("era", reign)


# A heading has no date of its own: 「三年」 above 「春，…」 dates what it
# heads. Read as a section it would claim a month of its year, and what follows
# it would have to continue from there.

# What a statement fixes; a day or another statement leaves the kind as it is.
_KIND_OF_STATEMENT = {
  "day": DAY,
  "first day": DAY,
  "last day": DAY,
  "month day": DAY,
  NUMBERED_DAY_STATEMENT: DAY,
  "month": MONTH,
  "doubtful month": MONTH,
  "months": MONTH,
  COMMON_DAYS_STATEMENT: MONTH,
  "leap": MONTH,
  "season": SEASON,
  "year": YEAR,
  "common year": YEAR,
  "cycle": YEAR,
}


def join_headings(
  sections: Sequence[Section],
) -> tuple[list[Section], Int[np.ndarray, " n"]]:
  """Returns units, sections joined with their headings, and the unit of each.

  A heading joins what follows it, unless that opens with a unit as large or
  contradicts it: 「三年」 before 「四年」 is a year without a record. A section
  that continues the one before it joins its unit.
  """
  units: list[Section] = []
  unit_from_end = np.empty(len(sections), int)
  for index in range(len(sections) - 1, -1, -1):
    section = sections[index]
    if units and _heads(section, units[-1]):
      units[-1] = dataclasses.replace(
        units[-1],
        kind=section.kind,
        statements=_merge_statements(section.statements, units[-1].statements),
        continues=section.continues,
      )
    else:
      units.append(section)
    unit_from_end[index] = len(units) - 1
  return units[::-1], len(units) - 1 - unit_from_end


def _heads(section: Section, unit: Section) -> bool:
  """Returns whether a section is the heading of the unit after it."""
  if unit.continues:
    return True
  if not section.is_heading:
    return False
  # A heading that names a reign alone heads its years.
  if section.kind == NAMED and section.statements[0][-1] == 0:
    smallest = NAMED
  else:
    smallest = min(
      (
        _KIND_OF_STATEMENT.get(name, section.kind)
        for name, *_ in section.statements
      ),
      default=section.kind,
    )
  # The mark of a stream is above or below a year; 「冬，十月」 before it is
  # the last entry of the other stream.
  is_within = (
    (STREAM in (section.kind, unit.kind) and smallest >= YEAR)
    or unit.kind < smallest
    or unit.kind == section.kind == YEAR
  )
  return is_within and not _contradict(section.statements, unit.statements)


def _contradict(
  outer: Sequence[DateStatement], inner: Sequence[DateStatement]
) -> bool:
  """Returns whether two dates name different years, months or reigns."""
  # A reign without a year (0), or a year without a reign (None), leaves the
  # other open.
  return any(
    value != other and not (name == "year" and {value, other} & {None, 0})
    for name, *values in outer
    for other_name, *others in inner
    if name == other_name
    for value, other in itertools.zip_longest(values, others)
  )


def _merge_statements(
  outer: Sequence[DateStatement], inner: Sequence[DateStatement]
) -> tuple[DateStatement, ...]:
  """Returns the statements of both, a reign and a year together."""
  merged = dict.fromkeys((*outer, *inner))
  years = [statement for statement in merged if statement[0] == "year"]
  if not years:
    return tuple(merged)
  reign = next((reign for _, reign, _ in years if reign is not None), None)
  year = next((year for _, _, year in years if year), 0)
  others = (statement for statement in merged if statement[0] != "year")
  return (("year", reign, year), *others)
