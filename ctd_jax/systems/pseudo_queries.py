"""Writes pseudo-queries for every record with a chat model.

  python -m ctd_jax.systems.pseudo_queries --dataset=chunqiutr/rebuilt \\
    --model=NAME --base_url=URL --workdir=runs/pseudo
  python -m ctd_jax.evaluate --baselines_only \\
    --config=configs/published.py:pqr --workdir=runs/pqr \\
    --config.pqr.pseudo_queries=runs/pseudo/pseudo_queries.jsonl

The first command writes pseudo_queries.jsonl, which `systems.pqr` reads, and
the journals answers.jsonl and replies.jsonl, from which an interrupted run
continues. The model sees only the text of a record. Needs the extra [llm].
"""

from __future__ import annotations

import dataclasses
import pathlib
import re

import msgspec
from absl import flags

from ctd_jax.benchmark.benchmark import Benchmark
from ctd_jax.systems import pqr
from ctd_jax.tasks import chat_models
from ctd_jax.tasks.chat_client import open_client
from ctd_jax.tasks.chat_models import (
  Endpoint,
  Journal,
  make_conversation,
)
from ctd_jax.utils import command_line, files
from ctd_jax_datasets import load

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
# Reasoning models write their thoughts in front of the answer.
_THOUGHT = re.compile(r"<think>.*?</think>", re.DOTALL)


@dataclasses.dataclass(frozen=True)
class RecordQuestion:
  """Record that pseudo-queries are written for."""

  question_id: str  # id of the record
  text: str  # of the record


def parse_reply(reply: str) -> list[str]:
  """Returns the pseudo-queries of a reply, without numbers and blank lines."""
  lines = (
    _NUMBERING.sub("", line).strip()
    for line in _THOUGHT.sub("", reply).splitlines()
  )
  return [line for line in lines if line]


def write_pseudo_queries(
  benchmark: Benchmark,
  endpoint: Endpoint,
  count: int,
  folder: pathlib.Path,
  workers: int = 4,
) -> str:
  """Writes the pseudo-queries of all records; returns a line about them.

  Args:
    benchmark: benchmark whose records are read.
    endpoint: model and server.
    count: pseudo-queries of a record.
    folder: folder for the file and the journals.
    workers: parallel requests.

  Raises:
    ValueError: if the journals have other settings, or the extra `llm` is
      not installed.
  """
  records = [RecordQuestion(r.record_id, r.text) for r in benchmark.records]
  with (
    open_client(folder / "replies.jsonl", endpoint) as chat,
    Journal(folder / "answers.jsonl") as journal,
  ):
    settings = {
      "dataset": benchmark.name,
      "model": endpoint.model,
      "count": count,
      "prompt": _TASK,
    }
    chat_models.check_settings(journal, settings)
    prompt = _TASK.format(count=count)
    replies = chat_models.ask_questions(
      records,
      lambda record: chat.ask(make_conversation(prompt, record.text)).text,
      journal,
      workers,
    )
  lines = [
    pqr.PseudoQueries(record_id, parse_reply(reply))
    for record_id, reply in replies.items()
  ]
  text = "".join(msgspec.json.encode(x).decode() + "\n" for x in lines)
  path = folder / OUTPUT_FILE
  files.write_text(path, text)
  counts = [len(line.generated_queries) for line in lines]
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
      chat_models.read_endpoint(values.model),
      values.count,
      pathlib.Path(command_line.WORKDIR.value).expanduser(),
      values.workers,
    )
  )


if __name__ == "__main__":
  chat_models.define_endpoint_flags()
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
  flags.adopt_module_key_flags(chat_models)
  command_line.run_main(main, required=("model", "workdir"))
