"""Rules for answers that choose: a period, an option, yes or no.

All texts are in Simplified script.
"""

from __future__ import annotations

import re

from ctd_jax.tasks.ctm import anachronisms, replies, times
from ctd_jax.tasks.ctm.verdicts import (
  HEDGE_PATTERN,
  MAX_SHORT_LENGTH,
  AnswerVerdict,
  make_undecided,
)
from ctd_jax_datasets.ctm import periods
from ctd_jax_datasets.ctm.questions import Question


def judge_label(question: Question, text: str) -> AnswerVerdict:
  """EDD: every asserted period or year is acceptable."""
  acceptable = {*question.gold.acceptable, question.gold.label}
  # Years count only where no dynasty is named: 「1037年，北宋」 is 宋.
  for find_meanings in (times.find_period_meanings, times.find_year_meanings):
    for passage in replies.iterate_passages(text):
      meanings = find_meanings(passage)
      # 辽 beside 宋: whether the label fits depends on the question.
      if any(times.CONTEMPORARY_REGIME in meaning for meaning in meanings):
        return make_undecided("a regime that ruled beside the period")
      are_acceptable = [
        any(labels <= acceptable for labels in meaning) for meaning in meanings
      ]
      if are_acceptable and all(are_acceptable):
        return AnswerVerdict(True, "label")
      if are_acceptable and not any(are_acceptable):
        return AnswerVerdict(False, "label", why="other period")
      if are_acceptable and (
        HEDGE_PATTERN.search(passage) or len(text) <= MAX_SHORT_LENGTH
      ):
        return AnswerVerdict(False, "label", why="several periods")
  return make_undecided("no single period")


def judge_option(question: Question, text: str) -> AnswerVerdict:
  """TES: exactly one option is asserted, by letter or text or both."""
  gold = question.gold
  names = {
    replies.to_simplified(name): i for i, name in enumerate(gold.options)
  }
  letters = "ABCDEFGH"[: len(names)]
  for passage in replies.iterate_passages(text):
    asserted_options = {
      names[name]
      for position, name in replies.find_name_mentions(passage, names)
      if not replies.is_negated(passage, position)
    }
    # A letter inside a word is no option.
    asserted_options |= {
      letters.index(match[0].upper())
      for match in re.finditer(
        rf"(?<![A-Za-z])[{letters}{letters.lower()}](?![A-Za-z])", passage
      )
      if not replies.is_negated(passage, match.start())
    }
    if len(asserted_options) == 1:
      return AnswerVerdict(asserted_options == {gold.correct}, "option")
    if len(asserted_options) > 1 and (
      HEDGE_PATTERN.search(passage) or len(text) <= MAX_SHORT_LENGTH
    ):
      return AnswerVerdict(False, "option", why="several options")
  return make_undecided("no single option")


_NO_WORDS = (
  r"不合理|不太合理|不可能|不成立|不(?:能|会)(?:成立|发生|同时|共存|出现|见面|相遇|相见)|"
  r"不符合|不正确|不对|不是|错误|荒谬|有误|时代错乱|没有可能|并不|不可以|不行|不(?:能|会)"
)
_YES_WORDS = r"合理|可能|成立|符合|正确|没有问题|没问题|能够|可以|说得通|确实"
_POLARITY_PATTERN = re.compile(f"(?P<no>{_NO_WORDS})|(?P<yes>{_YES_WORDS})")
_OPENING_PATTERN = re.compile(
  r"^(?:答案?[:：是为]*)?\s*(?:(?P<no>否|不是|不对|不能|不会|不|错)"
  r"|(?P<yes>是的?|对的?|能|会|可))(?=[,，。.！!；;:：\s、]|$)"
)
_DOUBT_PATTERN = re.compile(
  r"也许|或许|不一定|难以|无法|不确定|不好说|看情况|是否"
)


def _read_polarity(text: str) -> bool | None:
  """Returns True for yes, False for no, None if neither is clear."""
  opening = _OPENING_PATTERN.search(text)
  if opening:
    return opening["yes"] is not None
  for passage in replies.iterate_passages(text):
    if _DOUBT_PATTERN.search(passage):
      continue
    # `_NO_WORDS` come first in the pattern, so 不可能 is not read as 可能.
    polarities = {
      match["yes"] is not None for match in _POLARITY_PATTERN.finditer(passage)
    }
    if len(polarities) == 1:
      return polarities.pop()
  return None


def judge_polarity(question: Question, text: str) -> AnswerVerdict:
  """PJ: the polarity is right, and a no names a conflict of the gold."""
  polarity = _read_polarity(text)
  if polarity is None:
    if _DOUBT_PATTERN.search(text):
      measures = {"polarity_accuracy": 0.0}
      return AnswerVerdict(False, "polarity", measures, "no yes or no")
    return make_undecided("no yes or no", polarity_accuracy=0.0)
  is_correct = polarity == question.gold.possible
  measures = {"polarity_accuracy": float(is_correct)}
  if not is_correct:
    return AnswerVerdict(False, "polarity", measures, "other polarity")
  if anachronisms.has_period_contradiction(question.relations, text):
    return AnswerVerdict(False, "polarity_reason", measures, "reason is wrong")
  if question.gold.possible:
    return AnswerVerdict(True, "polarity", measures)
  if any(
    _mentions_conflict(pair, question, text) for pair in question.gold.conflicts
  ):
    return AnswerVerdict(True, "polarity_reason", measures)
  if len(text) <= 2:  # 「否。」
    return AnswerVerdict(False, "polarity_reason", measures, "no reason")
  return make_undecided("the conflict is not named", **measures)


def _mentions_conflict(
  pair: tuple[str, str], question: Question, text: str
) -> bool:
  """Returns whether a text names both members of a conflict.

  For one of the two, a time inside the period of either is enough.
  """
  periods_by_entity = {
    relation.entity: relation.period for relation in question.relations
  }
  labels = times.find_labels(text)
  member_labels = {periods_by_entity.get(member, member) for member in pair}
  is_named = [
    member in labels
    if member in periods.LABELS
    else replies.to_simplified(member) in text
    for member in pair
  ]
  return all(is_named) or (any(is_named) and bool(labels & member_labels))
