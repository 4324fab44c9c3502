"""Results as data: rows of figures, measured and published, in JSON files.

A figure is written once, with what is needed to get it again; tables and
comparisons are made from the files (`evaluation.result_tables`), never typed.
`evaluate` writes a file for each run; published figures are rows of the same
form whose `source` names the table of the publication.
"""

import dataclasses
import json
import os
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import TypeVar

import msgspec

from ctd_jax.benchmark import runs, variants
from ctd_jax.evaluation import protocol, significance
from ctd_jax.evaluation.significance import SystemComparison
from ctd_jax.utils import files, output

_VARIANT_FAMILIES = ("only_events", "official", "event_mode", "dates")
_VARIANT_METRICS = ("hit@1", "ndcg@10", "month", "ece", "coverage@90")
# Data sets of other tasks than retrieval: field -> values of their rows.
VOCABULARIES: Mapping[str, Mapping[str, tuple[str, ...]]] = {
  "chronocept": {
    "track": ("text",),
    "score_mode": ("z", "raw"),  # units of the errors
    "mode": ("honest", "paper"),
    "family": ("all", "location", "scale", "skewness"),
    "metric": (
      "mse",
      "mae",
      "r2",
      "spearman",
      "pearson",
      "paper_nll",
      "skill",
    ),
  },
  # Dates of the records of a data set, dating/NAME.
  "dating": {
    "track": runs.TRACKS,
    "mode": ("hidden_events", "loose_passages"),
    "family": ("all",),
    "metric": (
      *("month", "within_1", "year", "nll", "ece"),
      *("coverage@90", "size@90"),
    ),
  },
  # Figures on variants of a data set, splits/NAME and audit/NAME; see
  # `experiments.trust`.
  "splits": {
    "track": runs.TRACKS,
    "mode": ("published", "mean", "sd", "lowest", "highest"),
    "family": _VARIANT_FAMILIES,
    "metric": _VARIANT_METRICS,
  },
  "audit": {
    "track": runs.TRACKS,
    "mode": ("published", *variants.AUDITS),
    "family": _VARIANT_FAMILIES,
    "metric": _VARIANT_METRICS,
  },
  # Sentences of an index dated as passages, passages/NAME; whether their
  # records are in it.
  "passages": {
    "mode": ("in_index", "left_out"),
    "family": ("all",),
    "metric": ("first", "year", "month_named", "month_right"),
  },
  # Undated texts of a work, the mode, by a dated chronicle, across/CHRONICLE.
  "across": {
    "track": runs.TRACKS,
    "mode": ("held_out", "sanguozhi", "gongyang", "guliang"),
    "family": ("all",),
    "metric": (
      *("month", "year", "near", "nll", "ece"),
      *("coverage@90", "size@90", "texts"),
    ),
  },
  # Natural questions about events, questions/NAME; the mode says which records
  # are right, the family how the question is worded.
  "questions": {
    "track": runs.TRACKS,
    "mode": ("all", "others"),
    "family": ("plain", "recalled", "reign", "season", "month"),
    "metric": ("hit@1", "mrr@10", "ndcg@10", "month", "year", "nll"),
  },
  # What taking evidence away does to a date, and what was said about it.
  "explanations": {
    "track": runs.TRACKS,
    "mode": ("loose_passages",),
    "family": ("all",),
    "metric": (
      *("passages", "p", "p_said", "p_again", "falls", "within_.1", "median"),
    ),
  },
  # Published books dated by their order, against their printed heads; the
  # system is the book, the family its kind.
  "books": {
    "mode": ("printed",),
    "family": ("annals", "diary", "gazetteer", "table"),
    "metric": (
      *("sections", "sure", "judged", "right@sure", "right@unsure"),
      *("lost", "seconds", "seconds/1000"),
    ),
  },
  # Single dates: random ones against other libraries, printed ones against a
  # reading by eye, days of books against sanmiao; the system is the source.
  "conversions": {
    "mode": ("random", "printed", "sanmiao"),
    "family": ("all",),
    "metric": (
      *("dates", "agree", "right", "ambiguous", "unread", "wrong"),
      *("found", "resolved", "seconds", "ours", "ours_right", "ours_seconds"),
      *("alike", "ours_alone", "sanmiao_alone"),
    ),
  },
  # Places of chronicles that are dated by their order; the system is the text.
  "chronicles": {
    "track": runs.TRACKS,
    "mode": (
      *("published", "printed", "years_cut", "heads_cut"),
      *("halves", "blocks", "misplaced"),
    ),
    "family": ("heads", "records", "all"),
    "metric": ("year", "month", "coverage@90", "ece", "gibibytes"),
  },
  # Cost of a command, cost/NAME; the family is a kind of question or page,
  # or the geometry of an encoder.
  "cost": {
    "mode": (
      *("index", "ask", "pages", "browser"),
      "accelerator",
    ),
    "metric": (
      *("seconds", "processor", "gibibytes", "disk", "load"),
      *("questions", "median_ms", "slowest_ms", "processor_ms"),
      *("opening_seconds", "cold_seconds", "cold_processor"),
      *("requests", "a_second", "errors", "p95_ms"),
      *("mebibytes_before", "mebibytes_after"),
      *("kilobytes", "kilobytes_again", "shown_ms", "shown_ms_again"),
      *("step_ms", "queries_a_second", "tokens_a_second", "mfu"),
      *("planned_gibibytes", "compile_seconds"),
      *("loss_first", "loss_last", "apart_mean", "apart_most"),
    ),
  },
  "ctm": {
    "track": ("closed_book", "open_book", "facts", "distractor_facts"),
    "mode": ("direct", "cot", "feedback", "no_feedback"),
    "family": (
      *("all", "EDD", "PJ", "TOU", "RR", "SEC", "EEU", "TIC", "TES", "LSEC"),
      *("=1", "=2", "=3", ">=4", "easy", "medium", "hard"),
    ),
    "metric": (
      *("accuracy", "kendall_tau", "pair_accuracy", "set_f1"),
      *("polarity_accuracy", "absolute_error", "relative_error"),
      *("pass@1", "pass@3", "pass@8"),
    ),
  },
}


Row = TypeVar("Row")


@dataclasses.dataclass(frozen=True)
class ResultRow:
  """One figure: what was measured, how, and by whom."""

  dataset: str  # name and config, e.g. chunqiutr/rebuilt
  system: str  # name of the system
  # One of `runs.TRACKS`; for data sets of `VOCABULARIES` this and the fields
  # below take their values from there.
  track: str
  score_mode: str  # what the score is, e.g. semantic, ctd, lexical
  split: str  # of the queries
  mode: str  # name in `protocol.MODES`
  family: str  # one of `protocol.FAMILIES`
  metric: str  # see `measures` and `protocol.FIRST_KIND_BY_MEASURE`
  value: float  # mean over the queries
  # Lower end of its interval, if there is one.
  low: float | None = None  # published rows have no interval
  high: float | None = None  # upper end
  # Of the runs averaged; empty for a deterministic system.
  seeds: tuple[int, ...] = ()
  command: str = ""  # that reproduces this figure
  commit: str = ""  # of this repository
  seconds: float | None = None  # wall time of training and evaluation
  source: str = ""  # table of a publication; empty if measured here

  def __post_init__(self):
    vocabulary = VOCABULARIES.get(self.dataset.split("/")[0])
    if vocabulary is None:  # a data set of retrieval
      protocol.get_mode(self.mode)
      if self.metric not in protocol.FIRST_KIND_BY_MEASURE:
        runs.parse_measure(self.metric)
      vocabulary = {"track": runs.TRACKS, "family": protocol.FAMILIES}
    for field, allowed_values in vocabulary.items():
      if getattr(self, field) not in allowed_values:
        raise ValueError(
          f"{field} of a result is one of {', '.join(allowed_values)}; got "
          f"{getattr(self, field)!r}"
        )


# What a line of `write_wide_table` is about.
WIDE_COLUMNS = (
  "dataset",
  "system",
  "track",
  "score_mode",
  "split",
  "mode",
  "family",
)


@dataclasses.dataclass(frozen=True)
class FiledRow(ResultRow):
  """A figure of a folder of results."""

  file: str = ""  # name of its file, without the ending


def make_result_rows(
  table: protocol.PerQueryScores,
  dataset: str,
  groups: Mapping[str, Hashable] | None = None,
  families: Sequence[str] = protocol.FAMILIES,
  metrics: Sequence[str] | None = None,
  **provenance,
) -> list[ResultRow]:
  """Returns a row for each family and measure of a per-query table.

  A family of which the mode keeps no query has no row.

  Args:
    table: result of `protocol.evaluate_run`.
    groups: query id -> cluster of the bootstrap, e.g. (reign, year); by
      default queries are resampled one by one.
    families: rows of these only; each row costs a bootstrap.
    metrics: rows of these only; all of the table if None.
    **provenance: seeds, command, commit, seconds of the rows.
  """
  rows = []
  for family in families:
    for metric in table.values if metrics is None else metrics:
      values = table.values_of_family(metric, family)
      if not values:
        continue
      strata = table.cell_by_query(family)
      low, high = significance.compute_bootstrap_interval(
        values, groups, strata
      )
      rows.append(
        ResultRow(
          dataset,
          table.system,
          table.track,
          table.score_mode,
          table.split,
          table.mode,
          family,
          metric,
          runs.compute_mean(values, strata),
          low,
          high,
          **provenance,
        )
      )
  return rows


def write_result_rows(
  path: str | os.PathLike, rows: Iterable[ResultRow]
) -> None:
  """Writes rows as a JSON list, one row a line."""
  # One row a line: a changed figure is one changed line.
  lines = (
    json.dumps(dataclasses.asdict(row), ensure_ascii=False) for row in rows
  )
  files.write_text(path, "[\n" + ",\n".join(lines) + "\n]\n")


def write_wide_table(
  path: str | os.PathLike, rows: Iterable[ResultRow]
) -> None:
  """Writes rows as CSV for a spreadsheet: a column for each measure.

  A line has a system in a mode and family of queries; beside each measure stand
  the ends of its interval.
  """
  metrics: dict[str, None] = {}  # in their order
  lines: dict[tuple[str, ...], dict[str, float | None]] = {}
  for row in rows:
    metrics[row.metric] = None
    place = tuple(getattr(row, name) for name in WIDE_COLUMNS)
    values = lines.setdefault(place, {})
    values[row.metric] = row.value
    values[f"{row.metric}_low"] = row.low
    values[f"{row.metric}_high"] = row.high
  columns = [name + end for name in metrics for end in ("", "_low", "_high")]
  files.write_text(
    path,
    output.format_delimited(
      [*WIDE_COLUMNS, *columns],
      ([*place, *map(values.get, columns)] for place, values in lines.items()),
      ",",
    ),
  )


def read_result_rows(path: str | os.PathLike) -> list[ResultRow]:
  """Returns the rows of a JSON file.

  Raises:
    ValueError: if a row is bad; the message names the file, the number of the
      row (from 1) and the field.
  """
  try:
    rows = msgspec.json.decode(files.read_text(path), type=list[dict])
  except msgspec.MsgspecError as error:
    raise ValueError(f"{path}: not a JSON list of rows: {error}") from None
  return [
    _parse_row(fields, f"{path}: row {number}")
    for number, fields in enumerate(rows, start=1)
  ]


def _parse_row(fields: Mapping[str, object], location: str) -> ResultRow:
  # msgspec ignores keys that a dataclass does not have.
  unknown = fields.keys() - {
    field.name for field in dataclasses.fields(ResultRow)
  }
  if unknown:
    raise ValueError(f"{location}: no field {min(unknown)!r} in a result row")
  try:
    return msgspec.convert(fields, ResultRow)
  except msgspec.ValidationError as error:
    raise ValueError(f"{location}: {error}") from None


def select_rows(rows: Iterable[Row], **criteria: str) -> list[Row]:
  """Returns the rows that have one of the given values in every field.

  Args:
    rows: rows of results, or of another kind with a field `dataset`.
    **criteria: field -> values separated by commas; a dataset may leave out its
      version, which is what follows the colon.
  """
  values_by_field = {
    field: values.split(",") for field, values in criteria.items()
  }
  return [
    row
    for row in rows
    if all(
      getattr(row, field) in values
      or (field == "dataset" and row.dataset.split(":")[0] in values)
      for field, values in values_by_field.items()
    )
  ]


def read_result_folder(folder: str | os.PathLike) -> list[FiledRow]:
  """Returns the rows of every JSON file of a folder, files in order of name.

  Raises:
    FileNotFoundError: if there is no such file.
  """
  paths = sorted(files.as_path(folder).glob("*.json"))
  if not paths:
    raise FileNotFoundError(f"no result file (*.json) in {folder}")
  return [
    FiledRow(**vars(row), file=path.stem)
    for path in paths
    for row in read_result_rows(path)
  ]


# Comparisons say which differences are more than chance: rows of paired tests,
# written to TSV files and shown by `evaluation.result_tables`.
COMPARISON_FILE = "comparisons.tsv"
_TABLE_HEADER = (
  "system",
  "against",
  "difference",
  "better",
  "worse",
  "p by query",
  "p by year",
  "after Holm",
)


class ComparisonRow(msgspec.Struct, frozen=True):
  """A system against another, in one mode."""

  group: str  # of the pairs over which Holm's correction was made
  dataset: str  # with its version
  split: str  # of the queries
  mode: str  # of the protocol
  measure: str  # what was compared
  system: str  # name of the first
  other_system: str  # name of the other
  difference: float  # mean of the first minus mean of the other
  low: float  # lower end of its 95 % interval, years resampled
  high: float  # upper end
  better: int  # queries on which the first is better
  worse: int  # queries on which it is worse
  p_by_query: float  # of paired randomisation over queries
  p_by_year: float  # the same, whole years swapped
  # P by year, corrected over the pairs of the group and mode.
  p_after_holm: float
  commit: str  # of this repository


def make_comparison_rows(
  comparisons: Iterable[SystemComparison],
  group: str,
  dataset: str,
  split: str,
  mode: str,
  measure: str = "hit@1",
  commit: str = "",
) -> list[ComparisonRow]:
  """Returns the rows of paired tests; for the arguments see `ComparisonRow`."""
  return [
    ComparisonRow(
      group,
      dataset,
      split,
      mode,
      measure,
      each.system,
      each.other_system,
      each.by_query.difference,
      *each.interval,
      each.by_query.num_wins,
      each.by_query.num_losses,
      each.by_query.p_value,
      each.by_year.p_value,
      each.corrected_p_value,
      commit,
    )
    for each in comparisons
  ]


def write_comparison_rows(
  path: str | os.PathLike, rows: Iterable[ComparisonRow]
) -> None:
  """Writes rows as TSV with a header."""
  files.write_text(
    path,
    output.format_delimited(
      ComparisonRow.__struct_fields__, map(msgspec.structs.astuple, rows)
    ),
  )


def read_comparison_rows(path: str | os.PathLike) -> list[ComparisonRow]:
  """Returns the rows of a TSV file.

  Raises:
    ValueError: if a cell cannot be read; the message names file, line and
      column.
  """
  return [
    row for _, row in files.read_csv_rows(path, ComparisonRow, delimiter="\t")
  ]


def format_comparison_tables(rows: Sequence[ComparisonRow]) -> str:
  """Returns Markdown tables, one for each data set, split, mode and measure."""
  blocks: dict[tuple[str, ...], list[list[str]]] = {}
  for row in rows:
    title = row.dataset, row.split, row.mode, row.measure
    blocks.setdefault(title, []).append(
      [
        row.system,
        row.other_system,
        f"{row.difference:+.4f} [{row.low:+.3f}, {row.high:+.3f}]",
        str(row.better),
        str(row.worse),
        *(
          f"{p:.4f}" for p in (row.p_by_query, row.p_by_year, row.p_after_holm)
        ),
      ]
    )
  return "\n".join(
    output.format_table(
      f"{dataset}, {split}, {measure}; {protocol.mode_title(mode)}",
      _TABLE_HEADER,
      body,
      markdown=True,
    )
    for (dataset, split, mode, measure), body in blocks.items()
  )
