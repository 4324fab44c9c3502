"""Chat models: their endpoint and its flags, a journal, many questions at once.

Answers are journaled as they come, so a run that was stopped continues where it
was and never pays for a reply twice. The client itself is in `chat_client`,
which needs the extra llm.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import dataclasses
import fcntl
import json
import os
import pathlib
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from absl import flags

from ctd_jax.utils import output

Message = Mapping[str, str]


@dataclasses.dataclass(frozen=True)
class Endpoint:
  """A model, its server, and the settings of every request."""

  model: str  # name that the server knows
  # Of the server, up to and with /v1; None is the package's default.
  base_url: str | None = None
  # None reads the environment variable OPENAI_API_KEY.
  api_key: str | None = None
  temperature: float = 0.0  # greedy, as far as servers are deterministic
  max_tokens: int = 2048  # enough for a chain of thought
  timeout: float = 120.0  # seconds until an attempt is given up
  attempts: int = 6  # with the backoff below up to 31 s of waiting in all
  # Seconds; attempts wait a random time up to backoff * 2^n.
  backoff: float = 1.0
  requests_per_minute: float | None = None  # None for no limit
  # US dollars per million tokens of prompt and of completion.
  prices: tuple[float, float] = (0.0, 0.0)
  # US dollars after which no more requests are sent.
  budget: float | None = None


def make_conversation(system: str, user: str) -> list[Message]:
  """Returns a conversation of a system message and a user message."""
  return [
    {"role": "system", "content": system},
    {"role": "user", "content": user},
  ]


def define_endpoint_flags() -> None:
  """Defines --model, --base_url and the other flags of an endpoint."""
  flags.DEFINE_string(
    "model",
    None,
    "Name of the chat model that answers. Example: --model=qwen2.5-7b",
  )
  flags.DEFINE_string(
    "base_url",
    None,
    "URL of the model's OpenAI-compatible server. Default: OpenAI's. "
    "Example: --base_url=http://localhost:8000/v1",
  )
  flags.DEFINE_string(
    "api_key",
    None,
    "Key of the server. Default: the environment variable OPENAI_API_KEY. "
    "Example: --api_key=sk-...",
  )
  flags.DEFINE_float(
    "temperature",
    0.0,
    "Sampling temperature. Default: 0. Example: --temperature=0.7",
    lower_bound=0.0,
  )
  flags.DEFINE_integer(
    "max_tokens",
    2048,
    "Maximum length of a reply in tokens. Default: 2048. Example: "
    "--max_tokens=512",
    lower_bound=1,
  )
  flags.DEFINE_float(
    "timeout",
    120.0,
    "Seconds to wait for a reply. Default: 120. Example: --timeout=30",
    lower_bound=0.1,
  )
  flags.DEFINE_integer(
    "attempts",
    6,
    "Maximum number of attempts for a request. Default: 6. Example: "
    "--attempts=2",
    lower_bound=1,
  )
  flags.DEFINE_float(
    "requests_per_minute",
    None,
    "Maximum number of requests per minute. Default: no limit. Example: "
    "--requests_per_minute=60",
    lower_bound=0.01,
  )
  flags.DEFINE_list(
    "prices",
    ["0", "0"],
    "US dollars per million tokens of prompts and of replies. Default: 0,0. "
    "Example: --prices=2.5,10",
  )
  flags.DEFINE_float(
    "budget",
    None,
    "US dollars after which no more requests are sent. Default: no limit. "
    "Example: --budget=5",
  )
  flags.DEFINE_integer(
    "workers",
    4,
    "Number of parallel requests. Default: 4. Example: --workers=16",
    lower_bound=1,
  )


def read_endpoint(model: str | None) -> Endpoint | None:
  """Returns the endpoint of a model, as the flags describe it.

  Args:
    model: name of the model; without one the result is None. A judge shares
      all other flags with the model that answers.

  Raises:
    ValueError: if --prices are not two numbers.
  """
  if not model:  # not given, or empty
    return None
  values = flags.FLAGS
  # A list flag holds strings.
  try:
    prompt_price, reply_price = map(float, values.prices)
  except ValueError:
    raise ValueError(
      f"--prices={','.join(values.prices)}: needs two numbers, e.g. 2.5,10"
    ) from None
  return Endpoint(
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


class Journal(contextlib.AbstractContextManager, Mapping):
  """Records by key, in memory and on disk; safe between threads.

  Attributes:
    path: path of the file.
  """

  def __init__(self, path: str | os.PathLike):
    """Opens or creates a journal and locks it against other processes.

    Args:
      path: path of the JSON lines; missing parent folders are created.
    """
    self.path = pathlib.Path(path)
    self.path.parent.mkdir(parents=True, exist_ok=True)
    self._lock = threading.Lock()
    self._file = open(self.path, "a+b")  # noqa: SIM115 closed by __exit__
    try:
      # Released with the file, so a killed process leaves no lock behind.
      fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
      self._records = self._read_records()
    except BlockingIOError:
      self._file.close()
      raise ValueError(
        f"{self.path}: another run is writing to it; wait until it ends or "
        "choose another folder"
      ) from None
    except BaseException:
      self._file.close()
      raise

  def __getitem__(self, key: str) -> Any:
    return self._records[key]

  def __len__(self) -> int:
    return len(self._records)

  def __iter__(self) -> Iterator[str]:
    return iter(self._records)

  def append(self, key: str, value: Any) -> None:
    """Adds a record; it is on disk when this returns.

    Raises:
      ValueError: if the key exists.
    """
    line = json.dumps({"key": key, "value": value}, ensure_ascii=False)
    with self._lock:
      if key in self._records:
        raise ValueError(f"{self.path}: {key!r} already exists")
      self._file.write(line.encode() + b"\n")
      self._file.flush()
      # A reply that cost money must survive a crash of the machine, too.
      os.fsync(self._file.fileno())
      self._records[key] = value

  def __exit__(self, *unused) -> None:
    """Closes the file and lets others write to it."""
    self._file.close()

  def _read_records(self) -> dict[str, Any]:
    """Returns the records on disk; truncates an incomplete last line."""
    self._file.seek(0)
    content = self._file.read()
    num_complete_bytes = content.rfind(b"\n") + 1
    if num_complete_bytes < len(content):
      self._file.truncate(num_complete_bytes)
    records: dict[str, Any] = {}
    for line_number, line in enumerate(
      content[:num_complete_bytes].splitlines(), start=1
    ):
      try:
        record = json.loads(line)
        key, value = record["key"], record["value"]
      except (KeyError, TypeError, ValueError):
        raise ValueError(
          f"{self.path}, line {line_number}: expected an object with the "
          "fields key and value"
        ) from None
      if key in records:
        raise ValueError(
          f"{self.path}, line {line_number}: the key {key!r} occurs twice"
        )
      records[key] = value
    return records


SETTINGS_KEY = "settings"  # key of the first record; no question has this id


class NoReplyError(ConnectionError):
  """All attempts at one request failed; other requests may succeed."""


def check_settings(journal: Journal, settings: Mapping[str, object]) -> None:
  """Writes the settings of a new run, or compares them with a resumed one.

  Args:
    settings: everything on which the answers depend, as JSON values.
  """
  if SETTINGS_KEY not in journal:
    journal.append(SETTINGS_KEY, dict(settings))
    return
  previous_settings = journal[SETTINGS_KEY]
  # Names of both: a setting may be missing in either.
  for name in {**previous_settings, **settings}:
    if previous_settings.get(name) != settings.get(name):
      raise ValueError(
        f"{journal.path}: begun with {name}={previous_settings.get(name)!r}, "
        f"now it is {settings.get(name)!r}; choose another --workdir"
      )


def ask_questions(
  questions: Sequence[Any],
  answer: Callable[[Any], str],
  journal: Journal,
  num_workers: int = 1,
) -> dict[str, str]:
  """Returns question id -> reply; journaled answers are not asked again.

  Args:
    questions: objects with a `question_id`, the key of their answer.
    answer: returns the whole reply to a question; called from `num_workers`
      threads. It must read neither gold nor reference answer.

  Raises:
    NoReplyError: after all questions were asked, if some had no reply; the same
      command asks only these again.
  """
  errors = run_tasks(
    # Order of the questions, for a journal of one worker.
    [q for q in questions if q.question_id not in journal],
    lambda q: journal.append(q.question_id, answer(q)),
    num_workers,
  )
  if errors:
    raise NoReplyError(
      f"{len(errors)} of {len(questions)} questions have no answer ("
      f"{errors[0]}); run the same command again to ask only these"
    )
  return {q.question_id: journal[q.question_id] for q in questions}


def run_tasks(
  tasks: Sequence[Any], do_task: Callable[[Any], None], num_workers: int
) -> list[NoReplyError]:
  """Returns the errors of the tasks without a reply, after all were tried.

  Any other error ends the run; finished tasks stay in their journal.

  Args:
    do_task: called from `num_workers` threads.
  """
  errors: list[NoReplyError] = []

  def do_guarded(task: Any) -> None:
    try:
      do_task(task)
    except NoReplyError as error:
      errors.append(error)

  progress_bar = output.Progress(total=len(tasks), unit="question")
  with progress_bar, concurrent.futures.ThreadPoolExecutor(num_workers) as pool:
    futures = [pool.submit(do_guarded, task) for task in tasks]
    try:
      for future in concurrent.futures.as_completed(futures):
        future.result()
        progress_bar.update()
    except BaseException:  # also a keyboard interrupt
      pool.shutdown(cancel_futures=True)
      raise
  return errors
