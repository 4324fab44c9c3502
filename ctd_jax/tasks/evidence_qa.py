"""Answers questions from sets of evidence records, and scores the answers.

  python -m ctd_jax.tasks.evidence_qa --dataset=chunqiutr/mini \\
    --system=quote_all --workdir=runs/packs
  python -m ctd_jax.tasks.evidence_qa --dataset=chunqiutr/rebuilt \\
    --system=model --model=NAME --base_url=URL --judge_model=NAME \\
    --workdir=runs/packs-NAME

The folder holds packs.jsonl, answers.jsonl and replies.jsonl (journals: the
same command resumes an interrupted run), scores.tsv (every question) and
report.txt. `quote_all` cites all records and `quote_answers` only those that
answer; a model's scores lie between. Asking a model needs the extra [llm].
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import pathlib
from collections.abc import Mapping, Sequence

from absl import flags

from ctd_jax.evaluation import significance
from ctd_jax.tasks import chat_models, evidence_packs
from ctd_jax.tasks.chat_client import ChatClient, open_client
from ctd_jax.tasks.chat_models import Endpoint, Journal
from ctd_jax.tasks.evidence_packs import CONFUSABLE_ROLES, Pack
from ctd_jax.utils import command_line, files, output
from ctd_jax_datasets import load


def format_report(
  title: str,
  packs: Sequence[Pack],
  replies: Mapping[str, str],
  scores: Mapping[str, Mapping[str, float]],
  years: Mapping[str, tuple[int, int]],
) -> str:
  """Returns mean scores with intervals, and wrong citations, as tables.

  Args:
    years: query id -> (reign, year), the clusters of the bootstrap.
  """
  rows = []
  for measure, mean in evidence_packs.average_scores(
    list(scores.values())
  ).items():
    values = {q: measures[measure] for q, measures in scores.items()}
    # Questions of one year share records, so years are resampled.
    low, high = significance.compute_bootstrap_interval(values, years)
    rows.append([measure, f"{mean:.4f}", f"[{low:.3f}, {high:.3f}]"])
  score_table = output.format_table(
    title, ["measure", "mean", "95 %, years resampled"], rows
  )
  return f"{score_table}\n{_format_wrong_citations(packs, replies)}"


def _format_wrong_citations(
  packs: Sequence[Pack], replies: Mapping[str, str]
) -> str:
  offered_roles = [item.role for pack in packs for item in pack.items]
  counts = [
    evidence_packs.count_wrong_citations(pack, replies[pack.question_id])
    for pack in packs
  ]
  rows = [
    [role, str(offered_roles.count(role)), str(sum(c[role] for c in counts))]
    for role in CONFUSABLE_ROLES
  ]
  return output.format_table(
    "Cited wrongly", ["not an answer", "offered", "cited"], rows
  )


def format_tsv(
  packs: Sequence[Pack],
  replies: Mapping[str, str],
  scores: Mapping[str, Mapping[str, float]],
) -> str:
  """Returns scores and wrong citations of every question as TSV."""
  rows = []
  names = list(next(iter(scores.values())))
  for pack in packs:
    measures = scores[pack.question_id]
    wrong_citations = evidence_packs.count_wrong_citations(
      pack, replies[pack.question_id]
    )
    rows.append(
      [
        pack.question_id,
        *[f"{measures[name]:.6g}" for name in names],
        *wrong_citations.values(),
      ]
    )
  return output.format_delimited(["query_id", *names, *CONFUSABLE_ROLES], rows)


MODEL = "model"  # system that asks a chat model
QUOTE_FUNCTIONS = {
  "quote_all": evidence_packs.quote_all,
  "quote_answers": evidence_packs.quote_answers,
}
_MAX_JUDGEMENTS = 3  # draws of a judge's reply until a verdict can be read


@dataclasses.dataclass(frozen=True)
class EvidenceSettings:
  """Settings of a run."""

  system: str  # name in `QUOTE_FUNCTIONS`, or `MODEL`
  workdir: pathlib.Path  # folder of the run
  dataset: str = "chunqiutr/rebuilt"  # name of the data set, or beir:FOLDER
  # Folder of data sets; None is the default of TFDS.
  data_dir: str | None = None
  split: str = "test"  # split of the queries
  endpoint: Endpoint | None = None  # model that answers, for the system `MODEL`
  judge: Endpoint | None = None  # model that judges the answers, if any
  answers: int = 6  # maximal number of answering records in a pack
  confusable: int = 6  # number of confusable records in a pack
  dated: bool = True  # whether the prompt has the month of each record
  # Maximal number of questions, evenly spread; None asks all.
  limit: int | None = None
  seed: int = 0  # seed of draws and order
  workers: int = 4  # number of parallel requests

  def __post_init__(self):
    if self.system == MODEL and self.endpoint is None:
      raise ValueError("--system=model: name it with --model")

  @property
  def answerer_name(self) -> str:
    """The name of the model, or of the system that needs none."""
    return self.endpoint.model if self.system == MODEL else self.system


def answer_with_model(chat: ChatClient, with_dates: bool, pack: Pack) -> str:
  """Returns a model's answer to the question of a pack."""
  return chat.ask(evidence_packs.make_answer_prompt(pack, with_dates)).text


def run_packs(settings: EvidenceSettings) -> None:
  """Answers and scores all packs; a run with the same settings is resumed."""
  folder = settings.workdir
  benchmark = load.build_benchmark(settings.dataset, settings.data_dir, None)
  queries = benchmark.queries[settings.split]
  if not queries:
    raise ValueError(f"--split={settings.split}: {benchmark.name} has no query")
  # Every n-th query: neighbours ask for neighbouring months.
  step = max(1, len(queries) // (settings.limit or len(queries)))
  packs = evidence_packs.make_packs(
    benchmark,
    queries[::step][: settings.limit],
    settings.answers,
    settings.confusable,
    settings.seed,
  )
  evidence_packs.write_packs(folder / "packs.jsonl", packs)
  replies = _collect_answers(settings, packs, benchmark.name)
  verdicts = _collect_verdicts(settings, packs, replies)
  scores = {
    pack.question_id: evidence_packs.score_answer(
      pack, replies[pack.question_id], verdicts.get(pack.question_id)
    )
    for pack in packs
  }
  years = significance.find_query_years(benchmark, settings.split)
  title = (
    f"{benchmark.name}, {settings.split}, {len(packs)} questions, "
    f"{settings.answerer_name}"
  )
  text = format_report(title, packs, replies, scores, years)
  files.write_text(folder / "scores.tsv", format_tsv(packs, replies, scores))
  files.write_text(folder / "report.txt", text)
  print(text)
  print(f"packs   {folder / 'packs.jsonl'}, answers.jsonl")
  print(f"scores  {folder / 'scores.tsv'}, report.txt")


def _collect_answers(
  settings: EvidenceSettings, packs: Sequence[Pack], name: str
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
  with contextlib.ExitStack() as stack:
    answer, num_workers = QUOTE_FUNCTIONS.get(settings.system), 1
    if answer is None:
      chat = stack.enter_context(
        open_client(settings.workdir / "replies.jsonl", settings.endpoint)
      )
      answer = functools.partial(answer_with_model, chat, settings.dated)
      num_workers = settings.workers
    journal = stack.enter_context(Journal(settings.workdir / "answers.jsonl"))
    chat_models.check_settings(journal, run_key)
    return chat_models.ask_questions(packs, answer, journal, num_workers)


def _collect_verdicts(
  settings: EvidenceSettings,
  packs: Sequence[Pack],
  replies: Mapping[str, str],
) -> dict[str, dict[int, bool]]:
  """Returns question id -> verdict; {} without a judge."""
  if settings.judge is None:
    return {}
  verdicts: dict[str, dict[int, bool]] = {}
  replies_path = settings.workdir / "judge_replies.jsonl"
  with open_client(replies_path, settings.judge) as chat:

    def judge_pack(pack: Pack) -> None:
      verdicts[pack.question_id] = _judge_answer(
        chat, pack, replies[pack.question_id]
      )

    errors = chat_models.run_tasks(packs, judge_pack, settings.workers)
  if errors:
    raise ValueError(
      f"{len(errors)} of {len(packs)} answers were not judged ({errors[0]}); "
      "run the same command again to judge only these"
    )
  return verdicts


def _judge_answer(chat: ChatClient, pack: Pack, answer: str) -> dict[int, bool]:
  """Returns the first readable verdict of a judge on an answer."""
  messages = evidence_packs.make_judging_prompt(pack, answer)
  problem: evidence_packs.NoVerdictError | None = None
  # Another sample number has another reply, also from the journal.
  for sample in range(_MAX_JUDGEMENTS):
    try:
      return evidence_packs.parse_verdict(chat.ask(messages, sample).text, pack)
    except evidence_packs.NoVerdictError as error:
      problem = error
  raise ValueError(f"{pack.question_id}: {problem}")


def define_flags() -> None:
  """Defines the flags."""
  chat_models.define_endpoint_flags()
  flags.DEFINE_string(
    "dataset",
    "chunqiutr/rebuilt",
    "Data set whose queries are asked, or beir:FOLDER. Default: "
    "chunqiutr/rebuilt. Example: --dataset=chunqiutr/mini",
  )
  flags.DEFINE_string(
    "data_dir",
    None,
    "Folder of data sets. Default: TensorFlow Datasets' own. Example: "
    "--data_dir=~/data",
  )
  flags.DEFINE_enum(
    "split",
    "test",
    ("validation", "test"),
    "Split of the queries. Default: test. Example: --split=validation",
  )
  flags.DEFINE_enum(
    "system",
    None,
    (*QUOTE_FUNCTIONS, MODEL),
    "System that answers. Example: --system=quote_all",
  )
  flags.DEFINE_string(
    "judge_model",
    None,
    "Chat model that judges the answers. Default: none. Example: "
    "--judge_model=gpt-4o",
  )
  flags.DEFINE_integer(
    "answers",
    6,
    "Maximum number of answering records in a pack. Default: 6. Example: "
    "--answers=3",
  )
  flags.DEFINE_integer(
    "confusable",
    6,
    "Number of other, confusable records in a pack. Default: 6. Example: "
    "--confusable=12",
  )
  flags.DEFINE_bool(
    "dated",
    True,
    "Show the model the month of each record. Default: yes. Example: --nodated",
  )
  flags.DEFINE_integer(
    "limit",
    None,
    "Maximum number of questions, spread evenly over the split. Default: all. "
    "Example: --limit=100",
  )
  flags.DEFINE_integer(
    "seed", 0, "Seed for draws and order. Default: 0. Example: --seed=1"
  )


def main() -> None:
  """Runs the command."""

  values = flags.FLAGS
  run_packs(
    EvidenceSettings(
      system=values.system,
      workdir=pathlib.Path(command_line.WORKDIR.value).expanduser(),
      dataset=values.dataset,
      data_dir=values.data_dir,
      split=values.split,
      endpoint=chat_models.read_endpoint(values.model),
      judge=chat_models.read_endpoint(values.judge_model),
      answers=values.answers,
      confusable=values.confusable,
      dated=values.dated,
      limit=values.limit,
      seed=values.seed,
      workers=values.workers,
    )
  )


if __name__ == "__main__":
  define_flags()
  # --help lists the key flags of the main module.
  flags.declare_key_flag(command_line.WORKDIR.name)
  flags.adopt_module_key_flags(chat_models)
  command_line.run_main(main, required=("system", "workdir"))
