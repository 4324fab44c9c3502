"""Records of the release, from its file of months.

The file is a tree of months, versions, works and sentences; the benchmark is a
list of records. The position in the tree decides whether a text is an event, a
placeholder or a comment.

Source: schema of the public release (specification 1.1).
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np

from ctd_jax.benchmark.records import (
  EVENT,
  NEG_COMMENT,
  NO_EVENT,
  Record,
  collect_months,
)
from ctd_jax.chronology import date_expressions, reign_tables
from ctd_jax.chronology.timelines import TimeKey, Timeline
from ctd_jax_datasets.chunqiutr import placeholders
from ctd_jax_datasets.chunqiutr.release.schema import (
  COMMENT_LABEL,
  COMPILER_MEMBERS,
  COMPILERS,
  ORDER_MEMBER,
  SOURCE_MEMBER,
  UNKNOWN_ORDER,
  WORKS,
)
from ctd_jax_datasets.common import json_values
from ctd_jax_datasets.common.errors import SourceError
from ctd_jax_datasets.common.findings import FindingsReport
from ctd_jax_datasets.common.json_values import format_value

_MAX_ORDER = np.iinfo(np.int32).max  # the TFDS feature is an int32
_MONTH_MEMBERS = ("sort_key", "no_event", "versions", "neg_samples")
_VERSION_MEMBERS = (*WORKS, "neg_sample")


@dataclasses.dataclass(frozen=True)
class ReleaseMonths:
  """Contents of the file of months.

  Attributes:
    records: by sid, sorted.
    axis: months that the file has, whether filled or not.
    gaps: months that are flagged as empty and hold no event.
  """

  records: dict[int, Record]
  axis: frozenset[TimeKey]
  gaps: frozenset[TimeKey]


def read_months(
  document: Any, timeline: Timeline, report: FindingsReport
) -> ReleaseMonths:
  """Returns the records of the parsed file.

  A sid that occurs twice is one record, the later one, as in the authors'
  loader. Months that the timeline lacks are left out.

  Args:
    document: of `chunqiu_meta_sid_fixed.json`.
    timeline: months that exist.
    report: takes findings and facts.

  Raises:
    SourceError: naming the JSON path of what is not in the schema.
  """
  document = json_values.expect_type(document, dict, "the file")
  nodes = json_values.get_member(document, "time_mapping", dict, "")
  reader = _MonthsReader(timeline, report)
  for text, node in nodes.items():
    reader.read_month(text, node)
  if not reader.empty_flags:
    raise SourceError(
      f"time_mapping: none of its {len(nodes)} months is one of timeline "
      f"{timeline.name!r} ({timeline.months[0]} to {timeline.months[-1]})"
    )
  return reader.build_months(len(nodes))


def format_record_id(sid: int) -> str:
  """Returns the record id that keeps a sid, e.g. `s000123`.

  Whether sids follow time is not known: they are metadata.
  """
  return f"s{sid:06d}"


class _MonthsReader:
  """Reader of month nodes that collects records and findings."""

  def __init__(self, timeline: Timeline, report: FindingsReport):
    self.timeline = timeline
    self.report = report
    self.records: dict[int, Record] = {}
    self.locations: dict[int, str] = {}
    self.empty_flags: dict[TimeKey, set[bool]] = {}
    self.num_versions = self.num_entries = 0
    # A text may name a month of history that the released map lacks.
    released = timeline.name == "lu_release"
    self.calendar = reign_tables.load_timeline("lu") if released else timeline

  def read_month(self, text: str, node: Any) -> None:
    """Reads a month node, which stands under its date in words."""
    location = f"time_mapping[{format_value(text)}]"
    node = json_values.expect_type(node, dict, location)
    if "sort_key" not in node:
      raise SourceError(f"{location}: has no 'sort_key', [reign, year, month]")
    sort_key = json_values.parse_sort_key(
      node["sort_key"], f"{location}.sort_key"
    )
    key = find_month(sort_key, self.timeline)
    if key is None:
      self.report.add("month_outside_timeline", location, list(sort_key))
      return
    is_empty = node.get("no_event", False)
    if not isinstance(is_empty, bool):
      self.report.add(
        "flag_not_boolean", f"{location}.no_event", format_value(is_empty)
      )
    self._register_month(location, text, key, bool(is_empty))
    num_entries_before = self.num_entries
    for path, version in json_values.iterate_members(
      node, "versions", location, self.report
    ):
      self._read_version(path, version, key, bool(is_empty))
    if self.num_entries == num_entries_before:
      self.report.add("month_without_record", location)
    self._read_comments(node, "neg_samples", location, key, "")
    self._report_unread_members(node, _MONTH_MEMBERS, location)

  def _register_month(
    self, location: str, text: str, key: TimeKey, is_empty: bool
  ) -> None:
    if key in self.empty_flags:
      self.report.add("month_repeated", location, key)
      if self.empty_flags[key] != {is_empty}:
        self.report.add("flags_disagree", location, key)
    self.empty_flags.setdefault(key, set()).add(is_empty)
    dates = date_expressions.find_full_dates(text, self.calendar)
    if dates and dates[0][2] != key:
      self.report.add(
        "month_text_differs",
        location,
        f"reads {dates[0][2]}, sort_key is {key}",
      )

  def _read_version(
    self, location: str, version: dict[str, Any], key: TimeKey, is_empty: bool
  ) -> None:
    """Reads the group of texts that tell of one event."""
    # Versions have no id in the files; they are numbered as they stand.
    version_id = f"v{self.num_versions:05d}"
    self.num_versions += 1
    # Placeholders are no events and share no version.
    event_version = "" if is_empty else version_id
    for member, work in WORKS.items():
      for path, entry in json_values.iterate_members(
        version, member, location, self.report
      ):
        source = entry.get(SOURCE_MEMBER, work)
        source = json_values.expect_type(source, str, f"{path}.{SOURCE_MEMBER}")
        self._add_record(
          path,
          entry,
          Record(
            record_id="",
            text="",
            source=placeholders.SOURCE if is_empty else source,
            kind=NO_EVENT if is_empty else EVENT,
            key=key,
            order=UNKNOWN_ORDER,
            version=event_version,
          ),
        )
    self._read_comments(version, "neg_sample", location, key, event_version)
    self._report_unread_members(version, _VERSION_MEMBERS, location)

  def _read_comments(
    self,
    parent: dict[str, Any],
    member: str,
    location: str,
    key: TimeKey,
    version: str,
  ) -> None:
    """Reads the blocks of commentary of a version or of a month."""
    for path, block in json_values.iterate_members(
      parent, member, location, self.report
    ):
      source = self._find_compiler(block, path)
      score = self._read_match_score(block, path)
      for entry_path, entry in json_values.iterate_members(
        block, "parsed_comment", path, self.report
      ):
        record = Record(
          "",
          "",
          source,
          NEG_COMMENT,
          key,
          UNKNOWN_ORDER,
          version,
          match_score=score,
        )
        self._add_record(entry_path, entry, record)

  def _find_compiler(self, block: dict[str, Any], location: str) -> str:
    """Returns the work to which a block of commentary belongs."""
    if SOURCE_MEMBER in block:
      path = f"{location}.{SOURCE_MEMBER}"
      return json_values.expect_type(block[SOURCE_MEMBER], str, path)
    compiler = next(
      (block[name] for name in COMPILER_MEMBERS if block.get(name)), ""
    )
    for work, spellings in COMPILERS.items():
      if any(spelling in str(compiler) for spelling in spellings):
        return work
    label = block.get("source", COMMENT_LABEL)
    if not isinstance(label, str) or not label or label == COMMENT_LABEL:
      label = (
        compiler if isinstance(compiler, str) and compiler else COMMENT_LABEL
      )
    self.report.add(
      "compiler_unknown", location, f"{format_value(compiler)}, as {label!r}"
    )
    return label

  def _read_match_score(self, block: dict[str, Any], location: str) -> float:
    """Returns the fit of a block, 0-1; without a number, 1 if accepted."""
    value = block.get("match_score")
    try:
      score = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
      score = math.nan
    if 0 <= score <= 1:
      return score
    self.report.add(
      "match_score_unusable", f"{location}.match_score", format_value(value)
    )
    # The accepted blocks of the authors are flagged as strong matches.
    if math.isnan(score):
      return float(block.get("match_strong") is True)
    return min(max(score, 0.0), 1.0)

  def _add_record(
    self, location: str, entry: dict[str, Any], template: Record
  ) -> None:
    """Adds the record `template` with sid, text and order of an entry."""
    self.num_entries += 1
    if "sid" not in entry:
      raise SourceError(f"{location}: has no 'sid', a whole number")
    sid = json_values.parse_integer(entry["sid"], f"{location}.sid")
    text = json_values.get_member(entry, "text", str, location)
    if not text.strip():
      self.report.add("text_empty", location)
    record = dataclasses.replace(
      template,
      record_id=format_record_id(sid),
      text=text,
      order=_read_order(entry, location),
    )
    if sid in self.records:
      earlier = self.records[sid]
      is_same = (earlier.text, earlier.key, earlier.kind) == (
        record.text,
        record.key,
        record.kind,
      )
      self.report.add(
        "sid_repeated" if is_same else "sid_conflict",
        location,
        f"sid {sid} stands in {self.locations[sid]} too",
      )
    # The later entry replaces the earlier one, as in the authors' loader.
    self.records[sid] = record
    self.locations[sid] = location

  def _report_unread_members(
    self, value: dict[str, Any], allowed_members: tuple[str, ...], location: str
  ) -> None:
    """Reports members that hold sentences or comments in the wrong place."""
    for name, member_value in value.items():
      if name in allowed_members or not isinstance(member_value, list):
        continue
      entries = [item for item in member_value if isinstance(item, dict)]
      if any("sid" in item or "parsed_comment" in item for item in entries):
        self.report.add(
          "member_unread", f"{location}.{name}", f"{len(entries)} entries"
        )

  def build_months(self, num_nodes: int) -> ReleaseMonths:
    """Returns the collected months, and reports findings about the whole."""
    event_months = collect_months(self.records.values())
    axis = frozenset(self.empty_flags)  # months with a node, empty or not
    for key in self.timeline.months:
      if key not in axis:
        self.report.add("month_without_node", str(key))
    self._report_texts()
    self.report.facts |= {
      "month_nodes": num_nodes,
      "months": len(axis),
      "time_ids_are_ordinals": len(axis) == len(self.timeline),
      "versions": self.num_versions,
      "records": len(self.records),
    }
    return ReleaseMonths(
      records=dict(sorted(self.records.items())),
      axis=axis,
      gaps=frozenset(
        key
        for key, flags in self.empty_flags.items()
        if True in flags and key not in event_months
      ),
    )

  def _report_texts(self) -> None:
    """Reports texts that repeat, and placeholders of another month."""
    first_sids: dict[str, int] = {}
    for sid, record in self.records.items():
      if first_sids.setdefault(record.text, sid) != sid:
        self.report.add(
          "text_repeated",
          self.locations[sid],
          f"also sid {first_sids[record.text]}",
        )
      if record.kind != NO_EVENT:
        continue
      dates = date_expressions.find_full_dates(record.text, self.calendar)
      if not dates:
        self.report.add("placeholder_undated", self.locations[sid])
      elif dates[0][2] != record.key:
        self.report.add(
          "placeholder_differs",
          self.locations[sid],
          f"reads {dates[0][2]}, sort_key is {record.key}",
        )


def _read_order(entry: dict[str, Any], location: str) -> int:
  """Returns the position of a sentence in its work, -1 if it is unknown."""
  if ORDER_MEMBER not in entry:
    return UNKNOWN_ORDER
  path = f"{location}.{ORDER_MEMBER}"
  order = json_values.parse_integer(entry[ORDER_MEMBER], path)
  if not 0 <= order <= _MAX_ORDER:
    raise SourceError(
      f"{path}: {order} should be a position from 0 to {_MAX_ORDER}"
    )
  return order


def find_month(
  sort_key: tuple[int, int, int], timeline: Timeline
) -> TimeKey | None:
  """Returns the month of a sort key, None if the timeline lacks it."""
  try:
    key = TimeKey(*sort_key)
  except ValueError:
    return None
  return key if key in timeline else None
