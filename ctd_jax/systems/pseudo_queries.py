"""Pseudo-queries of every record, written by a chat model.

  python -m ctd_jax.systems.pseudo_queries --dataset=chunqiutr/rebuilt --model=NAME \\
    --base_url=URL --workdir=runs/pseudo
  python -m ctd_jax.evaluate --baselines_only --config=configs/pqr.py \\
    --config.pqr.pseudo_queries=runs/pseudo/pseudo_queries.jsonl \\
    --workdir=runs/pqr

The first command leaves pseudo_queries.jsonl, which `retrieval.pqr` reads, and
the journals answers.jsonl and replies.jsonl: started again, it goes on where it
was cut off. The model is told the text of a record and nothing else. Needs the
extra [llm].
"""

from __future__ import annotations

import dataclasses
import json
import pathlib
import re
from typing import TYPE_CHECKING

from absl import flags

from ctd_jax.llm import endpoint_flags, question_runner
from ctd_jax.llm.endpoint import make_conversation, open_client
from ctd_jax.llm.journal import Journal
from ctd_jax.systems import pqr
from ctd_jax.utils import command_line, files
from ctd_jax_datasets import load

if TYPE_CHECKING:
  from ctd_jax.llm.client import ChatClient  # needs the extra llm

OUTPUT_FILE = "pseudo_queries.jsonl"
_TASK = (
  "你熟悉編年史書。下面是一條記載。請擬出{count}個讀者可能提出、而這條記載恰能回答的"
  "問題，各問題的問法與著眼點（年月、人物、地點、事由）應有不同；只依據記載本身，"
  "不添加記載以外的內容。每行一個問題，不編號，不解釋。"
)
# What models put in front of a line all the same.
_NUMBERING = re.compile(
  r"^\s*\**(?:[-*•·]|[(（]?(?:\d+|[一二三四五六七八九十]+)[)）.．、:：](?!\d))\**\s*"
)
_THOUGHT = re.compile(r"<think>.*?</think>", re.DOTALL)


@dataclasses.dataclass(frozen=True)
class RecordQuestion:
  """A record that pseudo-queries are asked of.

  Attributes:
    question_id: id of the record.
    text: of the record.
  """

  question_id: str
  text: str


@dataclasses.dataclass(frozen=True)
class PseudoQueryWriter:
  """Writes pseudo-queries as a chat model does.

  Attributes:
    chat: the model.
    count: pseudo-queries of a record.
  """

  chat: ChatClient
  count: int

  def answer(self, question: RecordQuestion) -> str:
    """Returns the model's reply, a pseudo-query a line."""
    messages = make_conversation(_TASK.format(count=self.count), question.text)
    return self.chat.ask(messages).text


def parse_reply(reply: str) -> list[str]:
  """Returns the pseudo-queries of a reply, without numbers and blank lines."""
  reply_lines = _THOUGHT.sub("", reply).splitlines()
  lines = (_NUMBERING.sub("", line).strip() for line in reply_lines)
  return [line for line in lines if line]


def main() -> None:
  """Runs the command."""
  flag_values = flags.FLAGS
  folder = pathlib.Path(command_line.WORKDIR.value).expanduser()
  benchmark = load.build_benchmark(
    flag_values.dataset, flag_values.data_dir, None
  )
  records = [RecordQuestion(r.record_id, r.text) for r in benchmark.records]
  with (
    open_client(
      folder / "replies.jsonl", endpoint_flags.read_endpoint(flag_values.model)
    ) as chat,
    Journal(folder / "answers.jsonl") as journal,
  ):
    settings = {
      "dataset": benchmark.name,
      "model": flag_values.model,
      "count": flag_values.count,
      "prompt": _TASK,
    }
    question_runner.check_settings(journal, settings)
    replies = question_runner.ask_questions(
      records,
      PseudoQueryWriter(chat, flag_values.count),
      journal,
      flag_values.workers,
    )
  lines = [
    {pqr.RECORD_FIELD: record_id, pqr.QUESTIONS_FIELD: parse_reply(reply)}
    for record_id, reply in replies.items()
  ]
  text = "".join(json.dumps(x, ensure_ascii=False) + "\n" for x in lines)
  files.write_text(folder / OUTPUT_FILE, text)
  counts = [len(line[pqr.QUESTIONS_FIELD]) for line in lines]
  print(
    f"{folder / OUTPUT_FILE}: {sum(counts)} pseudo-queries of {len(lines)} records, "
    f"none of {counts.count(0)}"
  )


if __name__ == "__main__":
  endpoint_flags.define_endpoint_flags()
  flags.DEFINE_string(
    "dataset", "chunqiutr/rebuilt", "Data set, or beir:FOLDER."
  )
  flags.DEFINE_string(
    "data_dir", None, "Where data sets lie. Example: --data_dir=~/data"
  )
  flags.DEFINE_integer(
    "count", 10, "Pseudo-queries of a record.", 1, pqr.MAX_QUESTIONS
  )
  flags.declare_key_flag(command_line.WORKDIR.name)  # shown by --help
  flags.adopt_module_key_flags(endpoint_flags)
  command_line.run_main(main, required=("model", "workdir"))
