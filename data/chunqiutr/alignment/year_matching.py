"""Fuzzy matching of a title or heading with the annals of its year.

Books about the Annals do not print them; they name an entry, shortened or
retold, under its duke and year. The best match among the segments of those
years is taken.
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
from ctd_jax_datasets.chunqiutr.alignment import text_alignment

# (reign, year), both from 1.
Year = tuple[int, int]

# An edition misprints a year now and then. Where no segment of the named years
# fits this well, a segment of another year is taken if that one fits very well.
MIN_NAMED_SCORE = 0.5
MIN_OTHER_SCORE = 0.75

_REIGNS = reign_tables.load_timeline("lu").reigns
_DUKES = "".join(reign.name[0] for reign in _REIGNS)
_DUKE = re.compile(f"([{_DUKES}])公")
_YEAR = re.compile(f"(?:([{_DUKES}])公?)?([元一二三四五六七八九十]+)年")
_SPAN = re.compile(f"{_YEAR.pattern}(?:至{_YEAR.pattern})?[上下]?")


def parse_duke(text: str) -> int | None:
  """Returns the reign if the folded `text` is nothing but 「隱公」."""
  match = _DUKE.fullmatch(text)
  return _DUKES.index(match[1]) + 1 if match else None


def parse_years(text: str, reign: int) -> list[Year]:
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


def parse_year_span(text: str) -> list[Year]:
  """Returns all years of a heading such as 「閔元年至僖四年」, else nothing."""
  if not _SPAN.fullmatch(text):
    return []
  # Doubled: a heading of one year gives the same year twice.
  first, *_, last = parse_years(text, 0) * 2
  return [
    (reign, year)
    for reign in range(first[0], last[0] + 1)
    for year in range(1, _REIGNS[reign - 1].years + 1)
    if first <= (reign, year) <= last
  ]


class AnchorMatcher:
  """Matcher of a few words with the segment of an anchor they are about.

  Args:
    anchor: the annals in dated segments.
  """

  def __init__(self, anchor: text_alignment.Anchor):
    self._anchor = anchor
    self._segments = [
      anchor.segment_text(index) for index in range(len(anchor.keys))
    ]
    self._segments_by_year: dict[Year, list[int]] = collections.defaultdict(
      list
    )
    for index, key in enumerate(anchor.keys):
      self._segments_by_year[key.reign, key.year].append(index)
    self._counts = collections.Counter(
      character for segment in self._segments for character in set(segment)
    )

  def years_of_reign(self, reign: int) -> list[Year]:
    """Returns the years of a reign that have segments."""
    return sorted(year for year in self._segments_by_year if year[0] == reign)

  def best_match(
    self, words: str, years: Iterable[Year]
  ) -> text_alignment.AnchorMatch | None:
    """Returns the best fit in `years`, the first of equals.

    Args:
      words: folded.
      years: to look in.

    Returns:
      None if there are no words or no segment in these years.
    """
    # Negated indices below: of equal scores the first segment wins.
    indices = [
      index for year in years for index in self._segments_by_year.get(year, ())
    ]
    if not indices or not words:
      return None
    weights = [self._character_weight(character) for character in words]
    score, negated_index = max(
      (self._fit_score(words, weights, index), -index) for index in indices
    )
    return text_alignment.AnchorMatch(
      -negated_index, self._anchor.keys[-negated_index], score
    )

  def find_match(
    self, words: str, named_years: Sequence[Year], other_years: Iterable[Year]
  ) -> text_alignment.AnchorMatch | None:
    """Returns the best fit in the years named, or one in others if it is good.

    Args:
      words: folded.
      named_years: years that the edition gives.
      other_years: where else to look if nothing of these years fits.

    Returns:
      The best fit of the named years, however bad, if no other year fits.
    """
    anchor_match = self.best_match(words, named_years)
    if anchor_match is None or anchor_match.score < MIN_NAMED_SCORE:
      other_match = self.best_match(words, other_years)
      if other_match is not None and other_match.score >= MIN_OTHER_SCORE:
        return other_match
    return anchor_match

  def fit_score(self, words: str, segment_index: int) -> float:
    """Returns the fit of a segment to words that may be a summary, 0 to 1.

    The mean of two shares: of the words' characters that the segment holds in
    any order, weighted by inverse document frequency; and the similarity of
    its most similar stretch.

    Args:
      words: folded, not empty.
      segment_index: of the segment.
    """
    weights = [self._character_weight(character) for character in words]
    return self._fit_score(words, weights, segment_index)

  def _fit_score(
    self, words: str, weights: Sequence[float], segment_index: int
  ) -> float:
    """Returns `fit_score` for words whose characters have these weights."""
    text = self._segments[segment_index]
    matched_weight = sum(
      weight
      for character, weight in zip(words, weights, strict=True)
      if character in text
    )
    if len(text) >= len(words):
      similarity = fuzz.partial_ratio(words, text) / 100
    else:  # partial_ratio would look for the segment in the words
      similarity = LCSseq.similarity(words, text) / len(words)
    return (matched_weight / sum(weights) + similarity) / 2

  @functools.cached_property
  def _log_num_segments(self) -> float:
    return math.log(len(self._segments) + 1)

  def _character_weight(self, character: str) -> float:
    """Returns the inverse document frequency of a character, above 0.

    log((S + 1) / (s + 0.5)), where s of the S segments hold the character.
    """
    return self._log_num_segments - math.log(self._counts[character] + 0.5)
