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
from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Bool, Float, Float32

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
# Of each step; nobody reads more. With a time, its records are searched too.
MAX_MATCHES = 500
_TOKEN = re.compile(r"\w+")
_MAX_PAIRS = 64  # of neighbours; a long question repeats itself


def search_words(
  connection: sqlite3.Connection,
  words: Sequence[str],
  k: int,
  works: Sequence[database.IndexedWork] | None = None,
  months: tuple[int, int] | None = None,
) -> dict[int, float]:
  """Returns the records that have the words, as row -> score in 0..1.

  Args:
    k: number of records wanted; with fewer, looser matches are added.
    months: first and last; the record's best month must be between them.
  """
  scores: dict[int, float] = {}
  tokens = [_TOKEN.findall(database.split_tokens(word)) for word in words]
  steps = _make_steps([phrase for phrase in tokens if phrase])
  for weight, match in zip(STEP_WEIGHTS, steps, strict=True):
    if len(scores) >= k or not match:
      break
    matches = database.search_match(
      connection, match, MAX_MATCHES, works, months
    )
    best = max((found.score for found in matches), default=0.0)
    for found in matches:
      # A character that nearly all records have scores about 0.
      share = found.score / best if best > 0 else 1.0
      scores.setdefault(found.row, weight * max(share, 1e-3))
  return scores


def _make_steps(phrases: Sequence[Sequence[str]]) -> list[str]:
  """Returns the FTS5 queries for phrases of tokens, ever looser."""
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


def rank_by_time(
  works: Sequence[WorkPosteriors],
  query: TimeQuery,
  k: int,
  masks: Mapping[int, Bool[np.ndarray, " n"]] | None = None,
  day_rows: frozenset[int] | None = None,
) -> list[RankedRecord]:
  """Returns the k best records for a time; the first of equal scores.

  Args:
    masks: work id -> which of its records may be ranked; None for all.
    day_rows: records that print the day asked for.
  """
  ranked = []
  for work in works:
    mass = work.find_mass(query)
    other_day = 0.0
    if day_rows is not None:
      prints_day = np.isin(work.work.rows, [*day_rows])
      # A record that prints the day shows that its month has it.
      mass = np.where(prints_day, work.find_mass(TimeQuery(query.spans)), mass)
      other_day = np.where(prints_day, 0, _LOG_OTHER_DAY)
    scores = work.score_mass(mass, query) + work.kind_log_p + other_day
    members = np.arange(len(mass))
    if masks is not None:
      members = np.flatnonzero(masks[work.work.work_id])
    columns, values = host_search.select_top_k(scores[None, members], k)
    for column, value in zip(columns[0], values[0], strict=True):
      if column >= 0:
        index = members[column]
        ranked.append(
          RankedRecord(
            row=int(work.work.first_row + index),
            score=float(value),
            mass=float(mass[index]),
            kind_log_p=float(work.kind_log_p[index]),
          )
        )
  return sorted(ranked, key=_rank_key)[:k]


def rank_by_words(
  works: Sequence[WorkPosteriors],
  word_scores: Mapping[int, float],
  k: int,
  query: TimeQuery | None = None,
  near: NearRecords | None = None,
  dense_weight: float = DENSE_WEIGHT,
) -> list[RankedRecord]:
  """Returns the k best of the records that have words or are near to them.

  Args:
    word_scores: row -> score in 0..1.
    near: nearest records by vector.
    dense_weight: weight of vectors against words, 0..1.
  """
  found = set(word_scores) | (near.rows if near else set())
  ordered = np.array(sorted(found), np.int64)
  ranked = []
  for work in works:
    of_work = work.work.rows
    start, stop = np.searchsorted(ordered, (of_work.start, of_work.stop))
    rows = ordered[start:stop].tolist()
    if not rows:
      continue
    indices = np.array(rows) - work.work.first_row
    scores = words = np.array([word_scores.get(row, 0.0) for row in rows])
    parts = {"word_score": words}
    if near is not None:
      work_id = work.work.work_id
      parts["dense_score"] = near.score(work_id, indices)
      parts["cosine"] = near.cosines[work_id][indices]
      scores = (1 - dense_weight) * words + dense_weight * parts["dense_score"]
    if query is not None:
      mass = work.find_mass(query)
      parts["mass"] = mass[indices]
      parts["kind_log_p"] = work.kind_log_p[indices]
      scores = (
        work.score_mass(mass, query)[indices]
        + parts["kind_log_p"]
        + WORD_WEIGHT * scores
      )
    ranked += [
      RankedRecord(
        row=row, score=score, **dict(zip(parts, values, strict=True))
      )
      for row, score, *values in zip(
        rows,
        scores.tolist(),
        *(column.tolist() for column in parts.values()),
        strict=True,
      )
    ]
  return sorted(ranked, key=_rank_key)[:k]


def _rank_key(record: RankedRecord) -> tuple[float, int]:
  return -record.score, record.row
