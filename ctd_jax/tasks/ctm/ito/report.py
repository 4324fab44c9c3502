"""Report of games: Pass@K beside guessing, kinds of error, rank tau.

A share of games won is shown only beside the probability with which guessers
win.
"""

from __future__ import annotations

import pathlib
from collections.abc import Mapping, Sequence

import matplotlib.figure
import numpy as np

from ctd_jax.evaluation.results import ResultRow
from ctd_jax.tasks.ctm.ito import agents, game, scores
from ctd_jax.utils import plotting, tables
from ctd_jax.utils.plotting import COLOURS

SEATS_PER_LEVEL = {"easy": 3, "medium": 4, "hard": 5}
ALL_LEVELS = "all"
# Guesser -> its line in the table.
_GUESSER_TITLES = {
  agents.RandomGuesser: "guessing, right seats locked",
  agents.PermutationGuesser: "one random order a round",
  agents.EliminationGuesser: "no refuted rank again",
  agents.JointPermutationGuesser: "joint consistent order",
}


def group_by_level(states: Sequence[game.State]) -> dict[str, list[game.State]]:
  """Returns level -> games, last all games."""
  games_by_level = {
    level: [state for state in states if state.instance.level == level]
    for level in SEATS_PER_LEVEL
  }
  nonempty_levels = {
    level: games for level, games in games_by_level.items() if games
  }
  return {**nonempty_levels, ALL_LEVELS: list(states)}


def available_cutoffs(states: Sequence[game.State]) -> list[int]:
  """Returns the K of Pass@K for which the games have enough rounds."""
  # A game that was won early counts for any K; the budget is what matters.
  rounds = min(len(state.themes) for state in states)
  return [k for k in scores.CUTOFFS if k <= rounds]


def guesser_win_probability(
  guesser_class: type[agents.Guesser], level: str, rounds: int
) -> float:
  """Returns the win probability of a guesser; for all, the mean of levels."""
  levels = [level] if level != ALL_LEVELS else list(SEATS_PER_LEVEL)
  probabilities = [
    scores.WIN_PROBABILITIES[guesser_class](SEATS_PER_LEVEL[name], rounds)
    for name in levels
  ]
  return float(np.mean(probabilities))


def format_report(
  name: str,
  states: Sequence[game.State],
  turns: Sequence[Mapping[str, object]],
  notes: Mapping[str, object],
) -> str:
  """Returns the report in Markdown.

  Args:
    name: name of the agent.
    states: last states of the games.
    turns: turns of all games, see `play.FinishedGame`.
    notes: name -> value of further notes.
  """
  pass_cutoffs = available_cutoffs(states)
  rows = []
  for level, games in group_by_level(states).items():
    shares = [str(scores.pass_at_k(games, k)) for k in pass_cutoffs]
    rows.append([f"{level}, n={len(games)}", *shares])
    rows += [
      [
        f"{level}: {guesser_title}",
        *(
          f"{100 * guesser_win_probability(guesser_class, level, k):.1f}"
          for k in pass_cutoffs
        ),
      ]
      for guesser_class, guesser_title in _GUESSER_TITLES.items()
    ]
  header = ["games", *(f"Pass@{k} in %" for k in pass_cutoffs)]
  blocks = [f"# {name}: {len(states)} games", ""]
  blocks += [f"- {key}: {value}" for key, value in notes.items()]
  blocks.append(f"- mean rounds played: {scores.mean_rounds(states):.2f}")
  num_repairs = sum(len(turn["replies"]) - 1 for turn in turns)
  blocks.append(
    f"- replies asked for again: {num_repairs} in {len(turns)} turns"
  )
  num_leaks = sum(bool(turn["leaked"]) for turn in turns)
  blocks += [f"- reasons struck out as leaks: {num_leaks}", ""]
  title = "Games won, 95 % Wilson intervals, above what guessing reaches"
  blocks.append(tables.format_table(title, header, rows, markdown=True))
  blocks.append(_format_errors(states))
  rows = [
    [str(number), f"{tau:.3f}", str(count)]
    for number, (tau, count) in scores.mean_rank_tau(states).items()
  ]
  header = ["round", "mean tau-b", "of games"]
  blocks.append(tables.format_table("Ranks against truth", header, rows, True))
  return "\n".join(blocks)


def format_summary(name: str, states: Sequence[game.State]) -> str:
  """Returns Pass@K by level, beside random guessing, in aligned lines."""
  lines = [f"{name}, games won in % [95 % Wilson interval], (guessing)"]
  for level, games in group_by_level(states).items():
    cells = [
      f"Pass@{k} {scores.pass_at_k(games, k)} "
      f"({100 * guesser_win_probability(agents.RandomGuesser, level, k):.1f})"
      for k in available_cutoffs(states)
    ]
    lines.append(f"  {level:<6} n={len(games):<5} {'  '.join(cells)}")
  return "\n".join(lines)


def _format_errors(states: Sequence[game.State]) -> str:
  error_counts = scores.count_errors(states)
  rows = [
    [
      "period not known",
      str(error_counts.unknown),
      str(error_counts.described),
    ],
    [
      "item is not the believed period's",
      str(error_counts.items),
      str(error_counts.described),
    ],
    [
      "rank is not what the items say",
      str(error_counts.inferred),
      str(error_counts.ranked),
    ],
    ["nothing said that counts", str(error_counts.silent), ""],
  ]
  return tables.format_table(
    "Kinds of error", ["measure", "wrong", "of"], rows, markdown=True
  )


def make_result_rows(
  states: Sequence[game.State], **row_fields
) -> list[ResultRow]:
  """Returns Pass@K by level as result rows."""
  return [
    ResultRow(
      **row_fields,
      family=level,
      metric=f"pass@{k}",
      value=share.ratio,
      low=share.interval[0],
      high=share.interval[1],
    )
    for level, games in group_by_level(states).items()
    for k in available_cutoffs(states)
    for share in (scores.pass_at_k(games, k),)
  ]


def plot_passes(
  name: str, states: Sequence[game.State], path: pathlib.Path
) -> None:
  """Writes a PNG of games won by round and level, beside random guessing.

  Args:
    name: name of the agent.
    states: last states of the games.
    path: path of the PNG.
  """
  figure = matplotlib.figure.Figure(figsize=(8, 4.2), layout="constrained")
  axes = figure.add_subplot()
  rounds = range(1, min(len(state.themes) for state in states) + 1)
  for level_index, (level, games) in enumerate(group_by_level(states).items()):
    colour = COLOURS[level_index]
    shares = [scores.pass_at_k(games, k) for k in rounds]
    # [rounds, 2] -> two arrays of ends.
    low, high = np.array([share.interval for share in shares]).T
    values = 100 * np.array([share.ratio for share in shares])
    axes.errorbar(
      # Levels are shifted, so that their intervals stay apart.
      np.array(rounds) + 0.05 * (level_index - 1.5),
      values,
      # Rounding can put the end of an interval past a share of 0 or 1.
      yerr=np.clip([values - 100 * low, 100 * high - values], 0, None),
      color=colour,
      marker="o",
      ms=4,
      lw=1.2,
      capsize=2,
      label=f"{level}, n={len(games)}",
    )
    axes.plot(
      rounds,
      [
        100 * guesser_win_probability(agents.RandomGuesser, level, k)
        for k in rounds
      ],
      color=colour,
      ls=":",
    )
  # An empty line: one entry of the legend for all dotted lines.
  axes.plot([], [], color="0.4", ls=":", label="guessing, right seats locked")
  axes.set_xlabel("rounds allowed, K")
  axes.set_ylabel("games won within K rounds in %")
  axes.set_ylim(-2, 102)
  axes.set_xticks(list(rounds))
  axes.set_title(f"{name}: Pass@K with 95 % intervals")
  axes.grid(True, color="0.9")
  axes.set_axisbelow(True)
  axes.spines[["top", "right"]].set_visible(False)
  figure.legend(loc="outside right upper", frameon=False)
  plotting.write_figure(path, figure)
