"""Prompts of the answering model and of the judging model.

Wording changes results, so all of it is in one place. The tasks and the keys
of the JSON are the paper's; the sentences are this project's own.
"""

from __future__ import annotations

from collections.abc import Sequence

from ctd_jax.llm.endpoint import Message, make_conversation
from ctd_jax.tasks.ctm import judge
from ctd_jax.tasks.ctm.settings import COT
from ctd_jax_datasets.ctm import periods
from ctd_jax_datasets.ctm.questions import Question

_DIRECT_INSTRUCTION = (
  "你熟悉中国历史。请回答下面的问题，先写答案，需要理由时用一两句话说明。"
)
_COT_INSTRUCTION = (
  "你熟悉中国历史。请按三步作答：一、读懂题目，找出涉及的人、物、事；"
  "二、逐个写出它们所处的年代，并加以比较；三、得出结论，理由分条简述。"
  f"只输出一个JSON对象，键“{judge.THOUGHT_KEY}”写前两步，键“{judge.ANSWER_KEY}”写结论。"
)
# 「先秦（-2100至-206年）、...」: the labels are a convention that models need.
TIMELINE = "、".join(
  f"{p.label}（{p.start}至{p.end}年）" for p in periods.PERIODS
)
_ANSWER_FORMATS = {
  "EDD": "答案是上述时期之一。",
  "PJ": "先答“是”或“否”，再说明理由。",
  "TOU": "答案按从早到晚列出全部名称，用“、”隔开。",
  "TIC": "答案写成“约N年”。",
  "TES": "答案写选项的内容，不写字母。",
  "SEC": "写出不属于该场景年代的人、物、事及理由；没有则答“没有穿帮”。",
  "LSEC": "分条列出所有不属于剧本年代的人、物、事及理由。",
}
_GRADING_INSTRUCTION = (
  "你是阅卷人。根据参考答案判断作答是否正确：是非题要求结论与参考一致，"
  "且理由不与参考矛盾；其他题要求参考答案的每个要点都被说到，且事实、逻辑、时间"
  "都一致。比十个时期更细的朝代名，只要落在参考的时期之内就算一致。只输出一个JSON"
  f"对象，键“{judge.THOUGHT_KEY}”写判断的依据，键“评估结果”写1（正确）或0（错误）。"
)
GRADE_KEY = "评估结果"  # in the JSON of the judging model; 1 or 0


def make_question_prompt(
  question: Question, style: str, context: Sequence[str] = ()
) -> list[Message]:
  """Returns the conversation that asks a question.

  Args:
    question: the prompt has its text and task, never its gold.
    style: one of `settings.STYLES`.
    context: passages or facts that precede the question.
  """
  instruction = _COT_INSTRUCTION if style == COT else _DIRECT_INSTRUCTION
  timeline_note = f"所称时期限于：{TIMELINE}。"
  system = "\n".join(
    filter(
      None, (instruction, timeline_note, _ANSWER_FORMATS.get(question.task))
    )
  )
  passages = "".join(
    f"{i}. {text}\n" for i, text in enumerate(context, start=1)
  )
  context_block = (
    f"可供参考的资料（未必都有用）：\n{passages}\n" if context else ""
  )
  return make_conversation(system, f"{context_block}问题：{question.question}")


def make_grading_prompt(question: Question, answer: str) -> list[Message]:
  """Returns the conversation that asks for a verdict on an answer."""
  fields = {
    "题型": question.type,
    "问题": question.question,
    "参考解释": question.explanation,
    "参考答案": question.answer,
    "作答": answer,
  }
  text = "\n".join(f"【{name}】{value}" for name, value in fields.items())
  return make_conversation(_GRADING_INSTRUCTION, text)
