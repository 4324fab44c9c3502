"""Counts of a built data set, taken from the data set itself.

The counts are kept beside the data, so that a data set whose contents differ
from those of the last build is noticed. The audit sets them beside the figures
of the paper.
"""

from __future__ import annotations

import collections
import hashlib
import json
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow_datasets as tfds

from ctd_jax.benchmark.queries import POINT, SPLITS, WINDOW
from ctd_jax.benchmark.records import ANSWERING_KINDS, EVENT, KINDS, NEG_COMMENT
from ctd_jax.chronology import reign_tables
from ctd_jax.utils import tables
from ctd_jax_datasets.common import examples

TOTAL = "total"  # label of the last row
AUDIT_FILE = "audit.json"  # a builder's account of its work, beside the data
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
    name: [to_plain_example(example) for example in source]
    for name, source in sorted(builder.as_data_source().items())
  }
  records = splits[examples.RECORDS_SPLIT]
  queries = [query for split in SPLITS for query in splits.get(split, ())]
  groups = collections.Counter(query["group"] for query in queries)
  audit_path = builder.data_path / AUDIT_FILE
  timeline = reign_tables.load_timeline(builder.info.metadata["timeline"])
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
    features: names, types and shapes count.
    splits: name -> examples as plain Python values, in the order stored.
  """
  digest = hashlib.sha256()
  # The declared types count: int32 and int64 are other data sets.
  kinds = {
    name: [np.dtype(info.np_dtype).name, str(info.shape)]
    for name, info in features.get_tensor_info().items()
  }
  lines: list[Any] = [kinds]
  for name in sorted(splits):
    lines += [name, *splits[name]]
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
  table = tables.format_table("", names, cells, right=right_columns)
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
    event_months = _collect_months(split_records, (EVENT,))
    query_counts = collections.Counter(
      (
        query["family"],
        any(kinds[record_id] == EVENT for record_id in query["positives"]),
      )
      for query in split_queries
    )
    months = _collect_months(split_records, ANSWERING_KINDS)
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
        "gold_per_query": _gold_per_query(split_queries),
      }
    )
  # The first column is the label, the last an average, which is not a sum.
  total: dict[str, Any] = {"split": TOTAL}
  for name in list(rows[0])[1:-1]:
    total[name] = sum(row[name] for row in rows)
  return [*rows, {**total, "gold_per_query": _gold_per_query(queries)}]


def _gold_per_query(queries: Sequence[dict]) -> float:
  gold = sum(len(query["positives"]) for query in queries)
  return round(gold / max(len(queries), 1), 2)


def _collect_months(
  records: Iterable[dict], kinds: Sequence[str]
) -> set[tuple[int, ...]]:
  return {tuple(r["start"]) for r in records if r["kind"] in kinds}


def _count_by_reign(
  records: Sequence[dict], timeline: Any
) -> list[dict[str, Any]]:
  event_months = _collect_months(records, (EVENT,))
  months = [key.triple for key in timeline.months]
  labels = reign_tables.make_reign_labels(timeline)
  rows = []
  for reign_number, reign in enumerate(timeline.reigns, 1):
    reign_months = [month for month in months if month[0] == reign_number]
    rows.append(
      {
        "ruler": f"{reign.name} {labels[reign_number - 1]}",
        **_coverage(
          len(reign_months), len(event_months.intersection(reign_months))
        ),
      }
    )
  # Of the timeline's months only; a record may be dated outside it.
  num_event_months = len(event_months.intersection(months))
  return [*rows, {"ruler": TOTAL, **_coverage(len(months), num_event_months)}]


def _coverage(months: int, with_event: int) -> dict[str, Any]:
  empty = months - with_event
  return {
    "months": months,
    "with_event": with_event,
    "empty": empty,
    "gap_share": round(empty / months, 3),
  }


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
