"""Grammar of dates: the pattern that finds them in folded text.

The pattern depends on the timeline, whose reign names it holds, and is compiled
once for each. It matches all that looks like a date; `date_expressions` decides
which matches are dates.

Positions count the characters of the text as given.
"""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Iterable, Iterator

from ctd_jax.chronology import rulers, sexagenary
from ctd_jax.chronology.name_patterns import build_names_pattern
from ctd_jax.chronology.numerals import (
  NUMERAL_PATTERN,
  UNIT_DIGITS,
  fold_script,
  parse_numeral,
)
from ctd_jax.chronology.timelines import MONTHS_PER_YEAR, Timeline
from ctd_jax.utils.notes import Note

SEASONS = "春夏秋冬"
FIRST_MONTH_OF_SEASON = {"春": 1, "夏": 4, "秋": 7, "冬": 10}
# A reign name after one of these belongs to another state: 晉文公, 宋襄公.
_FOREIGN_STATES = "晉齊宋鄭衛陳蔡曹楚秦許莒邾杞燕滕薛吳越周虢虞紀魏蜀梁趙涼"
# Dynasties whose last character is the name of one in a table.
_FOREIGN_DYNASTIES = (
  "北魏",
  "後魏",
  "元魏",
  "拓跋魏",
  "北齊",
  "高齊",
  "後晉",
  "北宋",
)
# 「此後晉泰始元年」 is not of 後晉.
_AFTERWARDS = re.compile("[此其以之而]後$")
PUNCTUATION = (
  "，。、；：．.,;:！？!?「」『』《》〈〉（）()〔〕【】[]○〇・·…—\"'“”‘’/¶"
)
_GAP_PATTERN = r"[，、．.,\u3000 ○〇之的]{0,2}"
# Not the season where it begins or ends another word: 春秋, 夏徵舒, 秋官.
_SEASON_PATTERN = (
  "(?:春(?![秋官酒])|夏(?![徵征姬父氏后後陽南禦御虛商殷肸齧書之])"
  "|(?<![春千])秋(?![官毫])|冬(?!官))"
)
# The leap month of Qin and early Han is 後九月, but 「其後九月」 a length of
# time.
_LEAP_PATTERN = "(?:閏|(?<![其此之以而爾自年月日歲君])後(?=九月))"
# Months by name: 孟秋 is the seventh, 臘月 the twelfth.
MONTH_NAMES = {
  f"{part}{season}": month
  for month, (season, part) in enumerate(
    ((season, part) for season in SEASONS for part in "孟仲季"), start=1
  )
} | {"臘": MONTHS_PER_YEAR}
_MONTH_PATTERN = (
  rf"(?P<king>王)?(?:(?P<leap>{_LEAP_PATTERN})(?P<leap_month>正|{NUMERAL_PATTERN})?"
  rf"|(?P<month>正|{NUMERAL_PATTERN}))月|(?<=夏)(?P<bare_month>五)(?=[，。．,\s]|鄭伯|$)"
  # Without a year 「孟秋」 is a season of prose.
  rf"|(?P<month_name>[孟仲季][{SEASONS}]|臘)(?:月|(?(year)|(?(cycle)|(?!))))"
)
_MONTH_LOOKAHEAD = rf"(?=王?{_LEAP_PATTERN}?(?:正|{NUMERAL_PATTERN})?月)"
# A season counts after a year, at the start of a clause, or right before a
# month: not in 「靖東夏，四月」.
_CLAUSE_SEASON_PATTERN = (
  rf"(?<![^{re.escape(PUNCTUATION)}\s經傳]){_SEASON_PATTERN}"
)
_TAIL_PATTERN = (
  rf"(?:{_GAP_PATTERN}(?P<part_of_season>[孟仲季](?=[{SEASONS}](?:正|{NUMERAL_PATTERN})月))?"
  rf"(?P<season>(?(year){_SEASON_PATTERN}|(?(cycle){_SEASON_PATTERN}"
  rf"|(?(common_year){_SEASON_PATTERN}"
  rf"|(?:{_SEASON_PATTERN}{_MONTH_LOOKAHEAD}|{_CLAUSE_SEASON_PATTERN}))))))?"
  rf"(?:{_GAP_PATTERN}(?:{_MONTH_PATTERN}))?(?:{_GAP_PATTERN}(?P<day>{sexagenary.PAIR_PATTERN}))?"
)
# 公元479年, 公元前722年, 西元二六五年. Without a word a year has three digits:
# 265年, 前722年.
_COMMON_YEAR_PATTERN = (
  r"(?P<common_era>[公西][元曆歷历])?[ \u3000]?(?P<before_era>(?(common_era)前"
  r"|(?<![之以此])前(?=[0-9０-９]{3,4}年)))?[ \u3000]?"
  r"(?P<common_year>(?(common_era)(?:[0-9０-９]{1,4}"
  rf"|[〇零○{UNIT_DIGITS}]{{2,4}}|[{UNIT_DIGITS}]百[零〇]?[{UNIT_DIGITS}十]{{0,3}}"
  rf"|{NUMERAL_PATTERN})|(?<![0-9０-９])[0-9０-９]{{3,4}}))年"
)
# A season or a month that goes on with a year.
_GOES_ON_PATTERN = (
  rf"(?:{_SEASON_PATTERN}|[孟仲季][{SEASONS}]|臘月"
  rf"|王?{_LEAP_PATTERN}?(?:正|{NUMERAL_PATTERN})?月)"
)
# After a year of a reign its pair needs no 年 before a month or in brackets,
# 「萬曆二十五年丁酉七月」, 「二十五年（丁酉）」. Elsewhere it may be the day of
# a gloss, 「宣四年，戊申三月十七日」.
_CYCLE_PATTERN = (
  rf"(?:(?(year){_GAP_PATTERN})(?P<cycle>{sexagenary.YEAR_PATTERN}"
  rf"|(?(reign)(?(year)(?:[（(〔](?:{sexagenary.YEAR_PATTERN}|{sexagenary.PAIR_PATTERN})[）)〕]"
  rf"|{sexagenary.PAIR_PATTERN}(?={_GAP_PATTERN}{_GOES_ON_PATTERN}))"
  rf"|{sexagenary.PAIR_PATTERN})|(?!))))?"
)
# An era with the pair of its year, 「萬曆丁酉七月」; after a ruler the pair is
# a day, 「莊公丁酉」.
_ERA_WITH_CYCLE_PATTERN = (
  rf"(?(reign)(?<![公王帝宗祖后侯主])(?={sexagenary.PAIR_PATTERN}"
  rf"(?:[年歲]|{_GOES_ON_PATTERN}))|(?!))"
)
# 「哪一年」 asks for a year and names none.
_YEAR_PATTERN = rf"(?<!哪)(?P<year>元|{NUMERAL_PATTERN})年"
_START_CHARACTERS = (
  f"元正王閏後臘孟仲季太歲公西前{SEASONS}{sexagenary.STEMS}已巳戌戍{UNIT_DIGITS}"
  "兩十廿卄卅卌0-9０-９"
)


@dataclasses.dataclass(frozen=True)
class DateCue:
  """Time expression: the parts of a date that one stretch of text names.

  Attributes:
    start: position of its first character.
    end: position after its last character.
    reign: name as in the timeline, e.g. 「隱公」; None if not said.
    year: regnal year, from 1.
    month: 1-12; None in 「閏月」 without a number.
    season: one of 春夏秋冬.
    day: sexagenary pair such as 「癸未」, its glyphs put right.
    leap: whether the month is intercalary.
    year_cycle: sexagenary pair that names the year, as in 「歲在己未」; never
      a day.
    common_year: astronomical year that 「公元1597年」 names.
  """

  start: int
  end: int
  reign: str | None = None
  year: int | None = None
  month: int | None = None
  season: str | None = None
  day: str | None = None
  leap: bool = False
  year_cycle: str | None = None
  common_year: int | None = None


@dataclasses.dataclass(frozen=True)
class DateGrammar:
  """Pattern of the dates of one timeline.

  Attributes:
    pattern: for folded text.
    reigns: folded spelling of a reign name -> numbers of the reigns it names.
    ruler_patterns: of what may stand before the name of each reign.
  """

  pattern: re.Pattern[str]
  reigns: dict[str, tuple[int, ...]]
  ruler_patterns: tuple[re.Pattern[str], ...]


@functools.cache
def build_grammar(timeline: Timeline) -> DateGrammar:
  """Returns the grammar of a timeline's dates, built once for each.

  Besides the names of the table it knows the state or ruler in front of them in
  every wording (魯隱公, 晉惠帝永平, 孝惠皇帝永平, see `rulers`), dukes by one
  character (僖八年), and years of the common era.
  """
  spellings: dict[str, tuple[int, ...]] = {}
  initials = set()
  names_of_rulers = [rulers.ruler_names(row.state) for row in timeline.reigns]
  for number, row in enumerate(timeline.reigns, start=1):
    names = {fold_script(name) for name in (row.name, *row.aliases)}
    if len(row.name) == 2 and row.name.endswith("公"):
      initials.add(fold_script(row.name)[0])  # 僖二十八年
      names.add(fold_script(row.name)[0])
    for name in names:
      spellings[name] = (*spellings.get(name, ()), number)
  reign_pattern = build_names_pattern(spellings.keys() - initials)
  initial_pattern = (
    f"|(?P<initial>[{_escape_all(initials)}])" if initials else ""
  )
  head_pattern = (
    rf"(?<![{_FOREIGN_STATES}])"
    rf"(?P<state>{rulers.build_ruler_pattern(names_of_rulers)})"
    rf"(?:(?P<reign>{reign_pattern})"
    rf"{_GAP_PATTERN}(?:[在即]位)?[之的第]{{0,2}}{initial_pattern})"
  )
  starts = {
    name[0]
    for ruler in names_of_rulers
    for name in (*ruler.dynasties, *ruler.names, *spellings)
  }
  # The look-ahead only saves time: no date begins with another character.
  return DateGrammar(
    re.compile(
      rf"(?=[{_START_CHARACTERS}{_escape_all(starts)}])"
      rf"(?:(?:{head_pattern})?(?:{_YEAR_PATTERN}"
      rf"|{_ERA_WITH_CYCLE_PATTERN})|{_COMMON_YEAR_PATTERN})?"
      rf"{_CYCLE_PATTERN}{_TAIL_PATTERN}"
    ),
    spellings,
    tuple(
      re.compile(rulers.build_ruler_pattern([names]))
      for names in names_of_rulers
    ),
  )


def _escape_all(characters: Iterable[str]) -> str:
  """Returns characters, escaped and in order, for a class of a pattern."""
  return "".join(map(re.escape, sorted(characters)))


def iterate_matches(
  folded: str, timeline: Timeline
) -> Iterator[tuple[re.Match[str], DateCue]]:
  """Yields matches that look like dates in folded text, with their cues.

  `date_expressions` sorts out those that are none.
  """
  grammar = build_grammar(timeline)
  for match in grammar.pattern.finditer(folded):
    groups = match.groupdict()
    starts = [match.start(name) for name in groups if match[name]]
    month = _read_month(match)
    # An empty match, or a number that is no month.
    if not starts or (month and month > MONTHS_PER_YEAR):
      continue
    if match["state"] and _is_foreign_dynasty(folded, match):
      continue
    year = parse_numeral(match["year"], "year") if match["year"] else None
    name = match["reign"] or groups.get("initial")
    if name:
      if year is None:
        year = _find_regnal_year(match, grammar, timeline)
        if year is None:
          continue
      name = timeline.reigns[grammar.reigns[name][0] - 1].name
    day, cycle = match["day"], match["cycle"]
    yield (
      match,
      DateCue(
        min(starts),
        match.end(),
        name,
        year,
        month,
        match["season"],
        sexagenary.format_cyclic_index(sexagenary.parse_cyclic_index(day))
        if day
        else None,
        match["leap"] is not None,
        cycle and sexagenary.format_cyclic_index(_read_cycle(cycle)),
      ),
    )


def _read_month(match: re.Match[str]) -> int | None:
  """Returns the number of the month of a match, None if it has none."""
  if match["month_name"]:
    return MONTH_NAMES[match["month_name"]]
  number = match["month"] or match["leap_month"] or match["bare_month"]
  return parse_numeral(number, "month") if number else None


def _read_cycle(name: str) -> int:
  """Returns the sexagenary index of a year's name, 「歲在丁酉」 or 「丁酉」."""
  return sexagenary.parse_cyclic_index(
    re.search(sexagenary.PAIR_PATTERN, name)[0]
  )


def _find_regnal_year(
  match: re.Match[str], grammar: DateGrammar, timeline: Timeline
) -> int | None:
  """Returns the year of a reign that a pair names, 「萬曆丁酉」.

  None if no reign of that name has it, or several have it in different years.
  """
  cycle = _read_cycle(match["cycle"])
  regnal_years = set()
  for number in grammar.reigns[match["reign"]]:
    reign = timeline.reigns[number - 1]
    if not grammar.ruler_patterns[number - 1].fullmatch(match["state"]):
      continue
    years_before = (
      cycle - sexagenary.cyclic_index_of_year(reign.accession)
    ) % sexagenary.CYCLE_LENGTH
    if years_before < reign.years:
      regnal_years.add(years_before + 1)
  return regnal_years.pop() if len(regnal_years) == 1 else None


def _is_foreign_dynasty(folded: str, match: re.Match[str]) -> bool:
  """Returns whether 「魏太和」 is the end of 「北魏太和」."""
  name_end = match.start("state") + 1
  return folded[:name_end].endswith(_FOREIGN_DYNASTIES) and not (
    _AFTERWARDS.search(folded, 0, name_end - 1)
  )


def candidate_reigns(
  match: re.Match[str], cue: DateCue, timeline: Timeline
) -> list[int]:
  """Returns the numbers of the reigns that a match can mean.

  Reigns of other rulers than the one named are left out, and reigns too short
  for the year, unless all are.
  """
  if cue.reign is None:
    return []
  grammar = build_grammar(timeline)
  candidates = [
    number
    for number in grammar.reigns[match["reign"] or match["initial"]]
    if grammar.ruler_patterns[number - 1].fullmatch(match["state"])
  ]
  long_enough = [
    number
    for number in candidates
    if cue.year <= timeline.reigns[number - 1].years
  ]
  return long_enough or candidates


def read_common_year(match: re.Match[str]) -> int | None:
  """Returns the astronomical year of a date of the common era, else None.

  Raises:
    ValueError: for a year 0, which the common era lacks.
  """
  digits = match["common_year"]
  if digits is None:
    return None
  positional = re.fullmatch(rf"[〇零○{UNIT_DIGITS}]{{2,4}}", digits)
  number = (
    int("".join(str(max(UNIT_DIGITS.find(d) + 1, 0)) for d in digits))
    if positional
    else int(digits)
    if digits.isdecimal()
    else parse_numeral(digits)
  )
  if not number:
    raise ValueError(Note("problem.date.year_zero"))
  return 1 - number if match["before_era"] else number
