"""Runs of the question task: answers, verdicts, report and result rows.

What a model reads first separates knowledge from reasoning: nothing
(closed_book), passages retrieved by BM25 (open_book), the dates of the
question's entities (facts), or these among the dates of others
(distractor_facts).
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import pathlib
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence

from absl import logging

from ctd_jax.evaluation import results
from ctd_jax.evaluation.significance import Proportion
from ctd_jax.retrieval import bm25, host_search
from ctd_jax.tasks import chat_models
from ctd_jax.tasks.chat_client import ChatClient, open_client
from ctd_jax.tasks.chat_models import Journal
from ctd_jax.tasks.ctm import data_sources, grading, prompts, report, timeline
from ctd_jax.tasks.ctm.command_settings import DIRECT, MODEL, QaSettings
from ctd_jax.tasks.ctm.judge import AnswerVerdict
from ctd_jax.utils import files
from ctd_jax_datasets import load
from ctd_jax_datasets.ctm import question_drafts, repository
from ctd_jax_datasets.ctm.periods import ERA
from ctd_jax_datasets.ctm.schema import Entity, Question

NoteFunction = Callable[[report.GradedQuestions], dict[str, object]]
ContextProvider = Callable[[Question], Sequence[str]]
NUM_PASSAGES = 10  # as many as the paper takes from a web search


def answer_with_model(
  chat: ChatClient, style: str, context: ContextProvider, question: Question
) -> str:
  """Returns a model's reply to a question."""
  return chat.ask(
    prompts.make_question_prompt(question, style, context(question))
  ).text


def list_facts(question: Question) -> Sequence[str]:
  """Returns the dates of all entities that a question is about."""
  return tuple(map(question_drafts.format_fact, question.relations))


def add_distractors(
  all_facts: Sequence[str], question: Question
) -> Sequence[str]:
  """Returns the facts of a question among as many others, in random order."""
  relevant_facts = list_facts(question)
  rng = random.Random(f"0:{question.question_id}")
  other_facts = [fact for fact in all_facts if fact not in relevant_facts]
  context_facts = [
    *relevant_facts,
    *rng.sample(other_facts, min(len(relevant_facts), len(other_facts))),
  ]
  rng.shuffle(context_facts)
  return tuple(context_facts)


def make_open_book(texts: Sequence[str]) -> ContextProvider:
  """Returns a function from a question to the best texts by BM25."""
  index = bm25.BM25(texts)

  def find_passages(question: Question) -> Sequence[str]:
    scores = index.score_queries([question.question])
    indices, _ = host_search.select_top_k(scores, NUM_PASSAGES)
    # Row -1 fills the list where fewer texts score.
    return tuple(texts[i] for i in indices[0] if i >= 0)

  return find_passages


# Information track of the systems without a model; a model's is its arm.
_SYSTEM_TRACKS = {
  "eras": "closed_book",
  "chronicles": "open_book",
  "oracle": "facts",
}
ANSWERS_FILE = "answers.jsonl"
REPLIES_FILE = "replies.jsonl"
JUDGE_REPLIES_FILE = "judge_replies.jsonl"
VERDICTS_FILE = "verdicts.jsonl"


def run_questions(settings: QaSettings) -> None:
  """Answers and judges all questions; an interrupted run is resumed."""
  questions = [
    question
    for question in data_sources.load_questions(settings.data, settings.split)
    if not settings.task or question.task in settings.task
  ][: settings.limit]
  if not questions:
    raise ValueError(f"--split={settings.split}: no question of these tasks")
  run_key = _make_run_key(settings)
  is_model = settings.system == MODEL
  start = time.perf_counter()
  with (
    _open_answerer(settings, questions) as (answer, make_notes),
    Journal(settings.workdir / ANSWERS_FILE) as journal,
  ):
    chat_models.check_settings(journal, run_key)
    replies = chat_models.ask_questions(
      questions, answer, journal, settings.workers if is_model else 1
    )
  style = settings.style if is_model else DIRECT
  verdicts = grading.grade_answers(
    [(q, replies[q.question_id], style) for q in questions],
    settings.judge,
    settings.workers,
    settings.workdir / JUDGE_REPLIES_FILE,
  )
  graded = list(zip(questions, verdicts, strict=True))
  notes = {
    "settings": json.dumps(run_key, ensure_ascii=False),
    **make_notes(graded),
  }
  _write_results(settings, graded, notes, time.perf_counter() - start)


def _make_run_key(settings: QaSettings) -> dict[str, object]:
  """Returns everything on which the answers depend, as the journal has it."""
  # Names and types as in the journals of earlier versions.
  run_key: dict[str, object] = {
    "system": settings.system,
    "data": settings.data.file,
  }
  if settings.system == "chronicles":
    run_key["chronicles"] = list(settings.chronicles)
  if settings.system == MODEL:
    run_key |= {
      "model": settings.endpoint.model,
      "arm": settings.arm,
      "style": settings.style,
      "temperature": settings.endpoint.temperature,
      "max_tokens": settings.endpoint.max_tokens,
      "gallery": settings.gallery,
    }
  return run_key


@contextlib.contextmanager
def _open_answerer(
  settings: QaSettings, questions: Sequence[Question]
) -> Iterator[tuple[Callable[[Question], str], NoteFunction]]:
  """Yields a function that answers, and one for the notes of the report."""
  if settings.system != MODEL:
    # The prior is that of the train split, whichever split is asked.
    train_questions = data_sources.load_questions(settings.data, "train")
    answerer = timeline.TimelineAnswerer(
      _load_known_entities(settings),
      timeline.AnswerPrior.from_questions(train_questions),
    )

    def note_known_questions(graded: report.GradedQuestions) -> dict[str, str]:
      if settings.system != "chronicles":
        return {}
      # The track open_book is fair only where the texts have the answer.
      outcomes = [v.correct for q, v in graded if answerer.knows(q)]
      accuracy = "none"
      if outcomes:
        accuracy = Proportion(sum(outcomes), len(outcomes))
      return {
        "questions whose names are all dated": f"{len(outcomes)}, {accuracy} %"
      }

    yield answerer.answer, note_known_questions
    return
  context = _choose_context(settings, questions)
  replies_path = settings.workdir / REPLIES_FILE
  with open_client(replies_path, settings.endpoint) as chat:
    yield (
      functools.partial(answer_with_model, chat, settings.style, context),
      lambda graded: {**chat.totals(), "from the journal": chat.cached},
    )


def _choose_context(
  settings: QaSettings, questions: Sequence[Question]
) -> ContextProvider:
  """Returns what gives the model a question's context in this arm."""
  if settings.arm == "closed_book":
    return lambda question: ()
  if settings.arm == "facts":
    return list_facts
  if settings.arm == "distractor_facts":
    facts = sorted({fact for q in questions for fact in list_facts(q)})
    return functools.partial(add_distractors, facts)
  return make_open_book(data_sources.load_passages(settings.gallery))


def _load_known_entities(settings: QaSettings) -> list[Entity]:
  """Returns the records of the entities that a system without a model knows."""
  entities = repository.load_entities()
  if settings.system == "oracle":
    return list(entities)
  # Names of eras are in every dictionary, so both systems know them.
  known_entities = [entity for entity in entities if entity.kind == ERA]
  if settings.system == "chronicles":
    index = timeline.ChronicleIndex.from_benchmarks(
      load.load_benchmark(name, settings.data.data_dir)
      for name in settings.chronicles
    )
    known_entities += index.date_entities(
      [entity for entity in entities if entity.kind != ERA]
    )
    logging.info("dated %d of %d names", len(known_entities), len(entities))
  return known_entities


def _write_results(
  settings: QaSettings,
  graded: report.GradedQuestions,
  notes: Mapping[str, object],
  seconds: float,
) -> None:
  """Writes verdicts, rows, report and plots; prints a summary."""
  folder = settings.workdir
  name = settings.system
  if name == MODEL:
    name = settings.endpoint.model
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
    dataset=data_sources.format_dataset_name(
      data_sources.QA_DATASETS[0], settings.data
    ),
    system=name,
    track=_SYSTEM_TRACKS.get(settings.system, settings.arm),
    score_mode=settings.judge.model if settings.judge else "rules",
    split=settings.split,
    mode=settings.style,
    command=settings.command,
    commit=files.code_commit(),
    seconds=round(seconds, 1),
  )
  results.write_result_rows(folder / "results.json", rows)
  graded_by_system = {name: graded}
  for finished_run in map(pathlib.Path, settings.also):
    graded_by_system[finished_run.name] = _read_finished_run(
      finished_run, graded
    )
  report.write_report(folder, graded_by_system, {name: notes})
  report.write_plots(folder, graded_by_system)
  print(report.format_summary(graded, name))
  print(f"written: {folder / 'report.md'}")


def _read_finished_run(
  folder: pathlib.Path, graded: report.GradedQuestions
) -> report.GradedQuestions:
  """Returns the verdicts of another run on the same questions."""
  path = folder / VERDICTS_FILE
  if not path.is_file():
    raise FileNotFoundError(f"--also={folder}: no {VERDICTS_FILE} there")
  verdicts = {
    fields.pop("id"): fields
    for fields in map(json.loads, path.read_text(encoding="utf-8").splitlines())
  }
  missing = [q.question_id for q, _ in graded if q.question_id not in verdicts]
  if missing:
    raise ValueError(f"{path}: has no verdict on {missing[0]}")
  return [(q, AnswerVerdict(**verdicts[q.question_id])) for q, _ in graded]
