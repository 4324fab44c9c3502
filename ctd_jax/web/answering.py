"""Work of a page in a thread, for as long as it may take.

What is given up cannot be stopped in the midst; it keeps its thread to its end.
So there are only so many threads, and while all of them are at work that was
given up, nothing new is begun.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import os
import threading
from collections.abc import Callable
from typing import TypeVar

from absl import logging
from starlette.requests import Request

from ctd_jax.web.errors import PageError
from ctd_jax.web.served_index import IndexHolder, ServedIndex
from ctd_jax.web.settings import WebSettings

Result = TypeVar("Result")

SAFE_METHODS = ("GET", "HEAD", "OPTIONS")  # of what changes nothing
_THREADS_PER_CORE = 4
_MIN_THREADS, _MAX_THREADS = 8, 32


class AnswerThreads:
  """Threads in which questions are answered.

  Attributes:
    size: number of threads.
  """

  def __init__(self, size: int | None = None):
    """Makes no thread yet.

    Args:
      size: number of threads; by the number of cores if None.
    """
    by_cores = _THREADS_PER_CORE * (os.cpu_count() or 1)
    self.size = size or min(max(by_cores, _MIN_THREADS), _MAX_THREADS)
    self._executor = concurrent.futures.ThreadPoolExecutor(self.size, "answer")
    self._lock = threading.Lock()
    self._num_overdue = 0

  @property
  def num_overdue(self) -> int:
    """Number of threads at work that was given up."""
    with self._lock:
      return self._num_overdue

  async def run(
    self, function: Callable[..., Result], *arguments: object, seconds: float
  ) -> Result:
    """Returns what a function does in one of the threads.

    Args:
      function: that blocks.
      *arguments: of it.
      seconds: that waiting for a thread and the work may take.

    Raises:
      TimeoutError: if it takes longer, or no thread will be free.
    """
    if self.num_overdue >= self.size:
      raise TimeoutError
    future = self._executor.submit(function, *arguments)
    try:
      return await asyncio.wait_for(asyncio.wrap_future(future), seconds)
    except (TimeoutError, asyncio.CancelledError):
      self._give_up(future)
      raise

  def close(self) -> None:
    """Begins nothing more; what waits for a thread is dropped."""
    self._executor.shutdown(wait=False, cancel_futures=True)

  def _give_up(self, future: concurrent.futures.Future) -> None:
    """Drops work that waits for its thread, or counts it until it ends."""
    if future.cancel() or future.done():
      return
    with self._lock:
      self._num_overdue += 1
      num_overdue = self._num_overdue
    future.add_done_callback(self._count_end)
    logging.warning(
      "%d of %d threads are at work whose time is over", num_overdue, self.size
    )

  def _count_end(self, _: concurrent.futures.Future) -> None:
    with self._lock:
      self._num_overdue -= 1


def settings_of(request: Request) -> WebSettings:
  """Returns the settings of the server that a request came to."""
  return request.app.state.settings


def index_of(request: Request) -> ServedIndex:
  """Returns the index, in its newest state."""
  holder: IndexHolder = request.app.state.holder
  return holder.get()


async def answer_in_time(
  request: Request,
  function: Callable[..., Result],
  *arguments: object,
) -> Result:
  """Returns what a function does in a thread.

  What goes wrong since the index is replaced meanwhile is done again with its
  new state, if it changes nothing.

  Args:
    request: that it answers.
    function: that blocks.
    *arguments: of it; the state of the index may be among them.

  Raises:
    PageError: 503, if it takes longer than the settings say. The thread goes
      on to its end, and its answer is thrown away.
  """
  threads: AnswerThreads = request.app.state.threads
  holder: IndexHolder = request.app.state.holder
  seconds = settings_of(request).seconds
  states = [it for it in arguments if isinstance(it, ServedIndex)]
  served = states[0] if states else holder.opened

  def answer() -> Result:
    try:
      return function(*arguments)
    # Rows and files that are being replaced may raise anything; what is no
    # fault of that is raised again.
    except Exception:
      if request.method not in SAFE_METHODS:
        raise
      newer = holder.wait_for_newer(served)
      if newer is None:
        raise
      return function(*(newer if it is served else it for it in arguments))

  try:
    return await threads.run(answer, seconds=seconds)
  except TimeoutError as error:
    raise PageError(503, "error.time", {"seconds": f"{seconds:g}"}) from error
