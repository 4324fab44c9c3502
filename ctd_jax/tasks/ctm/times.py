"""Times in an answer: periods, years and numbers of years.

「北宋」, 「1037年」 and 「宋代」 are one answer; 「701年」 is a date, but
「相隔701年」 is not. All texts are in Simplified script.
"""

from __future__ import annotations

import re

from ctd_jax.tasks.ctm import replies
from ctd_jax_datasets.ctm import period_names, periods

# After a period that is only a bound (宋以后), or part of another word.
_BOUND_PATTERN = re.compile(r"(?:以|之)?(?:前|后)|才?灭亡|八大家")
# A label of one character without suffix, where only a label can stand:
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
    for mention in period_names.find_period_mentions(text)
    if not replies.is_negated(text, mention.start)
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
  rf"(?P<number>{replies.NUMBER_PATTERN})(?P<more>余|多|来)?\s*个?(?P<half>半)?\s*"
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
  rf"({replies.NUMBER_PATTERN})年?\s*(?:-|—|–|~|～|到|至)\s*({replies.NUMBER_PATTERN})\s*年"
)


def convert_span_to_years(match: re.Match[str]) -> float:
  """Returns the number of years of a match of `SPAN_PATTERN`."""
  value = replies.parse_number(match["number"]) + (0.5 if match["half"] else 0)
  return value * _UNIT_YEARS[match["unit"]]


def extract_num_years(text: str) -> list[float] | None:
  """Returns the number of years in an answer, or both ends of a range.

  Returns None if several numbers may be the answer. Of several differences the
  last is taken, since a total comes last.
  """
  if re.fullmatch(rf"约?({replies.NUMBER_PATTERN})", text.strip("。. ")):
    return [replies.parse_number(text.strip("约。. "))]
  for passage in replies.iterate_passages(text):
    range_match = _RANGE_PATTERN.search(passage)
    if range_match and not _DATE_PREFIX_PATTERN.search(
      passage[: range_match.start()]
    ):
      return [
        replies.parse_number(range_match[1]),
        replies.parse_number(range_match[2]),
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
