"""Tables of results, for the terminal, files and Markdown pages.

  python -m ctd_jax.evaluation.result_tables --readme=README.md
  python -m ctd_jax.evaluation.result_tables \\
    --readme=README.md,docs/results/retrieval.md --check

The command updates the tables of Markdown files from the result files, so that
no number there is typed by hand. `evaluate` also prints and saves its tables
through this module. A table stands between

  <!-- table:NAME key=value ... -->
  <!-- end -->

where NAME is a view (see `VIEWS`) and keys narrow it down. The keys are
dataset, system, track, score_mode, split, mode, family, source, file (if a
system was measured by several protocols, each in its own file), metrics and
columns (family or mode, for tables of one metric that have these as columns).
Separate several values of one key by commas; quote values with a space
(source="Table 1"). Rows measured here have the source "". The view `families`
has a table for each family of the paper's text; family=point,window selects
those of the release. The table `comparisons` shows paired tests; its keys are
group, dataset, mode, measure, system and other_system. A table whose file or
group has no rows yet says so, since it must stand on the page before
`all_results --collect` keeps its rows.

Rows contain the names of modes; tables show their titles in words.
"""

import pathlib
import re
import shlex
import sys
from collections.abc import Sequence

from absl import app, flags

from ctd_jax.benchmark import runs
from ctd_jax.evaluation import protocol, results
from ctd_jax.evaluation.results import (
  VOCABULARIES,
  ComparisonRow,
  FiledRow,
  ResultRow,
  read_result_folder,
  select_rows,
)
from ctd_jax.utils import command_line, files, output

DEFAULT_METRICS = ("hit@1", "hit@5", "hit@10", "mrr@10", "ndcg@10")

# Fields that a marker selects unless its keys say otherwise.
_OFFICIAL_VIEW = {
  "split": "test",
  "mode": protocol.OFFICIAL_MODE,
  "family": "all",
  "metrics": ",".join(DEFAULT_METRICS),
}
_BOTH_MODES_VIEW = {
  **_OFFICIAL_VIEW,
  "mode": f"{protocol.OFFICIAL_MODE},{protocol.EVENT_ONLY_MODE}",
}
VIEWS = {
  "official": _OFFICIAL_VIEW,
  "event_only": {**_OFFICIAL_VIEW, "mode": protocol.EVENT_ONLY_MODE},
  "families": {**_OFFICIAL_VIEW, "family": "event_point,gap,window"},
  "modes": {
    **_OFFICIAL_VIEW,
    "mode": ",".join(protocol.MODES),
    "metrics": "hit@1",
    "columns": "mode",
  },
  "mini": {**_BOTH_MODES_VIEW, "dataset": "chunqiutr/mini"},
  "rebuilt": {**_BOTH_MODES_VIEW, "dataset": "chunqiutr/rebuilt"},
  "published": {
    **_OFFICIAL_VIEW,
    "dataset": "chunqiutr/release",
    "source": "Table 1",
  },
  "dating": {
    "dataset": "dating/chunqiutr/rebuilt",
    "split": "test",
    "mode": "hidden_events",
    "metrics": "month,within_1,year,nll,ece",
  },
  "splits": {
    "dataset": "splits/chunqiutr/rebuilt",
    "split": "test",
    "mode": "published,mean,sd,lowest,highest",
    "family": "only_events",
    "metrics": "hit@1",
    "columns": "mode",
  },
  "audit": {
    "dataset": "audit/chunqiutr/rebuilt",
    "split": "test",
    "mode": "published,hidden,permuted,alone,undated,silent",
    "family": "only_events",
    "metrics": "hit@1",
    "columns": "mode",
  },
  "across": {
    "dataset": "across/tongjian,across/zuozhuan",
    "split": "test",
    "metrics": "month,year,near,nll,ece,coverage@90,size@90,texts",
  },
  "explanations": {
    "dataset": "explanations/chunqiutr/rebuilt",
    "split": "test",
    "metrics": "p,p_said,p_again,falls,within_.1,median",
  },
  "passages": {
    "dataset": "passages",
    "split": "all",
    "metrics": "first,year,month_named,month_right",
  },
  "cost": {
    "dataset": "cost/chunqiutr/rebuilt",
    "mode": "index",
    "family": "all",
    "metrics": "seconds,processor,gibibytes,disk,load",
  },
  "books": {
    "dataset": "books",
    "split": "test",
    "metrics": "sections,sure,judged,right@sure,right@unsure,lost,seconds,"
    "seconds/1000",
  },
  "conversions": {
    "dataset": "conversions",
    "split": "test",
    "metrics": "dates,right,ambiguous,unread,wrong",
  },
  "chronicles": {
    "dataset": "chronicles",
    "split": "test",
    "family": "heads",
    "metrics": "month",
    "columns": "mode",
  },
  "validity": {
    **_OFFICIAL_VIEW,
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
# Fields that all rows of one table share, except the one that makes columns.
_TABLE_FIELDS = ("dataset", "split", "mode", "family", "metric", "track")
_MARKER_KEYS = (
  *results.WIDE_COLUMNS,
  "source",
  "file",
  "metrics",
  "columns",
)
_UNMEASURED = "*Not measured yet.*\n"  # in the place of a table
_COMPARISONS = "comparisons"  # name of the table of paired tests
_COMPARISON_KEYS = (
  "group",
  "dataset",
  "mode",
  "measure",
  "system",
  "other_system",
)
# Metrics that count things.
_COUNTS = (
  *("sections", "lost", "dates", "agree", "right", "ambiguous", "unread"),
  *("wrong", "found", "resolved", "ours", "ours_right", "alike"),
  *("ours_alone", "sanmiao_alone"),
)
_TABLE_MARKER = re.compile(
  r"(?P<open><!-- table:(?P<name>\S+)(?P<keys>[^>]*?) *-->\n)"
  r"(?P<body>.*?)(?P<close><!-- end -->)",
  re.DOTALL,
)
TRACK_NOTES = {
  **{
    f"{track}{more}": f"text{more_note}{note}"
    for more, more_note in (
      ("", ""),
      (runs.EXTERNAL, ", also from outside the gallery"),
      (runs.ORDER, " and the order of records in their source"),
    )
    for track, note in (
      (runs.TEXTS, ""),
      (runs.TRAINED, "; keys of train records as training signal"),
      (runs.LOOKUP, "; keys of train records looked up while ranking"),
    )
  },
  runs.TEXTS: "text only",
  "T1": "time keys of the records given",
  "closed_book": "the question only",
  "open_book": "passages found for the question",
  "facts": "the question and the dates of its names",
  "distractor_facts": "these dates among others",
}


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
    metrics: names of the columns; families or modes if `columns` says so.
    intervals: whether to show low and high where a row has them.
    columns: "metric"; or "family" or "mode", for tables of one metric each.

  Raises:
    ValueError: if two rows claim the same cell.
  """
  blocks = _group_cells(rows, metrics, intervals, columns)
  # Tables that differ in the track alone are kept together, those that read
  # less first, whatever the order of the rows. The track is last of the key.
  first_index = {
    table_key[:-1]: index for index, table_key in reversed([*enumerate(blocks)])
  }
  return "\n".join(
    _format_block(table_key, blocks[table_key], metrics, markdown, columns)
    for table_key in sorted(
      blocks,
      key=lambda key: (
        first_index[key[:-1]],
        _position_in(key[-1], runs.TRACKS),
        key[-1],
      ),
    )
  )


# (system, score mode, source) -> column -> cell: the lines of one table.
_Lines = dict[tuple[str, str, str], dict[str, str]]


def _group_cells(
  rows: Sequence[ResultRow],
  metrics: Sequence[str],
  intervals: bool,
  columns: str,
) -> dict[tuple[str, ...], _Lines]:
  """Returns values of `_TABLE_FIELDS` -> lines of their table."""
  blocks: dict[tuple[str, ...], _Lines] = {}
  for row in rows:
    column = getattr(row, columns)
    if column not in metrics:
      continue
    table_key = tuple(
      getattr(row, field) for field in _TABLE_FIELDS if field != columns
    )
    line_key = (row.system, row.score_mode, row.source)
    cells = blocks.setdefault(table_key, {}).setdefault(line_key, {})
    if column in cells:
      raise ValueError(
        f"two results for {' '.join(table_key + line_key)} {column}; give the "
        "systems different names"
      )
    cells[column] = format_figure(row, intervals)
  return blocks


def _format_block(
  table_key: Sequence[str],
  lines: _Lines,
  metrics: Sequence[str],
  markdown: bool,
  columns: str,
) -> str:
  """Returns one table; its title has the fields that its rows share."""
  fields = [field for field in _TABLE_FIELDS if field != columns]
  shared = dict(zip(fields, table_key, strict=True))
  track = shared.pop("track")
  if track in TRACK_NOTES:
    track += f" ({TRACK_NOTES[track]})"
  parts = [f"track {track}"]
  if shared["dataset"].split("/")[0] not in VOCABULARIES:  # of retrieval
    if "mode" in shared:
      parts.insert(0, protocol.mode_title(shared.pop("mode")))
    family = shared.pop("family", "all")
    if family != "all":
      shared["family"] = (
        "those that only events answer"
        if family == protocol.ONLY_EVENTS
        else f"{family} queries"
      )
  # The column of sources appears where a published row is in the table.
  has_source = any(source for _, _, source in lines)
  body = [
    [
      system,
      score_mode,
      *(cells.get(metric, "") for metric in metrics),
      *[source or "measured here"] * has_source,
    ]
    for (system, score_mode, source), cells in lines.items()
  ]
  titles = map(protocol.mode_title, metrics) if columns == "mode" else metrics
  return output.format_table(
    "; ".join([", ".join(shared.values()), *parts]),
    ["system", "score", *titles, *["source"] * has_source],
    body,
    markdown,
  )


def format_figure(row: ResultRow, interval: bool) -> str:
  """Returns a figure, and its interval if `interval` is set and it has one."""
  text = f"{row.value:.{0 if row.metric in _COUNTS else 4}f}"
  if interval and row.low is not None and row.high is not None:
    text += f" [{row.low:.3f}, {row.high:.3f}]"
  return text


def fill_tables(
  text: str,
  rows: Sequence[ResultRow],
  file_name: str,
  comparisons: Sequence[ComparisonRow] = (),
) -> str:
  """Returns a Markdown text with every marked table rebuilt from `rows`.

  Raises:
    ValueError: if a marker is never closed, its name or a key is unknown, or it
      selects nothing; the message names file and line.
  """

  def format_marked_table(match: re.Match) -> str:
    line = text.count("\n", 0, match.start()) + 1
    location = f"{file_name}:{line}"
    if match["name"] == _COMPARISONS:
      criteria = _read_marker_keys(match["keys"], _COMPARISON_KEYS, location)
      selected = select_rows(comparisons, **criteria)
      if selected:
        table = results.format_comparison_tables(selected)
      elif _is_unmeasured(comparisons, criteria, "group"):
        table = _UNMEASURED
      else:
        raise ValueError(f"{location}: no comparison has {criteria}")
    else:
      table = _format_view(rows, match["name"], match["keys"], location)
    return f"{match['open']}\n{table}\n{match['close']}"

  if text.count("<!-- table:") != len(_TABLE_MARKER.findall(text)):
    raise ValueError(f"{file_name}: a <!-- table:... --> has no <!-- end -->")
  return _TABLE_MARKER.sub(format_marked_table, text)


def _read_marker_keys(
  keys: str, allowed_keys: Sequence[str], location: str
) -> dict[str, str]:
  criteria = {}
  for item in shlex.split(keys):
    key, equals, value = item.partition("=")
    if key not in allowed_keys or not equals:
      raise ValueError(
        f"{location}: {item!r} is not key=value with a key among "
        f"{', '.join(allowed_keys)}"
      )
    criteria[key] = value
  return criteria


def _select_view(
  rows: Sequence[FiledRow], name: str, keys: str, location: str
) -> tuple[list[FiledRow], dict[str, str], list[str]]:
  """Returns the rows of a table, the marker's other keys, and its metrics."""
  if name not in VIEWS:
    raise ValueError(
      f"{location}: table {name!r} is not one of "
      f"{', '.join((*VIEWS, _COMPARISONS))}"
    )
  criteria = VIEWS[name] | _read_marker_keys(keys, _MARKER_KEYS, location)
  metrics = criteria.pop("metrics", ",".join(DEFAULT_METRICS)).split(",")
  fields = {key: criteria[key] for key in criteria if key != "columns"}
  selected = [
    row for row in select_rows(rows, **fields) if row.metric in metrics
  ]
  if not selected and not _is_unmeasured(rows, criteria, "file"):
    raise ValueError(f"{location}: no result has {fields} and {metrics}")
  return selected, criteria, metrics


def _is_unmeasured(
  rows: Sequence[FiledRow] | Sequence[ComparisonRow],
  criteria: dict[str, str],
  field: str,
) -> bool:
  """Returns whether the named file or group has no rows."""
  return field in criteria and not select_rows(rows, **{field: criteria[field]})


def select_shown_rows(
  texts: Sequence[str], rows: Sequence[FiledRow]
) -> list[FiledRow]:
  """Returns the rows that a table of the texts shows, in their order."""
  shown = set()
  for text in texts:
    for match in _TABLE_MARKER.finditer(text):
      if match["name"] != _COMPARISONS:
        shown |= set(_select_view(rows, match["name"], match["keys"], "")[0])
  return [row for row in rows if row in shown]


def _format_view(
  rows: Sequence[FiledRow], name: str, keys: str, location: str
) -> str:
  selected, criteria, metrics = _select_view(rows, name, keys, location)
  if not selected:
    return _UNMEASURED
  columns = criteria.get("columns", "metric")
  # A stable sort: what the marker does not list keeps the order of the rows.
  modes, systems = (
    criteria.get(key_name, "").split(",") for key_name in ("mode", "system")
  )
  selected.sort(
    key=lambda row: (
      _position_in(row.mode, modes),
      _position_in(row.system, systems),
    )
  )
  column_names = metrics
  if columns in criteria:
    column_names = criteria[columns].split(",")
  elif columns != "metric":
    column_names = [*dict.fromkeys(getattr(row, columns) for row in selected)]
  return format_table(
    selected, column_names, markdown=True, intervals=True, columns=columns
  )


def _position_in(name: str, names: Sequence[str]) -> int:
  """Returns the index of a name in a list, its length if it is not there."""
  return names.index(name) if name in names else len(names)


def renew_tables(
  paths: Sequence[pathlib.Path],
  result_folder: pathlib.Path | None = None,
  check: bool = False,
) -> list[pathlib.Path]:
  """Returns the files whose tables were stale, after rewriting them.

  Nothing is written before the tables of all files are made.

  Args:
    result_folder: folder of the result files; `find_result_folder` of each file
      if None.
    check: whether to leave the files as they are.

  Raises:
    FileNotFoundError: if there is no such file or no result.
    ValueError: if a marker or a result file is bad; the message names file and
      line.
  """
  renewed_texts = {}
  for path in paths:
    folder = result_folder or find_result_folder(path)
    comparison_path = folder / results.COMPARISON_FILE
    comparisons = []
    if comparison_path.exists():
      comparisons = results.read_comparison_rows(comparison_path)
    rows = read_result_folder(folder)
    text = files.read_text(path)
    renewed_text = fill_tables(text, rows, str(path), comparisons)
    if renewed_text != text:
      renewed_texts[path] = renewed_text
  if not check:
    for path, renewed_text in renewed_texts.items():
      files.write_text(path, renewed_text)
  return list(renewed_texts)


def find_result_folder(path: pathlib.Path) -> pathlib.Path:
  """Returns the nearest tests/results beside or above a file.

  Raises:
    FileNotFoundError: if there is no such folder.
  """
  for parent in path.absolute().parents:
    folder = parent / "tests" / "results"
    if folder.is_dir():
      return folder
  raise FileNotFoundError(
    f"{path}: no folder tests/results beside or above it; name one with "
    "--results"
  )


def main(argv: Sequence[str]) -> None:
  """Updates or checks the tables of Markdown files."""
  if len(argv) > 1:
    raise app.UsageError(f"unexpected argument {argv[1]!r}")
  paths = [pathlib.Path(name) for name in flags.FLAGS.readme]
  folder = flags.FLAGS.results and pathlib.Path(flags.FLAGS.results)
  try:
    stale_paths = renew_tables(paths, folder, flags.FLAGS.check)
  except (FileNotFoundError, ValueError) as error:
    sys.exit(f"error: {error}")
  for path in paths:
    if path not in stale_paths:
      print(f"{path}: tables agree with the results")
    elif not flags.FLAGS.check:
      print(f"{path}: tables updated from the results")
  if stale_paths and flags.FLAGS.check:
    names = ",".join(map(str, stale_paths))
    sys.exit(
      f"error: tables of {names} differ from the results; run python -m "
      f"ctd_jax.evaluation.result_tables --readme={names}"
    )


if __name__ == "__main__":
  # Not at import: `train` and `evaluate` import this module and have flags of
  # their own.
  flags.DEFINE_list(
    "readme",
    None,
    "Markdown files to update, separated by commas. "
    "Example: --readme=README.md,docs/results/retrieval.md",
  )
  flags.DEFINE_string(
    "results",
    None,
    "Folder of result files. Default: the nearest tests/results beside or "
    "above each file. Example: --results=tests/results",
  )
  flags.DEFINE_bool(
    "check",
    False,
    "Change nothing, and fail if a table is stale. Default: no. "
    "Example: --check",
  )
  flags.mark_flag_as_required("readme")
  command_line.run_app(main)
