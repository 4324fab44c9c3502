"""Verdicts on many answers: the rules', and a model's where they have none.

Why: answering and checking the judge grade alike. Called by `qa` and
`agreement`.
"""

from __future__ import annotations

import contextlib
import pathlib
from collections.abc import Sequence

from absl import flags, logging

from ctd_jax.llm import endpoint_flags, question_runner
from ctd_jax.tasks.ctm import judge, model_judge
from ctd_jax_datasets.ctm.questions import Question

# Question, reply, style.
AnsweredQuestion = tuple[Question, str, str]


def define_flags() -> None:
  """Defines the flag that names the model."""
  flags.DEFINE_string(
    "judge_model",
    None,
    "Model that judges what the rules cannot; without one that counts as "
    "wrong. Example: --judge_model=gpt-4o",
  )


def grade_answers(
  answered: Sequence[AnsweredQuestion], replies_path: pathlib.Path
) -> list[judge.AnswerVerdict]:
  """Returns a verdict for each answer.

  Args:
    answered: questions with replies and how they were asked.
    replies_path: journal of the judging model, made only if there is one.
  """
  verdicts = [
    judge.judge_answer(*answered_question) for answered_question in answered
  ]
  model = flags.FLAGS.judge_model
  if model is None:
    return verdicts
  with contextlib.ExitStack() as stack:
    chat = stack.enter_context(endpoint_flags.open_client(replies_path, model))

    def decide_with_model(index: int) -> None:
      question, reply, style = answered[index]
      answer = judge.extract_final_answer(reply, style) or ""
      verdicts[index] = model_judge.decide_by_vote(
        chat, question, answer, verdicts[index]
      )

    undecided = [
      index
      for index, verdict in enumerate(verdicts)
      if verdict.source == judge.UNDECIDED
    ]
    errors = question_runner.run_tasks(
      undecided, decide_with_model, flags.FLAGS.workers
    )
  if errors:
    logging.warning("%d verdicts stay open: %s", len(errors), errors[0])
  return verdicts
