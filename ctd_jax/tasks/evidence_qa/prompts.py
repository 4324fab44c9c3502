"""Prompts for answers from a pack, and for judgements of such answers.

Wording changes results, so all of it is in one place. The two tasks are the
paper's (appendix B.2.5); the sentences are this project's own.
"""

from __future__ import annotations

from ctd_jax.llm.endpoint import Message, make_conversation
from ctd_jax.tasks.evidence_qa.packs import Pack

_ANSWER_INSTRUCTION = (
  "你研讀編年史書。請只根據所附史料回答問題：問題問的是哪些月份，就只用那些月份的記載，"
  "其他年月的記載即使相似也不可採用；注疏之語不算當時的記載。逐條陳述，"
  "每條末尾用方括號註明所據史料的編號，如[3]；無事可記則說明無事，並註明所據。"
)
_UNDATED_NOTE = "史料未標年月，請自行判斷。"
_JUDGING_INSTRUCTION = (
  "你是閱卷人。下面有一個問題、一份作答和若干條應當說到的史料。逐條判斷作答是否說出了"
  "該條史料的要點，措辭可以不同，事實不可相違。只輸出一個JSON對象，鍵為史料的編號，"
  "值為1（說到）或0（未說到）。"
)


def make_answer_prompt(pack: Pack, with_dates: bool = True) -> list[Message]:
  """Returns the conversation that asks for an answer with citations.

  Args:
    pack: question and evidence; the prompt does not have the roles.
    with_dates: whether the prompt has the month of each record.
  """
  lines = [
    f"[{number}] {f'（{item.date}）' if with_dates else ''}{item.text}"
    for number, item in enumerate(pack.items, start=1)
  ]
  instruction = (
    _ANSWER_INSTRUCTION if with_dates else _ANSWER_INSTRUCTION + _UNDATED_NOTE
  )
  text = "\n".join(["史料：", *lines, "", f"問題：{pack.question}"])
  return make_conversation(instruction, text)


def make_judging_prompt(pack: Pack, reply: str) -> list[Message]:
  """Returns the conversation that asks which records a reply covers."""
  lines = [f"[{n}] {pack.items[n - 1].text}" for n in pack.answers]
  text = "\n".join(
    [f"問題：{pack.question}", f"作答：{reply}", "應當說到的史料：", *lines]
  )
  return make_conversation(_JUDGING_INSTRUCTION, text)
