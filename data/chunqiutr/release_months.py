"""The authors' release: names in its schema, its files, and its records by
month.

The file of months has a node for each month, with the texts about each event
(versions) and their commentary. Oddities are noted and read as their own loader
reads them.
"""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from ctd_jax.benchmark.benchmark import (
  EVENT,
  NEG_COMMENT,
  NO_EVENT,
  Record,
  collect_months,
)
from ctd_jax.chronology.reigns import TimeKey, Timeline
from ctd_jax_datasets.chunqiutr import base_texts, gallery
from ctd_jax_datasets.common import source_files
from ctd_jax_datasets.common.source_files import (
  FileNotes,
  SourceError,
  format_value,
)

MONTHS_FILE = "chunqiu_meta_sid_fixed.json"
QUERIES_FILE = "queries_all_labeledv3.jsonl"
SPLITS_FILE = "time_splits_by_month_v1.json"
# Member of a version -> the work; their order is the order of reading.
WORKS = {
  "春秋": base_texts.ANNALS,
  "春秋左氏傳": base_texts.ZUOZHUAN,
  "春秋公羊傳": base_texts.GONGYANG,
  "春秋穀梁傳": base_texts.GULIANG,
}
# The work -> its author, as a block of commentary names him, then how else.
COMPILERS = {
  "du_yu": ("杜預", "杜预"),
  "kong_yingda": ("孔穎達", "孔頴達", "孔颖达"),
  "gu_donggao": ("顧棟高", "顾栋高"),
  "wei_liaoweng": ("魏了翁",),
  "lv_zuqian": ("呂祖謙", "吕祖謙", "呂祖谦", "吕祖谦"),
}
COMPILER_MEMBERS = ("compiler", "author", "compiler_name")
# What a block of commentary is called without a source.
COMMENT_LABEL = "comment"
# Member of ours for the source of another work, in a sentence or a block of
# commentary.
SOURCE_MEMBER = "ctd_jax_source"
# Member of ours for the position of a sentence in its work.
ORDER_MEMBER = "ctd_jax_order"
# A file without it lists texts month by month: their order would be the date.
UNKNOWN_ORDER = -1
# Member of ours for the template group, which the release lacks.
GROUP_MEMBER = "ctd_jax_group"


# Commit of the public repository; it fixes the bytes of the files.
_COMMIT = "c0d3e5aa039ce24516eaa33ceedea2c54711fcec"
_URL = f"https://raw.githubusercontent.com/xbdxwyh/ChunQiuTR/{_COMMIT}/dataset"
FILES: Mapping[str, source_files.Blob] = {
  name: source_files.Blob(f"{_URL}/{name}", blob_id)
  for name, blob_id in (
    (MONTHS_FILE, "f5791ada9cd1ee2253101ac45fe7bb210d974b9e"),
    (QUERIES_FILE, "164b938c7ab37b6793897448834d52e428897718"),
    (SPLITS_FILE, "6c192cc28b047c14ccbc34fb2fb25fb5d32faac9"),
  )
}


_MAX_ORDER = np.iinfo(np.int32).max  # the TFDS feature is an int32
_MONTH_MEMBERS = ("sort_key", "no_event", "versions", "neg_samples")
_VERSION_MEMBERS = (*WORKS, "neg_sample")


@dataclasses.dataclass(frozen=True)
class ReleaseMonths:
  """Contents of the file of months."""

  records: dict[int, Record]
  axis: frozenset[TimeKey]  # months that the file has, whether filled or not
  gaps: frozenset[TimeKey]  # months that are flagged as empty and hold no event


def read_months(
  document: Any, timeline: Timeline, notes: FileNotes
) -> ReleaseMonths:
  """Returns the records of the parsed `chunqiu_meta_sid_fixed.json`.

  Of records with one sid the last counts, as in the authors' loader. Months
  that the timeline lacks are left out.
  """
  document = source_files.expect_type(document, dict, "the file")
  nodes = source_files.get_member(document, "time_mapping", dict, "")
  reader = _MonthsReader(timeline, notes)
  for text, node in nodes.items():
    reader.read_month(text, node)
  if not reader.axis:
    raise SourceError(
      f"time_mapping: none of its {len(nodes)} months is one of timeline "
      f"{timeline.name!r} ({timeline.months[0]} to {timeline.months[-1]})"
    )
  notes.facts |= {
    "month_nodes": len(nodes),
    "months": len(reader.axis),
    "versions": reader.num_versions,
    "records": len(reader.records),
  }
  return ReleaseMonths(
    records=dict(sorted(reader.records.items())),
    axis=frozenset(reader.axis),
    gaps=frozenset(reader.gaps - collect_months(reader.records.values())),
  )


class _MonthsReader:
  """Reader of month nodes that collects records and findings."""

  def __init__(self, timeline: Timeline, notes: FileNotes):
    self.timeline = timeline
    self.notes = notes
    self.records: dict[int, Record] = {}
    self.locations: dict[int, str] = {}
    self.axis: set[TimeKey] = set()  # months with a node
    self.gaps: set[TimeKey] = set()  # months with a node that says no event
    self.num_versions = 0

  def read_month(self, text: str, node: Any) -> None:
    """Reads a month node, which is under its date in words."""
    location = f"time_mapping[{format_value(text)}]"
    node = source_files.expect_type(node, dict, location)
    if "sort_key" not in node:
      raise SourceError(f"{location}: has no 'sort_key', [reign, year, month]")
    sort_key = source_files.parse_sort_key(
      node["sort_key"], f"{location}.sort_key"
    )
    key = find_month(sort_key, self.timeline)
    if key is None:
      self.notes.add(
        location, "the timeline has no such month; left out", list(sort_key)
      )
      return
    is_empty = node.get("no_event", False)
    if not isinstance(is_empty, bool):
      self.notes.add(
        f"{location}.no_event",
        "no_event is not true or false; read as in Python",
        format_value(is_empty),
      )
    if key in self.axis:
      self.notes.add(
        location, "a month has several nodes; they are joined", key
      )
    self.axis.add(key)
    if is_empty:
      self.gaps.add(key)
    for path, version in source_files.iterate_members(
      node, "versions", location, self.notes
    ):
      self._read_version(path, version, key, bool(is_empty))
    self._read_comments(node, "neg_samples", location, key, "")
    self._report_unread_members(node, _MONTH_MEMBERS, location)

  def _read_version(
    self, location: str, version: dict[str, Any], key: TimeKey, is_empty: bool
  ) -> None:
    """Reads the group of texts that tell of one event."""
    # Versions have no id in the files; they are numbered in file order.
    # Placeholders are not events and share no version.
    event_version = "" if is_empty else f"v{self.num_versions:05d}"
    self.num_versions += 1
    for member, work in WORKS.items():
      for path, entry in source_files.iterate_members(
        version, member, location, self.notes
      ):
        source = source_files.expect_type(
          entry.get(SOURCE_MEMBER, work), str, f"{path}.{SOURCE_MEMBER}"
        )
        self._add_record(
          path,
          entry,
          Record(
            record_id="",
            text="",
            source=gallery.SOURCE if is_empty else source,
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
    for path, block in source_files.iterate_members(
      parent, member, location, self.notes
    ):
      source = self._find_compiler(block, path)
      score = self._read_match_score(block, path)
      for entry_path, entry in source_files.iterate_members(
        block, "parsed_comment", path, self.notes
      ):
        self._add_record(
          entry_path,
          entry,
          Record(
            "",
            "",
            source,
            NEG_COMMENT,
            key,
            UNKNOWN_ORDER,
            version,
            match_score=score,
          ),
        )

  def _find_compiler(self, block: dict[str, Any], location: str) -> str:
    """Returns the work to which a block of commentary belongs."""
    if SOURCE_MEMBER in block:
      path = f"{location}.{SOURCE_MEMBER}"
      return source_files.expect_type(block[SOURCE_MEMBER], str, path)
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
    self.notes.add(
      location,
      "commentary by none of the five known works",
      f"{format_value(compiler)}, as {label!r}",
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
    self.notes.add(
      f"{location}.match_score",
      "match_score is not a number from 0 to 1; replaced",
      format_value(value),
    )
    # The accepted blocks of the authors are flagged as strong matches.
    if math.isnan(score):
      return float(block.get("match_strong") is True)
    return min(max(score, 0.0), 1.0)

  def _add_record(
    self, location: str, entry: dict[str, Any], template: Record
  ) -> None:
    """Adds the record `template` with sid, text and order of an entry."""
    if "sid" not in entry:
      raise SourceError(f"{location}: has no 'sid', a whole number")
    sid = source_files.parse_integer(entry["sid"], f"{location}.sid")
    if sid in self.records:
      self.notes.add(
        location,
        "a sid occurs again; the last counts",
        f"sid {sid} also occurs in {self.locations[sid]}",
      )
    # The later entry replaces the earlier one, as in the authors' loader.
    self.records[sid] = dataclasses.replace(
      template,
      # Sids are metadata: whether they follow time is not known.
      record_id=f"s{sid:06d}",
      text=source_files.get_member(entry, "text", str, location),
      order=_read_order(entry, location),
    )
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
        self.notes.add(
          f"{location}.{name}",
          "entries under a name that no loader reads; left out",
          f"{len(entries)} entries",
        )


def _read_order(entry: dict[str, Any], location: str) -> int:
  """Returns the position of a sentence in its work, -1 if it is unknown."""
  if ORDER_MEMBER not in entry:
    return UNKNOWN_ORDER
  path = f"{location}.{ORDER_MEMBER}"
  order = source_files.parse_integer(entry[ORDER_MEMBER], path)
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
