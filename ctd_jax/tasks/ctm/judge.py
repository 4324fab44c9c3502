"""Judges answers by rules that read them against the structured gold.

Why: a language model as the only judge is noisy, costs money and knows no
more than the reference. Rules decide what can be read: labels, options, orders,
years, sets, names, in either script. What they cannot read is left `undecided`
for `model_judge`; every verdict says which rule, or that the model, gave it.
Called by `python -m ctd_jax.tasks.ctm` and by the tests against hand-made answers.

An answer that cannot be parsed counts as wrong under the source `unparsed`, so
that its share can be seen.

Source: CTM paper, section on evaluation (polarity and reason, all key points,
finer dynasties inside the range); the rules are this project's own.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping

import scipy.stats

from ctd_jax.tasks.ctm import anachronisms, replies, times
from ctd_jax_datasets.ctm import golds, period_names, periods
from ctd_jax_datasets.ctm.questions import Question

UNDECIDED, UNPARSED, REFUSED, MODEL = (
  "undecided",
  "unparsed",
  "refused",
  "model",
)
DIRECT, COT = STYLES = ("direct", "cot")
THOUGHT_KEY, ANSWER_KEY = "思考", "回答"
_HEDGE_PATTERN = re.compile(
  r"或者?|还是|要么|也可能|抑或|[/／]|不一定|难以|无法确定|不确定"
)
_REFUSAL_PATTERN = re.compile(
  r"不知道|无法(?:回答|判断|确定)|不清楚|抱歉|没有足够|信息不足|我不能"
)
_MAX_SHORT_LENGTH = 24  # characters of an answer that is nothing but an answer


@dataclasses.dataclass(frozen=True)
class AnswerVerdict:
  """What an answer is worth.

  Attributes:
    correct: whether it counts.
    source: name of the rule, or one of the constants above.
    measures: finer figures, e.g. kendall_tau; by name of the metric.
    why: what was read, in a few words.
  """

  correct: bool
  source: str
  measures: Mapping[str, float] = dataclasses.field(default_factory=dict)
  why: str = ""


def extract_final_answer(reply: str, style: str) -> str | None:
  """Returns the answer in a reply, None if it cannot be parsed.

  Args:
    reply: all that was said.
    style: direct takes all of it, cot wants JSON with 思考 and 回答.
  """
  if style == DIRECT:
    return reply
  try:
    answer = replies.parse_json_object(reply).get(ANSWER_KEY)
  except ValueError:
    return None
  if isinstance(answer, list):
    return "、".join(map(str, answer))
  return None if answer is None else str(answer)


def judge_answer(
  question: Question, reply: str, style: str = DIRECT
) -> AnswerVerdict:
  """Returns the verdict of the rules.

  Args:
    question: with its gold.
    reply: to it, in either script.
    style: one of `STYLES`.
  """
  answer = extract_final_answer(reply, style)
  if answer is None:
    return AnswerVerdict(False, UNPARSED, why="no JSON with 回答")
  text = replies.to_simplified(answer).strip()
  if not text:
    return AnswerVerdict(False, UNPARSED, why="empty")
  verdict = _RULES[type(question.gold)](question, text)
  if verdict.source == UNDECIDED and _REFUSAL_PATTERN.search(text):
    return dataclasses.replace(verdict, source=REFUSED)
  return verdict


def _make_undecided(why: str, **measures: float) -> AnswerVerdict:
  return AnswerVerdict(False, UNDECIDED, measures, why)


def _judge_label(question: Question, text: str) -> AnswerVerdict:
  """EDD: all that is asserted lies inside what is acceptable."""
  acceptable = {*question.gold.acceptable, question.gold.label}
  for find_meanings in (times.find_period_meanings, times.find_year_meanings):
    for passage in replies.iterate_passages(text):
      meanings = find_meanings(passage)
      if any(times.CONTEMPORARY_REGIME in meaning for meaning in meanings):
        return _make_undecided("a regime that ruled beside the period")
      are_acceptable = [
        any(labels <= acceptable for labels in meaning) for meaning in meanings
      ]
      if are_acceptable and all(are_acceptable):
        return AnswerVerdict(True, "label")
      if are_acceptable and not any(are_acceptable):
        return AnswerVerdict(False, "label", why="other period")
      if are_acceptable and (
        _HEDGE_PATTERN.search(passage) or len(text) <= _MAX_SHORT_LENGTH
      ):
        return AnswerVerdict(False, "label", why="several periods")
  return _make_undecided("no single period")


def _judge_option(question: Question, text: str) -> AnswerVerdict:
  """TES: exactly one option is asserted, by letter, by text or by both."""
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
      _HEDGE_PATTERN.search(passage) or len(text) <= _MAX_SHORT_LENGTH
    ):
      return AnswerVerdict(False, "option", why="several options")
  return _make_undecided("no single option")


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
  """Returns whether an answer says yes; None if it does not say."""
  opening = _OPENING_PATTERN.search(text)
  if opening:
    return opening["yes"] is not None
  for passage in replies.iterate_passages(text):
    if _DOUBT_PATTERN.search(passage):
      continue
    polarities = {
      match["yes"] is not None for match in _POLARITY_PATTERN.finditer(passage)
    }
    if len(polarities) == 1:
      return polarities.pop()
  return None


def _judge_polarity(question: Question, text: str) -> AnswerVerdict:
  """PJ: yes or no is right, and a no names a conflict with its period."""
  polarity = _read_polarity(text)
  if polarity is None:
    if _DOUBT_PATTERN.search(text):
      measures = {"polarity_accuracy": 0.0}
      return AnswerVerdict(False, "polarity", measures, "no yes or no")
    return _make_undecided("no yes or no", polarity_accuracy=0.0)
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
  if len(text) <= 2:
    return AnswerVerdict(False, "polarity_reason", measures, "no reason")
  return _make_undecided("the conflict is not named", **measures)


def _mentions_conflict(
  pair: tuple[str, str], question: Question, text: str
) -> bool:
  """Whether a text names both members of a conflict.

  One of two entities may be told by a time inside the period of either.
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


_BACKWARD_PATTERN = re.compile(
  r"(?:从|由)(?:最?[晚后近])到(?:最?[早先远前])|倒序|晚到早|近到远"
)


def _read_order(text: str, names: Mapping[str, str]) -> list[str] | None:
  """Returns the last full order of the names in a text, else what is there."""
  mentioned = [
    names[name] for _, name in replies.find_name_mentions(text, names)
  ]
  num_names = len(set(names.values()))
  for end in range(len(mentioned), num_names - 1, -1):
    window = mentioned[end - num_names : end]
    if len(set(window)) == num_names:
      return window
  return list(dict.fromkeys(mentioned)) or None


def _judge_order(question: Question, text: str) -> AnswerVerdict:
  """TOU: the order is that of the gold; ties go either way."""
  groups = question.gold.groups
  rank = {name: i for i, group in enumerate(groups) for name in group}
  names = {replies.to_simplified(name): name for name in rank}
  order = None
  for passage in replies.iterate_passages(text):
    order = _read_order(passage, names)
    if order and len(order) == len(rank):
      break
  if not order or re.search("居中|中间|介于", text):
    return _make_undecided("no list in order")
  if _BACKWARD_PATTERN.search(text) or re.search("晚于", text):
    order = order[::-1]
  pairs_in_order = [
    (order.index(a) < order.index(b)) if {a, b} <= set(order) else False
    for a in rank
    for b in rank
    if rank[a] < rank[b]
  ]
  measures = {
    "pair_accuracy": sum(pairs_in_order) / len(pairs_in_order)
    if pairs_in_order
    else 1.0
  }
  if len(order) == len(rank):
    ranks = [rank[name] for name in order]
    tau = scipy.stats.kendalltau(range(len(ranks)), ranks).statistic
    measures["kendall_tau"] = float(tau)
  is_complete = len(order) == len(rank)
  why = "" if is_complete else f"{len(rank) - len(order)} missing"
  return AnswerVerdict(
    is_complete and all(pairs_in_order), "order", measures, why
  )


def _judge_years(question: Question, text: str) -> AnswerVerdict:
  """TIC: within the tolerance of the dates, with or without a year 0."""
  gold = question.gold
  years = times.extract_num_years(text)
  if years is None:
    return _make_undecided("no number of years")
  error = max(
    min(abs(value - is_correct) for is_correct in gold.accepted)
    for value in years
  )
  measures = {
    "absolute_error": error,
    "relative_error": error / max(1, gold.years),
  }
  why = "、".join(f"{value:g}" for value in years)
  is_correct = error <= gold.tolerance
  if is_correct and len(years) == 1 and _HEDGE_PATTERN.search(text):
    other_spans = {
      times.convert_span_to_years(m) for m in times.SPAN_PATTERN.finditer(text)
    } - set(years)
    is_correct = not other_spans
  return AnswerVerdict(is_correct, "years", measures, why)


def _judge_anachronisms(question: Question, text: str) -> AnswerVerdict:
  """SEC, LSEC: the flagged entities are those of the gold, and no others."""
  gold = question.gold
  flagged = anachronisms.find_flagged_entities(question, text)
  if flagged is None:
    return _make_undecided("no entity of the scene is named", set_f1=0.0)
  gold_names = set(gold.names)
  hits = len(flagged & gold_names)
  measures = {
    "precision": hits / len(flagged) if flagged else float(not gold_names),
    "recall": hits / len(gold_names) if gold_names else 1.0,
    "set_f1": 2 * hits / total
    if (total := len(flagged) + len(gold_names))
    else 1.0,
  }
  if flagged == gold_names and anachronisms.has_reversed_reason(question, text):
    return AnswerVerdict(
      False, "anachronisms_reason", measures, "reason is wrong"
    )
  why = "、".join(sorted(flagged ^ gold_names))
  return AnswerVerdict(flagged == gold_names, "anachronisms", measures, why)


_ASIDE_PATTERN = re.compile(r"[（(][^（()）]*[）)]")
_PLACE_UNIT = re.compile(r"特别行政区|(?:壮族|回族|维吾尔)?自治区|省|市|县")


def _judge_names(question: Question, text: str) -> AnswerVerdict:
  """RR, EEU: every part is named, by one of its names, in order."""
  gold = question.gold
  accepted_names = [
    (name, *aliases)
    for name, aliases in zip(gold.names, gold.aliases, strict=True)
  ]
  for passage in (
    *replies.iterate_passages(text),
    _ASIDE_PATTERN.sub("", text),
  ):
    if None in [_find_end(names, passage) for names in accepted_names]:
      continue
    end: int | None = 0
    for names in accepted_names:
      end = None if end is None else _find_end(names, passage, end)
    if end is None:
      return _make_undecided("other order")
    if _HEDGE_PATTERN.search(passage):
      return AnswerVerdict(False, "names", why="hedged")
    return AnswerVerdict(True, "names")
  is_period_question = set(gold.names) <= set(periods.LABELS)
  if (
    is_period_question
    and len(text) <= _MAX_SHORT_LENGTH
    and times.find_labels(text)
  ):
    return AnswerVerdict(False, "names", why="other period")
  return _make_undecided("not all names found")


def _find_end(names: tuple[str, ...], text: str, start: int = 0) -> int | None:
  """Returns where one of the names ends that is asserted from `start` on.

  Units of places (省, 市) may be missing; names of periods may be finer.
  """
  if names[0] in periods.LABELS:
    for mention in period_names.find_period_mentions(text):
      is_match = mention.start >= start and names[0] in mention.labels
      if is_match and not replies.is_negated(text, mention.start):
        return mention.end
  for name in map(replies.to_simplified, names):
    unit_pattern = _PLACE_UNIT.pattern
    stem = _PLACE_UNIT.sub("", name) or name
    pattern = f"(?:{unit_pattern})?".join(map(re.escape, stem))
    for match in re.compile(pattern).finditer(text, start):
      if not replies.is_negated(text, match.start()):
        return match.end()
  return None


_RULES: dict[type, Callable[[Question, str], AnswerVerdict]] = {
  golds.LabelGold: _judge_label,
  golds.OptionGold: _judge_option,
  golds.PolarityGold: _judge_polarity,
  golds.OrderGold: _judge_order,
  golds.YearsGold: _judge_years,
  golds.AnachronismGold: _judge_anachronisms,
  golds.NamesGold: _judge_names,
}
