"""Ranks the records of an index by time, by words, or by both.

The score for a time is that of the dating systems in evaluation: the log of a
record's mass in the months asked for, plus the log chance that texts of its
kind answer. Words add `WORD_WEIGHT` times a score in 0..1: a record with
the words equals one without that is exp(WORD_WEIGHT) times as probable. With
vectors, that score is a weighted mean of words and cosine.

Axes: n records of a work, k results.
"""

from __future__ import annotations

import dataclasses
import functools
import pathlib
import re
import sqlite3
from collections.abc import Collection, Mapping, Sequence

import numpy as np
from jaxtyping import Bool, Float, Float32, Int64

from ctd_jax.dating import posterior, query_posterior
from ctd_jax.index import database, posteriors
from ctd_jax.index.manifest import DamagedIndexError
from ctd_jax.index.vectors import DENSE_WEIGHT, NearRecords
from ctd_jax.retrieval import host_search

# Search for words. 「日食」 should find 「日有食之」, which does not print the
# phrase, so the steps get looser until enough is found: the phrases as they
# are; the characters of each near each other; all of the characters; any two
# neighbours. Within a step BM25 is scaled by the best of the step, so that
# scores mean the same in every question: 1 for the best record with the
# phrases, 0 for one with nothing.


# Score of the best record of each step. Chosen on validation questions, see
# docs/guides/ask.md.
STEP_WEIGHTS = (1.0, 0.7, 0.5, 0.3)
# Characters that may stand between the characters of a phrase: 日有食之.
_MAX_APART = 3
# Of each step of a ranking. With a time, its records are searched too.
MAX_MATCHES = 500
ALL = -1  # as many as there are, for SQLite
EXACT = slice(0, 1)  # the step that wants the words as they are
_TOKEN = re.compile(r"\w+")
_MAX_PAIRS = 64  # of neighbours; a long question repeats itself


def search_words(
  connection: sqlite3.Connection,
  words: Sequence[str],
  k: int | None,
  works: Sequence[database.IndexedWork] | None = None,
  months: tuple[int, int] | None = None,
  steps: slice = slice(None),
) -> dict[int, float]:
  """Returns the records that have the words, as row -> score in 0..1.

  Args:
    k: number of records wanted; with fewer, looser matches are added. None for
      all records of all steps.
    months: first and last; the record's best month must be between them.
    steps: which of the steps to search.
  """
  scores: dict[int, float] = {}
  queries = list(zip(STEP_WEIGHTS, make_steps(words), strict=True))
  for weight, match in queries[steps]:
    if (k is not None and len(scores) >= k) or not match:
      break
    limit = ALL if k is None else MAX_MATCHES
    found = database.search_match(connection, match, limit, works, months)
    rows, values = np.array(found or np.zeros((0, 2))).T
    # A character that nearly all records have scores about 0.
    best = values.max(initial=0.0)
    shares = np.maximum(values / best, 1e-3) if best > 0 else values * 0 + 1
    scores = (
      dict(
        zip(rows.astype(int).tolist(), (weight * shares).tolist(), strict=True)
      )
      | scores
    )
  return scores


def find_parts(
  connection: sqlite3.Connection, words: Sequence[str]
) -> list[int]:
  """Returns the rows of all records that any step finds."""
  exact, _, characters, pairs = make_steps(words)
  # The last two find whatever the first two do.
  if characters in ("", exact):
    return []
  return database.match_rows(connection, f"({characters}) OR ({pairs})")


def make_steps(words: Sequence[str]) -> list[str]:
  """Returns the FTS5 queries for phrases, ever looser; "" without a token."""
  tokens = [_TOKEN.findall(database.split_tokens(word)) for word in words]
  phrases = [phrase for phrase in tokens if phrase]
  quote = database.quote_phrase
  # A character said twice may be found once, and costs as much each time.
  near = [
    f"NEAR({' '.join(quote(token) for token in dict.fromkeys(phrase))}, "
    f"{_MAX_APART + len(phrase) - 2})"
    for phrase in phrases
  ]
  pairs = [
    quote(*phrase[start : start + 2])
    for phrase in phrases
    for start in range(max(len(phrase) - 1, 1))
  ]
  steps = (
    [quote(*phrase) for phrase in phrases],
    near,
    [quote(token) for phrase in phrases for token in phrase],
  )
  return [
    *(" AND ".join(dict.fromkeys(groups)) for groups in steps),
    " OR ".join(list(dict.fromkeys(pairs))[:_MAX_PAIRS]),
  ]


def find_highlights(words: Sequence[str], text: str) -> list[tuple[int, int]]:
  """Returns the positions of words in a text, or of their characters."""
  spans = []
  for word in words:
    spans += (
      database.find_spans([word], text)
      or database.find_spans(
        [word[start : start + 2] for start in range(len(word) - 1)], text
      )
      or database.find_spans(list(word), text)
    )
  return merge_spans(spans)


def merge_spans(spans: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
  """Returns spans in order, joined if they touch."""
  merged: list[tuple[int, int]] = []
  for start, end in sorted(spans):
    if merged and start <= merged[-1][1]:
      merged[-1] = merged[-1][0], max(end, merged[-1][1])
    else:
      merged.append((start, end))
  return merged


# Weight of records from the months before an era began, in its first year.
_LATE_WEIGHT = 0.01
# Nats; chosen on validation questions, see docs/results/appendix.md.
WORD_WEIGHT = 12.0
# For a record of the month that does not print the day asked for.
_LOG_OTHER_DAY = -float(np.log(30))


@dataclasses.dataclass(frozen=True)
class TimeQuery:
  """The months that a question asks for."""

  # First and last month; disjoint, ascending.
  spans: tuple[tuple[int, int], ...]
  # Factor of each month's mass, because not every month has a given day; 1 if
  # None.
  month_weights: Float[np.ndarray, " K"] | None = None
  # Months of `spans` that rank last: in the right year, before its era began.
  late_spans: tuple[tuple[int, int], ...] = ()

  @classmethod
  def make(
    cls,
    spans: Sequence[tuple[int, int]],
    month_weights: Float[np.ndarray, " K"] | None = None,
    late_spans: Sequence[tuple[int, int]] = (),
  ) -> TimeQuery:
    """Returns the query of spans that may overlap."""
    merged = merge_spans([(first, last + 1) for first, last in spans])
    return cls(
      tuple((first, end - 1) for first, end in merged),
      month_weights,
      tuple(late_spans),
    )

  @property
  def num_months(self) -> int:
    """Number of months asked for."""
    return sum(last - first + 1 for first, last in self.spans)

  @property
  def hull(self) -> tuple[int, int]:
    """First and last of all months."""
    return self.spans[0][0], self.spans[-1][1]


@dataclasses.dataclass(frozen=True)
class RankedRecord:
  """A record with its scores."""

  row: int
  score: float
  mass: float | None = None  # probability of the months asked for
  kind_log_p: float = 0.0  # log p(answering kind | text), floored
  word_score: float | None = None  # 0..1; None without words
  dense_score: float | None = None  # 0..1; None without vectors
  cosine: float | None = None  # of record and words; None without vectors
  is_near: bool = False  # has only parts of the words


@dataclasses.dataclass(frozen=True, eq=False)
class Ranking:
  """Records with their scores, as columns: the fields of `RankedRecord`."""

  columns: Mapping[str, np.ndarray]

  @classmethod
  def join(cls, parts: Sequence[Mapping[str, np.ndarray]]) -> Ranking:
    """Returns the records of several works in order of their rows."""
    if not parts:
      empty = np.zeros(0)
      return cls({"row": empty.astype(np.int64), "score": empty, "mass": empty})
    columns = {
      name: np.concatenate([it[name] for it in parts]) for name in parts[0]
    }
    joined = cls(columns)
    # A work that was replaced has later rows than those after it.
    is_in_order = (np.diff(joined.rows) > 0).all()
    return joined if is_in_order else joined.take(np.argsort(joined.rows))

  def __len__(self) -> int:
    return len(self.rows)

  @property
  def rows(self) -> Int64[np.ndarray, " n"]:
    """Rows of the records."""
    return self.columns["row"]

  def take(self, places: np.ndarray | slice) -> Ranking:
    """Returns some of the records, in this order; a mask works too."""
    return Ranking({name: it[places] for name, it in self.columns.items()})

  def best(self, k: int) -> Ranking:
    """Returns the k best records; of equal scores, the first."""
    scores = self.columns["score"][None]
    places, _ = host_search.select_top_k(scores, min(k, len(self)))
    return self.take(places[0])

  def records(self) -> list[RankedRecord]:
    """Returns the records one by one."""
    names = list(self.columns)
    values = (it.tolist() for it in self.columns.values())
    return [
      RankedRecord(**dict(zip(names, record, strict=True)))
      for record in zip(*values, strict=True)
    ]


@dataclasses.dataclass(frozen=True, eq=False)
class WorkPosteriors:
  """The posteriors of a work, opened on first use."""

  folder: pathlib.Path  # of the index
  work: database.IndexedWork
  num_months: int  # of the calendar

  @functools.cached_property
  def arrays(self) -> posteriors.PosteriorArrays:
    """The posteriors by record."""
    arrays = posteriors.PosteriorArrays.open(
      self.folder / self.work.folder, self.num_months
    )
    if len(arrays) != self.work.num_records:
      raise DamagedIndexError(
        self.folder / self.work.folder,
        f"damaged, posteriors of {len(arrays)} records where the work has "
        f"{self.work.num_records}",
      )
    return arrays

  @functools.cached_property
  def postings(self) -> posteriors.MonthPostings:
    """The posteriors by month."""
    return posteriors.MonthPostings.open(
      self.folder / self.work.folder, self.work.num_records, self.num_months
    )

  @functools.cached_property
  def kind_log_p(self) -> Float32[np.ndarray, " n"]:
    """log p(answering kind | text), floored for ranking."""
    return np.maximum(self.arrays.event_log_p, query_posterior.MIN_EVENT_LOG_P)

  def find_mass(self, query: TimeQuery) -> Float[np.ndarray, " n"]:
    """Returns every record's probability of the months."""
    return self.postings.sum_mass(query.spans, query.month_weights)

  def score_mass(
    self, mass: Float[np.ndarray, " n"], query: TimeQuery
  ) -> Float[np.ndarray, " n"]:
    """Returns the scores of what `find_mass` returned."""
    if query.late_spans:
      late = self.postings.sum_mass(query.late_spans, query.month_weights)
      mass = mass - (1 - _LATE_WEIGHT) * np.minimum(late, mass)
    impossible = query.num_months * np.exp(posterior.LOG_IMPOSSIBLE)
    return np.log(np.maximum(mass, max(impossible, posterior.MIN_MASS)))

  def find_likeliest(
    self, places: Int64[np.ndarray, " m"], is_asked: Bool[np.ndarray, " K"]
  ) -> tuple[Int64[np.ndarray, " m"], Bool[np.ndarray, " m"]]:
    """Returns each record's most probable month in the question's time.

    Returns:
      Months; the first of the question if a record has none of its own. And
      whether no other month is more probable.
    """
    if is_asked.all():
      months, is_best = self._likeliest
      return months[places], is_best[places]
    return self._find_likeliest(self.arrays.take(places), is_asked)

  @functools.cached_property
  def _likeliest(
    self,
  ) -> tuple[Int64[np.ndarray, " n"], Bool[np.ndarray, " n"]]:
    """Of all records and any time."""
    return self._find_likeliest(self.arrays, np.ones(self.num_months, bool))

  def _find_likeliest(
    self, part: posteriors.PosteriorArrays, is_asked: Bool[np.ndarray, " K"]
  ) -> tuple[Int64[np.ndarray, " m"], Bool[np.ndarray, " m"]]:
    sizes = np.diff(part.starts)
    asked = np.where(is_asked[part.months], part.probabilities, 0)
    months = np.full(len(part), np.argmax(is_asked), np.int64)
    is_best = np.zeros(len(part), bool)
    held = np.flatnonzero(sizes)
    if len(held):
      firsts = part.starts[:-1][held]
      best = np.maximum.reduceat(asked, firsts)
      # The first month of each record that is as probable as its best.
      equal = np.flatnonzero(asked == np.repeat(best, sizes[held]))
      chosen = part.months[equal[np.searchsorted(equal, firsts)]]
      months[held] = np.where(best > 0, chosen, months[held])
      most = np.maximum.reduceat(part.probabilities, firsts)
      is_best[held] = best >= np.maximum(most, part.outside[held])
    return months, is_best


def rank_by_time(
  works: Sequence[WorkPosteriors],
  query: TimeQuery,
  masks: Mapping[int, Bool[np.ndarray, " n"]] | None = None,
  day_rows: Collection[int] | None = None,
  min_mass: float = 0.0,
) -> Ranking:
  """Returns all records with their scores for a time.

  Args:
    masks: work id -> which of its records may be ranked; None for all.
    day_rows: records that print the day asked for.
    min_mass: least probability of the time.
  """
  parts = []
  for work in works:
    mass = work.find_mass(query)
    prints_day = np.ones(len(mass), bool)
    if day_rows is not None:
      prints_day = np.isin(work.work.rows, [*day_rows])
      # A record that prints the day shows that its month has it.
      mass = np.where(prints_day, work.find_mass(TimeQuery(query.spans)), mass)
    is_ranked = mass >= min_mass
    if masks is not None:
      is_ranked &= masks[work.work.work_id]
    scores = work.score_mass(mass, query) + work.kind_log_p
    scores += np.where(prints_day, 0, _LOG_OTHER_DAY)
    places = np.flatnonzero(is_ranked)
    columns = {
      "row": work.work.first_row + places,
      "score": scores[places],
      "mass": mass[places],
      "kind_log_p": work.kind_log_p[places],
    }
    parts.append(columns)
  return Ranking.join(parts)


def rank_by_words(
  works: Sequence[WorkPosteriors],
  word_scores: Mapping[int, float],
  query: TimeQuery | None = None,
  masks: Mapping[int, Bool[np.ndarray, " n"]] | None = None,
  near: NearRecords | None = None,
  dense_weight: float = DENSE_WEIGHT,
) -> Ranking:
  """Returns the records that have words or are near to them, with scores.

  Args:
    word_scores: row -> score in 0..1.
    masks: work id -> which of its records may be ranked; None for all.
    near: nearest records by vector.
    dense_weight: weight of vectors against words, 0..1.
  """
  scores_of_rows = dict.fromkeys(near.rows, 0.0) if near else {}
  scores_of_rows |= word_scores
  all_rows = np.fromiter(scores_of_rows, np.int64, len(scores_of_rows))
  all_words = np.fromiter(scores_of_rows.values(), float, len(all_rows))
  order = np.argsort(all_rows)
  all_rows, all_words = all_rows[order], all_words[order]
  parts = []
  for work in works:
    of_work = work.work.rows
    span = slice(*np.searchsorted(all_rows, (of_work.start, of_work.stop)))
    rows, words = all_rows[span], all_words[span]
    if masks is not None:
      is_member = masks[work.work.work_id][rows - of_work.start]
      rows, words = rows[is_member], words[is_member]
    if not len(rows):
      continue
    places = rows - of_work.start
    scores, columns = words, {"row": rows, "word_score": words}
    if near is not None:
      work_id = work.work.work_id
      columns["dense_score"] = near.score(work_id, places)
      columns["cosine"] = near.cosines[work_id][places]
      scores = (1 - dense_weight) * words + dense_weight * columns[
        "dense_score"
      ]
    if query is not None:
      mass = work.find_mass(query)
      columns |= {"mass": mass[places], "kind_log_p": work.kind_log_p[places]}
      scores = (
        work.score_mass(mass, query)[places]
        + columns["kind_log_p"]
        + WORD_WEIGHT * scores
      )
    parts.append(columns | {"score": scores})
  return Ranking.join(parts)
