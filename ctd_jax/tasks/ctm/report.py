"""What a run came to: tables, plots and result rows, always with intervals.

Why: one average over nine tasks hides what a system can do. Accuracy is shown
by type, by the number of relations and by how many periods they lie apart,
with 95 % Wilson intervals, beside who gave the verdicts. Called by
`python -m ctd_jax.tasks.ctm`.

How far apart the relations of a question are is not defined by the paper;
shown are both the nearest two and the widest apart.
"""

from __future__ import annotations

import collections
import pathlib
from collections.abc import Iterable, Mapping, Sequence

import matplotlib.figure
import numpy as np

from ctd_jax.evaluation.results import VOCABULARIES, ResultRow
from ctd_jax.evaluation.significance import Proportion
from ctd_jax.tasks.ctm.judge import UNDECIDED, UNPARSED, AnswerVerdict
from ctd_jax.utils import files, plotting
from ctd_jax.utils.plotting import COLOURS
from ctd_jax.utils.tables import format_markdown_table
from ctd_jax_datasets.ctm.generation.quotas import BUCKETS, size_bucket
from ctd_jax_datasets.ctm.questions import Question
from ctd_jax_datasets.ctm.vocabulary import LSEC, TASKS

GradedQuestions = Sequence[tuple[Question, AnswerVerdict]]
ALL_FAMILY = "all"


def compute_accuracies(graded: GradedQuestions) -> dict[str, Proportion]:
  """Returns family -> accuracy: types, then relation counts, then all.

  Types and the average are over listed questions, relation counts over all, as
  in the paper's table.
  """
  groups: dict[str, list[bool]] = collections.defaultdict(list)
  for question, verdict in graded:
    if question.listed:
      groups[question.task].append(verdict.correct)
      groups[ALL_FAMILY].append(verdict.correct)
    if question.task != LSEC:
      groups[size_bucket(question.task, len(question.relations))].append(
        verdict.correct
      )
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
    field: nearest or widest, of `Question.distance`.
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
  """Returns (task, measure) -> (mean, answers that have it)."""
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
  """Returns task -> source of verdict -> how many."""
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
    name: of the system.
    notes: what else to tell, e.g. cost; name -> value.
  """
  family_accuracies = compute_accuracies(graded)
  blocks = [f"# {name}: {len(graded)} questions", ""]
  blocks += [f"- {key}: {value}" for key, value in notes.items()]
  rows = [
    [k, str(v.num_hits), str(v.num_trials), str(v)]
    for k, v in family_accuracies.items()
  ]
  columns = ["questions", "right", "of", "accuracy in % [95 %]"]
  blocks += [
    "",
    format_markdown_table("Accuracy (all: listed types)", columns, rows),
  ]
  for field in ("nearest", "widest"):
    rows = [
      [str(k), str(v.num_hits), str(v.num_trials), str(v)]
      for k, v in compute_distance_accuracies(graded, field).items()
    ]
    title = f"By periods between the relations ({field} pair)"
    blocks.append(format_markdown_table(title, ["periods", *columns[1:]], rows))
  rows = [
    [task, measure, f"{mean:.4f}", str(count)]
    for (task, measure), (mean, count) in average_measures(graded).items()
  ]
  columns = ["task", "measure", "mean", "answers"]
  blocks.append(format_markdown_table("Finer measures", columns, rows))
  source_counts = count_verdict_sources(graded)
  names = sorted(
    {source for count in source_counts.values() for source in count}
  )
  rows = [
    [task, *(str(count[source]) for source in names)]
    for task, count in source_counts.items()
  ]
  blocks.append(
    format_markdown_table("Verdicts by source", ["task", *names], rows)
  )
  return "\n".join(blocks)


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
    **about: fields of the rows that are the same for all.
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
    if measure in VOCABULARIES["ctm"]["metric"]:
      result_rows.append(
        ResultRow(**shared_fields, family=task, metric=measure, value=mean)
      )
  return result_rows


def plot_bars(
  systems: Mapping[str, Mapping[str, Proportion]],
  families: Iterable[str],
  label: str,
  title: str,
  path: pathlib.Path,
) -> None:
  """Writes a PNG of accuracies with intervals, one colour for each system.

  Args:
    systems: name -> family -> accuracy.
    families: along the horizontal axis.
    label: of that axis.
    title: of the picture.
    path: of the PNG.
  """
  plotted_families = [
    f
    for f in families
    if any(f in family_accuracies for family_accuracies in systems.values())
  ]
  figure = matplotlib.figure.Figure(figsize=(8, 4.2), layout="constrained")
  axes = figure.add_subplot()
  width = 0.8 / len(systems)
  for index, (name, family_accuracies) in enumerate(systems.items()):
    positions = (
      np.arange(len(plotted_families))
      + (index - (len(systems) - 1) / 2) * width
    )
    points = [
      (x, family_accuracies[f])
      for x, f in zip(positions, plotted_families, strict=True)
      if f in family_accuracies
    ]
    axes.bar(
      [x for x, _ in points],
      [100 * share.ratio for _, share in points],
      width,
      yerr=_error_bars([share for _, share in points]),
      label=name,
      color=COLOURS[index % len(COLOURS)],
      error_kw={"lw": 1, "capsize": 2},
    )
  first_accuracies = next(iter(systems.values()))
  ticks = [
    f"{f}\nn={first_accuracies[f].num_trials}" if f in first_accuracies else f
    for f in plotted_families
  ]
  axes.set_xticks(range(len(plotted_families)), ticks)
  _style_axes(figure, axes, label, title, len(systems))
  plotting.write_figure(path, figure)


def plot_curve(
  systems: Mapping[str, Mapping[int, Proportion]],
  label: str,
  title: str,
  path: pathlib.Path,
) -> None:
  """Writes a PNG of accuracy by a number, with intervals as bars."""
  figure = matplotlib.figure.Figure(figsize=(7, 4.2), layout="constrained")
  axes = figure.add_subplot()
  for index, (name, accuracies) in enumerate(systems.items()):
    axes.errorbar(
      [x + 0.06 * (index - (len(systems) - 1) / 2) for x in accuracies],
      [100 * share.ratio for share in accuracies.values()],
      yerr=_error_bars(list(accuracies.values())),
      label=name,
      color=COLOURS[index % len(COLOURS)],
      marker="o",
      capsize=2,
      lw=1.2,
      ms=4,
    )
  x_values = sorted({x for accuracies in systems.values() for x in accuracies})
  first_accuracies = next(iter(systems.values()))
  ticks = [
    f"{x}\nn={first_accuracies[x].num_trials}"
    if x in first_accuracies
    else f"{x}"
    for x in x_values
  ]
  axes.set_xticks(x_values, ticks)
  _style_axes(figure, axes, label, title, len(systems))
  plotting.write_figure(path, figure)


def _error_bars(shares: Sequence[Proportion]) -> np.ndarray:
  """Returns how far the intervals reach below and above, in percent."""
  bounds = np.array([share.interval for share in shares]).reshape(-1, 2).T
  values = np.array([share.ratio for share in shares])
  reach = np.stack([values - bounds[0], bounds[1] - values])
  return 100 * np.clip(reach, 0, None)


def _style_axes(figure, axes, label: str, title: str, num_systems: int) -> None:
  axes.set_xlabel(label)
  axes.set_ylabel("accuracy in %, 95 % interval")
  axes.set_ylim(0, 105)
  axes.set_yticks(range(0, 101, 20))
  axes.set_title(title)
  axes.yaxis.grid(True, color="0.85")
  axes.set_axisbelow(True)
  axes.spines[["top", "right"]].set_visible(False)
  if num_systems > 1:
    figure.legend(
      loc="outside lower center", ncols=min(num_systems, 4), frameon=False
    )


def write_report(
  folder: pathlib.Path,
  graded_by_system: Mapping[str, GradedQuestions],
  notes: Mapping[str, Mapping[str, object]],
) -> None:
  """Writes report.md and three plots of one system or several.

  Args:
    folder: of the files.
    graded_by_system: name -> questions with verdicts.
    notes: name -> what else to tell of it.
  """
  accuracies = {
    name: compute_accuracies(graded)
    for name, graded in graded_by_system.items()
  }
  blocks = [
    format_report(graded, name, notes[name])
    for name, graded in graded_by_system.items()
  ]
  plots = (
    ("by_type.png", "accuracy by type"),
    ("by_relations.png", "accuracy by number of relations"),
    ("by_distance.png", "accuracy by periods between the widest apart"),
  )
  blocks += [f"![{title}]({name})\n" for name, title in plots]
  title_prefix = (
    f"{next(iter(graded_by_system))}: " if len(graded_by_system) == 1 else ""
  )
  plot_bars(
    accuracies,
    (*TASKS, ALL_FAMILY),
    "type (n = questions)",
    f"{title_prefix}accuracy by type",
    folder / plots[0][0],
  )
  plot_bars(
    accuracies,
    BUCKETS,
    "relations needed (n = questions)",
    f"{title_prefix}accuracy by number of relations",
    folder / plots[1][0],
  )
  plot_curve(
    {
      name: compute_distance_accuracies(graded, "widest")
      for name, graded in graded_by_system.items()
    },
    "periods between the relations widest apart (n = questions)",
    f"{title_prefix}accuracy by distance on the timeline",
    folder / plots[2][0],
  )
  files.write_text(folder / "report.md", "\n".join(blocks))
