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

SETTINGS = "settings"


class NoReplyError(ConnectionError):
  """All attempts at one request failed; others may succeed."""


class Question(Protocol):
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
  if SETTINGS not in journal:
    journal.append(SETTINGS, dict(settings))
    return
  before = journal[SETTINGS]
  for name in {**before, **settings}:
    if before.get(name) != settings.get(name):
      raise ValueError(
        f"{journal.path}: begun with {name}={before.get(name)!r}, now it is "
        f"{settings.get(name)!r}; choose another --workdir"
      )


def ask_all(
  questions: Sequence[Question],
  answerer: Answerer,
  journal: Journal,
  workers: int = 1,
) -> dict[str, str]:
  """Returns question id -> reply; what the journal has is not asked again.

  Args:
    questions: to be answered.
    answerer: asked from `workers` threads.
    journal: of the answers.
    workers: how many questions are under way at a time.

  Raises:
    NoReplyError: after all others were asked, if some had no reply; the same
      command asks just these again.
  """
  missing = [q for q in questions if q.question_id not in journal]
  failed = run_all(
    missing,
    lambda q: journal.append(q.question_id, answerer.answer(q)),
    workers,
  )
  if failed:
    raise NoReplyError(
      f"{len(failed)} of {len(questions)} questions have no answer ("
      f"{failed[0]}); run the same command again to ask only these"
    )
  return {q.question_id: journal[q.question_id] for q in questions}


def run_all(
  tasks: Sequence[Any], do: Callable[[Any], None], workers: int
) -> list[NoReplyError]:
  """Does all tasks with a progress bar; returns why some had no reply.

  Any other error ends the run, what is done stays done.
  """
  failed: list[NoReplyError] = []

  def guarded(task: Any) -> None:
    try:
      do(task)
    except NoReplyError as error:
      failed.append(error)

  bar = tqdm.tqdm(total=len(tasks), disable=not sys.stderr.isatty())
  with bar, concurrent.futures.ThreadPoolExecutor(workers) as pool:
    futures = [pool.submit(guarded, task) for task in tasks]
    try:
      for future in concurrent.futures.as_completed(futures):
        future.result()
        bar.update()
    except BaseException:
      pool.shutdown(cancel_futures=True)
      raise
  return failed
