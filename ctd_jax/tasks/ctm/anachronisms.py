"""Anachronisms that an answer flags, and the reasons that it gives.

An answer about a scene calls some entities anachronisms and others correct
(「其余都符合历史」); only the former are flagged. Each mention is read by its
own clause, then by the clauses after it up to the next mention, then by those
before it in the sentence. A mention without any judgement is flagged: answers
list anachronisms, not the other entities.

All texts are in Simplified script.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ctd_jax.tasks.ctm import replies
from ctd_jax_datasets.ctm import period_names, periods
from ctd_jax_datasets.ctm.entities import Relation
from ctd_jax_datasets.ctm.questions import Question
from ctd_jax_datasets.ctm.vocabulary import EARLIER, LATER

# Statements that there is no anachronism; tested first, as they contain words
# of the patterns below (没有穿帮).
_CLEARED_PATTERN = re.compile(
  r"没有(?:任何|明显|什么)?(?:穿帮|问题|错误|矛盾|时代)|无(?:误|穿帮|问题|错误)|"
  r"不存在(?:穿帮|问题|错误|矛盾)|(?:不是|不算|并非|不属于?|不构成)(?:穿帮|错误|问题)|"
  r"不矛盾|不冲突|并不(?:矛盾|冲突)|没问题|未(?:发现|见)(?:任何|明显)?(?:穿帮|问题)"
)
# Statements that something is an anachronism.
_CHARGED_PATTERN = re.compile(
  r"穿帮|错误|不符|不合|不可能|矛盾|冲突|尚未|还没|还未|未(?:传|出|形|建|诞|问|兴|有)|"
  r"才(?:[有出传形诞建兴开被引产生流逐])|晚于|已经?(?:去世|死|故|亡|逝|不在)|早已?(?:去世|死|亡|灭|不)|"
  r"不存在|时代错|不应|应该?[改删换]|有误|不对|不在世|没有|年代不|时间不|不属于|之后的|后世|"
  r"早于|失传|灭亡|多年[前后]|不[在是同属于]+一?个?时代"
)
# Statements that something is of its time.
_VALID_PATTERN = re.compile(
  r"符合|合理|正确|吻合|一致|相符|同(?:时代|期|代)|可以出现|可能出现|"
  r"[都就已早也]经?(?:[有出传存]|在世|形成|普及|引入|引种|栽培|流行)|当时在世|都?可以|属实"
)
# 「除了X以外」: X is charged, whatever is said of the others.
_EXCEPT_PATTERN = re.compile(r"除了?(?P<names>[^。；;\n]*?)(?:以外|之外|外)")
_DENIAL_PATTERN = re.compile(r"没有|尚未|还没|不可能|不是|并非|不在|未")
# Reasons: the entity began after the scene, or ended before it.
_LATER_PATTERN = re.compile(
  r"尚未|还没|还未|才[有出传形诞建兴]|晚于|之后才|以后才|后世|后来才"
)
_EARLIER_PATTERN = re.compile(
  r"已经?(?:去世|死|故|亡|逝|不在)|早已?(?:去世|死|亡|灭)|早于|失传|不再|此前"
)
# What links a name to its period: 「李白是清代人」.
_CLAIM_PATTERN = re.compile(
  r"[」』”\"》]?[（(，,]?(?:本?是|为|乃|系|属于?|生活[于在]|出?生[于在]|活动[于在]|"
  r"[出来]自|(?:传入|形成|产生|出现|兴起|起源|发生)[于在]|建于)"
)


_CLAIM_LENGTH = 24  # characters after a name in which a claim is read
_CLAIM_GAP = 2  # characters between a claim and its period


def _index_by_name(relations: Sequence[Relation]) -> dict[str, Relation]:
  """Returns name in Simplified script -> relation."""
  return {
    replies.to_simplified(relation.entity): relation for relation in relations
  }


def _classify_clause(clause: str) -> bool | None:
  """Returns True for an anachronism, False for correct, None for neither."""
  if _CLEARED_PATTERN.search(clause):
    return False
  if _CHARGED_PATTERN.search(clause):
    return True
  return False if _VALID_PATTERN.search(clause) else None


def find_flagged_entities(question: Question, text: str) -> set[str] | None:
  """Returns the entities that an answer flags, None if none is mentioned.

  Args:
    question: question with an `AnachronismGold`; the entity that sets the
      scene is never flagged.
    text: answer.
  """
  candidates = {
    name: relation.entity
    for name, relation in _index_by_name(question.relations).items()
    if relation.entity != question.gold.scene
  }
  scene = replies.to_simplified(question.gold.scene)
  charges: dict[str, bool | None] = {}
  for sentence in replies.split_sentences(text):
    for name, charge in _classify_mentions(sentence, candidates, scene):
      # The last judgement counts; a mention without one changes nothing.
      if charge is not None or name not in charges:
        charges[name] = charge
  for match in _EXCEPT_PATTERN.finditer(text):
    for _, name in replies.find_name_mentions(match["names"], candidates):
      charges[name] = True
  if not charges:
    return set() if _CLEARED_PATTERN.search(text) else None
  return {
    candidates[name] for name, charge in charges.items() if charge is not False
  }


def _classify_mentions(
  sentence: str, names: dict[str, str], scene: str
) -> list[tuple[str, bool | None]]:
  """Returns (name, charge) for every mention in a sentence.

  A name in the clause of the scene (「李白、杜甫在盛唐」) belongs to it.
  """
  clauses = replies.split_clauses(sentence)
  clause_names = [
    [name for _, name in replies.find_name_mentions(c, names)] for c in clauses
  ]
  charges = []
  for i, mentioned_names in enumerate(clause_names):
    if not mentioned_names:
      continue
    next_clause = next(
      (j for j in range(i + 1, len(clause_names)) if clause_names[j]),
      len(clause_names),
    )
    # Clauses before the first mention introduce it; later on they belong to
    # the mention before.
    preceding = range(i - 1, -1, -1) if not any(clause_names[:i]) else ()
    if scene in clauses[i] and _classify_clause(clauses[i]) is None:
      charges += [(name, False) for name in mentioned_names]
      continue
    for j in (i, *range(i + 1, next_clause), *preceding):
      if (charge := _classify_clause(clauses[j])) is not None:
        break
    charges += [(name, charge) for name in mentioned_names]
  return charges


def has_period_contradiction(relations: Sequence[Relation], text: str) -> bool:
  """Returns whether an answer assigns an entity to a wrong period.

  Only plain statements count: 「李白是清代人」, 「昆曲形成于汉代」.

  Args:
    relations: of the question.
    text: answer.
  """
  names = _index_by_name(relations)
  for position, name in replies.find_name_mentions(text, names):
    end = position + len(name)
    following_text = text[end : end + _CLAIM_LENGTH]
    claim = _CLAIM_PATTERN.match(following_text)
    period_mentions = period_names.find_period_mentions(following_text)
    if (
      claim is None
      or not period_mentions
      # Quotation marks and the like may stand between claim and period.
      or period_mentions[0].start > claim.end() + _CLAIM_GAP
    ):
      continue
    if _DENIAL_PATTERN.search(following_text[: period_mentions[0].end]):
      continue
    if not set(period_mentions[0].labels) & _allowed_labels(names[name]):
      return True
  return False


def _allowed_labels(relation: Relation) -> set[str]:
  """Returns the labels that an answer may give to an entity."""
  end = periods.LAST_YEAR if relation.end is None else relation.end
  start = max(relation.start, periods.FIRST_YEAR)
  labels = {relation.period, *periods.list_acceptable_labels(start)}
  if start <= end <= periods.LAST_YEAR:
    labels |= set(periods.list_span_labels(start, end))
  return labels


def has_reversed_reason(question: Question, text: str) -> bool:
  """Returns whether a reason is the opposite of the true one.

  Args:
    question: question with an `AnachronismGold`.
    text: answer that flags the right entities.
  """
  if has_period_contradiction(question.relations, text):
    return True
  names = _index_by_name(question.relations)
  # The scene is named beside every anachronism, so its mentions divide nothing.
  candidates = [n for n in names if names[n].entity != question.gold.scene]
  name_mentions = replies.find_name_mentions(text, candidates)
  for anachronism in question.gold.anachronisms:
    reasons = set()
    for i, (position, name) in enumerate(name_mentions):
      if names[name].entity != anachronism.entity:
        continue
      end = name_mentions[i + 1][0] if i + 1 < len(name_mentions) else len(text)
      reasons |= (
        {LATER} if _LATER_PATTERN.search(text, position, end) else set()
      )
      reasons |= (
        {EARLIER} if _EARLIER_PATTERN.search(text, position, end) else set()
      )
    # An answer may name both directions, e.g. of the scene and of the entity.
    if reasons and anachronism.reason not in reasons:
      return True
  return False
