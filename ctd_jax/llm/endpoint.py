"""Endpoints of chat models: server, model and settings of a request."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

Message = Mapping[str, str]


@dataclasses.dataclass(frozen=True)
class Endpoint:
  """A model, its server, and the settings of every request.

  Attributes:
    model: name that the server knows.
    base_url: of the server, up to and with /v1; None is the package's default.
    api_key: None reads the environment variable OPENAI_API_KEY.
    temperature: sampling temperature.
    max_tokens: maximal length of a reply; a longer one is cut off.
    timeout: seconds until an attempt is given up.
    attempts: maximal number of attempts for one request.
    backoff: seconds; attempts wait a random time up to backoff * 2^n.
    requests_per_minute: None for no limit.
    prices: US dollars per million tokens of prompt and of completion.
    budget: US dollars after which no more requests are sent.
  """

  model: str
  base_url: str | None = None
  api_key: str | None = None
  temperature: float = 0.0  # greedy, as far as servers are deterministic
  max_tokens: int = 2048  # enough for a chain of thought
  timeout: float = 120.0
  attempts: int = 6  # with the backoff below up to 31 s of waiting in all
  backoff: float = 1.0
  requests_per_minute: float | None = None
  prices: tuple[float, float] = (0.0, 0.0)
  budget: float | None = None


def make_conversation(system: str, user: str) -> list[Message]:
  """Returns a conversation of a system message and a user message."""
  return [
    {"role": "system", "content": system},
    {"role": "user", "content": user},
  ]
