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
from ctd_jax_datasets.chunqiutr import alignment, sources

# A passage is told by the clause it begins with; more is not compared.
_RUNNING = 120
# Least likeness (0-100) of a clause, of a sentence and of the opening of an
# entry. The exegetic works print the annals' own words, mostly as the opening;
# 左傳 has other titles and other verbs.
_PRINTED_AGAIN = (80, 60, 40)
_TOLD_ANEW = (50, 50, 50)
_LEAST = {
  sources.GONGYANG: _PRINTED_AGAIN,
  sources.GULIANG: _PRINTED_AGAIN,
  sources.ZUOZHUAN: _TOLD_ANEW,
}
# Least likeness of a passage of 左傳 that stands in the month of an event, and
# least characters of that event: two are soon alike.
_LEAST_IN_MONTH, _LEAST_CHARACTERS = 40, 3
EXEGETIC = (sources.GONGYANG, sources.GULIANG)
# Likeness at which a match counts nothing, and what a sentence (once) or the
# opening of an entry (twice) counts more than a clause.
_WORTHLESS, _OPENING_BONUS = 39, 5
# 左傳 may begin to tell in the year before, or end in the year after.
_YEARS_APART = 1
# An entry without a match of its own may print a part of a sentence.
_LEAST_OF_PART = 80
_CLAUSE_ENDS = annals.SENTENCE_ENDS + "，、："
# 左傳 quotes the annals so.
_QUOTES = re.compile("^[故先]?書曰")
# 公羊 writes 邾婁 for 邾.
_OTHER_NAMES = {"邾婁": "邾"}


@dataclasses.dataclass(frozen=True)
class Spot:
  """Where a sentence or clause begins.

  Attributes:
    place: `file:line` of its entry, which names the entry.
    start: its first character in the entry's text.
  """

  place: str
  start: int


@dataclasses.dataclass(frozen=True)
class Match:
  """A sentence of the annals and the passage that tells of it.

  Attributes:
    annals: the sentence.
    tradition: the clause.
    score: likeness of the wording, 0 to 1.
  """

  annals: Spot
  tradition: Spot
  score: float


@dataclasses.dataclass(frozen=True)
class Part:
  """A record of a base text before it has an id.

  Attributes:
    source: of its entry.
    text: an entry or a part of it.
    key: month.
    spot: where it begins.
  """

  source: str
  text: str
  key: TimeKey
  spot: Spot


@dataclasses.dataclass(frozen=True)
class _Unit:
  """A sentence or clause, and what is compared of it.

  Attributes:
    spot: where it begins.
    year: of its entry, None if the edition does not number years.
    rank: 2 if it opens an entry, 1 a sentence, 0 a clause.
    text: folded from here on; of the annals only the sentence.
    body: the same without an opening date.
    clause: the first clause of `body`.
  """

  spot: Spot
  year: int | None
  rank: int
  text: str
  body: str
  clause: str


def match(
  chronicle: Sequence[sources.Entry], tradition: Sequence[sources.Entry]
) -> list[Match]:
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
      for unit in _units(entry.text, entry.place, entry.year)
    ]
    clauses = [
      unit
      for entry in tradition
      if entry.reign == reign
      for unit in _units(entry.text, entry.place, entry.year, True)
    ]
    if not clauses:
      continue
    source = tradition[0].source
    likeness = _likeness(sentences, clauses)
    pairs = best_chain(_worth(likeness, sentences, clauses, _LEAST[source]))
    matches += [
      Match(sentences[n].spot, clauses[m].spot, int(likeness[n, m]) / 100)
      for n, m in pairs
    ]
    if source in EXEGETIC:
      matches += _match_parts(sentences, clauses, pairs)
  return matches


def cut(
  entries: Sequence[sources.Entry], matches: Mapping[str, Iterable[Match]]
) -> list[tuple[sources.Entry, list[int]]]:
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
    starts[entry.place].add(0)
  printed = [pair for work in EXEGETIC for pair in matches.get(work, ())]
  for pair in printed:
    if pair.tradition.start == 0:
      starts[pair.annals.place].add(pair.annals.start)
  texts = {entry.place: entry.text for entry in entries}
  inside = collections.defaultdict(list)
  for pair in printed:
    inside[pair.tradition.place].append(pair)
  for place, pairs in inside.items():
    opens = annals.sentence_openings(texts[place])
    # Before the first match there is no other event.
    for pair in sorted(pairs, key=lambda pair: pair.tradition.start)[1:]:
      begins = pair.annals.start in starts[pair.annals.place]
      if begins and opens(pair.tradition.start):
        starts[place].add(pair.tradition.start)
  return [(entry, sorted(starts[entry.place])) for entry in entries]


def group(
  parts: Sequence[Part], matches: Mapping[str, Iterable[Match]]
) -> list[tuple[int, TimeKey]]:
  """Returns the event of each part and its month: equal pairs, one version.

  Args:
    parts: of all base texts.
    matches: tradition -> its matches.

  Returns:
    (index of the part of the annals that tells of the same event, own month)
    for each part; its own index if there is none. A part that tells of
    several events goes to the likest of its own month.
  """
  told = collections.defaultdict(list)
  for pairs in matches.values():
    for pair, event, part in pairs_of_parts(parts, pairs):
      told[part].append((pair.score, event))
  for part, event in _likest_of_month(parts, told):
    told[part].append((0.0, event))
  found = []
  for index, part in enumerate(parts):
    # The likest, of the same month if there is one; then the first.
    event = max(
      told[index],
      key=lambda one: (parts[one[1]].key == part.key, one[0], -one[1]),
      default=(1, index),
    )[1]
    found.append((event, part.key))
  return found


def _likest_of_month(
  parts: Sequence[Part], told: Collection[int]
) -> list[tuple[int, int]]:
  """Returns [(part of 左傳 not in `told`, likest event of its month)].

  Where the month is the same, less likeness is enough.
  """
  months = collections.defaultdict(list)
  for index, part in enumerate(parts):
    if part.source == sources.ANNALS:
      months[part.key] += [
        (unit, index)
        for unit in _units(part.text, part.spot.place)
        if len(unit.body) >= _LEAST_CHARACTERS
      ]
  likest_events = []
  for index, part in enumerate(parts):
    here = months[part.key]
    if part.source != sources.ZUOZHUAN or index in told or not here:
      continue
    passages = list(_units(part.text, part.spot.place, clauses=True))
    likeness = _likeness([unit for unit, _ in here], passages).max(axis=1)
    likest = int(likeness.argmax())
    if likeness[likest] >= _LEAST_IN_MONTH:
      likest_events.append((index, here[likest][1]))
  return likest_events


def _units(
  text: str, place: str, year: int | None = None, clauses: bool = False
) -> Iterator[_Unit]:
  """Yields the sentences of an entry, or all its clauses."""
  opens = annals.sentence_openings(text)
  begins = annals.sentence_openings(text, _CLAUSE_ENDS) if clauses else opens
  starts = [0, *filter(begins, range(1, len(text)))]
  for start, end in itertools.pairwise([*starts, len(text)]):
    running = text[start : start + _RUNNING] if clauses else text[start:end]
    cues = annals.opening_cues(running)
    body = running[cues[-1].end if cues else 0 :].lstrip(_CLAUSE_ENDS)
    body = _QUOTES.sub("", body)
    ends = [body.find(mark) for mark in _CLAUSE_ENDS if mark in body]
    yield _Unit(
      Spot(place, start),
      year,
      2 if start == 0 else int(opens(start)),
      _fold(running),
      _fold(body),
      _fold(body[: min(ends, default=None)]),
    )


def _fold(text: str) -> str:
  text = alignment.fold(text)
  for name, other in _OTHER_NAMES.items():
    text = text.replace(name, other)
  return text


def _likeness(
  sentences: Sequence[_Unit], clauses: Sequence[_Unit]
) -> np.ndarray:
  """Returns how like each clause is to each sentence, 0-100, as [N, M].

  A sentence is compared with as many characters from where the clause begins,
  and with the clause alone. Dates are compared only if the sentence is one.
  """
  likeness = np.zeros((len(sentences), len(clauses)), np.int32)
  by_length = collections.defaultdict(list)
  for row, sentence in enumerate(sentences):
    wording = sentence.body or sentence.text
    by_length[len(wording), bool(sentence.body)].append((row, wording))
  for (length, has_body), found in by_length.items():
    rows, wordings = zip(*found, strict=True)
    choices = [
      [(unit.body if has_body else unit.text)[:length] for unit in clauses]
    ]
    if has_body:
      choices.append([unit.clause for unit in clauses])
    for others in choices:
      scores = process.cdist(wordings, others, scorer=fuzz.ratio)
      rounded = np.rint(scores).astype(np.int32)
      likeness[list(rows)] = np.maximum(likeness[list(rows)], rounded)
  return likeness


def _worth(
  likeness: np.ndarray,
  sentences: Sequence[_Unit],
  clauses: Sequence[_Unit],
  least: Sequence[int],
) -> np.ndarray:
  """Returns what each pair counts, [N, M]; 0 if it is none.

  Args:
    likeness: [N, M].
    sentences: of the annals.
    clauses: of a tradition.
    least: likeness by rank, below which a pair is none.
  """
  ranks = np.array([clause.rank for clause in clauses])
  # Where an edition does not number years, NaN is never too far apart.
  here, there = (
    np.array([unit.year for unit in units], float)
    for units in (sentences, clauses)
  )
  unlike = likeness < np.array(least)[ranks]
  apart = np.abs(here[:, None] - there[None, :]) > _YEARS_APART
  worth = likeness - _WORTHLESS + _OPENING_BONUS * ranks
  return np.where(unlike | apart, 0, worth)


def best_chain(worth: np.ndarray) -> list[tuple[int, int]]:
  """Returns the pairs, both members increasing, with the greatest sum.

  Args:
    worth: integers [N, M]; pairs worth 0 or less are not taken.
  """
  rows, columns = worth.shape
  best = np.zeros((rows + 1, columns + 1), np.int64)
  for row in range(rows):
    taken = best[row, :-1] + np.maximum(worth[row], 0)
    best[row + 1, 1:] = np.maximum.accumulate(np.maximum(taken, best[row, 1:]))
  pairs = []
  row, column = rows, columns
  while row and column:
    if best[row, column] == best[row, column - 1]:
      column -= 1
    elif best[row, column] == best[row - 1, column]:
      row -= 1
    else:
      row, column = row - 1, column - 1
      pairs.append((row, column))
  return pairs[::-1]


def _match_parts(
  sentences: Sequence[_Unit],
  clauses: Sequence[_Unit],
  pairs: Sequence[tuple[int, int]],
) -> Iterator[Match]:
  """Yields matches of entries that print only a part of a sentence.

  The sentence is one of those from the match before to the match after.
  """
  taken = {clauses[m].spot.place for _, m in pairs}
  matched = [m for _, m in pairs]
  for m, clause in enumerate(clauses):
    if clause.rank < 2 or clause.spot.place in taken:
      continue
    after = bisect.bisect(matched, m)
    first = pairs[after - 1][0] if after else 0
    last = pairs[after][0] if after < len(pairs) else len(sentences) - 1
    near = sentences[first : last + 1]
    part = clause.clause or clause.text
    wholes = [unit.body if clause.clause else unit.text for unit in near]
    scores = [
      fuzz.partial_ratio(part, whole) if len(part) <= len(whole) else 0
      for whole in wholes
    ]
    score = max(scores)
    if score >= _LEAST_OF_PART:
      spot = near[scores.index(score)].spot
      yield Match(spot, clause.spot, round(score) / 100)


def pairs_of_parts(
  parts: Sequence[Part], matches: Iterable[Match]
) -> Iterator[tuple[Match, int, int]]:
  """Yields (match, index of its part of the annals, of the tradition)."""
  inside = collections.defaultdict(list)
  for index, part in enumerate(parts):
    inside[part.spot.place].append((part.spot.start, index))

  def part_at(spot: Spot) -> int | None:
    known = inside[spot.place]
    found = bisect.bisect(known, spot.start, key=lambda one: one[0])
    return known[found - 1][1] if found else None

  for pair in matches:
    event, part = part_at(pair.annals), part_at(pair.tradition)
    if event is not None and part is not None:
      yield pair, event, part
