"""EDD, TES and RR: the period of an entity, the option of a period, relations.

An entity whose name gives away its period is not asked about. In EDD, every
entity is asked once before any is asked again.
"""

import functools
import random
from collections.abc import Callable, Iterable, Iterator, Sequence

from ctd_jax_datasets.ctm import periods, question_drafts, repository, schema
from ctd_jax_datasets.ctm.periods import (
  ERA,
  EVENT,
  EXACT,
  FIGURE,
  HERITAGE,
  INGREDIENT,
  PLACE,
  RULER,
)
from ctd_jax_datasets.ctm.question_drafts import (
  WORDING,
  Draft,
  EntityPool,
  NoDrawError,
  draw_period_window,
  is_unambiguous,
  redraw,
  tells_period,
)
from ctd_jax_datasets.ctm.schema import (
  Distance,
  Entity,
  LabelGold,
  NamesGold,
  OptionGold,
  Relation,
)

LABEL_RULE = "label"
_MAX_LABELS = 2  # more accepted labels would make any guess right
_ANSWER_PROMPT = f"请从{question_drafts.PERIOD_LIST}中选出一个作答。"
# Shares of the kinds with many records; the other kinds use all records, each
# in every wording.
_KIND_SHARES = {FIGURE: 0.47, RULER: 0.1, ERA: 0.19}
_EXHAUSTED_KINDS = (PLACE, EVENT, INGREDIENT, HERITAGE)


def make_label_drafts(
  rng: random.Random, pool: EntityPool, count: int
) -> list[Draft]:
  """Returns drafts with different entities or wordings, in random order."""
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
      if len(candidate.periods) <= _MAX_LABELS and not tells_period(candidate)
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
  reason = f"属{evidence[0]}政权，" if entity.kind in (RULER, ERA) else ""
  conclusion = f"{reason}因此属于{label}" + (
    f"；与{question_drafts.join_names(secondary_labels)}也有交集。"
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
  """Returns a question with `count` entities of one period."""
  label = rng.choice(periods.LABELS)
  kind = rng.choice(_KINDS)
  nearest, furthest = rng.choice(_DISTANCE_RANGES)
  distant_labels = [
    other_label
    for other_label in periods.LABELS
    if nearest <= periods.count_periods_between(label, other_label) <= furthest
  ]
  (correct_entity,) = pool.draw_entities(
    rng, 1, (kind,), (label,), is_unambiguous
  )
  company = pool.draw_entities(
    rng,
    count - 1,
    (FIGURE, RULER, ERA, EVENT),
    (label,),
    lambda candidate: (
      is_unambiguous(candidate) and candidate is not correct_entity
    ),
  )
  wrong_entities = pool.draw_entities(
    rng, 3, (kind,), distant_labels, is_unambiguous
  )
  options = [correct_entity, *wrong_entities]
  rng.shuffle(options)
  relations = tuple(map(repository.make_relation, (*company, correct_entity)))
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
    question=template.format(
      company=question_drafts.join_names(
        [question_drafts.format_title(r) for r in relations[:-1]]
      ),
      options="".join(
        f"{letter}. {option.name} "
        for letter, option in zip(LETTERS, options, strict=True)
      ),
    ),
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


# RR. Overlaps and gaps exceed the tolerance of the years, so that the answer is
# sure.


_REIGN_RULE, _ERA_RULE = "reign", "era"
# Regimes of which only one is taken as the central one at a time.
_ONE_RULER = tuple(
  ["西汉", "东汉", "隋", "唐", "武周", "北宋", "南宋", "元", "明", "后金", "清"]
)


def draft_reign_question(
  rng: random.Random, pool: EntityPool, count: int
) -> Draft:
  """Returns the question who reigned when events or births happened."""
  pairs = _draw_ruler_pairs(
    rng, pool, count // 2, (EVENT, FIGURE), _find_reigning_rulers
  )
  subjects_text = question_drafts.join_names(
    [
      subject.entity + ("出生" if subject.kind == FIGURE else "")
      for subject, _ in pairs
    ]
  )
  question_word = "分别是谁？请按顺序作答，" if len(pairs) > 1 else "是谁？"
  question = (
    f"{subjects_text}之时，中原王朝在位的皇帝{question_word}本名或通称均可。"
  )
  return _make_ruler_draft(_REIGN_RULE, question, pairs)


def draft_era_question(
  rng: random.Random, pool: EntityPool, count: int
) -> Draft:
  """Returns the question which rulers used some eras."""
  pairs = _draw_ruler_pairs(rng, pool, count // 2, (ERA,), _find_era_rulers)
  eras_text = question_drafts.join_names(
    [f"“{era.entity}”" for era, _ in pairs]
  )
  question_word = "哪些君主" if len(pairs) > 1 else "哪位君主"
  order_note = "请按顺序作答，" if len(pairs) > 1 else ""
  question = (
    f"年号{eras_text}是{question_word}使用的？{order_note}本名或通称均可。"
  )
  return _make_ruler_draft(_ERA_RULE, question, pairs)


def _draw_ruler_pairs(
  rng: random.Random,
  pool: EntityPool,
  count: int,
  kinds: Sequence[str],
  find_rulers: Callable[[EntityPool], dict[str, Entity]],
) -> list[tuple[Relation, Entity]]:
  """Returns pairs of a relation and its one ruler, no ruler twice."""
  ruler_pairs: list[tuple[Relation, Entity]] = []
  ruler_of = find_rulers(pool)
  for entity in pool.draw_entities(
    rng,
    count,
    kinds,
    draw_period_window(rng),
    lambda candidate: candidate.entity_id in ruler_of,
  ):
    ruler = ruler_of[entity.entity_id]
    if any(ruler is paired_ruler for _, paired_ruler in ruler_pairs):
      raise NoDrawError("one ruler twice")
    ruler_pairs.append((repository.make_relation(entity), ruler))
  return ruler_pairs


@functools.cache
def _find_reigning_rulers(pool: EntityPool) -> dict[str, Entity]:
  """Returns entity id -> ruler in the inner years of a reign."""
  reigns = [
    (reign, ruler)
    for ruler in repository.load_entities()
    if ruler.kind == RULER and ruler.evidence[0] in _ONE_RULER
    for reign in ruler.intervals
    if reign.sense == "reign"
  ]
  # Rulers of all splits decide who reigned, those of this one are answers.
  pool_rulers = {
    entity.entity_id: entity for entity in pool.select_entities((RULER,))
  }
  ruler_of = {}
  for entity in pool.select_entities((EVENT, FIGURE)):
    years = entity.intervals[0]
    matching_reigns = [
      (reign, ruler)
      for reign, ruler in reigns
      if reign.start <= years.start <= reign.end
    ]
    # None, two at a time, or a year that is only approximate.
    if len(matching_reigns) != 1 or years.precision != EXACT:
      continue
    ((reign, ruler),) = matching_reigns
    # In its first and last year a reign shares the year with another.
    is_inside = reign.start < years.start < reign.end
    is_named = ruler.name in entity.name
    if is_inside and reign.precision == EXACT and not is_named:
      ruler_of[entity.entity_id] = pool_rulers.get(ruler.entity_id)
  return {entity_id: ruler for entity_id, ruler in ruler_of.items() if ruler}


@functools.cache
def _find_era_rulers(pool: EntityPool) -> dict[str, Entity]:
  """Returns entity id of an era -> its ruler."""
  rulers = {
    (ruler.name, ruler.evidence[0]): ruler
    for ruler in pool.select_entities((RULER,))
  }
  ruler_of = {}
  for era in pool.select_entities((ERA,)):
    # Rulers of one name are told apart by their polity.
    polity, name = era.evidence
    ruler = rulers.get((name, polity))
    if ruler and any(
      reign.start <= era.intervals[0].start <= reign.end
      for reign in ruler.intervals
      if reign.sense == "reign"
    ):
      ruler_of[era.entity_id] = ruler
  return ruler_of


def _make_draft(
  rule: str,
  question: str,
  relations: Sequence[Relation],
  gold: NamesGold,
  conclusion: str,
) -> Draft:
  """Returns the draft of a question whose answer is the gold names."""
  return Draft(
    rule=rule,
    question=question,
    answer=question_drafts.join_names(gold.names),
    relations=tuple(relations),
    gold=gold,
    conclusion=conclusion,
  )


def _make_ruler_draft(
  rule: str, question: str, pairs: Sequence[tuple[Relation, Entity]]
) -> Draft:
  """Returns the draft of a question whose answer is the rulers of pairs."""
  relations = [
    relation
    for subject, ruler in pairs
    for relation in (
      subject,
      # Some reigned twice.
      repository.make_relation(
        ruler,
        next(
          (
            reign
            for reign in ruler.intervals
            if reign.start <= subject.start <= reign.end
          ),
          None,
        ),
      ),
    )
  ]
  gold = NamesGold(
    tuple(ruler.name for _, ruler in pairs),
    tuple(_list_ruler_names(*pair) for pair in pairs),
  )
  facts_text = "；".join(
    f"{subject.entity}对应{ruler.name}" for subject, ruler in pairs
  )
  return _make_draft(rule, question, relations, gold, f"{facts_text}。")


def _list_ruler_names(subject: Relation, ruler: Entity) -> tuple[str, ...]:
  """Returns other accepted names; for an era, those of all who used it."""
  if subject.kind != ERA:
    return ruler.aliases
  others = [
    other
    for other in repository.load_entities()
    if other.kind == RULER
    and other.evidence == ruler.evidence
    and other.entity_id != ruler.entity_id
    # Who died in its first year, or came in its last, may not have used it.
    and any(
      reign.start < subject.end and reign.end > subject.start
      for reign in other.intervals
      if reign.sense == "reign"
    )
  ]
  names = (name for other in others for name in (other.name, *other.aliases))
  return (*ruler.aliases, *names)


_TOGETHER, _CONTEMPORARY, _PROVINCE = "together", "contemporary", "province"
_SAME_TIME = "同时在世"
_MARGIN = 15  # years by which overlaps and gaps exceed the tolerance


@redraw
def draft_relation_question(
  rng: random.Random, pool: EntityPool, count: int
) -> Draft:
  """Returns a question on the relation of `count` entities."""
  drafters = [
    _draft_province,
    _draft_together if count == 2 else _draft_contemporary,
  ]
  # Their relations come in pairs: a fact and its ruler.
  if count % 2 == 0:
    drafters += [
      draft_reign_question,
      draft_era_question,
    ]
  return rng.choice(drafters)(rng, pool, count)


def _draft_together(rng: random.Random, pool: EntityPool, count: int) -> Draft:
  """Returns the question whether two people lived at the same time."""
  labels = draw_period_window(rng, max_width=rng.choice((1, 9)))
  relations = [
    repository.make_relation(entity)
    for entity in pool.draw_entities(rng, count, (FIGURE,), labels)
  ]
  gap_years = schema.compute_gap(*relations)
  if 0 < abs(gap_years) <= _MARGIN + schema.sum_tolerances(*relations):
    raise NoDrawError("too close to tell")
  if gap_years == 0:
    common_span = schema.intersect_years(relations)
    if common_span[1] - common_span[0] <= _MARGIN + schema.sum_tolerances(
      *relations
    ):
      raise NoDrawError("too close to tell")
    gold = NamesGold((_SAME_TIME,), (WORDING["accepted"]["together"],))
  else:
    names = [relation.entity for relation in relations]
    first, second = names if gap_years > 0 else reversed(names)
    gold = NamesGold(
      (f"{first}早于{second}",),
      (
        tuple(
          template.format(first, second)
          for template in WORDING["accepted"]["earlier"]
        ),
      ),
    )
  names = [relation.entity for relation in relations]
  question = rng.choice(WORDING["relation"]["together"]).format(*names)
  return _make_draft(
    _TOGETHER, question, relations, gold, f"结论：{gold.names[0]}。"
  )


def _draft_contemporary(
  rng: random.Random, pool: EntityPool, count: int
) -> Draft:
  """Returns the question which of several people was a contemporary."""
  (stem_entity,) = pool.draw_entities(rng, 1, (FIGURE,))
  stem = repository.make_relation(stem_entity)

  def is_contemporary(entity: Entity) -> bool:
    candidate = repository.make_relation(entity)
    common_span = schema.intersect_years((stem, candidate))
    slack = _MARGIN + schema.sum_tolerances(stem, candidate)
    return common_span is not None and common_span[1] - common_span[0] > slack

  def is_apart(entity: Entity) -> bool:
    candidate = repository.make_relation(entity)
    slack = _MARGIN + schema.sum_tolerances(stem, candidate)
    return abs(schema.compute_gap(stem, candidate)) > slack

  (correct_entity,) = pool.draw_entities(
    rng,
    1,
    (FIGURE,),
    is_eligible=lambda candidate: (
      candidate.entity_id != stem_entity.entity_id
      and is_contemporary(candidate)
    ),
  )
  wrong_entities = pool.draw_entities(
    rng, count - 2, (FIGURE,), draw_period_window(rng), is_apart
  )
  candidates = [correct_entity, *wrong_entities]
  rng.shuffle(candidates)
  names = question_drafts.join_names([entity.name for entity in candidates])
  question = rng.choice(WORDING["relation"]["contemporary"]).format(
    names=names, stem=stem_entity.name
  )
  relations = [stem, *map(repository.make_relation, candidates)]
  gold = NamesGold((correct_entity.name,), (correct_entity.aliases,))
  return _make_draft(
    _CONTEMPORARY,
    question,
    relations,
    gold,
    f"只有{correct_entity.name}与其同时在世。",
  )


def _draft_province(rng: random.Random, pool: EntityPool, count: int) -> Draft:
  """Returns the question which present province each person came from."""
  entities = pool.draw_entities(
    rng,
    count,
    (FIGURE,),
    draw_period_window(rng),
    lambda entity: bool(entity.place),
  )
  relations = [repository.make_relation(entity) for entity in entities]
  names = question_drafts.join_names([entity.name for entity in entities])
  question = rng.choice(WORDING["relation"]["province"]).format(names=names)
  gold = NamesGold(
    tuple(entity.place for entity in entities),
    tuple(entity.evidence[1:] for entity in entities),
  )
  facts_text = "；".join(f"{e.name}籍贯在今{e.place}" for e in entities)
  return _make_draft(_PROVINCE, question, relations, gold, f"{facts_text}。")
