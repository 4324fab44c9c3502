"""A data set as a BEIR folder with time keys: written, and read back.

Why: BEIR's three files are what retrieval code reads; with a time key in the
`metadata` that BEIR leaves free, somebody else's chronicle can be evaluated,
and trained on, as if it were ours. `export` writes such folders;
`load.load_benchmark("beir:FOLDER")` reads them.

  corpus.jsonl    {"_id", "title", "text", "metadata": {"start", ...}}
  queries.jsonl   {"_id", "text", "metadata": {"start", "end", ...}}
  qrels/          train.tsv, dev.tsv, test.tsv: query-id, corpus-id, score
  reigns.tsv, metadata.json    see `provenance`

A key is `reign-year-month` such as 1-2-12: the row of the reign in the table,
the regnal year, the month; 1-2-12L is the leap month after it. Needed are the
ids, the texts and `start`. What else may be missing means: kind event; end of
a query as its start; family point, or window over several months; split test.

Source: BEIR (Thakur et al., 2021), layout of its data sets.
"""

from __future__ import annotations

import dataclasses
import json
import pathlib
import re
from collections.abc import Iterator, Mapping
from typing import Any

import tqdm
from absl import logging

from ctd_jax.benchmark.dataset import Benchmark
from ctd_jax.benchmark.queries import GAP, POINT, SPLITS, WINDOW, Query
from ctd_jax.benchmark.records import ANSWERING_KINDS, EVENT, KINDS, Record
from ctd_jax.chronology.timelines import Interval, TimeKey, Timeline
from ctd_jax.utils import files
from ctd_jax_datasets.common import provenance
from ctd_jax_datasets.common.errors import FolderError

BEIR_PREFIX = "beir:"
CORPUS_FILE = "corpus.jsonl"
QUERIES_FILE = "queries.jsonl"
QRELS_HEADER = "query-id\tcorpus-id\tscore"
# BEIR calls validation dev.
QRELS_FILES = {
  split: f"qrels/{'dev' if split == 'validation' else split}.tsv"
  for split in SPLITS
}
_SPLIT_NAMES = {"dev": "validation"} | {split: split for split in SPLITS}
_ID_PATTERN = re.compile(r"\S+")
_TYPE_NAMES = {str: "string", int: "whole number", float: "number"}

BEIR_DESCRIPTION = f"""\
BEIR: `{CORPUS_FILE}`, `{QUERIES_FILE}`, `qrels/*.tsv` (validation is
`dev`). The time keys and all else that is known of a text stand in its
`metadata`. To a retriever of track T0 that is the answer, not the question:
index `text` alone.

    python -m ctd_jax.evaluate --dataset={BEIR_PREFIX}FOLDER --baselines_only \\
      --workdir=RUN
    python -m ctd_jax.train --config=... --config.dataset={BEIR_PREFIX}FOLDER \\
      --workdir=RUN
"""


def write_beir(benchmark: Benchmark, folder: pathlib.Path) -> None:
  """Writes corpus, queries and qrels into `folder`."""
  corpus = [
    _format_json_line(
      record.record_id,
      record.text,
      {
        "source": record.source,
        "kind": record.kind,
        "start": str(record.key),
        "end": str(record.key),
        "split": split,
        "version": record.version,
        "order": record.order,
        "match_score": record.match_score,
      },
      {"title": ""},
    )
    for record, split in zip(
      tqdm.tqdm(benchmark.records, "records", disable=None, leave=False),
      benchmark.record_splits,
      strict=True,
    )
  ]
  files.write_text(folder / CORPUS_FILE, "".join(corpus))
  queries = [
    _format_json_line(
      query.query_id,
      query.text,
      {
        "family": query.family,
        "paper_family": query.paper_family,
        "group": query.group,
        "split": split,
        "start": str(query.interval.start),
        "end": str(query.interval.end),
      },
    )
    for split, split_queries in benchmark.queries.items()
    for query in split_queries
  ]
  files.write_text(folder / QUERIES_FILE, "".join(queries))
  for split, split_queries in benchmark.queries.items():
    lines = [
      f"{query.query_id}\t{positive}\t1\n"
      for query in split_queries
      for positive in query.positives
    ]
    if lines:
      files.write_text(
        folder / QRELS_FILES[split], QRELS_HEADER + "\n" + "".join(lines)
      )


def _format_json_line(
  text_id: str,
  text: str,
  metadata: Mapping[str, Any],
  fields: Mapping[str, str] | None = None,
) -> str:
  row = {"_id": text_id, **(fields or {}), "text": text, "metadata": metadata}
  return json.dumps(row, ensure_ascii=False) + "\n"


def read_beir(folder: pathlib.Path) -> Benchmark:
  """Returns the data set of a BEIR folder.

  Records are sorted by id; a query that no file of qrels names and that has no
  split of its own is not asked. A title stands before the text, as in BEIR.

  Raises:
    FileNotFoundError: if there is no such folder, or a file is missing.
    FolderError: naming file, line and field of what is wrong, and what would
      be right.
  """
  folder = folder.expanduser()
  qrels_files = [
    name for name in QRELS_FILES.values() if (folder / name).exists()
  ]
  _check_files(folder, qrels_files)
  name, timeline = provenance.read_provenance(
    folder, [CORPUS_FILE, QUERIES_FILE, *qrels_files]
  )
  rows = sorted(
    _read_records(folder / CORPUS_FILE, timeline),
    key=lambda row: row[0].record_id,
  )
  kinds = {record.record_id: record.kind for record, _ in rows}
  queries_by_id = _read_queries(folder / QUERIES_FILE, timeline)
  queries = _attach_positives(folder, queries_by_id, kinds)
  return Benchmark(
    name=name,
    timeline=timeline,
    records=tuple(record for record, _ in rows),
    record_splits=tuple(split for _, split in rows),
    queries=queries,
  )


def _check_files(folder: pathlib.Path, qrels_files: list[str]) -> None:
  for name in (CORPUS_FILE, QUERIES_FILE):
    if not (folder / name).is_file():
      raise FileNotFoundError(
        f"{BEIR_PREFIX}{folder}: no {name} there; a BEIR folder has {CORPUS_FILE}, "
        f"{QUERIES_FILE} and {QRELS_FILES['test']}"
      )
  existing_files = {f"qrels/{path.name}" for path in folder.glob("qrels/*.tsv")}
  unknown_files = sorted(existing_files - {*QRELS_FILES.values()})
  if unknown_files or not qrels_files:
    raise FolderError(
      f"{folder}: {f'unknown {unknown_files[0]}' if unknown_files else 'no qrels'}; "
      f"expected {', '.join(QRELS_FILES.values())}"
    )


@dataclasses.dataclass(frozen=True)
class _JsonLine:
  """One line of a JSON file; whatever is wrong names the line and field."""

  location: str
  fields: Mapping[str, Any]

  def make_error(self, field: str, problem: str) -> FolderError:
    return FolderError(f"{self.location}: {field}: {problem}")

  def get_field(self, field: str, kind: type, default: Any = None) -> Any:
    """Returns a field (`a.b` is b of a), checked for its type."""
    value: Any = self.fields
    for name in field.split("."):
      value = value.get(name) if isinstance(value, dict) else None
    if value is None:
      if default is None:
        raise self.make_error(field, f"missing; expected a {_TYPE_NAMES[kind]}")
      return default
    # Whole numbers count as fractions; true and false are neither.
    kinds = (int, float) if kind is float else kind
    if not isinstance(value, kinds) or isinstance(value, bool):
      raise self.make_error(field, f"{value!r} should be a {_TYPE_NAMES[kind]}")
    return value

  def get_text(self, field: str) -> str:
    """Returns a field that may not be empty, nor half a character."""
    value = self.get_field(field, str)
    if not value.strip():
      raise self.make_error(field, "is empty")
    try:
      value.encode()
    except UnicodeEncodeError:
      raise self.make_error(field, "holds half of a surrogate pair") from None
    return value

  def get_choice(self, field: str, allowed: Any, default: str) -> str:
    """Returns a field that is one of `allowed`; empty means the default."""
    value = self.get_field(field, str, default) or default
    if value != default and value not in allowed:
      raise self.make_error(field, f"{value!r} is none of {', '.join(allowed)}")
    return value

  def get_fraction(self, field: str, default: float) -> float:
    """Returns a field that is a number from 0 to 1."""
    value = self.get_field(field, float, default)
    if not 0 <= value <= 1:
      raise self.make_error(field, "should be a number from 0 to 1")
    return float(value)

  def get_key(
    self, field: str, timeline: Timeline, default: TimeKey | None = None
  ) -> TimeKey:
    """Returns a field that is a month of the timeline."""
    text = self.get_field(field, str, default and str(default))
    try:
      key = TimeKey.parse(text)
    except ValueError as error:
      raise self.make_error(field, str(error)) from None
    if key not in timeline:
      raise self.make_error(
        field, f"{text!r}: {_explain_missing_month(key, timeline)}"
      )
    return key


def _explain_missing_month(key: TimeKey, timeline: Timeline) -> str:
  """Returns what the timeline has instead of the month `key`."""
  if key.reign > len(timeline.reigns):
    return f"timeline {timeline.name} has reigns 1-{len(timeline.reigns)}"
  years = timeline.reigns[key.reign - 1].years
  if key.year > years:
    name = timeline.full_reign_name(key.reign)
    return f"reign {key.reign} ({name}) has years 1-{years}"
  return f"no such leap month; name it in `leap_months` of {provenance.METADATA_FILE}"


def _read_json_lines(path: pathlib.Path) -> Iterator[_JsonLine]:
  """Yields the objects of a JSON-lines file, ids checked and all different."""
  line_by_id: dict[str, int] = {}
  with path.open("rb") as file:
    for line_number, line in enumerate(file, start=1):
      if not line.strip():
        continue
      location = f"{path}:{line_number}"
      try:
        # Editors of some systems open a file with a byte order mark.
        fields = json.loads(line.decode("utf-8-sig"))
      except (ValueError, RecursionError) as error:
        raise FolderError(f"{location}: not JSON in UTF-8: {error}") from None
      if not isinstance(fields, dict):
        raise FolderError(
          f'{location}: should be an object such as {{"_id": "r1", "text": ...}}'
        )
      row = _JsonLine(location, fields)
      text_id = row.get_text("_id")
      if not _ID_PATTERN.fullmatch(text_id):
        raise row.make_error(
          "_id", f"{text_id!r}: run files are split at white space"
        )
      if text_id in line_by_id:
        raise row.make_error(
          "_id", f"{text_id!r} occurs in line {line_by_id[text_id]} as well"
        )
      line_by_id[text_id] = line_number
      yield row


def _read_records(
  path: pathlib.Path, timeline: Timeline
) -> Iterator[tuple[Record, str]]:
  """Yields every record with its split."""
  for position, row in enumerate(_read_json_lines(path)):
    key = row.get_key("metadata.start", timeline)
    if row.get_key("metadata.end", timeline, key) != key:
      raise row.make_error(
        "metadata.end",
        f"differs from start {key}; a record is filed under one month",
      )
    title = row.get_field("title", str, "")
    record = Record(
      record_id=row.get_text("_id"),
      text=f"{title} {row.get_text('text')}" if title else row.get_text("text"),
      source=row.get_field("metadata.source", str, ""),
      kind=row.get_choice("metadata.kind", KINDS, EVENT),
      key=key,
      order=row.get_field("metadata.order", int, position),
      version=row.get_field("metadata.version", str, ""),
      match_score=row.get_fraction("metadata.match_score", 1.0),
    )
    split = row.get_choice("metadata.split", _SPLIT_NAMES, "test")
    yield record, _SPLIT_NAMES[split]


def _read_queries(
  path: pathlib.Path, timeline: Timeline
) -> dict[str, tuple[Query, str | None]]:
  """Returns id -> query without positives, and its split if it names one."""
  queries_by_id = {}
  for row in _read_json_lines(path):
    start = row.get_key("metadata.start", timeline)
    end = row.get_key("metadata.end", timeline, start)
    if end < start:
      raise row.make_error("metadata.end", f"{end} lies before start {start}")
    family = row.get_choice(
      "metadata.family", (POINT, WINDOW), POINT if start == end else WINDOW
    )
    split = row.get_choice("metadata.split", _SPLIT_NAMES, "")
    if family == POINT and start != end:
      raise row.make_error(
        "metadata.family",
        f"a {POINT} asks for one month, not {start} to {end}; {WINDOW} does",
      )
    query = Query(
      query_id=row.get_text("_id"),
      text=row.get_text("text"),
      family=family,
      group=row.get_field("metadata.group", str, ""),
      interval=Interval(start, end),
      paper_family=row.get_choice(
        "metadata.paper_family",
        (POINT, GAP) if family == POINT else (WINDOW,),
        "",
      ),
    )
    queries_by_id[query.query_id] = query, _SPLIT_NAMES.get(split)
  return queries_by_id


def _attach_positives(
  folder: pathlib.Path,
  queries_by_id: Mapping[str, tuple[Query, str | None]],
  kinds: Mapping[str, str],
) -> dict[str, tuple[Query, ...]]:
  """Returns split -> queries with their positives, in the order asked."""
  positives: dict[str, list[str]] = {}
  split_by_id = {
    query_id: split for query_id, (_, split) in queries_by_id.items()
  }
  for split, name in QRELS_FILES.items():
    path = folder / name
    for location, query_id, record_id, score in _read_qrels(path):
      if query_id not in queries_by_id:
        raise FolderError(
          f"{location}: query-id: {query_id!r} is not in {QUERIES_FILE}"
        )
      if record_id not in kinds:
        raise FolderError(
          f"{location}: corpus-id: {record_id!r} is not in {CORPUS_FILE}"
        )
      if split_by_id[query_id] not in (None, split):
        raise FolderError(
          f"{location}: query-id: {query_id!r} belongs to {split_by_id[query_id]}"
        )
      split_by_id[query_id] = split
      if score <= 0:
        continue
      if kinds[record_id] not in ANSWERING_KINDS:
        raise FolderError(
          f"{location}: corpus-id: {record_id!r} is a {kinds[record_id]}, which "
          f"answers nothing; kind should be {' or '.join(ANSWERING_KINDS)}"
        )
      positives.setdefault(query_id, []).append(record_id)
  queries: dict[str, list[Query]] = {split: [] for split in SPLITS}
  for query_id, (query, _) in queries_by_id.items():
    if split_by_id[query_id] is not None:
      answers = tuple(sorted(positives.get(query_id, ())))
      queries[split_by_id[query_id]].append(
        _with_positives(query, answers, kinds)
      )
  unjudged_ids = [name for name, split in split_by_id.items() if split is None]
  if unjudged_ids:
    logging.warning(
      "%s: %d of %d queries are in no file of qrels and left out; first: %s",
      folder / QUERIES_FILE,
      len(unjudged_ids),
      len(queries_by_id),
      unjudged_ids[0],
    )
  return {split: tuple(rows) for split, rows in queries.items()}


def _with_positives(
  query: Query, positives: tuple[str, ...], kinds: Mapping[str, str]
) -> Query:
  """Returns the query with its positives; a point without event is a gap."""
  has_no_event = all(kinds[record_id] != EVENT for record_id in positives)
  default_family = (
    GAP if query.family == POINT and has_no_event else query.family
  )
  return dataclasses.replace(
    query,
    positives=positives,
    paper_family=query.paper_family or default_family,
  )


def _read_qrels(path: pathlib.Path) -> Iterator[tuple[str, str, str, int]]:
  """Yields (file:line, query id, record id, score); none if no file is."""
  if not path.exists():
    return
  judged_pairs = set()
  with path.open("rb") as file:
    for line_number, line in enumerate(file, start=1):
      location = f"{path}:{line_number}"
      try:
        cells = line.decode("utf-8-sig").rstrip("\r\n").split("\t")
      except UnicodeDecodeError as error:
        raise FolderError(f"{location}: not UTF-8: {error.reason}") from None
      if line_number == 1:
        # Readers of BEIR pass over the first line, whatever it holds.
        if "\t".join(cells) != QRELS_HEADER:
          raise FolderError(
            f"{location}: should be the header {QRELS_HEADER!r}"
          )
        continue
      if cells == [""]:
        continue
      if len(cells) != 3:
        raise FolderError(
          f"{location}: {len(cells)} columns; expected {QRELS_HEADER!r}"
        )
      query_id, record_id, score = cells
      if not re.fullmatch(r"-?\d{1,9}", score):
        raise FolderError(f"{location}: score: {score!r} is no whole number")
      if (query_id, record_id) in judged_pairs:
        raise FolderError(
          f"{location}: {query_id!r} and {record_id!r} are judged twice"
        )
      judged_pairs.add((query_id, record_id))
      yield location, query_id, record_id, int(score)
