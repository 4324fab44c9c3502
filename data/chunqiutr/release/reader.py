"""Reader of the benchmark as its authors released it, from their three files.

The owner of the files should get exactly that benchmark and a list of its
oddities. `read_release` decides as the authors' own loader does wherever that
decides at all; every such decision is counted in the report.

Record ids keep the sid (`s000123`) and version ids number the groups of the
file; both are metadata, for nobody knows whether sids follow time. `order` is
-1, unknown, for every record of the authors: their file goes month by month, so
a position in it would be the date. In files of `writer` it is as written.
A placeholder stands under one of the four works in the files; here its source
is "placeholder", as in `rebuilt`. Months that the timeline lacks are left out
and reported; the axis is the timeline, whose ordinals are the authors' time ids
when every month has a node (fact `time_ids_are_ordinals`).

Source: schema of the public release (specification 1.1-1.3).
"""

from __future__ import annotations

import collections
import dataclasses
import itertools
import pathlib
from collections.abc import Mapping
from typing import Any

from ctd_jax.benchmark.queries import Query
from ctd_jax.benchmark.records import Record
from ctd_jax.chronology import reign_tables
from ctd_jax.chronology.timelines import TimeKey, Timeline
from ctd_jax_datasets.chunqiutr import splits
from ctd_jax_datasets.chunqiutr.release import (
  month_reader,
  query_reader,
  released_files,
)
from ctd_jax_datasets.chunqiutr.release.finding_codes import MEANINGS
from ctd_jax_datasets.chunqiutr.release.schema import (
  MONTHS_FILE,
  QUERIES_FILE,
  SPLITS_FILE,
)
from ctd_jax_datasets.common import errors, git_blobs, json_values, provenance
from ctd_jax_datasets.common.errors import SourceError
from ctd_jax_datasets.common.findings import (
  FindingsReport,
)
from ctd_jax_datasets.common.json_values import format_value

_TIMELINE = "lu_release"


@dataclasses.dataclass(frozen=True)
class Release:
  """The benchmark of the three files.

  Attributes:
    records: sorted by id.
    queries: split -> queries, in the order of the file.
    split_of: split of every month of the timeline, in order of time.
    report: oddities of the files.
  """

  records: tuple[Record, ...]
  queries: Mapping[str, tuple[Query, ...]]
  split_of: dict[TimeKey, str]
  report: FindingsReport


def read_release(
  paths: Mapping[str, pathlib.Path], timeline: Timeline | None = None
) -> Release:
  """Returns the benchmark of three files in the schema of the release.

  Args:
    paths: by the names of `FILES`.
    timeline: months that exist; None means the 3,036 released ones.

  Raises:
    SourceError: naming the file, the line or JSON path of the fault and the
      expected value; or if the files are an export on another calendar, whose
      keys would be read as other months.
  """
  timeline = timeline or reign_tables.load_timeline(_TIMELINE)
  _check_calendar(paths[MONTHS_FILE].parent, timeline)
  report = FindingsReport(MEANINGS)
  texts = {
    name: _read_file(name, paths[name], report) for name in released_files.FILES
  }
  with json_values.prefix_file_errors(paths[SPLITS_FILE]):
    split_map = _read_splits(texts[SPLITS_FILE], timeline, report)
  with json_values.prefix_file_errors(paths[MONTHS_FILE]):
    document = json_values.parse_json(texts[MONTHS_FILE], report)
    months = month_reader.read_months(document, timeline, report)
  with json_values.prefix_file_errors(paths[QUERIES_FILE]):
    queries_by_split = query_reader.QueriesReader(
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
    timeline_name = provenance.read_metadata(folder).timeline
  except errors.FolderError as error:
    raise SourceError(str(error)) from None
  if timeline_name not in (None, timeline.name):
    raise SourceError(
      f"{folder / provenance.METADATA_FILE}: timeline is "
      f"{format_value(timeline_name)}, expected {format_value(timeline.name)}; "
      "the files beside it are an export on another calendar"
    )


def _read_file(name: str, path: pathlib.Path, report: FindingsReport) -> str:
  with json_values.prefix_file_errors(path):
    try:
      content = path.read_bytes()
    except OSError as error:
      raise SourceError(f"cannot be read: {error.strerror}") from None
    actual_id = git_blobs.compute_blob_id(content)
    if actual_id != released_files.FILES[name].blob_id:
      report.add(
        "file_differs",
        name,
        f"blob {actual_id}, released {released_files.FILES[name].blob_id}",
      )
    return json_values.decode_utf8(content)


def _read_splits(
  text: str, timeline: Timeline, report: FindingsReport
) -> dict[tuple[int, int, int], str]:
  """Returns sort key -> split of every month that the split map lists."""
  document = json_values.expect_type(
    json_values.parse_json(text, report), dict, "the file"
  )
  split_names = json_values.get_member(document, "split_by_sort_key", dict, "")
  split_map = {}
  for key, name in split_names.items():
    location = f"split_by_sort_key[{format_value(key)}]"
    sort_key = json_values.parse_sort_key(key.split("-"), location)
    if not isinstance(name, str) or name not in splits.RELEASED_SPLIT_NAMES:
      allowed_names = ", ".join(splits.RELEASED_SPLIT_NAMES)
      raise SourceError(
        f"{location}: {format_value(name)} should be one of {allowed_names}"
      )
    # "01-1-1" and "1-1-1" are different JSON keys of one month.
    if sort_key in split_map:
      report.add(
        "split_repeated", location, f"was {split_map[sort_key]}, is {name}"
      )
    split_map[sort_key] = splits.RELEASED_SPLIT_NAMES[name]
    if month_reader.find_month(sort_key, timeline) is None:
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
  json_values.expect_type(info, dict, "debug_info")
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
    # As in the authors' loader, a month without a split is train.
    split_of[key] = split_map.get(key.triple, splits.TRAIN)
    official = splits.official_split(key)
    if timeline.name == _TIMELINE and split_of[key] != official:
      report.add(
        "split_not_official", str(key), f"{split_of[key]}, not {official}"
      )
  report.facts["split_boundaries"] = splits.count_boundaries(split_of)
  return split_of
