"""All questions of a seed, each recomputed before it is let through.

Why: the data set is a function of the fact tables, the seed and this code, so
it need not be published to be shared. Called by the builder.
"""

from __future__ import annotations

import collections
import random
from collections.abc import Callable, Mapping, Sequence

import tqdm

from ctd_jax_datasets.ctm import (
  checker,
  options,
  ordering,
  plausibility,
  quotas,
  relating,
  renaming,
  repository,
  scripts,
  single,
  wording,
)
from ctd_jax_datasets.ctm.pool import Draft, NoDrawError, Pool, ambiguous_names
from ctd_jax_datasets.ctm.questions import (
  EDD,
  EEU,
  LSEC,
  PJ,
  RR,
  SEC,
  TES,
  TIC,
  TOU,
  Entity,
  Question,
)

SEED = 0
_MAKERS: dict[str, Callable[[random.Random, Pool, int], Draft]] = {
  PJ: plausibility.draft,
  TOU: ordering.order,
  RR: relating.draft,
  SEC: scripts.short,
  EEU: renaming.draft,
  TIC: ordering.years,
  TES: options.draft,
  LSEC: scripts.long,
}
# Draws of one question before the tables are found too small for it.
_TRIES = 50


def generate(
  seed: int = SEED,
  entities: Sequence[Entity] | None = None,
  tasks: Sequence[str] = tuple(quotas.TYPE_COUNTS),
) -> tuple[Question, ...]:
  """Returns the questions of some tasks, in the order of their ids.

  Args:
    seed: of everything that is drawn.
    entities: None takes the repository.
    tasks: those wanted; a task's questions do not depend on the others.

  Raises:
    NoDrawError: if the entities do not suffice for a question.
    CheckError: if the checker computes another gold than the generator.
  """
  records = repository.grouped(
    repository.entities() if entities is None else entities
  )
  pools = {
    split: Pool(members, ambiguous_names(records))
    for split, members in quotas.split_entities(records, seed).items()
  }
  by_task: dict[str, list[quotas.Slot]] = collections.defaultdict(list)
  for slot in quotas.slots(seed):
    by_task[slot.task].append(slot)
  sources = {
    record.entity_id: [interval.source for interval in record.intervals]
    for record in records
  }
  made: list[Question] = []
  for task in tasks:
    make = _labelled if task == EDD else _drawn
    made += [
      _question(slot, draft, sources)
      for slot, draft in make(seed, by_task[task], pools)
    ]
  check = checker.Checker(records)
  for question in made:
    check(question)
  checker.check_splits(made)
  return tuple(made)


def _labelled(
  seed: int, slots: Sequence[quotas.Slot], pools: dict[str, Pool]
) -> list[tuple[quotas.Slot, Draft]]:
  """Returns the questions of EDD, whose entities are dealt out, not drawn."""
  drafts = {
    split: single.drafts(
      random.Random(f"{seed}/{EDD}/{split}"),
      pool,
      sum(slot.split == split for slot in slots),
    )
    for split, pool in pools.items()
  }
  return [(slot, drafts[slot.split].pop()) for slot in slots]


def _drawn(
  seed: int, slots: Sequence[quotas.Slot], pools: dict[str, Pool]
) -> list[tuple[quotas.Slot, Draft]]:
  """Returns the questions of a task, no two with the same text."""
  made: list[tuple[quotas.Slot, Draft]] = []
  texts: set[str] = set()
  for slot in tqdm.tqdm(slots, desc=slots[0].task, unit="q", disable=None):
    for attempt in range(_TRIES):
      rng = random.Random(f"{seed}/{slot.task}/{slot.number}/{attempt}")
      draft = _MAKERS[slot.task](rng, pools[slot.split], slot.relations)
      if draft.question not in texts and _distinct(draft):
        break
    else:
      raise NoDrawError(f"{slot}: no question that was not asked before")
    texts.add(draft.question)
    made.append((slot, draft))
  return made


def _distinct(draft: Draft) -> bool:
  """Returns whether no name is part of another name of the question."""
  names = [relation.entity for relation in draft.relations]
  return not any(
    first in second
    for i, first in enumerate(names)
    for j, second in enumerate(names)
    if i != j
  )


def _question(
  slot: quotas.Slot, draft: Draft, sources: Mapping[str, Sequence[str]]
) -> Question:
  """Returns the question of a draft, with the sources of its entities."""
  used = {
    source
    for relation in draft.relations
    for source in sources[relation.entity_id]
  }
  return Question(
    question_id=f"{slot.task.lower()}-{slot.number:05d}",
    task=slot.task,
    type=draft.type,
    rule=draft.rule,
    question=draft.question,
    answer=draft.answer,
    relations=draft.relations,
    gold=draft.gold,
    distance=draft.distance,
    explanation=wording.explanation(draft.relations, draft.conclusion),
    split=slot.split,
    listed=slot.listed,
    provenance=tuple(sorted(used)),
    checker_version=checker.VERSION,
  )
