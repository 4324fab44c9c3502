"""What games came to: Pass@K beside the chance lines, errors, rank tau.

Why: see `scores`; a share of games won is shown only beside what guessing
reaches. Called by `python -m ctd_jax.tasks.ctm ito`.
"""

from __future__ import annotations

import pathlib
from collections.abc import Mapping, Sequence

import matplotlib.figure
import numpy as np

from ctd_jax.evaluation.result_tables import COLOURS, markdown_table
from ctd_jax.evaluation.results import ResultRow
from ctd_jax.tasks.ctm.ito import agents, game, scores
from ctd_jax.utils import files

SEATS = {"easy": 3, "medium": 4, "hard": 5}
ALL = "all"
_LINES = {
  agents.Random: "guessing, right seats locked",
  agents.Permutation: "one random order a round",
  agents.Elimination: "no refuted rank again",
  agents.JointPermutation: "joint consistent order",
}


def by_level(states: Sequence[game.State]) -> dict[str, list[game.State]]:
  """Returns level -> games, then all."""
  found = {
    level: [s for s in states if s.instance.level == level] for level in SEATS
  }
  kept = {level: games for level, games in found.items() if games}
  return {**kept, ALL: list(states)}


def cutoffs(states: Sequence[game.State]) -> list[int]:
  """Returns the K of Pass@K that the games have rounds for."""
  rounds = min(len(state.themes) for state in states)
  return [k for k in scores.CUTOFFS if k <= rounds]


def chance(agent: type[agents.Guesser], level: str, rounds: int) -> float:
  """Returns a guesser's chance to win; over all, the mean of the levels."""
  levels = [level] if level != ALL else list(SEATS)
  found = [scores.CHANCE[agent](SEATS[name], rounds) for name in levels]
  return float(np.mean(found))


def text(
  name: str,
  states: Sequence[game.State],
  turns: Sequence[Mapping[str, object]],
  notes: Mapping[str, object],
) -> str:
  """Returns the report in Markdown.

  Args:
    name: of the agent.
    states: of games that are over.
    turns: of all games, see `play.Game`.
    notes: what else to tell; name -> value.
  """
  wanted = cutoffs(states)
  rows = []
  for level, games in by_level(states).items():
    shares = [str(scores.pass_at(games, k)) for k in wanted]
    rows.append([f"{level}, n={len(games)}", *shares])
    rows += [
      [
        f"{level}: {line}",
        *(f"{100 * chance(agent, level, k):.1f}" for k in wanted),
      ]
      for agent, line in _LINES.items()
    ]
  head = ["games", *(f"Pass@{k} in %" for k in wanted)]
  parts = [f"# {name}: {len(states)} games", ""]
  parts += [f"- {key}: {value}" for key, value in notes.items()]
  parts.append(f"- mean rounds played: {scores.expected_rounds(states):.2f}")
  repaired = sum(len(turn["replies"]) - 1 for turn in turns)
  parts.append(f"- replies asked for again: {repaired} in {len(turns)} turns")
  leaked = sum(bool(turn["leaked"]) for turn in turns)
  parts += [f"- reasons struck out as leaks: {leaked}", ""]
  title = "Games won, 95 % Wilson intervals, above what guessing reaches"
  parts.append(markdown_table(title, head, rows))
  parts.append(_errors(states))
  rows = [
    [str(number), f"{tau:.3f}", str(count)]
    for number, (tau, count) in scores.rank_tau(states).items()
  ]
  head = ["round", "mean tau-b", "of games"]
  parts.append(markdown_table("Ranks against truth", head, rows))
  return "\n".join(parts)


def summary(name: str, states: Sequence[game.State]) -> str:
  """Returns Pass@K by level beside locked guessing, in aligned lines."""
  lines = [f"{name}, games won in % [95 % Wilson interval], (guessing)"]
  for level, games in by_level(states).items():
    cells = [
      f"Pass@{k} {scores.pass_at(games, k)} "
      f"({100 * chance(agents.Random, level, k):.1f})"
      for k in cutoffs(states)
    ]
    lines.append(f"  {level:<6} n={len(games):<5} {'  '.join(cells)}")
  return "\n".join(lines)


def _errors(states: Sequence[game.State]) -> str:
  found = scores.errors(states)
  rows = [
    ["period not known", str(found.unknown), str(found.described)],
    [
      "item is not the believed period's",
      str(found.items),
      str(found.described),
    ],
    ["rank is not what the items say", str(found.inferred), str(found.ranked)],
    ["nothing said that counts", str(found.silent), ""],
  ]
  return markdown_table("Kinds of error", ["measure", "wrong", "of"], rows)


def rows(states: Sequence[game.State], **about) -> list[ResultRow]:
  """Returns Pass@K by level as result rows."""
  return [
    ResultRow(
      **about,
      family=level,
      metric=f"pass@{k}",
      value=share.value,
      low=share.interval[0],
      high=share.interval[1],
    )
    for level, games in by_level(states).items()
    for k in cutoffs(states)
    for share in (scores.pass_at(games, k),)
  ]


def plot_passes(
  name: str, states: Sequence[game.State], path: pathlib.Path
) -> None:
  """Writes a PNG of games won by round and level, beside locked guessing."""
  figure = matplotlib.figure.Figure(figsize=(8, 4.2), layout="constrained")
  axes = figure.add_subplot()
  rounds = range(1, min(len(state.themes) for state in states) + 1)
  for place, (level, games) in enumerate(by_level(states).items()):
    colour = COLOURS[place]
    shares = [scores.pass_at(games, k) for k in rounds]
    low, high = np.array([share.interval for share in shares]).T
    values = 100 * np.array([share.value for share in shares])
    axes.errorbar(
      np.array(rounds) + 0.05 * (place - 1.5),
      values,
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
      [100 * chance(agents.Random, level, k) for k in rounds],
      color=colour,
      ls=":",
    )
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
  files.write_figure(path, figure)
