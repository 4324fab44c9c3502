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
Answered = tuple[Question, str, str]


def define_flags() -> None:
  """Defines the flag that names the model."""
  flags.DEFINE_string(
    "judge_model",
    None,
    "Model that judges what the rules cannot; without one that counts as "
    "wrong. Example: --judge_model=gpt-4o",
  )


def grade(
  answered: Sequence[Answered], replies: pathlib.Path
) -> list[judge.Verdict]:
  """Returns a verdict for each answer.

  Args:
    answered: questions with replies and how they were asked.
    replies: journal of the judging model, made only if there is one.
  """
  verdicts = [judge.judge(*one) for one in answered]
  model = flags.FLAGS.judge_model
  if model is None:
    return verdicts
  with contextlib.ExitStack() as stack:
    chat = stack.enter_context(endpoint_flags.client(replies, model))

    def decide(place: int) -> None:
      question, reply, style = answered[place]
      answer = judge.final_answer(reply, style) or ""
      verdicts[place] = model_judge.decide(
        chat, question, answer, verdicts[place]
      )

    unsure = [
      place
      for place, verdict in enumerate(verdicts)
      if verdict.source == judge.UNDECIDED
    ]
    failed = question_runner.run_all(unsure, decide, flags.FLAGS.workers)
  if failed:
    logging.warning("%d verdicts stay open: %s", len(failed), failed[0])
  return verdicts
