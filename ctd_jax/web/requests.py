"""Requests: errors, worker threads, and forms that come from our own pages.

Each form has two hidden fields: a token tied to a cookie, which proves that
the form comes from one of our pages, and a key, so that a form sent twice
changes something once.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import functools
import hmac
import inspect
import math
import operator
import os
import re
import secrets
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar
from urllib.parse import quote, unquote, urlsplit

import markupsafe
from absl import logging
from starlette.datastructures import FormData
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from ctd_jax.utils import deadlines
from ctd_jax.web import job_files
from ctd_jax.web.served_index import IndexHolder, ServedIndex
from ctd_jax.web.settings import WebSettings

Result = TypeVar("Result")

SAFE_METHODS = ("GET", "HEAD", "OPTIONS")  # change nothing
# Requests with a body that change nothing.
READING_PATHS = ("/date", "/api/ask", "/token")
FORM_COOKIE = "ctd_form"
TOKEN_FIELD = "form_token"
KEY_FIELD = "form_key"
NAME_COOKIE = "ctd_name"
_NAME_AGE = 365 * 86_400  # seconds that a browser keeps a reader's name
_MAX_NAME = 200
_NONCE = re.compile("[0-9a-f]{32}")
_KEY = re.compile("[0-9a-f]{16,64}")
_MASKED = re.compile("[0-9a-f]{128}")
_PAGE_THREADS = min(max(4 * (os.cpu_count() or 1), 8), 32)
_QUESTION_THREADS = 4
NUM_THREADS = _PAGE_THREADS + _QUESTION_THREADS + 1
_MAX_WAITING = 32  # questions, for a thread
_MAX_SHORT = 20_000  # bytes, what a link may have; they take 0.3 s at most
_SECONDS_PER_WARNING = 10
# Of long work, while pages and questions are being answered.
_SHARE_PAUSED, _SECONDS_PER_PAUSE = 0.75, 0.005
# Pages that compute an answer, if there is a question.
_QUESTION_PATHS = (
  *("/", "/date", "/api/ask", "/api/timeline", "/timeline"),
  *("/export/", "/export/date"),
)


class PageError(Exception):
  """A refused request, with the message to show."""

  def __init__(
    self,
    status: int,
    message: str = "",
    values: dict[str, Any] | None = None,
  ):
    super().__init__(f"{status} {message}")
    self.status = status
    self.message = message
    self.values = values or {}


class BusyError(Exception):
  """Too many requests wait for the same threads."""


class AnswerThreads:
  """Threads that answer one kind of requests; those that wait need none."""

  def __init__(
    self,
    name: str,
    size: int,
    max_waiting: float = math.inf,
    preferred: Sequence[AnswerThreads] = (),
  ):
    """Starts no thread yet.

    Args:
      max_waiting: more are refused.
      preferred: threads that these give way to, most of the time.
    """
    self._preferred = preferred
    self.size = size
    self._executor = concurrent.futures.ThreadPoolExecutor(self.size, name)
    self._max_pending = self.size + max_waiting
    self._lock = threading.Lock()
    self.num_pending = 0  # requests that wait or are being answered
    self._name = name

  async def run(
    self, function: Callable[..., Result], *arguments: object, seconds: float
  ) -> Result:
    """Returns the result of a function run in one of the threads.

    Args:
      seconds: limit for waiting and running together.

    Raises:
      BusyError: if too many wait.
      TimeoutError: if it takes longer; the function ends at its next look at
        the clock, see `deadlines`.
    """
    if self.num_pending >= self._max_pending:
      logging.log_every_n_seconds(
        logging.WARNING,
        "too many %s requests at once; more are refused",
        _SECONDS_PER_WARNING,
        self._name,
      )
      raise BusyError
    deadline = time.monotonic() + seconds

    def work() -> Result:
      pause = self._make_pause() if self._preferred else None
      with deadlines.until(deadline, pause):
        return function(*arguments)

    with self._lock:
      self.num_pending += 1
    future = self._executor.submit(work)
    future.add_done_callback(self._count_end)
    try:
      return await asyncio.wait_for(asyncio.wrap_future(future), seconds)
    except (TimeoutError, asyncio.CancelledError):
      if not (future.cancel() or future.done()):
        logging.warning(
          "a %s request was given up after %g s", self._name, seconds
        )
      raise

  def close(self) -> None:
    """Starts no more work and drops what is queued."""
    self._executor.shutdown(wait=False, cancel_futures=True)

  def _make_pause(self) -> Callable[[], None]:
    """Returns what waits while preferred threads work, for a time."""
    begun, paused = time.monotonic(), 0.0

    def pause() -> None:
      nonlocal paused
      now = time.monotonic()
      while (
        any(threads.num_pending for threads in self._preferred)
        and paused < (now - begun) * _SHARE_PAUSED
      ):
        time.sleep(_SECONDS_PER_PAUSE)
        last, now = now, time.monotonic()
        paused += now - last

    return pause

  def _count_end(self, _: concurrent.futures.Future) -> None:
    with self._lock:
      self.num_pending -= 1


class AnswerPools:
  """Threads for pages, for questions, and for what takes a second or more.

  A flood of long passages leaves the pages and short questions alone.
  """

  def __init__(self):
    self.pages = AnswerThreads("page", _PAGE_THREADS)
    self.questions = AnswerThreads("question", _QUESTION_THREADS, _MAX_WAITING)
    # One: passages compute in Python, where two are no faster.
    self.long_work = AnswerThreads(
      "long", 1, _MAX_WAITING, (self.pages, self.questions)
    )

  def choose(self, request: Request, is_long: bool = False) -> AnswerThreads:
    """Returns the threads for a request."""
    headers = request.headers
    size = len(request.scope["query_string"])
    size += int(headers.get("content-length", "0"))
    # In chunks, a body does not say how long it is.
    if is_long or size > _MAX_SHORT or "transfer-encoding" in headers:
      return self.long_work
    path = request.url.path.removeprefix("/save")
    return self.questions if size and path in _QUESTION_PATHS else self.pages

  def close(self) -> None:
    """Starts no more work and drops what is queued."""
    for threads in (self.pages, self.questions, self.long_work):
      threads.close()


def settings_of(request: Request) -> WebSettings:
  """Returns the settings of the server."""
  return request.app.state.settings


def index_of(request: Request) -> ServedIndex:
  """Returns the newest state of the index."""
  return request.app.state.holder.get()


def retry_newer(
  holder: IndexHolder,
  served: ServedIndex | None,
  function: Callable[..., Result],
  *arguments: object,
) -> Result:
  """Returns the result of a function that changes nothing.

  It is called again with the newer index if this one was being replaced.
  """
  try:
    return function(*arguments)
  # Rows and files that are being replaced may raise anything; other errors are
  # raised again.
  except Exception:
    deadlines.check()
    newer = holder.wait_for_newer(served)
    if newer is None:
      raise
    return function(*(newer if it is served else it for it in arguments))


async def answer_in_time(
  request: Request,
  function: Callable[..., Result],
  *arguments: object,
  is_long: bool = False,
) -> Result:
  """Returns the result of a function run in a thread.

  A request that changes nothing is retried if it failed because the index was
  being replaced.

  Args:
    is_long: whether it may take seconds.

  Raises:
    PageError: 503, if it takes longer than the settings allow, or too many
      wait.
  """
  holder: IndexHolder = request.app.state.holder
  seconds = settings_of(request).seconds
  states = (it for it in arguments if isinstance(it, ServedIndex))
  served = next(states, holder.opened)

  if request.method in SAFE_METHODS:
    function = functools.partial(retry_newer, holder, served, function)
  threads = request.app.state.pools.choose(request, is_long)
  try:
    return await threads.run(function, *arguments, seconds=seconds)
  except BusyError as error:
    raise PageError(503, "error.busy") from error
  except TimeoutError as error:
    raise PageError(503, "error.time", {"seconds": f"{seconds:g}"}) from error


def endpoint(function: Callable[..., Result]) -> Callable[..., Any]:
  """Returns the endpoint that runs a function as `answer_in_time` does.

  Args:
    function: function that takes the request, the served index, and the
      request's parameters.
  """
  signature = inspect.signature(function, eval_str=True)

  @functools.wraps(function)
  async def answer(request: Request, **values: Any) -> Result:
    call = functools.partial(function, **values)
    # Reasons take up to 30 ms a record.
    is_long = any(getattr(value, "why", False) for value in values.values())
    return await answer_in_time(
      request, call, request, index_of(request), is_long=is_long
    )

  # FastAPI reads the parameters from here; `served` is not one of them.
  parameters = [
    it for it in signature.parameters.values() if it.name != "served"
  ]
  answer.__signature__ = signature.replace(parameters=parameters)
  return answer


@functools.cache
def load_secret(settings: WebSettings) -> bytes:
  """Returns the secret of an index's servers.

  It is not in the index, which may come from a stranger, and the same after a
  restart; without a place to keep it, it lasts as long as the server.
  """
  path = str(settings.index.expanduser().resolve())
  try:
    return hmac.digest(
      job_files.load_installation(), f"server {path}".encode(), "sha256"
    )
  except (OSError, ValueError) as error:
    logging.warning("open forms last as long as the server: %s", error)
    return settings.secret


def write_fields(request: Request) -> markupsafe.Markup:
  """Returns the hidden fields of a form that changes something."""
  nonce = _read_nonce(request)
  if nonce is None:
    nonce = getattr(request.state, "form_nonce", None) or secrets.token_hex(16)
    request.state.form_nonce = nonce
  return markupsafe.Markup(
    '<input type="hidden" name="{}" value="{}">'
    '<input type="hidden" name="{}" value="{}">'
  ).format(
    TOKEN_FIELD,
    _mask(_make_token(request, nonce)),
    KEY_FIELD,
    secrets.token_hex(16),
  )


def make_cookie(request: Request) -> str | None:
  """Returns the Set-Cookie header that a page with forms needs, if any."""
  nonce = getattr(request.state, "form_nonce", None)
  if nonce is None:
    return None
  # Lax: with Strict a link from elsewhere would make all open forms invalid.
  secure = "; Secure" if request.url.scheme == "https" else ""
  return f"{FORM_COOKIE}={nonce}; Path=/; HttpOnly; SameSite=Lax{secure}"


async def read_form(
  request: Request, max_fields: int = 20, max_files: int = 0
) -> FormData:
  """Returns the fields of a form sent from one of our pages.

  Raises:
    PageError: 403 if it comes from elsewhere, 413 if it is too large, 422 if it
      is malformed.
  """
  try:
    form = await request.form(max_fields=max_fields, max_files=max_files)
  except HTTPException as error:
    raise _explain(error, max_files) from error
  nonce, token = _read_nonce(request), form.get(TOKEN_FIELD)
  if (
    nonce is None
    or not isinstance(token, str)
    or not hmac.compare_digest(_unmask(token), _make_token(request, nonce))
  ):
    raise PageError(403, "error.form")
  key = form.get(KEY_FIELD)
  if not isinstance(key, str) or not _KEY.fullmatch(key):
    raise PageError(422, "error.form")
  return form


def _explain(error: HTTPException, max_files: int) -> PageError:
  """Returns the problem of a form that Starlette refused."""
  problem = error.detail.lower()
  if max_files and problem.startswith("too many files"):
    return PageError(413, "error.upload.many", {"limit": max_files})
  if "maximum" in problem:
    return PageError(413)
  return PageError(422, "error.form")


def is_from_elsewhere(request: Request, host_names: frozenset[str]) -> bool:
  """Whether the browser says that another site made the request.

  Args:
    host_names: names of this server behind a proxy.
  """
  site = request.headers.get("sec-fetch-site")
  if site is not None:
    return site not in ("same-origin", "none")
  origin = request.headers.get("origin")
  if origin is None:  # a program, or a very old browser
    return False
  try:
    address = urlsplit(origin)
    name = address.hostname or ""
  except ValueError:
    return True
  return not (
    address.netloc.lower() == request.headers.get("host", "").lower()
    or name in host_names
  )


def follows_link(request: Request) -> bool:
  """Whether a browser opens a page as a reader does who follows a link.

  Citations of records and searches are links on other sites, so these stay
  open. Images, frames, scripts and prefetching, which a page of another site
  can start without its reader, do not.
  """
  headers = request.headers
  return (
    request.method in SAFE_METHODS
    and headers.get("sec-fetch-mode") == "navigate"
    and headers.get("sec-fetch-dest") == "document"
    and "sec-purpose" not in headers
  )


def read_name(request: Request) -> str:
  """Returns the name that the reader gave last."""
  name = unquote(request.cookies.get(NAME_COOKIE, ""), errors="replace")
  return name[:_MAX_NAME] if name.isprintable() else ""


def keep_name(response: Response, name: str) -> None:
  """Makes a browser keep a reader's name."""
  response.set_cookie(
    NAME_COOKIE,
    quote(name[:_MAX_NAME]),
    max_age=_NAME_AGE,
    httponly=True,
    samesite="lax",
  )


def _make_token(request: Request, nonce: str) -> bytes:
  secret = load_secret(settings_of(request))
  return hmac.digest(secret, nonce.encode(), "sha256")


def _mask(token: bytes) -> str:
  """Returns a token that differs on each page.

  Pages are compressed; from the sizes of many, one could guess a text that
  they all hold.
  """
  mask = secrets.token_bytes(len(token))
  return (mask + _combine(mask, token)).hex()


def _unmask(masked: str) -> bytes:
  """Returns the token in a field, or "" if it holds none."""
  if not _MASKED.fullmatch(masked):
    return b""
  both = bytes.fromhex(masked)
  return _combine(both[: len(both) // 2], both[len(both) // 2 :])


def _combine(mask: bytes, token: bytes) -> bytes:
  return bytes(map(operator.xor, mask, token))


def _read_nonce(request: Request) -> str | None:
  nonce = request.cookies.get(FORM_COOKIE, "")
  return nonce if _NONCE.fullmatch(nonce) else None
