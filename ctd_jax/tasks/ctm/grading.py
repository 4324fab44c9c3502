"""Verdicts of a model and of people on answers.

Aliases are never complete, and reasons can be worded in endless ways, so a
model votes on answers that no rule decides, three times. `print_agreement`
compares verdicts with those of people.

Source: CTM paper, section on evaluation, which uses one draw at temperature 1;
the keys of the JSON are the paper's, the sentences ours.
"""

from __future__ import annotations

import collections
import dataclasses
import pathlib
from collections.abc import Iterable, Sequence

from ctd_jax.tasks.chat import Conversation
from ctd_jax.tasks.ctm import judge, replies
from ctd_jax.tasks.ctm.judge import (
  MODEL,
  STYLES,
  UNDECIDED,
  UNGRADED,
  AnswerVerdict,
)
from ctd_jax.utils import files, output
from ctd_jax_datasets.ctm.periods import TASKS
from ctd_jax_datasets.ctm.schema import Question

_GRADING_INSTRUCTION = (
  "你是阅卷人。根据参考答案判断作答是否正确：是非题要求结论与参考一致，"
  "且理由不与参考矛盾；其他题要求参考答案的每个要点都被说到，且事实、逻辑、时间"
  "都一致。比十个时期更细的朝代名，只要落在参考的时期之内就算一致。只输出一个JSON"
  f"对象，键“{judge.THOUGHT_KEY}”写判断的依据，键“评估结果”写1（正确）或0（错误）。"
)
GRADE_KEY = "评估结果"  # in the JSON of the judging model; 1 or 0
NUM_VOTES = 3  # servers are not deterministic even at temperature 0


def make_vote_prompt(question: Question, answer: str) -> Conversation:
  """Returns the conversation that asks a model for its vote on an answer.

  Args:
    answer: result of `judge.extract_final_answer`.
  """
  fields = {
    "题型": question.type,
    "问题": question.question,
    "参考解释": question.explanation,
    "参考答案": question.answer,
    "作答": answer,
  }
  lines = [f"【{name}】{value}" for name, value in fields.items()]
  return _GRADING_INSTRUCTION, "\n".join(lines)


def read_vote(reply: str) -> bool:
  """Returns the vote in a reply; raises ValueError if there is none."""
  grade = replies.parse_json_object(reply).get(GRADE_KEY)
  if str(grade).strip() not in ("0", "1"):
    raise ValueError(f"{GRADE_KEY} is {grade!r}, should be 0 or 1")
  return str(grade).strip() == "1"


def count_votes(
  votes: Sequence[bool | None], rule_verdict: AnswerVerdict
) -> AnswerVerdict:
  """Returns the verdict of the majority of the readable votes.

  Without a majority the answer is undecided, or ungraded if it has no rule.

  Args:
    votes: votes, None for one that could not be read.
    rule_verdict: verdict of the rules; its measures are kept.
  """
  num_yes, num_no = votes.count(True), votes.count(False)
  tie = UNGRADED if rule_verdict.source == UNGRADED else UNDECIDED
  return AnswerVerdict(
    num_yes > num_no,
    tie if num_yes == num_no else MODEL,
    rule_verdict.measures,
    f"{num_yes} of {len(votes)} votes",
    votes.count(None),
  )


COLUMNS = ("question", "batch", "style", "kind", "correct", "answer")


@dataclasses.dataclass(frozen=True)
class JudgedAnswer:
  """Answer with the verdict of a person."""

  question: Question
  style: str  # one of `judge.STYLES`
  correct: bool  # verdict of the person
  answer: str  # text of the answer


def read_answers(
  path: pathlib.Path, questions: Iterable[Question]
) -> list[JudgedAnswer]:
  """Returns the answers of a file.

  Args:
    path: TSV file with the columns question (id), batch, style (direct or
      cot), kind, correct (1 or 0) and answer (\\n for a new line).
  """
  by_id = {question.question_id: question for question in questions}
  allowed = {"question": by_id, "style": STYLES, "correct": ("0", "1")}
  answers = []
  rows = files.read_tsv_rows(path, COLUMNS)
  for line, row in enumerate(rows, start=2):
    for column, allowed_values in allowed.items():
      if row[column] not in allowed_values:
        raise ValueError(
          f"{path}, line {line}: column {column}: {row[column]!r} should be "
          f"one of {', '.join(allowed_values)}"
        )
    answers.append(
      JudgedAnswer(
        by_id[row["question"]],
        row["style"],
        row["correct"] == "1",
        row["answer"].replace("\\n", "\n"),  # a cell has no line breaks
      )
    )
  return answers


def count_confusion(
  judged_verdicts: Iterable[tuple[JudgedAnswer, AnswerVerdict]],
) -> list[list[str]]:
  """Returns a line of counts for each task, then for all."""
  counts: dict[str, collections.Counter[str]] = {}
  for judged, verdict in judged_verdicts:
    # "10": correct by the person, wrong by the judge.
    outcomes = [f"{int(judged.correct)}{int(verdict.correct)}"]
    if verdict.source == UNDECIDED:
      outcomes.append(UNDECIDED)
    for name in (judged.question.task, "all"):
      counts.setdefault(name, collections.Counter()).update(outcomes)
  return [
    _format_confusion_row(name, counts[name])
    for name in (*TASKS, "all")
    if name in counts
  ]


def _format_confusion_row(
  name: str, count: collections.Counter[str]
) -> list[str]:
  # Agreements, then false positives, then false negatives.
  cells = [count[key] for key in ("11", "00", "01", "10")]
  num_answers = sum(cells)
  agreement = (cells[0] + cells[1]) / num_answers
  num_judged_correct = count["11"] + count["01"]
  num_correct = count["11"] + count["10"]
  # Agreement of two independent judges with these shares of correct answers.
  chance_agreement = (
    num_judged_correct * num_correct
    + (num_answers - num_judged_correct) * (num_answers - num_correct)
  ) / num_answers**2
  # Cohen's kappa is undefined where both give one verdict to all answers.
  kappa = (
    f"{(agreement - chance_agreement) / (1 - chance_agreement):.3f}"
    if chance_agreement < 1
    else "-"
  )
  return [
    name,
    str(num_answers),
    *map(str, (*cells, count[UNDECIDED])),
    f"{100 * agreement:.1f}",
    kappa,
  ]


def print_agreement(
  judged_verdicts: Sequence[tuple[JudgedAnswer, AnswerVerdict]],
) -> None:
  """Prints the agreement of verdicts with people, and where they differ."""
  columns = ["right, said right", "wrong, said wrong", "wrong, said right"]
  columns += ["right, said wrong", "undecided", "agreement in %", "kappa"]
  print(
    output.format_table(
      "By task",
      ["task", "answers", *columns],
      count_confusion(judged_verdicts),
      markdown=True,
    )
  )
  for answer, verdict in judged_verdicts:
    if answer.correct != verdict.correct:
      print(f"{answer.question.question_id} {verdict.source}: {answer.answer}")
