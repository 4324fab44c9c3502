"""Counts of a built data set, taken from the data set itself, and their tables.

Figures of a build are shown next to published ones, if there are any: `Table N`
in a title is the paper's.
"""

import collections
import dataclasses
import hashlib
import json
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow_datasets as tfds

from ctd_jax.benchmark.benchmark import (
  ANSWERING_KINDS,
  EVENT,
  KINDS,
  NEG_COMMENT,
  POINT,
  SPLITS,
  WINDOW,
)
from ctd_jax.chronology import reigns
from ctd_jax.chronology.reigns import Timeline
from ctd_jax.utils import output

# The gallery, all splits together, is one TFDS split; queries have one each.
RECORDS_SPLIT = "records"
TOTAL = "total"  # label of the last row
AUDIT_FILE = "audit.json"  # a builder's account of its work, next to the data
MIN_SAFE_SCORE = 0.9  # from here on the paper calls a comment safely aligned


def summarise_dataset(builder: tfds.core.DatasetBuilder) -> dict[str, Any]:
  """Returns counts of a built data set, ready for JSON.

  Returns:
    name; `synthetic`; `content_sha256`; `sources`: rows by source (records,
    average and longest text in characters, records by split); `splits`: rows by
    split (months with and without an event, records by kind, queries by family
    and by kind of their positives, positives per query); `reigns`: rows by
    ruler (months, those with and without an event); `events`: how they group;
    `scores`: rows by commentary (fit of its pieces); `groups`: queries by
    template group; `audit`: the builder's account of its work, or nothing.
  """
  splits = {
    name: [to_plain_example(example) for example in examples]
    for name, examples in sorted(builder.read_splits().items())
  }
  records = splits[RECORDS_SPLIT]
  queries = [query for split in SPLITS for query in splits.get(split, ())]
  groups = collections.Counter(query["group"] for query in queries)
  audit_path = builder.data_path / AUDIT_FILE
  timeline = reigns.load_timeline(builder.info.metadata["timeline"])
  return {
    "name": builder.info.full_name,
    "synthetic": builder.builder_config.name == "mini",
    "content_sha256": content_hash(builder.info.features, splits),
    "timeline": timeline.name,
    "months": len(timeline),
    "sources": _count_by_source(records),
    "splits": _count_by_split(records, queries),
    "reigns": _count_by_reign(records, timeline),
    "events": _count_events(records),
    "scores": _summarise_scores(records),
    "groups": dict(sorted(groups.items())),
    "audit": json.loads(audit_path.read_text("utf-8"))
    if audit_path.exists()
    else {},
  }


def content_hash(
  features: tfds.features.FeaturesDict,
  splits: Mapping[str, Sequence[Mapping[str, Any]]],
) -> str:
  """Returns the sha256 of a data set: features and all examples in order.

  Args:
    splits: name -> examples in the order stored.
  """
  digest = hashlib.sha256()
  # The declared types count: int32 and int64 are other data sets.
  kinds = {
    name: [np.dtype(info.np_dtype).name, str(info.shape)]
    for name, info in features.get_tensor_info().items()
  }
  lines: list[Any] = [kinds]
  for name in sorted(splits):
    lines += [name, *map(to_plain_example, splits[name])]
  for line in lines:
    text = json.dumps(line, sort_keys=True, ensure_ascii=False)
    digest.update(text.encode() + b"\n")
  return digest.hexdigest()


def format_tables(dataset_statistics: Mapping[str, Any]) -> str:
  """Returns the counts of `summarise_dataset` as aligned tables."""
  title = dataset_statistics["name"]
  if dataset_statistics["synthetic"]:
    title += " (synthetic: an invented chronicle)"
  blocks = [
    title,
    format_table("records by source", dataset_statistics["sources"]),
    format_table(
      "queries by group",
      [
        {"group": key, "n": n}
        for key, n in dataset_statistics["groups"].items()
      ],
    ),
  ]
  return "\n\n".join(blocks)


def format_table(title: str, rows: Sequence[Mapping[str, Any]]) -> str:
  """Returns rows as aligned columns under a title; numbers to the right."""
  names = list(rows[0])
  cells = [[row[name] for name in names] for row in rows]
  right_columns = [
    index
    for index, name in enumerate(names)
    if not isinstance(rows[0][name], str)
  ]
  table = output.format_table("", names, cells, right=right_columns)
  return f"{title}\n{table}".rstrip("\n")


def to_plain_example(example: Mapping[str, Any]) -> dict[str, Any]:
  """Returns an example as str, int, float and lists of them."""

  def to_python(value: Any) -> Any:
    if isinstance(value, bytes):
      return value.decode()
    if isinstance(value, list | tuple):
      return [to_python(item) for item in value]
    # numpy scalars and arrays have tolist().
    return to_python(value.tolist()) if hasattr(value, "tolist") else value

  return {name: to_python(value) for name, value in example.items()}


def _count_by_source(records: Sequence[dict]) -> list[dict[str, Any]]:
  groups = collections.defaultdict(list)
  for record in records:
    groups[record["kind"], record["source"]].append(record)
  rows = []
  for kind in KINDS:
    for source in sorted(name for k, name in groups if k == kind):
      source_records = groups[kind, source]
      lengths = [len(record["text"]) for record in source_records]
      split_counts = collections.Counter(
        record["split"] for record in source_records
      )
      rows.append(
        {
          "kind": kind,
          "source": source,
          "records": len(source_records),
          "characters": sum(lengths),
          "average": round(sum(lengths) / len(source_records), 1),
          "longest": max(lengths),
          **{split: split_counts[split] for split in SPLITS},
        }
      )
  return rows


def _count_by_split(
  records: Sequence[dict], queries: Sequence[dict]
) -> list[dict[str, Any]]:
  kinds = {record["id"]: record["kind"] for record in records}
  rows = []
  for split in SPLITS:
    split_records = [record for record in records if record["split"] == split]
    split_queries = [query for query in queries if query["split"] == split]
    kind_counts = collections.Counter(
      record["kind"] for record in split_records
    )
    query_counts = collections.Counter(
      (
        query["family"],
        any(kinds[record_id] == EVENT for record_id in query["positives"]),
      )
      for query in split_queries
    )
    months, event_months = (
      {tuple(r["start"]) for r in split_records if r["kind"] in answering}
      for answering in (ANSWERING_KINDS, (EVENT,))
    )
    rows.append(
      {
        "split": split,
        "months": len(months),
        "with_event": len(event_months),
        "empty": len(months - event_months),
        "records": len(split_records),
        **{kind: kind_counts[kind] for kind in KINDS},
        "queries": len(split_queries),
        "event_points": query_counts[POINT, True],
        "empty_points": query_counts[POINT, False],
        "event_windows": query_counts[WINDOW, True],
        "empty_windows": query_counts[WINDOW, False],
      }
    )
  # The first column is the label.
  total = {name: sum(row[name] for row in rows) for name in [*rows[0]][1:]}
  rows.append({"split": TOTAL} | total)
  for row in rows:
    gold = sum(
      len(query["positives"])
      for query in queries
      if row["split"] in (TOTAL, query["split"])
    )
    row["gold_per_query"] = round(gold / max(row["queries"], 1), 2)
  return rows


def _count_by_reign(
  records: Sequence[dict], timeline: Timeline
) -> list[dict[str, Any]]:
  event_months = {
    tuple(record["start"]) for record in records if record["kind"] == EVENT
  }
  # Only months of the timeline count; a record may be dated outside it.
  months = [key.triple for key in timeline.months]
  months_by_ruler = {
    f"{reign.name} {label}": [month for month in months if month[0] == number]
    for number, (reign, label) in enumerate(
      zip(timeline.reigns, reigns.make_reign_labels(timeline), strict=True),
      start=1,
    )
  }
  rows = []
  for ruler, reign_months in [*months_by_ruler.items(), (TOTAL, months)]:
    with_event = len(event_months.intersection(reign_months))
    empty = len(reign_months) - with_event
    rows.append(
      {
        "ruler": ruler,
        "months": len(reign_months),
        "with_event": with_event,
        "empty": empty,
        "gap_share": round(empty / len(reign_months), 3),
      }
    )
  return rows


def _count_events(records: Sequence[dict]) -> dict[str, int]:
  """Returns the number of events, and how records and works share them."""
  months = collections.defaultdict(set)
  works = collections.defaultdict(set)
  commented_versions = set()
  for record in records:
    version = record["version"]
    if record["kind"] == EVENT:
      months[tuple(record["start"])].add(version)
      works[version].add(record["source"])
    elif version:
      commented_versions.add(version)
  return {
    "events": sum(map(len, months.values())),
    "of_several_works": sum(len(members) > 1 for members in works.values()),
    "with_commentary": len(commented_versions),
    "months_with_several": sum(len(members) > 1 for members in months.values()),
  }


def _summarise_scores(records: Sequence[dict]) -> list[dict[str, Any]]:
  scores_by_source = collections.defaultdict(list)
  for record in records:
    if record["kind"] == NEG_COMMENT:
      scores_by_source[record["source"]].append(record["match_score"])
  return [
    {
      "source": source,
      "pieces": len(scores),
      "average": round(statistics.fmean(scores), 3),
      "lowest": round(min(scores), 3),
      "median": round(statistics.median(scores), 3),
      "safe_share": round(
        sum(score >= MIN_SAFE_SCORE for score in scores) / len(scores), 3
      ),
    }
    for source, scores in sorted(scores_by_source.items())
  ]


# Table -> row -> column -> figure.
Figures = Mapping[str, Mapping[str, Mapping[str, float]]]


@dataclasses.dataclass(frozen=True)
class AuditTable:
  """A table of the audit."""

  title: str  # heading of the table
  # Table of the paper with the same figures, empty if none.
  paper_table: str = ""
  # Whether the columns of the figures are printed as lines.
  is_transposed: bool = False


TABLES = {
  "units": AuditTable("units; lengths of units or pieces", "Table 8"),
  "splits": AuditTable(
    "by split", "Table 9; families from Tables 14 and 15", is_transposed=True
  ),
  "events": AuditTable("events"),
  "acceptance": AuditTable(
    "commentary aligned with what it explains", "Tables 18 and 19"
  ),
  "rejected": AuditTable("candidates that were not accepted"),
  "scores": AuditTable("fit of the accepted pieces", "Tables 18 and 19"),
  "printed_months": AuditTable(
    "months that commentary prints, beside the month of its entry"
  ),
  "agreement": AuditTable("events that two works tell of, shares that agree"),
  "decisions": AuditTable("what gave the parts of the base texts their months"),
  "left_out": AuditTable("left out"),
  "coverage": AuditTable("months with an event by ruler", "Figure 8"),
}


BASE_TEXTS = "base texts"


COMMENTARY = "commentary"


def compute_figures(statistics: Mapping[str, Any]) -> Figures:
  """Returns the figures of the statistics of a build.

  Without the builder's account under `audit` there are fewer tables.
  """
  audit = statistics["audit"]
  alignment = audit.get("alignment", {})
  figures_by_table = {
    "units": _unit_rows(statistics),
    "splits": _index_rows(statistics["splits"], "split"),
    "events": {"all": statistics["events"]},
    "acceptance": {
      source: {
        "candidates": row["candidates"],
        "accepted": row["accepted"],
        "share": _ratio(row["accepted"], row["candidates"]),
        "pieces": row["pieces"],
        "too_short": row["dropped_short"],
        "years_checked": row["years_checked"],
        "years_agreed": row["years_agreed"],
      }
      for source, row in alignment.items()
    },
    "rejected": {
      source: row["rejected"]
      for source, row in alignment.items()
      if row["rejected"]
    },
    "scores": _index_rows(statistics["scores"], "source"),
    "printed_months": audit.get("printed_months", {}),
    "agreement": {
      works: {
        "compared": row["compared"],
        "same_year": _ratio(row["same_year"], row["compared"]),
        "same_month": _ratio(row["same_month"], row["compared"]),
      }
      for works, row in audit.get("agreement", {}).items()
    },
    **{
      table: {name: {"n": n} for name, n in audit.get(table, {}).items()}
      for table in ("decisions", "left_out")
    },
    "coverage": _index_rows(statistics["reigns"], "ruler"),
  }
  return {table: rows for table, rows in figures_by_table.items() if rows}


def _index_rows(
  rows: Iterable[Mapping[str, Any]], name: str
) -> dict[str, dict[str, float]]:
  return {
    row[name]: {key: value for key, value in row.items() if key != name}
    for row in rows
  }


def _ratio(numerator: float, denominator: float) -> float:
  # A work without pieces has share 0 rather than no row.
  return round(numerator / max(denominator, 1), 4)


def _unit_rows(statistics: Mapping[str, Any]) -> dict[str, dict[str, float]]:
  """Returns rows of Table 8: every source, and both layers together."""
  audit = statistics["audit"]
  # A work of which nothing was accepted has no records.
  record_counts: Mapping[str, Mapping[str, Any]] = collections.defaultdict(
    lambda: {"records": 0, "characters": 0},
    {row["source"]: row for row in statistics["sources"]},
  )
  table: dict[str, dict[str, float]] = {}
  base_rows = {
    source: {
      "units": row["units"],
      "characters": row["characters"],
      "average": round(row["characters"] / max(row["units"], 1), 1),
      "longest": row["longest"],
      "records": record_counts[source]["records"],
    }
    for source, row in audit.get("units", {}).items()
  }
  comment_rows = {
    source: {
      "units": row["units"],
      "characters": record_counts[source]["characters"],
      "average": row["mean_chars"],
      "longest": row["max_chars"],
      "records": record_counts[source]["records"],
    }
    for source, row in audit.get("alignment", {}).items()
  }
  for total, rows in ((BASE_TEXTS, base_rows), (COMMENTARY, comment_rows)):
    if rows:
      table |= rows
      table[total] = {
        name: sum(row[name] for row in rows.values())
        for name in ("units", "characters", "records")
      }
  return table


def gap_share(figures: Figures) -> float | None:
  """Returns the share of empty months, None if it is not known."""
  row = figures.get("coverage", {}).get(TOTAL)
  # The figures themselves hold rounded shares; this one is exact.
  return row and 1 - row["with_event"] / row["months"]


def format_report(figures: Figures, paper_figures: Figures) -> str:
  """Returns the tables, aligned for a terminal."""
  return "\n\n".join(
    format_table(title, lines)
    for _, title, lines in iterate_tables(figures, paper_figures)
  )


def iterate_tables(
  figures: Figures, paper_figures: Figures
) -> Iterator[tuple[str, str, list[dict[str, str]]]]:
  """Yields (name, title, lines) of every table that `figures` has figures for.

  A cell holds our figure, the paper's after a slash, and the difference.
  """
  for name, table in TABLES.items():
    rows = figures.get(name, {})
    if not rows:
      continue
    columns = list(dict.fromkeys(c for row in rows.values() for c in row))
    paper_rows = paper_figures.get(name, {})
    cells = {
      (row, column): _format_cell(
        rows[row].get(column), paper_rows.get(row, {}).get(column)
      )
      for row in rows
      for column in columns
    }
    # Transposed, a table with many columns fits the width of a terminal.
    if table.is_transposed:
      lines = [
        {"": column, **{row: cells[row, column] for row in rows}}
        for column in columns
      ]
    else:
      lines = [
        {"": row, **{column: cells[row, column] for column in columns}}
        for row in rows
      ]
    paper_note = (
      f" ({table.paper_table})" if paper_figures and table.paper_table else ""
    )
    yield name, table.title + paper_note, lines


def _format_cell(value: float | None, paper_value: float | None) -> str:
  text = "–" if value is None else f"{value:,}"
  if paper_value is not None:
    text += f" / {paper_value:,}"
    if value is not None:
      text += f" {(value - paper_value) / paper_value:+.1%}"
  return text
