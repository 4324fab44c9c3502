"""What a built data set holds, counted from the data set itself.

Why: a data set that silently has other contents than last time is worse than
none. Called by `build`, which prints the tables and keeps the numbers beside
the data; `chunqiutr.audit` sets them beside those of the paper.
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
from ctd_jax.chronology import annals, reign_tables
from ctd_jax.evaluation import result_tables
from ctd_jax_datasets import examples

TOTAL = "total"
# A builder may leave an account of its work beside the data.
AUDIT = "audit.json"
# From here on the paper calls a comment safely aligned.
SAFE_SCORE = 0.9


def summarise(builder: tfds.core.DatasetBuilder) -> dict[str, Any]:
  """Returns counts of a built data set, ready for JSON.

  Returns:
    name; `synthetic`; `content_sha256`; `sources`: rows by source (records,
    average and longest text in characters, records by split); `splits`: rows by
    split (months with and without an event, records by kind, queries by family
    and by kind of their positives, positives per query); `reigns`: rows by
    ruler (months, those with and without an event); `events`: how they group;
    `scores`: rows by commentary (fit of its pieces); `groups`: queries by
    template group; `audit`: what the builder wrote of its work, or nothing.
  """
  splits = {
    name: [plain(example) for example in source]
    for name, source in sorted(builder.as_data_source().items())
  }
  records = splits[examples.RECORDS]
  queries = [query for split in SPLITS for query in splits.get(split, ())]
  groups = collections.Counter(query["group"] for query in queries)
  audit = builder.data_path / AUDIT
  timeline = reign_tables.timeline(builder.info.metadata["timeline"])
  return {
    "name": builder.info.full_name,
    "synthetic": builder.builder_config.name == "mini",
    "content_sha256": content_hash(builder.info.features, splits),
    "timeline": timeline.name,
    "months": len(timeline),
    "sources": _by_source(records),
    "splits": _by_split(records, queries),
    "reigns": _by_reign(records, timeline),
    "events": _events(records),
    "scores": _scores(records),
    "groups": dict(sorted(groups.items())),
    "audit": json.loads(audit.read_text("utf-8")) if audit.exists() else {},
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


def tables(counted: Mapping[str, Any]) -> str:
  """Returns the aligned tables of `summarise`."""
  title = counted["name"]
  if counted["synthetic"]:
    title += " (synthetic: an invented chronicle)"
  blocks = [
    title,
    table("records by source", counted["sources"]),
    table(
      "queries by group",
      [{"group": key, "n": n} for key, n in counted["groups"].items()],
    ),
  ]
  return "\n\n".join(blocks)


def table(title: str, rows: Sequence[Mapping[str, Any]]) -> str:
  """Returns rows as aligned columns under a title; numbers to the right."""
  names = list(rows[0])
  cells = [names, *([str(row[name]) for name in names] for row in rows)]
  widths = [
    max(map(result_tables.display_width, column))
    for column in zip(*cells, strict=True)
  ]
  lines = [title]
  for line in cells:
    parts = []
    for cell, width, name in zip(line, widths, names, strict=True):
      space = " " * (width - result_tables.display_width(cell))
      word = isinstance(rows[0][name], str)
      parts.append(cell + space if word else space + cell)
    lines.append("  ".join(parts).rstrip())
  return "\n".join(lines)


def plain(example: Mapping[str, Any]) -> dict[str, Any]:
  """Returns an example as str, int, float and lists of them."""

  def simple(value: Any) -> Any:
    if isinstance(value, bytes):
      return value.decode()
    if isinstance(value, list | tuple):
      return [simple(item) for item in value]
    return simple(value.tolist()) if hasattr(value, "tolist") else value

  return {name: simple(value) for name, value in example.items()}


def _by_source(records: Sequence[dict]) -> list[dict[str, Any]]:
  groups = collections.defaultdict(list)
  for record in records:
    groups[record["kind"], record["source"]].append(record)
  rows = []
  for kind in annals.KINDS:
    for source in sorted(name for k, name in groups if k == kind):
      found = groups[kind, source]
      lengths = [len(record["text"]) for record in found]
      count = collections.Counter(record["split"] for record in found)
      rows.append(
        {
          "kind": kind,
          "source": source,
          "records": len(found),
          "characters": sum(lengths),
          "average": round(sum(lengths) / len(found), 1),
          "longest": max(lengths),
          **{split: count[split] for split in SPLITS},
        }
      )
  return rows


def _by_split(
  records: Sequence[dict], queries: Sequence[dict]
) -> list[dict[str, Any]]:
  kinds = {record["id"]: record["kind"] for record in records}
  rows = []
  for split in SPLITS:
    here = [record for record in records if record["split"] == split]
    asked = [query for query in queries if query["split"] == split]
    count = collections.Counter(record["kind"] for record in here)
    eventful = _months(here, (annals.EVENT,))
    families = collections.Counter(
      (
        query["family"],
        any(kinds[answer] == annals.EVENT for answer in query["positives"]),
      )
      for query in asked
    )
    months = _months(here, annals.ANSWERING_KINDS)
    rows.append(
      {
        "split": split,
        "months": len(months),
        "with_event": len(eventful),
        "empty": len(months - eventful),
        "records": len(here),
        **{kind: count[kind] for kind in annals.KINDS},
        "queries": len(asked),
        "event_points": families[POINT, True],
        "empty_points": families[POINT, False],
        "event_windows": families[WINDOW, True],
        "empty_windows": families[WINDOW, False],
        "gold_per_query": _gold_per_query(asked),
      }
    )
  total: dict[str, Any] = {"split": TOTAL}
  for name in list(rows[0])[1:-1]:
    total[name] = sum(row[name] for row in rows)
  return [*rows, {**total, "gold_per_query": _gold_per_query(queries)}]


def _gold_per_query(queries: Sequence[dict]) -> float:
  gold = sum(len(query["positives"]) for query in queries)
  return round(gold / max(len(queries), 1), 2)


def _months(
  records: Iterable[dict], kinds: Sequence[str]
) -> set[tuple[int, ...]]:
  return {tuple(r["start"]) for r in records if r["kind"] in kinds}


def _by_reign(records: Sequence[dict], timeline: Any) -> list[dict[str, Any]]:
  eventful = _months(records, (annals.EVENT,))
  months = [key.triple for key in timeline.months]
  labels = result_tables.reign_labels(timeline)
  rows = []
  for number, reign in enumerate(timeline.reigns, 1):
    here = [month for month in months if month[0] == number]
    rows.append(
      {
        "ruler": f"{reign.name} {labels[number - 1]}",
        **_coverage(len(here), len(eventful.intersection(here))),
      }
    )
  known = len(eventful.intersection(months))
  return [*rows, {"ruler": TOTAL, **_coverage(len(months), known)}]


def _coverage(months: int, with_event: int) -> dict[str, Any]:
  empty = months - with_event
  return {
    "months": months,
    "with_event": with_event,
    "empty": empty,
    "gap_share": round(empty / months, 3),
  }


def _events(records: Sequence[dict]) -> dict[str, int]:
  """Returns how many events there are, and what the records say of them."""
  months = collections.defaultdict(set)
  works = collections.defaultdict(set)
  explained = set()
  for record in records:
    version = record["version"]
    if record["kind"] == annals.EVENT:
      months[tuple(record["start"])].add(version)
      works[version].add(record["source"])
    elif version:
      explained.add(version)
  return {
    "events": sum(map(len, months.values())),
    "of_several_works": sum(len(found) > 1 for found in works.values()),
    "with_commentary": len(explained),
    "months_with_several": sum(len(found) > 1 for found in months.values()),
  }


def _scores(records: Sequence[dict]) -> list[dict[str, Any]]:
  found = collections.defaultdict(list)
  for record in records:
    if record["kind"] == annals.NEG_COMMENT:
      found[record["source"]].append(record["match_score"])
  return [
    {
      "source": source,
      "pieces": len(scores),
      "average": round(statistics.fmean(scores), 3),
      "lowest": round(min(scores), 3),
      "median": round(statistics.median(scores), 3),
      "safe_share": round(
        sum(score >= SAFE_SCORE for score in scores) / len(scores), 3
      ),
    }
    for source, scores in sorted(found.items())
  ]
