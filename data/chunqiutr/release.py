"""Reader of the benchmark as its authors released it, from their three files.

Records are in `release_months`; queries are lines of JSON, each with the sids
of its answers. Where the files contradict themselves, their own loader decides;
what it does not decide is decided here. Each such decision is noted.
"""

import dataclasses
import json
import pathlib
import re
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from ctd_jax.benchmark import benchmark
from ctd_jax.benchmark.benchmark import (
  GAP,
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
  """Returns the split of a query about some months, None without one.

  A point takes the split of its month, train if that has none. A window takes
  the split that all its months share; months without a split don't count.
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

  def read_queries(self, text: str) -> dict[str, tuple[Query, ...]]:
    """Returns split -> queries, in the order of the file."""
    queries_by_split = {split: [] for split in benchmark.SPLITS}
    for number, line in enumerate(_LINE_ENDS.split(text), start=1):
      if line.strip():
        location = f"line {number}"
        row = source_files.parse_json(line, self.notes, location)
        row = source_files.expect_type(row, dict, location)
        parsed_query = self._read_query(row, location, number)
        if parsed_query is not None:
          split, query = parsed_query
          queries_by_split[split].append(query)
    return {split: tuple(rows) for split, rows in queries_by_split.items()}

  def _read_query(
    self, row: dict[str, Any], location: str, number: int
  ) -> tuple[str, Query] | None:
    """Returns (split, query), None if the query is dropped."""
    text = source_files.get_member(row, "query", str, location)
    family = self._read_family(row, location)
    targets = self._read_targets(row, family, location)
    listed_sids = source_files.expect_type(
      row.get("pos_sids") or [], list, f"{location}: pos_sids"
    )
    split = infer_split(targets, family, self.split_of)
    if split is None:
      self.notes.add(
        location,
        "a window whose months share no split; left out",
        f"{len(targets)} months",
      )
      return None
    if family == POINT and targets[0] not in self.split_of:
      self.notes.add(
        location,
        "a point's month has no split; it counts as train",
        list(targets[0]),
      )
    gold_sids = self._select_gold_sids(listed_sids, location)
    if not gold_sids:
      self.notes.add(
        location,
        "a query that no record answers; left out",
        f"pos_sids is {format_value(listed_sids)}",
      )
      return None
    interval = self._make_interval(targets, gold_sids, location)
    # The paper's family "gap": a point about a month without an event.
    is_gap_point = family == POINT and interval.start in self.months.gaps
    return split, Query(
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

  def _select_gold_sids(
    self, listed_sids: list[Any], location: str
  ) -> list[int]:
    """Returns the sids that answer and exist, each once, as listed."""
    gold_sids: dict[int, None] = {}
    for sid in listed_sids:
      # 3.0 and 3 are one key of a dictionary, "3" is another.
      if isinstance(sid, bool) or not isinstance(sid, int | float):
        self.notes.add(
          location, "an answer is not a number; left out", format_value(sid)
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
        "months between those asked for count too",
        f"{num_holes} in {interval}",
      )
    return interval

  def _make_query_id(
    self, row: dict[str, Any], location: str, number: int
  ) -> str:
    """Returns the qid as a single word that no other query has."""
    qid = row.get("qid")
    query_id = qid.strip() if isinstance(qid, str) else json.dumps(qid)
    # Run files are split at white space, so an id has to be one word.
    if isinstance(qid, list | dict | None) or len(query_id.split()) != 1:
      self.notes.add(
        location,
        "a qid is missing or no single word; its line gives one",
        format_value(qid),
      )
      query_id = f"line-{number}"
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
    paths: paths by the names of `FILES`.
    timeline: months that exist; None means the 3,036 released ones.
  """
  timeline = timeline or reigns.load_timeline("lu_release")
  _check_calendar(paths[MONTHS_FILE].parent, timeline)
  notes = FileNotes()
  texts = {}
  for name, blob in release_months.FILES.items():
    with source_files.reading(paths[name], notes):
      texts[name] = source_files.read_blob(paths[name], blob, notes)
  with source_files.reading(paths[SPLITS_FILE], notes):
    split_map = _read_splits(texts[SPLITS_FILE], timeline, notes)
    for key in timeline.months:
      if key.triple not in split_map:
        notes.add(str(key), "a month has no split; it counts as train")
  with source_files.reading(paths[MONTHS_FILE], notes):
    document = source_files.parse_json(texts[MONTHS_FILE], notes)
    months = release_months.read_months(document, timeline, notes)
  with source_files.reading(paths[QUERIES_FILE], notes):
    queries = QueriesReader(months, split_map, timeline, notes).read_queries(
      texts[QUERIES_FILE]
    )
  notes.facts["queries"] = sum(map(len, queries.values()))
  return Release(
    records=tuple(
      sorted(months.records.values(), key=lambda record: record.record_id)
    ),
    queries=queries,
    # As in the authors' loader, a month without a split is train.
    split_of={key: split_map.get(key.triple, TRAIN) for key in timeline.months},
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


def _read_splits(
  text: str, timeline: Timeline, notes: FileNotes
) -> dict[SortKey, str]:
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
    if find_month(sort_key, timeline) is None:
      notes.add(location, "the split map has a month too many", name)
  return split_map
