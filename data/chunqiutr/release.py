"""The benchmark as its authors released it, from their three files.

Why: whoever owns the files should get exactly that benchmark, and be told what
is odd in them. `read` decides as the authors' own loader does wherever it
decides at all; every such decision is counted in the report. Called by the
builder (config `release`), which gets the files from `files`.

Record ids keep the sid (`s000123`) and version ids number the groups of the
file; both are metadata, for nobody knows whether sids follow time. `order` is
-1, unknown, for every record of the authors: their file goes month by month, so
a place in it would be the date. In files of `release_writer` it is as written.
A placeholder stands under one of the four works in the files; here its source
is "placeholder", as in `rebuilt`. Of the months, those that the timeline lacks
are left out and reported; the axis is the timeline, whose ordinals are the
authors' time ids when every month has a node (fact `time_ids_are_ordinals`).

Source: schema of the public release (specification 1.1-1.3).
"""

from __future__ import annotations

import collections
import dataclasses
import itertools
import os
import pathlib
from collections.abc import Mapping
from typing import Any

import tensorflow_datasets as tfds

from ctd_jax.benchmark.queries import Query
from ctd_jax.benchmark.records import Record
from ctd_jax.chronology import reign_tables
from ctd_jax.chronology.timelines import TimeKey, Timeline
from ctd_jax_datasets import provenance
from ctd_jax_datasets.chunqiutr import (
  git_blobs,
  release_json,
  release_months,
  release_queries,
  splits,
)
from ctd_jax_datasets.chunqiutr.findings import (
  DROPPED,
  NOTE,
  RESOLVED,
  CodeMeaning,
  FindingsReport,
)
from ctd_jax_datasets.chunqiutr.release_json import format_value
from ctd_jax_datasets.chunqiutr.sources import SourceError

_COMMIT = "c0d3e5aa039ce24516eaa33ceedea2c54711fcec"
_URL = f"https://raw.githubusercontent.com/xbdxwyh/ChunQiuTR/{_COMMIT}/dataset"
MONTHS_FILE = "chunqiu_meta_sid_fixed.json"
QUERIES_FILE = "queries_all_labeledv3.jsonl"
SPLITS_FILE = "time_splits_by_month_v1.json"
FILES: Mapping[str, git_blobs.Blob] = {
  name: git_blobs.Blob(f"{_URL}/{name}", blob_id)
  for name, blob_id in (
    (MONTHS_FILE, "f5791ada9cd1ee2253101ac45fe7bb210d974b9e"),
    (QUERIES_FILE, "164b938c7ab37b6793897448834d52e428897718"),
    (SPLITS_FILE, "6c192cc28b047c14ccbc34fb2fb25fb5d32faac9"),
  )
}
_TIMELINE = "lu_release"

MEANINGS: Mapping[str, CodeMeaning] = {
  code: CodeMeaning(level, text)
  for code, level, text in (
    # The files.
    ("file_differs", NOTE, "the file is not the released one (git blob id)"),
    ("member_repeated", RESOLVED, "a JSON member occurs twice; last counts"),
    ("value_not_list", DROPPED, "a value should be a list and is skipped"),
    ("text_empty", NOTE, "a record or query has no text"),
    # Months.
    ("month_outside_timeline", DROPPED, "the timeline has no such month"),
    ("month_repeated", RESOLVED, "a month has several nodes; they are joined"),
    ("flags_disagree", NOTE, "nodes of one month say event and no event"),
    ("flag_not_boolean", RESOLVED, "no_event is not true or false; as Python"),
    ("month_text_differs", NOTE, "the date in words is another month"),
    ("month_without_node", NOTE, "a month of the timeline has no node"),
    ("month_without_record", NOTE, "a node has neither event nor placeholder"),
    # Records.
    ("member_unread", DROPPED, "entries under a name that no loader reads"),
    ("sid_repeated", RESOLVED, "a sid occurs again, same text, month and kind"),
    ("sid_conflict", RESOLVED, "a sid occurs again, differently; last counts"),
    ("text_repeated", NOTE, "a text occurs under several sids"),
    ("placeholder_undated", NOTE, "a placeholder names no month"),
    ("placeholder_differs", NOTE, "a placeholder names another month"),
    ("compiler_unknown", NOTE, "commentary by none of the five known works"),
    ("match_score_unusable", RESOLVED, "match_score is not a number from 0-1"),
    # Split map.
    ("split_month_outside", NOTE, "the split map has a month too many"),
    ("split_repeated", RESOLVED, "a month has two splits listed; last counts"),
    ("split_missing", RESOLVED, "a month has no split; it counts as train"),
    ("split_unsorted", NOTE, "keys of the split map are not in order of time"),
    ("split_not_official", NOTE, "a month has another split than released"),
    ("split_count_differs", NOTE, "debug_info counts other months than listed"),
    # Queries.
    ("type_missing", RESOLVED, "a query has no type; its source counts"),
    ("type_unknown", RESOLVED, "type is not point or window; read as window"),
    ("qid_missing", RESOLVED, "a query has no qid; the line gives it one"),
    ("qid_unusable", RESOLVED, "qid is no single word; the line gives one"),
    ("qid_repeated", RESOLVED, "a qid occurs again; the line is added to it"),
    ("query_month_unsplit", RESOLVED, "a point's month has no split; train"),
    ("query_mixed", DROPPED, "a window over months of several splits"),
    ("query_without_split", DROPPED, "a window without a month of the map"),
    ("query_without_gold", DROPPED, "a query that no record answers"),
    ("target_without_month", DROPPED, "a month asked for that has no node"),
    ("interval_of_gold", RESOLVED, "no month asked for exists; month of gold"),
    ("interval_with_holes", RESOLVED, "months between those asked for count"),
    ("interval_mixed", NOTE, "so filled, a window has months of other splits"),
    ("gold_not_integer", DROPPED, "an answer is not a number, such as '12'"),
    ("gold_missing", DROPPED, "an answer has no record"),
    ("gold_repeated", RESOLVED, "an answer is listed twice"),
    ("gold_is_comment", NOTE, "an answer is commentary"),
    ("gold_outside", NOTE, "an answer is of a month that is not asked for"),
    ("gold_incomplete", NOTE, "records of the months asked for are not gold"),
  )
}


@dataclasses.dataclass(frozen=True)
class Release:
  """The benchmark of the three files.

  Attributes:
    records: sorted by id.
    queries: split -> queries, in the order of the file.
    split_of: split of every month of the timeline, in order of time.
    report: what was odd.
  """

  records: tuple[Record, ...]
  queries: Mapping[str, tuple[Query, ...]]
  split_of: dict[TimeKey, str]
  report: FindingsReport


def resolve_files(
  manager: tfds.download.DownloadManager,
  folder: str | os.PathLike | None = None,
) -> dict[str, pathlib.Path]:
  """Returns name -> path of the three files.

  Args:
    manager: downloads them, if no folder is named.
    folder: that holds them, or a clone of the authors' repository. Files that
      differ from the released ones are accepted; `read` reports them.

  Raises:
    SourceError: if one is missing, cannot be downloaded, or was downloaded and
      is not the released one.
  """
  if folder is not None:
    return git_blobs.find_folder_files(folder, git_blobs.get_urls(FILES))
  return git_blobs.download_blobs(manager, FILES)


def read_release(
  paths: Mapping[str, pathlib.Path], timeline: Timeline | None = None
) -> Release:
  """Returns the benchmark of three files in the schema of the release.

  Args:
    paths: by the names of `FILES`.
    timeline: months that exist; None means the 3,036 released ones.

  Raises:
    SourceError: naming the file and the line or JSON path of what cannot be
      read, and what would be right; or if the files are an export on another
      calendar, whose keys would be read as other months.
  """
  timeline = timeline or reign_tables.load_timeline(_TIMELINE)
  _check_calendar(paths[MONTHS_FILE].parent, timeline)
  report = FindingsReport(MEANINGS)
  texts = {name: _read_file(name, paths[name], report) for name in FILES}
  with release_json.prefix_file_errors(paths[SPLITS_FILE]):
    split_map = _read_splits(texts[SPLITS_FILE], timeline, report)
  with release_json.prefix_file_errors(paths[MONTHS_FILE]):
    document = release_json.parse_json(texts[MONTHS_FILE], report)
    months = release_months.read_months(document, timeline, report)
  with release_json.prefix_file_errors(paths[QUERIES_FILE]):
    queries_by_split = release_queries.QueriesReader(
      months, split_map, timeline, report
    ).read_queries(texts[QUERIES_FILE])
  report.facts["queries"] = sum(
    len(split_queries) for split_queries in queries_by_split.values()
  )
  return Release(
    records=tuple(
      sorted(months.records.values(), key=lambda record: record.record_id)
    ),
    queries={
      split: tuple(split_queries)
      for split, split_queries in queries_by_split.items()
    },
    split_of=_complete_splits(split_map, timeline, report),
    report=report,
  )


def _check_calendar(folder: pathlib.Path, timeline: Timeline) -> None:
  """Raises SourceError if files of ours are keyed on another timeline."""
  try:
    timeline_name = provenance.read_metadata(folder).get(
      "timeline", timeline.name
    )
  except provenance.FolderError as error:
    raise SourceError(str(error)) from None
  if timeline_name != timeline.name:
    raise SourceError(
      f"{folder / provenance.METADATA_FILE}: timeline is {format_value(timeline_name)}, expected "
      f"{format_value(timeline.name)}; the files beside it are an export on another "
      "calendar"
    )


def _read_file(name: str, path: pathlib.Path, report: FindingsReport) -> str:
  with release_json.prefix_file_errors(path):
    try:
      content = path.read_bytes()
    except OSError as error:
      raise SourceError(f"cannot be read: {error.strerror}") from None
    actual_id = git_blobs.compute_blob_id(content)
    if actual_id != FILES[name].blob_id:
      report.add(
        "file_differs",
        name,
        f"blob {actual_id}, released {FILES[name].blob_id}",
      )
    return release_json.decode_utf8(content)


def _read_splits(
  text: str, timeline: Timeline, report: FindingsReport
) -> dict[tuple[int, int, int], str]:
  """Returns sort key -> split of every month that the split map lists."""
  document = release_json.expect_type(
    release_json.parse_json(text, report), dict, "the file"
  )
  split_names = release_json.get_member(document, "split_by_sort_key", dict, "")
  split_map = {}
  for key, name in split_names.items():
    location = f"split_by_sort_key[{format_value(key)}]"
    sort_key = release_json.parse_sort_key(key.split("-"), location)
    if not isinstance(name, str) or name not in splits.RELEASED_SPLIT_NAMES:
      allowed_names = ", ".join(splits.RELEASED_SPLIT_NAMES)
      raise SourceError(
        f"{location}: {format_value(name)} should be one of {allowed_names}"
      )
    if sort_key in split_map:
      report.add(
        "split_repeated", location, f"was {split_map[sort_key]}, is {name}"
      )
    split_map[sort_key] = splits.RELEASED_SPLIT_NAMES[name]
    if release_months.find_month(sort_key, timeline) is None:
      report.add("split_month_outside", location, name)
  for earlier, later in itertools.pairwise(split_map):
    if later < earlier:
      report.add("split_unsorted", f"{list(later)} after {list(earlier)}")
  _compare_counts(document, split_map, report)
  return split_map


def _compare_counts(
  document: dict[str, Any],
  split_map: Mapping[tuple[int, int, int], str],
  report: FindingsReport,
) -> None:
  """Reports reigns for which `debug_info` counts other months than listed."""
  listed_counts = collections.Counter(
    (key[0], split) for key, split in split_map.items()
  )
  info = document.get("debug_info", {})
  release_json.expect_type(info, dict, "debug_info")
  total = 0
  for reign in sorted({key[0] for key in split_map}):
    location = f"debug_info[{format_value(str(reign))}].month_counts"
    reported_counts = info.get(str(reign))
    reported_counts = (
      reported_counts.get("month_counts")
      if isinstance(reported_counts, dict)
      else None
    )
    for name, split in splits.RELEASED_SPLIT_NAMES.items():
      months = (
        reported_counts.get(name) if isinstance(reported_counts, dict) else None
      )
      if months != listed_counts[reign, split]:
        report.add(
          "split_count_differs",
          f"{location}.{name}",
          f"{format_value(months)}, listed are {listed_counts[reign, split]}",
        )
      total += months if isinstance(months, int) else 0
  report.facts["debug_info_months"] = total


def _complete_splits(
  split_map: Mapping[tuple[int, int, int], str],
  timeline: Timeline,
  report: FindingsReport,
) -> dict[TimeKey, str]:
  """Returns the split of every month of the timeline."""
  split_of = {}
  for key in timeline.months:
    if key.triple not in split_map:
      report.add("split_missing", str(key))
    split_of[key] = split_map.get(key.triple, splits.TRAIN)
    official = splits.official_split(key)
    if timeline.name == _TIMELINE and split_of[key] != official:
      report.add(
        "split_not_official", str(key), f"{split_of[key]}, not {official}"
      )
  report.facts["split_boundaries"] = splits.count_boundaries(split_of)
  return split_of
