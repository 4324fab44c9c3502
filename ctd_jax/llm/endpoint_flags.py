"""Flags that describe the endpoint of a chat model."""

from __future__ import annotations

from absl import flags

from ctd_jax.llm import endpoint


def define_endpoint_flags() -> None:
  """Defines --model, --base_url and the other flags of an endpoint."""
  flags.DEFINE_string(
    "model", None, "Chat model that answers. Example: --model=qwen2.5-7b"
  )
  flags.DEFINE_string(
    "base_url",
    None,
    "Server of the model, OpenAI-compatible. Example: --base_url=http://localhost:8000/v1",
  )
  flags.DEFINE_string(
    "api_key",
    None,
    "Key of the server; by default the environment variable OPENAI_API_KEY.",
  )
  flags.DEFINE_float(
    "temperature", 0.0, "Sampling temperature.", lower_bound=0.0
  )
  flags.DEFINE_integer("max_tokens", 2048, "Longest reply.", lower_bound=1)
  flags.DEFINE_float(
    "timeout", 120.0, "Seconds until an attempt is given up.", lower_bound=0.1
  )
  flags.DEFINE_integer(
    "attempts", 6, "Attempts for one request.", lower_bound=1
  )
  flags.DEFINE_float(
    "requests_per_minute",
    None,
    "Limit of the rate; none by default.",
    lower_bound=0.01,
  )
  flags.DEFINE_list(
    "prices",
    ["0", "0"],
    "US dollars per million tokens of prompt and reply. Example: "
    "--prices=2.5,10",
  )
  flags.DEFINE_float(
    "budget", None, "US dollars after which no more requests are sent."
  )
  flags.DEFINE_integer("workers", 4, "Parallel requests.", lower_bound=1)


def read_endpoint(model: str) -> endpoint.Endpoint:
  """Returns the endpoint of a model, as the flags describe it.

  Args:
    model: name of the model; a judge shares all other flags.

  Raises:
    ValueError: if --prices are not two numbers.
  """
  values = flags.FLAGS
  # A list flag holds strings.
  try:
    prompt_price, reply_price = map(float, values.prices)
  except ValueError:
    raise ValueError(
      f"--prices={','.join(values.prices)}: needs two numbers, e.g. 2.5,10"
    ) from None
  return endpoint.Endpoint(
    model,
    values.base_url,
    values.api_key,
    values.temperature,
    values.max_tokens,
    values.timeout,
    values.attempts,
    # The backoff has no flag: servers say how long to wait.
    requests_per_minute=values.requests_per_minute,
    prices=(prompt_price, reply_price),
    budget=values.budget,
  )
