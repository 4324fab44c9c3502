"""Prompts that go to a model with a question of CTM.

Wording changes results. The keys of the JSON are the paper's, the sentences
ours; `grading` has the prompt of the model that judges. The prompts of the
paper are the instruction and the question; ours add the ten periods and the
form of the answer, so their scores do not compare.
"""

from collections.abc import Sequence

from ctd_jax.tasks.chat import Conversation
from ctd_jax.tasks.ctm import judge
from ctd_jax.tasks.ctm.judge import COT
from ctd_jax_datasets.ctm import periods
from ctd_jax_datasets.ctm.schema import Question

_DIRECT_INSTRUCTION = (
  "你熟悉中国历史。请回答下面的问题，先写答案，需要理由时用一两句话说明。"
)
_COT_INSTRUCTION = (
  "你熟悉中国历史。请按三步作答：一、读懂题目，找出涉及的人、物、事；"
  "二、逐个写出它们所处的年代，并加以比较；三、得出结论，理由分条简述。"
  f"只输出一个JSON对象，键“{judge.THOUGHT_KEY}”写前两步，键“{judge.ANSWER_KEY}”写结论。"
)
_PAPER_INSTRUCTION = "请回答下面的问题。"
OURS, PAPER = PROMPTS = ("ours", "paper")
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


def make_question_prompt(
  question: Question,
  style: str,
  context: Sequence[str] = (),
  source: str = OURS,
) -> Conversation:
  """Returns the conversation that asks a question.

  Args:
    question: the prompt has its text and task, never its gold.
    style: `DIRECT` or `COT`.
    context: what the model reads first.
    source: one of `PROMPTS`.
  """
  if source == PAPER:
    lines = [_COT_INSTRUCTION if style == COT else _PAPER_INSTRUCTION]
  else:
    lines = [
      _COT_INSTRUCTION if style == COT else _DIRECT_INSTRUCTION,
      f"所称时期限于：{TIMELINE}。",
      *filter(None, [_ANSWER_FORMATS.get(question.task)]),
    ]
  passages = "".join(
    f"{i}. {text}\n" for i, text in enumerate(context, start=1)
  )
  context_block = (
    f"可供参考的资料（未必都有用）：\n{passages}\n" if context else ""
  )
  return "\n".join(lines), f"{context_block}问题：{question.question}"
