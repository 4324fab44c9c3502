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
from ctd_jax_datasets.ctm import periods, questions
from ctd_jax_datasets.ctm.questions import Question

UNDECIDED, UNPARSED, REFUSED, MODEL = (
  "undecided",
  "unparsed",
  "refused",
  "model",
)
DIRECT, COT = STYLES = ("direct", "cot")
THOUGHT, ANSWER = "思考", "回答"
_HEDGE = re.compile(
  r"或者?|还是|要么|也可能|抑或|[/／]|不一定|难以|无法确定|不确定"
)
_REFUSAL = re.compile(
  r"不知道|无法(?:回答|判断|确定)|不清楚|抱歉|没有足够|信息不足|我不能"
)
_SHORT = 24  # characters of an answer that is nothing but an answer


@dataclasses.dataclass(frozen=True)
class Verdict:
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


def final_answer(reply: str, style: str) -> str | None:
  """Returns the answer in a reply, None if it cannot be parsed.

  Args:
    reply: all that was said.
    style: direct takes all of it, cot wants JSON with 思考 and 回答.
  """
  if style == DIRECT:
    return reply
  try:
    answer = replies.json_object(reply).get(ANSWER)
  except ValueError:
    return None
  if isinstance(answer, list):
    return "、".join(map(str, answer))
  return None if answer is None else str(answer)


def judge(question: Question, reply: str, style: str = DIRECT) -> Verdict:
  """Returns the verdict of the rules.

  Args:
    question: with its gold.
    reply: to it, in either script.
    style: one of `STYLES`.
  """
  answer = final_answer(reply, style)
  if answer is None:
    return Verdict(False, UNPARSED, why="no JSON with 回答")
  text = replies.simplified(answer).strip()
  if not text:
    return Verdict(False, UNPARSED, why="empty")
  verdict = _RULES[type(question.gold)](question, text)
  if verdict.source == UNDECIDED and _REFUSAL.search(text):
    return dataclasses.replace(verdict, source=REFUSED)
  return verdict


def _undecided(why: str, **measures: float) -> Verdict:
  return Verdict(False, UNDECIDED, measures, why)


def _judge_label(question: Question, text: str) -> Verdict:
  """EDD: all that is asserted lies inside what is acceptable."""
  acceptable = {*question.gold.acceptable, question.gold.label}
  for read in (times.periods_said, times.years_said):
    for passage in replies.passages(text):
      said = read(passage)
      if any(times.BESIDE in meaning for meaning in said):
        return _undecided("a regime that ruled beside the period")
      fits = [
        any(labels <= acceptable for labels in meaning) for meaning in said
      ]
      if fits and all(fits):
        return Verdict(True, "label")
      if fits and not any(fits):
        return Verdict(False, "label", why="other period")
      if fits and (_HEDGE.search(passage) or len(text) <= _SHORT):
        return Verdict(False, "label", why="several periods")
  return _undecided("no single period")


def _judge_option(question: Question, text: str) -> Verdict:
  """TES: exactly one option is asserted, by letter, by text or by both."""
  gold = question.gold
  names = {replies.simplified(name): i for i, name in enumerate(gold.options)}
  letters = "ABCDEFGH"[: len(names)]
  for passage in replies.passages(text):
    found = {
      names[name]
      for place, name in replies.mentions(passage, names)
      if not replies.negated(passage, place)
    }
    found |= {
      letters.index(match[0].upper())
      for match in re.finditer(
        rf"(?<![A-Za-z])[{letters}{letters.lower()}](?![A-Za-z])", passage
      )
      if not replies.negated(passage, match.start())
    }
    if len(found) == 1:
      return Verdict(found == {gold.correct}, "option")
    if len(found) > 1 and (_HEDGE.search(passage) or len(text) <= _SHORT):
      return Verdict(False, "option", why="several options")
  return _undecided("no single option")


_NO = (
  r"不合理|不太合理|不可能|不成立|不(?:能|会)(?:成立|发生|同时|共存|出现|见面|相遇|相见)|"
  r"不符合|不正确|不对|不是|错误|荒谬|有误|时代错乱|没有可能|并不|不可以|不行|不(?:能|会)"
)
_YES = r"合理|可能|成立|符合|正确|没有问题|没问题|能够|可以|说得通|确实"
_POLAR = re.compile(f"(?P<no>{_NO})|(?P<yes>{_YES})")
_OPENING = re.compile(
  r"^(?:答案?[:：是为]*)?\s*(?:(?P<no>否|不是|不对|不能|不会|不|错)"
  r"|(?P<yes>是的?|对的?|能|会|可))(?=[,，。.！!；;:：\s、]|$)"
)
_DOUBT = re.compile(r"也许|或许|不一定|难以|无法|不确定|不好说|看情况|是否")


def _polarity(text: str) -> bool | None:
  """Returns whether an answer says yes; None if it does not say."""
  opening = _OPENING.search(text)
  if opening:
    return opening["yes"] is not None
  for passage in replies.passages(text):
    if _DOUBT.search(passage):
      continue
    found = {match["yes"] is not None for match in _POLAR.finditer(passage)}
    if len(found) == 1:
      return found.pop()
  return None


def _judge_polarity(question: Question, text: str) -> Verdict:
  """PJ: yes or no is right, and a no names a conflict with its period."""
  said = _polarity(text)
  if said is None:
    if _DOUBT.search(text):
      measures = {"polarity_accuracy": 0.0}
      return Verdict(False, "polarity", measures, "no yes or no")
    return _undecided("no yes or no", polarity_accuracy=0.0)
  right = said == question.gold.possible
  measures = {"polarity_accuracy": float(right)}
  if not right:
    return Verdict(False, "polarity", measures, "other polarity")
  if anachronisms.contradicted(question.relations, text):
    return Verdict(False, "polarity_reason", measures, "reason is wrong")
  if question.gold.possible:
    return Verdict(True, "polarity", measures)
  if any(
    _names_conflict(pair, question, text) for pair in question.gold.conflicts
  ):
    return Verdict(True, "polarity_reason", measures)
  if len(text) <= 2:
    return Verdict(False, "polarity_reason", measures, "no reason")
  return _undecided("the conflict is not named", **measures)


def _names_conflict(
  pair: tuple[str, str], question: Question, text: str
) -> bool:
  """Whether a text names both members of a conflict.

  One of two entities may be told by a time inside the period of either.
  """
  entities = {each.entity: each.period for each in question.relations}
  labels = times.labels_said(text)
  known = {entities.get(member, member) for member in pair}
  named = [
    member in labels
    if member in periods.LABELS
    else replies.simplified(member) in text
    for member in pair
  ]
  return all(named) or (any(named) and bool(labels & known))


_BACKWARD = re.compile(
  r"(?:从|由)(?:最?[晚后近])到(?:最?[早先远前])|倒序|晚到早|近到远"
)


def _order(text: str, names: Mapping[str, str]) -> list[str] | None:
  """Returns the last full order of the names in a text, else what is there."""
  found = [names[name] for _, name in replies.mentions(text, names)]
  total = len(set(names.values()))
  for end in range(len(found), total - 1, -1):
    window = found[end - total : end]
    if len(set(window)) == total:
      return window
  return list(dict.fromkeys(found)) or None


def _judge_order(question: Question, text: str) -> Verdict:
  """TOU: the order is that of the gold; ties go either way."""
  groups = question.gold.groups
  rank = {name: i for i, group in enumerate(groups) for name in group}
  names = {replies.simplified(name): name for name in rank}
  order = None
  for passage in replies.passages(text):
    order = _order(passage, names)
    if order and len(order) == len(rank):
      break
  if not order or re.search("居中|中间|介于", text):
    return _undecided("no list in order")
  if _BACKWARD.search(text) or re.search("晚于", text):
    order = order[::-1]
  pairs = [
    (order.index(a) < order.index(b)) if {a, b} <= set(order) else False
    for a in rank
    for b in rank
    if rank[a] < rank[b]
  ]
  measures = {"pair_accuracy": sum(pairs) / len(pairs) if pairs else 1.0}
  if len(order) == len(rank):
    ranks = [rank[name] for name in order]
    tau = scipy.stats.kendalltau(range(len(ranks)), ranks).statistic
    measures["kendall_tau"] = float(tau)
  complete = len(order) == len(rank)
  why = "" if complete else f"{len(rank) - len(order)} missing"
  return Verdict(complete and all(pairs), "order", measures, why)


def _judge_years(question: Question, text: str) -> Verdict:
  """TIC: within the tolerance of the dates, with or without a year 0."""
  gold = question.gold
  years = times.number_of_years(text)
  if years is None:
    return _undecided("no number of years")
  off = max(
    min(abs(value - right) for right in gold.accepted) for value in years
  )
  measures = {
    "absolute_error": off,
    "relative_error": off / max(1, gold.years),
  }
  why = "、".join(f"{value:g}" for value in years)
  right = off <= gold.tolerance
  if right and len(years) == 1 and _HEDGE.search(text):
    others = {times.years_of(m) for m in times.SPAN.finditer(text)} - set(years)
    right = not others
  return Verdict(right, "years", measures, why)


def _judge_anachronisms(question: Question, text: str) -> Verdict:
  """SEC, LSEC: the flagged entities are those of the gold, and no others."""
  gold = question.gold
  flagged = anachronisms.flagged(question, text)
  if flagged is None:
    return _undecided("no entity of the scene is named", set_f1=0.0)
  wanted = set(gold.names)
  hits = len(flagged & wanted)
  measures = {
    "precision": hits / len(flagged) if flagged else float(not wanted),
    "recall": hits / len(wanted) if wanted else 1.0,
    "set_f1": 2 * hits / total
    if (total := len(flagged) + len(wanted))
    else 1.0,
  }
  if flagged == wanted and anachronisms.reversed_reason(question, text):
    return Verdict(False, "anachronisms_reason", measures, "reason is wrong")
  why = "、".join(sorted(flagged ^ wanted))
  return Verdict(flagged == wanted, "anachronisms", measures, why)


_ASIDE = re.compile(r"[（(][^（()）]*[）)]")
_PLACE_UNIT = re.compile(r"特别行政区|(?:壮族|回族|维吾尔)?自治区|省|市|县")


def _judge_names(question: Question, text: str) -> Verdict:
  """RR, EEU: every part is named, by one of its names, in order."""
  gold = question.gold
  parts = [
    (name, *aliases)
    for name, aliases in zip(gold.names, gold.aliases, strict=True)
  ]
  for passage in (*replies.passages(text), _ASIDE.sub("", text)):
    if None in [_end_of(names, passage) for names in parts]:
      continue
    end: int | None = 0
    for names in parts:
      end = None if end is None else _end_of(names, passage, end)
    if end is None:
      return _undecided("other order")
    if _HEDGE.search(passage):
      return Verdict(False, "names", why="hedged")
    return Verdict(True, "names")
  asks_period = set(gold.names) <= set(periods.LABELS)
  if asks_period and len(text) <= _SHORT and times.labels_said(text):
    return Verdict(False, "names", why="other period")
  return _undecided("not all names found")


def _end_of(names: tuple[str, ...], text: str, start: int = 0) -> int | None:
  """Returns where one of the names ends that is asserted from `start` on.

  Units of places (省, 市) may be missing; names of periods may be finer.
  """
  if names[0] in periods.LABELS:
    for mention in periods.find(text):
      fits = mention.start >= start and names[0] in mention.labels
      if fits and not replies.negated(text, mention.start):
        return mention.end
  for name in map(replies.simplified, names):
    units = _PLACE_UNIT.pattern
    bare = _PLACE_UNIT.sub("", name) or name
    pattern = f"(?:{units})?".join(map(re.escape, bare))
    for match in re.compile(pattern).finditer(text, start):
      if not replies.negated(text, match.start()):
        return match.end()
  return None


_RULES: dict[type, Callable[[Question, str], Verdict]] = {
  questions.LabelGold: _judge_label,
  questions.OptionGold: _judge_option,
  questions.PolarityGold: _judge_polarity,
  questions.OrderGold: _judge_order,
  questions.YearsGold: _judge_years,
  questions.AnachronismGold: _judge_anachronisms,
  questions.NamesGold: _judge_names,
}
