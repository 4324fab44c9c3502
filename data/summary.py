"""What a built data set holds, counted from the data set itself.

Why: the published benchmark is described by two tables (units by source, and
months, records and queries by split); ours is set beside them. Called by
`build`, which prints the tables and keeps the numbers beside the data.

Source: ChunQiuTR Tables 8 and 9.
"""

from __future__ import annotations

import collections
from collections.abc import Sequence
from typing import Any

import tensorflow_datasets as tfds

from ctd_jax.chronology import annals, reigns
from ctd_jax.chronology.queries import POINT, SPLITS, WINDOW
from ctd_jax_datasets.chunqiutr import chunqiutr_dataset_builder


def summarise(builder: tfds.core.DatasetBuilder) -> dict[str, Any]:
  """Returns counts of a built data set, ready for JSON.

  Returns:
    name; `sources`: rows by source (records, average and longest text in
    characters, records by split); `splits`: rows by split (months with and
    without an event, records by kind, queries by family and by kind of their
    positives, positives per query); `groups`: queries by template group;
    `left_out`: texts of the sources that are not in the data set.
  """
  records = [
    _example(example)
    for example in builder.as_data_source(chunqiutr_dataset_builder.RECORDS)
  ]
  queries = [
    _example(example)
    for split in SPLITS
    for example in builder.as_data_source(split)
  ]
  metadata = dict(builder.info.metadata or {})
  return {
    "name": builder.info.full_name,
    "synthetic": builder.builder_config.name == "mini",
    "timeline": builder.builder_config.timeline,
    "months": len(reigns.timeline(builder.builder_config.timeline)),
    "sources": _by_source(records),
    "splits": _by_split(records, queries),
    "groups": dict(
      sorted(collections.Counter(query["group"] for query in queries).items())
    ),
    "left_out": metadata.get("left_out", {}),
  }


def tables(statistics: dict[str, Any]) -> str:
  """Returns the aligned tables of `summarise`."""
  title = statistics["name"]
  if statistics["synthetic"]:
    title += " (synthetic: an invented chronicle)"
  blocks = [
    title,
    _table("records by source", statistics["sources"]),
    _table("by split", statistics["splits"]),
    _table("queries by group", _rows("group", statistics["groups"])),
  ]
  if statistics["left_out"]:
    left_out = _rows("reason", statistics["left_out"])
    blocks.append(_table("left out", left_out))
  return "\n\n".join(blocks)


def _rows(name: str, counts: dict[str, int]) -> list[dict[str, Any]]:
  return [{name: key, "number": value} for key, value in counts.items()]


def _example(example: dict) -> dict:
  """Returns an example with str where TFDS gives bytes."""
  return {
    **{
      name: value.decode() if isinstance(value, bytes) else value
      for name, value in example.items()
    },
    "positives": [value.decode() for value in example["positives"]],
  }


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
    months = {
      kind: len({tuple(r["start"]) for r in here if r["kind"] == kind})
      for kind in annals.KINDS
    }
    families = collections.Counter(
      (
        query["family"],
        any(kinds[answer] == annals.EVENT for answer in query["positives"]),
      )
      for query in asked
    )
    gold = sum(len(query["positives"]) for query in asked)
    rows.append(
      {
        "split": split,
        "months": months[annals.EVENT] + months[annals.NO_EVENT],
        "with_event": months[annals.EVENT],
        "empty": months[annals.NO_EVENT],
        "records": len(here),
        **{kind: count[kind] for kind in annals.KINDS},
        "queries": len(asked),
        "event_points": families[POINT, True],
        "empty_points": families[POINT, False],
        "event_windows": families[WINDOW, True],
        "empty_windows": families[WINDOW, False],
        "gold_per_query": round(gold / max(len(asked), 1), 1),
      }
    )
  total: dict[str, Any] = {"split": "total"}
  for name in list(rows[0])[1:-1]:
    total[name] = sum(row[name] for row in rows)
  gold = sum(row["gold_per_query"] * row["queries"] for row in rows)
  total["gold_per_query"] = round(gold / max(total["queries"], 1), 1)
  return [*rows, total]


def _table(title: str, rows: Sequence[dict[str, Any]]) -> str:
  """Returns rows as aligned columns under a title; numbers to the right."""
  names = list(rows[0])
  cells = [names, *([str(row[name]) for name in names] for row in rows)]
  widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
  lines = [title]
  for line in cells:
    lines.append(
      "  ".join(
        cell.ljust(width)
        if isinstance(rows[0][name], str)
        else cell.rjust(width)
        for cell, width, name in zip(line, widths, names, strict=True)
      ).rstrip()
    )
  return "\n".join(lines)
