"""Report of CTM answers: accuracies with intervals, as tables, rows and a plot.

An average over nine tasks hides what a system can do, so accuracy is shown by
type, by number of relations and by their distance in periods, with 95 % Wilson
intervals, next to the sources of the verdicts. The paper does not define the
distance of a question with several relations; the report shows that of the
nearest pair and that of the widest.

Source: CTM paper, tables 2 and 6 (accuracies) and figure 4 (distance).

Axes: P points of a series.
"""

from __future__ import annotations

import collections
import pathlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from ctd_jax.evaluation import result_tables, results
from ctd_jax.evaluation.results import VOCABULARIES, ResultRow
from ctd_jax.evaluation.significance import Proportion
from ctd_jax.tasks import chat
from ctd_jax.tasks.ctm.data_sources import RELEASE_DATASET
from ctd_jax.tasks.ctm.judge import MODEL, UNDECIDED, UNGRADED, AnswerVerdict
from ctd_jax.utils import files, output
from ctd_jax_datasets.ctm import schema
from ctd_jax_datasets.ctm.generator import BUCKETS, size_bucket
from ctd_jax_datasets.ctm.periods import LSEC, TASKS
from ctd_jax_datasets.ctm.schema import Question

if TYPE_CHECKING:
  from inspect_ai.log import EvalLog

GradedQuestions = Sequence[tuple[Question, AnswerVerdict]]
ALL_FAMILY = "all"
PLOT_FILE = "by_distance.png"


def read_log(log: EvalLog) -> GradedQuestions:
  """Returns the questions of a log of the task with their last verdicts.

  Of several epochs only the first counts: an interval over all of them would
  take repeated questions for new ones. Ungraded questions are left out.
  """
  graded = []
  for sample in log.samples or []:
    if sample.epoch == 1 and sample.scores:
      score = sample.scores.get("model_votes") or sample.scores["rules"]
      verdict = AnswerVerdict(
        score.value == "C",
        score.metadata["source"],
        score.metadata["measures"],
        score.explanation or "",
        score.metadata.get("unreadable_votes", 0),
      )
      question = schema.question_from_json(sample.metadata["question"])
      if verdict.source != UNGRADED:
        graded.append((question, verdict))
  return graded


def describe_run(log: EvalLog, graded: GradedQuestions) -> dict[str, Any]:
  """Returns the fields of the rows of a log; says who graded a release."""
  fields = chat.describe_run(log)
  if fields["dataset"] == RELEASE_DATASET and not is_comparable(fields):
    by_model = sum(verdict.source == MODEL for _, verdict in graded)
    fields["score_mode"] = (
      f"{fields['score_mode']}; by rules {len(graded) - by_model}, by a model "
      f"{by_model}, not graded {_count_ungraded(log)}"
    )
  return fields


def is_comparable(fields: Mapping[str, Any]) -> bool:
  """Returns whether figures were made as the published ones were."""
  is_protocol = fields["score_mode"].endswith("protocol of the paper")
  return is_protocol and fields["dataset"] == RELEASE_DATASET


def _count_ungraded(log: EvalLog) -> int:
  """Returns the questions without a score, 0 for games."""
  return sum(
    (score.metadata or {}).get("source") == UNGRADED
    for sample in log.samples or []
    if sample.epoch == 1
    for score in [*(sample.scores or {}).values()][-1:]
  )


def format_systems(
  rows: Sequence[ResultRow], published: Sequence[ResultRow]
) -> str:
  """Returns accuracies of systems in the form of Tables 2 and 6.

  Published rows share a table with rows that are comparable, and no others.
  """
  shown = [row for row in rows if row.metric == "accuracy"]
  comparable = [row for row in shown if is_comparable(vars(row))]
  settings = {(row.track, row.mode) for row in comparable}
  beside = [
    row
    for row in published
    if row.dataset == RELEASE_DATASET and (row.track, row.mode) in settings
  ]
  families = ("=1", "=2", "=3", ">=4", *TASKS[1:], ALL_FAMILY)
  return "\n".join(
    result_tables.format_table(
      table, families, markdown=True, intervals=True, columns="family"
    )
    for table in (
      [*comparable, *beside],
      [row for row in shown if row not in comparable],
    )
    if table
  )


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
  return {
    name: Proportion(sum(groups[name]), len(groups[name]))
    for name in dict.fromkeys((*TASKS, *BUCKETS, ALL_FAMILY))
    if groups[name]
  }


def compute_distance_accuracies(
  graded: GradedQuestions, field: str
) -> dict[int, Proportion]:
  """Returns the accuracy by distance in periods, over two-relation questions.

  Args:
    field: nearest or widest, a field of `Question.distance`.
  """
  groups: dict[int, list[bool]] = collections.defaultdict(list)
  for question, verdict in graded:
    # A release may not write the periods.
    are_known = all(relation.period for relation in question.relations)
    if len(question.relations) > 1 and are_known:
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


def format_report(
  graded: GradedQuestions, name: str, notes: Mapping[str, object]
) -> str:
  """Returns the report in Markdown."""
  columns = ["questions", "right", "of", "accuracy in % [95 %]"]
  blocks = [f"# {name}: {len(graded)} questions", ""]
  counts = {
    "questions of no listed type (they count only by number of relations and "
    "by distance)": sum(not question.listed for question, _ in graded),
    "undecided answers (they count as wrong; with --judge_model a model votes "
    "on them)": sum(verdict.source == UNDECIDED for _, verdict in graded),
    "unreadable votes of the grader": sum(
      verdict.unreadable_votes for _, verdict in graded
    ),
  }
  shown = {**notes, **{key: n for key, n in counts.items() if n}}
  blocks += [f"- {key}: {value}" for key, value in shown.items()]
  blocks += [
    "",
    output.format_table(
      "Accuracy (all: questions of the listed types, long scripts included)",
      columns,
      _format_share_rows(compute_accuracies(graded)),
      markdown=True,
    ),
  ]
  for field in ("nearest", "widest"):
    distances = compute_distance_accuracies(graded, field)
    if distances:
      blocks.append(
        output.format_table(
          f"By periods between the relations ({field} pair; questions with two "
          "or more)",
          ["periods", *columns[1:]],
          _format_share_rows(distances),
          markdown=True,
        )
      )
  rows = [
    [task, measure, f"{mean:.4f}", str(count)]
    for (task, measure), (mean, count) in average_measures(graded).items()
  ]
  columns = ["task", "measure", "mean", "answers"]
  blocks.append(
    output.format_table("Finer measures", columns, rows, markdown=True)
  )
  # By task: how many answers each rule, or no rule, decided.
  counts = collections.Counter((q.task, v.source) for q, v in graded)
  sources = sorted({source for _, source in counts})
  rows = [
    [task, *(counts[task, source] for source in sources)]
    for task in TASKS
    if any(counts[task, source] for source in sources)
  ]
  totals = collections.Counter(verdict.source for _, verdict in graded)
  rows.append([ALL_FAMILY, *(totals[source] for source in sources)])
  blocks.append(
    output.format_table(
      "Verdicts by source", ["task", *sources], rows, markdown=True
    )
  )
  return "\n".join(blocks)


def _format_share_rows(
  shares: Mapping[str, Proportion] | Mapping[int, Proportion],
) -> list[list[str]]:
  return [
    [str(key), str(share.num_hits), str(share.num_trials), str(share)]
    for key, share in shares.items()
  ]


def make_result_rows(
  graded: GradedQuestions, **shared_fields
) -> list[ResultRow]:
  """Returns accuracies and finer measures as result rows.

  Args:
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


def describe_log(log: EvalLog) -> dict[str, object]:
  """Returns the notes of a report about a log."""
  usage = log.stats.model_usage.items()
  return {
    **(log.eval.metadata or {}),
    "questions without a reply": sum(not s.scores for s in log.samples or []),
    "not graded (only a model can compare the answer; see judge)": (
      _count_ungraded(log)
    ),
    "draws of each question": log.eval.config.epochs or 1,
    "tokens": ", ".join(f"{used.total_tokens} {name}" for name, used in usage),
  }


def write_report(
  folder: pathlib.Path,
  runs: Mapping[str, tuple[GradedQuestions, Mapping[str, object]]],
  rows: Sequence[ResultRow],
  published: Sequence[ResultRow] = (),
) -> None:
  """Writes report.md, results.json and the plot; prints a summary.

  Args:
    runs: system -> its verdicts and the notes about them.
    rows: result rows of all systems.
    published: rows to put beside those that are comparable.
  """
  results.write_result_rows(folder / "results.json", rows)
  blocks = [format_systems(rows, published)]
  blocks += [
    format_report(graded, name, notes) for name, (graded, notes) in runs.items()
  ]
  print("\n".join(blocks))
  distances = {
    name: compute_distance_accuracies(graded, "widest")
    for name, (graded, _) in runs.items()
  }
  if any(distances.values()):
    plot_distances(distances, folder)
    title = "accuracy by periods between the widest apart"
    blocks.append(f"![{title}]({PLOT_FILE})\n")
  else:
    print("no plot by distance: no question has two relations with periods")
  files.write_text(folder / "report.md", "\n".join(blocks))
  print(f"written: {folder / 'report.md'}")


def plot_distances(
  systems: Mapping[str, Mapping[int, Proportion]], folder: pathlib.Path
) -> None:
  """Writes the PNG of accuracies by distance on the timeline.

  Args:
    systems: system -> its result of `compute_distance_accuracies`.
  """
  figure = output.make_figure(7, 4.2)
  axes = figure.add_subplot()
  counts: dict[int, int] = {}
  for index, (name, accuracies) in enumerate(systems.items()):
    counts |= {x: share.num_trials for x, share in accuracies.items()}
    # Systems are shifted, so that their intervals stay apart.
    offset = 0.06 * (index - (len(systems) - 1) / 2)
    axes.errorbar(
      [x + offset for x in accuracies],
      [100 * share.ratio for share in accuracies.values()],
      yerr=_error_bars(list(accuracies.values())),
      label=name,
      color=output.colour_at(index),
      marker="o",
      capsize=2,
      lw=1.2,
      ms=4,
    )
  axes.set_xticks(
    sorted(counts), [f"{x}\nn={counts[x]}" for x in sorted(counts)]
  )
  axes.set_xlabel("periods between the relations widest apart (n = questions)")
  axes.set_ylabel("accuracy in %, 95 % interval")
  axes.set_ylim(0, 105)
  axes.set_title("accuracy by distance on the timeline")
  output.style_frame(axes)
  figure.legend(loc="outside lower center", ncols=4, frameon=False)
  output.write_figure(folder / PLOT_FILE, figure)


def _error_bars(shares: Sequence[Proportion]) -> Float[np.ndarray, "2 P"]:
  """Returns the extent of the intervals below and above, in percent."""
  # [P, 2] -> [2, P]: all low ends, all high ends. No share makes [2, 0].
  bounds = np.array([share.interval for share in shares]).reshape(-1, 2).T
  values = np.array([share.ratio for share in shares])
  reach = np.stack([values - bounds[0], bounds[1] - values])
  # Rounding can put the end of an interval past a ratio of 0 or 1.
  return 100 * np.clip(reach, 0, None)
