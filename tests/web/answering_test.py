"""Threads that answer: so many, and counted when their time is over."""

import asyncio
import threading

import pytest

from ctd_jax.web.requests import AnswerThreads
from tests.web.conftest import open_client


def test_slow_questions_do_not_pile_up_threads():
  threads = AnswerThreads(2)
  release = threading.Event()
  begun = []

  def work():
    begun.append(threading.get_ident())
    release.wait(20)

  async def ask():
    try:
      await threads.run(work, seconds=0.05)
    except TimeoutError:
      return True
    return False

  async def ask_all():
    return await asyncio.gather(*(ask() for _ in range(12)))

  assert all(asyncio.run(ask_all()))
  assert threads.num_overdue == 2
  assert len(begun) == 2  # those that waited for a thread were never begun
  assert asyncio.run(ask())  # at once
  release.set()

  async def answer():
    return await threads.run(lambda: 3, seconds=20)

  while threads.num_overdue:
    threading.Event().wait(0.01)
  assert asyncio.run(answer()) == 3
  threads.close()


def test_errors_are_those_of_the_work():
  threads = AnswerThreads(1)

  def fail():
    raise ValueError("x")

  with pytest.raises(ValueError, match="x"):
    asyncio.run(threads.run(fail, seconds=5))
  threads.close()


def test_flood_of_slow_questions_is_refused_and_ends(index_folder, monkeypatch):
  release = threading.Event()
  monkeypatch.setattr(
    "ctd_jax.web.search_page.search", lambda *_: release.wait(20)
  )
  with open_client(index_folder, seconds=0.05) as client:
    threads = client.app.state.threads
    statuses = {
      client.get("/", params={"q": f"鄭人 {number}"}).status_code
      for number in range(threads.size + 4)
    }
    assert statuses == {503}
    assert threads.num_overdue == threads.size
    release.set()
