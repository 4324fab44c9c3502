"""Where in the annals a title or a heading belongs: fuzzy matching by year.

Why: books about the Annals do not print them; they name an entry, shortened or
retold, under its duke and year. The part of those years that fits the words
best is meant. Called by the readers of 顧棟高, 魏了翁 and 呂祖謙.
"""

from __future__ import annotations

import collections
import functools
import math
import re
from collections.abc import Iterable, Sequence

from rapidfuzz import fuzz
from rapidfuzz.distance import LCSseq

from ctd_jax.chronology import numerals, reign_tables
from ctd_jax_datasets.chunqiutr import alignment

# (reign, year), both from 1.
Year = tuple[int, int]

# An edition misprints a year now and then. Where no part of the named years
# fits this well, a part of another year is meant if that one fits very well.
SURE = 0.5
ELSEWHERE = 0.75

_REIGNS = reign_tables.timeline("lu").reigns
_DUKES = "".join(reign.name[0] for reign in _REIGNS)
_DUKE = re.compile(f"([{_DUKES}])公")
_YEAR = re.compile(f"(?:([{_DUKES}])公?)?([元一二三四五六七八九十]+)年")
_SPAN = re.compile(f"{_YEAR.pattern}(?:至{_YEAR.pattern})?[上下]?")


def duke_of(text: str) -> int | None:
  """Returns the reign if the folded `text` is nothing but 「隱公」."""
  match = _DUKE.fullmatch(text)
  return _DUKES.index(match[1]) + 1 if match else None


def years_of(text: str, reign: int) -> list[Year]:
  """Returns the years that the folded `text` names, in order.

  Args:
    text: such as 「元年」 or 「十二年莊元年」.
    reign: of a year that stands without a duke before all others.
  """
  years = []
  for duke, year in _YEAR.findall(text):
    reign = _DUKES.index(duke) + 1 if duke else reign
    years.append((reign, numerals.parse_numeral(year)))
  return years


def span_of(text: str) -> list[Year]:
  """Returns all years of a heading such as 「閔元年至僖四年」, else nothing."""
  if not _SPAN.fullmatch(text):
    return []
  first, *_, last = years_of(text, 0) * 2
  return [
    (reign, year)
    for reign in range(first[0], last[0] + 1)
    for year in range(1, _REIGNS[reign - 1].years + 1)
    if first <= (reign, year) <= last
  ]


class Matcher:
  """Finds the part of an anchor that a few words are about.

  Args:
    anchor: the annals in dated parts.
  """

  def __init__(self, anchor: alignment.Anchor):
    self._anchor = anchor
    self._parts = [anchor.part(index) for index in range(len(anchor.keys))]
    self._of_year: dict[Year, list[int]] = collections.defaultdict(list)
    for index, key in enumerate(anchor.keys):
      self._of_year[key.reign, key.year].append(index)
    self._counts = collections.Counter(
      character for part in self._parts for character in set(part)
    )

  def years_in(self, reign: int) -> list[Year]:
    """Returns the years of a reign that have parts."""
    return sorted(year for year in self._of_year if year[0] == reign)

  def best(self, words: str, years: Iterable[Year]) -> alignment.Place | None:
    """Returns the best fit in `years`, the first of equals.

    Args:
      words: folded.
      years: to look in.

    Returns:
      None if there are no words or no part in these years.
    """
    parts = [index for year in years for index in self._of_year.get(year, ())]
    if not parts or not words:
      return None
    weights = [self._weight(character) for character in words]
    score, first = max(
      (self._fit(words, weights, index), -index) for index in parts
    )
    return alignment.Place(-first, self._anchor.keys[-first], score)

  def find(
    self, words: str, named: Sequence[Year], others: Iterable[Year]
  ) -> alignment.Place | None:
    """Returns the best fit in the years named, or one in others if it is good.

    Args:
      words: folded.
      named: years that the edition gives.
      others: where else to look if nothing of these years fits.

    Returns:
      What fits in the named years, though badly, if nothing else fits.
    """
    place = self.best(words, named)
    if place is None or place.score < SURE:
      other = self.best(words, others)
      if other is not None and other.score >= ELSEWHERE:
        return other
    return place

  def fit(self, words: str, part: int) -> float:
    """Returns how well a part fits words that may be a summary, 0 to 1.

    The mean of two: how much of the words it holds in any order, rare
    characters counting more; and how like them its likest stretch is.

    Args:
      words: folded, not empty.
      part: index of the part.
    """
    weights = [self._weight(character) for character in words]
    return self._fit(words, weights, part)

  def _fit(self, words: str, weights: Sequence[float], part: int) -> float:
    """Returns `fit` for words whose characters have these weights."""
    text = self._parts[part]
    held = sum(
      weight
      for character, weight in zip(words, weights, strict=True)
      if character in text
    )
    if len(text) >= len(words):
      alike = fuzz.partial_ratio(words, text) / 100
    else:  # partial_ratio would look for the part in the words
      alike = LCSseq.similarity(words, text) / len(words)
    return (held / sum(weights) + alike) / 2

  @functools.cached_property
  def _log_parts(self) -> float:
    return math.log(len(self._parts) + 1)

  def _weight(self, character: str) -> float:
    """Returns the inverse document frequency of a character, above 0."""
    return self._log_parts - math.log(self._counts[character] + 0.5)
