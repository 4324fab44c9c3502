"""Quotas: how many questions of each task, size and split there are.

The paper counts twice, and the counts do not agree. Its types add up to 8,700
(2,500 with one relation, 5,950 with two to ten, 250 long scripts); its buckets
by number of relations (2,500 / 2,500 / 2,500 / 1,000 / 250) to 8,750. So 50
questions with two or more relations have no listed type. Both margins hold
here: 8,700 questions are `listed`, and 50 more, spread over the seven types in
proportion, count only by number of relations.

The paper has no splits. Questions are assigned to splits in a fixed cycle
within each type, entities independently of them (`split_entities`), so that no
question and no entity is in two splits.
"""

from __future__ import annotations

import dataclasses
import hashlib
import random
from collections.abc import Mapping, Sequence

from ctd_jax_datasets.ctm.entities import Entity
from ctd_jax_datasets.ctm.vocabulary import (
  EDD,
  EEU,
  LSEC,
  PJ,
  RR,
  SEC,
  SPLITS,
  TES,
  TIC,
  TOU,
)

# Source: the paper's table of question types.
TYPE_COUNTS = {
  EDD: 2500,
  PJ: 1117,
  TOU: 1653,
  RR: 847,
  SEC: 841,
  EEU: 345,
  TIC: 599,
  TES: 548,
  LSEC: 250,
}
# Source: the paper's columns "Cross Temp Count", from its percentages.
BUCKETS = {"=1": 2500, "=2": 2500, "=3": 2500, ">=4": 1000, LSEC: 250}
UNLISTED = sum(BUCKETS.values()) - sum(TYPE_COUNTS.values())
# Number of relations -> questions; the paper has a thousand with 4 to 10.
_COUNTS_BY_SIZE = {4: 400, 5: 220, 6: 140, 7: 100, 8: 60, 9: 45, 10: 35}
_LONG_SCRIPT_SIZES = range(4, 16)  # relations of LSEC, equally frequent
# Of ten questions or entities: five for train, one validation, four test.
_SPLIT_CYCLE = tuple(
  SPLITS[number] for number in (0, 2, 0, 2, 0, 1, 0, 2, 0, 2)
)


@dataclasses.dataclass(frozen=True)
class QuestionSlot:
  """Slot of a question to be generated.

  Attributes:
    task: code of the task.
    num_relations: number of relations.
    split: one of `SPLITS`.
    is_listed: see `questions.Question.listed`.
    number: number within the task, from 0.
  """

  task: str
  num_relations: int
  split: str
  is_listed: bool
  number: int


def size_bucket(task: str, num_relations: int) -> str:
  """Returns the key of `BUCKETS` in which a question is counted."""
  if task == LSEC:
    return LSEC
  return f"={num_relations}" if num_relations < 4 else ">=4"


def make_slots(seed: int) -> tuple[QuestionSlot, ...]:
  """Returns the slots of all questions, ordered by task."""
  rng = random.Random(f"slots/{seed}")
  multi_relation_tasks = [
    task for task in TYPE_COUNTS if task not in (EDD, LSEC)
  ]
  unlisted_counts = _apportion(
    UNLISTED,
    {task_code: TYPE_COUNTS[task_code] for task_code in multi_relation_tasks},
  )
  task_listings = [(EDD, True)] * TYPE_COUNTS[EDD]
  sizes = [1] * TYPE_COUNTS[EDD]
  multi_relation_listings = [
    (task, number < TYPE_COUNTS[task])
    for task in multi_relation_tasks
    for number in range(TYPE_COUNTS[task] + unlisted_counts[task])
  ]
  # Shuffled, so that every task has questions of every size.
  rng.shuffle(multi_relation_listings)
  task_listings += multi_relation_listings
  sizes += [2] * BUCKETS["=2"] + [3] * BUCKETS["=3"]
  sizes += [
    size for size, count in _COUNTS_BY_SIZE.items() for _ in range(count)
  ]
  task_listings += [(LSEC, True)] * TYPE_COUNTS[LSEC]
  sizes += [
    _LONG_SCRIPT_SIZES[number % len(_LONG_SCRIPT_SIZES)]
    for number in range(TYPE_COUNTS[LSEC])
  ]
  question_slots: list[QuestionSlot] = []
  next_numbers = dict.fromkeys(TYPE_COUNTS, 0)
  rows = sorted(
    zip(task_listings, sizes, strict=True),
    key=lambda row: (list(TYPE_COUNTS).index(row[0][0]), row[1]),
  )
  for (task, is_listed), size in rows:
    number = next_numbers[task]
    next_numbers[task] += 1
    split = _SPLIT_CYCLE[number % len(_SPLIT_CYCLE)]
    question_slots.append(QuestionSlot(task, size, split, is_listed, number))
  return tuple(question_slots)


def _apportion(total: int, weights: Mapping[str, int]) -> dict[str, int]:
  """Returns `total` apportioned by weight (largest remainder method)."""
  total_weight = sum(weights.values())
  shares = {
    key: total * weight / total_weight for key, weight in weights.items()
  }
  counts = {key: int(share) for key, share in shares.items()}
  by_remainder = sorted(shares, key=lambda key: counts[key] - shares[key])
  for key in by_remainder[: total - sum(counts.values())]:
    counts[key] += 1
  return counts


def split_entities(
  entities: Sequence[Entity], seed: int
) -> dict[str, tuple[Entity, ...]]:
  """Returns split -> entities; no group is in two splits.

  Within each kind and period the groups are shuffled and assigned in a cycle,
  so every split has all kinds and periods that have ten groups or more.

  Args:
    entities: with their groups (`repository.assign_groups`).
    seed: seed of the shuffling.
  """
  strata: dict[tuple[str, tuple[str, ...]], list[str]] = {}
  assigned_groups: set[str] = set()
  for entity in entities:
    if entity.group not in assigned_groups:
      assigned_groups.add(entity.group)
      strata.setdefault((entity.kind, entity.periods[:1]), []).append(
        entity.group
      )
  split_of: dict[str, str] = {}
  cycle_index = 0
  for groups in strata.values():
    for group in sorted(
      groups, key=lambda group_name: _shuffle_key(seed, group_name)
    ):
      split_of[group] = _SPLIT_CYCLE[cycle_index % len(_SPLIT_CYCLE)]
      cycle_index += 1
  return {
    split: tuple(
      member for member in entities if split_of[member.group] == split
    )
    for split in SPLITS
  }


def _shuffle_key(seed: int, name: str) -> str:
  """Returns a pseudo-random sort key, the same for a group in any table."""
  return hashlib.sha256(f"{seed}/{name}".encode()).hexdigest()
