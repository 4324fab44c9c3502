"""TES: the one of four options that belongs to a period.

The period is given by a company of entities, so a question has as many
relations as the company has members, the answer included. The wrong options
are drawn at a chosen distance from the period, which is the distance of the
question.
"""

from __future__ import annotations

import random

from ctd_jax_datasets.ctm import periods, repository
from ctd_jax_datasets.ctm.entities import Entity
from ctd_jax_datasets.ctm.generation import wording
from ctd_jax_datasets.ctm.generation.drafts import Draft, NoDrawError
from ctd_jax_datasets.ctm.generation.pool import EntityPool, tells_period
from ctd_jax_datasets.ctm.golds import OptionGold
from ctd_jax_datasets.ctm.questions import Distance
from ctd_jax_datasets.ctm.vocabulary import (
  ERA,
  EVENT,
  FIGURE,
  INGREDIENT,
  PLACE,
  RULER,
  TES,
  TYPE_NAMES,
)

RULE = "option"
LETTERS = "ABCD"
_TRIES = 100  # draws before the pool counts as too small
_KINDS = (FIGURE, RULER, ERA, PLACE, EVENT, INGREDIENT)
# Distances of the wrong options in periods: near, medium, far, any.
_DISTANCE_RANGES = ((1, 2), (3, 4), (5, 9), (1, 9))
_TEMPLATES = (
  "{company}都属于同一历史时期。下列哪一项也属于这一时期？{options}请写出选项内容。",
  "与{company}同属一个历史时期的，是下列哪一项？{options}请写出选项内容。",
)


def draft_option_question(
  rng: random.Random, pool: EntityPool, count: int
) -> Draft:
  """Returns a question with `count` entities of one period.

  Raises:
    NoDrawError: if the pool has no such entities.
  """
  for _ in range(_TRIES):
    label = rng.choice(periods.LABELS)
    kind = rng.choice(_KINDS)
    min_distance, max_distance = rng.choice(_DISTANCE_RANGES)
    distant_labels = [
      candidate_label
      for candidate_label in periods.LABELS
      if min_distance
      <= periods.count_periods_between(label, candidate_label)
      <= max_distance
    ]
    try:
      (correct_entity,) = pool.draw_entities(
        rng, 1, (kind,), (label,), _is_unambiguous
      )
      company = pool.draw_entities(
        rng,
        count - 1,
        (FIGURE, RULER, ERA, EVENT),
        (label,),
        lambda candidate, correct_entity=correct_entity: (
          _is_unambiguous(candidate)
          and candidate.entity_id != correct_entity.entity_id
        ),
      )
      wrong_entities = pool.draw_entities(
        rng, 3, (kind,), distant_labels, _is_unambiguous
      )
    except NoDrawError:
      continue
    return _make_draft(rng, label, company, correct_entity, wrong_entities)
  raise NoDrawError(f"TES: no {count} entities of one period")


def _is_unambiguous(entity: Entity) -> bool:
  """Returns whether an entity has one period, which its name does not tell."""
  return len(entity.periods) == 1 and not tells_period(entity)


def _make_draft(
  rng: random.Random,
  label: str,
  company: list[Entity],
  correct_entity: Entity,
  wrong_entities: list[Entity],
) -> Draft:
  """Returns the draft with shuffled options.

  Args:
    rng: generator of the question.
    label: the period.
    company: entities of the period in the question.
    correct_entity: the option of the period.
    wrong_entities: the other three options.
  """
  options = [correct_entity, *wrong_entities]
  rng.shuffle(options)
  relations = tuple(map(repository.make_relation, (*company, correct_entity)))
  company_text = wording.join_names(
    [wording.format_title(r) for r in relations[:-1]]
  )
  options_text = "".join(
    f"{letter}. {option.name} "
    for letter, option in zip(LETTERS, options, strict=True)
  )
  # 「都属于」 (all belong) needs two names at least.
  template = rng.choice(_TEMPLATES) if len(company) > 1 else _TEMPLATES[1]
  distances = [
    periods.count_periods_between(label, choice.periods[0])
    for choice in wrong_entities
  ]
  option_facts = "；".join(
    f"{choice.name}属于{choice.periods[0]}" for choice in options
  )
  return Draft(
    type=TYPE_NAMES[TES],
    rule=RULE,
    question=template.format(company=company_text, options=options_text),
    answer=correct_entity.name,
    relations=relations,
    gold=OptionGold(
      options=tuple(option.name for option in options),
      periods=tuple(option.periods for option in options),
      correct=options.index(correct_entity),
      label=label,
    ),
    conclusion=f"所求时期为{label}；{option_facts}。",
    distance=Distance(min(distances), max(distances)),
  )
