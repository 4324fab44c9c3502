"""Grammar of dates: the pattern that finds them in folded text.

The pattern depends on the timeline, whose reign names it holds, and is compiled
once for each. It matches all that looks like a date; `find_date_cues` decides
which matches are dates.

Positions count the characters of the text as given.
"""

import dataclasses
import functools
import re
from collections.abc import Iterable, Iterator, Sequence

from ctd_jax.chronology import calendar_tables, reigns, sexagenary
from ctd_jax.chronology.calendar_tables import RulerNames, build_names_pattern
from ctd_jax.chronology.numerals import (
  MONTH_NUMERAL_PATTERN,
  NUMERAL_CHARACTERS,
  NUMERAL_PATTERN,
  REGNAL_NUMERAL_PATTERN,
  UNIT_DIGITS,
  DateError,
  fold_script,
  format_numeral,
  parse_numeral,
  parse_year_number,
  to_simplified,
)
from ctd_jax.chronology.reigns import MONTHS_PER_YEAR, TimeKey, Timeline
from ctd_jax.chronology.western_dates import COMMON_ERA_PATTERN
from ctd_jax.utils import deadlines
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
  "(?:春(?![秋官酒])|夏(?![徵征姬父氏后後陽南禦御虛商殷肸齧書之曆歷])"
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
# Months by their branch, 建寅月 the first.
MONTH_NAMES |= {
  f"建{branch}": month
  for month, branch in enumerate("寅卯辰巳午未申酉戌亥子丑", start=1)
}
# Days by name; -1 is the last one, whatever the month's length. 朔 is not here:
# it stands after a pair too.
DAYS_BY_NAME = {"既望": 16, "望": 15, "晦": -1}
# Days that belong to one month, printed or not: name -> month, day.
_FESTIVALS = {
  **dict.fromkeys(("元日", "元旦"), (1, 1)),
  "上元": (1, 15),
  **dict.fromkeys(("端午", "端陽"), (5, 5)),
  "七夕": (7, 7),
  "中秋": (8, 15),
  **dict.fromkeys(("重陽", "重九"), (9, 9)),
  "臘八": (12, 8),
  **dict.fromkeys(("歲除", "除夕"), (12, -1)),
}
MONTHS_BY_DAY = {name: month for name, (month, _) in _FESTIVALS.items()}
DAYS_BY_NAME |= {name: day for name, (_, day) in _FESTIVALS.items()}
# 「念四日」 is the 24th.
TWENTY = re.compile(f"念(?=[{UNIT_DIGITS}]日)")
# Not 正月, which was two months before it in 690-700.
FIRST_BY_NUMBER = re.compile(f"(?<![{UNIT_DIGITS}十有廿卄卅卌])[一1１]月")
_MONTH_PATTERN = (
  rf"(?P<king>王)?(?:(?P<leap>{_LEAP_PATTERN})(?P<leap_month>正|{MONTH_NUMERAL_PATTERN})?"
  rf"|(?P<month>正|(?(year)一二|(?!))|{MONTH_NUMERAL_PATTERN}))月|(?<=夏)(?P<bare_month>五)(?=[，。．,\s]|鄭伯|$)"
  # Without a year 「孟秋」 is a season of prose.
  rf"|(?P<month_name>[孟仲季][{SEASONS}]|臘|建[{sexagenary.BRANCHES}](?=月))(?:月|(?(year)|(?(cycle)|(?!))))"
)
_MONTH_LOOKAHEAD = rf"(?=王?{_LEAP_PATTERN}?(?:正|{MONTH_NUMERAL_PATTERN})?月)"
# A season counts after a year, at the start of a clause, or right before a
# month: not in 「靖東夏，四月」.
_CLAUSE_SEASON_PATTERN = (
  rf"(?<![^{re.escape(PUNCTUATION)}\s經傳]){_SEASON_PATTERN}"
)
# After 1911 the months of 民國 are Gregorian unless they are called lunar.
_CIVIL_ERA, LUNAR_ERA = "民國", "農曆"
_LUNAR_PATTERN = "[農舊陰夏][曆歷]"
_TAIL_PATTERN = (
  rf"(?:{_GAP_PATTERN}(?P<part_of_season>[孟仲季](?=[{SEASONS}](?:正|{MONTH_NUMERAL_PATTERN})月))?"
  rf"(?P<season>(?(year){_SEASON_PATTERN}|(?(cycle){_SEASON_PATTERN}"
  rf"|(?(common_year){_SEASON_PATTERN}"
  rf"|(?:{_SEASON_PATTERN}{_MONTH_LOOKAHEAD}|{_CLAUSE_SEASON_PATTERN}))))))?"
  rf"(?:{_GAP_PATTERN}(?P<lunar>{_LUNAR_PATTERN})?(?:{_MONTH_PATTERN}))?(?:{_GAP_PATTERN}(?P<day>{sexagenary.PAIR_PATTERN}))?"
)
# 公元479年, 公元前722年, 西元二六五年. Without a word a year has three digits
# or, in characters, four: 265年, 前722年, 一五八七年.
_COMMON_YEAR_PATTERN = (
  rf"(?P<common_era>{COMMON_ERA_PATTERN})?[ \u3000]?"
  r"(?P<before_era>(?(common_era)前"
  r"|(?<![之以此])前(?=[0-9０-９]{3,4}年)))?[ \u3000]?"
  r"(?P<common_year>(?(common_era)(?:[0-9０-９]{1,4}"
  rf"|[〇零○{UNIT_DIGITS}]{{2,4}}|[{UNIT_DIGITS}]百[零〇]?[{UNIT_DIGITS}十]{{0,3}}"
  rf"|{NUMERAL_PATTERN})|(?:(?<![0-9０-９])[0-9０-９]{{3,4}}"
  rf"|(?<![{UNIT_DIGITS}〇零○十百千])[一二][〇零○{UNIT_DIGITS}]{{3}})))年"
)
# A season or a month that continues with a year.
_GOES_ON_PATTERN = (
  rf"(?:{_SEASON_PATTERN}|[孟仲季][{SEASONS}]|臘月"
  rf"|王?{_LEAP_PATTERN}?(?:正|{MONTH_NUMERAL_PATTERN})?月)"
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
# An era with the pair of its year, 「萬曆丁酉」; after a ruler the pair is a
# day, 「莊公丁酉」.
_RULER_ENDINGS = "公王帝宗祖后侯主"
_ERA_WITH_CYCLE_PATTERN = (
  rf"(?(reign)(?<![{_RULER_ENDINGS}，、．.,○〇之的第位])"
  rf"(?<![{_RULER_ENDINGS}][\u3000 ])"
  rf"(?={sexagenary.PAIR_PATTERN}(?!日?[朔晦日]))|(?!))"
)
# A pair after the name of a new era, or of a place of that name, is a day.
_NO_YEAR_OF_ERA = re.compile("(?:改元|改年|建元|年號|[為曰號居在入還據屯都])$")
# 「哪一年」 asks for a year and names none.
_YEAR_PATTERN = (
  rf"(?<!哪)(?P<year>元|(?(reign){REGNAL_NUMERAL_PATTERN}|{NUMERAL_PATTERN}))"
  # From 744 to 758 years were written 載: 天寶十四載.
  r"(?:年|(?(reign)載(?!初)|(?!)))"
)
_IN_NUMBER = f"0-9０-９{NUMERAL_CHARACTERS}"
# The first characters of a date without a name.
_START_PATTERN = (
  rf"[閏歲{SEASONS}]|(?<=夏)五|{sexagenary.PAIR_PATTERN}|元年|正月|太歲|後九"
  rf"|[{_IN_NUMBER}][{_IN_NUMBER}〇零○有又百佰年月]|王[正閏後{_IN_NUMBER}]"
  rf"|[孟仲季][{SEASONS}]|臘月|建[{sexagenary.BRANCHES}]|[農舊陰][曆歷]"
  rf"|{COMMON_ERA_PATTERN}|前[0-9０-９]"
)


_NUMBER_PATTERN = f"[0-9元正{UNIT_DIGITS}十百廿卅]"
# Between the parts of one date, 「十五 年 二 月」.
_BLANK_IN_DATE = re.compile(
  rf"(?<={_NUMBER_PATTERN})\s+(?=[年月日])|(?<=閏)\s+(?={_NUMBER_PATTERN})"
  rf"|(?<=[年月])\s+(?=閏?\s?{_NUMBER_PATTERN}+\s?[月日])"
)


def join_parts(text: str) -> str:
  """Returns text without the blanks inside of a date."""
  return _BLANK_IN_DATE.sub("", text)


@dataclasses.dataclass(frozen=True)
class DateCue:
  """Time expression: the parts of a date that one stretch of text names."""

  start: int  # position of its first character
  end: int  # position after its last character
  # Name as in the timeline, e.g. 「隱公」; None if not said.
  reign: str | None = None
  year: int | None = None  # regnal year, from 1
  month: int | None = None  # 1-12; None in 「閏月」 without a number
  season: str | None = None  # one of 春夏秋冬
  # Sexagenary pair such as 「癸未」, its glyphs put right.
  day: str | None = None
  leap: bool = False  # whether the month is intercalary
  # Sexagenary pair that names the year, as in 「歲在己未」; never a day.
  year_cycle: str | None = None
  common_year: int | None = None  # astronomical year that 「公元1597年」 names
  lunar: bool = False  # whether the month is called one of the lunar calendar


@dataclasses.dataclass(frozen=True)
class DateGrammar:
  """Pattern of the dates of one timeline."""

  pattern: re.Pattern[str]  # for folded text
  # Folded spelling of a reign name -> numbers of the reigns it names.
  reigns: dict[str, tuple[int, ...]]
  rulers: tuple[RulerNames, ...]  # of each reign

  def match_ruler(self, number: int, state: str) -> bool:
    """Whether folded text can stand before the name of a reign, from 1."""
    if not state:
      return True
    return _compile_ruler(self.rulers[number - 1]).fullmatch(state) is not None


@functools.cache
def _compile_ruler(names: RulerNames) -> re.Pattern[str]:
  return re.compile(calendar_tables.build_ruler_pattern([names]))


@functools.cache
def build_grammar(timeline: Timeline) -> DateGrammar:
  """Returns the grammar of a timeline's dates, built once for each.

  Besides the names of the table it knows the state or ruler in front of them in
  every wording (魯隱公, 晉惠帝永平, 孝惠皇帝永平, see `ruler_names`), dukes by
  one character (僖八年), and years of the common era.
  """
  spellings: dict[str, tuple[int, ...]] = {}
  initials = set()
  names_of_rulers = [
    calendar_tables.ruler_names(row.state) for row in timeline.reigns
  ]
  for number, row in enumerate(timeline.reigns, start=1):
    names = {fold_script(name) for name in (row.name, *row.aliases)}
    if len(row.name) == 2 and row.name.endswith("公"):
      initials.add(fold_script(row.name)[0])  # 僖二十八年, no mark of a pattern
      names.add(fold_script(row.name)[0])
    for name in names:
      spellings[name] = (*spellings.get(name, ()), number)
  reign_pattern = build_names_pattern(spellings.keys() - initials)
  initial_pattern = (
    f"|(?P<initial>[{''.join(sorted(initials))}])" if initials else ""
  )
  head_pattern = (
    rf"(?<![{_FOREIGN_STATES}])"
    rf"(?P<state>{calendar_tables.build_ruler_pattern(names_of_rulers)})"
    rf"(?:(?P<reign>{reign_pattern})"
    rf"{_GAP_PATTERN}(?:[在即]位)?[之的第]{{0,2}}{initial_pattern})"
  )
  names = {*spellings}
  for ruler in names_of_rulers:
    names.update(ruler.dynasties, ruler.names)
  # The look-ahead only saves time: nothing else begins a date.
  starts = "|".join(
    filter(
      None,
      (
        _join_characters(name[0] for name in names if len(name) == 1),
        _join_characters(name[0] for name in names if len(name) > 1)
        + _join_characters(name[1] for name in names if len(name) > 1),
        _START_PATTERN,
      ),
    )
  )
  return DateGrammar(
    re.compile(
      rf"(?={starts})"
      rf"(?:(?:{head_pattern})?(?:{_YEAR_PATTERN}"
      rf"|{_ERA_WITH_CYCLE_PATTERN})|{_COMMON_YEAR_PATTERN})?"
      rf"{_CYCLE_PATTERN}{_TAIL_PATTERN}"
    ),
    spellings,
    tuple(names_of_rulers),
  )


def _join_characters(characters: Iterable[str]) -> str:
  """Returns a pattern of any of the characters; "" without any."""
  joined = "".join(map(re.escape, sorted({*characters})))
  return f"[{joined}]" if joined else ""


def iterate_matches(
  folded: str, timeline: Timeline
) -> Iterator[tuple[re.Match[str], DateCue]]:
  """Yields matches that look like dates in folded text, with their cues.

  `find_date_cues` drops those that are not dates.
  """
  grammar = build_grammar(timeline)
  for match in grammar.pattern.finditer(folded):
    deadlines.check()
    if match["cycle"] and match["reign"] and not match["year"]:
      regnal_year = _find_regnal_year(match, grammar, timeline)
      if regnal_year is None:
        # A day after a name, 「改元延和己亥」.
        match = grammar.pattern.match(folded, match.start("cycle"))
    groups = match.groupdict()
    starts = [match.start(name) for name in groups if match[name]]
    month = _read_month(match)
    # An empty match, or a number that is not a month.
    if not starts or (month and month > MONTHS_PER_YEAR):
      continue
    # 「魏太和」 is the end of 「北魏太和」.
    name_end = match.start("state") + 1
    if (
      match["state"]
      and folded[:name_end].endswith(_FOREIGN_DYNASTIES)
      and not _AFTERWARDS.search(folded, 0, name_end - 1)
    ):
      continue
    year = parse_numeral(match["year"], "year") if match["year"] else None
    name = match["reign"] or groups.get("initial")
    rows = grammar.reigns[name] if name else ()
    if name:
      if year is None:
        year = regnal_year
      name = timeline.reigns[rows[0] - 1].name
    day, cycle = match["day"], match["cycle"]
    if (
      day
      and not (month or cycle or match["season"] or match["leap"])
      and any(
        (_read_cycle(day) - _find_cycle(timeline, row, year) + 1)
        % sexagenary.CYCLE_LENGTH
        <= 2
        for row in rows
      )
    ):
      # 「天保八年丁酉」 is the year and no day of it, and so is the pair of a
      # year next to it, by mistake.
      day, cycle = None, day
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
        lunar=match["lunar"] is not None,
      ),
    )


def _name_lunar(match: re.Match[str], grammar: DateGrammar) -> str | None:
  """Returns the era by which 「民國二十六年農曆八月」 counts, else None."""
  is_lunar = match["lunar"] and match["reign"] == fold_script(_CIVIL_ERA)
  name = fold_script(LUNAR_ERA)
  return name if is_lunar and name in grammar.reigns else None


def _read_month(match: re.Match[str]) -> int | None:
  """Returns the number of the month of a match, or None."""
  if match["month_name"]:
    return MONTH_NAMES[match["month_name"]]
  number = match["month"] or match["leap_month"] or match["bare_month"]
  return parse_numeral(number, "month") if number else None


def _read_cycle(name: str) -> int:
  """Returns the sexagenary index of a year's name, 「歲在丁酉」 or 「丁酉」."""
  return sexagenary.parse_cyclic_index(
    re.search(sexagenary.PAIR_PATTERN, name)[0]
  )


def _find_cycle(timeline: Timeline, reign: int, regnal_year: int) -> int:
  """Returns the sexagenary index of a year of a reign, counted from 1."""
  accession = timeline.reigns[reign - 1].accession
  return int(sexagenary.cyclic_index_of_year(accession + regnal_year - 1))


def _find_regnal_year(
  match: re.Match[str], grammar: DateGrammar, timeline: Timeline
) -> int | None:
  """Returns the year of a reign that a pair names, 「萬曆丁酉」."""
  # None if no reign of that name has it, or several have it in different
  # years, or it is a day.
  if (
    match.end("cycle") == match.end()
    and match["cycle"][-1] not in "年歲"
    and _NO_YEAR_OF_ERA.search(
      match.string, max(match.start("state") - 2, 0), match.start("state")
    )
  ):
    return None
  cycle = _read_cycle(match["cycle"])
  regnal_years = set()
  for number in grammar.reigns[match["reign"]]:
    if not grammar.match_ruler(number, match["state"]):
      continue
    years_before = (
      cycle - _find_cycle(timeline, number, 1)
    ) % sexagenary.CYCLE_LENGTH
    if years_before < timeline.reigns[number - 1].years:
      regnal_years.add(years_before + 1)
  return regnal_years.pop() if len(regnal_years) == 1 else None


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
    for number in grammar.reigns[
      _name_lunar(match, grammar) or match["reign"] or match["initial"]
    ]
    if grammar.match_ruler(number, match["state"])
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
  number = parse_year_number(digits)
  if not number:
    raise ValueError(Note("problem.date.year_zero"))
  return 1 - number if match["before_era"] else number


# Dates in Chinese text: formatting, parsing, search in running text.
#
# 「魯隱公元年五月」 in a query, 「夏五月」 in the Annals and 「僖八年」 in a
# commentary all give
# a time. `format_key` and `parse_key` are inverses over a timeline;
# `find_date_cues` reports every date cue of a running text to the scanner in
# `annals`; `questions` reads whole queries. Traditional and Simplified
# script are read alike.
#
# Positions count the characters of the text as given.


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
# What may come before a month in mid-clause of a punctuated text.
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
# A number of years after what is given or remitted is a length of time too:
# 「賜復十年丁丑」. Before a month it may be the year of an entry,
# 「振貸六年春正月」, unless it is 「復六年」, or 一年, which is no year's name.
_LENGTH_OF_YEARS = re.compile(
  "(?:[復复租賦稅課役給免蠲減除限糧餘踰逾凡筭算勘]|(?<!小)滿)$"
)
_YEARS_GRANTED = re.compile("(?<!天)[復复]$")
_GAP = re.compile(_GAP_PATTERN)


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
  """Returns the month of `text`, which must be a full date and nothing else.

  Inverse of `format_key` for the styles `FULL_DATE_STYLES` and both scripts.
  DateError if `text` is not a full date, continues after it, names a reign that
  several of `timeline` share, a month that `timeline` lacks, or a different
  sexagenary year.
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
      Note(
        "problem.date.reign",
        names=", ".join(map(timeline.full_reign_name, candidates)),
      ),
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
    reigns.astronomical_year_of(timeline, key)
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
    return reigns.common_era_interval(
      timeline, read_common_year(match), cue.month
    ).start
  except (KeyError, ValueError) as error:
    raise DateError(error.args[0], text, cue.start) from None


def check_ruler(
  candidates: Sequence[int],
  match: re.Match[str],
  cue: DateCue,
  text: str,
  timeline: Timeline,
) -> None:
  """Raises DateError if a date names a ruler but there is no candidate.

  `candidates` are the reigns that the date, `match` of `text` with the parts
  `cue`, can mean.
  """
  if cue.reign and not candidates:
    reigns = build_grammar(timeline).reigns[match["reign"] or match["initial"]]
    raise DateError(
      Note(
        "problem.date.state",
        state=text[match.start("state") : match.end("state")],
        reign=cue.reign,
        calendar=timeline.name,
        names=", ".join(map(timeline.full_reign_name, reigns)),
      ),
      text,
      cue.start,
    )


def _is_date(
  match: re.Match[str], cue: DateCue, folded: str, is_punctuated: bool
) -> bool:
  """Whether a match in running text is a date."""
  # False for lengths of time (三月而葬), years of other rulers (平王三年),
  # seasons that belong to a word, and pairs that are words (己未).
  preceding = folded[max(0, cue.start - 2) : cue.start]
  opens_clause = (
    not preceding
    or preceding[-1].isspace()
    or preceding[-1] in PUNCTUATION
    or _LABEL.search(preceding) is not None
  )
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
  mid-sentence without a month. Reign names are those of `timeline`, the dukes
  of Lu if None; `with_common_years` adds dates such as 「公元1597年七月」.
  """
  return list(
    iterate_date_cues(text, timeline, with_common_years=with_common_years)
  )


def iterate_date_cues(
  text: str,
  timeline: Timeline | None = None,
  *,
  with_common_years: bool = False,
) -> Iterator[DateCue]:
  """Yields what `find_date_cues` returns."""
  folded_text = fold_script(text)
  is_punctuated = _CLAUSE_MARK.search(folded_text) is not None
  for match, cue in iterate_matches(
    folded_text, timeline or reigns.load_timeline("lu")
  ):
    cue = _drop_length_of_years(match, cue, folded_text)
    if match["common_year"]:
      if not with_common_years:
        continue
      try:
        cue = dataclasses.replace(cue, common_year=read_common_year(match))
      except ValueError:  # there is no year 0
        continue
    elif not _is_date(match, cue, folded_text, is_punctuated):
      continue
    yield cue


def _drop_length_of_years(
  match: re.Match[str], cue: DateCue, folded: str
) -> DateCue:
  """Returns a cue without a number of years that is a length of time."""
  before = folded[max(0, cue.start - 2) : cue.start]
  if (
    cue.reign
    or cue.year is None
    or cue.year_cycle
    or match["year"] == "元"
    or not _LENGTH_OF_YEARS.search(before)
  ):
    return cue
  if cue.season or cue.month:
    is_length = cue.year == 1 or _YEARS_GRANTED.search(before)
  else:
    is_length = cue.day is not None
  if not is_length:
    return cue
  start = _GAP.match(folded, match.end("year") + 1).end()
  return dataclasses.replace(cue, start=start, year=None)


# Reigns as a text prints them: by a name that others share, and a state.
#
# 「貞觀」 was an era of 唐 and of 日本, 「太宗」 a ruler of 朝鮮 and of
# others. What is
# printed before the name, 「日本貞觀」, tells them apart.


def name_printed_reigns(
  cues: Iterable[DateCue], text: str, timeline: Timeline
) -> list[DateCue]:
  """Returns the date cues of a text, named as `find_named_reigns` reads them.

  The state or ruler that is printed before a reign stays where it tells reigns
  of one name apart. A name that is an alias of several reigns stays as printed.
  """
  folded = fold_script(text)
  return [
    dataclasses.replace(cue, reign=_name_reign(cue, folded, timeline))
    if cue.reign
    else cue
    for cue in cues
  ]


def _name_reign(cue: DateCue, folded: str, timeline: Timeline) -> str:
  """Returns the name of the reign of a cue, after its state if that matters."""
  match = build_grammar(timeline).pattern.match(folded, cue.start)
  groups = match.groupdict() if match else {}
  printed_name = (
    (match and _name_lunar(match, build_grammar(timeline)))
    or groups.get("reign")
    or groups.get("initial")
  )
  if not printed_name:
    return cue.reign
  state = groups["state"] or ""
  all_rows = _find_rows(printed_name, "", timeline)
  rows = _find_rows(printed_name, state, timeline) or all_rows
  names = {timeline.reigns[row].name for row in rows}
  name = names.pop() if len(names) == 1 else printed_name
  # 「貞觀」 of 日本 is written 貞観 in its table.
  if len(rows) == len(all_rows) and len(
    find_named_reigns(name, timeline)
  ) == len(rows):
    return name
  return state + printed_name


@functools.lru_cache(maxsize=4096)
def find_named_reigns(name: str, timeline: Timeline) -> tuple[int, ...]:
  """Returns the rows of the reigns that a name means; empty if unknown.

  The name is a reign's, or an alias, alone or after any name of the state and
  the ruler. Either script is read.
  """
  folded = fold_script(name)
  for start in range(len(folded)):
    rows = _find_rows(folded[start:], folded[:start], timeline)
    if rows:
      return rows
  return ()


def _find_rows(name: str, state: str, timeline: Timeline) -> tuple[int, ...]:
  """Returns the rows of reigns of a folded name before which a state stands."""
  grammar = build_grammar(timeline)
  return tuple(
    number - 1
    for number in grammar.reigns.get(name, ())
    if grammar.match_ruler(number, state)
  )
