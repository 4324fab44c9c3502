"""Verdicts on many answers: by rules, and by a model if no rule decides.

Aliases are never complete, and reasons can be worded in endless ways, so a
model votes on undecided answers, three times at temperature 0.
`print_agreement` compares the verdicts with those of people.

Source: CTM paper, section on evaluation, which uses one draw at temperature 1;
the keys of the JSON are the paper's, the sentences ours.
"""

from __future__ import annotations

import collections
import dataclasses
import os
import pathlib
from collections.abc import Iterable, Sequence

from absl import logging

from ctd_jax.tasks import chat_models
from ctd_jax.tasks.chat_client import ChatClient, open_client
from ctd_jax.tasks.chat_models import Endpoint, make_conversation
from ctd_jax.tasks.ctm import data_sources, judge, replies
from ctd_jax.tasks.ctm.command_settings import STYLES
from ctd_jax.tasks.ctm.judge import MODEL, UNDECIDED, AnswerVerdict
from ctd_jax.utils import files, output
from ctd_jax_datasets.ctm.periods import TASKS
from ctd_jax_datasets.ctm.schema import Question, question_from_json

_GRADING_INSTRUCTION = (
  "你是阅卷人。根据参考答案判断作答是否正确：是非题要求结论与参考一致，"
  "且理由不与参考矛盾；其他题要求参考答案的每个要点都被说到，且事实、逻辑、时间"
  "都一致。比十个时期更细的朝代名，只要落在参考的时期之内就算一致。只输出一个JSON"
  f"对象，键“{judge.THOUGHT_KEY}”写判断的依据，键“评估结果”写1（正确）或0（错误）。"
)
GRADE_KEY = "评估结果"  # in the JSON of the judging model; 1 or 0


NUM_VOTES = 3  # servers are not deterministic even at temperature 0


def decide_by_vote(
  chat: ChatClient,
  question: Question,
  answer: str,
  rule_verdict: AnswerVerdict,
) -> AnswerVerdict:
  """Returns the verdict of the majority of votes.

  Without a majority among the readable votes the verdict stays undecided.

  Args:
    answer: result of `judge.extract_final_answer`.
    rule_verdict: undecided verdict of the rules; its measures are kept.
  """
  fields = {
    "题型": question.type,
    "问题": question.question,
    "参考解释": question.explanation,
    "参考答案": question.answer,
    "作答": answer,
  }
  messages = make_conversation(
    _GRADING_INSTRUCTION,
    "\n".join(f"【{name}】{value}" for name, value in fields.items()),
  )
  votes = [
    _read_vote(chat.ask(messages, sample=i).text) for i in range(NUM_VOTES)
  ]
  num_yes, num_no = votes.count(True), votes.count(False)
  why = f"{num_yes} of {NUM_VOTES} votes, {votes.count(None)} unreadable"
  if num_yes == num_no:
    return dataclasses.replace(rule_verdict, why=why)
  return AnswerVerdict(num_yes > num_no, MODEL, rule_verdict.measures, why)


def _read_vote(reply: str) -> bool | None:
  """Returns the vote in a reply, None if it cannot be read."""
  try:
    grade = replies.parse_json_object(reply).get(GRADE_KEY)
  except ValueError:
    return None
  return {"1": True, "0": False}.get(str(grade).strip())


# Question, reply, style.
AnsweredQuestion = tuple[Question, str, str]


def grade_answers(
  answered: Sequence[AnsweredQuestion],
  endpoint: Endpoint | None,
  workers: int,
  replies_path: str | os.PathLike,
) -> list[AnswerVerdict]:
  """Returns a verdict for each answer.

  Args:
    answered: questions with replies and the style of these.
    endpoint: judging model, if any.
    replies_path: journal of the judging model, created only if there is one.
  """
  verdicts = [
    judge.judge_answer(question, reply, style)
    for question, reply, style in answered
  ]
  if endpoint is None:
    return verdicts
  undecided_indices = [
    index
    for index, verdict in enumerate(verdicts)
    if verdict.source == UNDECIDED
  ]
  with open_client(replies_path, endpoint) as chat:

    def decide_with_model(index: int) -> None:
      question, reply, style = answered[index]
      # An unparsed answer is never undecided; "" only satisfies the type.
      verdicts[index] = decide_by_vote(
        chat,
        question,
        judge.extract_final_answer(reply, style) or "",
        verdicts[index],
      )

    errors = chat_models.run_tasks(
      undecided_indices, decide_with_model, workers
    )
  if errors:
    logging.warning("%d verdicts are still open: %s", len(errors), errors[0])
  return verdicts


COLUMNS = ("question", "batch", "style", "kind", "correct", "answer")


@dataclasses.dataclass(frozen=True)
class JudgedAnswer:
  """Answer with the verdict of a person."""

  question: Question
  batch: str  # group of answers, e.g. by date of writing.
  style: str  # one of `command_settings.STYLES`
  kind: str  # kind of answer, e.g. hedged.
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
        row["batch"],
        row["style"],
        row["kind"],
        row["correct"] == "1",
        row["answer"].replace("\\n", "\n"),  # a cell has no line breaks
      )
    )
  return answers


def count_confusion(
  judged_verdicts: Iterable[tuple[JudgedAnswer, AnswerVerdict]],
  field: str,
) -> list[list[str]]:
  """Returns a line of counts for each task, batch or kind, then for all."""
  counts: dict[str, collections.Counter[str]] = {}
  total = collections.Counter()
  for judged, verdict in judged_verdicts:
    name = judged.question.task if field == "task" else getattr(judged, field)
    # "10": correct by the person, wrong by the judge.
    outcomes = [f"{int(judged.correct)}{int(verdict.correct)}"]
    if verdict.source == UNDECIDED:
      outcomes.append(UNDECIDED)
    counts.setdefault(name, collections.Counter()).update(outcomes)
    total.update(outcomes)
  # Tasks in the order of the paper, other groups by name.
  order = (
    [t for t in TASKS if t in counts] if field == "task" else sorted(counts)
  )
  return [
    _format_confusion_row(name, count)
    for name, count in (*((n, counts[n]) for n in order), ("all", total))
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
  answers_path: pathlib.Path,
  questions_path: str,
  endpoint: Endpoint | None,
  workers: int,
) -> None:
  """Judges answers and prints the agreement with their human verdicts.

  Prints confusion tables by task, batch and kind, then every answer on which
  judge and human differ. Answers that the rules cannot decide count as wrong
  unless a model judges them.

  Args:
    answers_path: TSV file, see `read_answers`.
    endpoint: judging model, if any; its journal is next to the answers.
  """
  questions = data_sources.read_json_lines(questions_path, question_from_json)
  if not answers_path.is_file():
    raise FileNotFoundError(f"--answers={answers_path}: no such file")
  answers = read_answers(answers_path, questions)
  verdicts = grade_answers(
    [(answer.question, answer.answer, answer.style) for answer in answers],
    endpoint,
    workers,
    answers_path.with_suffix(".replies.jsonl"),
  )
  judged_verdicts = list(zip(answers, verdicts, strict=True))
  columns = ["right, said right", "wrong, said wrong", "wrong, said right"]
  columns += ["right, said wrong", "undecided", "agreement in %", "kappa"]
  for field in ("task", "batch", "kind"):
    print(
      output.format_table(
        f"By {field}",
        [field, "answers", *columns],
        count_confusion(judged_verdicts, field),
        markdown=True,
      )
    )
  for answer, verdict in judged_verdicts:
    if answer.correct != verdict.correct:
      print(f"{answer.question.question_id} {verdict.source}: {answer.answer}")
