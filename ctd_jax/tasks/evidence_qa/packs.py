"""Evidence packs: a question, the records that answer it, and confusable ones.

Whoever answers from retrieved records has to tell the right month from the
next one. Besides the answers a pack has records that a retriever confuses with
them: of neighbouring months, of the same month in other years, placeholders
and commentary.

Axes: N records, sorted by id.
"""

from __future__ import annotations

import dataclasses
import json
import pathlib
import random
from collections.abc import Sequence

import numpy as np
from jaxtyping import Int, Shaped

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
_NEAR_LIMIT_MONTHS = 12  # a record farther away is of another year


@dataclasses.dataclass(frozen=True)
class PackItem:
  """Record in a pack.

  Attributes:
    record_id: id of the record.
    date: month as a chronicle writes it.
    text: text of the record.
    role: `ANSWER_ROLE` or one of `CONFUSABLE_ROLES`.
  """

  record_id: str
  date: str
  text: str
  role: str


@dataclasses.dataclass(frozen=True)
class Pack:
  """Question with the evidence to answer it from.

  Attributes:
    question_id: id of the query.
    question: text of the query.
    items: records in the order of their numbers, from 1.
    all_answers: number of records that answer, in the pack or not.
  """

  question_id: str
  question: str
  items: tuple[PackItem, ...]
  all_answers: int

  @property
  def answers(self) -> tuple[int, ...]:
    """Numbers of the answering items, from 1."""
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
    benchmark: data set of the records.
    queries: queries with their positives.
    max_answers: maximal number of answering records; a sample if there are
      more.
    max_confusable: number of other records, the roles in turn, the nearest
      first.
    seed: seed of draws and order, together with the query's id.
  """
  records = {record.record_id: record for record in benchmark.records}
  record_table = _RecordTable.from_benchmark(benchmark)
  packs = []
  for query in queries:
    # One generator for each query: a pack does not depend on the others.
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
  """Records of a benchmark as columns.

  Attributes:
    records: N records.
    timeline: their calendar.
    kinds: kind of each record.
    ordinals: ordinal month of each record.
    months: month of the year of each record.
  """

  records: Sequence[Record]
  timeline: Timeline
  kinds: Shaped[np.ndarray, " N"]
  ordinals: Int[np.ndarray, " N"]
  months: Int[np.ndarray, " N"]

  @classmethod
  def from_benchmark(cls, benchmark: Benchmark) -> _RecordTable:
    """Returns the table of a benchmark."""
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
    """Returns the nearest records of each role in turn, `count` in all."""
    start, end = self.timeline.interval_ordinals(query.interval)
    distances = np.maximum(start - self.ordinals, self.ordinals - end)
    distances = np.maximum(distances, 0)  # months; 0 inside the interval
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
      # Stable: of equal distances the smaller id comes first.
      nearest_rows[role] = rows[np.argsort(distances[rows], kind="stable")][
        :count
      ]
    # First the nearest of each role, then the second nearest, and so on.
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
