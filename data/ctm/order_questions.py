"""TOU, TIC and EEU: orders of first years, years along a chain, names of
cities.

Orders and sums are asked only where the tolerance of approximate years cannot
change them.
"""

import itertools
import random
from collections.abc import Sequence
from typing import Any

from ctd_jax_datasets.ctm import periods, question_drafts, repository, schema
from ctd_jax_datasets.ctm.periods import (
  END,
  ERA,
  EVENT,
  EXACT,
  FIGURE,
  INGREDIENT,
  PLACE,
  RULER,
  START,
  TOLERANCE,
)
from ctd_jax_datasets.ctm.question_drafts import (
  WORDING,
  Draft,
  EntityPool,
  NoDrawError,
  draw_period_window,
  redraw,
)
from ctd_jax_datasets.ctm.schema import (
  Entity,
  NamesGold,
  OrderGold,
  Relation,
  YearsGold,
)

_ORDER_RULE = "order"
# Kinds that are ordered together, with weights; people and events are known
# best.
_KIND_MIXES = (
  ((FIGURE,), 5),
  ((EVENT,), 4),
  ((RULER,), 2),
  ((ERA,), 2),
  ((PLACE,), 1),
  ((INGREDIENT,), 1),
  ((FIGURE, EVENT), 2),
  ((FIGURE, ERA, EVENT), 2),
  ((EVENT, INGREDIENT), 1),
)


@redraw
def draft_order_question(
  rng: random.Random, pool: EntityPool, count: int
) -> Draft:
  """Returns a question that asks for the order of `count` entities.

  Approximate first years lie so far apart that the order is certain; equal
  first years are ties.
  """
  kinds = rng.choices(*zip(*_KIND_MIXES, strict=True))[0]
  entities = pool.draw_entities(rng, count, kinds, draw_period_window(rng))
  relations = tuple(repository.make_relation(entity) for entity in entities)
  if not _is_order_sure(relations):
    raise NoDrawError("years too close to tell the order")
  return _make_order_draft(rng, relations)


def _is_order_sure(relations: Sequence[Relation]) -> bool:
  """Returns whether all first years differ by more than their tolerance."""
  ranked = sorted(relations, key=lambda relation: relation.start)
  # A single tie has no order.
  if ranked[0].start == ranked[-1].start:
    return False
  for earlier, later in itertools.pairwise(ranked):
    gap_years = periods.count_years_between(earlier.start, later.start)[0]
    if gap_years <= schema.sum_tolerances(earlier, later) and gap_years > 0:
      return False
    # Approximate years that are equal may still differ.
    if gap_years == 0 and schema.sum_tolerances(earlier, later):
      return False
  return True


def _make_order_draft(
  rng: random.Random, relations: Sequence[Relation]
) -> Draft:
  """Returns the draft, with notes on the years that count and on ties."""
  groups = schema.order_by_start(relations)
  kinds = dict.fromkeys(relation.kind for relation in relations)
  conventions = "；".join(WORDING["convention"][kind][0] for kind in kinds)
  tied_groups = [group for group in groups if len(group) > 1]
  if tied_groups:
    conventions += "；同年者并列，先后不限"
  question = rng.choice(WORDING["order"][""]).format(
    names=question_drafts.join_names(
      [relation.entity for relation in relations]
    ),
    which=conventions,
  )
  ordered_names = [name for group in groups for name in group]
  ties = "".join(
    f"其中{question_drafts.join_names(group)}同年。" for group in tied_groups
  )
  answer = question_drafts.join_names(ordered_names)
  return Draft(
    rule=_ORDER_RULE,
    question=question,
    answer=answer,
    relations=tuple(relations),
    gold=OrderGold(groups),
    conclusion=f"由早到晚：{answer}。{ties}",
  )


_YEARS_RULE = "years"
_EXACT_SHARE = 0.9  # of the questions; the others test the tolerance


@redraw
def draft_years_question(
  rng: random.Random, pool: EntityPool, count: int
) -> Draft:
  """Returns a question about the years along a chain of `count` points."""
  kinds = rng.choice(((FIGURE,), (EVENT,), (FIGURE, EVENT, RULER)))
  needs_exact = rng.random() < _EXACT_SHARE
  entities = pool.draw_entities(
    rng,
    count,
    kinds,
    draw_period_window(rng),
    lambda entity: not needs_exact or entity.intervals[0].precision == EXACT,
  )
  relations = tuple(repository.make_relation(entity) for entity in entities)
  # Only a life has a last year that is an event of its own.
  points = tuple(
    rng.choice((START, END)) if relation.kind == FIGURE else START
    for relation in relations
  )
  dates = [
    schema.year_at(relation, point)
    for relation, point in zip(relations, points, strict=True)
  ]
  steps = tuple(
    periods.count_years_between(first, second)[0]
    for first, second in itertools.pairwise(dates)
  )
  # A step of no years could not be seen in the sum.
  if not all(steps):
    raise NoDrawError("two of the years are one")
  return _make_years_draft(rng, relations, points, dates, steps)


def _make_years_draft(
  rng: random.Random,
  relations: tuple[Relation, ...],
  points: tuple[str, ...],
  dates: Sequence[int],
  steps: tuple[int, ...],
) -> Draft:
  """Returns the draft, with both conventions where the chain crosses 1 BCE."""
  point_texts = [
    _format_time_point(relation, point)
    for relation, point in zip(relations, points, strict=True)
  ]
  first, *rest = point_texts
  templates = WORDING["years"]["chain" if rest[1:] else "pair"]
  question = rng.choice(templates).format(
    first=first, second=rest[0], rest="，再到".join(rest)
  )
  true_years, naive_years = periods.sum_years_along(dates)
  sum_text = "＋".join(map(str, steps))
  conclusion = (
    f"相隔{sum_text}＝{true_years}年。"
    if len(steps) > 1
    else f"相隔{true_years}年。"
  )
  if naive_years != true_years:
    conclusion += f"公元元年之前没有公元0年；若计入则为{naive_years}年。"
  return Draft(
    rule=_YEARS_RULE,
    question=question,
    answer=f"约{true_years}年",
    relations=relations,
    gold=YearsGold(
      years=true_years,
      with_year_zero=naive_years,
      # Inner years enter the sum twice. A life or reign is off by one where a
      # source counts its year from the new year, or from the year after.
      tolerance=sum(
        max(TOLERANCE[relation.precision], relation.kind in (FIGURE, RULER))
        for relation in itertools.chain(*itertools.pairwise(relations))
      ),
      points=points,
      steps=steps,
    ),
    conclusion=conclusion,
  )


def _format_time_point(relation: Relation, point: str) -> str:
  """Returns the year of a question in words: 「屈原去世」."""
  if relation.kind == FIGURE:
    return f"{relation.entity}{'出生' if point == START else '去世'}"
  if relation.kind == RULER:
    return f"{relation.entity}即位"
  is_single_year = relation.start == relation.end
  return f"{relation.entity}{'发生' if is_single_year else '开始'}"


_RENAMING_RULE = "renamed"
_MIN_SHARE = 0.25  # of a period, for a name of a city to be that of the period


@redraw
def draft_renaming_question(
  rng: random.Random, pool: EntityPool, count: int
) -> Draft:
  """Returns a question on the names of a city, or of several, in time.

  `count` is the number of names, those in the question included.
  """
  cities: dict[str, list[Entity]] = {}
  for entity in pool.select_entities((PLACE,)):
    cities.setdefault(entity.place, []).append(entity)
  city_names = list(cities)
  rng.shuffle(city_names)
  city_queries: list[tuple[Entity, list[Entity]]] = []
  num_remaining = count
  while num_remaining >= 2 and city_names:
    city_query = _draw_city_query(rng, cities[city_names.pop()], num_remaining)
    # One remaining name would be a city without a name to ask for.
    if city_query and num_remaining - len(city_query[1]) - 1 != 1:
      city_queries.append(city_query)
      num_remaining -= len(city_query[1]) + 1
  if num_remaining:
    raise NoDrawError(f"no {count} names of cities")
  return _make_renaming_draft(city_queries)


def _count_years(span: Any, label: str) -> int:
  """Returns the years of an interval, or of a period, in a period."""
  return repository.count_years_by_label(span.start, span.end).get(label, 0)


def _draw_city_query(
  rng: random.Random, names: Sequence[Entity], max_names: int
) -> tuple[Entity, list[Entity]] | None:
  """Returns a name of a city and its names in other periods, or None."""
  given_name = rng.choice(names)
  names_by_period: dict[str, list[Entity]] = {}
  for entity in names:
    names_by_period.setdefault(entity.periods[0], []).append(entity)
  # A period with two main names has no single answer, nor has one in which a
  # name was soon given up: 潮州 was 潮阳郡 for 16 years of 唐.
  queried_names = [
    period_names[0]
    for label, period_names in names_by_period.items()
    if len(period_names) == 1
    and label != given_name.periods[0]
    and sum(_count_years(use, label) for use in period_names[0].intervals)
    >= _MIN_SHARE * _count_years(periods.get_period(label), label)
  ]
  rng.shuffle(queried_names)
  return (
    (given_name, queried_names[: rng.randint(1, max_names - 1)])
    if queried_names
    else None
  )


def _make_renaming_draft(
  city_queries: Sequence[tuple[Entity, list[Entity]]],
) -> Draft:
  """Returns the draft of one clause for each city."""
  texts, relations, answers, accepted = [], [], [], []
  for given_name, queried_names in city_queries:
    queried_names.sort(key=lambda e: periods.LABELS.index(e.periods[0]))
    labels = question_drafts.join_names(
      [entity.periods[0] for entity in queried_names]
    )
    texts.append(
      f"{given_name.periods[0]}时期的“{given_name.name}”（今{given_name.place}），"
      f"在{labels}时期{'分别' if len(queried_names) > 1 else ''}称作什么"
    )
    relations += [
      repository.make_relation(entity, repository.find_main_interval(entity))
      for entity in (given_name, *queried_names)
    ]
    answers += queried_names
    accepted += [
      _list_alternative_names(entity, given_name) for entity in queried_names
    ]
  gold = NamesGold(tuple(entity.name for entity in answers), tuple(accepted))
  suffix = "？请按顺序作答。" if len(answers) > 1 else "？"
  facts_text = "；".join(
    f"{e.periods[0]}称{e.name}（今{e.place}）" for e in answers
  )
  return Draft(
    rule=_RENAMING_RULE,
    question="；".join(texts) + suffix,
    answer=question_drafts.join_names(gold.names),
    relations=tuple(relations),
    gold=gold,
    conclusion=f"{facts_text}。",
  )


def _list_alternative_names(
  entity: Entity, given_name: Entity
) -> tuple[str, ...]:
  """Returns all names of the city that were in use in the period of a name.

  This includes names that no question asks for because two cities had them
  (恒州).
  """
  synonyms = [
    spelling
    for candidate in repository.load_entities()
    if candidate.kind == PLACE
    and candidate.place == entity.place
    and any(
      _count_years(use, entity.periods[0]) > 1  # the first may be the last
      for use in candidate.intervals
    )
    for spelling in (candidate.name, *candidate.aliases)
  ]
  # The name in the question is no answer, even where it was used again.
  return tuple(
    name
    for name in dict.fromkeys((*entity.aliases, *synonyms))
    if name not in (entity.name, given_name.name) and name not in entity.place
  )
