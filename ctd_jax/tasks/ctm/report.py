"""Report of a run: accuracies with intervals, as tables, rows and plots.

An average over nine tasks hides what a system can do, so accuracy is shown by
type, by number of relations and by their distance in periods, with 95 % Wilson
intervals, next to the sources of the verdicts. The paper does not define the
distance of a question with several relations; the report shows that of the
nearest pair and that of the widest.

Axes: P points of a series.
"""

from __future__ import annotations

import collections
import pathlib
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from ctd_jax.evaluation.results import VOCABULARIES, ResultRow
from ctd_jax.evaluation.significance import Proportion
from ctd_jax.tasks.ctm.judge import UNDECIDED, UNPARSED, AnswerVerdict
from ctd_jax.utils import files, output
from ctd_jax_datasets.ctm.generator import BUCKETS, size_bucket
from ctd_jax_datasets.ctm.periods import LSEC, TASKS
from ctd_jax_datasets.ctm.schema import Question

if TYPE_CHECKING:
  import matplotlib.axes
  import matplotlib.figure

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


def format_report(
  graded: GradedQuestions, name: str, notes: Mapping[str, object]
) -> str:
  """Returns the report in Markdown."""
  columns = ["questions", "right", "of", "accuracy in % [95 %]"]
  blocks = [f"# {name}: {len(graded)} questions", ""]
  blocks += [f"- {key}: {value}" for key, value in notes.items()]
  blocks += [
    "",
    output.format_table(
      "Accuracy (all: listed types)",
      columns,
      _format_share_rows(compute_accuracies(graded)),
      markdown=True,
    ),
  ]
  for field in ("nearest", "widest"):
    blocks.append(
      output.format_table(
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
  """Writes report.md of one or more systems, with links to the plots.

  Args:
    folder: folder for report.md and the plots, see `write_plots`.
  """
  blocks = [
    format_report(graded, name, notes.get(name, {}))
    for name, graded in graded_by_system.items()
  ]
  blocks += [f"![{title}]({name})\n" for name, title in PLOT_TITLES.items()]
  files.write_text(folder / "report.md", "\n".join(blocks))


_GROUP_WIDTH = 0.8  # of all bars at one tick; the ticks are 1 apart
_POINT_OFFSET = 0.06  # between systems, so that their intervals stay apart
_MAX_LEGEND_COLUMNS = 4


def write_plots(
  folder: pathlib.Path,
  graded_by_system: Mapping[str, GradedQuestions],
) -> None:
  """Writes the three plots to which the report refers."""
  accuracies = {
    name: compute_accuracies(graded)
    for name, graded in graded_by_system.items()
  }
  names = list(graded_by_system)
  title_prefix = f"{names[0]}: " if len(names) == 1 else ""
  by_type, by_relations, by_distance = (folder / name for name in PLOT_TITLES)
  plot_bars(
    accuracies,
    (*TASKS, ALL_FAMILY),
    "type (n = questions)",
    f"{title_prefix}accuracy by type",
    by_type,
  )
  plot_bars(
    accuracies,
    BUCKETS,
    "relations needed (n = questions)",
    f"{title_prefix}accuracy by number of relations",
    by_relations,
  )
  plot_curve(
    {
      name: compute_distance_accuracies(graded, "widest")
      for name, graded in graded_by_system.items()
    },
    "periods between the relations widest apart (n = questions)",
    f"{title_prefix}accuracy by distance on the timeline",
    by_distance,
  )


def plot_bars(
  systems: Mapping[str, Mapping[str, Proportion]],
  families: Iterable[str],
  label: str,
  title: str,
  path: pathlib.Path,
) -> None:
  """Writes a PNG of accuracies with intervals, one colour for each system.

  Args:
    families: ticks of the horizontal axis; those without questions are left
      out.
  """
  ticks = [
    f for f in families if any(f in shares for shares in systems.values())
  ]
  figure = output.make_figure(8, 4.2)
  axes = figure.add_subplot()
  width = _GROUP_WIDTH / len(systems)
  for index, (name, shares_by_family) in enumerate(systems.items()):
    # Bars of one tick are side by side, centred on it.
    offset = (index - (len(systems) - 1) / 2) * width
    positions = [
      x + offset for x, f in enumerate(ticks) if f in shares_by_family
    ]
    shares = [shares_by_family[f] for f in ticks if f in shares_by_family]
    axes.bar(
      positions,
      [100 * share.ratio for share in shares],
      width,
      yerr=_error_bars(shares),
      label=name,
      color=output.colour_at(index),
      error_kw={"lw": 1, "capsize": 2},
    )
  first_shares = next(iter(systems.values()))
  axes.set_xticks(
    range(len(ticks)), [_format_tick(f, first_shares) for f in ticks]
  )
  _label_axes(figure, axes, label, title, len(systems))
  output.write_figure(path, figure)


def plot_curve(
  systems: Mapping[str, Mapping[int, Proportion]],
  label: str,
  title: str,
  path: pathlib.Path,
) -> None:
  """Writes a PNG of accuracy against a number, with intervals."""
  figure = output.make_figure(7, 4.2)
  axes = figure.add_subplot()
  for index, (name, accuracies) in enumerate(systems.items()):
    offset = _POINT_OFFSET * (index - (len(systems) - 1) / 2)
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
  x_values = sorted({x for accuracies in systems.values() for x in accuracies})
  first_accuracies = next(iter(systems.values()))
  axes.set_xticks(
    x_values, [_format_tick(x, first_accuracies) for x in x_values]
  )
  _label_axes(figure, axes, label, title, len(systems))
  output.write_figure(path, figure)


def _format_tick(
  key: str | int, shares: Mapping[str, Proportion] | Mapping[int, Proportion]
) -> str:
  return f"{key}\nn={shares[key].num_trials}" if key in shares else f"{key}"


def _error_bars(shares: Sequence[Proportion]) -> Float[np.ndarray, "2 P"]:
  """Returns the extent of the intervals below and above, in percent."""
  # [P, 2] -> [2, P]: all low ends, all high ends. No share makes [2, 0].
  bounds = np.array([share.interval for share in shares]).reshape(-1, 2).T
  values = np.array([share.ratio for share in shares])
  reach = np.stack([values - bounds[0], bounds[1] - values])
  # Rounding can put the end of an interval past a ratio of 0 or 1.
  return 100 * np.clip(reach, 0, None)


def _label_axes(
  figure: matplotlib.figure.Figure,
  axes: matplotlib.axes.Axes,
  label: str,
  title: str,
  num_systems: int,
) -> None:
  axes.set_xlabel(label)
  axes.set_ylabel("accuracy in %, 95 % interval")
  axes.set_ylim(0, 105)
  axes.set_yticks(range(0, 101, 20))
  axes.set_title(title)
  output.style_frame(axes)
  if num_systems > 1:
    figure.legend(
      loc="outside lower center",
      ncols=min(num_systems, _MAX_LEGEND_COLUMNS),
      frameon=False,
    )
