"""TES: which of four options is of a period.

Why: the period is given by the company it is to fit into, so the question
needs as many relations as the company has members, the answer included. The
wrong options are drawn at a chosen distance from that period; the distance of
the question is theirs. Called by `generate`.
"""

from __future__ import annotations

import random

from ctd_jax_datasets.ctm import periods, repository, wording
from ctd_jax_datasets.ctm.pool import Draft, NoDrawError, Pool, tells_period
from ctd_jax_datasets.ctm.questions import (
  ERA,
  EVENT,
  FIGURE,
  INGREDIENT,
  PLACE,
  RULER,
  TES,
  TYPE_NAMES,
  Distance,
  Entity,
  OptionGold,
)

RULE = "option"
LETTERS = "ABCD"
_TRIES = 100
_KINDS = (FIGURE, RULER, ERA, PLACE, EVENT, INGREDIENT)
# Distances of the wrong options: near, middling, far, and any.
_RANGES = ((1, 2), (3, 4), (5, 9), (1, 9))
_ASK = (
  "{company}都属于同一历史时期。下列哪一项也属于这一时期？{options}请写出选项内容。",
  "与{company}同属一个历史时期的，是下列哪一项？{options}请写出选项内容。",
)


def draft(rng: random.Random, pool: Pool, count: int) -> Draft:
  """Returns a question with `count` entities of one period.

  Raises:
    NoDrawError: if the pool has no such entities.
  """
  for _ in range(_TRIES):
    label = rng.choice(periods.LABELS)
    kind = rng.choice(_KINDS)
    near, far = rng.choice(_RANGES)
    away = [
      other
      for other in periods.LABELS
      if near <= periods.distance(label, other) <= far
    ]
    try:
      (right,) = pool.draw(rng, 1, (kind,), (label,), _sure)
      company = pool.draw(
        rng,
        count - 1,
        (FIGURE, RULER, ERA, EVENT),
        (label,),
        lambda e, right=right: _sure(e) and e.entity_id != right.entity_id,
      )
      wrong = pool.draw(rng, 3, (kind,), away, _sure)
    except NoDrawError:
      continue
    return _draft(rng, label, company, right, wrong)
  raise NoDrawError(f"TES: no {count} entities of one period")


def _sure(entity: Entity) -> bool:
  return len(entity.periods) == 1 and not tells_period(entity)


def _draft(
  rng: random.Random,
  label: str,
  company: list[Entity],
  right: Entity,
  wrong: list[Entity],
) -> Draft:
  options = [right, *wrong]
  rng.shuffle(options)
  relations = tuple(map(repository.relation, (*company, right)))
  told = wording.in_turn([wording.title(r) for r in relations[:-1]])
  listed = "".join(
    f"{letter}. {option.name} "
    for letter, option in zip(LETTERS, options, strict=True)
  )
  ask = rng.choice(_ASK) if len(company) > 1 else _ASK[1]
  distances = [periods.distance(label, o.periods[0]) for o in wrong]
  told_options = "；".join(f"{o.name}属于{o.periods[0]}" for o in options)
  return Draft(
    type=TYPE_NAMES[TES],
    rule=RULE,
    question=ask.format(company=told, options=listed),
    answer=right.name,
    relations=relations,
    gold=OptionGold(
      options=tuple(option.name for option in options),
      periods=tuple(option.periods for option in options),
      correct=options.index(right),
      label=label,
    ),
    conclusion=f"所求时期为{label}；{told_options}。",
    distance=Distance(min(distances), max(distances)),
  )
