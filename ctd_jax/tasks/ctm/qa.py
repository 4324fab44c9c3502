"""The command `qa`: answers all questions, judges the answers, reports.

  python -m ctd_jax.tasks.ctm qa --system=oracle --workdir=runs/oracle

The folder holds answers.jsonl and replies.jsonl (journals: the same command
goes on where it was cut off), verdicts.jsonl, results.json, report.md and the
plots. `--also` draws finished runs into the same plots.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import pathlib
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

from absl import flags, logging

from ctd_jax.evaluation import results
from ctd_jax.evaluation.significance import Proportion
from ctd_jax.llm import endpoint_flags, question_runner
from ctd_jax.llm.journal import Journal
from ctd_jax.tasks.ctm import (
  chronicles,
  grading,
  inputs,
  judge,
  report,
  timeline_answerer,
)
from ctd_jax.utils import command_line, files, provenance
from ctd_jax_datasets.ctm import repository
from ctd_jax_datasets.ctm.questions import Question
from ctd_jax_datasets.ctm.vocabulary import ERA, SPLITS, TASKS

SYSTEMS = ("eras", "chronicles", "oracle", "model")
ARMS = ("closed_book", "open_book", "facts", "distractor_facts")
# Which arm the answerers without a model are of.
_SYSTEM_TRACKS = {
  "eras": "closed_book",
  "chronicles": "open_book",
  "oracle": "facts",
}
ANSWERS_FILE, REPLIES_FILE, VERDICTS_FILE = (
  "answers.jsonl",
  "replies.jsonl",
  "verdicts.jsonl",
)


def define_flags() -> None:
  """Defines the flags of the command."""
  endpoint_flags.define_endpoint_flags()
  inputs.define_flags()
  flags.DEFINE_enum("system", None, SYSTEMS, "Who answers, see above.")
  flags.DEFINE_enum("arm", "closed_book", ARMS, "What a model may read first.")
  flags.DEFINE_enum("style", judge.DIRECT, judge.STYLES, "How it is asked.")
  flags.DEFINE_enum("split", "test", SPLITS, "Which questions.")
  flags.DEFINE_multi_enum("task", None, TASKS, "Only some tasks.")
  flags.DEFINE_integer("limit", None, "Only so many questions.", lower_bound=1)
  flags.DEFINE_string(
    "gallery",
    None,
    "Texts for the arm open_book: JSON lines with a field text; by default the "
    "evidence of the entity table. Example: --gallery=corpus.jsonl",
  )
  flags.DEFINE_list(
    "chronicles",
    ["chunqiutr/rebuilt", "zztj/rebuilt"],
    "Data sets that the system chronicles searches.",
  )
  grading.define_flags()
  flags.DEFINE_list("also", [], "Folders of finished runs for the plots.")


def main() -> None:
  """Runs the command."""
  values = flags.FLAGS
  folder = pathlib.Path(command_line.WORKDIR.value).expanduser()
  if values.system == "model" and not values.model:
    raise ValueError("--system=model: name it with --model")
  questions = _select_questions(inputs.load_questions(values.split))
  start = time.perf_counter()
  with contextlib.ExitStack() as stack:
    answerer, chat = _make_answerer(stack, folder, questions)
    journal = stack.enter_context(Journal(folder / ANSWERS_FILE))
    question_runner.check_settings(journal, _collect_settings())
    workers = values.workers if values.system == "model" else 1
    answers = question_runner.ask_questions(
      questions, answerer, journal, workers
    )
  style = values.style if values.system == "model" else judge.DIRECT
  answered = [(q, answers[q.question_id], style) for q in questions]
  verdicts = grading.grade_answers(answered, folder / "judge_replies.jsonl")
  graded = list(zip(questions, verdicts, strict=True))
  notes = {"settings": json.dumps(_collect_settings(), ensure_ascii=False)}
  if values.system == "chronicles":
    dated_outcomes = [v.correct for q, v in graded if answerer.knows(q)]
    accuracy = (
      Proportion(sum(dated_outcomes), len(dated_outcomes))
      if dated_outcomes
      else "none"
    )
    notes["questions whose names are all dated"] = (
      f"{len(dated_outcomes)}, {accuracy} %"
    )
  if chat is not None:
    notes |= chat.totals() | {"from the journal": chat.cached}
  _write_results(folder, graded, notes, time.perf_counter() - start)


def _select_questions(questions: Sequence[Question]) -> list[Question]:
  """Returns the questions that the flags leave."""
  values = flags.FLAGS
  selected_questions = [
    q for q in questions if not values.task or q.task in values.task
  ]
  if not selected_questions:
    raise ValueError(f"--split={values.split}: no question of these tasks")
  return selected_questions[: values.limit]


def _collect_settings() -> dict[str, object]:
  """Returns what decides the answers."""
  values = flags.FLAGS
  settings = {"system": values.system, "data": values.data}
  if values.system == "chronicles":
    settings["chronicles"] = values.chronicles
  if values.system == "model":
    names = ("model", "arm", "style", "temperature", "max_tokens", "gallery")
    settings |= {name: getattr(values, name) for name in names}
  return settings


def _make_answerer(
  stack: contextlib.ExitStack,
  folder: pathlib.Path,
  questions: Sequence[Question],
) -> tuple[question_runner.Answerer, Any]:
  """Returns the answerer that the flags name, and its client or None."""
  values = flags.FLAGS
  if values.system != "model":
    prior = timeline_answerer.AnswerPrior.from_questions(
      inputs.load_questions("train")
    )
    return timeline_answerer.TimelineAnswerer(
      _load_known_entities(values.system), prior
    ), None
  from ctd_jax.tasks.ctm import answerers

  chat = stack.enter_context(
    endpoint_flags.open_client(folder / REPLIES_FILE, values.model)
  )
  relations = [r for question in questions for r in question.relations]
  context = {
    "closed_book": lambda: answerers.closed_book,
    "open_book": lambda: answerers.OpenBookRetriever(
      inputs.load_passages(values.gallery)
    ),
    "facts": lambda: answerers.list_facts,
    "distractor_facts": lambda: answerers.DistractorFacts(relations),
  }[values.arm]()
  return answerers.ModelAnswerer(chat, values.style, context), chat


def _load_known_entities(system: str) -> list:
  """Returns the records that an answerer without a model knows."""
  entities = repository.load_entities()
  if system == "oracle":
    return list(entities)
  known_entities = [entity for entity in entities if entity.kind == ERA]
  if system == "chronicles":
    texts = inputs.load_dated_events(flags.FLAGS.chronicles)
    non_era_entities = [entity for entity in entities if entity.kind != ERA]
    known_entities += chronicles.ChronicleIndex(texts).date_entities(
      non_era_entities
    )
    logging.info("dated %d of %d names", len(known_entities), len(entities))
  return known_entities


def _write_results(
  folder: pathlib.Path,
  graded: report.GradedQuestions,
  notes: Mapping[str, object],
  seconds: float,
) -> None:
  """Writes verdicts, rows, report and plots."""
  values = flags.FLAGS
  name = values.model if values.system == "model" else values.system
  lines = (
    json.dumps(
      {"id": question.question_id, **dataclasses.asdict(verdict)},
      ensure_ascii=False,
    )
    for question, verdict in graded
  )
  files.write_text(folder / VERDICTS_FILE, "\n".join(lines) + "\n")
  rows = report.make_result_rows(
    graded,
    dataset=inputs.format_dataset_name(inputs.QA_DATASETS[0]),
    system=name,
    track=_SYSTEM_TRACKS.get(values.system, values.arm),
    score_mode=values.judge_model or "rules",
    split=values.split,
    mode=values.style,
    command=format_command("qa"),
    commit=provenance.code_commit(),
    seconds=round(seconds, 1),
  )
  results.write_result_rows(folder / "results.json", rows)
  graded_by_system, notes_by_system = {name: graded}, {name: notes}
  for finished_run in values.also:
    path = pathlib.Path(finished_run)
    graded_by_system[path.name], notes_by_system[path.name] = (
      _read_finished_run(path, graded),
      {},
    )
  report.write_report(folder, graded_by_system, notes_by_system)
  print(report.format_summary(graded, name))
  print(f"written: {folder / 'report.md'}")


def _read_finished_run(
  folder: pathlib.Path, graded: report.GradedQuestions
) -> report.GradedQuestions:
  """Returns the verdicts of another run on the same questions.

  Raises:
    ValueError: naming the file, if it lacks a question.
  """
  path = folder / VERDICTS_FILE
  if not path.is_file():
    raise FileNotFoundError(f"--also={folder}: no {VERDICTS_FILE} there")
  lines = path.read_text(encoding="utf-8").splitlines()
  verdicts = {fields.pop("id"): fields for fields in map(json.loads, lines)}
  missing = [q.question_id for q, _ in graded if q.question_id not in verdicts]
  if missing:
    raise ValueError(f"{path}: has no verdict on {missing[0]}")
  return [
    (q, judge.AnswerVerdict(**verdicts[q.question_id])) for q, _ in graded
  ]


def format_command(name: str) -> str:
  """Returns the command line without what depends on the machine."""
  private_flags = (
    *("--workdir", "--data_dir", "--also"),
    *("--api_key", "--base_url"),
  )
  public_arguments = [
    a for a in sys.argv[1:] if not a.startswith(private_flags)
  ]
  return " ".join(["python -m ctd_jax.tasks.ctm", name, *public_arguments])
