"""Tasks of inspect-ai: questions of CTM, the Ito game, evidence packs.

  inspect eval ctd_jax/ctm --model openai/gpt-4o -T arm=open_book -T style=cot
  inspect eval ctd_jax/ctm --model openai/gpt-4o -T dataset=release \\
    -T sources=FOLDER -T prompts=paper -T judge=all --model-role grader=...
  inspect eval ctd_jax/ito --model openai/gpt-4o --epochs 3
  inspect eval ctd_jax/evidence_qa --model openai/gpt-4o

A model in the role `grader` judges, where a task has a parameter `judge`. The
first n samples cover all kinds, so --limit asks some of each. Samples
hold the gold as metadata, which no model reads and reports are made from. Of
these files only this one needs inspect-ai to be imported (extra `llm`).
"""

from __future__ import annotations

import dataclasses
import functools
import typing
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from inspect_ai import Task, task
from inspect_ai._util.error import PrerequisiteError
from inspect_ai.dataset import Sample
from inspect_ai.model import ModelOutput, get_model
from inspect_ai.scorer import (
  Score,
  Scorer,
  Target,
  accuracy,
  grouped,
  mean,
  scorer,
  stderr,
)
from inspect_ai.solver import Generate, Solver, TaskState, solver

from ctd_jax.tasks import chat, evidence_packs
from ctd_jax.tasks.ctm import (
  data_sources,
  grading,
  ito,
  ito_players,
  qa,
)
from ctd_jax.tasks.ctm.judge import (
  DIRECT,
  STYLES,
  UNDECIDED,
  UNGRADED,
  AnswerVerdict,
  extract_final_answer,
  judge_answer,
  leave_ungraded,
)
from ctd_jax.tasks.ctm.prompts import OURS, PROMPTS, make_question_prompt
from ctd_jax.tasks.evidence_packs import Pack
from ctd_jax_datasets.ctm import periods, repository, schema

_ORDER = "random, one of each kind in turn"
# Who judges: the rules; a model where they do not decide; a model always.
JUDGES = ("rules", "undecided", "all")


class ParameterError(PrerequisiteError, ValueError):
  """Error that inspect-ai shows as its text, without a traceback."""


def _check_parameters(make_task: Callable[..., Task]) -> Callable[..., Task]:
  """Returns the function with checks of its parameters, given as -T."""
  types = typing.get_type_hints(make_task)

  @functools.wraps(make_task)
  def make_checked_task(**values: Any) -> Task:
    try:
      for name, value in values.items():
        try:
          msgspec.convert(value, types[name])
        except msgspec.ValidationError as error:
          raise ValueError(f"{name}={value}: {error}") from None
      return make_task(**values)
    except (ValueError, OSError) as error:
      raise ParameterError(str(error)) from None

  return make_checked_task


def _check_choice(name: str, value: str, choices: Sequence[str]) -> None:
  if value not in choices:
    raise ValueError(f"{name}={value}: should be one of {', '.join(choices)}")


@solver
def reply() -> Solver:
  """Asks the model once; the reply may come from the cache."""

  async def solve(state: TaskState, generate: Generate) -> TaskState:
    answer = await chat.ask(get_model(), state.messages)
    state.output = ModelOutput.from_content(str(state.model), answer)
    return state

  return solve


@solver
def given() -> Solver:
  """Takes the answer that the sample has; no model is asked."""

  async def solve(state: TaskState, generate: Generate) -> TaskState:
    state.output = ModelOutput.from_content("given", state.metadata["answer"])
    return state

  return solve


def _split_names(names: str | Sequence[str]) -> list[str]:
  """Returns the names of a parameter, which may be separated by commas."""
  return names.split(",") if isinstance(names, str) else list(names)


def _make_sample(
  question: schema.Question, conversation: chat.Conversation, **metadata: Any
) -> Sample:
  return Sample(
    id=question.question_id,
    input=chat.make_messages(conversation),
    target=question.answer,
    metadata={
      "task": question.task,
      "question": schema.to_json(question),
      **metadata,
    },
  )


def _choose_scorers(who: str) -> list[Scorer]:
  _check_choice("judge", who, JUDGES)
  return [rules(), *([model_votes(who == "all")] if who != "rules" else [])]


@task
@_check_parameters
def ctm(
  arm: str = "closed_book",
  style: str = DIRECT,
  split: str = "test",
  tasks: str | list[str] = "",
  judge: str = "rules",
  prompts: str = OURS,
  dataset: str = data_sources.OURS,
  sources: str | None = None,
  gallery: str | None = None,
  data: str | None = None,
  data_dir: str | None = None,
) -> Task:
  """CTM: questions about people, places and things of ten periods.

  Args:
    arm: what the model reads first: closed_book, open_book, facts or
      distractor_facts.
    style: direct, or cot for JSON with a chain of thought.
    split: train, validation, test or all.
    tasks: e.g. EDD,PJ; all if empty.
    judge: rules, undecided (the grader votes where no rule decides) or all.
    prompts: ours, or paper for the instruction and the question alone.
    dataset: ours, or release for the authors' questions.
    sources: folder of the authors' JSON files, or one of them.
    gallery: JSON lines of texts for open_book.
    data: JSON lines of questions; the data set by default.
    data_dir: folder of data sets.
  """
  scorers = _choose_scorers(judge)
  _check_choice("style", style, STYLES)
  _check_choice("prompts", prompts, PROMPTS)
  _check_choice("dataset", dataset, data_sources.DATASETS)
  _check_choice("split", split, (*periods.SPLITS, "all"))
  names = _split_names(tasks) if tasks else []
  for name in names:
    _check_choice("tasks", name, periods.TASKS)
  if dataset == data_sources.RELEASE:
    if data or arm.endswith("facts"):
      raise ValueError(
        f"dataset=release: has no {'data' if data else 'dates of entities'}; "
        "use sources=FOLDER, and arm=closed_book or open_book"
      )
    questions, counts = data_sources.load_release(sources, split, names)
    dataset_name = data_sources.RELEASE_DATASET
  else:
    if sources:
      raise ValueError(f"sources={sources}: needs dataset=release")
    questions = data_sources.load_questions(data, data_dir, split, names)
    counts = {}
    dataset_name = data_sources.format_dataset_name(
      data_sources.QA_DATASETS[0], data, data_dir
    )
  context = qa.choose_context(arm, gallery, questions)
  return Task(
    dataset=[
      _make_sample(
        q, make_question_prompt(q, style, context(q), prompts), style=style
      )
      for q in questions
    ],
    solver=reply(),
    scorer=scorers,
    continue_on_fail=True,
    metadata={
      "dataset": dataset_name,
      "track": arm,
      "split": split,
      "mode": style,
      "prompts": prompts,
      "judge": judge,
      "order": _ORDER,
      **counts,
    },
  )


def make_agreement_task(
  answers: Sequence[grading.JudgedAnswer], who: str
) -> Task:
  """Returns the task that judges given answers.

  Args:
    answers: answers with the verdicts of people.
    who: one of `JUDGES`.
  """
  return Task(
    name="ctm_judge",
    dataset=[
      _make_sample(
        judged.question, ("", ""), style=judged.style, answer=judged.answer
      ).model_copy(update={"id": number})
      for number, judged in enumerate(answers, start=1)
    ],
    solver=given(),
    scorer=_choose_scorers(who),
    continue_on_fail=True,
  )


def _judge_by_rules(
  state: TaskState,
) -> tuple[schema.Question, str | None, AnswerVerdict]:
  """Returns the question, the final answer and the verdict of the rules."""
  question = schema.question_from_json(state.metadata["question"])
  text, style = state.output.completion, state.metadata["style"]
  return (
    question,
    extract_final_answer(text, style),
    judge_answer(question, text, style),
  )


def _make_score(answer: str | None, verdict: AnswerVerdict) -> Score:
  details = {
    "answer": answer,
    "explanation": verdict.why,
    "metadata": {
      "source": verdict.source,
      "measures": dict(verdict.measures),
      "unreadable_votes": verdict.unreadable_votes,
    },
  }
  if verdict.source == UNGRADED:
    return Score.unscored(reason=UNGRADED, **details)
  return Score(value="C" if verdict.correct else "I", **details)


@scorer(metrics=[grouped(accuracy(), "task"), stderr()])
def rules() -> Scorer:
  """Judges an answer of CTM by rules; undecided counts as wrong.

  What only a model can compare gets no score.
  """

  async def score(state: TaskState, target: Target) -> Score:
    question, answer, verdict = _judge_by_rules(state)
    # Not even one that cannot be parsed: only these would count.
    if isinstance(question.gold, schema.TextGold):
      verdict = leave_ungraded(question, "")
    return _make_score(answer, verdict)

  return score


@scorer(metrics=[grouped(accuracy(), "task"), stderr()])
def model_votes(every: bool = False) -> Scorer:
  """Judges an answer of CTM by rules, and by votes of the grader.

  Args:
    every: whether the grader votes on all answers, not only on those that the
      rules leave open.
  """

  async def score(state: TaskState, target: Target) -> Score:
    question, answer, verdict = _judge_by_rules(state)
    # An answer that cannot be parsed is wrong without a vote.
    is_open = verdict.source in (UNDECIDED, UNGRADED)
    if is_open or (every and answer):
      grader = get_model(role="grader", required=True)
      prompt = grading.make_vote_prompt(question, answer)
      votes = [
        await chat.ask_until_read(grader, prompt, grading.read_vote, draw)
        for draw in range(grading.NUM_VOTES)
      ]
      verdict = grading.count_votes(votes, verdict)
    return _make_score(answer, verdict)

  return score


@task(name="ito")
@_check_parameters
def ito_game(
  rounds: int = 8,
  seed: int = 0,
  repairs: int = 2,
  feedback: bool = True,
  data: str | None = None,
  data_dir: str | None = None,
) -> Task:
  """Timeline Ito: players find their order in time by hints.

  Args:
    rounds: rounds of a game at most; --epochs plays each game several times.
    seed: seed of the themes.
    repairs: how often the model is asked again after an invalid reply.
    feedback: whether wrong seats are published after a round.
    data: JSON lines of games; the data set by default.
    data_dir: folder of data sets.
  """
  return Task(
    dataset=[
      Sample(
        id=instance.instance_id,
        input="、".join(seat.entity for seat in instance.seats),
        target="、".join(map(str, instance.ranks)),
        metadata={
          "level": instance.level,
          "instance": schema.to_json(instance),
        },
      )
      for instance in data_sources.load_games(data, data_dir)
    ],
    solver=play(rounds, seed, repairs, feedback),
    scorer=won(),
    continue_on_fail=True,
    metadata={
      "dataset": data_sources.format_dataset_name(
        data_sources.ITO_DATASET, data, data_dir
      ),
      "track": "closed_book",
      "split": "test",
      "mode": "feedback" if feedback else "no_feedback",
      "order": _ORDER,
    },
  )


@solver
def play(rounds: int, seed: int, repairs: int, feedback: bool) -> Solver:
  """Plays a game in which the model takes all seats."""

  async def solve(state: TaskState, generate: Generate) -> TaskState:
    async def ask(conversation: chat.Conversation) -> str:
      return await chat.ask(get_model(), chat.make_messages(conversation))

    game = await ito.play_instance(
      schema.instance_from_json(state.metadata["instance"]),
      ito_players.ModelAgent(ask, repository.load_themes()),
      state.epoch - 1,
      rounds,
      seed,
      repairs,
      feedback,
    )
    state.store.set("transcript", ito_players.game_to_json(game))
    return state

  return solve


@scorer(metrics=[grouped(accuracy(), "level"), stderr()])
def won() -> Scorer:
  """Tells whether a game was won, and in which round."""

  async def score(state: TaskState, target: Target) -> Score:
    transcript = state.store.get("transcript")
    round_won = transcript["won_in"]
    return Score(
      value="I" if round_won is None else "C",
      answer=f"round {round_won}" if round_won else "lost",
      metadata={"transcript": transcript},
    )

  return score


@task
@_check_parameters
def evidence_qa(
  dataset: str = "chunqiutr/rebuilt",
  split: str = "test",
  answers: int = 6,
  confusable: int = 6,
  dated: bool = True,
  seed: int = 0,
  judge: bool = False,
  data_dir: str | None = None,
) -> Task:
  """Questions answered from records, some of them from other months.

  Args:
    dataset: data set whose queries are asked, or beir:FOLDER.
    split: split of the queries.
    answers: answering records in a pack at most.
    confusable: other records in a pack.
    dated: whether the model reads the month of each record.
    seed: seed of draws and order.
    judge: whether the grader judges what an answer covers.
    data_dir: folder of data sets.
  """
  name, packs, years = evidence_packs.load_packs(
    dataset, data_dir, split, answers, confusable, seed
  )
  return Task(
    dataset=[
      Sample(
        id=pack.question_id,
        input=chat.make_messages(
          evidence_packs.make_answer_prompt(pack, dated)
        ),
        target="、".join(f"[{n}]" for n in pack.answers),
        metadata={
          "pack": dataclasses.asdict(pack),
          "year": list(years[pack.question_id]),
        },
      )
      for pack in packs
    ],
    solver=reply(),
    scorer=[citations(), *([coverage()] if judge else [])],
    continue_on_fail=True,
    metadata={"dataset": name, "split": split, "order": _ORDER},
  )


def _read_pack(state: TaskState) -> Pack:
  return msgspec.convert(state.metadata["pack"], Pack)


@scorer(metrics={"*": [mean(), stderr()]})
def citations() -> Scorer:
  """Scores the citations of an answer and its wording."""

  async def score(state: TaskState, target: Target) -> Score:
    pack, answer = _read_pack(state), state.output.completion
    return Score(
      value=evidence_packs.score_answer(pack, answer),
      answer=answer,
      metadata=evidence_packs.count_wrong_citations(pack, answer),
    )

  return score


@scorer(metrics=[mean(), stderr()])
def coverage() -> Scorer:
  """Returns the share of the answering records that the grader finds covered.

  A reply of the grader that cannot be read leaves the answer without a score.
  """

  async def score(state: TaskState, target: Target) -> Score:
    pack = _read_pack(state)
    verdict = await chat.ask_until_read(
      get_model(role="grader", required=True),
      evidence_packs.make_judging_prompt(pack, state.output.completion),
      lambda text: evidence_packs.parse_verdict(text, pack),
    )
    if verdict is None:
      return Score.unscored(reason="unreadable", explanation="no verdict read")
    return Score(value=sum(verdict.values()) / max(1, len(verdict)))

  return score
