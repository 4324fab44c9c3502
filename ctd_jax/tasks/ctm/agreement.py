"""The command `judge`: the judge against answers that people have judged.

  python -m ctd_jax.tasks.ctm judge --answers=tests/golden/ctm_judge_answers.tsv \
    --data=tests/golden/ctm_judge_questions.jsonl

The answers are a TSV file with the columns question (id), batch, style (direct
or cot), kind, correct (1 or 0) and answer (\\n for a new line). Printed are a
confusion table by type, what the rules left undecided, and every verdict that
differs. Undecided answers count as wrong unless --judge_model decides them.
"""

from __future__ import annotations

import collections
import csv
import dataclasses
import pathlib
from collections.abc import Iterable, Sequence

from absl import flags

from ctd_jax.llm import endpoint_flags
from ctd_jax.tasks.ctm import grading, inputs, judge
from ctd_jax.utils.tables import format_markdown_table
from ctd_jax_datasets.ctm.json_records import question_from_json
from ctd_jax_datasets.ctm.questions import Question
from ctd_jax_datasets.ctm.vocabulary import TASKS

COLUMNS = ("question", "batch", "style", "kind", "correct", "answer")


@dataclasses.dataclass(frozen=True)
class JudgedAnswer:
  """An answer with what a person says of it.

  Attributes:
    question: that it answers.
    batch: group of answers, e.g. by when they were written.
    style: one of `judge.STYLES`.
    kind: of answer, e.g. hedged.
    correct: whether a person counts it.
    answer: its text.
  """

  question: Question
  batch: str
  style: str
  kind: str
  correct: bool
  answer: str


def define_flags() -> None:
  """Defines the flags of the command."""
  endpoint_flags.define_endpoint_flags()
  inputs.define_flags()
  flags.DEFINE_string("answers", None, "TSV file of judged answers, see above.")
  grading.define_flags()


def read_answers(
  path: pathlib.Path, questions: Iterable[Question]
) -> list[JudgedAnswer]:
  """Returns the answers of a file.

  Args:
    path: see the module docstring.
    questions: that they answer.

  Raises:
    ValueError: naming file, line and column of what cannot be read.
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
    "style": (style, judge.STYLES),
    "correct": (correct, ("0", "1")),
  }
  for column, (cell, allowed_values) in allowed.items():
    if cell not in allowed_values:
      raise ValueError(f"{location}: column {column}: {cell!r} is not known")
  text = answer.replace("\\n", "\n")
  return JudgedAnswer(
    by_id[question_id], batch, style, kind, correct == "1", text
  )


def count_confusion(
  judged_verdicts: Iterable[tuple[JudgedAnswer, judge.AnswerVerdict]],
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
    outcome = f"{int(judged.correct)}{int(verdict.correct)}"
    outcomes = [
      outcome,
      *[judge.UNDECIDED] * (verdict.source == judge.UNDECIDED),
    ]
    counts.setdefault(name, collections.Counter()).update(outcomes)
    total.update(outcomes)
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
  cells = [count[key] for key in ("11", "00", "01", "10")]
  num_answers = sum(cells)
  agreement = (cells[0] + cells[1]) / num_answers
  num_judged_correct, num_correct = (
    count["11"] + count["01"],
    count["11"] + count["10"],
  )
  chance_agreement = (
    num_judged_correct * num_correct
    + (num_answers - num_judged_correct) * (num_answers - num_correct)
  ) / num_answers**2
  # Cohen's kappa has no value where both call everything alike.
  kappa = (
    f"{(agreement - chance_agreement) / (1 - chance_agreement):.3f}"
    if chance_agreement < 1
    else "-"
  )
  numbers = [*map(str, cells), str(count[judge.UNDECIDED])]
  return [name, str(num_answers), *numbers, f"{100 * agreement:.1f}", kappa]


def main() -> None:
  """Runs the command."""
  values = flags.FLAGS
  for name in ("answers", "data"):
    if getattr(values, name) is None:
      raise ValueError(f"--{name} is needed, e.g. as in --help")
  questions = inputs.read_json_lines(values.data, question_from_json)
  path = pathlib.Path(values.answers)
  if not path.is_file():
    raise FileNotFoundError(f"--answers={path}: no such file")
  answers = read_answers(path, questions)
  verdicts = grading.grade_answers(
    [(answer.question, answer.answer, answer.style) for answer in answers],
    path.with_suffix(".replies.jsonl"),
  )
  judged_verdicts = list(zip(answers, verdicts, strict=True))
  columns = ["right, said right", "wrong, said wrong", "wrong, said right"]
  columns += ["right, said wrong", "undecided", "agreement in %", "kappa"]
  for field in ("task", "batch", "kind"):
    lines = count_confusion(judged_verdicts, field)
    print(
      format_markdown_table(f"By {field}", [field, "answers", *columns], lines)
    )
  for answer, verdict in judged_verdicts:
    if answer.correct != verdict.correct:
      print(f"{answer.question.question_id} {verdict.source}: {answer.answer}")
