"""Queries of the release: lines of JSON, each with the sids that answer it.

Why: the split of a query is not written down but follows from the months it
asks for; the interval is the stretch from the first of them to the last. Both
are worked out here as the authors' loader does. Called by `release`.

`anchor_sort_key`, from which a window was counted, is not read: nothing in the
benchmark uses it.

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
from ctd_jax.chronology.annals import NEG_COMMENT
from ctd_jax.chronology.timelines import Interval, Timeline
from ctd_jax_datasets.chunqiutr import release_json
from ctd_jax_datasets.chunqiutr.findings import Report
from ctd_jax_datasets.chunqiutr.release_json import shown
from ctd_jax_datasets.chunqiutr.release_months import Months, month_of
from ctd_jax_datasets.chunqiutr.sources import SourceError
from ctd_jax_datasets.chunqiutr.splits import TRAIN

# Template group; the release has no such member, our exports have.
GROUP = "ctd_jax_group"
_LINE_ENDS = re.compile(r"\r\n|\r|\n")

Triple = tuple[int, int, int]


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
  found = {split_of[key] for key in targets if key in split_of}
  return found.pop() if len(found) == 1 else None


@dataclasses.dataclass
class Reader:
  """Reads the lines of `queries_all_labeledv3.jsonl`.

  Attributes:
    months: records and months of the release.
    split_of: split of every sort key of the split map, months that the
      timeline lacks included.
    timeline: months that exist.
    report: takes findings.
  """

  months: Months
  split_of: Mapping[Triple, str]
  timeline: Timeline
  report: Report

  def __post_init__(self):
    self._ids: set[str] = set()
    self._by_month = queries.index_positives(self.months.records.values())

  def read(self, text: str) -> dict[str, list[Query]]:
    """Returns split -> queries, in the order of the file.

    Raises:
      SourceError: naming the line of what is not in the schema.
    """
    found = {split: [] for split in queries.SPLITS}
    lines = _LINE_ENDS.split(text)
    for number, line in enumerate(lines, start=1):
      if line.strip():
        place = f"line {number}"
        row = release_json.parse(line, self.report, place)
        row = release_json.expect(row, dict, place)
        read = self._read_query(row, place, number)
        if read is not None:
          split, query = read
          found[split].append(query)
    return found

  def _read_query(
    self, row: dict[str, Any], place: str, number: int
  ) -> tuple[str, Query] | None:
    """Returns (split, query), None if the query is dropped."""
    text = release_json.member(row, "query", str, place)
    family = self._family(row, place)
    targets = self._targets(row, family, place)
    listed = self._listed(row, place)
    if not listed:
      self.report.add("query_without_gold", place, "pos_sids is empty")
      return None
    split = self._split(targets, family, place)
    if split is None:
      return None
    gold = self._gold(listed, place)
    if not gold:
      self.report.add("query_without_gold", place, f"none of {shown(listed)}")
      return None
    if not text.strip():
      self.report.add("text_empty", place)
    interval = self._interval(targets, gold, place)
    point_of_gap = family == POINT and interval.start in self.months.gaps
    query = Query(
      query_id=self._query_id(row, place, number),
      text=text,
      family=family,
      group=release_json.expect(row.get(GROUP, ""), str, f"{place}: {GROUP}"),
      interval=interval,
      positives=tuple(
        sorted(self.months.records[sid].record_id for sid in gold)
      ),
      paper_family=GAP if point_of_gap else family,
    )
    self._compare(query, gold, split, place)
    return split, query

  def _family(self, row: dict[str, Any], place: str) -> str:
    """Returns the family: what is not a point is a window."""
    named = row.get("type") or row.get("source")
    if not row.get("type"):
      self.report.add("type_missing", place, f"source is {shown(named)}")
    elif named not in (POINT, WINDOW):
      self.report.add("type_unknown", place, shown(named))
    return POINT if named == POINT else WINDOW

  def _targets(
    self, row: dict[str, Any], family: str, place: str
  ) -> list[Triple]:
    """Returns the months that a query asks for, as the file has them."""
    if family == POINT:
      if "sort_key" not in row:
        raise SourceError(
          f"{place}: a point query has no 'sort_key', [reign, year, month]"
        )
      return [release_json.triple(row["sort_key"], f"{place}: sort_key")]
    keys = row.get("target_sort_keys") or []
    path = f"{place}: target_sort_keys"
    release_json.expect(keys, list, path)
    return [
      release_json.triple(key, f"{path}[{number}]")
      for number, key in enumerate(keys)
    ]

  def _listed(self, row: dict[str, Any], place: str) -> list[Any]:
    found = row.get("pos_sids") or []
    return release_json.expect(found, list, f"{place}: pos_sids")

  def _split(
    self, targets: list[Triple], family: str, place: str
  ) -> str | None:
    """Returns the split of a query, None if it has none."""
    known = {self.split_of[key] for key in targets if key in self.split_of}
    if family == POINT and not known:
      self.report.add("query_month_unsplit", place, list(targets[0]))
    elif not known:
      self.report.add("query_without_split", place, f"{len(targets)} months")
    elif len(known) > 1:
      self.report.add("query_mixed", place, ", ".join(sorted(known)))
    return infer_split(targets, family, self.split_of)

  def _gold(self, listed: list[Any], place: str) -> list[int]:
    """Returns the sids that answer and exist, each once, as listed."""
    gold: dict[int, None] = {}
    for sid in listed:
      # 3.0 and 3 are one key of a dictionary, "3" is another.
      if isinstance(sid, bool) or not isinstance(sid, int | float):
        self.report.add("gold_not_integer", place, shown(sid))
      elif sid not in self.months.records:
        self.report.add("gold_missing", place, f"sid {shown(sid)}")
      elif sid in gold:
        self.report.add("gold_repeated", place, f"sid {sid}")
      else:
        gold[int(sid)] = None
    return list(gold)

  def _interval(
    self, targets: list[Triple], gold: list[int], place: str
  ) -> Interval:
    """Returns the stretch from the first to the last month asked for."""
    keys = set()
    for target in targets:
      key = month_of(target, self.timeline)
      if key in self.months.axis:
        keys.add(key)
      else:
        self.report.add("target_without_month", place, list(target))
    if not keys:
      first = self.months.records[gold[0]].key
      self.report.add("interval_of_gold", place, f"month of sid {gold[0]}")
      return Interval.month(first)
    interval = Interval(min(keys), max(keys))
    first, last = self.timeline.ordinals(interval)
    holes = last - first + 1 - len(keys)
    if holes:
      self.report.add("interval_with_holes", place, f"{holes} in {interval}")
    return interval

  def _query_id(self, row: dict[str, Any], place: str, number: int) -> str:
    """Returns the qid as a word that no other query has."""
    found = row.get("qid")
    text = found if isinstance(found, str) else json.dumps(found)
    if found is None:
      self.report.add("qid_missing", place)
    elif len(text.split()) != 1 or isinstance(found, list | dict):
      self.report.add("qid_unusable", place, shown(found))
      found = None
    query_id = f"line-{number}" if found is None else text.strip()
    if query_id in self._ids:
      self.report.add("qid_repeated", place, shown(found))
      query_id = f"{query_id}~{number}"
    while query_id in self._ids:
      query_id += "~"
    self._ids.add(query_id)
    return query_id

  def _compare(
    self, query: Query, gold: list[int], split: str, place: str
  ) -> None:
    """Reports gold that is not what stands in the interval."""
    for sid in gold:
      record = self.months.records[sid]
      if record.kind == NEG_COMMENT:
        self.report.add("gold_is_comment", place, f"sid {sid}")
      if record.key not in query.interval:
        self.report.add(
          "gold_outside", place, f"sid {sid} of {record.key}, {query.interval}"
        )
    expected = queries.positives_of(
      query.interval, self.timeline, self._by_month
    )
    lacking = len(set(expected) - set(query.positives))
    if lacking:
      self.report.add(
        "gold_incomplete", place, f"{lacking} of {len(expected)} are not listed"
      )
    if any(
      self.split_of.get(key.triple, TRAIN) != split
      for key in self.timeline.iterate(query.interval)
    ):
      self.report.add("interval_mixed", place, f"{query.interval}, {split}")
