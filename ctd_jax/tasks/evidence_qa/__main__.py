"""Questions with records to answer from, and what the answers are worth.

  python -m ctd_jax.tasks.evidence_qa --dataset=chunqiutr/mini \\
    --system=quote_all --workdir=runs/packs
  python -m ctd_jax.tasks.evidence_qa --dataset=chunqiutr/rebuilt --system=model \\
    --model=NAME --base_url=URL --judge_model=NAME --workdir=runs/packs-NAME

The folder holds packs.jsonl, answers.jsonl and replies.jsonl (journals: the
same command goes on where it was cut off), scores.tsv (every question) and
report.txt. `quote_all` cites everything and `quote_answers` just what answers:
between them lies what a model can do. Asking a model needs the extra [llm].
"""

from __future__ import annotations

import contextlib
import csv
import dataclasses
import io
import pathlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from absl import flags

from ctd_jax.evaluation import comparison, significance
from ctd_jax.llm import endpoint_flags, question_runner
from ctd_jax.llm.journal import Journal
from ctd_jax.tasks.evidence_qa import packs as packs_lib
from ctd_jax.tasks.evidence_qa import prompts, scoring
from ctd_jax.utils import command_line, files, tables
from ctd_jax_datasets import load

if TYPE_CHECKING:
  from ctd_jax.llm.client import ChatClient  # needs the extra llm

QUOTE_FUNCTIONS = {
  "quote_all": scoring.quote_all,
  "quote_answers": scoring.quote_answers,
}
_MAX_JUDGEMENTS = 3  # replies of a judge until a verdict can be read


@dataclasses.dataclass(frozen=True)
class QuotingAnswerer:
  """Answers by quoting records."""

  quote: Callable[[packs_lib.Pack], str]

  def answer(self, pack: packs_lib.Pack) -> str:
    """Returns the quotations."""
    return self.quote(pack)


@dataclasses.dataclass(frozen=True)
class ChatAnswerer:
  """Answers as a chat model does."""

  chat: ChatClient
  with_dates: bool

  def answer(self, pack: packs_lib.Pack) -> str:
    """Returns the model's reply."""
    return self.chat.ask(prompts.make_answer_prompt(pack, self.with_dates)).text


def define_flags() -> None:
  """Defines the flags."""
  endpoint_flags.define_endpoint_flags()
  flags.DEFINE_string(
    "dataset", "chunqiutr/rebuilt", "Data set, or beir:FOLDER."
  )
  flags.DEFINE_string(
    "data_dir", None, "Where data sets lie. Example: --data_dir=~/data"
  )
  flags.DEFINE_enum("split", "test", ("validation", "test"), "Which queries.")
  flags.DEFINE_enum(
    "system", None, (*QUOTE_FUNCTIONS, "model"), "Who answers, see above."
  )
  flags.DEFINE_string(
    "judge_model", None, "Model that judges what is told. Example: gpt-4o"
  )
  flags.DEFINE_integer("answers", 6, "Records that answer, at most.")
  flags.DEFINE_integer("confusable", 6, "Records that are like them.")
  flags.DEFINE_bool("dated", True, "Whether the month of a record is told.")
  flags.DEFINE_integer("limit", None, "Only so many questions, spread evenly.")
  flags.DEFINE_integer("seed", 0, "Of draws and order.")


def main() -> None:
  """Runs the command."""
  values = flags.FLAGS
  if values.system == "model" and not values.model:
    raise ValueError("--system=model: name it with --model")
  folder = pathlib.Path(command_line.WORKDIR.value).expanduser()
  benchmark = load.build_benchmark(values.dataset, values.data_dir, None)
  queries = benchmark.queries[values.split]
  if not queries:
    raise ValueError(f"--split={values.split}: {benchmark.name} has no query")
  step = max(1, len(queries) // (values.limit or len(queries)))
  packs = packs_lib.make_packs(
    benchmark,
    queries[::step][: values.limit],
    values.answers,
    values.confusable,
    values.seed,
  )
  packs_lib.write_packs(folder / "packs.jsonl", packs)
  replies = _collect_answers(folder, packs, benchmark.name)
  verdicts = _collect_verdicts(folder, packs, replies)
  scores = {
    pack.question_id: scoring.score_answer(
      pack, replies[pack.question_id], verdicts.get(pack.question_id)
    )
    for pack in packs
  }
  years = comparison.find_query_years(benchmark, values.split)
  text = _format_report(benchmark.name, packs, replies, scores, years)
  files.write_text(folder / "scores.tsv", _format_tsv(packs, replies, scores))
  files.write_text(folder / "report.txt", text)
  print(text)
  print(f"packs   {folder / 'packs.jsonl'}, answers.jsonl")
  print(f"scores  {folder / 'scores.tsv'}, report.txt")


@contextlib.contextmanager
def _open_answerer(folder: pathlib.Path) -> Iterator[question_runner.Answerer]:
  values = flags.FLAGS
  if values.system in QUOTE_FUNCTIONS:
    yield QuotingAnswerer(QUOTE_FUNCTIONS[values.system])
    return
  path = folder / "replies.jsonl"
  with endpoint_flags.open_client(path, values.model) as chat:
    yield ChatAnswerer(chat, values.dated)


def _collect_answers(
  folder: pathlib.Path, packs: Sequence[packs_lib.Pack], name: str
) -> dict[str, str]:
  """Returns question id -> reply; what was answered before is not asked."""
  values = flags.FLAGS
  flag_names = ("system", "model", "split", "answers", "confusable", "dated")
  settings = {field: getattr(values, field) for field in (*flag_names, "seed")}
  with (
    _open_answerer(folder) as answerer,
    Journal(folder / "answers.jsonl") as journal,
  ):
    question_runner.check_settings(journal, {"dataset": name, **settings})
    workers = values.workers if values.system == "model" else 1
    return question_runner.ask_questions(packs, answerer, journal, workers)


def _collect_verdicts(
  folder: pathlib.Path,
  packs: Sequence[packs_lib.Pack],
  replies: Mapping[str, str],
) -> dict[str, dict[int, bool]]:
  """Returns question id -> verdict; {} without a judge.

  Raises:
    NoReplyError: if the judge did not reply to some.
    ValueError: if a reply of the judge cannot be read, three times over.
  """
  values = flags.FLAGS
  if not values.judge_model:
    return {}
  verdicts = {}
  path = folder / "judge_replies.jsonl"
  with endpoint_flags.open_client(path, values.judge_model) as chat:

    def judge_pack(pack: packs_lib.Pack) -> None:
      messages = prompts.make_judging_prompt(pack, replies[pack.question_id])
      for sample in range(_MAX_JUDGEMENTS):
        reply = chat.ask(messages, sample).text
        try:
          verdicts[pack.question_id] = scoring.parse_verdict(reply, pack)
          return
        except scoring.NoVerdictError as error:
          if sample == _MAX_JUDGEMENTS - 1:
            raise ValueError(f"{pack.question_id}: {error}") from None

    errors = question_runner.run_tasks(packs, judge_pack, values.workers)
  if errors:
    raise ValueError(
      f"{len(errors)} of {len(packs)} answers are not judged ({errors[0]}); "
      "run the same command again to judge only these"
    )
  return verdicts


def _format_report(
  name: str,
  packs: Sequence[packs_lib.Pack],
  replies: Mapping[str, str],
  scores: Mapping[str, Mapping[str, float]],
  years: Mapping[str, tuple[int, int]],
) -> str:
  """Returns means with intervals, and what is cited wrongly, as tables."""
  values = flags.FLAGS
  table_rows = []
  for measure, mean in scoring.average_scores(list(scores.values())).items():
    low, high = significance.compute_bootstrap_interval(
      {q: measures[measure] for q, measures in scores.items()}, years
    )
    table_rows.append([measure, f"{mean:.4f}", f"[{low:.3f}, {high:.3f}]"])
  answerer_name = values.model if values.system == "model" else values.system
  title = f"{name}, {values.split}, {len(packs)} questions, {answerer_name}"
  columns = ["measure", "mean", "95 %, years resampled"]
  score_table = tables.format_aligned_table(title, columns, table_rows)
  offered_roles = [item.role for pack in packs for item in pack.items]
  wrong_citations = [
    scoring.count_wrong_citations(pack, replies[pack.question_id])
    for pack in packs
  ]
  table_rows = [
    [
      role,
      str(offered_roles.count(role)),
      str(sum(role_counts[role] for role_counts in wrong_citations)),
    ]
    for role in packs_lib.CONFUSABLE_ROLES
  ]
  columns = ["not an answer", "offered", "cited"]
  return (
    score_table
    + "\n"
    + tables.format_aligned_table("Cited wrongly", columns, table_rows)
  )


def _format_tsv(
  packs: Sequence[packs_lib.Pack],
  replies: Mapping[str, str],
  scores: Mapping[str, Mapping[str, float]],
) -> str:
  out = io.StringIO()
  writer = csv.writer(out, delimiter="\t", lineterminator="\n")
  names = list(next(iter(scores.values())))
  writer.writerow(["query_id", *names, *packs_lib.CONFUSABLE_ROLES])
  for pack in packs:
    measures = scores[pack.question_id]
    wrong_citations = scoring.count_wrong_citations(
      pack, replies[pack.question_id]
    )
    formatted_values = [f"{measures[name]:.6g}" for name in names]
    writer.writerow(
      [pack.question_id, *formatted_values, *wrong_citations.values()]
    )
  return out.getvalue()


if __name__ == "__main__":
  define_flags()
  flags.declare_key_flag(command_line.WORKDIR.name)  # shown by --help
  flags.adopt_module_key_flags(endpoint_flags)
  command_line.run_main(main, required=("system", "workdir"))
