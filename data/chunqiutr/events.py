"""Events: segments of the four base texts about one matter in one month.

Sentences of the annals are matched with clauses of a tradition by the
similarity of their words; the best chain of matches keeps the order of both. An
entry is cut where such an event begins, and segments of one event and month
share a version.

Axes: N sentences of the annals, M clauses of a tradition.
"""

import bisect
import collections
import dataclasses
import itertools
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import numpy as np
from jaxtyping import Int
from rapidfuzz import fuzz, process

from ctd_jax.chronology import annals
from ctd_jax.chronology.reigns import TimeKey
from ctd_jax_datasets.chunqiutr import base_texts, text_alignment

# Its opening clause identifies a passage; longer text only costs time.
_MAX_PASSAGE_CHARS = 120
_CLAUSE_ENDS = annals.SENTENCE_ENDS + "，、："
# 左傳 quotes the annals so.
_QUOTES = re.compile("^[故先]?書曰")


@dataclasses.dataclass(frozen=True)
class TextPosition:
  """Start of a sentence or clause."""

  location: str  # `file:line` of its entry, which names the entry
  start: int  # its first character in the entry's text


@dataclasses.dataclass(frozen=True)
class TextUnit:
  """A sentence or clause, and what is compared of it."""

  position: TextPosition
  year: int | None  # of its entry, None if the edition does not number years
  rank: int  # 2 if it opens an entry, 1 a sentence, 0 a clause
  text: str  # folded from here on; of the annals only the sentence
  body: str  # the same without an opening date
  clause: str  # the first clause of `body`


def split_units(
  text: str, location: str, year: int | None = None, clauses: bool = False
) -> Iterator[TextUnit]:
  """Yields the sentences of an entry, or all its clauses."""
  is_sentence_start = annals.make_sentence_start_test(text)
  is_unit_start = (
    annals.make_sentence_start_test(text, _CLAUSE_ENDS)
    if clauses
    else is_sentence_start
  )
  starts = [0, *filter(is_unit_start, range(1, len(text)))]
  for start, end in itertools.pairwise([*starts, len(text)]):
    passage = (
      text[start : start + _MAX_PASSAGE_CHARS] if clauses else text[start:end]
    )
    cues = annals.find_opening_cues(passage)
    body = passage[cues[-1].end if cues else 0 :].lstrip(_CLAUSE_ENDS)
    body = _QUOTES.sub("", body)
    ends = [body.find(mark) for mark in _CLAUSE_ENDS if mark in body]
    yield TextUnit(
      TextPosition(location, start),
      year,
      2 if start == 0 else int(is_sentence_start(start)),
      # 公羊 writes 邾婁 for 邾.
      *(
        text_alignment.fold_text(words).replace("邾婁", "邾")
        for words in (passage, body, body[: min(ends, default=None)])
      ),
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
  """A sentence of the annals and the passage that tells of it."""

  annals: TextPosition
  tradition: TextPosition
  score: float  # similarity of the wording, 0 to 1


def match_events(
  chronicle: Sequence[base_texts.Entry], tradition: Sequence[base_texts.Entry]
) -> list[EventMatch]:
  """Returns the matches of one tradition, at most one for a sentence or clause.

  They follow the order of both works; after those of a reign come the entries
  of 公羊 and 穀梁 that print only some words of a sentence.
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

  A sentence is compared with the same number of characters from the start of
  the clause, and with the clause alone. Dates are compared only if the sentence
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
  """Returns the weight of each pair, 0 if the two cannot be a match."""
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
  """Returns the pairs with the greatest sum, both members increasing.

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
  """Yields matches of entries that print only some words of a sentence."""
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


# Least similarity (0-100) of a passage of 左傳 to an event of the same month;
# below that, the wording belongs to another event.
_MIN_SIMILARITY_IN_MONTH = 40
_MIN_CHARS = 3  # of an event; two characters are similar by chance


@dataclasses.dataclass(frozen=True)
class DatedSegment:
  """A record of a base text before it has an id."""

  source: str
  text: str  # an entry or a piece of it
  key: TimeKey
  position: TextPosition


def cut_entries(
  entries: Sequence[base_texts.Entry],
  matches: Mapping[str, Iterable[EventMatch]],
) -> list[tuple[base_texts.Entry, list[int]]]:
  """Returns every entry with the positions at which its events begin.

  The editions of the annals divide it in three ways. An entry that tells of
  several events is cut where another edition of the same words begins an entry,
  if a sentence begins there: 經 where 公羊 or 穀梁 do, these where 經 does.
  Commentary stays with the sentence it follows. 左傳 is not cut.
  """
  starts = collections.defaultdict(set)
  for entry in entries:
    starts[entry.location].add(0)
  exegetic_matches = [
    match for work in EXEGETIC for match in matches.get(work, ())
  ]
  for match in exegetic_matches:
    if match.tradition.start == 0:
      starts[match.annals.location].add(match.annals.start)
  texts = {entry.location: entry.text for entry in entries}
  matches_by_location = collections.defaultdict(list)
  for match in exegetic_matches:
    matches_by_location[match.tradition.location].append(match)
  for location, location_matches in matches_by_location.items():
    is_sentence_start = annals.make_sentence_start_test(texts[location])
    # Text before the first match belongs to its event, so no cut there.
    for match in sorted(
      location_matches, key=lambda match: match.tradition.start
    )[1:]:
      is_entry_start = match.annals.start in starts[match.annals.location]
      if is_entry_start and is_sentence_start(match.tradition.start):
        starts[location].add(match.tradition.start)
  return [(entry, sorted(starts[entry.location])) for entry in entries]


def group_events(
  segments: Sequence[DatedSegment], matches: Mapping[str, Iterable[EventMatch]]
) -> list[tuple[int, TimeKey]]:
  """Returns (event, month) of each segment; equal pairs are one version.

  The event is the index of the segment of the annals that tells of it, its own
  if there is none. A segment about several events goes to the most similar one
  of its own month.
  """
  candidates = collections.defaultdict(list)
  for tradition_matches in matches.values():
    for match, event, segment in locate_matches(segments, tradition_matches):
      candidates[segment].append((match.score, event))
  for segment, event in _match_within_months(segments, candidates):
    candidates[segment].append((0.0, event))
  event_keys = []
  for index, segment in enumerate(segments):
    # The most similar event, of the same month if there is one; ties go to
    # the first. Score 1 keeps a segment without candidates with itself.
    event = max(
      candidates[index],
      key=lambda candidate: (
        segments[candidate[1]].key == segment.key,
        candidate[0],
        -candidate[1],
      ),
      default=(1, index),
    )[1]
    event_keys.append((event, segment.key))
  return event_keys


def _match_within_months(
  segments: Sequence[DatedSegment], matched_segments: Collection[int]
) -> list[tuple[int, int]]:
  """Returns (segment of 左傳, most similar event of its month) pairs."""
  units_by_month = collections.defaultdict(list)
  for index, segment in enumerate(segments):
    if segment.source == base_texts.ANNALS:
      units_by_month[segment.key] += [
        (unit, index)
        for unit in split_units(segment.text, segment.position.location)
        if len(unit.body) >= _MIN_CHARS
      ]
  best_events = []
  for index, segment in enumerate(segments):
    month_units = units_by_month[segment.key]
    if (
      segment.source != base_texts.ZUOZHUAN
      or index in matched_segments
      or not month_units
    ):
      continue
    passages = list(
      split_units(segment.text, segment.position.location, clauses=True)
    )
    similarity = compute_similarity(
      [unit for unit, _ in month_units], passages
    ).max(axis=1)
    best_index = int(similarity.argmax())
    if similarity[best_index] >= _MIN_SIMILARITY_IN_MONTH:
      best_events.append((index, month_units[best_index][1]))
  return best_events


def locate_matches(
  segments: Sequence[DatedSegment], matches: Iterable[EventMatch]
) -> Iterator[tuple[EventMatch, int, int]]:
  """Yields (match, index of its segment of the annals, of the tradition)."""
  starts_by_location = collections.defaultdict(list)
  for index, segment in enumerate(segments):
    starts_by_location[segment.position.location].append(
      (segment.position.start, index)
    )

  def find_segment(position: TextPosition) -> int | None:
    starts = starts_by_location[position.location]
    # Starts of an entry rise, so the segment is the last one not after it.
    insertion_index = bisect.bisect(
      starts, position.start, key=lambda start_and_index: start_and_index[0]
    )
    return starts[insertion_index - 1][1] if insertion_index else None

  for match in matches:
    annals_index, tradition_index = (
      find_segment(match.annals),
      find_segment(match.tradition),
    )
    if annals_index is not None and tradition_index is not None:
      yield match, annals_index, tradition_index
