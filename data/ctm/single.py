"""EDD: in which of the ten periods an entity belongs.

Why: the paper's largest type, knowledge without reasoning. Called by
`generate`. What a name gives away (a title such as 唐太宗) is not asked with
it: rulers go by their personal names.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator

from ctd_jax_datasets.ctm import periods, repository, wording
from ctd_jax_datasets.ctm.pool import Draft, NoDrawError, Pool, tells_period
from ctd_jax_datasets.ctm.questions import (
  EDD_TYPE_NAMES,
  ERA,
  EVENT,
  FIGURE,
  HERITAGE,
  INGREDIENT,
  PLACE,
  RULER,
  Distance,
  Entity,
  LabelGold,
)

RULE = "label"
# More labels than this leave nothing to be asked.
_MOST_LABELS = 2
_ASK = f"请从{wording.LABELS}中选出一个作答。"
_TEMPLATES = {
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
# Nowadays names of arrival differ from those of what was always there.
_NATIVE = (
  "中国本土食材{name}，最早见于哪个历史时期？",
  "{name}是中国本土的食材，人们从哪个时期起食用它？",
  "本土食材{name}的食用，可以追溯到哪个时期？",
)
# Shares of the kinds; the last four are used up with every wording.
_SHARES = {FIGURE: 0.47, RULER: 0.1, ERA: 0.19}
_EXHAUSTED = (PLACE, EVENT, INGREDIENT, HERITAGE)


def drafts(rng: random.Random, pool: Pool, count: int) -> list[Draft]:
  """Returns questions about `count` entities or wordings, none twice.

  Args:
    rng: of the split.
    pool: of the split.
    count: how many.

  Raises:
    NoDrawError: if the pool has fewer.
  """
  wanted = {kind: round(share * count) for kind, share in _SHARES.items()}
  found: list[Draft] = []
  left = count - sum(wanted.values())
  for kind in _EXHAUSTED:
    # What few have been found of, in every wording, before what there is more
    # of: 51 ingredients and 22 traditions would drown among 200 events.
    size = left if kind == _EXHAUSTED[-1] else left // 3
    made = list(_spread(rng, pool, (kind,), size))
    found += made
    left -= len(made)
  wanted[FIGURE] += left
  for kind, size in wanted.items():
    found += _spread(rng, pool, (kind,), size)
  if len(found) < count:
    found += _spread(rng, pool, (FIGURE,), count - len(found), turn=1)
  if len(found) < count:
    raise NoDrawError(f"EDD: {len(found)} questions, {count} were asked for")
  rng.shuffle(found)
  return found


def _spread(
  rng: random.Random,
  pool: Pool,
  kinds: Iterable[str],
  count: int,
  turn: int = 0,
) -> Iterator[Draft]:
  """Yields up to `count` questions, periods as evenly as they go."""
  queues = []
  for label in periods.LABELS:
    entities = [e for e in pool.of(tuple(kinds), (label,)) if _askable(e)]
    rng.shuffle(entities)
    wordings = range(3) if entities and entities[0].kind in _EXHAUSTED else (0,)
    queues.append(
      [(entity, turn + wording) for wording in wordings for entity in entities]
    )
  made = 0
  while made < count and any(queues):
    for queue in queues:
      if queue and made < count:
        entity, which = queue.pop(0)
        yield _draft(entity, which)
        made += 1


def _askable(entity: Entity) -> bool:
  return len(entity.periods) <= _MOST_LABELS and not tells_period(entity)


def _draft(entity: Entity, turn: int) -> Draft:
  """Returns the question about an entity, in one of its wordings."""
  templates = _TEMPLATES[entity.kind]
  if entity.kind == INGREDIENT and entity.evidence[1] == "native":
    templates = _NATIVE
  number = int(entity.entity_id.rpartition("-")[2])
  template = templates[(number + turn) % len(templates)]
  known = (*entity.evidence, "", "")
  place = f"（籍贯今{entity.place}）" if entity.place else ""
  text = template.format(
    name=entity.name,
    place=place,
    city=entity.place,
    origin=known[0],
    listed=known[1],
  )
  label = entity.periods[0]
  acceptable = tuple(p for p in periods.LABELS if p in entity.periods)
  also = [p for p in acceptable if p != label]
  conclusion = f"因此属于{label}" + (
    f"；与{wording.in_turn(also)}也有交集。" if also else "。"
  )
  return Draft(
    type=EDD_TYPE_NAMES[entity.kind],
    rule=RULE,
    question=text + _ASK,
    answer=label,
    relations=(repository.relation(entity, repository.main_interval(entity)),),
    gold=LabelGold(label, acceptable),
    conclusion=conclusion,
    distance=Distance(0, 0),
  )
