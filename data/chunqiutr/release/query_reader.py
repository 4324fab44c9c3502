"""Queries of the release: lines of JSON, each with the sids of its answers.

The split of a query is not written in the file but follows from the months it
asks for; its interval runs from the first of them to the last. Both are
computed here as the authors' loader does. `anchor_sort_key`, from which a
window was counted, is not read: nothing in the benchmark uses it.

Source: schema of the public release (specification 1.2).
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from ctd_jax.benchmark import queries
from ctd_jax.benchmark.queries import GAP, POINT, WINDOW, Query
from ctd_jax.benchmark.records import NEG_COMMENT
from ctd_jax.chronology.timelines import Interval, Timeline
from ctd_jax_datasets.chunqiutr.release.month_reader import (
  ReleaseMonths,
  find_month,
)
from ctd_jax_datasets.chunqiutr.release.schema import GROUP_MEMBER
from ctd_jax_datasets.chunqiutr.splits import TRAIN
from ctd_jax_datasets.common import json_values
from ctd_jax_datasets.common.errors import SourceError
from ctd_jax_datasets.common.findings import FindingsReport
from ctd_jax_datasets.common.json_values import format_value

# Not splitlines: a text may hold other line separators of Unicode.
_LINE_ENDS = re.compile(r"\r\n|\r|\n")

SortKey = tuple[int, int, int]


def infer_split(
  targets: Sequence[Hashable], family: str, split_of: Mapping[Hashable, str]
) -> str | None:
  """Returns the split of a query about some months, None if it has none.

  A point is of the split of its month, train if that has none. A window is of
  the split that all its months share, those without a split apart.

  Args:
    targets: the months, in any form.
    family: point or window.
    split_of: split of months, in the same form.
  """
  if family == POINT:
    return split_of.get(targets[0], TRAIN)
  target_splits = {split_of[key] for key in targets if key in split_of}
  return target_splits.pop() if len(target_splits) == 1 else None


@dataclasses.dataclass
class QueriesReader:
  """Reader of the lines of `queries_all_labeledv3.jsonl`.

  Attributes:
    months: records and months of the release.
    split_of: split of every sort key of the split map, months that the
      timeline lacks included.
    timeline: months that exist.
    report: takes findings.
  """

  months: ReleaseMonths
  split_of: Mapping[SortKey, str]
  timeline: Timeline
  report: FindingsReport

  def __post_init__(self):
    self._query_ids: set[str] = set()
    self._positives_by_month = queries.index_positives_by_month(
      self.months.records.values()
    )

  def read_queries(self, text: str) -> dict[str, list[Query]]:
    """Returns split -> queries, in the order of the file.

    Raises:
      SourceError: naming the line of what is not in the schema.
    """
    queries_by_split = {split: [] for split in queries.SPLITS}
    lines = _LINE_ENDS.split(text)
    for number, line in enumerate(lines, start=1):
      if line.strip():
        location = f"line {number}"
        row = json_values.parse_json(line, self.report, location)
        row = json_values.expect_type(row, dict, location)
        parsed_query = self._read_query(row, location, number)
        if parsed_query is not None:
          split, query = parsed_query
          queries_by_split[split].append(query)
    return queries_by_split

  def _read_query(
    self, row: dict[str, Any], location: str, number: int
  ) -> tuple[str, Query] | None:
    """Returns (split, query), None if the query is dropped."""
    text = json_values.get_member(row, "query", str, location)
    family = self._read_family(row, location)
    targets = self._read_targets(row, family, location)
    listed_sids = self._read_listed_sids(row, location)
    if not listed_sids:
      self.report.add("query_without_gold", location, "pos_sids is empty")
      return None
    split = self._find_split(targets, family, location)
    if split is None:
      return None
    gold_sids = self._select_gold_sids(listed_sids, location)
    if not gold_sids:
      self.report.add(
        "query_without_gold", location, f"none of {format_value(listed_sids)}"
      )
      return None
    if not text.strip():
      self.report.add("text_empty", location)
    interval = self._make_interval(targets, gold_sids, location)
    # The paper's family "gap": a point about a month without an event.
    is_gap_point = family == POINT and interval.start in self.months.gaps
    query = Query(
      query_id=self._make_query_id(row, location, number),
      text=text,
      family=family,
      group=json_values.expect_type(
        row.get(GROUP_MEMBER, ""), str, f"{location}: {GROUP_MEMBER}"
      ),
      interval=interval,
      positives=tuple(
        sorted(self.months.records[sid].record_id for sid in gold_sids)
      ),
      paper_family=GAP if is_gap_point else family,
    )
    self._report_gold_mismatches(query, gold_sids, split, location)
    return split, query

  def _read_family(self, row: dict[str, Any], location: str) -> str:
    """Returns the family; every type but point is a window."""
    type_name = row.get("type") or row.get("source")
    if not row.get("type"):
      self.report.add(
        "type_missing", location, f"source is {format_value(type_name)}"
      )
    elif type_name not in (POINT, WINDOW):
      self.report.add("type_unknown", location, format_value(type_name))
    return POINT if type_name == POINT else WINDOW

  def _read_targets(
    self, row: dict[str, Any], family: str, location: str
  ) -> list[SortKey]:
    """Returns the months that a query asks for, as the file has them."""
    if family == POINT:
      if "sort_key" not in row:
        raise SourceError(
          f"{location}: a point query has no 'sort_key', [reign, year, month]"
        )
      return [
        json_values.parse_sort_key(row["sort_key"], f"{location}: sort_key")
      ]
    keys = row.get("target_sort_keys") or []
    path = f"{location}: target_sort_keys"
    json_values.expect_type(keys, list, path)
    return [
      json_values.parse_sort_key(key, f"{path}[{number}]")
      for number, key in enumerate(keys)
    ]

  def _read_listed_sids(self, row: dict[str, Any], location: str) -> list[Any]:
    sids = row.get("pos_sids") or []
    return json_values.expect_type(sids, list, f"{location}: pos_sids")

  def _find_split(
    self, targets: list[SortKey], family: str, location: str
  ) -> str | None:
    """Returns the split of a query, None if it has none."""
    target_splits = {
      self.split_of[key] for key in targets if key in self.split_of
    }
    if family == POINT and not target_splits:
      self.report.add("query_month_unsplit", location, list(targets[0]))
    elif not target_splits:
      self.report.add("query_without_split", location, f"{len(targets)} months")
    elif len(target_splits) > 1:
      self.report.add("query_mixed", location, ", ".join(sorted(target_splits)))
    return infer_split(targets, family, self.split_of)

  def _select_gold_sids(
    self, listed_sids: list[Any], location: str
  ) -> list[int]:
    """Returns the sids that answer and exist, each once, as listed."""
    gold_sids: dict[int, None] = {}
    for sid in listed_sids:
      # 3.0 and 3 are one key of a dictionary, "3" is another.
      if isinstance(sid, bool) or not isinstance(sid, int | float):
        self.report.add("gold_not_integer", location, format_value(sid))
      elif sid not in self.months.records:
        self.report.add("gold_missing", location, f"sid {format_value(sid)}")
      elif sid in gold_sids:
        self.report.add("gold_repeated", location, f"sid {sid}")
      else:
        gold_sids[int(sid)] = None
    return list(gold_sids)

  def _make_interval(
    self, targets: list[SortKey], gold_sids: list[int], location: str
  ) -> Interval:
    """Returns the stretch from the first to the last month asked for."""
    keys = set()
    for target in targets:
      key = find_month(target, self.timeline)
      if key in self.months.axis:
        keys.add(key)
      else:
        self.report.add("target_without_month", location, list(target))
    if not keys:
      first = self.months.records[gold_sids[0]].key
      self.report.add(
        "interval_of_gold", location, f"month of sid {gold_sids[0]}"
      )
      return Interval.single_month(first)
    interval = Interval(min(keys), max(keys))
    first, last = self.timeline.interval_ordinals(interval)
    num_holes = last - first + 1 - len(keys)
    if num_holes:
      self.report.add(
        "interval_with_holes", location, f"{num_holes} in {interval}"
      )
    return interval

  def _make_query_id(
    self, row: dict[str, Any], location: str, number: int
  ) -> str:
    """Returns the qid as a single word that no other query has."""
    qid = row.get("qid")
    text = qid if isinstance(qid, str) else json.dumps(qid)
    if qid is None:
      self.report.add("qid_missing", location)
    elif len(text.split()) != 1 or isinstance(qid, list | dict):
      self.report.add("qid_unusable", location, format_value(qid))
      qid = None
    # Run files are split at white space, so an id has to be one word.
    query_id = f"line-{number}" if qid is None else text.strip()
    if query_id in self._query_ids:
      self.report.add("qid_repeated", location, format_value(qid))
      query_id = f"{query_id}~{number}"
    # A file may hold the very id that the line before was given.
    while query_id in self._query_ids:
      query_id += "~"
    self._query_ids.add(query_id)
    return query_id

  def _report_gold_mismatches(
    self, query: Query, gold_sids: list[int], split: str, location: str
  ) -> None:
    """Reports gold that differs from the records of the interval."""
    for sid in gold_sids:
      record = self.months.records[sid]
      if record.kind == NEG_COMMENT:
        self.report.add("gold_is_comment", location, f"sid {sid}")
      if record.key not in query.interval:
        self.report.add(
          "gold_outside",
          location,
          f"sid {sid} of {record.key}, {query.interval}",
        )
    expected = queries.find_positives(
      query.interval, self.timeline, self._positives_by_month
    )
    num_missing = len(set(expected) - set(query.positives))
    if num_missing:
      self.report.add(
        "gold_incomplete",
        location,
        f"{num_missing} of {len(expected)} are not listed",
      )
    if any(
      self.split_of.get(key.triple, TRAIN) != split
      for key in self.timeline.iterate_keys(query.interval)
    ):
      self.report.add("interval_mixed", location, f"{query.interval}, {split}")
