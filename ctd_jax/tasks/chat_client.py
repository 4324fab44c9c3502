"""Client for chat models behind the OpenAI-compatible HTTP interface.

A run sends thousands of questions to a server that may be slow or busy, or
break off in the middle of a reply. Every reply is journaled under the hash of
its request before it is used, so a repeated or resumed run pays for nothing
twice.

The client retries after refused connections, time-outs, status 408, 409, 429
and 5xx, and a body that breaks off or is not the JSON of a completion. Any
other status (a wrong key, model or request) ends the run with an error of one
line.

Needs the extra `llm`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import os
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any

from ctd_jax.tasks.chat_models import Endpoint, Journal, Message, NoReplyError

try:
  import openai
  import tenacity
except ImportError:  # without the extra, replies of before can still be read
  openai = tenacity = None

# Time-out, conflict, too many requests; 5xx is tested for itself.
_TRANSIENT_STATUSES = (408, 409, 429)
_MAX_WAIT = 60.0  # seconds between two attempts


class BrokenReplyError(Exception):
  """Reply that is not a completion; another attempt may succeed."""


@dataclasses.dataclass(frozen=True)
class Reply:
  """Reply of a model, with its cost."""

  text: str  # empty if the model returned no text, e.g. refused.
  finish_reason: str  # stop, length (cut off), content_filter,
  prompt_tokens: int  # as the server counts them, 0 if it does not
  completion_tokens: int
  attempts: int
  cost: float  # US dollars at the prices of the endpoint


class ChatClient:
  """Client of one endpoint, safe between threads.

  Attributes:
    endpoint: model and server.
    journal: replies by the hash of their request.
    cached: number of requests that the journal answered.
  """

  def __init__(self, endpoint: Endpoint, journal: Journal):
    """Opens a client; nothing is sent yet.

    Raises:
      ValueError: if there is neither --api_key nor OPENAI_API_KEY.
    """
    self.endpoint = endpoint
    self.journal = journal
    self.cached = 0
    self._request_locks: dict[str, threading.Lock] = {}
    self._lock = threading.Lock()
    self._rate_limiter = RateLimiter(endpoint.requests_per_minute)
    try:
      self._client = openai.OpenAI(
        api_key=endpoint.api_key,
        base_url=endpoint.base_url,
        timeout=endpoint.timeout,
        max_retries=0,  # tenacity retries, see _fetch_reply
      )
    except openai.OpenAIError as error:
      raise ValueError(f"{_first_line(error)} (or --api_key)") from None

  def ask(self, messages: Sequence[Message], sample: int = 0) -> Reply:
    """Returns the reply to a conversation, from the journal if it is there.

    Args:
      sample: number of the draw; each number has a reply of its own.

    Raises:
      NoReplyError: if all attempts failed.
      ValueError: if the server refuses the request, or the budget is spent.
    """
    key = self.make_request_key(messages, sample)
    with self._lock:
      lock = self._request_locks.setdefault(key, threading.Lock())
    # Of two threads with the same request, the second waits for the reply of
    # the first and finds it in the journal.
    with lock:
      if key in self.journal:
        with self._lock:
          self.cached += 1
      else:
        self.journal.append(
          key, dataclasses.asdict(self._fetch_reply(messages))
        )
    return Reply(**self.journal[key])

  def make_request_key(
    self, messages: Sequence[Message], sample: int = 0
  ) -> str:
    """Returns the hash of everything on which the reply depends."""
    request = {
      **self._make_request(messages),
      "base_url": self.endpoint.base_url,
      "sample": sample,
    }
    return hashlib.sha256(
      json.dumps(request, ensure_ascii=False, sort_keys=True).encode()
    ).hexdigest()

  def totals(self) -> dict[str, float]:
    """Returns counts, tokens and cost of all replies in the journal."""
    replies = [Reply(**self.journal[key]) for key in self.journal]
    return {
      "replies": len(replies),
      "attempts": sum(reply.attempts for reply in replies),
      "cut off": sum(reply.finish_reason == "length" for reply in replies),
      "empty": sum(not reply.text for reply in replies),
      "prompt tokens": sum(reply.prompt_tokens for reply in replies),
      "completion tokens": sum(reply.completion_tokens for reply in replies),
      "cost in USD": round(sum(reply.cost for reply in replies), 6),
    }

  def _make_request(self, messages: Sequence[Message]) -> dict[str, Any]:
    return {
      "model": self.endpoint.model,
      "messages": [dict(message) for message in messages],
      "temperature": self.endpoint.temperature,
      "max_tokens": self.endpoint.max_tokens,
    }

  def _fetch_reply(self, messages: Sequence[Message]) -> Reply:
    """Returns a reply of the server, after one attempt or several."""
    budget = self.endpoint.budget
    if budget is not None and self.totals()["cost in USD"] >= budget:
      raise ValueError(
        f"--budget={budget} USD is spent; no more requests are sent"
      )
    retrying = tenacity.Retrying(
      stop=tenacity.stop_after_attempt(self.endpoint.attempts),
      wait=self._wait_seconds,
      retry=tenacity.retry_if_exception(_is_transient),
    )
    try:
      completion = retrying(self._attempt_request, self._make_request(messages))
    except tenacity.RetryError as error:
      last_error = error.last_attempt.exception()
      raise NoReplyError(
        f"no reply in {self.endpoint.attempts} attempts; last: "
        f"{type(last_error).__name__}: {_first_line(last_error)}"
      ) from last_error
    except openai.OpenAIError as error:
      raise ValueError(
        f"{self._client.base_url} refuses: {_first_line(error)}"
      ) from error
    return self._make_reply(completion, retrying.statistics["attempt_number"])

  def _attempt_request(self, request: dict[str, Any]) -> Any:
    """Returns a completion of the server with at least one choice."""
    self._rate_limiter.wait()
    try:
      completion = self._client.chat.completions.create(**request)
      content = completion.choices[0].message.content
    except (AttributeError, IndexError, TypeError, ValueError) as error:
      raise BrokenReplyError(f"not a completion: {error}") from error
    if not isinstance(content, str | None):
      raise BrokenReplyError(f"content is a {type(content).__name__}")
    return completion

  def _make_reply(self, completion: Any, attempts: int) -> Reply:
    choice, usage = completion.choices[0], completion.usage
    tokens = (
      getattr(usage, "prompt_tokens", 0) or 0,
      getattr(usage, "completion_tokens", 0) or 0,
    )
    token_prices = zip(tokens, self.endpoint.prices, strict=True)
    return Reply(
      choice.message.content or "",
      choice.finish_reason or "",
      *tokens,
      attempts,
      sum(count * price / 1e6 for count, price in token_prices),
    )

  def _wait_seconds(self, state: tenacity.RetryCallState) -> float:
    """Returns seconds until the next attempt: Retry-After, else the backoff."""
    response = getattr(state.outcome.exception(), "response", None)
    retry_after = response.headers.get("retry-after", "") if response else ""
    if retry_after.replace(".", "", 1).isdigit():
      return min(float(retry_after), _MAX_WAIT)
    return tenacity.wait_random_exponential(self.endpoint.backoff, _MAX_WAIT)(
      state
    )


class RateLimiter:
  """Limiter of the rate of requests, which are spaced evenly."""

  def __init__(self, per_minute: float | None):
    """Sets the rate; None means no limit."""
    self._interval = 60.0 / per_minute if per_minute else 0.0
    self._next_start = time.monotonic()
    self._lock = threading.Lock()

  def wait(self) -> None:
    """Blocks until the next request may begin."""
    with self._lock:
      start = max(self._next_start, time.monotonic())
      self._next_start = start + self._interval
    # Outside the lock: other threads reserve their start meanwhile.
    time.sleep(max(0.0, start - time.monotonic()))


def _is_transient(error: BaseException) -> bool:
  """Returns whether the same request may succeed later."""
  if isinstance(error, openai.APIStatusError):
    # A spent account is reported with 429, the status of a busy server.
    if error.code == "insufficient_quota":
      return False
    return error.status_code in _TRANSIENT_STATUSES or error.status_code >= 500
  return isinstance(error, BrokenReplyError | openai.APIConnectionError)


def _first_line(error: BaseException | None) -> str:
  return str(error).strip().split("\n", 1)[0]


@contextlib.contextmanager
def open_client(
  journal_path: str | os.PathLike, endpoint: Endpoint
) -> Iterator[ChatClient]:
  """Yields the client of a model; its replies are journaled.

  Raises:
    ValueError: if the extra `llm` is not installed, no key is given, or another
      process writes to the journal.
  """
  if openai is None:
    raise ValueError(
      "asking a model needs the packages openai and tenacity: pip install "
      "'ctd_jax[llm]'"
    )
  with Journal(journal_path) as journal:
    yield ChatClient(endpoint, journal)
