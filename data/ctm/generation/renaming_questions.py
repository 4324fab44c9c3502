"""EEU: the name of a city in another period.

Of each city one name is given with its period, and names of other periods are
asked for; several cities make a longer question. A period is asked for only if
one name was the main one then; other names of that period are accepted.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from ctd_jax_datasets.ctm import intervals, periods, repository
from ctd_jax_datasets.ctm.entities import Entity
from ctd_jax_datasets.ctm.generation import wording
from ctd_jax_datasets.ctm.generation.drafts import Draft, NoDrawError
from ctd_jax_datasets.ctm.generation.pool import EntityPool
from ctd_jax_datasets.ctm.golds import NamesGold
from ctd_jax_datasets.ctm.vocabulary import EEU, PLACE, TYPE_NAMES

RULE = "renamed"
_TRIES = 200  # draws before the pool counts as too small


def draft_renaming_question(
  rng: random.Random, pool: EntityPool, count: int
) -> Draft:
  """Returns a question on the names of a city, or of several, in time.

  `count` is the number of names, those in the question included.

  Raises:
    NoDrawError: if the pool has no such names.
  """
  cities: dict[str, list[Entity]] = {}
  for entity in pool.select_entities((PLACE,)):
    cities.setdefault(entity.place, []).append(entity)
  for _ in range(_TRIES):
    city_names = list(cities)
    rng.shuffle(city_names)
    city_queries: list[tuple[Entity, list[Entity]]] = []
    num_remaining = count
    while num_remaining >= 2 and city_names:
      city_query = _draw_city_query(
        rng, cities[city_names.pop()], num_remaining
      )
      # One remaining name would be a city without a name to ask for.
      if city_query and num_remaining - len(city_query[1]) - 1 != 1:
        city_queries.append(city_query)
        num_remaining -= len(city_query[1]) + 1
    if num_remaining == 0:
      return _make_draft(city_queries, cities)
  raise NoDrawError(f"EEU: no {count} names of cities")


def _draw_city_query(
  rng: random.Random, names: Sequence[Entity], max_names: int
) -> tuple[Entity, list[Entity]] | None:
  """Returns a name of a city and its names in other periods, or None.

  Args:
    rng: generator of the question.
    names: all names of the city.
    max_names: maximal number of names, the first included.
  """
  given_name = rng.choice(names)
  names_by_period: dict[str, list[Entity]] = {}
  for entity in names:
    names_by_period.setdefault(entity.periods[0], []).append(entity)
  # A period with two main names has no single answer.
  queried_names = [
    period_names[0]
    for label, period_names in names_by_period.items()
    if len(period_names) == 1 and label != given_name.periods[0]
  ]
  rng.shuffle(queried_names)
  return (
    (given_name, queried_names[: rng.randint(1, max_names - 1)])
    if queried_names
    else None
  )


def _make_draft(
  city_queries: Sequence[tuple[Entity, list[Entity]]],
  cities: dict[str, list[Entity]],
) -> Draft:
  """Returns the draft of one clause for each city."""
  texts, relations, answers = [], [], []
  for given_name, queried_names in city_queries:
    queried_names.sort(key=lambda e: periods.LABELS.index(e.periods[0]))
    labels = wording.join_names([entity.periods[0] for entity in queried_names])
    texts.append(
      f"{given_name.periods[0]}时期的“{given_name.name}”（今{given_name.place}），"
      f"在{labels}时期{'分别' if len(queried_names) > 1 else ''}称作什么"
    )
    relations += [
      repository.make_relation(entity, repository.find_main_interval(entity))
      for entity in (given_name, *queried_names)
    ]
    answers += queried_names
  gold = NamesGold(
    tuple(entity.name for entity in answers),
    tuple(
      _list_alternative_names(entity, cities[entity.place])
      for entity in answers
    ),
  )
  suffix = "？请按顺序作答。" if len(answers) > 1 else "？"
  facts_text = "；".join(
    f"{e.periods[0]}称{e.name}（今{e.place}）" for e in answers
  )
  return Draft(
    type=TYPE_NAMES[EEU],
    rule=RULE,
    question="；".join(texts) + suffix,
    answer=wording.join_names(gold.names),
    relations=tuple(relations),
    gold=gold,
    conclusion=f"{facts_text}。",
    distance=intervals.measure_distance(relations),
  )


def _list_alternative_names(
  entity: Entity, names: Sequence[Entity]
) -> tuple[str, ...]:
  """Returns the other names of the city in the main period of a name."""
  label = entity.periods[0]
  synonyms = [
    spelling
    for candidate in names
    if candidate is not entity and label in candidate.periods
    for spelling in (candidate.name, *candidate.aliases)
  ]
  return tuple(dict.fromkeys((*entity.aliases, *synonyms)))
