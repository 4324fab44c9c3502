"""EDD and TES: the period of an entity, and the one of four options of a
period.

An entity whose name tells its period is not asked about; of EDD every entity is
asked once before any is asked again.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator

from ctd_jax_datasets.ctm import periods, repository
from ctd_jax_datasets.ctm.generation import question_pool
from ctd_jax_datasets.ctm.generation.question_pool import (
  WORDING,
  Draft,
  EntityPool,
  NoDrawError,
  redraw,
  tells_period,
)
from ctd_jax_datasets.ctm.periods import (
  ERA,
  EVENT,
  FIGURE,
  HERITAGE,
  INGREDIENT,
  PLACE,
  RULER,
)
from ctd_jax_datasets.ctm.schema import Distance, Entity, LabelGold, OptionGold

LABEL_RULE = "label"
_MAX_LABELS = 2  # more accepted labels would make any guess right
_ANSWER_PROMPT = f"请从{question_pool.PERIOD_LIST}中选出一个作答。"
# Shares of the kinds with many records; the other kinds use all records, each
# in every wording.
_KIND_SHARES = {FIGURE: 0.47, RULER: 0.1, ERA: 0.19}
_EXHAUSTED_KINDS = (PLACE, EVENT, INGREDIENT, HERITAGE)


def make_label_drafts(
  rng: random.Random, pool: EntityPool, count: int
) -> list[Draft]:
  """Returns drafts with different entities or wordings, in random order.

  Raises:
    NoDrawError: if the pool has fewer.
  """
  kind_counts = {
    kind: round(share * count) for kind, share in _KIND_SHARES.items()
  }
  label_drafts: list[Draft] = []
  num_remaining = count - sum(kind_counts.values())
  for kind in _EXHAUSTED_KINDS:
    # At most a third of the rest each: 51 ingredients and 44 traditions would
    # be rare among 249 events in three wordings.
    size = num_remaining if kind == _EXHAUSTED_KINDS[-1] else num_remaining // 3
    kind_drafts = list(_iterate_spread_drafts(rng, pool, (kind,), size))
    label_drafts += kind_drafts
    num_remaining -= len(kind_drafts)
  # Figures are the largest kind and take the rest.
  kind_counts[FIGURE] += num_remaining
  for kind, size in kind_counts.items():
    label_drafts += _iterate_spread_drafts(rng, pool, (kind,), size)
  if len(label_drafts) < count:
    label_drafts += _iterate_spread_drafts(
      rng, pool, (FIGURE,), count - len(label_drafts), first_wording=1
    )
  if len(label_drafts) < count:
    raise NoDrawError(
      f"EDD: {len(label_drafts)} questions, {count} were asked for"
    )
  rng.shuffle(label_drafts)
  return label_drafts


def _iterate_spread_drafts(
  rng: random.Random,
  pool: EntityPool,
  kinds: Iterable[str],
  count: int,
  first_wording: int = 0,
) -> Iterator[Draft]:
  """Yields up to `count` drafts, spread evenly over the periods."""
  queues = []
  for label in periods.LABELS:
    entities = [
      candidate
      for candidate in pool.select_entities(tuple(kinds), (label,))
      if _is_askable(candidate)
    ]
    rng.shuffle(entities)
    wording_indices = (
      range(3) if entities and entities[0].kind in _EXHAUSTED_KINDS else (0,)
    )
    queues.append(
      [
        (entity, first_wording + wording_index)
        for wording_index in wording_indices
        for entity in entities
      ]
    )
  # Round robin over the periods until `count` or the end of all queues.
  num_drafts = 0
  while num_drafts < count and any(queues):
    for queue in queues:
      if queue and num_drafts < count:
        entity, template_offset = queue.pop(0)
        yield _make_label_draft(entity, template_offset)
        num_drafts += 1


def _is_askable(entity: Entity) -> bool:
  return len(entity.periods) <= _MAX_LABELS and not tells_period(entity)


def _make_label_draft(entity: Entity, template_offset: int) -> Draft:
  """Returns the question about an entity."""
  # Native ingredients did not arrive from abroad.
  is_native = entity.kind == INGREDIENT and entity.evidence[1] == "native"
  templates = WORDING["label"][
    "native ingredient" if is_native else entity.kind
  ]
  number = int(entity.entity_id.rpartition("-")[2])
  template = templates[(number + template_offset) % len(templates)]
  evidence = (*entity.evidence, "", "")  # at least two, for the templates
  origin_note = f"（籍贯今{entity.place}）" if entity.place else ""
  text = template.format(
    name=entity.name,
    place=origin_note,
    city=entity.place,
    origin=evidence[0],
    listed=evidence[1],
  )
  label = entity.periods[0]
  acceptable = tuple(
    period for period in periods.LABELS if period in entity.periods
  )
  secondary_labels = [period for period in acceptable if period != label]
  conclusion = f"因此属于{label}" + (
    f"；与{question_pool.join_names(secondary_labels)}也有交集。"
    if secondary_labels
    else "。"
  )
  return Draft(
    rule=LABEL_RULE,
    question=text + _ANSWER_PROMPT,
    answer=label,
    relations=(
      repository.make_relation(entity, repository.find_main_interval(entity)),
    ),
    gold=LabelGold(label, acceptable),
    conclusion=conclusion,
  )


OPTION_RULE = "option"
LETTERS = "ABCD"
_KINDS = (FIGURE, RULER, ERA, PLACE, EVENT, INGREDIENT)
# Distances of the wrong options in periods: near, medium, far, any.
_DISTANCE_RANGES = ((1, 2), (3, 4), (5, 9), (1, 9))


@redraw
def draft_option_question(
  rng: random.Random, pool: EntityPool, count: int
) -> Draft:
  """Returns a question with `count` entities of one period.

  Raises:
    NoDrawError: if the pool has no such entities.
  """
  label = rng.choice(periods.LABELS)
  kind = rng.choice(_KINDS)
  nearest, furthest = rng.choice(_DISTANCE_RANGES)
  distant_labels = [
    other_label
    for other_label in periods.LABELS
    if nearest <= periods.count_periods_between(label, other_label) <= furthest
  ]
  (correct_entity,) = pool.draw_entities(
    rng, 1, (kind,), (label,), _is_unambiguous
  )
  company = pool.draw_entities(
    rng,
    count - 1,
    (FIGURE, RULER, ERA, EVENT),
    (label,),
    lambda candidate: (
      _is_unambiguous(candidate) and candidate is not correct_entity
    ),
  )
  wrong_entities = pool.draw_entities(
    rng, 3, (kind,), distant_labels, _is_unambiguous
  )
  return _make_option_draft(rng, label, company, correct_entity, wrong_entities)


def _is_unambiguous(entity: Entity) -> bool:
  """Returns whether an entity has one period, which its name does not tell."""
  return len(entity.periods) == 1 and not tells_period(entity)


def _make_option_draft(
  rng: random.Random,
  label: str,
  company: list[Entity],
  correct_entity: Entity,
  wrong_entities: list[Entity],
) -> Draft:
  """Returns the draft with shuffled options."""
  options = [correct_entity, *wrong_entities]
  rng.shuffle(options)
  relations = tuple(map(repository.make_relation, (*company, correct_entity)))
  company_text = question_pool.join_names(
    [question_pool.format_title(r) for r in relations[:-1]]
  )
  options_text = "".join(
    f"{letter}. {option.name} "
    for letter, option in zip(LETTERS, options, strict=True)
  )
  # 「都属于」 (all belong) needs two names at least.
  templates = WORDING["option"][""]
  template = rng.choice(templates) if len(company) > 1 else templates[1]
  distances = [
    periods.count_periods_between(label, choice.periods[0])
    for choice in wrong_entities
  ]
  option_facts = "；".join(
    f"{choice.name}属于{choice.periods[0]}" for choice in options
  )
  return Draft(
    rule=OPTION_RULE,
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
