"""Asks an answerer many questions: in parallel, journaled, resumable.

Why: a run may be killed at any moment and is then started again with the same
command. Answers stand in `answers.jsonl` of its folder; the first record says
with which settings, so that two systems never share a file. Called by
`python -m ctd_jax.tasks.ctm qa`, `ctd_jax.tasks.evidence_qa` and
`ctd_jax.systems.pseudo_queries`.
"""

from __future__ import annotations

import concurrent.futures
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import tqdm

from ctd_jax.llm.journal import Journal

SETTINGS_KEY = "settings"


class NoReplyError(ConnectionError):
  """All attempts at one request failed; others may succeed."""


class QuestionLike(Protocol):
  """Whatever has an id to keep its answer by."""

  question_id: str


class Answerer(Protocol):
  """Whoever answers questions from their text."""

  def answer(self, question: Any) -> str:
    """Returns the whole reply to a question; reads neither gold nor answer."""


def check_settings(journal: Journal, settings: Mapping[str, object]) -> None:
  """Writes the settings of a run, or checks that they are those of before.

  Raises:
    ValueError: naming the file and what differs.
  """
  if SETTINGS_KEY not in journal:
    journal.append(SETTINGS_KEY, dict(settings))
    return
  previous_settings = journal[SETTINGS_KEY]
  for name in {**previous_settings, **settings}:
    if previous_settings.get(name) != settings.get(name):
      raise ValueError(
        f"{journal.path}: begun with {name}={previous_settings.get(name)!r}, now it is "
        f"{settings.get(name)!r}; choose another --workdir"
      )


def ask_questions(
  questions: Sequence[QuestionLike],
  answerer: Answerer,
  journal: Journal,
  num_workers: int = 1,
) -> dict[str, str]:
  """Returns question id -> reply; what the journal has is not asked again.

  Args:
    questions: to be answered.
    answerer: asked from `num_workers` threads.
    journal: of the answers.
    num_workers: how many questions are under way at a time.

  Raises:
    NoReplyError: after all others were asked, if some had no reply; the same
      command asks just these again.
  """
  unanswered = [q for q in questions if q.question_id not in journal]
  errors = run_tasks(
    unanswered,
    lambda q: journal.append(q.question_id, answerer.answer(q)),
    num_workers,
  )
  if errors:
    raise NoReplyError(
      f"{len(errors)} of {len(questions)} questions have no answer ("
      f"{errors[0]}); run the same command again to ask only these"
    )
  return {q.question_id: journal[q.question_id] for q in questions}


def run_tasks(
  tasks: Sequence[Any], do_task: Callable[[Any], None], num_workers: int
) -> list[NoReplyError]:
  """Does all tasks with a progress bar; returns why some had no reply.

  Any other error ends the run, what is done stays done.
  """
  errors: list[NoReplyError] = []

  def do_guarded(task: Any) -> None:
    try:
      do_task(task)
    except NoReplyError as error:
      errors.append(error)

  progress_bar = tqdm.tqdm(total=len(tasks), disable=not sys.stderr.isatty())
  with progress_bar, concurrent.futures.ThreadPoolExecutor(num_workers) as pool:
    futures = [pool.submit(do_guarded, task) for task in tasks]
    try:
      for future in concurrent.futures.as_completed(futures):
        future.result()
        progress_bar.update()
    except BaseException:
      pool.shutdown(cancel_futures=True)
      raise
  return errors
