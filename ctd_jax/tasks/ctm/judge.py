"""Judge of answers: rules that compare them with the structured gold.

A language model as the only judge is noisy, costs money and knows no more than
the reference. Rules decide on labels, options, orders, years, sets and names,
in either script; an answer that they cannot read is `undecided` and left to a
model (see `grading`). An answer that cannot be parsed counts as wrong, with the
source `unparsed`, so that the share of such answers is visible.

An answer about a scene calls some entities anachronisms and others correct
(「其余都符合历史」); only the former are flagged. Each mention is read by its
own clause, then by the clauses after it up to the next mention, then by those
before it in the sentence. A mention without any judgement is flagged: answers
list anachronisms, not the other entities.

All texts are in Simplified script.

Source: CTM paper, section on evaluation (polarity and reason, all key points,
finer dynasties inside the range); the rules are this project's own.
"""

import dataclasses
import re
from collections.abc import Callable, Mapping, Sequence

import scipy.stats

from ctd_jax.tasks import chat
from ctd_jax.tasks.ctm import replies
from ctd_jax_datasets.ctm import periods, schema
from ctd_jax_datasets.ctm.periods import EARLIER, LATER
from ctd_jax_datasets.ctm.schema import Question, Relation

# Words of an answer that leaves several possibilities open.
HEDGE_PATTERN = re.compile(
  r"或者?|还是|要么|也可能|抑或|[/／]|不一定|难以|无法确定|不确定"
)
MAX_SHORT_LENGTH = 24  # characters of an answer that is nothing but an answer

# Form of a reply: an answer, or JSON with a chain of thought and an answer.
DIRECT, COT = STYLES = ("direct", "cot")
# Sources of a verdict besides the names of the rules.
UNDECIDED = "undecided"  # no rule could read the answer; a model may decide
UNPARSED = "unparsed"  # no answer, or not in the JSON that was asked for
REFUSED = "refused"  # the answerer declined
UNGRADED = "ungraded"  # free text; only a model can judge it, and none did
MODEL = "model"  # majority of votes of the judging model


@dataclasses.dataclass(frozen=True)
class AnswerVerdict:
  """Verdict on one answer."""

  correct: bool  # whether the answer counts as correct
  source: str  # name of the rule, or one of the constants above
  # Name of a finer metric, e.g. kendall_tau -> value.
  measures: Mapping[str, float] = dataclasses.field(default_factory=dict)
  why: str = ""  # reason, in a few words
  unreadable_votes: int = 0  # replies of the judging model that were no vote


def make_undecided(why: str, **measures: float) -> AnswerVerdict:
  """Returns the verdict of a rule that cannot read an answer."""
  return AnswerVerdict(False, UNDECIDED, measures, why)


# Statements that there is no anachronism; tested first, because they contain
# words of the patterns below (没有穿帮).
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
# Statements that something fits its time.
_VALID_PATTERN = re.compile(
  r"符合|合理|正确|吻合|一致|相符|同(?:时代|期|代)|可以出现|可能出现|"
  r"[都就已早也]经?(?:[有出传存]|在世|形成|普及|引入|引种|栽培|流行)|当时在世|都?可以|属实"
)
# 「除了X以外」: X is charged, whatever is said about the others.
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
    question: question with an `AnachronismGold`; the entity that sets the scene
      is never flagged.
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
  """Returns (name, charge) for every mention in a sentence."""
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
  """
  names = _index_by_name(relations)
  for position, name in replies.find_name_mentions(text, names):
    end = position + len(name)
    following_text = text[end : end + _CLAIM_LENGTH]
    claim = _CLAIM_PATTERN.match(following_text)
    period_mentions = periods.find_period_mentions(following_text)
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


def judge_label(question: Question, text: str) -> AnswerVerdict:
  """EDD: every asserted period or year is acceptable."""
  acceptable = {*question.gold.acceptable, question.gold.label}
  # Years count only where no dynasty is named: 「1037年，北宋」 is 宋.
  for find_meanings in (
    replies.find_period_meanings,
    replies.find_year_meanings,
  ):
    for passage in replies.iterate_passages(text):
      meanings = find_meanings(passage)
      # 辽 beside 宋: whether the label fits depends on the question.
      if any(replies.CONTEMPORARY_REGIME in meaning for meaning in meanings):
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
    # A letter inside a word is not an option.
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
  if has_period_contradiction(question.relations, text):
    return AnswerVerdict(False, "polarity_reason", measures, "reason is wrong")
  if question.gold.possible or not question.gold.conflicts:
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
  """Returns whether a text names both members of a conflict."""
  periods_by_entity = {
    relation.entity: relation.period for relation in question.relations
  }
  labels = replies.find_labels(text)
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
  """Returns the last full order of the names, else the names mentioned."""
  mentioned = [
    names[name] for _, name in replies.find_name_mentions(text, names)
  ]
  num_names = len(set(names.values()))
  # A chain of thought discusses names first and orders them last.
  for end in range(len(mentioned), num_names - 1, -1):
    window = mentioned[end - num_names : end]
    if len(set(window)) == num_names:
      return window
  return list(dict.fromkeys(mentioned)) or None


def judge_order(question: Question, text: str) -> AnswerVerdict:
  """TOU: the order is that of the gold; tied names may be in any order."""
  rank = {
    name: i for i, group in enumerate(question.gold.groups) for name in group
  }
  names = {replies.to_simplified(name): name for name in rank}
  order = None
  for passage in replies.iterate_passages(text):
    order = _read_order(passage, names)
    if order and len(order) == len(rank):
      break
  if not order or re.search("居中|中间|介于", text):
    return make_undecided("no list in order")
  if _BACKWARD_PATTERN.search(text) or re.search("晚于", text):
    order = order[::-1]
  # A missing name makes all its pairs wrong; tied names have no pair.
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


def judge_years(question: Question, text: str) -> AnswerVerdict:
  """TIC: the number is within the tolerance, with or without a year 0."""
  gold = question.gold
  years = replies.extract_num_years(text)
  if years is None:
    return make_undecided("no number of years")
  # Of a range, both ends have to be right.
  error = max(
    min(abs(value - accepted) for accepted in gold.accepted) for value in years
  )
  measures = {
    "absolute_error": error,
    "relative_error": error / max(1, gold.years),
  }
  why = "、".join(f"{value:g}" for value in years)
  is_correct = error <= gold.tolerance
  # 「978年或1000年」 is a guess with two numbers, of which one is right.
  if is_correct and len(years) == 1 and HEDGE_PATTERN.search(text):
    other_spans = {
      replies.convert_span_to_years(m)
      for m in replies.SPAN_PATTERN.finditer(text)
    } - set(years)
    is_correct = not other_spans
  return AnswerVerdict(is_correct, "years", measures, why)


def judge_anachronisms(question: Question, text: str) -> AnswerVerdict:
  """SEC, LSEC: the flagged entities are exactly those of the gold."""
  gold = question.gold
  flagged = find_flagged_entities(question, text)
  if flagged is None:
    return make_undecided("no entity of the scene is named", set_f1=0.0)
  gold_names = set(gold.names)
  hits = len(flagged & gold_names)
  measures = {
    "precision": hits / len(flagged) if flagged else float(not gold_names),
    "recall": hits / len(gold_names) if gold_names else 1.0,
    "set_f1": 2 * hits / total
    if (total := len(flagged) + len(gold_names))
    else 1.0,
  }
  if flagged == gold_names and has_reversed_reason(question, text):
    return AnswerVerdict(
      False, "anachronisms_reason", measures, "reason is wrong"
    )
  return AnswerVerdict(
    flagged == gold_names,
    "anachronisms",
    measures,
    "、".join(sorted(flagged ^ gold_names)),
  )


# Asides in brackets may hold names in another order.
_ASIDE_PATTERN = re.compile(r"[（(][^（()）]*[）)]")
_PLACE_UNIT = re.compile(r"特别行政区|(?:壮族|回族|维吾尔)?自治区|省|市|县")


def judge_names(question: Question, text: str) -> AnswerVerdict:
  """RR, EEU: all names of the gold or their aliases, in order."""
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
      return make_undecided("other order")
    if HEDGE_PATTERN.search(passage):
      return AnswerVerdict(False, "names", why="hedged")
    return AnswerVerdict(True, "names")
  # Another period is wrong; another name may be an alias the gold lacks.
  if (
    set(gold.names) <= set(periods.LABELS)
    and len(text) <= MAX_SHORT_LENGTH
    and replies.find_labels(text)
  ):
    return AnswerVerdict(False, "names", why="other period")
  return make_undecided("not all names found")


def _find_end(names: tuple[str, ...], text: str, start: int = 0) -> int | None:
  """Returns the end of the first assertion of a name, None without one."""
  if names[0] in periods.LABELS:
    for mention in periods.find_period_mentions(text):
      is_match = mention.start >= start and names[0] in mention.labels
      if is_match and not replies.is_negated(text, mention.start):
        return mention.end
  for name in map(replies.to_simplified, names):
    unit_pattern = _PLACE_UNIT.pattern
    pattern = f"(?:{unit_pattern})?".join(
      map(re.escape, _PLACE_UNIT.sub("", name) or name)
    )
    for match in re.compile(pattern).finditer(text, start):
      if not replies.is_negated(text, match.start()):
        return match.end()
  return None


# Keys of the JSON of a reply with a chain of thought. Source: the paper.
THOUGHT_KEY, ANSWER_KEY = "思考", "回答"
_REFUSAL_PATTERN = re.compile(
  r"不知道|无法(?:回答|判断|确定)|不清楚|抱歉|没有足够|信息不足|我不能"
)


def extract_final_answer(reply: str, style: str) -> str | None:
  """Returns the answer in a reply, None if it cannot be parsed.

  Args:
    reply: whole reply; thoughts in front of the answer are left out.
    style: `DIRECT` takes all of it, `COT` needs JSON with 思考 and 回答.
  """
  reply = chat.strip_thoughts(reply)
  if style == DIRECT:
    return reply
  try:
    answer = replies.parse_json_object(reply).get(ANSWER_KEY)
  except ValueError:
    return None
  # Some models write the conclusion as a JSON list.
  if isinstance(answer, list):
    return "、".join(map(str, answer))
  return None if answer is None else str(answer)


def judge_answer(
  question: Question, reply: str, style: str = DIRECT
) -> AnswerVerdict:
  """Returns the verdict of the rules."""
  answer = extract_final_answer(reply, style)
  if answer is None:
    return AnswerVerdict(False, UNPARSED, why="no JSON with 回答")
  text = replies.to_simplified(answer).strip()
  if not text:
    return AnswerVerdict(False, UNPARSED, why="empty")
  verdict = _RULES[type(question.gold)](question, text)
  # Only after the rules: an answer may hedge and still be right.
  if verdict.source == UNDECIDED and _REFUSAL_PATTERN.search(text):
    return dataclasses.replace(verdict, source=REFUSED)
  return verdict


def leave_ungraded(question: Question, text: str) -> AnswerVerdict:
  """Released questions in free text: no rule decides."""
  return AnswerVerdict(False, UNGRADED, why="only a model can compare it")


_RULES: dict[type, Callable[[Question, str], AnswerVerdict]] = {
  schema.LabelGold: judge_label,
  schema.OptionGold: judge_option,
  schema.PolarityGold: judge_polarity,
  schema.OrderGold: judge_order,
  schema.YearsGold: judge_years,
  schema.AnachronismGold: judge_anachronisms,
  schema.NamesGold: judge_names,
  schema.TextGold: leave_ungraded,
}
