"""SEC and LSEC: anachronisms in a scene or in a long script.

The answer is a set, computed from the years of the scene and of all entities
in it. Nothing else in the text can be dated: the sentences between the entities
fit any time.
"""

from __future__ import annotations

import random

from ctd_jax_datasets.ctm import intervals
from ctd_jax_datasets.ctm.entities import Relation
from ctd_jax_datasets.ctm.generation import (
  plausibility_questions,
  scenes,
  wording,
)
from ctd_jax_datasets.ctm.generation.drafts import Draft
from ctd_jax_datasets.ctm.generation.pool import EntityPool
from ctd_jax_datasets.ctm.golds import AnachronismGold
from ctd_jax_datasets.ctm.vocabulary import (
  ERA,
  EVENT,
  FIGURE,
  HERITAGE,
  INGREDIENT,
  LATER,
  LSEC,
  PLACE,
  RULER,
  SEC,
  TYPE_NAMES,
)

RULE = "anachronisms"
_QUESTIONS = (
  "以上情景中有与所设时代不符的内容，请指出是哪一项或哪几项，并说明理由。",
  "这段情景里出现了穿帮之处，请找出与时代不符的内容并说明理由。",
)
_SCRIPT_QUESTION = "以上剧本中有若干与所设时代不符之处，请逐条列出并说明理由。"
_PER_ACT = 4  # entities in one act of a script
_WEATHER = (
  "天色将晚，檐下的灯一盏盏亮起。",
  "细雨初歇，石阶上还留着水痕。",
  "清晨，街上行人渐多，远处传来叫卖声。",
  "夜深人静，只听得见风过竹林。",
  "雪后初晴，院中一片洁白。",
  "午后，池边的柳影微微晃动。",
)
_FILLERS = (
  "众人沉默片刻，谁也没有先开口。",
  "有人举起杯来，环顾四座。",
  "主人起身相迎，请客人入座。",
  "童子添了灯油，又退到门外。",
  "一阵脚步声由远及近，众人都回头去看。",
  "说到此处，座中响起一片笑声。",
  "他叹了口气，把话头按下不提。",
  "窗外有人经过，屋里的声音低了下去。",
)
# Kind -> pairs of lines: the entity appears, and somebody speaks.
_LINES = {
  FIGURE: (
    ("{name}推门而入，向众人拱手。", "甲：先生远道而来，请上座。"),
    ("{name}坐在窗前，手里握着一卷书。", "乙：先生近来可好？"),
    ("{name}站在院中，与主人低声说话。", "甲：今日能见到先生，实在难得。"),
  ),
  EVENT: (
    ("老者放下手杖，讲起{name}的旧事。", "乙：那件事，长辈们也常常提起。"),
    ("有人提到{name}，座中议论纷纷。", "甲：前车之鉴，不可不记。"),
  ),
  PLACE: (
    (
      "信使送来一封公文，上面写着官府所用的地名“{name}”。",
      "甲：那里近来可还太平？",
    ),
    ("一位客人说自己刚从“{name}”来，官府正是这样称呼那里。", "乙：路上辛苦。"),
  ),
  INGREDIENT: (
    ("仆人端上新做的{name}。", "甲：趁热请用。"),
    ("厨房里堆着刚买来的{name}。", "乙：今日的菜倒是新鲜。"),
  ),
  HERITAGE: (
    ("隔壁传来声响，原来有人正在讲习{name}。", "甲：这一门，学起来可不容易。"),
    ("席间说起时下的{name}，人人称赞。", "乙：过几日一同去看看。"),
  ),
}


def draft_scene_question(
  rng: random.Random, pool: EntityPool, count: int
) -> Draft:
  """Returns a scene of `count` relations with anachronisms.

  Raises:
    NoDrawError: if the pool has no such entities.
  """
  # Less than half of the members, or the scene itself would be in doubt.
  num_strangers = 1 if count < 4 else rng.randint(1, (count - 1) // 2)
  cast = scenes.draw_cast(rng, pool, count, num_strangers)
  opening = rng.choice(plausibility_questions.OPENINGS[cast.scene.kind]).format(
    name=cast.scene.entity
  )
  scenario = "，".join(
    (opening, *plausibility_questions.draw_clauses(rng, cast.members))
  )
  return _make_draft(SEC, cast, f"{scenario}。{rng.choice(_QUESTIONS)}")


def draft_script_question(
  rng: random.Random, pool: EntityPool, count: int
) -> Draft:
  """Returns a script of several acts with anachronisms.

  Raises:
    NoDrawError: if the pool has no such entities.
  """
  num_strangers = rng.randint(1, (count - 1) // 2)
  cast = scenes.draw_cast(rng, pool, count, num_strangers)
  # A cast of LSEC is set by an era or a reign, never a life.
  setting = {
    ERA: f"“{cast.scene.entity}”年间",
    RULER: f"{cast.scene.entity}在位期间",
  }[cast.scene.kind]
  acts = []  # each with up to `_PER_ACT` members
  for first in range(0, len(cast.members), _PER_ACT):
    act = f"第{wording.format_ordinal(first // _PER_ACT + 1)}场"
    lines = [f"【{act}】{rng.choice(_WEATHER)}"]
    for relation in cast.members[first : first + _PER_ACT]:
      lines += _write_lines(rng, relation)
    acts.append("\n".join(lines))
  script = "\n".join(acts)
  return _make_draft(
    LSEC, cast, f"剧本（故事发生于{setting}）：\n{script}\n{_SCRIPT_QUESTION}"
  )


def _write_lines(rng: random.Random, relation: Relation) -> list[str]:
  """Returns the lines of a script in which an entity appears."""
  template, dialogue = rng.choice(_LINES[relation.kind])
  return [template.format(name=relation.entity), dialogue, rng.choice(_FILLERS)]


def _make_draft(task: str, cast: scenes.Cast, question: str) -> Draft:
  """Returns the draft; the answer of LSEC is a numbered list."""
  anachronisms = intervals.find_anachronisms(cast.scene, cast.members)
  members = {relation.entity: relation for relation in cast.members}
  reasons = [
    f"{anachronism.entity}（{members[anachronism.entity].period}）"
    f"{'晚于' if anachronism.reason == LATER else '早于'}所设时代"
    f"（{cast.scene.period}）"
    for anachronism in anachronisms
  ]
  answer = "；".join(reasons) + "。"
  if task == LSEC:
    answer = "\n".join(
      f"{number}. {reason}。" for number, reason in enumerate(reasons, start=1)
    )
  names = wording.join_names([item.entity for item in anachronisms])
  return Draft(
    type=TYPE_NAMES[task],
    rule=RULE,
    question=question,
    answer=answer,
    relations=cast.relations,
    gold=AnachronismGold(
      cast.scene.entity, cast.scene.start, cast.scene.end, anachronisms
    ),
    conclusion=f"与时代不符的是{names}。",
    distance=intervals.measure_distance(cast.relations),
  )
