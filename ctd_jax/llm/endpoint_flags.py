"""The flags that name a model, and the client they make.

Why: all commands ask models in one way. Called by those of
`python -m ctd_jax.tasks.ctm`, by `ctd_jax.tasks.evidence_qa` and by
`ctd_jax.systems.pseudo_queries`.
"""

from __future__ import annotations

import contextlib
import pathlib
from collections.abc import Iterator

from absl import flags

from ctd_jax.llm.journal import Journal


def define_endpoint_flags() -> None:
  """Defines the flags."""
  flags.DEFINE_string(
    "model", None, "Chat model to be asked. Example: --model=qwen2.5-7b"
  )
  flags.DEFINE_string(
    "base_url",
    None,
    "Its server, OpenAI-compatible. Example: --base_url=http://localhost:8000/v1",
  )
  flags.DEFINE_string(
    "api_key",
    None,
    "Key of the server; by default the environment variable OPENAI_API_KEY.",
  )
  flags.DEFINE_float("temperature", 0.0, "Of sampling.", lower_bound=0.0)
  flags.DEFINE_integer("max_tokens", 2048, "Of a reply.", lower_bound=1)
  flags.DEFINE_float(
    "timeout", 120.0, "Seconds of an attempt.", lower_bound=0.1
  )
  flags.DEFINE_integer("attempts", 6, "At one request.", lower_bound=1)
  flags.DEFINE_float(
    "requests_per_minute", None, "No limit by default.", lower_bound=0.01
  )
  flags.DEFINE_list(
    "prices",
    ["0", "0"],
    "US dollars per million tokens of prompt and reply. Example: "
    "--prices=2.5,10",
  )
  flags.DEFINE_float("budget", None, "US dollars; nothing is asked beyond.")
  flags.DEFINE_integer(
    "workers", 4, "Requests under way at a time.", lower_bound=1
  )


@contextlib.contextmanager
def open_client(path: pathlib.Path, model: str) -> Iterator:
  """Yields the client of a model, whose replies stand in a journal.

  Args:
    path: of the journal.
    model: name of the model; the rest is as the flags say.

  Raises:
    ValueError: if the extra `llm` is not installed, or a flag is wrong.
  """
  try:
    from ctd_jax.llm import client as client_lib
  except ImportError as error:
    raise ValueError(
      f"asking a model needs the package {error.name}: pip install "
      "'ctd_jax[llm]'"
    ) from None
  values = flags.FLAGS
  try:
    prompt_price, reply_price = map(float, values.prices)
  except ValueError:
    raise ValueError(
      f"--prices={','.join(values.prices)}: needs two numbers, e.g. 2.5,10"
    ) from None
  endpoint = client_lib.Endpoint(
    model,
    values.base_url,
    values.api_key,
    values.temperature,
    values.max_tokens,
    values.timeout,
    values.attempts,
    requests_per_minute=values.requests_per_minute,
    prices=(prompt_price, reply_price),
    budget=values.budget,
  )
  with Journal(path) as journal:
    yield client_lib.ChatClient(endpoint, journal)
