"""What a model gets to read for a question: answers, and what is like them.

Why: whoever answers from found records has to tell the right month from the
next one. A pack has the records that answer, and others that a retriever
confuses with them: of neighbouring months, of the same month in other years,
placeholders and commentary. Called by `python -m ctd_jax.tasks.evidence_qa`.

Axis: N records, sorted by id.
"""

from __future__ import annotations

import dataclasses
import json
import pathlib
import random
from collections.abc import Sequence

import numpy as np

from ctd_jax.benchmark.dataset import Benchmark
from ctd_jax.benchmark.queries import Query
from ctd_jax.benchmark.records import EVENT, NEG_COMMENT, NO_EVENT, Record
from ctd_jax.chronology import date_expressions
from ctd_jax.chronology.timelines import Timeline
from ctd_jax.utils import files

NEAR_MONTH, SAME_MONTH = "near month", "same month of another year"
PLACEHOLDER, COMMENTARY = "placeholder", "commentary"
ANSWER_ROLE = "answer"
CONFUSABLE_ROLES = (NEAR_MONTH, SAME_MONTH, PLACEHOLDER, COMMENTARY)
_NEAR_LIMIT_MONTHS = 12  # months


@dataclasses.dataclass(frozen=True)
class PackItem:
  """One record of a pack.

  Attributes:
    record_id: of the record.
    date: its month as a chronicle writes it.
    text: of the record.
    role: "answer" or one of `CONFUSABLE`.
  """

  record_id: str
  date: str
  text: str
  role: str


@dataclasses.dataclass(frozen=True)
class Pack:
  """A question and the evidence to answer it from.

  Attributes:
    question_id: of the query.
    question: its text.
    items: in the order in which they are numbered, from 1.
    all_answers: how many records answer the query, in the pack or not.
  """

  question_id: str
  question: str
  items: tuple[PackItem, ...]
  all_answers: int

  @property
  def answers(self) -> tuple[int, ...]:
    """Numbers of the items that answer."""
    return tuple(
      n for n, i in enumerate(self.items, 1) if i.role == ANSWER_ROLE
    )


def make_packs(
  benchmark: Benchmark,
  queries: Sequence[Query],
  max_answers: int = 6,
  max_confusable: int = 6,
  seed: int = 0,
) -> list[Pack]:
  """Returns a pack for every query.

  Args:
    benchmark: whose records.
    queries: with their positives.
    max_answers: at most so many records that answer; drawn if there are more.
    max_confusable: so many others, of each kind in turn, the nearest first.
    seed: of draws and order; together with the query's id it decides.
  """
  records = {record.record_id: record for record in benchmark.records}
  record_table = _RecordTable.from_benchmark(benchmark)
  packs = []
  for query in queries:
    rng = random.Random(f"{seed}:{query.query_id}")
    positive_ids = sorted(query.positives)
    if len(positive_ids) > max_answers:
      positive_ids = rng.sample(positive_ids, max_answers)
    labeled_records = [(records[name], ANSWER_ROLE) for name in positive_ids]
    labeled_records += record_table.find_confusable(query, max_confusable)
    rng.shuffle(labeled_records)
    items = tuple(
      PackItem(
        record.record_id,
        date_expressions.format_key(record.key, benchmark.timeline),
        record.text,
        role,
      )
      for record, role in labeled_records
    )
    packs.append(Pack(query.query_id, query.text, items, len(query.positives)))
  return packs


@dataclasses.dataclass(frozen=True)
class _RecordTable:
  """The records of a benchmark by id, with what they are chosen by.

  Attributes:
    records: N of them.
    timeline: their calendar.
    kinds: [N].
    ordinals: of their months, [N].
    months: of the year, [N].
  """

  records: Sequence[Record]
  timeline: Timeline
  kinds: np.ndarray
  ordinals: np.ndarray
  months: np.ndarray

  @classmethod
  def from_benchmark(cls, benchmark: Benchmark) -> _RecordTable:
    """Returns the shelf of a benchmark."""
    keys = [record.key for record in benchmark.records]
    return cls(
      benchmark.records,
      benchmark.timeline,
      benchmark.kinds,
      np.array([benchmark.timeline.ordinal(key) for key in keys]),
      np.array([key.month for key in keys]),
    )

  def find_confusable(
    self, query: Query, count: int
  ) -> list[tuple[Record, str]]:
    """Returns the nearest records of every kind in turn, `count` in all."""
    start, end = self.timeline.interval_ordinals(query.interval)
    distances = np.maximum(start - self.ordinals, self.ordinals - end)
    distances = np.maximum(distances, 0)  # 0 inside the interval
    query_months = [
      key.month for key in self.timeline.iterate_keys(query.interval)
    ]
    is_outside_event = (self.kinds == EVENT) & (distances > 0)
    pools = {
      NEAR_MONTH: is_outside_event & (distances < _NEAR_LIMIT_MONTHS),
      SAME_MONTH: is_outside_event
      & (distances >= _NEAR_LIMIT_MONTHS)
      & np.isin(self.months, query_months),
      PLACEHOLDER: (self.kinds == NO_EVENT) & (distances > 0),
      COMMENTARY: self.kinds == NEG_COMMENT,
    }
    nearest_rows = {}
    for role, pool in pools.items():
      rows = np.flatnonzero(pool)
      # Stable: of equally near ones those of smaller id.
      nearest_rows[role] = rows[np.argsort(distances[rows], kind="stable")][
        :count
      ]
    interleaved = [
      (self.records[nearest_rows[role][rank]], role)
      for rank in range(count)
      for role in CONFUSABLE_ROLES
      if rank < len(nearest_rows[role])
    ]
    return interleaved[:count]


def write_packs(path: pathlib.Path, packs: Sequence[Pack]) -> None:
  """Writes packs as JSON lines."""
  lines = (
    json.dumps(dataclasses.asdict(pack), ensure_ascii=False) for pack in packs
  )
  files.write_text(path, "".join(f"{line}\n" for line in lines))
