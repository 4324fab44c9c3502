"""Reads which entities an answer calls out of their time, and why.

Why: an answer about a scene names some entities as anachronisms and others as
being in order (「其余都符合历史」); only the first are flagged. Called by
`judge`.

Each mention is read by its own clause, then by the clauses after it up to the
next mention, then by those before it in the sentence. A mention of which
nothing is said is flagged: answers list anachronisms, not the rest.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ctd_jax.tasks.ctm import replies
from ctd_jax_datasets.ctm import periods
from ctd_jax_datasets.ctm.questions import EARLIER, LATER, Question, Relation

_CLEARED = re.compile(
  r"没有(?:任何|明显|什么)?(?:穿帮|问题|错误|矛盾|时代)|无(?:误|穿帮|问题|错误)|"
  r"不存在(?:穿帮|问题|错误|矛盾)|(?:不是|不算|并非|不属于?|不构成)(?:穿帮|错误|问题)|"
  r"不矛盾|不冲突|并不(?:矛盾|冲突)|没问题|未(?:发现|见)(?:任何|明显)?(?:穿帮|问题)"
)
_CHARGED = re.compile(
  r"穿帮|错误|不符|不合|不可能|矛盾|冲突|尚未|还没|还未|未(?:传|出|形|建|诞|问|兴|有)|"
  r"才(?:[有出传形诞建兴开被引产生流逐])|晚于|已经?(?:去世|死|故|亡|逝|不在)|早已?(?:去世|死|亡|灭|不)|"
  r"不存在|时代错|不应|应该?[改删换]|有误|不对|不在世|没有|年代不|时间不|不属于|之后的|后世|"
  r"早于|失传|灭亡|多年[前后]|不[在是同属于]+一?个?时代"
)
_IN_ORDER = re.compile(
  r"符合|合理|正确|吻合|一致|相符|同(?:时代|期|代)|可以出现|可能出现|"
  r"[都就已早也]经?(?:[有出传存]|在世|形成|普及|引入|引种|栽培|流行)|当时在世|都?可以|属实"
)
_EXCEPT = re.compile(r"除了?(?P<names>[^。；;\n]*?)(?:以外|之外|外)")
_DENIAL = re.compile(r"没有|尚未|还没|不可能|不是|并非|不在|未")
_AFTER = re.compile(
  r"尚未|还没|还未|才[有出传形诞建兴]|晚于|之后才|以后才|后世|后来才"
)
_BEFORE = re.compile(
  r"已经?(?:去世|死|故|亡|逝|不在)|早已?(?:去世|死|亡|灭)|早于|失传|不再|此前"
)
_CLAIM = re.compile(
  r"[」』”\"》]?[（(，,]?(?:本?是|为|乃|系|属于?|生活[于在]|出?生[于在]|活动[于在]|"
  r"[出来]自|(?:传入|形成|产生|出现|兴起|起源|发生)[于在]|建于)"
)


def _names(relations: Sequence[Relation]) -> dict[str, Relation]:
  return {replies.simplified(each.entity): each for each in relations}


def _charge(clause: str) -> bool | None:
  """Returns True for an anachronism, False for in order, None for neither."""
  if _CLEARED.search(clause):
    return False
  if _CHARGED.search(clause):
    return True
  return False if _IN_ORDER.search(clause) else None


def flagged(question: Question, text: str) -> set[str] | None:
  """Returns the entities that an answer flags; None if it cannot be told.

  Args:
    question: with an `AnachronismGold`; what sets the scene is never flagged.
    text: in Simplified script.
  """
  candidates = {
    name: relation.entity
    for name, relation in _names(question.relations).items()
    if relation.entity != question.gold.scene
  }
  scene = replies.simplified(question.gold.scene)
  charges: dict[str, bool | None] = {}
  for sentence in replies.sentences(text):
    for name, charge in _charges(sentence, candidates, scene):
      # What is said later counts, silence never overrules.
      if charge is not None or name not in charges:
        charges[name] = charge
  for match in _EXCEPT.finditer(text):
    for _, name in replies.mentions(match["names"], candidates):
      charges[name] = True
  if not charges:
    return set() if _CLEARED.search(text) else None
  return {
    candidates[name] for name, charge in charges.items() if charge is not False
  }


def _charges(
  sentence: str, names: dict[str, str], scene: str
) -> list[tuple[str, bool | None]]:
  """Returns (name, charge) for every mention of a sentence.

  Who is only named beside the scene (「李白、杜甫在盛唐」) belongs to it.
  """
  clauses = replies.clauses(sentence)
  named = [[name for _, name in replies.mentions(c, names)] for c in clauses]
  found = []
  for i, here in enumerate(named):
    if not here:
      continue
    following = next(
      (j for j in range(i + 1, len(named)) if named[j]), len(named)
    )
    # Clauses before the first mention introduce it.
    before = range(i - 1, -1, -1) if not any(named[:i]) else ()
    if scene in clauses[i] and _charge(clauses[i]) is None:
      found += [(name, False) for name in here]
      continue
    for j in (i, *range(i + 1, following), *before):
      if (charge := _charge(clauses[j])) is not None:
        break
    found += [(name, charge) for name in here]
  return found


def contradicted(relations: Sequence[Relation], text: str) -> bool:
  """Whether an answer puts an entity into a period it does not belong to.

  Only plain statements count: 「李白是清代人」, 「昆曲形成于汉代」.
  """
  names = _names(relations)
  for place, name in replies.mentions(text, names):
    rest = text[place + len(name) : place + len(name) + 24]
    link = _CLAIM.match(rest)
    said = periods.find(rest)
    if link is None or not said or said[0].start > link.end() + 2:
      continue
    if _DENIAL.search(rest[: said[0].end]):
      continue
    if not set(said[0].labels) & _labels(names[name]):
      return True
  return False


def _labels(relation: Relation) -> set[str]:
  """Returns the labels that may be said of an entity."""
  last = periods.LAST_YEAR if relation.end is None else relation.end
  start = max(relation.start, periods.FIRST_YEAR)
  found = {relation.period, *periods.acceptable(start)}
  if start <= last <= periods.LAST_YEAR:
    found |= set(periods.labels_of_span(start, last))
  return found


def reversed_reason(question: Question, text: str) -> bool:
  """Whether the reason for a flagged entity is the opposite of the true one."""
  if contradicted(question.relations, text):
    return True
  names = _names(question.relations)
  # The scene is named beside whatever does not belong in it.
  others = [n for n in names if names[n].entity != question.gold.scene]
  places = replies.mentions(text, others)
  for wanted in question.gold.anachronisms:
    said = set()
    for i, (place, name) in enumerate(places):
      if names[name].entity != wanted.entity:
        continue
      end = places[i + 1][0] if i + 1 < len(places) else len(text)
      said |= {LATER} if _AFTER.search(text, place, end) else set()
      said |= {EARLIER} if _BEFORE.search(text, place, end) else set()
    if said and wanted.reason not in said:
      return True
  return False
