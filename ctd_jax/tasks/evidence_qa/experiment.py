"""Runs of the evidence task: packs, answers, judgements and their scores."""

from __future__ import annotations

import contextlib
import dataclasses
import pathlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from ctd_jax.evaluation import comparison
from ctd_jax.llm import question_runner
from ctd_jax.llm.connection import open_client
from ctd_jax.llm.endpoint import Endpoint
from ctd_jax.llm.journal import Journal
from ctd_jax.tasks.evidence_qa import packs as packs_lib
from ctd_jax.tasks.evidence_qa import prompts, report, scoring
from ctd_jax.utils import files
from ctd_jax_datasets import load

if TYPE_CHECKING:
  from ctd_jax.llm.client import ChatClient  # needs the extra llm

MODEL = "model"  # system that asks a chat model
QUOTE_FUNCTIONS = {
  "quote_all": scoring.quote_all,
  "quote_answers": scoring.quote_answers,
}
_MAX_JUDGEMENTS = 3  # draws of a judge's reply until a verdict can be read


@dataclasses.dataclass(frozen=True)
class EvidenceSettings:
  """Settings of a run.

  Attributes:
    system: name in `QUOTE_FUNCTIONS`, or `MODEL`.
    workdir: folder of the run.
    dataset: name of the data set, or beir:FOLDER.
    data_dir: folder of data sets; None is the default of TFDS.
    split: split of the queries.
    endpoint: model that answers, for the system `MODEL`.
    judge: model that judges the answers, if any.
    answers: maximal number of answering records in a pack.
    confusable: number of confusable records in a pack.
    dated: whether the prompt has the month of each record.
    limit: maximal number of questions, evenly spread; None asks all.
    seed: seed of draws and order.
    workers: number of parallel requests.
  """

  system: str
  workdir: pathlib.Path
  dataset: str = "chunqiutr/rebuilt"
  data_dir: str | None = None
  split: str = "test"
  endpoint: Endpoint | None = None
  judge: Endpoint | None = None
  answers: int = 6
  confusable: int = 6
  dated: bool = True
  limit: int | None = None
  seed: int = 0
  workers: int = 4

  def __post_init__(self):
    if self.system == MODEL and self.endpoint is None:
      raise ValueError("--system=model: name it with --model")

  @property
  def answerer_name(self) -> str:
    """The name of the model, or of the system that needs none."""
    return self.endpoint.model if self.system == MODEL else self.system


@dataclasses.dataclass(frozen=True)
class QuotingAnswerer:
  """Answerer that quotes records; the two of them bound what a model can do."""

  quote: Callable[[packs_lib.Pack], str]

  def answer(self, pack: packs_lib.Pack) -> str:
    """Returns the quotations."""
    return self.quote(pack)


@dataclasses.dataclass(frozen=True)
class ChatAnswerer:
  """Answerer that asks a chat model."""

  chat: ChatClient
  with_dates: bool

  def answer(self, pack: packs_lib.Pack) -> str:
    """Returns the model's reply."""
    return self.chat.ask(prompts.make_answer_prompt(pack, self.with_dates)).text


def run_packs(settings: EvidenceSettings) -> None:
  """Answers and scores all packs, writes the results and prints a report.

  Args:
    settings: a run in `settings.workdir` with the same settings is resumed.

  Raises:
    ValueError: naming the flag, or file and line, at fault; or if a judgement
      cannot be read.
    NoReplyError: if the model did not reply to some questions.
  """
  folder = settings.workdir
  benchmark = load.build_benchmark(settings.dataset, settings.data_dir, None)
  queries = benchmark.queries[settings.split]
  if not queries:
    raise ValueError(f"--split={settings.split}: {benchmark.name} has no query")
  # Every n-th query: neighbours ask for neighbouring months.
  step = max(1, len(queries) // (settings.limit or len(queries)))
  packs = packs_lib.make_packs(
    benchmark,
    queries[::step][: settings.limit],
    settings.answers,
    settings.confusable,
    settings.seed,
  )
  packs_lib.write_packs(folder / "packs.jsonl", packs)
  replies = _collect_answers(settings, packs, benchmark.name)
  verdicts = _collect_verdicts(settings, packs, replies)
  scores = {
    pack.question_id: scoring.score_answer(
      pack, replies[pack.question_id], verdicts.get(pack.question_id)
    )
    for pack in packs
  }
  years = comparison.find_query_years(benchmark, settings.split)
  title = (
    f"{benchmark.name}, {settings.split}, {len(packs)} questions, "
    f"{settings.answerer_name}"
  )
  text = report.format_report(title, packs, replies, scores, years)
  files.write_text(
    folder / "scores.tsv", report.format_tsv(packs, replies, scores)
  )
  files.write_text(folder / "report.txt", text)
  print(text)
  print(f"packs   {folder / 'packs.jsonl'}, answers.jsonl")
  print(f"scores  {folder / 'scores.tsv'}, report.txt")


@contextlib.contextmanager
def _open_answerer(
  settings: EvidenceSettings,
) -> Iterator[question_runner.Answerer]:
  """Yields the answerer of the system; a model's client closes at the end."""
  if settings.system in QUOTE_FUNCTIONS:
    yield QuotingAnswerer(QUOTE_FUNCTIONS[settings.system])
    return
  replies_path = settings.workdir / "replies.jsonl"
  with open_client(replies_path, settings.endpoint) as chat:
    yield ChatAnswerer(chat, settings.dated)


def _collect_answers(
  settings: EvidenceSettings, packs: Sequence[packs_lib.Pack], name: str
) -> dict[str, str]:
  """Returns question id -> reply; journaled answers are not asked again."""
  # Names as in the journals of earlier versions.
  run_key = {
    "dataset": name,
    "system": settings.system,
    "model": settings.endpoint.model if settings.endpoint else None,
    "split": settings.split,
    "answers": settings.answers,
    "confusable": settings.confusable,
    "dated": settings.dated,
    "seed": settings.seed,
  }
  with (
    _open_answerer(settings) as answerer,
    Journal(settings.workdir / "answers.jsonl") as journal,
  ):
    question_runner.check_settings(journal, run_key)
    num_workers = settings.workers if settings.system == MODEL else 1
    return question_runner.ask_questions(packs, answerer, journal, num_workers)


def _collect_verdicts(
  settings: EvidenceSettings,
  packs: Sequence[packs_lib.Pack],
  replies: Mapping[str, str],
) -> dict[str, dict[int, bool]]:
  """Returns question id -> verdict; {} without a judge.

  Raises:
    ValueError: if the judge did not reply to some, or no reply of several can
      be read.
  """
  if settings.judge is None:
    return {}
  verdicts: dict[str, dict[int, bool]] = {}
  replies_path = settings.workdir / "judge_replies.jsonl"
  with open_client(replies_path, settings.judge) as chat:

    def judge_pack(pack: packs_lib.Pack) -> None:
      verdicts[pack.question_id] = _judge_answer(
        chat, pack, replies[pack.question_id]
      )

    errors = question_runner.run_tasks(packs, judge_pack, settings.workers)
  if errors:
    raise ValueError(
      f"{len(errors)} of {len(packs)} answers are not judged ({errors[0]}); "
      "run the same command again to judge only these"
    )
  return verdicts


def _judge_answer(
  chat: ChatClient, pack: packs_lib.Pack, answer: str
) -> dict[int, bool]:
  """Returns the first readable verdict of a judge on an answer."""
  messages = prompts.make_judging_prompt(pack, answer)
  problem: scoring.NoVerdictError | None = None
  # Another sample number has another reply, also from the journal.
  for sample in range(_MAX_JUDGEMENTS):
    try:
      return scoring.parse_verdict(chat.ask(messages, sample).text, pack)
    except scoring.NoVerdictError as error:
      problem = error
  raise ValueError(f"{pack.question_id}: {problem}")
