"""Agreement of the judge with people who judged the same answers."""

from __future__ import annotations

import collections
import csv
import dataclasses
import pathlib
from collections.abc import Iterable, Sequence

from ctd_jax.tasks.ctm import data_sources, grading
from ctd_jax.tasks.ctm.settings import STYLES, JudgeSettings
from ctd_jax.tasks.ctm.verdicts import UNDECIDED, AnswerVerdict
from ctd_jax.utils import tables
from ctd_jax_datasets.ctm.json_records import question_from_json
from ctd_jax_datasets.ctm.questions import Question
from ctd_jax_datasets.ctm.vocabulary import TASKS

COLUMNS = ("question", "batch", "style", "kind", "correct", "answer")


@dataclasses.dataclass(frozen=True)
class JudgedAnswer:
  """Answer with the verdict of a person.

  Attributes:
    question: the question.
    batch: group of answers, e.g. by date of writing.
    style: one of `settings.STYLES`.
    kind: kind of answer, e.g. hedged.
    correct: verdict of the person.
    answer: text of the answer.
  """

  question: Question
  batch: str
  style: str
  kind: str
  correct: bool
  answer: str


def read_answers(
  path: pathlib.Path, questions: Iterable[Question]
) -> list[JudgedAnswer]:
  """Returns the answers of a file.

  Args:
    path: TSV file with the columns question (id), batch, style (direct or
      cot), kind, correct (1 or 0) and answer (\\n for a new line).
    questions: all questions that are answered.

  Raises:
    ValueError: naming file, line and column at fault.
  """
  by_id = {question.question_id: question for question in questions}
  answers = []
  with path.open(encoding="utf-8", newline="") as file:
    table = csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
    for line_number, cells in enumerate(table, start=1):
      location = f"{path}, line {line_number}"
      if line_number == 1:
        if tuple(cells) != COLUMNS:
          raise ValueError(
            f"{location}: columns should be {', '.join(COLUMNS)}"
          )
        continue
      answers.append(_parse_row(location, cells, by_id))
  return answers


def _parse_row(
  location: str, cells: Sequence[str], by_id: dict[str, Question]
) -> JudgedAnswer:
  if len(cells) != len(COLUMNS):
    raise ValueError(f"{location}: {len(cells)} columns, not {len(COLUMNS)}")
  question_id, batch, style, kind, correct, answer = cells
  allowed = {
    "question": (question_id, by_id),
    "style": (style, STYLES),
    "correct": (correct, ("0", "1")),
  }
  for column, (cell, allowed_values) in allowed.items():
    if cell not in allowed_values:
      raise ValueError(
        f"{location}: column {column}: {cell!r} should be one of "
        f"{', '.join(allowed_values)}"
      )
  # A cell has no line breaks.
  text = answer.replace("\\n", "\n")
  return JudgedAnswer(
    by_id[question_id], batch, style, kind, correct == "1", text
  )


def count_confusion(
  judged_verdicts: Iterable[tuple[JudgedAnswer, AnswerVerdict]],
  field: str,
) -> list[list[str]]:
  """Returns a line of counts for each task, batch or kind, then for all.

  Args:
    judged_verdicts: answers with verdicts.
    field: task, batch or kind.
  """
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
  numbers = [*map(str, cells), str(count[UNDECIDED])]
  return [name, str(num_answers), *numbers, f"{100 * agreement:.1f}", kappa]


def print_agreement(
  answers_path: pathlib.Path,
  questions_path: str,
  settings: JudgeSettings,
) -> None:
  """Judges answers and prints the agreement with their human verdicts.

  Printed are confusion tables by task, batch and kind, then every answer on
  which judge and human differ. Answers on which the rules do not decide count
  as wrong unless a model judges them.

  Args:
    answers_path: TSV file, see `read_answers`.
    questions_path: JSON lines of the questions.
    settings: judging model, if any; its journal lies beside the answers.

  Raises:
    FileNotFoundError: if there is no such file.
    ValueError: naming file, line and column at fault.
  """
  questions = data_sources.read_json_lines(questions_path, question_from_json)
  if not answers_path.is_file():
    raise FileNotFoundError(f"--answers={answers_path}: no such file")
  answers = read_answers(answers_path, questions)
  verdicts = grading.grade_answers(
    [(answer.question, answer.answer, answer.style) for answer in answers],
    settings,
    answers_path.with_suffix(".replies.jsonl"),
  )
  judged_verdicts = list(zip(answers, verdicts, strict=True))
  columns = ["right, said right", "wrong, said wrong", "wrong, said right"]
  columns += ["right, said wrong", "undecided", "agreement in %", "kappa"]
  for field in ("task", "batch", "kind"):
    lines = count_confusion(judged_verdicts, field)
    print(
      tables.format_table(
        f"By {field}", [field, "answers", *columns], lines, markdown=True
      )
    )
  for answer, verdict in judged_verdicts:
    if answer.correct != verdict.correct:
      print(f"{answer.question.question_id} {verdict.source}: {answer.answer}")
