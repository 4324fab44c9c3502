"""Tables of results, for the terminal, files and the README.

`evaluate` prints and saves its tables through this module. From the command
line it renews the tables of a README from the files of `evaluation.results`,
so no number there is typed. They stand between

  <!-- table:NAME key=value ... -->
  <!-- end -->

where NAME is a view (see `VIEWS`) and keys narrow it down; the keys are
dataset, system, track, score_mode, split, mode, family, source, metrics and
columns (family or mode, for tables of one metric that have these as columns).
Several values of one key are separated by commas, values with a space are
quoted (source="Table 1").
Rows measured here have the source "". The view `families`
has a table for each family of the paper's text; family=point,window asks for
those of the release.

  python -m ctd_jax.evaluation.result_tables --readme=README.md
  python -m ctd_jax.evaluation.result_tables --readme=README.md --check
"""

from __future__ import annotations

import pathlib
import re
import shlex
import sys
import unicodedata
from collections.abc import Sequence

from absl import app, flags

from ctd_jax.chronology import timelines
from ctd_jax.evaluation import protocol
from ctd_jax.evaluation.results import (
  VOCABULARIES,
  ResultRow,
  read_folder,
  select,
)
from ctd_jax.utils import files

DEFAULT_METRICS = ("hit@1", "hit@5", "hit@10", "mrr@10", "ndcg@10")

# What a marker selects where it does not say otherwise.
_OFFICIAL = {
  "split": "test",
  "mode": protocol.OFFICIAL,
  "family": "all",
  "metrics": ",".join(DEFAULT_METRICS),
}
_BOTH = {**_OFFICIAL, "mode": f"{protocol.OFFICIAL},{protocol.EVENT_ONLY}"}
VIEWS = {
  "official": _OFFICIAL,
  "event_only": {**_OFFICIAL, "mode": protocol.EVENT_ONLY},
  "families": {**_OFFICIAL, "family": "event_point,gap,window"},
  "modes": {
    **_OFFICIAL,
    "mode": ",".join(protocol.MODES),
    "metrics": "hit@1",
    "columns": "mode",
  },
  "mini": {**_BOTH, "dataset": "chunqiutr/mini"},
  "rebuilt": {**_BOTH, "dataset": "chunqiutr/rebuilt"},
  "published": {
    **_OFFICIAL,
    "dataset": "chunqiutr/release",
    "source": "Table 1",
  },
  "dating": {
    "dataset": "dating/chunqiutr/rebuilt",
    "split": "test",
    "metrics": "month,within_1,year,nll,ece",
  },
  "validity": {
    **_OFFICIAL,
    "mode": "honest",
    "score_mode": "z",
    "metrics": "mse,mae,r2,spearman,pearson",
  },
  "ctm": {
    "dataset": "ctm/qa",
    "split": "test",
    "metrics": "accuracy",
    "columns": "family",
  },
  "ito": {
    "dataset": "ctm/ito",
    "split": "test",
    "metrics": "pass@1,pass@3,pass@8",
  },
}
# What the tables of a place have in common; one of it makes the columns.
_PLACE = ("dataset", "split", "mode", "family", "metric", "track")
_KEYS = (
  "dataset",
  "system",
  "track",
  "score_mode",
  "split",
  "mode",
  "family",
  "source",
  "metrics",
  "columns",
)
_MARKED = re.compile(
  r"(?P<open><!-- table:(?P<name>\S+)(?P<keys>[^>]*?) *-->\n)"
  r"(?P<body>.*?)(?P<close><!-- end -->)",
  re.DOTALL,
)
TRACK_NOTES = {
  "T0": "text only",
  "T0+external": "text, also from outside the gallery",
  "T0+order": "text and the order of records in their source",
  "T1": "time keys of the records given",
  "closed_book": "the question only",
  "open_book": "passages found for the question",
  "facts": "the dates of what is asked about",
  "distractor_facts": "these dates among others",
}

# Rulers' names as the literature in Latin script gives them.
_PINYIN = {
  "隱": "Yin",
  "桓": "Huan",
  "莊": "Zhuang",
  "閔": "Min",
  "僖": "Xi",
  "文": "Wen",
  "宣": "Xuan",
  "成": "Cheng",
  "襄": "Xiang",
  "昭": "Zhao",
  "定": "Ding",
  "哀": "Ai",
  "懷": "Huai",
  "昌": "Chang",
  "惠": "Hui",
  "平": "Ping",
}
# Okabe and Ito's colours, told apart with any colour vision and in print.
COLOURS = (
  "#0072B2",
  "#E69F00",
  "#009E73",
  "#CC79A7",
  "#56B4E9",
  "#D55E00",
  "#000000",
)


def format_table(
  rows: Sequence[ResultRow],
  metrics: Sequence[str] = DEFAULT_METRICS,
  markdown: bool = False,
  intervals: bool = False,
  columns: str = "metric",
) -> str:
  """Returns tables of systems by metrics, aligned or in Markdown.

  Every dataset, split, mode, family and track has a table of its own, since
  figures of different tracks must not be ranked together. Systems keep the
  order of `rows`.

  Args:
    rows: to show.
    metrics: columns; families or modes if `columns` says so.
    markdown: whether to write Markdown instead of aligned columns.
    intervals: whether to show low and high where they are known.
    columns: metric; or family or mode, for tables of one metric each.

  Raises:
    ValueError: if two rows claim the same cell.
  """
  blocks: dict[tuple[str, ...], dict[tuple[str, ...], dict]] = {}
  for row in rows:
    column = getattr(row, columns)
    if column not in metrics:
      continue
    place = tuple(getattr(row, key) for key in _PLACE if key != columns)
    line = (row.system, row.score_mode, row.source)
    cells = blocks.setdefault(place, {}).setdefault(line, {})
    if column in cells:
      raise ValueError(
        f"two results for {' '.join(place + line)} {column}; give the "
        "systems different names"
      )
    cells[column] = _cell(row, intervals)
  layout = markdown_table if markdown else aligned_table
  parts = []
  # Blocks of one heading stand together, whatever the order of the rows.
  first = {place[:4]: index for index, place in reversed([*enumerate(blocks)])}
  for place in sorted(blocks, key=lambda place: (first[place[:4]], place[4])):
    lines = blocks[place]
    published = any(source for _, _, source in lines)
    header = ["system", "score", *metrics, *["source"] * published]
    body = [
      [
        *line[:2],
        *(cells.get(metric, "") for metric in metrics),
        *[line[2] or "measured here"] * published,
      ]
      for line, cells in lines.items()
    ]
    parts.append(layout(_title(place, columns), header, body))
  return "\n".join(parts)


def _title(place: Sequence[str], columns: str) -> str:
  """Returns what stands over the table of a place."""
  named = dict(
    zip((key for key in _PLACE if key != columns), place, strict=True)
  )
  if "family" in named and named["dataset"].split("/")[0] not in VOCABULARIES:
    named["family"] += " queries"
  track = named.pop("track")
  if track in TRACK_NOTES:
    track += f" ({TRACK_NOTES[track]})"
  return f"{', '.join(named.values())}; track {track}"


def _cell(row: ResultRow, intervals: bool) -> str:
  text = f"{row.value:.4f}"
  if intervals and row.low is not None and row.high is not None:
    text += f" [{row.low:.3f}, {row.high:.3f}]"
  return text


def aligned_table(
  title: str, header: Sequence[str], body: Sequence[Sequence[str]]
) -> str:
  """Returns a table whose columns align in a terminal."""
  table = [header, *body]
  widths = [
    max(map(display_width, column)) for column in zip(*table, strict=True)
  ]
  lines = [
    "  ".join(map(_pad, line, widths)).rstrip() for line in (header, *body)
  ]
  rule = "-" * (sum(widths) + 2 * len(widths) - 2)
  return "\n".join([title, rule, lines[0], rule, *lines[1:], rule, ""])


def display_width(text: str) -> int:
  """Returns the columns of a terminal that `text` takes; a Han character 2."""
  return sum(
    0
    if unicodedata.combining(character)
    else 1 + (unicodedata.east_asian_width(character) in "WF")
    for character in text
  )


def _pad(text: str, width: int) -> str:
  return text + " " * (width - display_width(text))


def markdown_table(
  title: str, header: Sequence[str], body: Sequence[Sequence[str]]
) -> str:
  """Returns a Markdown table under its title."""
  # Figures to the right, words to the left.
  rule = [":--" if name in _LEFT else "--:" for name in header]
  lines = ["| " + " | ".join(line) + " |" for line in (header, rule, *body)]
  return "\n".join([f"**{title}**", "", *lines, ""])


_LEFT = ("system", "score", "source", "questions", "task", "measure", "games")


def reign_labels(timeline: timelines.Timeline) -> list[str]:
  """Returns a label in Latin letters for every reign, in order.

  A name that has no known spelling becomes its number, e.g. `reign 3`.
  """
  return [
    _PINYIN.get(reign.name.removesuffix("公"), f"reign {number}")
    for number, reign in enumerate(timeline.reigns, start=1)
  ]


def fill_tables(text: str, rows: Sequence[ResultRow], name: str) -> str:
  """Returns a Markdown text with every marked table made anew from `rows`.

  Args:
    text: the whole file.
    rows: all results.
    name: of the file, for messages.

  Raises:
    ValueError: naming file and line, if a marker is never closed, its name or
      a key is unknown, or it selects nothing.
  """

  def fill(match: re.Match) -> str:
    line = text.count("\n", 0, match.start()) + 1
    table = _view(rows, match["name"], match["keys"], f"{name}:{line}")
    return f"{match['open']}\n{table}\n{match['close']}"

  opened = text.count("<!-- table:")
  if opened != len(_MARKED.findall(text)):
    raise ValueError(f"{name}: a <!-- table:... --> has no <!-- end -->")
  return _MARKED.sub(fill, text)


def _view(rows: Sequence[ResultRow], name: str, keys: str, place: str) -> str:
  if name not in VIEWS:
    raise ValueError(
      f"{place}: table {name!r} is not one of {', '.join(VIEWS)}"
    )
  wanted = dict(VIEWS[name])
  for item in shlex.split(keys):
    key, equals, value = item.partition("=")
    if key not in _KEYS or not equals:
      raise ValueError(
        f"{place}: {item!r} is not key=value with a key among "
        f"{', '.join(_KEYS)}"
      )
    wanted[key] = value
  metrics = wanted.pop("metrics", ",".join(DEFAULT_METRICS)).split(",")
  columns = wanted.pop("columns", "metric")
  chosen = [row for row in select(rows, **wanted) if row.metric in metrics]
  if not chosen:
    raise ValueError(f"{place}: no result has {wanted} and {metrics}")
  # Tables and their lines stand as the marker lists modes and systems.
  modes, systems = (wanted.get(k, "").split(",") for k in ("mode", "system"))
  chosen.sort(
    key=lambda row: (_rank(row.mode, modes), _rank(row.system, systems))
  )
  shown = metrics
  if columns != "metric":
    named = wanted[columns].split(",") if columns in wanted else ()
    found = dict.fromkeys(getattr(row, columns) for row in chosen)
    shown = named or list(found)
  return format_table(
    chosen, shown, markdown=True, intervals=True, columns=columns
  )


def _rank(name: str, listed: Sequence[str]) -> int:
  """Returns the place of a name in a list, past its end if it is not there."""
  return listed.index(name) if name in listed else len(listed)


def main(argv: Sequence[str]) -> None:
  """Renews or checks the tables of a README."""
  if len(argv) > 1:
    raise app.UsageError(f"unexpected argument {argv[1]!r}")
  path = pathlib.Path(flags.FLAGS.readme)
  folder = flags.FLAGS.results or path.parent / "tests" / "results"
  before = path.read_text(encoding="utf-8")
  try:
    after = fill_tables(before, read_folder(folder), str(path))
  except (FileNotFoundError, ValueError) as error:
    sys.exit(f"error: {error}")
  if before == after:
    print(f"{path}: tables agree with {folder}")
  elif flags.FLAGS.check:
    sys.exit(
      f"error: tables of {path} differ from {folder}; run python -m "
      f"ctd_jax.evaluation.result_tables --readme={path}"
    )
  else:
    files.write_text(path, after)
    print(f"{path}: tables made anew from {folder}")


if __name__ == "__main__":
  # Not at import: `train` and `evaluate` import this module and have flags of
  # their own.
  flags.DEFINE_string(
    "readme", None, "Markdown file to renew. Example: --readme=README.md"
  )
  flags.DEFINE_string(
    "results",
    None,
    "folder of result files; tests/results beside the README by default. "
    "Example: --results=tests/results",
  )
  flags.DEFINE_bool(
    "check", False, "change nothing, fail if a table is stale. Example: --check"
  )
  flags.mark_flag_as_required("readme")
  app.run(main)
