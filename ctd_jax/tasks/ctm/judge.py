"""Judge of answers: rules that compare them with the structured gold.

A language model as the only judge is noisy, costs money and knows no more than
the reference. Rules decide on labels, options, orders, years, sets and names,
in either script; an answer that they cannot read is `undecided` and left to
`model_judge`. An answer that cannot be parsed counts as wrong, with the source
`unparsed`, so that the share of such answers is visible.

Source: CTM paper, section on evaluation (polarity and reason, all key points,
finer dynasties inside the range); the rules are this project's own.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable

from ctd_jax.tasks.ctm import choice_rules, list_rules, replies
from ctd_jax.tasks.ctm.settings import DIRECT
from ctd_jax.tasks.ctm.verdicts import (
  REFUSED,
  UNDECIDED,
  UNPARSED,
  AnswerVerdict,
)
from ctd_jax_datasets.ctm import golds
from ctd_jax_datasets.ctm.questions import Question

# Keys of the JSON of a reply with a chain of thought. Source: the paper.
THOUGHT_KEY, ANSWER_KEY = "思考", "回答"
_REFUSAL_PATTERN = re.compile(
  r"不知道|无法(?:回答|判断|确定)|不清楚|抱歉|没有足够|信息不足|我不能"
)


def extract_final_answer(reply: str, style: str) -> str | None:
  """Returns the answer in a reply, None if it cannot be parsed.

  Args:
    reply: the whole reply.
    style: `DIRECT` takes all of it, `COT` needs JSON with 思考 and 回答.
  """
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
  """Returns the verdict of the rules.

  Args:
    question: question with its gold.
    reply: reply of any system, in either script.
    style: one of `settings.STYLES`.
  """
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


_RULES: dict[type, Callable[[Question, str], AnswerVerdict]] = {
  golds.LabelGold: choice_rules.judge_label,
  golds.OptionGold: choice_rules.judge_option,
  golds.PolarityGold: choice_rules.judge_polarity,
  golds.OrderGold: list_rules.judge_order,
  golds.YearsGold: list_rules.judge_years,
  golds.AnachronismGold: list_rules.judge_anachronisms,
  golds.NamesGold: list_rules.judge_names,
}
