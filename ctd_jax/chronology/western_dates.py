"""Western dates in text: years of the common era, months, days, seasons.

English and Latin wordings of annals: "A.D. 787", "Anno Domini DCCLXXXVII",
"55 BC", "on the 8th of June", "June 8", "viii Id. Jun.", "in the spring"; and
years of the common era in Chinese, 「公元787年6月8日」. Years are astronomical,
0 = 1 BCE. Easter, saints' days and indictions are not read.

Roman days are counted back from the Kalends, Nones and Ides, both ends
included: viii Kal. Jan. is 25 December. Source: the Roman calendar, as in
Bickerman, Chronology of the Ancient World (1968), 43-47.
"""

import contextlib
import dataclasses
import re
from typing import NamedTuple

from ctd_jax.chronology import sexagenary
from ctd_jax.chronology.numerals import (
  NUMERAL_PATTERN,
  UNIT_DIGITS,
  DateError,
  parse_numeral,
  parse_year_number,
)
from ctd_jax.chronology.reigns import MONTHS_PER_YEAR
from ctd_jax.utils.notes import Note

# Winter is December to February, and so on.
WESTERN_SEASONS = ("winter", "spring", "summer", "autumn")

_ROMAN_VALUES = {
  "i": 1,
  "v": 5,
  "x": 10,
  "l": 50,
  "c": 100,
  "d": 500,
  "m": 1000,
}
_ROMAN = re.compile(
  r"m{0,3}(?:cm|cd|d?c{0,4})(?:xc|xl|l?x{0,4})(?:ix|iv|v?i{0,4})\Z"
)
_ROMAN_LETTERS = r"[IVXLCDMivxlcdmj]{1,15}"

_MONTH_NAMES = (
  r"[JI]anuar(?:y|ie)|Jan\b|[JI]anuari(?:us|i|as|arum|o)",
  r"Februar(?:y|ie)|Feb\b|Februari(?:us|i|as|arum|o)",
  r"March|Mar\b|Marti(?:us|i|as|arum|o)|Mart\b",
  r"Aprill?|Apr\b|April(?:is|es|ium|i)",
  r"May|Mai(?:us|i|as|arum|o)",
  r"[JI]une|Jun\b|[JI]uni(?:us|i|as|arum|o)|Iun\b",
  r"[JI]ul(?:y|ie)|Jul\b|[JI]uli(?:us|i|as|arum|o)|Iul\b",
  r"August|Aug\b|August(?:us|i|as|arum|o)",
  r"September|Sept?\b|Septembr(?:is|es|ium|i)",
  r"October|Oct\b|Octobr(?:is|es|ium|i)",
  r"November|Nov\b|Novembr(?:is|es|ium|i)",
  r"December|Dec\b|Decembr(?:is|es|ium|i)",
)
_MONTH_PATTERN = "|".join(
  rf"(?P<month_{number}>{names})"
  for number, names in enumerate(_MONTH_NAMES, start=1)
)
# Nones and Ides; in March, May, July and October two days later.
_NONES, _IDES = 5, 13
_LATE_MONTHS = (3, 5, 7, 10)
_MONTH_LENGTHS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)

_TENS_ORDINALS = {"twent": 20, "thirt": 30}
_UNIT_ORDINALS = (
  *("first", "second", "third", "fourth", "fifth", "sixth", "seventh"),
  *("eighth", "ninth", "tenth", "eleventh", "twelfth", "thirteenth"),
  *("fourteenth", "fifteenth", "sixteenth", "seventeenth", "eighteenth"),
  "nineteenth",
)
_ORDINAL_WORD = re.compile(
  rf"(?:(?P<tens>twent|thirt)(?:ieth|y(?:[-\s](?P<unit>{'|'.join(_UNIT_ORDINALS[:9])})))"
  rf"|(?P<word>{'|'.join(sorted(_UNIT_ORDINALS, key=len, reverse=True))}))\Z",
  re.IGNORECASE,
)
_ORDINAL_PATTERN = (
  r"(?:twent|thirt)(?:ieth|y[-\s](?:fir|seco|thi|four|fif|six|seven|eigh|nin)"
  rf"(?:st|nd|rd|th))|{'|'.join(sorted(_UNIT_ORDINALS, key=len, reverse=True))}"
)
_DAY_NUMBER = r"(?:[12]?\d|3[01])(?:st|nd|rd|d|th)?(?!\d)"

# In books to 1700: "xxiij. of May", "viijth day of", "one and twentith".
_OLD_UNITS = (
  *("one", "two", "three", "four", "five"),
  *("six", "seven", "eight", "nine"),
)
_OLD_TENS = r"(?:twent|thirt)(?:y|i|ie|ye)?th"
_OLD_ORDINAL = re.compile(
  rf"(?:(?P<unit>{'|'.join(_OLD_UNITS)})\s{{1,4}}and\s{{1,4}})?"
  rf"(?P<tens>{_OLD_TENS})",
  re.IGNORECASE,
)
_OLD_DAY = (
  rf"(?:{_DAY_NUMBER}\.|[ivxj]{{1,8}}(?:th|st|nd|rd)?\.?"
  rf"|(?i:(?:(?:{'|'.join(_OLD_UNITS)})\s{{1,4}}and\s{{1,4}})?{_OLD_TENS}))"
  r"(?=\s{1,4}(?:da(?:y|ie)\s{1,4})?of\s)"
)

_ERA_BEFORE = r"(?:A\.?\s?D\.?|B\.?\s?C\.?(?:\s?E\.?)?|C\.?\s?E\.?)"
_ERA_AFTER = rf"{_ERA_BEFORE}(?![A-Za-z])"
_YEAR_OPENING = (
  r"(?:[Aa]nno(?:\s{1,4}[Dd]omini)?|An\.|[Ii]n\s{1,4}the\s{1,4}year(?:\s{1,4}of"
  r"(?:\s{1,4}(?:our|the)\s{1,4}Lord|\s{1,4}grace|\s{1,4}Christ|\s{1,4}the\s{1,4}Incarnation))?"
  r"|[Tt]he\s{1,4}year)"
)
_YEAR_PATTERN = (
  rf"(?:(?<![A-Za-z])(?P<era_before>{_ERA_BEFORE}|{_YEAR_OPENING}),?\s{{0,4}}"
  rf"(?P<year_roman>{_ROMAN_LETTERS}(?![A-Za-z])|\d{{1,4}}(?!\d))"
  rf"(?:\s?(?P<era_both>{_ERA_AFTER}))?"
  rf"|(?<![\d.])(?P<year_era>\d{{1,4}})\s?(?P<era_after>{_ERA_AFTER})"
  r"|(?<![A-Za-z])[Ii]n\s{1,4}(?P<year_bare>[1-9]\d{2,3})(?![\d.]*\d|\s{1,4}(?!this\b)[a-z]{3,}s\b))"
)
_OF_YEAR = r"\s{1,4}(?:A\.?D\.?\s{0,4})?[1-9]\d{2,3}(?!\d)"
_FULL_DATE_YEAR = (
  rf"(?:,?\s{{0,4}}(?:in\s{{1,4}})?(?:(?P<date_era>{_ERA_BEFORE}|[Aa]nno(?:\s{{1,4}}[Dd]omini)?)"
  rf"\s{{0,4}})?(?P<date_year>[1-9]\d{{2,3}})(?!\d)(?:\s?(?P<date_era_after>{_ERA_AFTER}))?)?"
)
_DAY_OF_MONTH = re.compile(
  r"(?<![A-Za-z\d])(?:[Tt]he\s{1,4})?(?:"
  rf"(?P<day>{_OLD_DAY}|{_DAY_NUMBER}|(?i:{_ORDINAL_PATTERN}))(?:\s{{1,4}}da(?:y|ie))?(?:\s{{1,4}}of)?\s{{1,4}}"
  rf"(?:the\s{{1,4}}month\s{{1,4}}of\s{{1,4}})?(?:{_MONTH_PATTERN})\.?{_FULL_DATE_YEAR})"
)
_MONTH_THEN_DAY = re.compile(
  rf"(?<![A-Za-z])(?:{_MONTH_PATTERN})\.?\s{{1,4}}(?:the\s{{1,4}})?"
  rf"(?P<day>{_DAY_NUMBER})(?![A-Za-z\d]){_FULL_DATE_YEAR}"
)
_ROMAN_DAY = re.compile(
  r"(?<![A-Za-z\d])(?:[Tt]he\s{1,4})?(?:(?:(?P<eve>[Pp]rid(?:ie|\.)|day\s{1,4}before|eve\s{1,4}of)"
  rf"|(?:a\.?\s?d\.?\s{{1,4}})?(?P<count>\d{{1,2}}(?:st|nd|rd|d|th)?|{_ROMAN_LETTERS}"
  rf"|(?i:{_ORDINAL_PATTERN}))\.?(?:\s{{1,4}}day)?)"
  r"\s{0,4}(?:of\s{1,4}|before\s{1,4})?(?:the\s{1,4})?)?"
  r"(?P<mark>[KkCc]al(?:end(?:s|as|is|ae)|\.)|[KkCc]l\.|[Nn]on(?:es|as|is|ae|\.)"
  r"|[Ii]d(?:es|us|ibus|\.))"
  rf"\s{{0,4}}(?:of\s{{1,4}})?(?:{_MONTH_PATTERN})\.?{_FULL_DATE_YEAR}"
)
# A month alone is one where it comes after such a word, or as a heading; "may"
# and "march" are verbs.
_LONE_MONTH = re.compile(
  r"(?:(?<![A-Za-z])(?:(?:[Ii]n|[Dd]uring|[Tt]hrough|[Ii]n\s{1,4}mid)(?:\s{1,4}the)?"
  r"(?:\s{1,4}(?:early|late|month\s{1,4}of|beginning\s{1,4}of|end\s{1,4}of|middle\s{1,4}of))*\s{1,4}"
  r"|[Tt]he\s{1,4}month\s{1,4}of\s{1,4}|[Mm]ense\s{1,4})|\A[\[(]?)"
  rf"(?:{_MONTH_PATTERN})(?![a-z]){_FULL_DATE_YEAR}(?P<tail>[\])]?[.,:;]?\s{{0,4}}\Z)?"
)
_SEASON = re.compile(
  r"(?<![A-Za-z])(?:[Ii]n|[Dd]uring|[Tt]owards?|[Bb]y|[Aa]t|[Tt]his|[Tt]he\s{1,4}same)"
  r"\s{1,4}(?:the\s{1,4})?(?:(?:early|late|following|same|next|end\s{1,4}of|beginning\s{1,4}of)"
  r"\s{1,4}(?:the\s{1,4})?)*(?:mid-?)?"
  rf"(?P<season>winter|spring|summer|autumn|fall)(?![a-z])(?:\s{{1,4}}of(?={_OF_YEAR})"
  rf"{_FULL_DATE_YEAR})?"
)
# Names of the common era in Chinese and Japanese. 「紀元」 is also a verb, "to
# count years": it is a name only before a year that no reign reaches.
COMMON_ERA_PATTERN = (
  r"(?:公[元曆歷历暦]|西[元曆歷历暦紀纪]|(?<!公)[紀纪]元(?=\s*(?:前|"
  rf"(?:[0-9０-９]{{3,4}}|[{UNIT_DIGITS}][〇零○{UNIT_DIGITS}]{{3}})\s*年)))"
)
_CHINESE_DATE = re.compile(
  rf"{COMMON_ERA_PATTERN}\s{{0,4}}(?P<before_era>前)?\s{{0,4}}"
  rf"(?P<year>[0-9０-９]{{1,4}}|[〇零○{UNIT_DIGITS}]{{2,4}}|{NUMERAL_PATTERN})"
  rf"\s{{0,4}}年?(?:\s{{0,4}}(?P<month>正|{NUMERAL_PATTERN})\s{{0,4}}月"
  rf"(?:\s{{0,4}}(?P<day>{NUMERAL_PATTERN})\s{{0,4}}[日號号])?)?"
)
_YEAR = re.compile(_YEAR_PATTERN)
# A year, month or day of ISO 8601; of running text only a day, since "1906-07"
# may be two years.
ISO_DATE = re.compile(
  r"(?P<year>-?\d{4})(?:-(?P<month>\d{2})(?:-(?P<day>\d{2}))?)?"
)
# 1587-05-03, 1587/5, 1587.5.3, -0476; a year alone is all of the text.
NUMERIC_DATE = re.compile(
  r"(?<![\d./-])(?P<year>[-−]?\d{3,4})(?P<mark>[-/.])(?P<month>\d{1,2})"
  r"(?:(?P=mark)(?P<day>\d{1,2}))?(?![\d.])|\A\s*(?P<lone>[-−]?\d{3,4})\s*\Z"
)
_ISO_DAY = re.compile(
  r"(?<![\w.:/-])(?P<year>-?\d{4})-(?P<month>\d{2})-(?P<day>\d{2})(?![\w:/-])"
)


@dataclasses.dataclass(frozen=True)
class WesternDate:
  """A date of the common era in a text."""

  start: int  # position of its first character
  end: int  # position after its last
  year: int | None = None  # astronomical, if printed
  month: int | None = None  # 1-12, if printed
  day: int | None = None  # of the month, if printed
  season: int | None = None  # number of `WESTERN_SEASONS`, if printed
  # Whether "A.D.", "BCE", "Anno", 公元 or "year" is printed.
  has_era: bool = False


def months_of_season(season: int) -> tuple[int, int, int]:
  """Returns the months of a season: of winter December to February.

  Args:
    season: number of `WESTERN_SEASONS`.
  """
  first = 3 * season
  return (first or 12, first + 1, first + 2)


def find_western_dates(text: str) -> list[WesternDate]:
  """Returns the dates of a text, in order, none within another.

  A month alone counts after "in", "during", "month of" and the like, or where
  it is all of the text; a season after "in", "that" and the like; a year of
  three digits or more after "in", any other only with its era.
  """
  dates: list[WesternDate] = []
  text = text.replace("ſ", "s")
  taken = [False] * len(text)
  for pattern, read in (
    (_CHINESE_DATE, _read_chinese_date),
    (_ISO_DAY, _read_iso_day),
    (_ROMAN_DAY, _read_roman_day),
    (_DAY_OF_MONTH, _read_day),
    (_MONTH_THEN_DAY, _read_day),
    (_LONE_MONTH, _read_month),
    (_SEASON, _read_season),
    (_YEAR, _read_year),
  ):
    for match in pattern.finditer(text):
      if any(taken[match.start() : match.end()]):
        continue
      date = read(match)
      if date is not None:
        dates.append(date)
        taken[date.start : date.end] = [True] * (date.end - date.start)
  return sorted(dates, key=lambda date: date.start)


def parse_civil_date(text: str) -> WesternDate | None:
  """Returns the date that is all of a text, such as a cell; None if none is.

  It has a year: 1587, 1587-05, 1587/5/3, "May 1587", "3 May 1587".
  """
  match = NUMERIC_DATE.fullmatch(text)
  if match:
    return read_numeric_date(match)
  # Only after a word is a month alone one.
  for prefix in ("", "in "):
    found = find_western_dates(prefix + text)
    if len(found) == 1 and found[0].year is not None:
      (date,) = found
      rest = (prefix + text)[: date.start] + (prefix + text)[date.end :]
      if not re.search(r"\w", rest.removeprefix(prefix)):
        return date
  return None


def read_numeric_date(match: re.Match[str]) -> WesternDate:
  """Returns the date of a match of `NUMERIC_DATE`."""
  year = int((match["year"] or match["lone"]).replace("−", "-"))
  month, day = (match[part] and int(match[part]) for part in ("month", "day"))
  return WesternDate(match.start(), match.end(), year, month, day)


def find_days(date: WesternDate) -> tuple[int, int]:
  """Returns the first and last Julian day number of a date with a year.

  It is Julian before 15 October 1582. ValueError if there is no such date.
  """
  year, month, day = date.year, date.month, date.day
  if (year, month) == (0, 0):  # 0000-00-00 in tables: no date
    raise ValueError
  if day:
    first = sexagenary.to_julian_day(year, month, day)
    return first, first
  first = sexagenary.to_julian_day(year, month or 1, 1)
  years, next_month = divmod(month or MONTHS_PER_YEAR, MONTHS_PER_YEAR)
  return first, sexagenary.to_julian_day(year + years, next_month + 1, 1) - 1


def parse_year(text: str) -> int:
  """Returns the astronomical year of `722 BCE`, 280, -0721 or 「公元前722年」.

  A number without a sign is a year of the common era.

  Raises:
    ValueError: if the text is anything but a year, or a year 0.
  """
  year = text.strip().removesuffix("年")
  if re.fullmatch("[0-9]{1,4}", year):
    year += " CE"
  iso = ISO_DATE.fullmatch(year)
  if iso and not iso["month"]:
    return int(year)
  with contextlib.suppress(DateError):  # of a year 0
    for date in find_common_era_years(year):
      if date[:2] == (0, len(year)):
        return date.year
  raise ValueError(Note("problem.calendar.year", text=text))


def parse_roman_numeral(text: str) -> int:
  """Returns the value of a Roman numeral in either case; 0 for other text."""
  letters = text.lower().replace("j", "i")
  if not letters or not _ROMAN.match(letters):
    return 0
  values = [_ROMAN_VALUES[letter] for letter in letters]
  return sum(
    -value if following > value else value
    for value, following in zip(values, [*values[1:], 0], strict=True)
  )


def count_roman_day(
  mark: str, count: int, month: int, is_leap_year: bool = False
) -> tuple[int, int]:
  """Returns (month, day) of a day before the "kalends", "nones" or "ides".

  `count` is the number of days back from the mark, inclusive: 1 is the day
  itself, 2 the eve. In a leap year the inserted day is the second sixth before
  the Kalends of March, here 24 February. Raises ValueError if the count reaches
  the previous mark.
  """
  late = 2 * (month in _LATE_MONTHS)
  if mark == "kalends":
    month = (month - 2) % MONTHS_PER_YEAR + 1 if count > 1 else month
    length = _MONTH_LENGTHS[month - 1]
    length += month == 2 and is_leap_year and count <= 6
    day = length + 2 - count if count > 1 else 1
    earliest = _IDES + 2 * (month in _LATE_MONTHS) + 1 if count > 1 else 1
  elif mark == "nones":
    day, earliest = _NONES + late - count + 1, 2
  else:
    day, earliest = _IDES + late - count + 1, _NONES + late + 1
  if count < 1 or day < earliest:
    raise ValueError(f"there is no day {count} before the {mark}")
  return month, day


def _find_month(match: re.Match[str]) -> int:
  return next(
    number
    for number in range(1, MONTHS_PER_YEAR + 1)
    if match[f"month_{number}"]
  )


def read_count(text: str) -> int:
  """Returns the value of "8th", "viii" or "twenty-first"; 0 for other text.

  Args:
    text: an English ordinal or a Roman numeral.
  """
  digits = re.match(r"\d+", text)
  if digits:
    return int(digits[0])
  ordinal = _ORDINAL_WORD.match(text)
  if ordinal is None:
    old = _OLD_ORDINAL.fullmatch(text)
    if old is None:
      return parse_roman_numeral(re.sub(r"(?:th|st|nd|rd)?\.?\Z", "", text))
    unit = (old["unit"] or "").lower()
    tens = 20 if old["tens"][:2].lower() == "tw" else 30
    return tens + (_OLD_UNITS.index(unit) + 1 if unit else 0)
  if ordinal["word"]:
    return _UNIT_ORDINALS.index(ordinal["word"].lower()) + 1
  tens = _TENS_ORDINALS[ordinal["tens"].lower()]
  unit = ordinal["unit"]
  return tens + (_UNIT_ORDINALS.index(unit.lower()) + 1 if unit else 0)


def _read_date_year(match: re.Match[str]) -> dict[str, int | bool | None]:
  """Returns the year after a month or day, and whether its era is printed."""
  if match["date_year"] is None:
    return {"year": None, "has_era": False}
  era = (match["date_era"] or "") + (match["date_era_after"] or "")
  year = int(match["date_year"])
  return {"year": 1 - year if _is_before(era) else year, "has_era": bool(era)}


def _read_day(match: re.Match[str]) -> WesternDate | None:
  month, day = _find_month(match), read_count(match["day"])
  if not 1 <= day <= _MONTH_LENGTHS[month - 1] + (month == 2):
    return None
  return WesternDate(
    match.start(),
    match.end(),
    month=month,
    day=day,
    **_read_date_year(match),
  )


def _read_roman_day(match: re.Match[str]) -> WesternDate | None:
  letter = match["mark"][0].lower()
  mark = {"k": "kalends", "c": "kalends", "n": "nones", "i": "ides"}[letter]
  count = 2 if match["eve"] else read_count(match["count"] or "1")
  year = _read_date_year(match)
  is_leap_year = year["year"] is not None and year["year"] % 4 == 0
  try:
    month, day = count_roman_day(mark, count, _find_month(match), is_leap_year)
  except ValueError:
    return None
  return WesternDate(match.start(), match.end(), month=month, day=day, **year)


def _read_month(match: re.Match[str]) -> WesternDate | None:
  month = _find_month(match)
  # Without a word before it, a month is one only as a heading.
  has_word = (
    match.start() < match.start(f"month_{month}") and match[0][0].isalpha()
  )
  if not has_word and match["tail"] is None:
    return None
  return WesternDate(
    match.start(), match.end(), month=month, **_read_date_year(match)
  )


def _read_season(match: re.Match[str]) -> WesternDate:
  name = match["season"].replace("fall", "autumn")
  return WesternDate(
    match.start(),
    match.end(),
    season=WESTERN_SEASONS.index(name),
    **_read_date_year(match),
  )


def _read_year(match: re.Match[str]) -> WesternDate | None:
  number = match["year_roman"] or match["year_era"] or match["year_bare"]
  year = int(number) if number.isdecimal() else parse_roman_numeral(number)
  if not year:
    return None
  is_before = any(
    _is_before(match[group] or "")
    for group in ("era_before", "era_both", "era_after")
  )
  return WesternDate(
    match.start(),
    match.end(),
    1 - year if is_before else year,
    has_era=match["year_bare"] is None,
  )


def _read_iso_day(match: re.Match[str]) -> WesternDate | None:
  year, month, day = map(int, match.group("year", "month", "day"))
  is_month = 1 <= month <= MONTHS_PER_YEAR
  if not is_month or not 1 <= day <= _MONTH_LENGTHS[month - 1] + (month == 2):
    return None
  return WesternDate(*match.span(), year, month, day, has_era=True)


def _read_chinese_date(match: re.Match[str]) -> WesternDate | None:
  year = parse_year_number(match["year"])
  month = match["month"] and parse_numeral(match["month"])
  day = match["day"] and parse_numeral(match["day"])
  if not year or (month or 1) > MONTHS_PER_YEAR:
    return None
  return WesternDate(
    match.start(),
    match.end(),
    1 - year if match["before_era"] else year,
    month,
    day,
    has_era=True,
  )


# Years of the common era in questions: "722 BCE", 「公元前722-720年」.
#
# `dates` reads a year that is written out in Chinese, 「公元1069年」,
# and
# the months and seasons after it. Here are the forms without 年 and ranges
# that leave out the era of one end, and the English words on which side of a
# year a window lies. Years are astronomical, 0 = 1 BCE.


_ERA = r"(?:A\.?\s?D\.?|B\.?\s?C\.?(?:\s?E\.?)?|C\.?\s?E\.?)"
_COMMON_ERA_YEARS_ERA_AFTER = rf"(?:{_ERA}|(?:bce?|ce|ad)(?![a-z]))(?![A-Za-z])"
_CHINESE_ERA = rf"{COMMON_ERA_PATTERN}\s*"
_RANGE = (
  r"\s*(?:[-–—~～]+|\.{2,}|(?<=\.)\.|…+|to|until|till|through|and|至|到|迄)\s*"
)
_LATIN_YEARS = re.compile(
  rf"(?:(?<![A-Za-z])(?P<before>{_ERA})\s*)?(?<![\d.\-])(?P<first>\d{{1,4}})(?!\d)"
  rf"(?:\s*(?P<after>{_COMMON_ERA_YEARS_ERA_AFTER}))?"
  rf"(?:{_RANGE}(?:(?<![A-Za-z])(?P<last_before>{_ERA})\s*)?(?P<last>\d{{1,4}})"
  rf"(?![\d\-年月])(?:\s*(?P<last_after>{_COMMON_ERA_YEARS_ERA_AFTER}))?)?"
)
# A year with 年 alone, and a month or season after it, are read by the grammar.
_CHINESE_YEARS = re.compile(
  rf"(?:(?P<era>{_CHINESE_ERA})(?P<before>前)?|(?<![之以此])(?P<bare_before>前))"
  r"\s*(?P<first>\d{1,4})(?!\d)"
  rf"(?:\s*年?{_RANGE}(?P<last_era>{_CHINESE_ERA})?(?P<last_before>前)?\s*"
  r"(?P<last>\d{1,4})(?:\s*年(?!\s*[春夏秋冬正閏一二三四五六七八九十\d])"
  r"|(?!\s*[\d年月個]))|(?!\s*年))"
)
_GLOSS = re.compile(r"\S\s*[(（\[]\s*(?:即|=|i\.e\.)?\s*\Z")
_MAX_GLOSS = 12
_MIN_BARE_DIGITS = 3
_SIDE = re.compile(
  r"\b(?:(?P<before>before|prior\s+to|earlier\s+than)"
  r"|(?P<after>after|later\s+than|following)"
  r"|(?P<since>since|from)|(?P<until>until|till|up\s+to|by))"
  r"\s+(?:the\s+)?(?:year\s+)?\Z",
  re.IGNORECASE,
)
# Months and seasons in English are those of another calendar than a question's.
_PART_OF_YEAR = re.compile(
  r"\b(?:months?|[Ss]pring|[Ss]ummer|[Aa]utumn|[Ww]inter|January|February|March"
  r"|April|May|June|July|August|September|October|November|December)\b"
)
_LENGTH = re.compile(
  r"\b(?:years?|months?|decades?|seasons?|century|centuries)\s+\Z",
  re.IGNORECASE,
)


class EraYear(NamedTuple):
  """A year of the common era."""

  start: int  # position of its first character
  end: int  # position after its last
  year: int  # astronomical
  # Whether it or the other end of its range is printed with an era.
  has_era: bool = True


def find_common_era_years(text: str) -> list[EraYear]:
  """Returns years without 年, and both ends of ranges, in order.

  A number counts with an era, and without one as an end of a range of two
  years of three digits or more. An end without an era has that of the other;
  a range from a year BCE to a larger number ends in the common era. A year in
  brackets after a date says the same again: 「太康元年（280 CE）」 has none.

  Raises:
    DateError: for a year 0, which the common era lacks.
  """
  years = [
    year
    for match in _CHINESE_YEARS.finditer(text)
    for year in _read_chinese_years(match, text)
  ]
  for match in _LATIN_YEARS.finditer(text):
    if not any(
      match.start() < year.end and year.start < match.end() for year in years
    ):
      years += _read_latin_years(match, text)
  return sorted(
    year
    for year in years
    if not _GLOSS.search(text[max(year.start - _MAX_GLOSS, 0) : year.start])
  )


def find_open_window(text: str, year: EraYear) -> str | None:
  """Returns the side of the only year of a question that English words ask for.

  Returns:
    "before" or "after" (the year is excluded), "until" or "since" (it is one of
    them), or None for the year itself.

  Raises:
    DateError: if a month, a season or a length of time comes before it, as in
      "three years after 1069 CE".
  """
  part = _PART_OF_YEAR.search(text, 0, year.start)
  if part is not None:
    raise DateError(
      Note("problem.date.western_month", text=part[0]),
      text,
      part.start(),
    )
  match = _SIDE.search(text, 0, year.start)
  if match is None:
    return None
  side = match.lastgroup
  if side in ("before", "after") and _LENGTH.search(text, 0, match.start()):
    raise DateError(
      Note("problem.date.length"),
      text,
      match.start(),
    )
  return side


def _read_chinese_years(match: re.Match[str], text: str) -> list[EraYear]:
  is_before = bool(match["before"] or match["bare_before"])
  if match["era"] is None and len(match["first"]) < _MIN_BARE_DIGITS:
    return []
  if match["last"] is None:
    return [
      _make_year(match, "first", match.start(), match.end(), is_before, text)
    ]
  is_last_before = bool(match["last_before"]) or (
    is_before
    and match["last_era"] is None
    and int(match["last"]) <= int(match["first"])
  )
  first_end = match.end("first")
  last_start = min(
    match.start(group)
    for group in ("last_era", "last_before", "last")
    if match[group] is not None
  )
  return [
    _make_year(match, "first", match.start(), first_end, is_before, text),
    _make_year(match, "last", last_start, match.end(), is_last_before, text),
  ]


def _read_latin_years(match: re.Match[str], text: str) -> list[EraYear]:
  era = match["before"] or match["after"]
  if match["last"] is None and era is None:
    return []
  if match["last"] is None:
    return [
      _make_year(
        match, "first", match.start(), match.end(), _is_before(era), text
      )
    ]
  last_era = match["last_before"] or match["last_after"]
  first, last = int(match["first"]), int(match["last"])
  has_era = era is not None or last_era is not None
  digits = min(len(match["first"]), len(match["last"]))
  if not has_era and (digits < _MIN_BARE_DIGITS or last < first):
    return []
  is_last_before = (
    _is_before(last_era)
    if last_era
    else era is not None and _is_before(era) and last <= first
  )
  is_before = is_last_before if era is None else _is_before(era)
  first_end = match.end("after") if match["after"] else match.end("first")
  last_start = match.start("last_before" if match["last_before"] else "last")
  return [
    year._replace(has_era=has_era)
    for year in (
      _make_year(match, "first", match.start(), first_end, is_before, text),
      _make_year(match, "last", last_start, match.end(), is_last_before, text),
    )
  ]


def _is_before(era: str) -> bool:
  return era[:1] in ("B", "b")


def _make_year(
  match: re.Match[str],
  group: str,
  start: int,
  end: int,
  is_before: bool,
  text: str,
) -> EraYear:
  number = int(match[group])
  if number == 0:
    raise DateError(Note("problem.date.year_zero"), text, match.start(group))
  return EraYear(start, end, 1 - number if is_before else number)
