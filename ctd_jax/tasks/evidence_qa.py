"""Answers questions from sets of evidence records, and scores the answers.

  python -m ctd_jax.tasks.evidence_qa --dataset=chunqiutr/mini \\
    --system=quote_all --workdir=runs/packs
  python -m ctd_jax.tasks.evidence_qa --dataset=chunqiutr/rebuilt \\
    --system=model --model=openai/gpt-4o --judge_model=openai/gpt-4o \\
    --workdir=runs/packs-gpt-4o
  python -m ctd_jax.tasks.evidence_qa --log=LOG --workdir=runs/report

The folder holds scores.tsv (every question), report.txt and the logs of a
model, which `inspect eval ctd_jax/evidence_qa` writes, too. `quote_all` cites
all records and `quote_answers` only those that answer; a model's scores lie
between. Asking a model needs the extra [llm].
"""

from __future__ import annotations

import math
import pathlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec
from absl import flags

from ctd_jax.evaluation import significance
from ctd_jax.tasks import chat, evidence_packs
from ctd_jax.tasks.evidence_packs import CONFUSABLE_ROLES, Pack
from ctd_jax.utils import command_line, files, output

if TYPE_CHECKING:
  from inspect_ai.log import EvalLog

MODEL = "model"  # system that asks a chat model
QUOTE_FUNCTIONS = {
  "quote_all": evidence_packs.quote_all,
  "quote_answers": evidence_packs.quote_answers,
}


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
    # A verdict that could not be read leaves an answer without a measure.
    values = {q: m[measure] for q, m in scores.items() if measure in m}
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
  given = {name for measures in scores.values() for name in measures}
  names = [name for name in evidence_packs.MEASURES if name in given]
  for pack in packs:
    measures = scores[pack.question_id]
    wrong_citations = evidence_packs.count_wrong_citations(
      pack, replies[pack.question_id]
    )
    rows.append(
      [
        pack.question_id,
        *[f"{measures.get(name, math.nan):.6g}" for name in names],
        *wrong_citations.values(),
      ]
    )
  return output.format_delimited(["query_id", *names, *CONFUSABLE_ROLES], rows)


def write_report(
  folder: pathlib.Path,
  title: str,
  packs: Sequence[Pack],
  replies: Mapping[str, str],
  years: Mapping[str, tuple[int, int]],
  judged: Mapping[str, float],
) -> None:
  """Writes the scores of all answers and prints the report.

  Args:
    judged: question id -> share of the answering records that a model finds
      covered, where it could be read.
  """
  scores = {
    name: evidence_packs.score_answer(pack, replies[name])
    | ({"judged_coverage": judged[name]} if name in judged else {})
    for pack in packs
    for name in [pack.question_id]
  }
  text = format_report(title, packs, replies, scores, years)
  files.write_text(folder / "scores.tsv", format_tsv(packs, replies, scores))
  files.write_text(folder / "report.txt", text)
  print(text)
  print(f"scores  {folder / 'scores.tsv'}, report.txt")


def report_log(folder: pathlib.Path, log: EvalLog) -> None:
  """Writes the report of a log of the task; of several epochs, the first."""
  samples = [s for s in log.samples or [] if s.epoch == 1 and s.scores]
  if not samples:
    raise ValueError(f"{log.location}: no answered question")
  judged = {
    s.id: s.scores["coverage"].value for s in samples if "coverage" in s.scores
  }
  num_unread = sum(map(math.isnan, judged.values()))
  about = log.eval.metadata
  title = (
    f"{about['dataset']}, {about['split']}, {len(samples)} questions, "
    f"{log.eval.model}"
  )
  if num_unread:
    title += f"; {num_unread} verdicts could not be read, run again to ask them"
  write_report(
    folder,
    title,
    [msgspec.convert(s.metadata["pack"], Pack) for s in samples],
    {s.id: s.output.completion for s in samples},
    {s.id: tuple(s.metadata["year"]) for s in samples},
    {name: x for name, x in judged.items() if not math.isnan(x)},
  )


def define_flags() -> None:
  """Defines the flags."""
  chat.define_flags()
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
    "Maximum number of questions, of points and windows in turn. Default: all. "
    "Example: --limit=100",
  )
  flags.DEFINE_integer(
    "seed", 0, "Seed for draws and order. Default: 0. Example: --seed=1"
  )
  flags.DEFINE_string(
    "log",
    None,
    "Log of inspect-ai to report on, instead of asking. Example: "
    "--log=logs/x.eval",
  )


def main() -> None:
  """Runs the command."""
  values = flags.FLAGS
  folder = pathlib.Path(command_line.WORKDIR.value).expanduser()
  if values.log:
    chat.check_ready()
    from inspect_ai.log import read_eval_log

    report_log(folder, read_eval_log(values.log))
    return
  if values.system is None:
    raise ValueError("name --system, or --log for the report of a log")
  names = ("dataset", "data_dir", "split", "answers", "confusable", "seed")
  choices = {name: values[name].value for name in names}
  if values.system == MODEL:
    chat.check_ready(values.model)
    from ctd_jax.tasks import inspect_tasks

    task = inspect_tasks.evidence_qa(
      **choices, dated=values.dated, judge=bool(values.judge_model)
    )
    options = {"limit": values.limit, **chat.read_options()}
    log = chat.run_task(task, values.model, folder, values.judge_model, options)
    report_log(folder, log)
    return
  name, packs, years = evidence_packs.load_packs(**choices)
  packs = packs[: values.limit]
  quote = QUOTE_FUNCTIONS[values.system]
  title = f"{name}, {values.split}, {len(packs)} questions, {values.system}"
  replies = {pack.question_id: quote(pack) for pack in packs}
  write_report(folder, title, packs, replies, years, {})


if __name__ == "__main__":
  define_flags()
  # --help lists the key flags of the main module.
  flags.declare_key_flag(command_line.WORKDIR.name)
  flags.adopt_module_key_flags(chat)
  command_line.run_main(main, required=("workdir",))
