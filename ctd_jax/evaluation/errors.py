"""Error analysis: reasons why a first record is wrong, and examples.

A share of misses does not say what to mend. A system that takes the wrong year
lacks other knowledge than one that answers with commentary.
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
WRONG_MONTH = "wrong month"
WRONG_YEAR = "wrong year"
WRONG_REIGN = "wrong reign"
NO_ANSWER = "right month, no answer"
# In the order of the columns of a table.
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
MAX_SHOWN_RECORDS = 5  # of the ranking of an example
MAX_SHOWN_ANSWERS = 3  # of the positives of an example; a window has dozens


@dataclasses.dataclass(frozen=True)
class JudgedRecord:
  """One record of a ranking.

  Attributes:
    record: of the gallery.
    verdict: "right" or one of `ERROR_REASONS`.
  """

  record: Record
  verdict: str


@dataclasses.dataclass(frozen=True)
class Miss:
  """A query whose first record is wrong.

  Attributes:
    query: of the run's split.
    reason: why the first record is wrong, one of `ERROR_REASONS`.
    top_records: the first `MAX_SHOWN_RECORDS` records.
    rank: rank of the first positive, from 1; None if the run has none.
    answers: the first `MAX_SHOWN_ANSWERS` positives of the gallery.
    num_answers: positives in the gallery.
  """

  query: Query
  reason: str
  top_records: tuple[JudgedRecord, ...]
  rank: int | None
  answers: tuple[Record, ...]
  num_answers: int


def classify_error(record: Record, query: Query, timeline: Timeline) -> str:
  """Returns why a record that is no positive of a query is wrong.

  The reason of an event is the coarsest unit that differs: `WRONG_MONTH` if the
  query asks for another month of its year, `WRONG_YEAR` if for another year of
  its reign, else `WRONG_REIGN`.

  Args:
    record: of the gallery, no positive.
    query: whose interval is compared with the record's month.
    timeline: the calendar of both.
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
  """Returns the queries whose first record is wrong, in their order.

  Args:
    run: over the gallery of `qrels`.
    queries: of the run's split.
    qrels: query id -> positives, see `protocol.build_qrels`.
    records: by id.
    timeline: the calendar.
  """
  misses = []
  for query in queries:
    if query.query_id not in qrels:
      continue  # the mode drops it
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
  """Returns reason -> number of misses in the order of `ERROR_REASONS`.

  Reasons without a miss are left out.
  """
  count_by_reason = collections.Counter(miss.reason for miss in misses)
  return {
    reason: count_by_reason[reason]
    for reason in ERROR_REASONS
    if count_by_reason[reason]
  }


def select_examples(
  misses: Sequence[Miss], max_per_reason: int = 2
) -> list[Miss]:
  """Returns misses of every reason, evenly spread over the queries.

  Args:
    misses: from `find_misses`.
    max_per_reason: misses of one reason at most.
  """
  selected = []
  for reason in count_reasons(misses):
    misses_of_reason = [miss for miss in misses if miss.reason == reason]
    # From the middle of each stretch, so that neither end is favoured.
    step = max(1, len(misses_of_reason) // max_per_reason)
    selected += misses_of_reason[step // 2 :: step][:max_per_reason]
  return selected
