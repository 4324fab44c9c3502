"""Reader of the benchmark as its authors released it, from their three files.

Records are in `release_months`; queries are lines of JSON, each with the sids
of its answers. Where the files contradict themselves, their own loader decides;
what it does not decide is decided here. Each such decision is noted.
"""

import collections
import dataclasses
import itertools
import json
import pathlib
import re
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from ctd_jax.benchmark import benchmark
from ctd_jax.benchmark.benchmark import (
  GAP,
  NEG_COMMENT,
  POINT,
  WINDOW,
  Query,
  Record,
)
from ctd_jax.chronology import reigns
from ctd_jax.chronology.reigns import Interval, TimeKey, Timeline
from ctd_jax_datasets.chunqiutr import base_texts, release_months
from ctd_jax_datasets.chunqiutr.base_texts import TRAIN
from ctd_jax_datasets.chunqiutr.release_months import (
  GROUP_MEMBER,
  MONTHS_FILE,
  QUERIES_FILE,
  SPLITS_FILE,
  ReleaseMonths,
  find_month,
)
from ctd_jax_datasets.common import provenance, source_files
from ctd_jax_datasets.common.source_files import (
  FileNotes,
  SourceError,
  format_value,
)

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
    split_of: split of months, in the same form.
  """
  if family == POINT:
    return split_of.get(targets[0], TRAIN)
  target_splits = {split_of[key] for key in targets if key in split_of}
  return target_splits.pop() if len(target_splits) == 1 else None


@dataclasses.dataclass
class QueriesReader:
  """Reader of the lines of `queries_all_labeledv3.jsonl`."""

  months: ReleaseMonths  # records and months of the release
  # Split of every sort key of the split map, months that the timeline lacks
  # included.
  split_of: Mapping[SortKey, str]
  timeline: Timeline
  notes: FileNotes

  def __post_init__(self):
    self._query_ids: set[str] = set()
    self._positives_by_month = benchmark.index_positives_by_month(
      self.months.records.values()
    )

  def read_queries(self, text: str) -> dict[str, list[Query]]:
    """Returns split -> queries, in the order of the file."""
    queries_by_split = {split: [] for split in benchmark.SPLITS}
    lines = _LINE_ENDS.split(text)
    for number, line in enumerate(lines, start=1):
      if line.strip():
        location = f"line {number}"
        row = source_files.parse_json(line, self.notes, location)
        row = source_files.expect_type(row, dict, location)
        parsed_query = self._read_query(row, location, number)
        if parsed_query is not None:
          split, query = parsed_query
          queries_by_split[split].append(query)
    return queries_by_split

  def _read_query(
    self, row: dict[str, Any], location: str, number: int
  ) -> tuple[str, Query] | None:
    """Returns (split, query), None if the query is dropped."""
    text = source_files.get_member(row, "query", str, location)
    family = self._read_family(row, location)
    targets = self._read_targets(row, family, location)
    listed_sids = self._read_listed_sids(row, location)
    if not listed_sids:
      self.notes.add(
        location,
        "a query that no record answers; left out",
        "pos_sids is empty",
      )
      return None
    split = self._find_split(targets, family, location)
    if split is None:
      return None
    gold_sids = self._select_gold_sids(listed_sids, location)
    if not gold_sids:
      self.notes.add(
        location,
        "a query that no record answers; left out",
        f"none of {format_value(listed_sids)}",
      )
      return None
    if not text.strip():
      self.notes.add(location, "a record or query has no text")
    interval = self._make_interval(targets, gold_sids, location)
    # The paper's family "gap": a point about a month without an event.
    is_gap_point = family == POINT and interval.start in self.months.gaps
    query = Query(
      query_id=self._make_query_id(row, location, number),
      text=text,
      family=family,
      group=source_files.expect_type(
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
      self.notes.add(
        location,
        "a query has no type; its source counts",
        f"source is {format_value(type_name)}",
      )
    elif type_name not in (POINT, WINDOW):
      self.notes.add(
        location,
        "a query's type is not point or window; read as window",
        format_value(type_name),
      )
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
        source_files.parse_sort_key(row["sort_key"], f"{location}: sort_key")
      ]
    keys = row.get("target_sort_keys") or []
    path = f"{location}: target_sort_keys"
    source_files.expect_type(keys, list, path)
    return [
      source_files.parse_sort_key(key, f"{path}[{number}]")
      for number, key in enumerate(keys)
    ]

  def _read_listed_sids(self, row: dict[str, Any], location: str) -> list[Any]:
    sids = row.get("pos_sids") or []
    return source_files.expect_type(sids, list, f"{location}: pos_sids")

  def _find_split(
    self, targets: list[SortKey], family: str, location: str
  ) -> str | None:
    """Returns the split of a query, None if it has none."""
    target_splits = {
      self.split_of[key] for key in targets if key in self.split_of
    }
    if family == POINT and not target_splits:
      self.notes.add(
        location,
        "a point's month has no split; it counts as train",
        list(targets[0]),
      )
    elif not target_splits:
      self.notes.add(
        location,
        "a window without a month of the split map; left out",
        f"{len(targets)} months",
      )
    elif len(target_splits) > 1:
      self.notes.add(
        location,
        "a window over months of several splits; left out",
        ", ".join(sorted(target_splits)),
      )
    return infer_split(targets, family, self.split_of)

  def _select_gold_sids(
    self, listed_sids: list[Any], location: str
  ) -> list[int]:
    """Returns the sids that answer and exist, each once, as listed."""
    gold_sids: dict[int, None] = {}
    for sid in listed_sids:
      # 3.0 and 3 are one key of a dictionary, "3" is another.
      if isinstance(sid, bool) or not isinstance(sid, int | float):
        self.notes.add(
          location, "an answer is no number; left out", format_value(sid)
        )
      elif sid not in self.months.records:
        self.notes.add(
          location,
          "an answer has no record; left out",
          f"sid {format_value(sid)}",
        )
      elif sid in gold_sids:
        self.notes.add(
          location, "an answer is listed twice; counted once", f"sid {sid}"
        )
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
        self.notes.add(
          location, "a month asked for has no node; left out", list(target)
        )
    if not keys:
      first = self.months.records[gold_sids[0]].key
      self.notes.add(
        location,
        "no month asked for exists; the month of gold counts",
        f"month of sid {gold_sids[0]}",
      )
      return Interval.single_month(first)
    interval = Interval(min(keys), max(keys))
    first, last = self.timeline.interval_ordinals(interval)
    num_holes = last - first + 1 - len(keys)
    if num_holes:
      self.notes.add(
        location,
        "months between those asked for count as well",
        f"{num_holes} in {interval}",
      )
    return interval

  def _make_query_id(
    self, row: dict[str, Any], location: str, number: int
  ) -> str:
    """Returns the qid as a single word that no other query has."""
    qid = row.get("qid")
    text = qid if isinstance(qid, str) else json.dumps(qid)
    if qid is None:
      self.notes.add(location, "a query has no qid; its line gives one")
    elif len(text.split()) != 1 or isinstance(qid, list | dict):
      self.notes.add(
        location,
        "a qid is no single word; its line gives one",
        format_value(qid),
      )
      qid = None
    # Run files are split at white space, so an id has to be one word.
    query_id = f"line-{number}" if qid is None else text.strip()
    if query_id in self._query_ids:
      self.notes.add(
        location,
        "a qid occurs again; its line is added to it",
        format_value(qid),
      )
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
        self.notes.add(location, "an answer is commentary", f"sid {sid}")
      if record.key not in query.interval:
        self.notes.add(
          location,
          "an answer is of a month that is not asked for",
          f"sid {sid} of {record.key}, {query.interval}",
        )
    expected = benchmark.find_positives(
      query.interval, self.timeline, self._positives_by_month
    )
    num_missing = len(set(expected) - set(query.positives))
    if num_missing:
      self.notes.add(
        location,
        "records of the months asked for are not gold",
        f"{num_missing} of {len(expected)} are not listed",
      )
    if any(
      self.split_of.get(key.triple, TRAIN) != split
      for key in self.timeline.iterate_keys(query.interval)
    ):
      self.notes.add(
        location,
        "the stretch asked for has months of other splits",
        f"{query.interval}, {split}",
      )


_TIMELINE = "lu_release"


@dataclasses.dataclass(frozen=True)
class Release:
  """The benchmark of the three files."""

  records: tuple[Record, ...]
  # Split -> queries, in the order of the file.
  queries: Mapping[str, tuple[Query, ...]]
  # Split of every month of the timeline, in order of time.
  split_of: dict[TimeKey, str]
  notes: FileNotes  # oddities of the files


def read_release(
  paths: Mapping[str, pathlib.Path], timeline: Timeline | None = None
) -> Release:
  """Returns the benchmark of three files in the schema of the release.

  Args:
    paths: by the names of `FILES`.
    timeline: months that exist; None means the 3,036 released ones.
  """
  timeline = timeline or reigns.load_timeline(_TIMELINE)
  _check_calendar(paths[MONTHS_FILE].parent, timeline)
  notes = FileNotes()
  texts = {
    name: _read_file(name, paths[name], notes) for name in release_months.FILES
  }
  with source_files.reading(paths[SPLITS_FILE], notes):
    split_map = _read_splits(texts[SPLITS_FILE], timeline, notes)
    split_of = _complete_splits(split_map, timeline, notes)
  with source_files.reading(paths[MONTHS_FILE], notes):
    document = source_files.parse_json(texts[MONTHS_FILE], notes)
    months = release_months.read_months(document, timeline, notes)
  with source_files.reading(paths[QUERIES_FILE], notes):
    queries_by_split = QueriesReader(
      months, split_map, timeline, notes
    ).read_queries(texts[QUERIES_FILE])
  notes.facts["queries"] = sum(
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
    split_of=split_of,
    notes=notes,
  )


def _check_calendar(folder: pathlib.Path, timeline: Timeline) -> None:
  """Raises SourceError if files of ours are keyed on another timeline."""
  try:
    timeline_name = provenance.read_metadata(folder).timeline
  except source_files.FolderError as error:
    raise SourceError(str(error)) from None
  if timeline_name not in (None, timeline.name):
    raise SourceError(
      f"{folder / provenance.METADATA_FILE}: timeline is "
      f"{format_value(timeline_name)}, expected {format_value(timeline.name)}; "
      "the files beside it are an export on another calendar"
    )


def _read_file(name: str, path: pathlib.Path, notes: FileNotes) -> str:
  with source_files.reading(path, notes):
    try:
      content = path.read_bytes()
    except OSError as error:
      raise SourceError(f"cannot be read: {error.strerror}") from None
    actual_id = source_files.compute_blob_id(content)
    if actual_id != release_months.FILES[name].blob_id:
      notes.add(
        f"blob {actual_id}",
        source_files.FILE_DIFFERS,
        f"released is {release_months.FILES[name].blob_id}",
      )
    return source_files.decode_utf8(content)


def _read_splits(
  text: str, timeline: Timeline, notes: FileNotes
) -> dict[tuple[int, int, int], str]:
  """Returns sort key -> split of every month that the split map lists."""
  document = source_files.expect_type(
    source_files.parse_json(text, notes), dict, "the file"
  )
  split_names = source_files.get_member(document, "split_by_sort_key", dict, "")
  split_map = {}
  for key, name in split_names.items():
    location = f"split_by_sort_key[{format_value(key)}]"
    sort_key = source_files.parse_sort_key(key.split("-"), location)
    if not isinstance(name, str) or name not in base_texts.RELEASED_SPLIT_NAMES:
      allowed_names = ", ".join(base_texts.RELEASED_SPLIT_NAMES)
      raise SourceError(
        f"{location}: {format_value(name)} should be one of {allowed_names}"
      )
    # "01-1-1" and "1-1-1" are different JSON keys of one month.
    if sort_key in split_map:
      notes.add(
        location,
        "a month has two splits; the last counts",
        f"was {split_map[sort_key]}, is {name}",
      )
    split_map[sort_key] = base_texts.RELEASED_SPLIT_NAMES[name]
    if release_months.find_month(sort_key, timeline) is None:
      notes.add(location, "the split map has a month too many", name)
  for earlier, later in itertools.pairwise(split_map):
    if later < earlier:
      notes.add(
        f"{list(later)} after {list(earlier)}",
        "keys of the split map are not in order of time",
      )
  _compare_counts(document, split_map, notes)
  return split_map


def _compare_counts(
  document: dict[str, Any],
  split_map: Mapping[tuple[int, int, int], str],
  notes: FileNotes,
) -> None:
  """Reports reigns for which `debug_info` counts other months than listed."""
  listed_counts = collections.Counter(
    (key[0], split) for key, split in split_map.items()
  )
  info = document.get("debug_info", {})
  source_files.expect_type(info, dict, "debug_info")
  total = 0
  for reign in sorted({key[0] for key in split_map}):
    location = f"debug_info[{format_value(str(reign))}].month_counts"
    reported_counts = info.get(str(reign))
    reported_counts = (
      reported_counts.get("month_counts")
      if isinstance(reported_counts, dict)
      else None
    )
    for name, split in base_texts.RELEASED_SPLIT_NAMES.items():
      months = (
        reported_counts.get(name) if isinstance(reported_counts, dict) else None
      )
      if months != listed_counts[reign, split]:
        notes.add(
          f"{location}.{name}",
          "debug_info counts other months than are listed",
          f"{format_value(months)}, listed are {listed_counts[reign, split]}",
        )
      total += months if isinstance(months, int) else 0
  notes.facts["debug_info_months"] = total


def _complete_splits(
  split_map: Mapping[tuple[int, int, int], str],
  timeline: Timeline,
  notes: FileNotes,
) -> dict[TimeKey, str]:
  """Returns the split of every month of the timeline."""
  split_of = {}
  for key in timeline.months:
    if key.triple not in split_map:
      notes.add(str(key), "a month has no split; it counts as train")
    # As in the authors' loader, a month without a split is train.
    split_of[key] = split_map.get(key.triple, base_texts.TRAIN)
    official = base_texts.official_split(key)
    if timeline.name == _TIMELINE and split_of[key] != official:
      notes.add(
        str(key),
        "a month has another split than released",
        f"{split_of[key]}, not {official}",
      )
  notes.facts["split_boundaries"] = base_texts.count_boundaries(split_of)
  return split_of
