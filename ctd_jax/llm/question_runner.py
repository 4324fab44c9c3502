"""Runner of many questions: parallel, journaled, resumable.

A run may be killed at any moment and is resumed by the same command. Its
answers are in a journal whose first record has the settings of the run, so
that two systems never share a file.
"""

from __future__ import annotations

import concurrent.futures
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from ctd_jax.llm.journal import Journal
from ctd_jax.utils import progress

SETTINGS_KEY = "settings"  # key of the first record; no question has this id


class NoReplyError(ConnectionError):
  """Failure of all attempts at one request; other requests may succeed."""


class QuestionLike(Protocol):
  """Question with an id, which is the key of its answer."""

  question_id: str


class Answerer(Protocol):
  """Answerer of questions: a model, a look-up, a quotation."""

  def answer(self, question: Any) -> str:
    """Returns the whole reply; must read neither gold nor reference answer."""


def check_settings(journal: Journal, settings: Mapping[str, object]) -> None:
  """Writes the settings of a new run, or compares them with a resumed one.

  Args:
    journal: of the answers.
    settings: everything on which the answers depend, as JSON values.

  Raises:
    ValueError: naming the file and the setting that differs.
  """
  if SETTINGS_KEY not in journal:
    journal.append(SETTINGS_KEY, dict(settings))
    return
  previous_settings = journal[SETTINGS_KEY]
  # Names of both: a setting may be missing in either.
  for name in {**previous_settings, **settings}:
    if previous_settings.get(name) != settings.get(name):
      raise ValueError(
        f"{journal.path}: begun with {name}={previous_settings.get(name)!r}, "
        f"now it is {settings.get(name)!r}; choose another --workdir"
      )


def ask_questions(
  questions: Sequence[QuestionLike],
  answerer: Answerer,
  journal: Journal,
  num_workers: int = 1,
) -> dict[str, str]:
  """Returns question id -> reply; journaled answers are not asked again.

  Args:
    questions: questions to be answered.
    answerer: called from `num_workers` threads.
    journal: journal of the answers, extended here.
    num_workers: number of parallel questions.

  Raises:
    NoReplyError: after all questions were asked, if some had no reply; the
      same command asks only these again.
  """
  # Order of the questions, for a journal of one worker.
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
  """Returns the errors of the tasks without a reply, after all were tried.

  Any other error ends the run; finished tasks stay in their journal.

  Args:
    tasks: arguments of `do_task`.
    do_task: called from `num_workers` threads.
    num_workers: number of threads.
  """
  errors: list[NoReplyError] = []

  def do_guarded(task: Any) -> None:
    try:
      do_task(task)
    except NoReplyError as error:
      errors.append(error)

  progress_bar = progress.Progress(total=len(tasks), unit="question")
  with progress_bar, concurrent.futures.ThreadPoolExecutor(num_workers) as pool:
    futures = [pool.submit(do_guarded, task) for task in tasks]
    try:
      for future in concurrent.futures.as_completed(futures):
        future.result()
        progress_bar.update()
    except BaseException:  # also a keyboard interrupt
      pool.shutdown(cancel_futures=True)
      raise
  return errors
