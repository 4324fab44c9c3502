"""Language model as the judge of answers that rules leave undecided.

Aliases are never complete, and reasons can be worded in endless ways. The
model votes three times at temperature 0; its verdicts have the source `model`.

Source: CTM paper, section on evaluation, which uses one draw at temperature 1.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from ctd_jax.tasks.ctm import prompts, replies
from ctd_jax.tasks.ctm.verdicts import MODEL, AnswerVerdict
from ctd_jax_datasets.ctm.questions import Question

if TYPE_CHECKING:
  from ctd_jax.llm.client import ChatClient  # needs the extra llm

NUM_VOTES = 3  # servers are not deterministic even at temperature 0


def decide_by_vote(
  chat: ChatClient,
  question: Question,
  answer: str,
  rule_verdict: AnswerVerdict,
) -> AnswerVerdict:
  """Returns the verdict of the majority of votes.

  Without a majority among the readable votes the verdict stays undecided.

  Args:
    chat: client of the judging model.
    question: question with its reference answer.
    answer: from `judge.extract_final_answer`.
    rule_verdict: undecided verdict of the rules; its measures are kept.
  """
  messages = prompts.make_grading_prompt(question, answer)
  votes = [
    _read_vote(chat.ask(messages, sample=i).text) for i in range(NUM_VOTES)
  ]
  num_yes, num_no = votes.count(True), votes.count(False)
  why = f"{num_yes} of {NUM_VOTES} votes, {votes.count(None)} unreadable"
  if num_yes == num_no:
    return dataclasses.replace(rule_verdict, why=why)
  return AnswerVerdict(num_yes > num_no, MODEL, rule_verdict.measures, why)


def _read_vote(reply: str) -> bool | None:
  """Returns the vote in a reply, None if it cannot be read."""
  try:
    grade = replies.parse_json_object(reply).get(prompts.GRADE_KEY)
  except ValueError:
    return None
  return {"1": True, "0": False}.get(str(grade).strip())
