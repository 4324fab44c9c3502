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

from ctd_jax.evaluation.result_tables import COLOURS, markdown_table
from ctd_jax.evaluation.results import VOCABULARIES, ResultRow
from ctd_jax.evaluation.significance import Share
from ctd_jax.tasks.ctm.judge import UNDECIDED, UNPARSED, Verdict
from ctd_jax.utils import files
from ctd_jax_datasets.ctm.questions import LSEC, TASKS, Question
from ctd_jax_datasets.ctm.quotas import BUCKETS, bucket

Graded = Sequence[tuple[Question, Verdict]]
ALL = "all"


def accuracies(graded: Graded) -> dict[str, Share]:
  """Returns family -> accuracy: types, then relation counts, then all.

  Types and the average are over listed questions, relation counts over all, as
  in the paper's table.
  """
  groups: dict[str, list[bool]] = collections.defaultdict(list)
  for question, verdict in graded:
    if question.listed:
      groups[question.task].append(verdict.correct)
      groups[ALL].append(verdict.correct)
    if question.task != LSEC:
      groups[bucket(question.task, len(question.relations))].append(
        verdict.correct
      )
  order = dict.fromkeys((*TASKS, *BUCKETS, ALL))
  return {
    name: Share(sum(groups[name]), len(groups[name]))
    for name in order
    if groups[name]
  }


def by_distance(graded: Graded, field: str) -> dict[int, Share]:
  """Returns periods apart -> accuracy, over questions with two relations.

  Args:
    graded: questions with verdicts.
    field: nearest or widest, of `Question.distance`.
  """
  groups: dict[int, list[bool]] = collections.defaultdict(list)
  for question, verdict in graded:
    if len(question.relations) > 1:
      apart = getattr(question.distance, field)
      groups[apart].append(verdict.correct)
  return {
    apart: Share(sum(found), len(found))
    for apart, found in sorted(groups.items())
  }


def finer(graded: Graded) -> dict[tuple[str, str], tuple[float, int]]:
  """Returns (task, measure) -> (mean, answers that have it)."""
  groups: dict[tuple[str, str], list[float]] = collections.defaultdict(list)
  for question, verdict in graded:
    for name, value in verdict.measures.items():
      groups[question.task, name].append(value)
  return {
    key: (float(np.mean(found)), len(found))
    for key, found in sorted(groups.items(), key=lambda item: item[0])
  }


def sources(graded: Graded) -> dict[str, collections.Counter[str]]:
  """Returns task -> source of verdict -> how many."""
  counts: dict[str, collections.Counter[str]] = {}
  for question, verdict in graded:
    counts.setdefault(question.task, collections.Counter())[verdict.source] += 1
  return {task: counts[task] for task in TASKS if task in counts}


def text(graded: Graded, name: str, notes: Mapping[str, object]) -> str:
  """Returns the report in Markdown.

  Args:
    graded: questions with verdicts.
    name: of the system.
    notes: what else to tell, e.g. cost; name -> value.
  """
  found = accuracies(graded)
  parts = [f"# {name}: {len(graded)} questions", ""]
  parts += [f"- {key}: {value}" for key, value in notes.items()]
  rows = [[k, str(v.hits), str(v.total), str(v)] for k, v in found.items()]
  head = ["questions", "right", "of", "accuracy in % [95 %]"]
  parts += ["", markdown_table("Accuracy (all: listed types)", head, rows)]
  for field in ("nearest", "widest"):
    rows = [
      [str(k), str(v.hits), str(v.total), str(v)]
      for k, v in by_distance(graded, field).items()
    ]
    title = f"By periods between the relations ({field} pair)"
    parts.append(markdown_table(title, ["periods", *head[1:]], rows))
  rows = [
    [task, measure, f"{mean:.4f}", str(count)]
    for (task, measure), (mean, count) in finer(graded).items()
  ]
  head = ["task", "measure", "mean", "answers"]
  parts.append(markdown_table("Finer measures", head, rows))
  shares = sources(graded)
  names = sorted({source for count in shares.values() for source in count})
  rows = [
    [task, *(str(count[source]) for source in names)]
    for task, count in shares.items()
  ]
  parts.append(markdown_table("Verdicts by source", ["task", *names], rows))
  return "\n".join(parts)


def summary(graded: Graded, name: str) -> str:
  """Returns accuracies by type and number of relations in aligned lines."""
  lines = [f"{name}, accuracy in % [95 % Wilson interval]"]
  lines += [
    f"  {family:<5} n={share.total:<5} {share}"
    for family, share in accuracies(graded).items()
  ]
  unsure = sum(v.source in (UNDECIDED, UNPARSED) for _, v in graded)
  return "\n".join([*lines, f"  undecided or unparsed: {unsure}"])


def rows(graded: Graded, **about) -> list[ResultRow]:
  """Returns accuracies and finer measures as result rows.

  Args:
    graded: questions with verdicts.
    **about: fields of the rows that are the same for all.
  """
  found = []
  for family, share in accuracies(graded).items():
    ends = share.interval
    found.append(
      ResultRow(
        **about,
        family=family,
        metric="accuracy",
        value=share.value,
        low=ends[0],
        high=ends[1],
      )
    )
  for (task, measure), (mean, _) in finer(graded).items():
    if measure in VOCABULARIES["ctm"]["metric"]:
      found.append(ResultRow(**about, family=task, metric=measure, value=mean))
  return found


def plot_bars(
  systems: Mapping[str, Mapping[str, Share]],
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
  shown = [f for f in families if any(f in found for found in systems.values())]
  figure = matplotlib.figure.Figure(figsize=(8, 4.2), layout="constrained")
  axes = figure.add_subplot()
  width = 0.8 / len(systems)
  for place, (name, found) in enumerate(systems.items()):
    at = np.arange(len(shown)) + (place - (len(systems) - 1) / 2) * width
    kept = [(x, found[f]) for x, f in zip(at, shown, strict=True) if f in found]
    axes.bar(
      [x for x, _ in kept],
      [100 * share.value for _, share in kept],
      width,
      yerr=_errors([share for _, share in kept]),
      label=name,
      color=COLOURS[place % len(COLOURS)],
      error_kw={"lw": 1, "capsize": 2},
    )
  first = next(iter(systems.values()))
  ticks = [f"{f}\nn={first[f].total}" if f in first else f for f in shown]
  axes.set_xticks(range(len(shown)), ticks)
  _dress(figure, axes, label, title, len(systems))
  files.write_figure(path, figure)


def plot_curve(
  systems: Mapping[str, Mapping[int, Share]],
  label: str,
  title: str,
  path: pathlib.Path,
) -> None:
  """Writes a PNG of accuracy by a number, with intervals as bars."""
  figure = matplotlib.figure.Figure(figsize=(7, 4.2), layout="constrained")
  axes = figure.add_subplot()
  for place, (name, found) in enumerate(systems.items()):
    axes.errorbar(
      [x + 0.06 * (place - (len(systems) - 1) / 2) for x in found],
      [100 * share.value for share in found.values()],
      yerr=_errors(list(found.values())),
      label=name,
      color=COLOURS[place % len(COLOURS)],
      marker="o",
      capsize=2,
      lw=1.2,
      ms=4,
    )
  every = sorted({x for found in systems.values() for x in found})
  first = next(iter(systems.values()))
  ticks = [f"{x}\nn={first[x].total}" if x in first else f"{x}" for x in every]
  axes.set_xticks(every, ticks)
  _dress(figure, axes, label, title, len(systems))
  files.write_figure(path, figure)


def _errors(shares: Sequence[Share]) -> np.ndarray:
  """Returns how far the intervals reach below and above, in percent."""
  ends = np.array([share.interval for share in shares]).reshape(-1, 2).T
  values = np.array([share.value for share in shares])
  reach = np.stack([values - ends[0], ends[1] - values])
  return 100 * np.clip(reach, 0, None)


def _dress(figure, axes, label: str, title: str, systems: int) -> None:
  axes.set_xlabel(label)
  axes.set_ylabel("accuracy in %, 95 % interval")
  axes.set_ylim(0, 105)
  axes.set_yticks(range(0, 101, 20))
  axes.set_title(title)
  axes.yaxis.grid(True, color="0.85")
  axes.set_axisbelow(True)
  axes.spines[["top", "right"]].set_visible(False)
  if systems > 1:
    figure.legend(
      loc="outside lower center", ncols=min(systems, 4), frameon=False
    )


def write(
  folder: pathlib.Path,
  systems: Mapping[str, Graded],
  notes: Mapping[str, Mapping[str, object]],
) -> None:
  """Writes report.md and three plots of one system or several.

  Args:
    folder: of the files.
    systems: name -> questions with verdicts.
    notes: name -> what else to tell of it.
  """
  found = {name: accuracies(graded) for name, graded in systems.items()}
  parts = [text(graded, name, notes[name]) for name, graded in systems.items()]
  pictures = (
    ("by_type.png", "accuracy by type"),
    ("by_relations.png", "accuracy by number of relations"),
    ("by_distance.png", "accuracy by periods between the widest apart"),
  )
  parts += [f"![{title}]({name})\n" for name, title in pictures]
  who = f"{next(iter(systems))}: " if len(systems) == 1 else ""
  plot_bars(
    found,
    (*TASKS, ALL),
    "type (n = questions)",
    f"{who}accuracy by type",
    folder / pictures[0][0],
  )
  plot_bars(
    found,
    BUCKETS,
    "relations needed (n = questions)",
    f"{who}accuracy by number of relations",
    folder / pictures[1][0],
  )
  plot_curve(
    {name: by_distance(graded, "widest") for name, graded in systems.items()},
    "periods between the relations widest apart (n = questions)",
    f"{who}accuracy by distance on the timeline",
    folder / pictures[2][0],
  )
  files.write_text(folder / "report.md", "\n".join(parts))
