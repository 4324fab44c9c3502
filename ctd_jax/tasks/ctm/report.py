"""Report of a run: accuracies with intervals, as tables and result rows.

An average over nine tasks hides what a system can do, so accuracy is shown by
type, by number of relations and by their distance in periods, with 95 % Wilson
intervals, and beside the sources of the verdicts.

The paper does not define the distance of a question with several relations;
shown are both that of the nearest pair and that of the widest.
"""

from __future__ import annotations

import collections
import pathlib
from collections.abc import Mapping, Sequence

import numpy as np

from ctd_jax.evaluation.results import VOCABULARIES, ResultRow
from ctd_jax.evaluation.significance import Proportion
from ctd_jax.tasks.ctm.verdicts import UNDECIDED, UNPARSED, AnswerVerdict
from ctd_jax.utils import files, tables
from ctd_jax_datasets.ctm.generation.quotas import BUCKETS, size_bucket
from ctd_jax_datasets.ctm.questions import Question
from ctd_jax_datasets.ctm.vocabulary import LSEC, TASKS

GradedQuestions = Sequence[tuple[Question, AnswerVerdict]]
ALL_FAMILY = "all"
# File in the folder of the report -> its title.
PLOT_TITLES = {
  "by_type.png": "accuracy by type",
  "by_relations.png": "accuracy by number of relations",
  "by_distance.png": "accuracy by periods between the widest apart",
}


def compute_accuracies(graded: GradedQuestions) -> dict[str, Proportion]:
  """Returns family -> accuracy: types, then relation counts, then all.

  Types and the average are over listed questions, relation counts over all.

  Source: the paper's main table.
  """
  groups: dict[str, list[bool]] = collections.defaultdict(list)
  for question, verdict in graded:
    if question.listed:
      groups[question.task].append(verdict.correct)
      groups[ALL_FAMILY].append(verdict.correct)
    # The paper's relation counts leave out the long scripts.
    if question.task != LSEC:
      groups[size_bucket(question.task, len(question.relations))].append(
        verdict.correct
      )
  # LSEC is a task and a bucket; it stays in its first place.
  order = dict.fromkeys((*TASKS, *BUCKETS, ALL_FAMILY))
  return {
    name: Proportion(sum(groups[name]), len(groups[name]))
    for name in order
    if groups[name]
  }


def compute_distance_accuracies(
  graded: GradedQuestions, field: str
) -> dict[int, Proportion]:
  """Returns periods apart -> accuracy, over questions with two relations.

  Args:
    graded: questions with verdicts.
    field: nearest or widest, a field of `Question.distance`.
  """
  groups: dict[int, list[bool]] = collections.defaultdict(list)
  for question, verdict in graded:
    if len(question.relations) > 1:
      num_periods = getattr(question.distance, field)
      groups[num_periods].append(verdict.correct)
  return {
    num_periods: Proportion(sum(outcomes), len(outcomes))
    for num_periods, outcomes in sorted(groups.items())
  }


def average_measures(
  graded: GradedQuestions,
) -> dict[tuple[str, str], tuple[float, int]]:
  """Returns (task, measure) -> (mean, number of answers that have it)."""
  groups: dict[tuple[str, str], list[float]] = collections.defaultdict(list)
  for question, verdict in graded:
    for name, value in verdict.measures.items():
      groups[question.task, name].append(value)
  return {
    key: (float(np.mean(measurements)), len(measurements))
    for key, measurements in sorted(groups.items(), key=lambda item: item[0])
  }


def count_verdict_sources(
  graded: GradedQuestions,
) -> dict[str, collections.Counter[str]]:
  """Returns task -> source of verdict -> number of answers."""
  counts: dict[str, collections.Counter[str]] = {}
  for question, verdict in graded:
    counts.setdefault(question.task, collections.Counter())[verdict.source] += 1
  return {task: counts[task] for task in TASKS if task in counts}


def format_report(
  graded: GradedQuestions, name: str, notes: Mapping[str, object]
) -> str:
  """Returns the report in Markdown.

  Args:
    graded: questions with verdicts.
    name: name of the system.
    notes: name -> value of further notes, e.g. cost.
  """
  columns = ["questions", "right", "of", "accuracy in % [95 %]"]
  blocks = [f"# {name}: {len(graded)} questions", ""]
  blocks += [f"- {key}: {value}" for key, value in notes.items()]
  blocks += [
    "",
    tables.format_table(
      "Accuracy (all: listed types)",
      columns,
      _format_share_rows(compute_accuracies(graded)),
      markdown=True,
    ),
  ]
  for field in ("nearest", "widest"):
    blocks.append(
      tables.format_table(
        f"By periods between the relations ({field} pair)",
        ["periods", *columns[1:]],
        _format_share_rows(compute_distance_accuracies(graded, field)),
        markdown=True,
      )
    )
  rows = [
    [task, measure, f"{mean:.4f}", str(count)]
    for (task, measure), (mean, count) in average_measures(graded).items()
  ]
  columns = ["task", "measure", "mean", "answers"]
  blocks.append(tables.format_table("Finer measures", columns, rows, True))
  blocks.append(_format_source_table(graded))
  return "\n".join(blocks)


def _format_share_rows(
  shares: Mapping[str, Proportion] | Mapping[int, Proportion],
) -> list[list[str]]:
  return [
    [str(key), str(share.num_hits), str(share.num_trials), str(share)]
    for key, share in shares.items()
  ]


def _format_source_table(graded: GradedQuestions) -> str:
  counts_by_task = count_verdict_sources(graded)
  sources = sorted({s for counts in counts_by_task.values() for s in counts})
  rows = [
    [task, *(str(counts[source]) for source in sources)]
    for task, counts in counts_by_task.items()
  ]
  return tables.format_table(
    "Verdicts by source", ["task", *sources], rows, markdown=True
  )


def format_summary(graded: GradedQuestions, name: str) -> str:
  """Returns accuracies by type and number of relations in aligned lines."""
  lines = [f"{name}, accuracy in % [95 % Wilson interval]"]
  lines += [
    f"  {family:<5} n={share.num_trials:<5} {share}"
    for family, share in compute_accuracies(graded).items()
  ]
  num_undecided = sum(v.source in (UNDECIDED, UNPARSED) for _, v in graded)
  return "\n".join([*lines, f"  undecided or unparsed: {num_undecided}"])


def make_result_rows(
  graded: GradedQuestions, **shared_fields
) -> list[ResultRow]:
  """Returns accuracies and finer measures as result rows.

  Args:
    graded: questions with verdicts.
    **shared_fields: fields that all rows share, see `ResultRow`.
  """
  result_rows = []
  for family, share in compute_accuracies(graded).items():
    bounds = share.interval
    result_rows.append(
      ResultRow(
        **shared_fields,
        family=family,
        metric="accuracy",
        value=share.ratio,
        low=bounds[0],
        high=bounds[1],
      )
    )
  for (task, measure), (mean, _) in average_measures(graded).items():
    # Precision and recall of sets stay in the report.
    if measure in VOCABULARIES["ctm"]["metric"]:
      result_rows.append(
        ResultRow(**shared_fields, family=task, metric=measure, value=mean)
      )
  return result_rows


def write_report(
  folder: pathlib.Path,
  graded_by_system: Mapping[str, GradedQuestions],
  notes: Mapping[str, Mapping[str, object]],
) -> None:
  """Writes report.md of one system or several, which refers to the plots.

  Args:
    folder: folder of report.md and, see `plots.write_plots`, of the plots.
    graded_by_system: name -> questions with verdicts.
    notes: name of a system -> its notes, see `format_report`.
  """
  blocks = [
    format_report(graded, name, notes.get(name, {}))
    for name, graded in graded_by_system.items()
  ]
  blocks += [f"![{title}]({name})\n" for name, title in PLOT_TITLES.items()]
  files.write_text(folder / "report.md", "\n".join(blocks))
