"""Numerals, durations and script of Chinese dates, and the error of readers.

Regnal years and months come as 「元」, 「十有二」 or 「23」, windows as
「半年」 or 「三個月」, in either script and with variant glyphs; all readers of
dates have to agree on them.
"""

import dataclasses
import re
from collections.abc import Callable, Mapping

from ctd_jax.utils.notes import Note

# Spellings of one Chinese character that differ by edition, not by meaning.
#
# The editions print 隱, 隠 and 𨼆 for one character. Readers of dates,
# comparison of editions and the tokenizer share these groups.


# Each group is written as its first member. Pairs that classical usage keeps
# apart (於/于, 弒/殺, 榖/穀, 脩/修) are left alone. Groups and their order are
# part of every saved tokenizer: a change here makes another vocabulary.
_SPELLING_GROUPS_TEXT = (
  "隱隠𨼆 莊荘 傳𫝊 會㑹 為爲 衛衞 說説 內内 真眞 教敎 既旣 即卽 鄉鄕 青靑"
  " 清淸 群羣 尚尙 產産 黃黄 參叅 略畧 歲歳 戶戸 悅悦 脫脱 閱閲 稅税 溫温"
  " 吳呉 高髙 德徳 巡廵 奇竒 絕絶 顏顔 卷巻 錄録 綠緑 宮宫 晉晋 葬塟 從従"
  " 弒弑 總緫 屬属 國囯 諡謚 蓋葢盖 冊册 歷歴 鄰隣 鬭鬬鬪 禮礼 萬万 峯峰 災灾"
  " 恆恒 慎愼 鎮鎭 顛顚 決决 況况 減减 涼凉 兔兎 冀兾 劍剱 呂吕 回囘 寧寕"
  " 寇冦 寬寛 將将 往徃 彝彛 徵徴 恥耻 惡悪 拔㧞 敘叙敍 於扵 昏昬 曾曽 暨曁"
  " 款欵 步歩 歿殁 毀毁 汙污汚 潛潜 淫滛 狀状 獎奬 畝畆 留畱 疏疎䟽 祿禄 穎頴"
  " 罰罸 美羙 羈覊 聽聴 荊荆 虛虚 處䖏 褒襃 讓譲 豐豊 賴頼 贊賛 輒輙 陰隂"
  " 靜静 面靣 飲飮 黑黒 邊邉 曹曺 閏閠 器噐 壽夀 微㣲 本夲 橫横 盜盗 蘇蘓"
  " 衆眾 解觧 讎讐 雞鷄 霸覇 館舘 鷁鶂 牀床 最冣 餘余"
)
SPELLING_GROUPS: tuple[str, ...] = tuple(_SPELLING_GROUPS_TEXT.split())
# Spellings that only some editions print. The tokenizer tells them apart (see
# above); matching of dates or editions does not.
RARE_SPELLING_GROUPS: tuple[str, ...] = (
  "襄㐮",
  "蒙䝉",
  "歲嵗",
  "惠恵",
  "鄉鄊郷",
  "圖圗",
  "乘乗",
  "遠逺",
  "吳吴",
  "宜冝",
  "盍盇",
  "穀榖",
  "併倂",
)
# Spelling -> the one that stands for it, one character for one.
CANONICAL_SPELLING: dict[str, str] = {
  variant: group[0]
  for group in (*SPELLING_GROUPS, *RARE_SPELLING_GROUPS)
  for variant in group[1:]
}


def make_replacer(table: Mapping[str, str]) -> Callable[[str], str]:
  """Returns a function that replaces the characters of a text by `table`.

  As `str.translate` does, which asks a dict for every character; where few are
  replaced, this takes a third of the time or less.
  """
  pattern = re.compile(f"[{re.escape(''.join(table))}]")

  def replace(text: str) -> str:
    return pattern.sub(lambda match: table[match.group()], text)

  return replace


UNIT_DIGITS = "一二三四五六七八九"
# As contracts and some prints write the digits, so that none can be altered.
_FORMAL_DIGITS = {
  1: "壹壱",
  2: "貳貮贰弐",
  3: "參叁叄参",
  4: "肆",
  5: "伍",
  6: "陸陆",
  7: "柒",
  8: "捌",
  9: "玖",
}
_DIGIT_VALUES = {
  digit: value for value, digit in enumerate(UNIT_DIGITS, start=1)
} | {
  digit: value for value, digits in _FORMAL_DIGITS.items() for digit in digits
}
_DIGITS = "".join(_DIGIT_VALUES)
_DIGIT_VALUES |= {"兩": 2, "两": 2}
_UNIT = f"[{_DIGITS}兩两]"
# 「參月日」 is to compare month and day.
_LONE_UNIT = f"(?![參参]){_UNIT}"
_ZERO = "[〇零○]"
_TEN = "[十拾]"
_TWENTIES = {"廿": 20, "卄": 20, "卅": 30, "丗": 30, "卌": 40}
_HAN_NUMERAL = re.compile(
  rf"(?:(?P<hundreds>{_UNIT})[百佰])?[零〇有又]?"
  rf"(?:(?P<tens>{_UNIT}?)(?P<ten>{_TEN})|(?P<twenties>[{''.join(_TWENTIES)}]))?"
  rf"[有又]?(?P<units>{_UNIT})?"
)
# Written digit by digit, 一二 for 12.
_PLACES = re.compile(rf"[{_DIGITS}](?:{_ZERO}|[{_DIGITS}]){{1,2}}")
_ARABIC_NUMERAL = re.compile(r"[0-9０-９]{1,4}")
# The characters that a Chinese numeral up to 99 can have.
NUMERAL_CHARACTERS = f"{_DIGITS}兩两十拾{''.join(_TWENTIES)}"
# Not within a longer numeral: 「一百三年」 is no third year. The look-ahead
# only saves time.
_NOT_WITHIN = (
  rf"(?=[0-9０-９{NUMERAL_CHARACTERS}])(?<![0-9０-９{_DIGITS}十拾{''.join(_TWENTIES)}百佰])"
  rf"(?<![{_DIGITS}]{_ZERO})"
)
# 「二三年」 is two or three years, 「三五日」 a few days.
_NOT_ROUGH = "(?!一二|二三|三[四五]|四五|五六|六七|七八|八九)"
# Numbers up to 99 inside a larger pattern: no groups, longest form first.
NUMERAL_PATTERN = (
  rf"(?:{_NOT_WITHIN}(?:[1-9１-９][0-9０-９]?"
  rf"|[{_DIGITS}]?{_TEN}(?:[有又]?[{_DIGITS}])?"
  rf"|[{''.join(_TWENTIES)}](?:[有又]?[{_DIGITS}])?"
  rf"|{_NOT_ROUGH}[{_DIGITS}](?:{_ZERO}|[{_DIGITS}])|{_LONE_UNIT}))"
)
# Years after the name of a reign, where none is rough: 萬曆一二年, and three
# digits: 民國一一三年.
REGNAL_NUMERAL_PATTERN = (
  rf"(?:{NUMERAL_PATTERN}|{_NOT_WITHIN}"
  rf"(?:[{_DIGITS}](?:{_ZERO}|[{_DIGITS}]){{1,2}}|[1-9１-９][0-9０-９]{{2}}"
  rf"|[{_DIGITS}]百[零〇有又]?(?:[{_DIGITS}]?{_TEN})?(?:[有又]?[{_DIGITS}])?))"
)
# Behind another number, where the month has its day: 「年三十六七月丙戌」,
# 「樹桑二六月癸巳」; of 一二 and 二三 the first digit must end a number.
_MONTH_BEHIND_NUMBER = (
  rf"(?:(?<=[{_DIGITS}])(?:(?<={_TEN}[{_DIGITS}])"
  rf"|(?<![{NUMERAL_CHARACTERS}百佰千][{_DIGITS}])"
  r"(?<!一(?=[一二]))(?<!二(?=三))(?<!三(?=[四五]))(?<!四(?=五))"
  r"(?<!五(?=六))(?<!六(?=七))(?<!七(?=八))(?<!八(?=九)))"
  rf"(?:{_TEN}[一二]?|{_LONE_UNIT})"
  r"(?=月[甲乙丙丁戊己已庚辛壬癸][子丑寅卯夘辰巳己已午未申酉戌戍亥]))"
)
# Numbers 1-12.
MONTH_NUMERAL_PATTERN = (
  rf"(?:{_NOT_WITHIN}(?:[1１][0-2０-２]|[0０]?[1-9１-９]"
  rf"|[一壹]?{_TEN}(?:[有又]?[一二壹壱貳貮贰弐])?|[一壹](?:{_ZERO}|[一壹])|{_LONE_UNIT})"
  rf"|{_MONTH_BEHIND_NUMBER})"
)
_MONTHS_PER_UNIT = {"月": 1, "季": 3, "年": 12, "歲": 12, "載": 12}
# A length of time in folded text; `parse_duration` reads its groups.
DURATION_PATTERN = (
  rf"(?:(?P<half>半)個?[年載歲]|(?P<count>{NUMERAL_PATTERN})(?:個|整)*[週周]?"
  rf"(?P<unit>[月年季歲載])度?(?P<and_half>半)?"
  rf"(?:[零又]?(?P<more>{NUMERAL_PATTERN})個月)?)"
)
# Characters of dates, reign names and windows, one for one, so that positions
# survive the folding of a text to one script.
_TRADITIONAL = (
  "隱莊閔魯閏滄懷鄉齊晉貴廢寧興龍鬱個兩後間從時這當歲來開續與過該終範圍"
  "連緊約順滿轉鄰為點隨著計數幾於載處屬長義劉東陽蒼營簡厲顯肅陳紀國書漢臘"
)
_SIMPLIFIED = (
  "隐庄闵鲁闰沧怀乡齐晋贵废宁兴龙郁个两后间从时这当岁来开续与过该终范围"
  "连紧约顺满转邻为点随着计数几于载处属长义刘东阳苍营简厉显肃陈纪国书汉腊"
)
# Other words of the same meaning: 釐公 is 僖公; 裏 and 里 stand for 裡.
# Careless conversion of Simplified texts gives 鹹寧 for 咸寧.
_SYNONYMS = {"釐": "僖", "裏": "裡", "里": "裡", "鹹": "咸"}
_fold_script = make_replacer(
  CANONICAL_SPELLING
  | dict(zip(_SIMPLIFIED, _TRADITIONAL, strict=True))
  | _SYNONYMS
)
_simplify = make_replacer(dict(zip(_TRADITIONAL, _SIMPLIFIED, strict=True)))
EXCERPT_LENGTH = 12  # characters on each side of an error's position


class DateError(ValueError):
  """Unreadable date or window; the message quotes the text around it.

  Attributes:
    problem: what is wrong, without the quotation.
    text: as given.
    position: of the fault in `text`.
  """

  def __init__(self, problem: Note | str, text: str, position: int = 0):
    self.problem = problem
    self.text = text
    self.position = position
    before = text[max(0, position - EXCERPT_LENGTH) : position]
    after = text[position : position + EXCERPT_LENGTH]
    super().__init__(
      Note(
        "problem.date.at",
        problem=problem,
        position=position,
        length=len(text),
        before=before,
        after=after,
      )
    )


@dataclasses.dataclass(frozen=True)
class Duration:
  """A length of time."""

  months: int  # the length in months
  # The length in years where it was said as a number of years, else None;
  # 「半年」 and 「一年半」 are months only.
  years: int | None = None


def fold_script(text: str) -> str:
  """Returns `text` in one spelling and its date characters in one script.

  For matching only: 后 becomes 後 and 里 becomes 裡 wherever they are. The
  length stays the same.
  """
  return _fold_script(text)


def to_simplified(text: str) -> str:
  """Returns `text` with its date characters in Simplified script."""
  return _simplify(text)


def parse_numeral(text: str, unit: str | None = None) -> int:
  """Returns the value of a numeral, at least 1.

  It is Chinese up to 999 (with or without 有, 廿, 卅, 拾, 貳, or digit by
  digit, 一二), one to four digits, 「元」 or 「正」; the unit "year" refuses
  「正」, "month" refuses 「元」.
  Anything else is a DateError.
  """
  if (text == "元" and unit != "month") or (text == "正" and unit != "year"):
    return 1
  if _ARABIC_NUMERAL.fullmatch(text):
    number = int(text)
  elif match := _HAN_NUMERAL.fullmatch(text):
    number = _numeral_value(match)
  elif _PLACES.fullmatch(text):
    number = int("".join(str(_DIGIT_VALUES.get(digit, 0)) for digit in text))
  else:
    number = 0
  if number < 1:
    raise DateError("expected a numeral such as 元, 十有二 or 23", text)
  return number


def parse_year_number(text: str) -> int:
  """Returns the value of a year of the common era: 787, 七八七 or 二十."""
  if text.isdecimal():
    return int(text)
  if re.fullmatch(rf"[〇零○{UNIT_DIGITS}]{{2,4}}", text):
    return int("".join(str(UNIT_DIGITS.find(digit) + 1) for digit in text))
  return parse_numeral(text)


def _numeral_value(match: re.Match[str]) -> int:
  """Returns the value of a `_HAN_NUMERAL` match, 0 if it is not a numeral."""
  number = 100 * _DIGIT_VALUES.get(match["hundreds"] or "", 0)
  if match["twenties"]:
    number += _TWENTIES[match["twenties"]]
  elif match["ten"]:
    number += 10 * _DIGIT_VALUES.get(match["tens"], 1)
  elif not number and ("有" in match[0] or "又" in match[0]):
    return 0  # no numeral: 「有二」 adds two to nothing
  return number + _DIGIT_VALUES.get(match["units"] or "", 0)


def format_numeral(number: int, with_you: bool = False) -> str:
  """Returns the Chinese numeral of 1-99, e.g. 23 -> 二十三.

  `with_you` writes 有 between tens and units, as the Annals do: 二十有三.
  ValueError if `number` is outside 1-99.
  """
  if not 1 <= number <= 99:
    raise ValueError(f"only 1-99 can be written, got {number}")
  tens, units = divmod(number, 10)
  text = ("" if tens < 2 else UNIT_DIGITS[tens - 1]) + "十" * (tens > 0)
  if units:
    text += "有" * (with_you and tens > 0) + UNIT_DIGITS[units - 1]
  return text


def parse_duration(match: re.Match[str]) -> Duration:
  """Returns the length of time of a match of `DURATION_PATTERN`.

  「半年」 is 6 months, 「一年半」 18, 「兩年三個月」 27, 「一季」 3.
  """
  if match["half"]:
    return Duration(6)
  number, unit = parse_numeral(match["count"]), _MONTHS_PER_UNIT[match["unit"]]
  months = number * unit
  if match["and_half"]:
    months += unit // 2
  if match["more"]:
    months += parse_numeral(match["more"])
  is_whole_years = unit == 12 and months == number * unit
  return Duration(months, number if is_whole_years else None)
