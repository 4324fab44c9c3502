"""Verdicts on many answers: by rules, and by a model where rules are silent."""

from __future__ import annotations

import os
from collections.abc import Sequence

from absl import logging

from ctd_jax.llm import question_runner
from ctd_jax.llm.connection import open_client
from ctd_jax.tasks.ctm import judge, model_judge
from ctd_jax.tasks.ctm.settings import JudgeSettings
from ctd_jax.tasks.ctm.verdicts import UNDECIDED, AnswerVerdict
from ctd_jax_datasets.ctm.questions import Question

# Question, reply, style.
AnsweredQuestion = tuple[Question, str, str]


def grade_answers(
  answered: Sequence[AnsweredQuestion],
  settings: JudgeSettings,
  replies_path: str | os.PathLike,
) -> list[AnswerVerdict]:
  """Returns a verdict for each answer.

  Args:
    answered: questions with replies and the style of these.
    settings: judging model, if any.
    replies_path: journal of the judging model, created only if there is one.
  """
  verdicts = [
    judge.judge_answer(question, reply, style)
    for question, reply, style in answered
  ]
  if settings.endpoint is None:
    return verdicts
  undecided_indices = [
    index
    for index, verdict in enumerate(verdicts)
    if verdict.source == UNDECIDED
  ]
  with open_client(replies_path, settings.endpoint) as chat:

    def decide_with_model(index: int) -> None:
      question, reply, style = answered[index]
      # An unparsed answer is never undecided; "" only satisfies the type.
      answer = judge.extract_final_answer(reply, style) or ""
      verdicts[index] = model_judge.decide_by_vote(
        chat, question, answer, verdicts[index]
      )

    errors = question_runner.run_tasks(
      undecided_indices, decide_with_model, settings.workers
    )
  if errors:
    logging.warning("%d verdicts stay open: %s", len(errors), errors[0])
  return verdicts
