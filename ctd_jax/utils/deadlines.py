"""Deadlines: work that nobody waits for any more ends by itself.

Python cannot end a thread, so what may take long looks at the clock as it goes.
"""

import contextlib
import contextvars
import math
import time
from collections.abc import Iterator

_deadline = contextvars.ContextVar("deadline", default=math.inf)


class OverdueError(TimeoutError):
  """The time for the work is over."""


@contextlib.contextmanager
def until(deadline: float) -> Iterator[None]:
  """Sets the deadline of what is called within, as `time.monotonic` counts."""
  token = _deadline.set(deadline)
  try:
    yield
  finally:
    _deadline.reset(token)


def is_overdue() -> bool:
  """Whether the time is over; never without a deadline."""
  return time.monotonic() > _deadline.get()


def check() -> None:
  """Raises OverdueError if the time is over."""
  if is_overdue():
    raise OverdueError
