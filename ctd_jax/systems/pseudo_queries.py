"""Writes pseudo-queries for every record with a chat model.

  python -m ctd_jax.systems.pseudo_queries --dataset=chunqiutr/rebuilt \\
    --model=openai/gpt-4o --workdir=runs/pseudo
  python -m ctd_jax.evaluate --baselines_only \\
    --config=configs/published.py:pqr --workdir=runs/pqr \\
    --config.pqr.pseudo_queries=runs/pseudo/pseudo_queries.jsonl

The first command writes pseudo_queries.jsonl, which `systems.pqr` reads.
Replies are cached, so an interrupted run continues when it is started again.
The model sees only the text of a record. Needs the extra [llm].
"""

from __future__ import annotations

import asyncio
import pathlib
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
from absl import flags

from ctd_jax.benchmark.benchmark import Benchmark, Record
from ctd_jax.systems import pqr
from ctd_jax.tasks import chat
from ctd_jax.utils import command_line, files, output
from ctd_jax_datasets import load

if TYPE_CHECKING:
  from inspect_ai.model import Model

OUTPUT_FILE = "pseudo_queries.jsonl"
_TASK = (
  "你熟悉編年史書。下面是一條記載。請擬出{count}個讀者可能提出、而這條記載恰能回答的"
  "問題，各問題的問法與著眼點（年月、人物、地點、事由）應有不同；只依據記載本身，"
  "不添加記載以外的內容。每行一個問題，不編號，不解釋。"
)
# Bullets and numbers that models write although the task forbids them.
_NUMBERING = re.compile(
  r"^\s*\**(?:[-*•·]|[(（]?(?:\d+|[一二三四五六七八九十]+)[)）.．、:：](?!\d))\**\s*"
)


def parse_reply(reply: str) -> list[str]:
  """Returns the pseudo-queries of a reply, without numbers and blank lines."""
  lines = (
    _NUMBERING.sub("", line).strip()
    for line in chat.strip_thoughts(reply).splitlines()
  )
  return [line for line in lines if line]


async def _ask_all(
  model: Model, records: Sequence[Record], count: int
) -> list[list[str] | BaseException]:
  """Returns the pseudo-queries of every record, or the error of its request."""
  progress_bar = output.Progress(total=len(records), unit="record")

  async def ask(record: Record) -> list[str]:
    messages = chat.make_messages((_TASK.format(count=count), record.text))
    questions = parse_reply(await chat.ask(model, messages))
    progress_bar.update()
    return questions

  # The model limits the requests that are under way at once.
  with progress_bar:
    return await asyncio.gather(*map(ask, records), return_exceptions=True)


def write_pseudo_queries(
  benchmark: Benchmark,
  model_name: str,
  count: int,
  folder: pathlib.Path,
  options: Mapping[str, Any],
) -> str:
  """Writes the pseudo-queries of all records; returns a line about them.

  Args:
    benchmark: benchmark whose records are read.
    model_name: name of the model, as in inspect-ai.
    count: pseudo-queries of a record.
    folder: folder for the file.
    options: fields of inspect-ai's `GenerateConfig`.

  Raises:
    ValueError: if the extra `llm` is not installed, or a record has no reply.
  """
  chat.check_ready()
  from inspect_ai._util.error import PrerequisiteError
  from inspect_ai.model import GenerateConfig, get_model

  try:
    model = get_model(model_name, config=GenerateConfig(**options))
  except PrerequisiteError as error:
    raise ValueError(str(error.message)) from None
  found = asyncio.run(_ask_all(model, benchmark.records, count))
  errors = [error for error in found if isinstance(error, BaseException)]
  if errors:
    raise ValueError(
      f"{len(errors)} of {len(found)} records have no reply ({errors[0]}); run "
      "the same command again to ask only these"
    )
  lines = [
    msgspec.json.encode(pqr.PseudoQueries(record.record_id, questions)).decode()
    for record, questions in zip(benchmark.records, found, strict=True)
  ]
  path = folder / OUTPUT_FILE
  files.write_text(path, "".join(f"{line}\n" for line in lines))
  counts = list(map(len, found))
  return (
    f"{path}: {sum(counts)} pseudo-queries of {len(lines)} records, none of "
    f"{counts.count(0)}"
  )


def main() -> None:
  """Runs the command."""
  values = flags.FLAGS
  print(
    write_pseudo_queries(
      load.build_benchmark(values.dataset, values.data_dir, None),
      values.model,
      values.count,
      pathlib.Path(command_line.WORKDIR.value).expanduser(),
      chat.read_options(),
    )
  )


if __name__ == "__main__":
  chat.define_flags(with_judge=False)
  flags.DEFINE_string(
    "dataset",
    "chunqiutr/rebuilt",
    "Data set whose records are read, or beir:FOLDER. Default: "
    "chunqiutr/rebuilt. Example: --dataset=chunqiutr/mini",
  )
  flags.DEFINE_string(
    "data_dir",
    None,
    "Folder of data sets. Default: TensorFlow Datasets' own. Example: "
    "--data_dir=~/data",
  )
  flags.DEFINE_integer(
    "count",
    10,
    "Number of pseudo-queries for each record. Default: 10. Example: --count=5",
    1,
    pqr.MAX_QUESTIONS,
  )
  flags.declare_key_flag(command_line.WORKDIR.name)  # shown by --help
  flags.adopt_module_key_flags(chat)
  command_line.run_main(main, required=("model", "workdir"))
