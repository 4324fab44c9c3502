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
from ctd_jax.chronology import date_expressions
from ctd_jax.chronology.annals import EVENT, NEG_COMMENT, NO_EVENT, Record
from ctd_jax.chronology.timelines import Timeline
from ctd_jax.utils import files

NEAR_MONTH, SAME_MONTH = "near month", "same month of another year"
PLACEHOLDER, COMMENTARY = "placeholder", "commentary"
ANSWER = "answer"
CONFUSABLE = (NEAR_MONTH, SAME_MONTH, PLACEHOLDER, COMMENTARY)
_NEAR = 12  # months


@dataclasses.dataclass(frozen=True)
class Item:
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
  items: tuple[Item, ...]
  all_answers: int

  @property
  def answers(self) -> tuple[int, ...]:
    """Numbers of the items that answer."""
    return tuple(n for n, i in enumerate(self.items, 1) if i.role == ANSWER)


def make(
  benchmark: Benchmark,
  queries: Sequence[Query],
  answers: int = 6,
  confusable: int = 6,
  seed: int = 0,
) -> list[Pack]:
  """Returns a pack for every query.

  Args:
    benchmark: whose records.
    queries: with their positives.
    answers: at most so many records that answer; drawn if there are more.
    confusable: so many others, of each kind in turn, the nearest first.
    seed: of draws and order; together with the query's id it decides.
  """
  records = {record.record_id: record for record in benchmark.records}
  shelf = _Shelf.of(benchmark)
  packs = []
  for query in queries:
    chance = random.Random(f"{seed}:{query.query_id}")
    drawn = sorted(query.positives)
    if len(drawn) > answers:
      drawn = chance.sample(drawn, answers)
    chosen = [(records[name], ANSWER) for name in drawn]
    chosen += shelf.confusable(query, confusable)
    chance.shuffle(chosen)
    items = tuple(
      Item(
        record.record_id,
        date_expressions.format_key(record.key, benchmark.timeline),
        record.text,
        role,
      )
      for record, role in chosen
    )
    packs.append(Pack(query.query_id, query.text, items, len(query.positives)))
  return packs


@dataclasses.dataclass(frozen=True)
class _Shelf:
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
  def of(cls, benchmark: Benchmark) -> _Shelf:
    """Returns the shelf of a benchmark."""
    keys = [record.key for record in benchmark.records]
    return cls(
      benchmark.records,
      benchmark.timeline,
      benchmark.kinds,
      np.array([benchmark.timeline.ordinal(key) for key in keys]),
      np.array([key.month for key in keys]),
    )

  def confusable(self, query: Query, count: int) -> list[tuple[Record, str]]:
    """Returns the nearest records of every kind in turn, `count` in all."""
    start, end = self.timeline.ordinals(query.interval)
    away = np.maximum(start - self.ordinals, self.ordinals - end)
    away = np.maximum(away, 0)  # 0 inside the interval
    asked = [key.month for key in self.timeline.iterate(query.interval)]
    outside = (self.kinds == EVENT) & (away > 0)
    pools = {
      NEAR_MONTH: outside & (away < _NEAR),
      SAME_MONTH: outside & (away >= _NEAR) & np.isin(self.months, asked),
      PLACEHOLDER: (self.kinds == NO_EVENT) & (away > 0),
      COMMENTARY: self.kinds == NEG_COMMENT,
    }
    nearest = {}
    for role, pool in pools.items():
      rows = np.flatnonzero(pool)
      # Stable: of equally near ones those of smaller id.
      nearest[role] = rows[np.argsort(away[rows], kind="stable")][:count]
    in_turn = [
      (self.records[nearest[role][place]], role)
      for place in range(count)
      for role in CONFUSABLE
      if place < len(nearest[role])
    ]
    return in_turn[:count]


def write(path: pathlib.Path, packs: Sequence[Pack]) -> None:
  """Writes packs as JSON lines."""
  lines = (
    json.dumps(dataclasses.asdict(pack), ensure_ascii=False) for pack in packs
  )
  files.write_text(path, "".join(f"{line}\n" for line in lines))
