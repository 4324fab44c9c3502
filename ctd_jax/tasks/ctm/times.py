"""Reads the times that an answer states: periods, years, numbers of years.

Why: 「北宋」, 「1037年」 and 「宋代」 are one answer; 「701年」 is a date, but
「相隔701年」 is not. Called by `judge`; all text is in Simplified script.
"""

from __future__ import annotations

import re

from ctd_jax.tasks.ctm import replies
from ctd_jax_datasets.ctm import periods

# What follows a period that is only a bound, or part of another word.
_BOUND = re.compile(r"(?:以|之)?(?:前|后)|才?灭亡|八大家")
# A label of one character is a word of its own elsewhere (明, 清).
_BARE = re.compile(
  rf"(?:是|为|属于?|归入|选|于|在|即|[:：])\s*[「“【]?({'|'.join(periods.LABELS)})"
  r"(?=[」”】。，；,.;\s]|$)"
)
_YEAR = re.compile(r"(公元前|前)?([0-9]{1,4})年")

# What a mention may mean: any of these sets of labels. A regime beside the
# period of its time (辽) means none that can be told without knowing more.
Meaning = tuple[frozenset[str], ...]
BESIDE = frozenset(("?",))


def periods_said(text: str) -> list[Meaning]:
  """Returns what every dynasty word means that a text asserts.

  A homonym (后汉) means one of several, 「明清」 means both at once.
  """
  found = [
    tuple(
      BESIDE if alias.flagged else frozenset(alias.labels)
      for alias in mention.aliases
      if alias.labels
    )
    for mention in periods.find(text)
    if not replies.negated(text, mention.start)
    and not _BOUND.match(text, mention.end)
  ]
  bare = _BARE.search(text)
  if bare and not any(found):
    found.append((frozenset((bare[1],)),))
  return [meaning for meaning in found if meaning]


def years_said(text: str) -> list[Meaning]:
  """Returns the labels that every year in a text may have."""
  years = [
    -int(digits) if before else int(digits)
    for before, digits in _YEAR.findall(text)
  ]
  found = [
    tuple(frozenset((label,)) for label in periods.acceptable(year))
    for year in years
    if year
  ]
  return [meaning for meaning in found if meaning]


def labels_said(text: str) -> set[str]:
  """Returns all labels that periods and years in a text may have."""
  found = [*periods_said(text), *years_said(text)]
  return {label for meaning in found for part in meaning for label in part}


_UNIT_YEARS = {"年": 1.0, "载": 1.0, "岁": 1.0, "世纪": 100.0, "月": 1 / 12}
SPAN = re.compile(
  rf"(?P<number>{replies.NUMBER})(?P<more>余|多|来)?\s*个?(?P<half>半)?\s*"
  r"(?P<unit>年|载|岁|世纪|月)(?!号|初|末)"
)
_DATE_BEFORE = re.compile(r"(?:公元前?|西元前?|前|[于在至到自从（(])\s*$")
_DIFFERENCE = re.compile(
  r"(?:相差|前后|相隔|相距|间隔|时间差|差距|差|隔|共计?|合计|总计|历时|持续|等于|=|＝|"
  r"约为|大约|约|为|是|[:：])\s*(?:了|有|为|是|约|大约|大概|近)*\s*$"
)
_RANGE = re.compile(
  rf"({replies.NUMBER})年?\s*(?:-|—|–|~|～|到|至)\s*({replies.NUMBER})\s*年"
)


def years_of(match: re.Match[str]) -> float:
  """Returns the years that a match of `SPAN` writes."""
  value = replies.number(match["number"]) + (0.5 if match["half"] else 0)
  return value * _UNIT_YEARS[match["unit"]]


def number_of_years(text: str) -> list[float] | None:
  """Returns the number of years an answer gives, or both ends of a range.

  None if none can be told from the others; a total comes last.
  """
  if re.fullmatch(rf"约?({replies.NUMBER})", text.strip("。. ")):
    return [replies.number(text.strip("约。. "))]
  for passage in replies.passages(text):
    ends = _RANGE.search(passage)
    if ends and not _DATE_BEFORE.search(passage[: ends.start()]):
      return [replies.number(ends[1]), replies.number(ends[2])]
    spans = [
      match
      for match in SPAN.finditer(passage)
      if not _DATE_BEFORE.search(passage[: match.start()])
    ]
    marked = [s for s in spans if _DIFFERENCE.search(passage[: s.start()])]
    chosen = marked[-1:] or (spans if len(spans) == 1 else [])
    if chosen:
      return [years_of(chosen[0])]
  return None
