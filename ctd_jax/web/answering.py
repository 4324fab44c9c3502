"""Work of a page in a thread, for as long as it may take."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import anyio
from anyio import to_thread
from starlette.requests import Request

from ctd_jax.web.errors import PageError
from ctd_jax.web.served_index import IndexHolder, ServedIndex
from ctd_jax.web.settings import WebSettings

Result = TypeVar("Result")


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

  Args:
    request: that it answers.
    function: that blocks.
    *arguments: of it.

  Raises:
    PageError: 503, if it takes longer than the settings say. The thread goes
      on to its end, and its answer is thrown away.
  """
  seconds = settings_of(request).seconds
  try:
    with anyio.fail_after(seconds):
      return await to_thread.run_sync(
        lambda: function(*arguments), abandon_on_cancel=True
      )
  except TimeoutError as error:
    raise PageError(503, "error.time", {"seconds": f"{seconds:g}"}) from error
