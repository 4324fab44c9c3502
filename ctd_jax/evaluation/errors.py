"""Why a first record is wrong, and examples to look at.

Why: a share of misses does not say what to mend. A system that takes the wrong
year knows something else than one that answers with commentary. Called by
`evaluation.page`.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Mapping, Sequence

from ctd_jax.benchmark import runs
from ctd_jax.benchmark.queries import Query
from ctd_jax.benchmark.records import NEG_COMMENT, NO_EVENT, Record
from ctd_jax.chronology.timelines import Timeline

NOTHING_FOUND = "nothing found"
COMMENTARY_RIGHT_MONTH = "commentary, right month"
COMMENTARY_OTHER_MONTH = "commentary, other month"
PLACEHOLDER = "placeholder"
WRONG_MONTH, WRONG_YEAR, WRONG_REIGN = (
  "wrong month",
  "wrong year",
  "wrong reign",
)
NO_ANSWER = "right month, no answer"
ERROR_REASONS = (
  PLACEHOLDER,
  WRONG_MONTH,
  WRONG_YEAR,
  WRONG_REIGN,
  COMMENTARY_RIGHT_MONTH,
  COMMENTARY_OTHER_MONTH,
  NO_ANSWER,
  NOTHING_FOUND,
)
MAX_SHOWN_RECORDS = 5  # records of an example
MAX_SHOWN_ANSWERS = 3  # of its positives at most


@dataclasses.dataclass(frozen=True)
class JudgedRecord:
  """One record of a ranking.

  Attributes:
    record: what was found.
    verdict: "right" or one of `REASONS`.
  """

  record: Record
  verdict: str


@dataclasses.dataclass(frozen=True)
class Miss:
  """A query whose first record is wrong.

  Attributes:
    query: what was asked.
    reason: of the first record.
    top_records: the first `SHOWN` records.
    rank: of the first positive, from 1; None if the run has none.
    answers: the first `ANSWERS` positives of the gallery.
    num_answers: in the gallery.
  """

  query: Query
  reason: str
  top_records: tuple[JudgedRecord, ...]
  rank: int | None
  answers: tuple[Record, ...]
  num_answers: int


def classify_error(record: Record, query: Query, timeline: Timeline) -> str:
  """Returns why a record that is no positive of a query is wrong.

  An event is of the wrong month if its year is asked for, of the wrong year if
  its reign is.
  """
  start, end = timeline.interval_ordinals(query.interval)
  is_inside = start <= timeline.ordinal(record.key) <= end
  if record.kind == NEG_COMMENT:
    return COMMENTARY_RIGHT_MONTH if is_inside else COMMENTARY_OTHER_MONTH
  if record.kind == NO_EVENT:
    return PLACEHOLDER
  if is_inside:
    return NO_ANSWER
  query_months = timeline.months[start : end + 1]
  if record.key.triple[:2] in {key.triple[:2] for key in query_months}:
    return WRONG_MONTH
  return (
    WRONG_YEAR
    if record.key.reign in {key.reign for key in query_months}
    else WRONG_REIGN
  )


def find_misses(
  run: runs.Run,
  queries: Sequence[Query],
  qrels: Mapping[str, Sequence[str]],
  records: Mapping[str, Record],
  timeline: Timeline,
) -> list[Miss]:
  """Returns what a run gets wrong at the first rank, in order of the queries.

  Args:
    run: over the gallery that `qrels` is of.
    queries: of the run's split.
    qrels: query id -> positives, see `protocol.build_qrels`.
    records: by id.
    timeline: the calendar.
  """
  misses = []
  for query in queries:
    if query.query_id not in qrels:
      continue
    positives = set(qrels[query.query_id])
    ranking = [name for name, _ in run.rankings.get(query.query_id, [])]
    if ranking and ranking[0] in positives:
      continue
    top_records = tuple(
      JudgedRecord(
        records[name],
        "right"
        if name in positives
        else classify_error(records[name], query, timeline),
      )
      for name in ranking[:MAX_SHOWN_RECORDS]
    )
    positive_ranks = (
      rank for rank, name in enumerate(ranking, 1) if name in positives
    )
    answers = tuple(
      records[record_id]
      for record_id in qrels[query.query_id][:MAX_SHOWN_ANSWERS]
    )
    misses.append(
      Miss(
        query,
        top_records[0].verdict if top_records else NOTHING_FOUND,
        top_records,
        next(positive_ranks, None),
        answers,
        len(positives),
      )
    )
  return misses


def count_reasons(misses: Sequence[Miss]) -> dict[str, int]:
  """Returns reason -> misses, in the order of `REASONS`, without zeros."""
  count_by_reason = collections.Counter(miss.reason for miss in misses)
  return {
    reason: count_by_reason[reason]
    for reason in ERROR_REASONS
    if count_by_reason[reason]
  }


def select_examples(
  misses: Sequence[Miss], max_per_reason: int = 2
) -> list[Miss]:
  """Returns some misses of every reason, spread over the queries.

  Args:
    misses: from `misses`.
    max_per_reason: of one reason at most.
  """
  selected = []
  for reason in count_reasons(misses):
    misses_of_reason = [miss for miss in misses if miss.reason == reason]
    step = max(1, len(misses_of_reason) // max_per_reason)
    selected += misses_of_reason[step // 2 :: step][:max_per_reason]
  return selected
