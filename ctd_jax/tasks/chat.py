"""Chat models through inspect-ai: thoughts, draws of replies, runs of tasks.

inspect-ai knows the providers, tries again, counts tokens and keeps logs.
Replies are cached by their request, for good: a run that is started again asks
only what has no reply yet, and an edited question is asked anew.

Needs the extra `llm`, except to read replies.
"""

from __future__ import annotations

import datetime
import inspect
import json
import pathlib
import random
import re
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from absl import flags

from ctd_jax.utils import files

if TYPE_CHECKING:
  from inspect_ai import Task
  from inspect_ai.log import EvalLog
  from inspect_ai.model import ChatMessage, Model

Conversation = tuple[str, str]  # texts of the system and of the user
Item = TypeVar("Item")

_TAGS = "(?:think|thinking|thought|reasoning)"
# All up to the last closing tag, and all after a tag that is never closed: the
# reply was cut off while the model was thinking.
_THOUGHTS = re.compile(
  rf"^.*</\s*{_TAGS}\s*>|<{_TAGS}\b[^>]*>.*$", re.DOTALL | re.IGNORECASE
)


def strip_thoughts(reply: str) -> str:
  """Returns a reply without the thoughts that a model wrote in it."""
  return _THOUGHTS.sub("", reply).strip()


def interleave(
  items: Sequence[Item], kind: Callable[[Item], Hashable], seed: int = 0
) -> list[Item]:
  """Returns the items in random order, one of each kind in turn.

  The first n cover all kinds, whatever n is.
  """
  by_kind: dict[Hashable, list[Item]] = {}
  for item in random.Random(seed).sample(items, len(items)):
    by_kind.setdefault(kind(item), []).append(item)
  # Sorted by place in its kind, then by the order of the kinds.
  kinds = sorted(by_kind, key=str)
  places = [(n, k) for k in kinds for n in range(len(by_kind[k]))]
  places.sort(key=lambda place: place[0])
  return [by_kind[k][n] for n, k in places]


def check_ready(model: str | None = "") -> None:
  """Raises ValueError if no model is named, or without the extra `llm`."""
  if model is None:
    raise ValueError("a chat model answers: name it with --model")
  try:
    import inspect_ai  # noqa: F401
  except ImportError:
    raise ValueError(
      "asking a model needs inspect-ai: pip install 'ctd_jax[llm]'"
    ) from None


def make_messages(conversation: Conversation) -> list[ChatMessage]:
  """Returns a conversation as messages of inspect-ai."""
  from inspect_ai.model import ChatMessageSystem, ChatMessageUser

  system, user = conversation
  return [ChatMessageSystem(content=system), ChatMessageUser(content=user)]


async def ask(
  model: Model,
  messages: Sequence[ChatMessage],
  draw: int = 0,
  cached: bool = True,
) -> str:
  """Returns a model's reply without thoughts, from the cache if it is there.

  Args:
    draw: number of the reply; each has a reply of its own.

  Raises:
    ValueError: if the server sent no reply at all, three times.
  """
  from inspect_ai.model import CachePolicy

  # inspect-ai also caches an answer without a reply: ask under another key.
  for attempt in range(3):
    scopes = {"draw": f"{draw}", "attempt": f"{attempt}"}
    policy = CachePolicy(expiry=None, scopes=scopes)
    output = await model.generate(
      list(messages), cache=policy if cached else False
    )
    if output.choices:
      return strip_thoughts(output.completion)
  raise ValueError(f"{model} sent no reply")


async def ask_until_read(
  model: Model,
  conversation: Conversation,
  read: Callable[[str], Item],
  draw: int = 0,
) -> Item | None:
  """Returns what `read` makes of a reply, None if it cannot read it.

  A reply that cannot be read is asked for again in this run and, as the second
  reply is not cached, in every later run.

  Args:
    read: raises ValueError for a reply that it cannot read.
  """
  messages = make_messages(conversation)
  for cached in (True, False):
    try:
      return read(await ask(model, messages, draw, cached))
    except ValueError:
      continue
  return None


def define_flags(with_judge: bool = True) -> None:
  """Defines --model and the other flags of a command that asks a model."""
  flags.DEFINE_string(
    "model",
    None,
    "Chat model that answers, PROVIDER/NAME as in inspect-ai. Example: "
    "--model=openai/gpt-4o",
  )
  if with_judge:
    flags.DEFINE_string(
      "judge_model",
      None,
      "Chat model that judges what rules cannot decide. Default: none. "
      "Example: --judge_model=openai/gpt-4o",
    )
  flags.DEFINE_multi_string(
    "inspect",
    [],
    "Option of inspect-ai's eval, NAME=VALUE; repeat the flag for several. "
    "Example: --inspect=max_connections=16 --inspect=temperature=0",
  )


def read_options() -> dict[str, Any]:
  """Returns the options that --inspect gives, values as in JSON.

  Raises:
    ValueError: if one is not NAME=VALUE.
  """
  options = {}
  for text in flags.FLAGS.inspect:
    name, equals, value = text.partition("=")
    if not name.isidentifier() or not equals:
      raise ValueError(f"--inspect={text}: should be NAME=VALUE")
    try:
      options[name] = json.loads(value)
    except ValueError:
      options[name] = value
  return options


def run_task(
  task: Task,
  model: str | Model,
  folder: pathlib.Path,
  judge: str | Model | None = None,
  options: Mapping[str, Any] | None = None,
) -> EvalLog:
  """Returns the log of a task that was run to its end.

  Args:
    model: name of the model that answers.
    folder: folder of the run; the log is in its folder logs.
    judge: name of the model that judges, if any.
    options: arguments of `inspect_ai.eval`.

  Raises:
    ValueError: if an option is wrong, or a question has no reply.
  """
  import inspect_ai
  from inspect_ai._util.error import PrerequisiteError
  from inspect_ai.model import GenerateConfig
  from rich.text import Text

  settings = {
    "log_dir": str(folder / "logs"),
    # A server that breaks off in the middle of a reply is asked again.
    "retry_on_error": 2,
    "model_roles": {"grader": judge} if judge else None,
    **(options or {}),
  }
  known = {*inspect.signature(inspect_ai.eval).parameters}
  known |= GenerateConfig.model_fields.keys()
  for name in settings.keys() - known:
    raise ValueError(f"--inspect={name}: inspect_ai.eval has no such option")
  try:
    (log,) = inspect_ai.eval(task, model=model, **settings)
  except PrerequisiteError as error:
    # The message has rich markup: [bold]ERROR[/bold].
    raise ValueError(Text.from_markup(str(error.message)).plain) from None
  errors = [s.error.message for s in log.samples or [] if s.error]
  if log.status != "success":
    problem = errors[0] if errors else getattr(log.error, "message", log.status)
    # The request comes first, the error last.
    problem = problem.replace("\\n", "\n").strip().splitlines()[-1]
    raise ValueError(
      f"{len(errors) or 'some'} questions have no reply ({problem}); run the "
      "same command again to ask only these"
    )
  return log


def describe_run(log: EvalLog) -> dict[str, Any]:
  """Returns the fields of the result rows of a log of one of our tasks.

  The command leaves out files and folders, which differ between machines.
  """
  arguments = [
    f" -T {name}={value}"
    for name, value in log.eval.task_args_passed.items()
    if name not in ("data", "data_dir", "gallery", "sources")
    and value not in (None, "")
  ]
  task = log.eval.task.rpartition("/")[2]
  grader = (log.eval.model_roles or {}).get("grader")
  score_mode = grader.model if grader else "rules"
  if log.eval.metadata.get("prompts") == "paper":
    is_protocol = grader and log.eval.metadata.get("judge") == "all"
    score_mode += (
      ", protocol of the paper" if is_protocol else ", prompts of the paper"
    )
  start, end = (
    datetime.datetime.fromisoformat(text)
    for text in (log.stats.started_at, log.stats.completed_at)
  )
  fields = ("dataset", "track", "split", "mode")
  return {
    **{name: log.eval.metadata[name] for name in fields},
    "system": log.eval.model,
    "score_mode": score_mode,
    "command": f"inspect eval ctd_jax/{task} --model {log.eval.model}"
    + "".join(arguments),
    "commit": files.code_commit(),
    "seconds": round((end - start).total_seconds(), 1),
  }
