"""Generator of all questions of a seed, each verified by the checker.

The data set is a function of the fact tables, the seed and this code, so it
can be shared without being published.
"""

from __future__ import annotations

import collections
import random
from collections.abc import Callable, Mapping, Sequence

import tqdm

from ctd_jax_datasets.ctm import checks, repository, schema
from ctd_jax_datasets.ctm.generation import (
  label_questions,
  order_questions,
  question_pool,
  quotas,
  relation_questions,
  scene_questions,
)
from ctd_jax_datasets.ctm.generation.question_pool import (
  Draft,
  EntityPool,
  NoDrawError,
  find_ambiguous_names,
)
from ctd_jax_datasets.ctm.periods import (
  EDD,
  EDD_TYPE_NAMES,
  EEU,
  LSEC,
  PJ,
  RR,
  SEC,
  TES,
  TIC,
  TOU,
  TYPE_NAMES,
)
from ctd_jax_datasets.ctm.schema import Entity, Question

SEED = 0  # of the released variants
_DRAFTERS: dict[str, Callable[[random.Random, EntityPool, int], Draft]] = {
  PJ: scene_questions.draft_plausibility_question,
  TOU: order_questions.draft_order_question,
  RR: relation_questions.draft_relation_question,
  SEC: scene_questions.draft_scene_question,
  EEU: order_questions.draft_renaming_question,
  TIC: order_questions.draft_years_question,
  TES: label_questions.draft_option_question,
  LSEC: scene_questions.draft_script_question,
}
_TRIES = 50  # draws of one question before the tables count as too small


def generate_questions(
  seed: int = SEED,
  entities: Sequence[Entity] | None = None,
  tasks: Sequence[str] = tuple(quotas.TYPE_COUNTS),
) -> tuple[Question, ...]:
  """Returns the questions of some tasks, in the order of their ids.

  Args:
    entities: None takes the repository.
    tasks: tasks to generate; the questions of a task do not depend on others.

  Raises:
    NoDrawError: if the entities do not suffice for a question.
    CheckError: if the checker computes another gold.
  """
  records = repository.assign_groups(
    repository.load_entities() if entities is None else entities
  )
  pools = {
    split: EntityPool(members, find_ambiguous_names(records))
    for split, members in quotas.split_entities(records, seed).items()
  }
  by_task: dict[str, list[quotas.QuestionSlot]] = collections.defaultdict(list)
  for slot in quotas.make_slots(seed):
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
  seed: int, slots: Sequence[quotas.QuestionSlot], pools: dict[str, EntityPool]
) -> list[tuple[quotas.QuestionSlot, Draft]]:
  """Returns the drafts of EDD, which cycles through the entities."""
  drafts = {
    split: label_questions.make_label_drafts(
      random.Random(f"{seed}/{EDD}/{split}"),
      pool,
      sum(slot.split == split for slot in slots),
    )
    for split, pool in pools.items()
  }
  return [(slot, drafts[slot.split].pop()) for slot in slots]


def _draw_task_drafts(
  seed: int, slots: Sequence[quotas.QuestionSlot], pools: dict[str, EntityPool]
) -> list[tuple[quotas.QuestionSlot, Draft]]:
  """Returns the drafts of a task, no two with the same text."""
  slot_drafts: list[tuple[quotas.QuestionSlot, Draft]] = []
  texts: set[str] = set()
  for slot in tqdm.tqdm(slots, desc=slots[0].task, unit="q", disable=None):
    for attempt in range(_TRIES):
      # A generator of its own: no question depends on the draws of another.
      rng = random.Random(f"{seed}/{slot.task}/{slot.number}/{attempt}")
      draft = _DRAFTERS[slot.task](rng, pools[slot.split], slot.num_relations)
      # The text is the key: two drafts may have the same entities.
      if draft.question not in texts and _has_distinct_names(draft):
        break
    else:
      raise NoDrawError(f"{slot}: no question that was not asked before")
    texts.add(draft.question)
    slot_drafts.append((slot, draft))
  return slot_drafts


def _has_distinct_names(draft: Draft) -> bool:
  """Returns whether no name of a question contains another."""
  names = [relation.entity for relation in draft.relations]
  return not any(
    name in other_name
    for i, name in enumerate(names)
    for j, other_name in enumerate(names)
    if i != j
  )


def _make_question(
  slot: quotas.QuestionSlot,
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
    explanation=question_pool.format_explanation(
      draft.relations, draft.conclusion
    ),
    split=slot.split,
    listed=slot.is_listed,
    provenance=tuple(sorted(draft_sources)),
    checker_version=checks.VERSION,
  )
