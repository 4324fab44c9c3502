"""Generator of all questions of a seed, each verified by the checker.

The data set is a function of the fact tables, the seed and this code, so it
can be shared without being published.
"""

import collections
import dataclasses
import hashlib
import itertools
import random
from collections.abc import Callable, Mapping, Sequence

import tqdm

from ctd_jax_datasets.ctm import (
  checks,
  fact_questions,
  order_questions,
  periods,
  question_drafts,
  repository,
  scene_questions,
  schema,
)
from ctd_jax_datasets.ctm.periods import (
  EDD,
  EDD_TYPE_NAMES,
  EEU,
  ERA,
  EVENT,
  FIGURE,
  HERITAGE,
  INGREDIENT,
  LSEC,
  PJ,
  RR,
  RULER,
  SEC,
  SPLITS,
  TES,
  TIC,
  TOU,
  TYPE_NAMES,
)
from ctd_jax_datasets.ctm.question_drafts import (
  Draft,
  EntityPool,
  NoDrawError,
  find_ambiguous_names,
  is_unambiguous,
)
from ctd_jax_datasets.ctm.schema import Entity, ItoInstance, Question

# Quotas. Entities are divided among the splits, not questions: no entity is in
# two splits. Games have one entity for each player, no two of one period.
# Source: CTM paper, tables of question types and of relation counts.


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
  """Slot of a question to be generated."""

  task: str  # code of the task
  num_relations: int
  split: str  # one of `SPLITS`
  is_listed: bool  # see `questions.Question.listed`
  number: int  # number within the task, from 0


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


# Level -> number of players. Source: the paper's section on the game.
PLAYERS = {"easy": 3, "medium": 4, "hard": 5}
GAMES_PER_LEVEL = 20
SPLIT = "test"  # games are not for training
_KINDS = (FIGURE, RULER, ERA, EVENT, INGREDIENT, HERITAGE)
_LIST_OF_POETS = "chinese-poetry"  # start of the source of such figures


def draw_games(seed: int) -> tuple[ItoInstance, ...]:
  """Returns the games, easy ones first.

  Args:
    seed: seed of the split of the entities and of all draws.
  """
  rng = random.Random(f"{seed}/games")
  records = repository.assign_groups(repository.load_entities())
  pool = EntityPool(
    split_entities(records, seed)[SPLIT], find_ambiguous_names(records)
  )
  by_label = {
    label: [
      entity
      for entity in pool.select_entities(_KINDS, (label,))
      if is_unambiguous(entity)
      and not entity.intervals[0].source.startswith(_LIST_OF_POETS)
    ]
    for label in periods.LABELS
  }
  instances = []
  for level, players in PLAYERS.items():
    for game_number in range(1, GAMES_PER_LEVEL + 1):
      labels = _draw_labels(rng, players, by_label)
      seats = tuple(
        repository.make_relation(
          by_label[label].pop(rng.randrange(len(by_label[label])))
        )
        for label in labels
      )
      labels_in_time = sorted(labels, key=periods.LABELS.index)
      instances.append(
        ItoInstance(
          instance_id=f"ito-{level}-{game_number:02d}",
          level=level,
          seats=seats,
          ranks=tuple(labels_in_time.index(label) + 1 for label in labels),
          split=SPLIT,
        )
      )
  return tuple(instances)


def _draw_labels(
  rng: random.Random,
  count: int,
  remaining_entities: dict[str, Sequence[Entity]],
) -> list[str]:
  """Returns `count` different periods, weighted by remaining entities."""
  # Uniform draws would use up 隋, which has few entities.
  available_labels = [
    label for label in periods.LABELS if remaining_entities[label]
  ]
  drawn_labels: list[str] = []
  while len(drawn_labels) < count:
    weights = [
      min(len(remaining_entities[label]), 20) for label in available_labels
    ]
    drawn_labels.append(rng.choices(available_labels, weights)[0])
    available_labels.remove(drawn_labels[-1])
  return drawn_labels


SEED = 0  # of the released variants
_DRAFTERS: dict[str, Callable[[random.Random, EntityPool, int], Draft]] = {
  PJ: scene_questions.draft_plausibility_question,
  TOU: order_questions.draft_order_question,
  RR: fact_questions.draft_relation_question,
  SEC: scene_questions.draft_scene_question,
  EEU: order_questions.draft_renaming_question,
  TIC: order_questions.draft_years_question,
  TES: fact_questions.draft_option_question,
  LSEC: scene_questions.draft_script_question,
}
_TRIES = 50  # draws of one question before the tables count as too small


def generate_questions(
  seed: int = SEED,
  entities: Sequence[Entity] | None = None,
  tasks: Sequence[str] = tuple(TYPE_COUNTS),
) -> tuple[Question, ...]:
  """Returns the questions of some tasks, in the order of their ids.

  The questions of a task do not depend on the other tasks.

  Raises:
    NoDrawError: if the entities do not suffice for a question.
    CheckError: if the checker computes another gold.
  """
  records = repository.assign_groups(
    repository.load_entities() if entities is None else entities
  )
  pools = {
    split: EntityPool(members, find_ambiguous_names(records))
    for split, members in split_entities(records, seed).items()
  }
  by_task: dict[str, list[QuestionSlot]] = collections.defaultdict(list)
  for slot in make_slots(seed):
    by_task[slot.task].append(slot)
  # Provenance is that of all intervals, also those that a question lacks.
  sources_of = {
    record.entity_id: [interval.source for interval in record.intervals]
    for record in records
  }
  questions: list[Question] = []
  for task in tasks:
    make_drafts = _deal_label_drafts if task == EDD else _draw_task_drafts
    questions += [
      _make_question(slot, draft, sources_of)
      for slot, draft in make_drafts(seed, by_task[task], pools)
    ]
  check = checks.QuestionChecker(records)
  for question in questions:
    check(question)
  checks.check_splits(questions)
  return tuple(questions)


def _deal_label_drafts(
  seed: int, slots: Sequence[QuestionSlot], pools: dict[str, EntityPool]
) -> list[tuple[QuestionSlot, Draft]]:
  """Returns the drafts of EDD, which cycles through the entities."""
  drafts = {
    split: fact_questions.make_label_drafts(
      random.Random(f"{seed}/{EDD}/{split}"),
      pool,
      sum(slot.split == split for slot in slots),
    )
    for split, pool in pools.items()
  }
  return [(slot, drafts[slot.split].pop()) for slot in slots]


def _draw_task_drafts(
  seed: int, slots: Sequence[QuestionSlot], pools: dict[str, EntityPool]
) -> list[tuple[QuestionSlot, Draft]]:
  """Returns the drafts of a task, no two with the same text."""
  slot_drafts: list[tuple[QuestionSlot, Draft]] = []
  texts: set[str] = set()
  for slot in tqdm.tqdm(slots, desc=slots[0].task, unit="q", disable=None):
    for attempt in range(_TRIES):
      # A generator of its own: no question depends on the draws of another.
      rng = random.Random(f"{seed}/{slot.task}/{slot.number}/{attempt}")
      draft = _DRAFTERS[slot.task](rng, pools[slot.split], slot.num_relations)
      # The text is the key: two drafts may have the same entities. No name of
      # a question may contain another.
      names = [relation.entity for relation in draft.relations]
      if draft.question not in texts and not any(
        a in b for a, b in itertools.permutations(names, 2)
      ):
        break
    else:
      raise NoDrawError(f"{slot}: no question that was not asked before")
    texts.add(draft.question)
    slot_drafts.append((slot, draft))
  return slot_drafts


def _make_question(
  slot: QuestionSlot,
  draft: Draft,
  sources_of: Mapping[str, Sequence[str]],
) -> Question:
  """Returns the question of a draft, with its id and provenance."""
  draft_sources = {
    source
    for relation in draft.relations
    for source in sources_of[relation.entity_id]
  }
  return Question(
    question_id=f"{slot.task.lower()}-{slot.number:05d}",
    task=slot.task,
    type=(
      EDD_TYPE_NAMES[draft.relations[0].kind]
      if slot.task == EDD
      else TYPE_NAMES[slot.task]
    ),
    rule=draft.rule,
    question=draft.question,
    answer=draft.answer,
    relations=draft.relations,
    gold=draft.gold,
    distance=draft.distance or schema.measure_distance(draft.relations),
    explanation=question_drafts.format_explanation(
      draft.relations, draft.conclusion
    ),
    split=slot.split,
    listed=slot.is_listed,
    provenance=tuple(sorted(draft_sources)),
    checker_version=checks.VERSION,
  )
