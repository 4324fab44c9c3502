"""Reading of what models write: script, JSON, conclusions, numbers, times.

The judge and the game must read replies in the same way, and an unreadable
reply must be distinguished from a wrong answer. 「北宋」, 「1037年」 and
「宋代」 are one answer; 「701年」 is a date, but 「相隔701年」 is not. Times
are read in Simplified script.
"""

import functools
import json
import re
from collections.abc import Collection, Iterator
from typing import Any

import opencc

from ctd_jax_datasets.ctm import periods

_OBJECT_PATTERN = re.compile(r"\{.*\}", re.DOTALL)
_FULL_WIDTH = str.maketrans(
  "０１２３４５６７８９ＡＢＣＤＥＦＧａｂｃｄｅｆｇ", "0123456789ABCDEFGabcdefg"
)
# Words before a conclusion.
_CONCLUSION_PATTERN = re.compile(
  r"(?:最终|正确)?答案(?:应该|应当|应)?[是为:：]+|因此|所以|综上(?:所述)?|总之|"
  r"结论(?:是|为|:|：)|由此可[见知]|故(?:应)?选|应(?:该)?选|应[该当]?[是为]"
)
_SENTENCE_PATTERN = re.compile(r"[^。！？!?；;\n]+[。！？!?；;]?")
_CLAUSE_PATTERN = re.compile(r"[^，,。！？!?；;\n]+")
# 「虽然 ... 但」: what is conceded is not asserted.
_CONCESSION_PATTERN = re.compile(
  r"(?:虽然|虽说|尽管|固然)[^。；;\n]*?(?:但是|但|却|不过|然而|可是)"
)
# Words that deny the name right after them.
_NEGATION_PATTERN = re.compile(
  r"(?:不是|并非|绝非|而非|不属于?|不在|不可能[是在]?|不应[是在]?|不会[是在]?|"
  r"排除|(?<!无)不|[^无莫除是若]非|不选|不为|没有|[以之]后才[叫称为])"
  r"[「『“\"《]?(?:选项)?$"
)
# Arabic numerals with separators, or Chinese numerals.
NUMBER_PATTERN = (
  r"(?:[0-9]+(?:[,，][0-9]{3})*(?:\.[0-9]+)?|[〇零一二两三四五六七八九十百千]+)"
)
_DIGITS = {c: i for i, c in enumerate("〇一二三四五六七八九")} | {
  "零": 0,
  "两": 2,
}
_UNITS = {"十": 10, "百": 100, "千": 1000}
_NEGATION_LENGTH = 8  # characters before a name that can deny it


@functools.cache
def _converter() -> opencc.OpenCC:
  return opencc.OpenCC("t2s")


@functools.lru_cache(maxsize=65536)
def to_simplified(text: str) -> str:
  """Returns a text in Simplified script with narrow digits and letters.

  For comparison only: 後 and 后 become one.
  """
  return _converter().convert(text).translate(_FULL_WIDTH)


def parse_json_object(text: str) -> dict[str, Any]:
  """Returns the JSON object in a reply, which may contain other text, too.

  Raises:
    ValueError: if there is no object, or it cannot be read.
  """
  match = _OBJECT_PATTERN.search(text)
  try:
    # Not strict: models write line breaks inside strings.
    data = json.loads(match[0], strict=False) if match else None
  except ValueError as error:
    raise ValueError(f"the JSON cannot be read: {error}") from None
  if not isinstance(data, dict):
    raise ValueError("expected one JSON object")
  return data


def iterate_passages(text: str) -> Iterator[str]:
  """Yields the passages of a text that may hold the answer, best first.

  First the sentence after the last 「答案是」, 「因此」 and the like, then all
  text after it, then the first sentence, then everything. Concessions (虽然
  ... 但) are left out.
  """
  text = _CONCESSION_PATTERN.sub("", text).strip()
  marks = list(_CONCLUSION_PATTERN.finditer(text))
  if marks and text[marks[-1].end() :].strip():
    conclusion = text[marks[-1].end() :].strip()
    yield split_sentences(conclusion)[0]
    yield conclusion
  opening = _SENTENCE_PATTERN.search(text)
  if opening and opening[0] != text:
    yield opening[0]
  yield text


def split_sentences(text: str) -> list[str]:
  """Returns the sentences of a text; a line break ends a sentence."""
  return [match[0] for match in _SENTENCE_PATTERN.finditer(text)] or [text]


def split_clauses(text: str) -> list[str]:
  """Returns the clauses of a text."""
  return [match[0] for match in _CLAUSE_PATTERN.finditer(text)]


def is_negated(text: str, position: int) -> bool:
  """Returns whether the words before a position deny what follows."""
  return bool(
    _NEGATION_PATTERN.search(
      text[max(0, position - _NEGATION_LENGTH) : position]
    )
  )


def find_name_mentions(
  text: str, names: Collection[str]
) -> list[tuple[int, str]]:
  """Returns (position, name) of all names in a text, in order of position.

  Args:
    names: names in Simplified script; of two that overlap, the longer is found.
  """
  return [(m.start(), m[0]) for m in compile_name_pattern(names).finditer(text)]


def compile_name_pattern(names: Collection[str]) -> re.Pattern[str]:
  """Returns the pattern of any of the names, longest names first."""
  sorted_names = sorted((n for n in names if n), key=len, reverse=True)
  # An empty alternation would match everywhere; (?!) matches nothing.
  return re.compile("|".join(map(re.escape, sorted_names)) or "(?!)")


def parse_number(text: str) -> float:
  """Returns the number of a match of `NUMBER_PATTERN`.

  「一千三百一十四」 is 1314, 「九七八」 is 978.
  """
  numeral = re.sub("[,，]", "", text)
  if numeral[0].isascii():
    return float(numeral)
  if not any(character in _UNITS for character in numeral):
    return float("".join(str(_DIGITS[character]) for character in numeral))
  total, digit = 0, None
  for character in numeral:
    if character in _UNITS:
      # 十二 is 12: a unit without a digit counts once.
      total += (1 if digit is None else digit) * _UNITS[character]
      digit = None
    else:
      digit = _DIGITS[character] or None  # 零 only marks an empty unit
  return float(total + (digit or 0))


# After a period that is only a bound (宋以后), or part of another word.
_BOUND_PATTERN = re.compile(r"(?:以|之)?(?:前|后)|才?灭亡|八大家")
# A label of one character without suffix, where only a label can occur:
# elsewhere 明 and 清 are ordinary words.
_BARE_LABEL_PATTERN = re.compile(
  rf"(?:是|为|属于?|归入|选|于|在|即|[:：])\s*[「“【]?({'|'.join(periods.LABELS)})"
  r"(?=[」”】。，；,.;\s]|$)"
)
_YEAR_PATTERN = re.compile(r"(公元前|前)?([0-9]{1,4})年")

# Possible meanings of a mention: each is a set of labels. A regime beside the
# period of its time (辽) has no certain label.
Meaning = tuple[frozenset[str], ...]
CONTEMPORARY_REGIME = frozenset(("?",))


def find_period_meanings(text: str) -> list[Meaning]:
  """Returns the meanings of all dynasty words that a text asserts.

  A homonym (后汉) has several meanings, 「明清」 one with two labels.
  """
  meanings = [
    tuple(
      CONTEMPORARY_REGIME if alias.is_convention else frozenset(alias.labels)
      for alias in mention.aliases
      if alias.labels
    )
    for mention in periods.find_period_mentions(text)
    if not is_negated(text, mention.start)
    and not _BOUND_PATTERN.match(text, mention.end)
  ]
  label_match = _BARE_LABEL_PATTERN.search(text)
  if label_match and not any(meanings):
    meanings.append((frozenset((label_match[1],)),))
  return [meaning for meaning in meanings if meaning]


def find_year_meanings(text: str) -> list[Meaning]:
  """Returns the meanings of all years in a text."""
  years = [
    -int(digits) if is_bce else int(digits)
    for is_bce, digits in _YEAR_PATTERN.findall(text)
  ]
  meanings = [
    tuple(frozenset((label,)) for label in periods.list_acceptable_labels(year))
    for year in years
    if year  # there is no year 0
  ]
  return [meaning for meaning in meanings if meaning]


def find_labels(text: str) -> set[str]:
  """Returns the labels of all meanings of periods and years in a text."""
  meanings = [*find_period_meanings(text), *find_year_meanings(text)]
  return {
    label for meaning in meanings for labels in meaning for label in labels
  }


_UNIT_YEARS = {"年": 1.0, "载": 1.0, "岁": 1.0, "世纪": 100.0, "月": 1 / 12}
# 「三百多年」, 「两个半世纪」; 月号, 年初 and the like are dates.
SPAN_PATTERN = re.compile(
  rf"(?P<number>{NUMBER_PATTERN})(?P<more>余|多|来)?\s*个?(?P<half>半)?\s*"
  r"(?P<unit>年|载|岁|世纪|月)(?!号|初|末)"
)
# Before a number that is a year of the calendar.
_DATE_PREFIX_PATTERN = re.compile(
  r"(?:公元前?|西元前?|前|[于在至到自从（(])\s*$"
)
# Before a number that is a difference.
_DIFFERENCE_PREFIX_PATTERN = re.compile(
  r"(?:相差|前后|相隔|相距|间隔|时间差|差距|差|隔|共计?|合计|总计|历时|持续|等于|=|＝|"
  r"约为|大约|约|为|是|[:：])\s*(?:了|有|为|是|约|大约|大概|近)*\s*$"
)
_RANGE_PATTERN = re.compile(
  rf"({NUMBER_PATTERN})年?\s*(?:-|—|–|~|～|到|至)\s*({NUMBER_PATTERN})\s*年"
)


def convert_span_to_years(match: re.Match[str]) -> float:
  """Returns the number of years of a match of `SPAN_PATTERN`."""
  value = parse_number(match["number"]) + (0.5 if match["half"] else 0)
  return value * _UNIT_YEARS[match["unit"]]


def extract_num_years(text: str) -> list[float] | None:
  """Returns the number of years in an answer, or both ends of a range.

  Returns None if several numbers may be the answer. Of several differences the
  last is taken, since a total comes last.
  """
  if re.fullmatch(rf"约?({NUMBER_PATTERN})", text.strip("。. ")):
    return [parse_number(text.strip("约。. "))]
  for passage in iterate_passages(text):
    range_match = _RANGE_PATTERN.search(passage)
    if range_match and not _DATE_PREFIX_PATTERN.search(
      passage[: range_match.start()]
    ):
      return [
        parse_number(range_match[1]),
        parse_number(range_match[2]),
      ]
    spans = [
      match
      for match in SPAN_PATTERN.finditer(passage)
      if not _DATE_PREFIX_PATTERN.search(passage[: match.start()])
    ]
    difference_spans = [
      s
      for s in spans
      if _DIFFERENCE_PREFIX_PATTERN.search(passage[: s.start()])
    ]
    answer_spans = difference_spans[-1:] or (spans if len(spans) == 1 else [])
    if answer_spans:
      return [convert_span_to_years(answer_spans[0])]
  return None
