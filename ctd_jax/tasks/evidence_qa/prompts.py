"""What a model is told: to answer from a pack, and to judge such an answer.

Why: wording changes results, so all of it stands in one place. The two tasks
are the paper's (appendix B.2.5); the sentences are this project's own. Called
by `python -m ctd_jax.tasks.evidence_qa`.
"""

from __future__ import annotations

from ctd_jax.tasks.evidence_qa.packs import Pack

Conversation = list[dict[str, str]]
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


def make_answer_prompt(pack: Pack, with_dates: bool = True) -> Conversation:
  """Returns the conversation that asks for an answer with citations.

  Args:
    pack: question and evidence; what answers is not told.
    with_dates: whether the month of each record is told.
  """
  lines = [
    f"[{number}] {f'（{item.date}）' if with_dates else ''}{item.text}"
    for number, item in enumerate(pack.items, start=1)
  ]
  instruction = (
    _ANSWER_INSTRUCTION if with_dates else _ANSWER_INSTRUCTION + _UNDATED_NOTE
  )
  text = "\n".join(["史料：", *lines, "", f"問題：{pack.question}"])
  return _make_conversation(instruction, text)


def make_judging_prompt(pack: Pack, reply: str) -> Conversation:
  """Returns the conversation that asks which answers a reply tells."""
  lines = [f"[{n}] {pack.items[n - 1].text}" for n in pack.answers]
  text = "\n".join(
    [f"問題：{pack.question}", f"作答：{reply}", "應當說到的史料：", *lines]
  )
  return _make_conversation(_JUDGING_INSTRUCTION, text)


def _make_conversation(system: str, user: str) -> Conversation:
  return [
    {"role": "system", "content": system},
    {"role": "user", "content": user},
  ]
