"""Writer of any of our benchmarks in the schema of the authors' release.

Their code, and all code built on it, reads three files; written like this,
`rebuilt` can take their place.

Reading the files back with `reader` gives the same benchmark: sids are the
numbers of the record ids, events of one version share a version object. Members
that the schema lacks have our own names, which the authors' loaders ignore. The
letters of ids and the numbers of versions are not kept.

Source: schema of the public release (specification 1.1-1.3).
"""

import collections
import json
import os
import pathlib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ctd_jax.benchmark.benchmark import (
  EVENT,
  NEG_COMMENT,
  NO_EVENT,
  POINT,
  Query,
  Record,
)
from ctd_jax.chronology import dates
from ctd_jax.chronology.reigns import TimeKey, Timeline
from ctd_jax.utils import files
from ctd_jax_datasets.chunqiutr import base_texts
from ctd_jax_datasets.chunqiutr.release import infer_split
from ctd_jax_datasets.chunqiutr.release_months import (
  COMPILERS,
  GROUP_MEMBER,
  MONTHS_FILE,
  ORDER_MEMBER,
  QUERIES_FILE,
  SOURCE_MEMBER,
  SPLITS_FILE,
  UNKNOWN_ORDER,
  WORKS,
)

MIN_STRONG_SCORE = 0.9  # from here on the authors' audit calls a match strong
_MEMBER_BY_WORK = {work: member for member, work in WORKS.items()}
_FIRST_MEMBER = next(iter(WORKS))
_NUMBER = re.compile(r"[a-z]*(\d+)")


def write_release(
  folder: str | os.PathLike,
  records: Iterable[Record],
  queries_by_split: Mapping[str, Sequence[Query]],
  split_of: Mapping[TimeKey, str],
  timeline: Timeline,
) -> dict[str, pathlib.Path]:
  """Writes the three files into a folder and returns name -> path.

  Files of the same names are replaced. A month without a split is in no map.

  Raises:
    ValueError: if the schema cannot hold a record, or would give a query
      another split; nothing is written then.
  """
  if timeline.leap_months:
    raise ValueError(
      f"timeline {timeline.name!r} has leap months, the release's schema none"
    )
  records = sorted(records, key=lambda record: record.record_id)
  split_of = {key: split_of[key] for key in timeline.months if key in split_of}
  sids = number_sids(records)
  texts = {
    SPLITS_FILE: _dump_json(base_texts.format_split_map(split_of)),
    MONTHS_FILE: _dump_json(
      {"time_mapping": _make_time_mapping(records, sids, timeline)}
    ),
    QUERIES_FILE: "".join(
      _format_query_line(query, split, sids, split_of, timeline)
      for split, split_queries in queries_by_split.items()
      for query in split_queries
    ),
  }
  folder = pathlib.Path(folder)
  for name, text in texts.items():
    files.write_text(folder / name, text)
  return {name: folder / name for name in texts}


def number_sids(records: Sequence[Record]) -> dict[str, int]:
  """Returns record id -> sid.

  That is the number in the id (`r00012`, `s000012` -> 12) if every id has one
  of its own, else the place in order of id.
  """
  matches = [_NUMBER.fullmatch(record.record_id) for record in records]
  numbers = [int(match[1]) for match in matches if match]
  if len(set(numbers)) < len(records):
    numbers = range(len(records))
  return {
    record.record_id: number
    for record, number in zip(records, numbers, strict=True)
  }


def _dump_json(value: object) -> str:
  return json.dumps(value, ensure_ascii=False, indent=1) + "\n"


def _make_time_mapping(
  records: Iterable[Record], sids: Mapping[str, int], timeline: Timeline
) -> dict[str, Any]:
  """Returns date in words -> month node, for every month of the timeline."""
  by_month = collections.defaultdict(list)
  for record in records:
    if record.key not in timeline:
      raise ValueError(
        f"record {record.record_id} is of {record.key}, a month that timeline "
        f"{timeline.name!r} lacks"
      )
    by_month[record.key].append(record)
  nodes = {}
  for key in timeline.months:
    text = dates.format_key(key, timeline)
    month_records = by_month[key]
    placeholder_records = [
      record for record in month_records if record.kind == NO_EVENT
    ]
    content_records = [
      record for record in month_records if record.kind != NO_EVENT
    ]
    has_event = any(record.kind == EVENT for record in content_records)
    if has_event:
      nodes[text] = _month_node(key, False, content_records, sids)
      # The kind hangs on the month: a placeholder needs a node of its own.
      if placeholder_records:
        nodes[f"{text}，無事"] = _month_node(
          key, True, placeholder_records, sids
        )
    else:
      nodes[text] = _month_node(key, True, month_records, sids)
  return nodes


def _month_node(
  key: TimeKey,
  is_empty: bool,
  records: Sequence[Record],
  sids: Mapping[str, int],
) -> dict[str, Any]:
  """Returns the node of a month with versions and commentary."""
  records = sorted(
    records,
    key=lambda record: (record.source, record.order, record.record_id),
  )
  groups = collections.defaultdict(list)
  comments = []
  for record in records:
    if record.kind == NEG_COMMENT and (is_empty or not record.version):
      comments.append(record)
    else:
      # Without a version an event is a group of its own.
      groups[record.version or record.record_id].append(record)
  node: dict[str, Any] = {
    "sort_key": list(key.triple),
    "no_event": is_empty,
    # A reader numbers versions in file order, so those of a release stay.
    "versions": [_version_node(groups[name], sids) for name in sorted(groups)],
  }
  if comments:
    node["neg_samples"] = [_comment_block(record, sids) for record in comments]
  return node


def _version_node(
  records: Sequence[Record], sids: Mapping[str, int]
) -> dict[str, Any]:
  """Returns the texts about one event, by work."""
  version = collections.defaultdict(list)
  for record in records:
    if record.kind == NEG_COMMENT:
      version["neg_sample"].append(_comment_block(record, sids))
      continue
    entry = _sentence_entry(record, sids)
    is_base_source = record.source in _MEMBER_BY_WORK or record.kind == NO_EVENT
    if not is_base_source:
      entry[SOURCE_MEMBER] = record.source
    version[_MEMBER_BY_WORK.get(record.source, _FIRST_MEMBER)].append(entry)
  order = (*WORKS, "neg_sample")
  return {name: version[name] for name in order if name in version}


def _comment_block(record: Record, sids: Mapping[str, int]) -> dict[str, Any]:
  """Returns a comment as a block of one sentence."""
  names = COMPILERS.get(record.source)
  block = {
    "compiler": names[0] if names else record.source,
    "match_score": record.match_score,
    # Scores may come from a file of single precision.
    "match_strong": round(record.match_score, 6) >= MIN_STRONG_SCORE,
    "parsed_comment": [_sentence_entry(record, sids)],
  }
  return block if names else block | {SOURCE_MEMBER: record.source}


def _sentence_entry(record: Record, sids: Mapping[str, int]) -> dict[str, Any]:
  """Returns a text with its sid and, if that is known, place in its work."""
  entry = {"sid": sids[record.record_id], "text": record.text}
  if record.order != UNKNOWN_ORDER:
    entry[ORDER_MEMBER] = record.order
  return entry


def _format_query_line(
  query: Query,
  split: str,
  sids: Mapping[str, int],
  split_of: Mapping[TimeKey, str],
  timeline: Timeline,
) -> str:
  """Returns a query as a line of JSON."""
  keys = list(timeline.iterate_keys(query.interval))
  inferred = infer_split(keys, query.family, split_of)
  if inferred != split:
    raise ValueError(
      f"query {query.query_id} of {split} asks for {query.interval}, which is "
      f"of {inferred or 'no one split'}; a reader would not find it in {split}"
    )
  unknown_ids = [
    positive for positive in query.positives if positive not in sids
  ]
  if unknown_ids or not query.positives:
    raise ValueError(
      f"query {query.query_id}: answers {unknown_ids or 'none'} are no "
      "records; a reader would drop it"
    )
  sort_keys = [list(key.triple) for key in keys]
  row: dict[str, Any] = {
    "qid": query.query_id,
    "query": query.text,
    "type": query.family,
  }
  if query.family == POINT:
    row["sort_key"] = sort_keys[0]
  else:
    row["target_sort_keys"] = sort_keys
  row["pos_sids"] = sorted(sids[positive] for positive in query.positives)
  if query.group:
    row[GROUP_MEMBER] = query.group
  return json.dumps(row, ensure_ascii=False) + "\n"
