"""Matches between sentences of the annals and clauses of a tradition.

The annals have one sentence for an event, 公羊 and 穀梁 print it again with
their commentary, 左傳 tells it in its own words. Matches compare wording, never
months, so that the months of the four works can be checked against one another
(`audit.cross_check`). All four run through a reign in the same order, so the
matches are the best chain of pairs in that order.

Axes: N sentences of the annals, M clauses of a tradition, in one reign.

Source: ChunQiuTR Figure 5 (versions).
"""

from __future__ import annotations

import bisect
import collections
import dataclasses
from collections.abc import Iterator, Sequence

import numpy as np
from jaxtyping import Int
from rapidfuzz import fuzz, process

from ctd_jax_datasets.chunqiutr import base_texts
from ctd_jax_datasets.chunqiutr.alignment.text_units import (
  TextPosition,
  TextUnit,
  split_units,
)

# Least similarity (0-100) by rank: of a clause, a sentence, the opening of an
# entry. The exegetic works print the annals' own words, mostly as the opening;
# 左傳 has other titles and other verbs.
_EXEGETIC_MIN_SIMILARITY = (80, 60, 40)


_NARRATIVE_MIN_SIMILARITY = (50, 50, 50)


_MIN_SIMILARITY = {
  base_texts.GONGYANG: _EXEGETIC_MIN_SIMILARITY,
  base_texts.GULIANG: _EXEGETIC_MIN_SIMILARITY,
  base_texts.ZUOZHUAN: _NARRATIVE_MIN_SIMILARITY,
}


EXEGETIC = (base_texts.GONGYANG, base_texts.GULIANG)


_ZERO_WEIGHT_SIMILARITY = 39  # just below the least accepted similarity
# Weight of a rank: a sentence counts it once more than a clause, the opening of
# an entry twice, for editions begin entries where the annals do.
_OPENING_BONUS = 5


_MAX_YEARS_APART = 1  # 左傳 may begin a story a year early or end it late


# Least similarity (0-100) of an entry that prints some words of a sentence.
_MIN_PARTIAL_SIMILARITY = 80


@dataclasses.dataclass(frozen=True)
class EventMatch:
  """A sentence of the annals and the passage that tells of it.

  Attributes:
    annals: the sentence.
    tradition: the clause.
    score: similarity of the wording, 0 to 1.
  """

  annals: TextPosition
  tradition: TextPosition
  score: float


def match_events(
  chronicle: Sequence[base_texts.Entry], tradition: Sequence[base_texts.Entry]
) -> list[EventMatch]:
  """Returns the matches of one tradition, in order.

  Args:
    chronicle: entries of the annals.
    tradition: entries of one other work.

  Returns:
    Matches in order of both works, at most one for a sentence and one for a
    clause; after those of a reign, the entries of 公羊 and 穀梁 that print only
    some words of a sentence.
  """
  matches = []
  for reign in sorted({entry.reign for entry in chronicle}):
    sentences = [
      unit
      for entry in chronicle
      if entry.reign == reign
      for unit in split_units(entry.text, entry.location, entry.year)
    ]
    clauses = [
      unit
      for entry in tradition
      if entry.reign == reign
      for unit in split_units(entry.text, entry.location, entry.year, True)
    ]
    if not clauses:
      continue
    source = tradition[0].source
    similarity = compute_similarity(sentences, clauses)
    pairs = best_chain(
      _pair_weights(similarity, sentences, clauses, _MIN_SIMILARITY[source])
    )
    matches += [
      EventMatch(
        sentences[n].position, clauses[m].position, int(similarity[n, m]) / 100
      )
      for n, m in pairs
    ]
    if source in EXEGETIC:
      matches += _match_partial_sentences(sentences, clauses, pairs)
  return matches


def compute_similarity(
  sentences: Sequence[TextUnit], clauses: Sequence[TextUnit]
) -> Int[np.ndarray, "N M"]:
  """Returns the similarity of each sentence and clause, 0-100.

  A sentence is compared with as many characters from the beginning of the
  clause on, and with the clause alone. Dates are compared only if the sentence
  is nothing but a date.
  """
  similarity = np.zeros((len(sentences), len(clauses)), np.int32)
  # Sentences of one length are compared with the same prefixes, in one call.
  by_length = collections.defaultdict(list)
  for row, sentence in enumerate(sentences):
    sentence_text = sentence.body or sentence.text
    by_length[len(sentence_text), bool(sentence.body)].append(
      (row, sentence_text)
    )
  for (length, has_body), length_group in by_length.items():
    rows, sentence_texts = zip(*length_group, strict=True)
    choices = [
      [(unit.body if has_body else unit.text)[:length] for unit in clauses]
    ]
    if has_body:
      choices.append([unit.clause for unit in clauses])
    for clause_texts in choices:
      scores = process.cdist(sentence_texts, clause_texts, scorer=fuzz.ratio)
      rounded = np.rint(scores).astype(np.int32)
      similarity[list(rows)] = np.maximum(similarity[list(rows)], rounded)
  return similarity


def _pair_weights(
  similarity: Int[np.ndarray, "N M"],
  sentences: Sequence[TextUnit],
  clauses: Sequence[TextUnit],
  min_similarity: Sequence[int],
) -> Int[np.ndarray, "N M"]:
  """Returns the weight of each pair, 0 if the two cannot be a match.

  Args:
    similarity: 0-100.
    sentences: of the annals.
    clauses: of a tradition.
    min_similarity: least similarity by rank of the clause, 0-100.
  """
  ranks = np.array([clause.rank for clause in clauses])
  # Where an edition does not number years, NaN is never too far apart.
  sentence_years, clause_years = (
    np.array([unit.year for unit in units], float)
    for units in (sentences, clauses)
  )
  is_dissimilar = similarity < np.array(min_similarity)[ranks]
  is_too_far = (
    np.abs(sentence_years[:, None] - clause_years[None, :]) > _MAX_YEARS_APART
  )
  weights = similarity - _ZERO_WEIGHT_SIMILARITY + _OPENING_BONUS * ranks
  return np.where(is_dissimilar | is_too_far, 0, weights)


def best_chain(weights: Int[np.ndarray, "N M"]) -> list[tuple[int, int]]:
  """Returns the pairs, both members increasing, with the greatest sum.

  Args:
    weights: pairs worth 0 or less are not taken.

  Source: dynamic program of the longest common subsequence, with weights.
  """
  rows, columns = weights.shape
  # best_sums[n, m]: greatest sum over the first n rows and m columns.
  best_sums = np.zeros((rows + 1, columns + 1), np.int64)
  for row in range(rows):
    sums = best_sums[row, :-1] + np.maximum(weights[row], 0)
    best_sums[row + 1, 1:] = np.maximum.accumulate(
      np.maximum(sums, best_sums[row, 1:])
    )
  # Walk back from the corner; a drop in both directions marks a pair.
  pairs = []
  row, column = rows, columns
  while row and column:
    if best_sums[row, column] == best_sums[row, column - 1]:
      column -= 1
    elif best_sums[row, column] == best_sums[row - 1, column]:
      row -= 1
    else:
      row, column = row - 1, column - 1
      pairs.append((row, column))
  return pairs[::-1]


def _match_partial_sentences(
  sentences: Sequence[TextUnit],
  clauses: Sequence[TextUnit],
  pairs: Sequence[tuple[int, int]],
) -> Iterator[EventMatch]:
  """Yields matches of entries that print only some words of a sentence.

  The sentence is looked for from the match before to the match after.
  """
  matched_locations = {clauses[m].position.location for _, m in pairs}
  matched_clauses = [m for _, m in pairs]
  for m, clause in enumerate(clauses):
    if clause.rank < 2 or clause.position.location in matched_locations:
      continue
    next_pair = bisect.bisect(matched_clauses, m)
    first = pairs[next_pair - 1][0] if next_pair else 0
    last = pairs[next_pair][0] if next_pair < len(pairs) else len(sentences) - 1
    nearby_sentences = sentences[first : last + 1]
    clause_text = clause.clause or clause.text
    sentence_texts = [
      unit.body if clause.clause else unit.text for unit in nearby_sentences
    ]
    scores = [
      fuzz.partial_ratio(clause_text, sentence_text)
      if len(clause_text) <= len(sentence_text)
      else 0
      for sentence_text in sentence_texts
    ]
    score = max(scores)
    if score >= _MIN_PARTIAL_SIMILARITY:
      position = nearby_sentences[scores.index(score)].position
      yield EventMatch(position, clause.position, round(score) / 100)
