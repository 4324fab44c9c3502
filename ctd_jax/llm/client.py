"""A client for chat models behind the usual HTTP interface.

Why: thousands of questions go to a server that is slow, busy, or answers in
part. A reply counts once: it is journaled under the hash of its request before
it is used, so that a repeated or resumed run pays for nothing twice. Called by
`ctm` (answerers, judge, the seats of the Ito game), `evidence_packs` and
`pseudo_queries`.

What is tried again: no connection, time-out, status 408, 409, 429 and 5xx, a
body that breaks off or is not the JSON of a completion. What is not: any other
status (a wrong key, model or request), which ends the run with one line.

Needs the extra `llm`.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

import openai
import tenacity

from ctd_jax.llm.journal import Journal
from ctd_jax.llm.question_runner import NoReplyError

Message = Mapping[str, str]
_TRANSIENT_STATUSES = (408, 409, 429)
_MAX_WAIT = 60.0  # seconds between two attempts


class BrokenReplyError(Exception):
  """A reply that is not a completion; asking again may help."""


@dataclasses.dataclass(frozen=True)
class Endpoint:
  """A model and how it is asked.

  Attributes:
    model: name that the server knows.
    base_url: of the server, up to and with /v1; None is the package's default.
    api_key: None reads the environment variable OPENAI_API_KEY.
    temperature: of sampling.
    max_tokens: of a reply; a longer one is cut off and says so.
    timeout: seconds until an attempt is given up.
    attempts: at most, for one request.
    backoff: seconds; attempts wait a random time up to backoff * 2^n.
    requests_per_minute: None for no limit.
    prices: US dollars per million tokens of prompt and of completion.
    budget: US dollars after which nothing more is asked.
  """

  model: str
  base_url: str | None = None
  api_key: str | None = None
  temperature: float = 0.0
  max_tokens: int = 2048
  timeout: float = 120.0
  attempts: int = 6
  backoff: float = 1.0
  requests_per_minute: float | None = None
  prices: tuple[float, float] = (0.0, 0.0)
  budget: float | None = None


@dataclasses.dataclass(frozen=True)
class Reply:
  """What a model said and what it took.

  Attributes:
    text: empty where the model said nothing, e.g. refused.
    finish_reason: stop, length (cut off), content_filter, ...
    prompt_tokens: as the server counts them, 0 if it does not.
    completion_tokens: likewise.
    attempts: that it took.
    cost: US dollars at the prices of the endpoint.
  """

  text: str
  finish_reason: str
  prompt_tokens: int
  completion_tokens: int
  attempts: int
  cost: float


class ChatClient:
  """Asks an endpoint; replies come from the journal where they are known."""

  def __init__(self, endpoint: Endpoint, journal: Journal):
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
        max_retries=0,  # one policy, below
      )
    except openai.OpenAIError as error:
      raise ValueError(f"{_first_line(error)} (or --api_key)") from None

  def ask(self, messages: Sequence[Message], sample: int = 0) -> Reply:
    """Returns the reply to a conversation.

    Args:
      messages: {"role": ..., "content": ...} in order.
      sample: number of the draw; another number asks the same again.

    Raises:
      NoReplyError: if all attempts failed.
      ValueError: if the server refuses the request, or the budget is spent.
    """
    key = self.make_request_key(messages, sample)
    with self._lock:
      lock = self._request_locks.setdefault(key, threading.Lock())
    # Two threads with one request ask once.
    with lock:
      if key in self.journal:
        with self._lock:
          self.cached += 1
      else:
        reply = self._fetch_reply(messages)
        self.journal.append(key, dataclasses.asdict(reply))
    return Reply(**self.journal[key])

  def make_request_key(
    self, messages: Sequence[Message], sample: int = 0
  ) -> str:
    """Returns the hash of everything that the reply depends on."""
    request = {
      **self._make_request(messages),
      "base_url": self.endpoint.base_url,
      "sample": sample,
    }
    text = json.dumps(request, ensure_ascii=False, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()

  def totals(self) -> dict[str, float]:
    """Returns what the replies of the journal took, each counted once."""
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
    """Returns a reply of the server, after as many attempts as it takes."""
    budget = self.endpoint.budget
    if budget is not None and self.totals()["cost in USD"] >= budget:
      raise ValueError(f"--budget={budget} USD is spent; nothing more is asked")
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
    """Returns one completion of the server, which has at least one choice."""
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
    """Returns seconds until the next attempt: what the server says, or ours."""
    response = getattr(state.outcome.exception(), "response", None)
    retry_after = response.headers.get("retry-after", "") if response else ""
    if retry_after.replace(".", "", 1).isdigit():
      return min(float(retry_after), _MAX_WAIT)
    exponential_wait = tenacity.wait_random_exponential(
      self.endpoint.backoff, _MAX_WAIT
    )
    return exponential_wait(state)


class RateLimiter:
  """Lets at most so many requests a minute begin, evenly spaced."""

  def __init__(self, per_minute: float | None):
    self._interval = 60.0 / per_minute if per_minute else 0.0
    self._next_start = time.monotonic()
    self._lock = threading.Lock()

  def wait(self) -> None:
    """Returns when the next request may begin."""
    with self._lock:
      start = max(self._next_start, time.monotonic())
      self._next_start = start + self._interval
    time.sleep(max(0.0, start - time.monotonic()))


def _is_transient(error: BaseException) -> bool:
  """Whether the same request may succeed a little later."""
  if isinstance(error, openai.APIStatusError):
    # A spent account is told with the status of a busy server.
    if error.code == "insufficient_quota":
      return False
    return error.status_code in _TRANSIENT_STATUSES or error.status_code >= 500
  return isinstance(error, BrokenReplyError | openai.APIConnectionError)


def _first_line(error: BaseException | None) -> str:
  return str(error).strip().split("\n", 1)[0]
