"""Rules for answers that list: an order, years, anachronisms, names.

All texts are in Simplified script.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import scipy.stats

from ctd_jax.tasks.ctm import anachronisms, replies, times
from ctd_jax.tasks.ctm.verdicts import (
  HEDGE_PATTERN,
  MAX_SHORT_LENGTH,
  AnswerVerdict,
  make_undecided,
)
from ctd_jax_datasets.ctm import period_names, periods
from ctd_jax_datasets.ctm.questions import Question

_BACKWARD_PATTERN = re.compile(
  r"(?:从|由)(?:最?[晚后近])到(?:最?[早先远前])|倒序|晚到早|近到远"
)


def _read_order(text: str, names: Mapping[str, str]) -> list[str] | None:
  """Returns the last full order of the names, else the names mentioned.

  Args:
    text: one passage.
    names: name in Simplified script -> name in the gold.

  Returns:
    None if the text names none of them.
  """
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
  groups = question.gold.groups
  rank = {name: i for i, group in enumerate(groups) for name in group}
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
  years = times.extract_num_years(text)
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
      times.convert_span_to_years(m) for m in times.SPAN_PATTERN.finditer(text)
    } - set(years)
    is_correct = not other_spans
  return AnswerVerdict(is_correct, "years", measures, why)


def judge_anachronisms(question: Question, text: str) -> AnswerVerdict:
  """SEC, LSEC: the flagged entities are exactly those of the gold."""
  gold = question.gold
  flagged = anachronisms.find_flagged_entities(question, text)
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
  if flagged == gold_names and anachronisms.has_reversed_reason(question, text):
    return AnswerVerdict(
      False, "anachronisms_reason", measures, "reason is wrong"
    )
  why = "、".join(sorted(flagged ^ gold_names))
  return AnswerVerdict(flagged == gold_names, "anachronisms", measures, why)


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
  is_period_question = set(gold.names) <= set(periods.LABELS)
  if (
    is_period_question
    and len(text) <= MAX_SHORT_LENGTH
    and times.find_labels(text)
  ):
    return AnswerVerdict(False, "names", why="other period")
  return make_undecided("not all names found")


def _find_end(names: tuple[str, ...], text: str, start: int = 0) -> int | None:
  """Returns the end of the first assertion of a name, None without one.

  Units of places (省, 市) may be missing; names of periods may be finer.

  Args:
    names: a name of the gold and its aliases.
    text: one passage.
    start: position from which names are searched.
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
