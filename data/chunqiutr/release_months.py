"""Records of the release: what its file of months holds.

Why: the file is a tree of months, versions, works and sentences, the benchmark
a list of records. What a record is (event, placeholder, comment) is decided by
where it stands. Called by `release`; `release_writer` writes the same names.

Source: schema of the public release (specification 1.1).
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np

from ctd_jax.chronology import date_expressions, reign_tables
from ctd_jax.chronology.annals import (
  EVENT,
  NEG_COMMENT,
  NO_EVENT,
  Record,
  months_of,
)
from ctd_jax.chronology.timelines import TimeKey, Timeline
from ctd_jax_datasets.chunqiutr import placeholders, release_json, sources
from ctd_jax_datasets.chunqiutr.findings import Report
from ctd_jax_datasets.chunqiutr.release_json import shown
from ctd_jax_datasets.chunqiutr.sources import SourceError

# Member of a version -> the work; their order is the order of reading.
WORKS = {
  "春秋": sources.ANNALS,
  "春秋左氏傳": sources.ZUOZHUAN,
  "春秋公羊傳": sources.GONGYANG,
  "春秋穀梁傳": sources.GULIANG,
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
COMMENT = "comment"  # what a block of commentary is called without a source
# What we export from other works says so under this name, in the sentence or in
# the block of commentary.
OWN_SOURCE = "ctd_jax_source"
# And its place in its work under this one, in the sentence.
OWN_ORDER = "ctd_jax_order"
# A file without it lists texts month by month: their order would be the answer.
UNKNOWN_ORDER = -1
_MOST = np.iinfo(np.int32).max
_MONTH_MEMBERS = ("sort_key", "no_event", "versions", "neg_samples")
_VERSION_MEMBERS = (*WORKS, "neg_sample")


@dataclasses.dataclass(frozen=True)
class Months:
  """What the file of months holds.

  Attributes:
    records: by sid, sorted.
    axis: months that the file has, whether filled or not.
    gaps: months that are flagged as empty and hold no event.
  """

  records: dict[int, Record]
  axis: frozenset[TimeKey]
  gaps: frozenset[TimeKey]


def read(document: Any, timeline: Timeline, report: Report) -> Months:
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
  document = release_json.expect(document, dict, "the file")
  nodes = release_json.member(document, "time_mapping", dict, "")
  reader = _Reader(timeline, report)
  for text, node in nodes.items():
    reader.read_month(text, node)
  if not reader.flags:
    raise SourceError(
      f"time_mapping: none of its {len(nodes)} months is one of timeline "
      f"{timeline.name!r} ({timeline.months[0]} to {timeline.months[-1]})"
    )
  return reader.finish(len(nodes))


def record_id(sid: int) -> str:
  """Returns the record id that keeps a sid, e.g. `s000123`.

  Whether sids follow time is not known: they are metadata.
  """
  return f"s{sid:06d}"


class _Reader:
  """Walks over months."""

  def __init__(self, timeline: Timeline, report: Report):
    self.timeline = timeline
    self.report = report
    self.records: dict[int, Record] = {}
    self.places: dict[int, str] = {}
    self.flags: dict[TimeKey, set[bool]] = {}
    self.versions = self.entries = 0
    # A text may name a month of history that the released map lacks.
    released = timeline.name == "lu_release"
    self.calendar = reign_tables.timeline("lu") if released else timeline

  def read_month(self, text: str, node: Any) -> None:
    """Reads a month node, which stands under its date in words."""
    place = f"time_mapping[{shown(text)}]"
    node = release_json.expect(node, dict, place)
    if "sort_key" not in node:
      raise SourceError(f"{place}: has no 'sort_key', [reign, year, month]")
    triple = release_json.triple(node["sort_key"], f"{place}.sort_key")
    key = month_of(triple, self.timeline)
    if key is None:
      self.report.add("month_outside_timeline", place, list(triple))
      return
    flag = node.get("no_event", False)
    if not isinstance(flag, bool):
      self.report.add("flag_not_boolean", f"{place}.no_event", shown(flag))
    self._note_month(place, text, key, bool(flag))
    before = self.entries
    for path, version in release_json.members_of(
      node, "versions", place, self.report
    ):
      self._read_version(path, version, key, bool(flag))
    if self.entries == before:
      self.report.add("month_without_record", place)
    self._read_comments(node, "neg_samples", place, key, "")
    self._note_unread(node, _MONTH_MEMBERS, place)

  def _note_month(
    self, place: str, text: str, key: TimeKey, flag: bool
  ) -> None:
    if key in self.flags:
      self.report.add("month_repeated", place, key)
      if self.flags[key] != {flag}:
        self.report.add("flags_disagree", place, key)
    self.flags.setdefault(key, set()).add(flag)
    said = date_expressions.find_full_dates(text, self.calendar)
    if said and said[0][2] != key:
      self.report.add(
        "month_text_differs", place, f"reads {said[0][2]}, sort_key is {key}"
      )

  def _read_version(
    self, place: str, version: dict[str, Any], key: TimeKey, empty: bool
  ) -> None:
    """Reads the group of texts that tell of one event."""
    number = f"v{self.versions:05d}"
    self.versions += 1
    name = "" if empty else number
    for member, work in WORKS.items():
      for path, entry in release_json.members_of(
        version, member, place, self.report
      ):
        source = entry.get(OWN_SOURCE, work)
        source = release_json.expect(source, str, f"{path}.{OWN_SOURCE}")
        self._add(
          path,
          entry,
          Record(
            record_id="",
            text="",
            source=placeholders.SOURCE if empty else source,
            kind=NO_EVENT if empty else EVENT,
            key=key,
            order=UNKNOWN_ORDER,
            version=name,
          ),
        )
    self._read_comments(version, "neg_sample", place, key, name)
    self._note_unread(version, _VERSION_MEMBERS, place)

  def _read_comments(
    self,
    parent: dict[str, Any],
    member: str,
    place: str,
    key: TimeKey,
    version: str,
  ) -> None:
    """Reads the blocks of commentary of a version or of a month."""
    for path, block in release_json.members_of(
      parent, member, place, self.report
    ):
      source = self._compiler(block, path)
      score = self._match_score(block, path)
      for entry_path, entry in release_json.members_of(
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
        self._add(entry_path, entry, record)

  def _compiler(self, block: dict[str, Any], place: str) -> str:
    """Returns the work that a block of commentary is from."""
    if OWN_SOURCE in block:
      path = f"{place}.{OWN_SOURCE}"
      return release_json.expect(block[OWN_SOURCE], str, path)
    named = next(
      (block[name] for name in COMPILER_MEMBERS if block.get(name)), ""
    )
    for work, spellings in COMPILERS.items():
      if any(spelling in str(named) for spelling in spellings):
        return work
    label = block.get("source", COMMENT)
    if not isinstance(label, str) or not label or label == COMMENT:
      label = named if isinstance(named, str) and named else COMMENT
    self.report.add("compiler_unknown", place, f"{shown(named)}, as {label!r}")
    return label

  def _match_score(self, block: dict[str, Any], place: str) -> float:
    """Returns how well a block fits, 0-1; without a number, as accepted."""
    found = block.get("match_score")
    try:
      score = math.nan if isinstance(found, bool) else float(found)
    except (TypeError, ValueError, OverflowError):
      score = math.nan
    if 0 <= score <= 1:
      return score
    self.report.add(
      "match_score_unusable", f"{place}.match_score", shown(found)
    )
    if math.isnan(score):
      return float(block.get("match_strong") is True)
    return min(max(score, 0.0), 1.0)

  def _add(self, place: str, entry: dict[str, Any], blank: Record) -> None:
    """Keeps the record `blank` with sid, text and order of an entry."""
    self.entries += 1
    if "sid" not in entry:
      raise SourceError(f"{place}: has no 'sid', a whole number")
    sid = release_json.integer(entry["sid"], f"{place}.sid")
    text = release_json.member(entry, "text", str, place)
    if not text.strip():
      self.report.add("text_empty", place)
    record = dataclasses.replace(
      blank,
      record_id=record_id(sid),
      text=text,
      order=_order(entry, place),
    )
    if sid in self.records:
      earlier = self.records[sid]
      same = (earlier.text, earlier.key, earlier.kind) == (
        record.text,
        record.key,
        record.kind,
      )
      self.report.add(
        "sid_repeated" if same else "sid_conflict",
        place,
        f"sid {sid} stands in {self.places[sid]} too",
      )
    self.records[sid] = record
    self.places[sid] = place

  def _note_unread(
    self, value: dict[str, Any], known: tuple[str, ...], place: str
  ) -> None:
    """Reports members that hold sentences or comments in the wrong place."""
    for name, found in value.items():
      if name in known or not isinstance(found, list):
        continue
      entries = [item for item in found if isinstance(item, dict)]
      if any("sid" in item or "parsed_comment" in item for item in entries):
        self.report.add(
          "member_unread", f"{place}.{name}", f"{len(entries)} entries"
        )

  def finish(self, nodes: int) -> Months:
    """Returns what was read, after looking at it as a whole."""
    events = months_of(self.records.values())
    axis = frozenset(self.flags)
    for key in self.timeline.months:
      if key not in axis:
        self.report.add("month_without_node", str(key))
    self._note_texts()
    self.report.facts |= {
      "month_nodes": nodes,
      "months": len(axis),
      "time_ids_are_ordinals": len(axis) == len(self.timeline),
      "versions": self.versions,
      "records": len(self.records),
    }
    return Months(
      records=dict(sorted(self.records.items())),
      axis=axis,
      gaps=frozenset(
        key
        for key, flags in self.flags.items()
        if True in flags and key not in events
      ),
    )

  def _note_texts(self) -> None:
    """Reports texts that repeat, and placeholders of another month."""
    first: dict[str, int] = {}
    for sid, record in self.records.items():
      if first.setdefault(record.text, sid) != sid:
        self.report.add(
          "text_repeated", self.places[sid], f"also sid {first[record.text]}"
        )
      if record.kind != NO_EVENT:
        continue
      said = date_expressions.find_full_dates(record.text, self.calendar)
      if not said:
        self.report.add("placeholder_undated", self.places[sid])
      elif said[0][2] != record.key:
        self.report.add(
          "placeholder_differs",
          self.places[sid],
          f"reads {said[0][2]}, sort_key is {record.key}",
        )


def _order(entry: dict[str, Any], place: str) -> int:
  """Returns the place of a sentence in its work, -1 where no one says it."""
  if OWN_ORDER not in entry:
    return UNKNOWN_ORDER
  path = f"{place}.{OWN_ORDER}"
  order = release_json.integer(entry[OWN_ORDER], path)
  if not 0 <= order <= _MOST:
    raise SourceError(f"{path}: {order} should be a place from 0 to {_MOST}")
  return order


def month_of(
  triple: tuple[int, int, int], timeline: Timeline
) -> TimeKey | None:
  """Returns the month of a sort key, None if the timeline lacks it."""
  try:
    key = TimeKey(*triple)
  except ValueError:
    return None
  return key if key in timeline else None
