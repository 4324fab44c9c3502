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
from ctd_jax.chronology.annals import NEG_COMMENT, NO_EVENT, Record
from ctd_jax.chronology.timelines import Timeline

NOTHING = "nothing found"
COMMENTARY = "commentary, right month"
OTHER_COMMENTARY = "commentary, other month"
PLACEHOLDER = "placeholder"
MONTH, YEAR, REIGN = "wrong month", "wrong year", "wrong reign"
NO_ANSWER = "right month, no answer"
REASONS = (
  PLACEHOLDER,
  MONTH,
  YEAR,
  REIGN,
  COMMENTARY,
  OTHER_COMMENTARY,
  NO_ANSWER,
  NOTHING,
)
SHOWN = 5  # records of an example
ANSWERS = 3  # of its positives at most


@dataclasses.dataclass(frozen=True)
class Found:
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
    found: the first `SHOWN` records.
    rank: of the first positive, from 1; None if the run has none.
    answers: the first `ANSWERS` positives of the gallery.
    number_of_answers: in the gallery.
  """

  query: Query
  reason: str
  found: tuple[Found, ...]
  rank: int | None
  answers: tuple[Record, ...]
  number_of_answers: int


def reason(record: Record, query: Query, timeline: Timeline) -> str:
  """Returns why a record that is no positive of a query is wrong.

  An event is of the wrong month if its year is asked for, of the wrong year if
  its reign is.
  """
  start, end = timeline.ordinals(query.interval)
  inside = start <= timeline.ordinal(record.key) <= end
  if record.kind == NEG_COMMENT:
    return COMMENTARY if inside else OTHER_COMMENTARY
  if record.kind == NO_EVENT:
    return PLACEHOLDER
  if inside:
    return NO_ANSWER
  asked = timeline.months[start : end + 1]
  if record.key.triple[:2] in {key.triple[:2] for key in asked}:
    return MONTH
  return YEAR if record.key.reign in {key.reign for key in asked} else REIGN


def misses(
  run: runs.Run,
  queries: Sequence[Query],
  judged: Mapping[str, Sequence[str]],
  records: Mapping[str, Record],
  timeline: Timeline,
) -> list[Miss]:
  """Returns what a run gets wrong at the first rank, in order of the queries.

  Args:
    run: over the gallery that `judged` is of.
    queries: of the run's split.
    judged: query id -> positives, see `protocol.qrels`.
    records: by id.
    timeline: the calendar.
  """
  found = []
  for query in queries:
    if query.query_id not in judged:
      continue
    positives = set(judged[query.query_id])
    ranking = [name for name, _ in run.rankings.get(query.query_id, [])]
    if ranking and ranking[0] in positives:
      continue
    shown = tuple(
      Found(
        records[name],
        "right"
        if name in positives
        else reason(records[name], query, timeline),
      )
      for name in ranking[:SHOWN]
    )
    ranks = (r for r, name in enumerate(ranking, 1) if name in positives)
    answers = tuple(records[n] for n in judged[query.query_id][:ANSWERS])
    found.append(
      Miss(
        query,
        shown[0].verdict if shown else NOTHING,
        shown,
        next(ranks, None),
        answers,
        len(positives),
      )
    )
  return found


def counts(missed: Sequence[Miss]) -> dict[str, int]:
  """Returns reason -> misses, in the order of `REASONS`, without zeros."""
  number = collections.Counter(miss.reason for miss in missed)
  return {each: number[each] for each in REASONS if number[each]}


def examples(missed: Sequence[Miss], each: int = 2) -> list[Miss]:
  """Returns some misses of every reason, spread over the queries.

  Args:
    missed: from `misses`.
    each: of one reason at most.
  """
  chosen = []
  for name in counts(missed):
    same = [miss for miss in missed if miss.reason == name]
    step = max(1, len(same) // each)
    chosen += same[step // 2 :: step][:each]
  return chosen
