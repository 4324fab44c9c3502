"""A language model as the judge of what rules leave undecided.

Why: aliases are never complete and reasons can be worded in endless ways. The
model votes three times at temperature 0 (servers are not deterministic even
there); its verdicts carry the source `model`. Called by `grading`.

Source: CTM paper, section on evaluation, which uses one draw at temperature 1.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from ctd_jax.tasks.ctm import judge, prompts, replies
from ctd_jax_datasets.ctm.questions import Question

if TYPE_CHECKING:
  from ctd_jax.llm.client import ChatClient  # needs the extra llm

VOTES = 3


def decide(
  chat: ChatClient, question: Question, answer: str, rules: judge.Verdict
) -> judge.Verdict:
  """Returns the verdict of the majority of votes.

  Without a majority among the votes that can be read, the verdict of the rules
  stays undecided.

  Args:
    chat: client of the judging model.
    question: with its reference.
    answer: as read by `judge.final_answer`.
    rules: their verdict, whose finer measures are kept.
  """
  messages = prompts.grade(question, answer)
  votes = [_vote(chat.ask(messages, sample=i).text) for i in range(VOTES)]
  yes, no = votes.count(True), votes.count(False)
  why = f"{yes} of {VOTES} votes, {votes.count(None)} unreadable"
  if yes == no:
    return dataclasses.replace(rules, why=why)
  return judge.Verdict(yes > no, judge.MODEL, rules.measures, why)


def _vote(reply: str) -> bool | None:
  """Returns what a reply says, None if it cannot be read."""
  try:
    result = replies.json_object(reply).get(prompts.GRADE)
  except ValueError:
    return None
  return {"1": True, "0": False}.get(str(result).strip())
