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
  Draft,
  EntityPool,
  NoDrawError,
  tells_period,
)
from ctd_jax_datasets.ctm.periods import (
  EDD_TYPE_NAMES,
  ERA,
  EVENT,
  FIGURE,
  HERITAGE,
  INGREDIENT,
  PLACE,
  RULER,
  TES,
  TYPE_NAMES,
)
from ctd_jax_datasets.ctm.schema import Distance, Entity, LabelGold, OptionGold

LABEL_RULE = "label"
_MAX_LABELS = 2  # more accepted labels would make any guess right
_ANSWER_PROMPT = f"请从{question_pool.PERIOD_LIST}中选出一个作答。"
_LABEL_TEMPLATES = {
  FIGURE: (
    "{name}{place}主要活动于哪个历史时期？",
    "历史人物{name}{place}成年后主要生活在哪个时期？",
    "若要为{name}{place}立传，应当归入哪个时期？",
  ),
  RULER: (
    "君主{name}在位于哪个历史时期？",
    "{name}登上君位、治理国家，是在哪个时期？",
    "{name}的统治属于哪个历史时期？",
  ),
  ERA: (
    "“{name}”这一年号使用于哪个历史时期？",
    "一份文书末尾署“{name}”年号，它写于哪个时期？",
    "“{name}”纪年属于哪个历史时期？",
  ),
  PLACE: (
    "今{city}一带曾称“{name}”，这一名称主要使用于哪个时期？",
    "地图上把今{city}标作“{name}”，它反映的是哪个时期的情况？",
    "“{name}”作为今{city}的称呼，主要见于哪个时期？",
  ),
  EVENT: (
    "“{name}”发生在哪个历史时期？",
    "史书所载的“{name}”，属于哪个时期的事？",
    "“{name}”这一事件应归入哪个历史时期？",
  ),
  INGREDIENT: (
    "餐桌上的{name}（来自{origin}）最早在哪个时期传入或见于中国？",
    "考察食材的来历：原出{origin}的{name}，在中国最早见于哪个时期？",
    "来自{origin}的{name}，从哪个时期起出现在中国人的饮食中？",
  ),
  HERITAGE: (
    "{listed}年列入联合国非物质文化遗产名录的“{name}”，起源于哪个时期？",
    "非物质文化遗产“{name}”最早形成于哪个历史时期？",
    "“{name}”这一传统，追溯起来始于哪个时期？",
  ),
}
# Native ingredients did not arrive from abroad.
_NATIVE_TEMPLATES = (
  "中国本土食材{name}，最早见于哪个历史时期？",
  "{name}是中国本土的食材，人们从哪个时期起食用它？",
  "本土食材{name}的食用，可以追溯到哪个时期？",
)
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
  templates = _LABEL_TEMPLATES[entity.kind]
  if entity.kind == INGREDIENT and entity.evidence[1] == "native":
    templates = _NATIVE_TEMPLATES
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
    type=EDD_TYPE_NAMES[entity.kind],
    rule=LABEL_RULE,
    question=text + _ANSWER_PROMPT,
    answer=label,
    relations=(
      repository.make_relation(entity, repository.find_main_interval(entity)),
    ),
    gold=LabelGold(label, acceptable),
    conclusion=conclusion,
    distance=Distance(0, 0),
  )


OPTION_RULE = "option"
LETTERS = "ABCD"
_TRIES = 100  # draws before the pool counts as too small
_KINDS = (FIGURE, RULER, ERA, PLACE, EVENT, INGREDIENT)
# Distances of the wrong options in periods: near, medium, far, any.
_DISTANCE_RANGES = ((1, 2), (3, 4), (5, 9), (1, 9))
_OPTION_TEMPLATES = (
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
    return _make_option_draft(
      rng, label, company, correct_entity, wrong_entities
    )
  raise NoDrawError(f"TES: no {count} entities of one period")


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
  template = (
    rng.choice(_OPTION_TEMPLATES) if len(company) > 1 else _OPTION_TEMPLATES[1]
  )
  distances = [
    periods.count_periods_between(label, choice.periods[0])
    for choice in wrong_entities
  ]
  option_facts = "；".join(
    f"{choice.name}属于{choice.periods[0]}" for choice in options
  )
  return Draft(
    type=TYPE_NAMES[TES],
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
