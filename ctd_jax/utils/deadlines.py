"""Deadlines: work that nobody waits for any more ends by itself.

Python cannot end a thread, so what may take long looks at the clock as it goes.
"""

import contextlib
import contextvars
import math
import time
from collections.abc import Callable, Iterator

_deadline = contextvars.ContextVar("deadline", default=math.inf)
_pause = contextvars.ContextVar("pause", default=None)


class OverdueError(TimeoutError):
  """The time for the work is over."""


@contextlib.contextmanager
def until(
  deadline: float, pause: Callable[[], None] | None = None
) -> Iterator[None]:
  """Sets the deadline of what is called within, as `time.monotonic` counts.

  Args:
    pause: called at each look at the clock; gives way to other work.
  """
  tokens = _deadline.set(deadline), _pause.set(pause)
  try:
    yield
  finally:
    _deadline.reset(tokens[0])
    _pause.reset(tokens[1])


def is_overdue() -> bool:
  """Whether the time is over; never without a deadline."""
  return time.monotonic() > _deadline.get()


def check() -> None:
  """Raises OverdueError if the time is over."""
  if is_overdue():
    raise OverdueError
  pause = _pause.get()
  if pause is not None:
    pause()
