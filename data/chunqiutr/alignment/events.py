"""Events: which passages tell of which sentence of the annals.

Why: the annals have one sentence for an event, 公羊 and 穀梁 print it again
with their commentary, 左傳 tells it in its own words. What belongs together is
found by comparing wording, never months, so that the months of the four works
can be checked against one another (`cross_check`). All four run through a
reign in the same order, so the best matches that stand in order are taken.
Called by `records`.

Axes: N sentences of the annals, M clauses of a tradition, in one reign.

Source: ChunQiuTR Figure 5 (versions), section 6.3 (events of a month).
"""

from __future__ import annotations

import bisect
import collections
import dataclasses
import itertools
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import numpy as np
from rapidfuzz import fuzz, process

from ctd_jax.chronology import annals
from ctd_jax.chronology.timelines import TimeKey
from ctd_jax_datasets.chunqiutr import base_texts
from ctd_jax_datasets.chunqiutr.alignment import text_alignment

# A passage is told by the clause it begins with; more is not compared.
_MAX_PASSAGE_CHARS = 120
# Least likeness (0-100) of a clause, of a sentence and of the opening of an
# entry. The exegetic works print the annals' own words, mostly as the opening;
# 左傳 has other titles and other verbs.
_EXEGETIC_MIN_SIMILARITY = (80, 60, 40)
_NARRATIVE_MIN_SIMILARITY = (50, 50, 50)
_MIN_SIMILARITY = {
  base_texts.GONGYANG: _EXEGETIC_MIN_SIMILARITY,
  base_texts.GULIANG: _EXEGETIC_MIN_SIMILARITY,
  base_texts.ZUOZHUAN: _NARRATIVE_MIN_SIMILARITY,
}
# Least likeness of a passage of 左傳 that stands in the month of an event, and
# least characters of that event: two are soon alike.
_MIN_SIMILARITY_IN_MONTH, _MIN_CHARS = 40, 3
EXEGETIC = (base_texts.GONGYANG, base_texts.GULIANG)
# Likeness at which a match counts nothing, and what a sentence (once) or the
# opening of an entry (twice) counts more than a clause.
_ZERO_WEIGHT_SIMILARITY, _OPENING_BONUS = 39, 5
# 左傳 may begin to tell in the year before, or end in the year after.
_MAX_YEARS_APART = 1
# An entry without a match of its own may print a part of a sentence.
_MIN_PARTIAL_SIMILARITY = 80
_CLAUSE_ENDS = annals.SENTENCE_ENDS + "，、："
# 左傳 quotes the annals so.
_QUOTES = re.compile("^[故先]?書曰")
# 公羊 writes 邾婁 for 邾.
_NAME_VARIANTS = {"邾婁": "邾"}


@dataclasses.dataclass(frozen=True)
class TextPosition:
  """Where a sentence or clause begins.

  Attributes:
    location: `file:line` of its entry, which names the entry.
    start: its first character in the entry's text.
  """

  location: str
  start: int


@dataclasses.dataclass(frozen=True)
class EventMatch:
  """A sentence of the annals and the passage that tells of it.

  Attributes:
    annals: the sentence.
    tradition: the clause.
    score: likeness of the wording, 0 to 1.
  """

  annals: TextPosition
  tradition: TextPosition
  score: float


@dataclasses.dataclass(frozen=True)
class DatedSegment:
  """A record of a base text before it has an id.

  Attributes:
    source: of its entry.
    text: an entry or a part of it.
    key: month.
    position: where it begins.
  """

  source: str
  text: str
  key: TimeKey
  position: TextPosition


@dataclasses.dataclass(frozen=True)
class _Unit:
  """A sentence or clause, and what is compared of it.

  Attributes:
    position: where it begins.
    year: of its entry, None if the edition does not number years.
    rank: 2 if it opens an entry, 1 a sentence, 0 a clause.
    text: folded from here on; of the annals only the sentence.
    body: the same without an opening date.
    clause: the first clause of `body`.
  """

  position: TextPosition
  year: int | None
  rank: int
  text: str
  body: str
  clause: str


def match_events(
  chronicle: Sequence[base_texts.Entry], tradition: Sequence[base_texts.Entry]
) -> list[EventMatch]:
  """Returns the matches of one tradition, in order.

  Args:
    chronicle: entries of the annals.
    tradition: entries of one other work.

  Returns:
    Matches in order of both works, one for a sentence and one for a clause
    at most; for each reign then those of entries of 公羊 and 穀梁 that print a
    part of a sentence.
  """
  matches = []
  for reign in sorted({entry.reign for entry in chronicle}):
    sentences = [
      unit
      for entry in chronicle
      if entry.reign == reign
      for unit in _split_units(entry.text, entry.location, entry.year)
    ]
    clauses = [
      unit
      for entry in tradition
      if entry.reign == reign
      for unit in _split_units(entry.text, entry.location, entry.year, True)
    ]
    if not clauses:
      continue
    source = tradition[0].source
    similarity = _compute_similarity(sentences, clauses)
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


def cut_entries(
  entries: Sequence[base_texts.Entry],
  matches: Mapping[str, Iterable[EventMatch]],
) -> list[tuple[base_texts.Entry, list[int]]]:
  """Returns every entry and the characters at which its events begin.

  The editions of the annals divide it in three ways. An entry that tells of
  several events is cut where another edition of the same words begins an
  entry, if a sentence begins there: 經 where 公羊 or 穀梁 do, these where 經
  does. What is commentary stays with the sentence it follows. 左傳 is left.

  Args:
    entries: of all base texts.
    matches: tradition -> its matches.
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
    # Before the first match there is no other event.
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
  """Returns the event of each part and its month: equal pairs, one version.

  Args:
    segments: of all base texts.
    matches: tradition -> its matches.

  Returns:
    (index of the part of the annals that tells of the same event, own month)
    for each part; its own index if there is none. A part that tells of
    several events goes to the likest of its own month.
  """
  candidates = collections.defaultdict(list)
  for tradition_matches in matches.values():
    for match, event, segment in locate_matches(segments, tradition_matches):
      candidates[segment].append((match.score, event))
  for segment, event in _match_within_months(segments, candidates):
    candidates[segment].append((0.0, event))
  event_keys = []
  for index, segment in enumerate(segments):
    # The likest, of the same month if there is one; then the first.
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
  """Returns [(part of 左傳 not in `matched_segments`, likest event of its month)].

  Where the month is the same, less likeness is enough.
  """
  units_by_month = collections.defaultdict(list)
  for index, segment in enumerate(segments):
    if segment.source == base_texts.ANNALS:
      units_by_month[segment.key] += [
        (unit, index)
        for unit in _split_units(segment.text, segment.position.location)
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
      _split_units(segment.text, segment.position.location, clauses=True)
    )
    similarity = _compute_similarity(
      [unit for unit, _ in month_units], passages
    ).max(axis=1)
    best_index = int(similarity.argmax())
    if similarity[best_index] >= _MIN_SIMILARITY_IN_MONTH:
      best_events.append((index, month_units[best_index][1]))
  return best_events


def _split_units(
  text: str, location: str, year: int | None = None, clauses: bool = False
) -> Iterator[_Unit]:
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
    yield _Unit(
      TextPosition(location, start),
      year,
      2 if start == 0 else int(is_sentence_start(start)),
      _fold_names(passage),
      _fold_names(body),
      _fold_names(body[: min(ends, default=None)]),
    )


def _fold_names(text: str) -> str:
  text = text_alignment.fold_text(text)
  for name, standard_name in _NAME_VARIANTS.items():
    text = text.replace(name, standard_name)
  return text


def _compute_similarity(
  sentences: Sequence[_Unit], clauses: Sequence[_Unit]
) -> np.ndarray:
  """Returns how like each clause is to each sentence, 0-100, as [N, M].

  A sentence is compared with as many characters from where the clause begins,
  and with the clause alone. Dates are compared only if the sentence is one.
  """
  similarity = np.zeros((len(sentences), len(clauses)), np.int32)
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
  similarity: np.ndarray,
  sentences: Sequence[_Unit],
  clauses: Sequence[_Unit],
  min_similarity: Sequence[int],
) -> np.ndarray:
  """Returns what each pair counts, [N, M]; 0 if it is none.

  Args:
    similarity: [N, M].
    sentences: of the annals.
    clauses: of a tradition.
    min_similarity: likeness by rank, below which a pair is none.
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


def best_chain(weights: np.ndarray) -> list[tuple[int, int]]:
  """Returns the pairs, both members increasing, with the greatest sum.

  Args:
    weights: integers [N, M]; pairs worth 0 or less are not taken.
  """
  rows, columns = weights.shape
  best_sums = np.zeros((rows + 1, columns + 1), np.int64)
  for row in range(rows):
    sums = best_sums[row, :-1] + np.maximum(weights[row], 0)
    best_sums[row + 1, 1:] = np.maximum.accumulate(
      np.maximum(sums, best_sums[row, 1:])
    )
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
  sentences: Sequence[_Unit],
  clauses: Sequence[_Unit],
  pairs: Sequence[tuple[int, int]],
) -> Iterator[EventMatch]:
  """Yields matches of entries that print only a part of a sentence.

  The sentence is one of those from the match before to the match after.
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


def locate_matches(
  segments: Sequence[DatedSegment], matches: Iterable[EventMatch]
) -> Iterator[tuple[EventMatch, int, int]]:
  """Yields (match, index of its part of the annals, of the tradition)."""
  starts_by_location = collections.defaultdict(list)
  for index, tradition_index in enumerate(segments):
    starts_by_location[tradition_index.position.location].append(
      (tradition_index.position.start, index)
    )

  def find_segment(position: TextPosition) -> int | None:
    starts = starts_by_location[position.location]
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
