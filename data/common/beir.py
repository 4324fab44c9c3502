"""BEIR folders with time keys: their layout, writer and reader.

A folder is a corpus, queries and qrels as BEIR has them; the time keys and
everything else known about a text are in its `metadata`. The folder also has
the calendar (`reigns.tsv`) and `metadata.json`, see `provenance`. Errors name
file, line and field.
"""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any, TypeVar

import msgspec
import tqdm
from absl import logging
from etils import epath

from ctd_jax.benchmark.benchmark import (
  ANSWERING_KINDS,
  EVENT,
  GAP,
  KINDS,
  POINT,
  SPLITS,
  WINDOW,
  Benchmark,
  Query,
  Record,
)
from ctd_jax.chronology import reigns
from ctd_jax.chronology.reigns import Interval, TimeKey, Timeline
from ctd_jax.utils import files, notes
from ctd_jax.utils.notes import Note
from ctd_jax_datasets.common import provenance
from ctd_jax_datasets.common.source_files import FolderError

BEIR_PREFIX = "beir:"
CORPUS_FILE = "corpus.jsonl"
QUERIES_FILE = "queries.jsonl"
QRELS_HEADER = "query-id\tcorpus-id\tscore"
# BEIR calls validation dev.
QRELS_FILES = {
  split: f"qrels/{'dev' if split == 'validation' else split}.tsv"
  for split in SPLITS
}

BEIR_DESCRIPTION = f"""\
BEIR: `{CORPUS_FILE}`, `{QUERIES_FILE}`, `qrels/*.tsv` (validation is
`dev`). The time keys and everything else known about a text are in its
`metadata`. A retriever of track T0 must not see it: index `text` alone.

    python -m ctd_jax.evaluate --dataset={BEIR_PREFIX}FOLDER --baselines_only \\
      --workdir=RUN
    python -m ctd_jax.train --config=... --config.dataset={BEIR_PREFIX}FOLDER \\
      --workdir=RUN
"""


def describe_record(record: Record, split: str) -> dict[str, Any]:
  """Returns a record's metadata, besides id and text, in its split."""
  return {
    "source": record.source,
    "kind": record.kind,
    "start": str(record.key),
    "end": str(record.key),  # a record is filed under one month
    "split": split,
    "version": record.version,
    "order": record.order,
    "match_score": record.match_score,
  }


def describe_query(query: Query, split: str) -> dict[str, Any]:
  """Returns a query's metadata, besides id, text and positives."""
  return {
    "family": query.family,
    "paper_family": query.paper_family,
    "group": query.group,
    "split": split,
    "start": str(query.interval.start),
    "end": str(query.interval.end),
  }


def write_beir(benchmark: Benchmark, folder: pathlib.Path) -> None:
  """Writes corpus, queries and qrels into `folder`."""
  corpus = [
    {
      "_id": record.record_id,
      "title": "",
      "text": record.text,
      "metadata": describe_record(record, split),
    }
    for record, split in zip(
      tqdm.tqdm(benchmark.records, "records", disable=None, leave=False),
      benchmark.record_splits,
      strict=True,
    )
  ]
  queries = [
    {
      "_id": query.query_id,
      "text": query.text,
      "metadata": describe_query(query, split),
    }
    for split, split_queries in benchmark.queries.items()
    for query in split_queries
  ]
  for name, rows in ((CORPUS_FILE, corpus), (QUERIES_FILE, queries)):
    lines = [json.dumps(row, ensure_ascii=False) + "\n" for row in rows]
    files.write_text(folder / name, "".join(lines))
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


_SPLIT_NAMES = {"dev": "validation"} | {split: split for split in SPLITS}
_ID_PATTERN = re.compile(r"\S+")
# Nine digits are enough for any grade and cannot overflow; some tools write
# 1.0.
_SCORE_PATTERN = re.compile(r"(-?\d{1,9})(\.0+)?")
_Line = TypeVar("_Line", "_RecordLine", "_QueryLine")


def read_beir(folder: str | os.PathLike) -> Benchmark:
  """Returns the data set of a BEIR folder.

  Records are sorted by id; a query that no file of qrels names and that has no
  split of its own is not asked. A title comes before the text, as in BEIR.

  Args:
    folder: local or `gs://`.

  Raises:
    FileNotFoundError: if there is no such folder, or a file is missing.
    FolderError: if a field is wrong; the message names file, line and field,
      and says what is expected.
  """
  folder = files.as_path(folder).expanduser()
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
  # Ids are checked against the corpus, so it is read first.
  kinds = {record.record_id: record.kind for record, _ in rows}
  queries_by_id = _read_queries(folder / QUERIES_FILE, timeline)
  queries = _attach_positives(folder, queries_by_id, kinds)
  record_keys = {record.record_id: record.key for record, _ in rows}
  point_keys = {
    query_id: query.interval.start
    for query_id, (query, _) in queries_by_id.items()
    if query.family == POINT
  }
  _warn_of_early_months(folder / CORPUS_FILE, record_keys, timeline)
  _warn_of_early_months(folder / QUERIES_FILE, point_keys, timeline)
  return Benchmark(
    name=name,
    timeline=timeline,
    records=tuple(record for record, _ in rows),
    record_splits=tuple(split for _, split in rows),
    queries=queries,
    titles=provenance.read_metadata(folder).titles,
  )


def _warn_of_early_months(
  path: epath.Path, key_by_id: Mapping[str, TimeKey], timeline: Timeline
) -> None:
  """Warns of months of 元年 that are earlier than the reign itself."""
  early_ids = [
    name
    for name, key in key_by_id.items()
    if reigns.precedes_accession(timeline, key)
  ]
  if early_ids:
    key = key_by_id[early_ids[0]]
    logging.warning(
      "%s: %d of %d dates are earlier than their reign; first: %s, %s, but %s "
      "began in month %d. If the chronicle calls the whole year so, column "
      "`month` of %s should be 1",
      path,
      len(early_ids),
      len(key_by_id),
      early_ids[0],
      key,
      timeline.full_reign_name(key.reign),
      timeline.reigns[key.reign - 1].first_month,
      provenance.REIGNS_FILE,
    )


def _check_files(folder: epath.Path, qrels_files: list[str]) -> None:
  for name in (CORPUS_FILE, QUERIES_FILE):
    if not (folder / name).is_file():
      raise FileNotFoundError(
        f"{BEIR_PREFIX}{folder}: no {name} there; a BEIR folder has "
        f"{CORPUS_FILE}, {QUERIES_FILE} and {QRELS_FILES['test']}"
      )
  existing_files = {f"qrels/{path.name}" for path in folder.glob("qrels/*.tsv")}
  unknown_files = sorted(existing_files - {*QRELS_FILES.values()})
  if unknown_files or not qrels_files:
    problem = f"unknown {unknown_files[0]}" if unknown_files else "no qrels"
    raise FolderError(
      f"{folder}: {problem}; expected {', '.join(QRELS_FILES.values())}"
    )


class _RecordMetadata(msgspec.Struct):
  """`metadata` of a line of the corpus; None means missing or null."""

  start: str | None = None
  end: str | None = None
  source: str | None = None
  kind: str | None = None
  split: str | None = None
  version: str | None = None
  order: int | None = None
  match_score: float | None = None


class _RecordLine(msgspec.Struct):
  """A line of the corpus."""

  id: str = msgspec.field(name="_id")
  text: str
  metadata: _RecordMetadata | None = None
  title: str | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class CorpusLine:
  """A line of a corpus whose records need no date."""

  location: str  # `file:line`, for errors
  record_id: str  # unique in the corpus
  text: str
  source: str  # the work it comes from, "" if not named
  kind: str  # of `KINDS`, "" if not named
  start: str | None  # first month as written, None if missing
  end: str | None
  order: int  # position in its work, -1 if missing
  split: str  # of `SPLITS`, "" if not named


def read_corpus_lines(
  folder: str | os.PathLike,
) -> tuple[str, Timeline | None, list[CorpusLine]]:
  """Returns the name, the calendar and the records of a BEIR folder.

  Unlike `read_beir` it needs no queries, no calendar and no dates: reading
  `metadata.start` and `metadata.end` is left to the caller.

  Raises:
    FileNotFoundError: if there is no corpus.
    FolderError: if a field is wrong; the message names file, line and field.
  """
  folder = files.as_path(folder).expanduser()
  if not (folder / CORPUS_FILE).is_file():
    raise FileNotFoundError(
      Note(
        "problem.beir.no_corpus",
        folder=f"{BEIR_PREFIX}{folder}",
        line='{"_id": "1", "text": "夏，葬衛桓公。", "metadata": {}}',
      )
    )
  metadata = provenance.read_metadata(folder)
  timeline = None
  if metadata.timeline or (folder / provenance.REIGNS_FILE).exists():
    hashed = [CORPUS_FILE, QUERIES_FILE, *QRELS_FILES.values()]
    _, timeline = provenance.read_provenance(
      folder, [path for path in hashed if (folder / path).exists()]
    )
  lines = [line for _, line, _ in _read_corpus(folder / CORPUS_FILE, timeline)]
  if not lines:
    raise FolderError(Note("problem.beir.no_record", file=folder / CORPUS_FILE))
  return metadata.name or folder.name, timeline, lines


def _read_corpus(
  path: epath.Path, timeline: Timeline | None
) -> Iterator[tuple[_LineChecks, CorpusLine, _RecordMetadata]]:
  """Yields the lines of a corpus, with their checks and all else they say."""
  for checks, line in _read_lines(path, _RecordLine, timeline):
    metadata = line.metadata or _RecordMetadata()
    text = checks.check_text("text", line.text)
    if line.title:
      text = checks.check_text("title", f"{line.title} {text}")
    split = checks.check_choice(
      "metadata.split", metadata.split, _SPLIT_NAMES, ""
    )
    corpus_line = CorpusLine(
      location=checks.location,
      record_id=line.id,
      text=text,
      source=metadata.source or "",
      kind=checks.check_choice("metadata.kind", metadata.kind, KINDS, ""),
      start=metadata.start,
      end=metadata.end,
      order=-1 if metadata.order is None else metadata.order,
      split=_SPLIT_NAMES.get(split, ""),
    )
    yield checks, corpus_line, metadata


class _QueryMetadata(msgspec.Struct):
  """`metadata` of a query; None means missing or null."""

  start: str
  end: str | None = None
  family: str | None = None
  paper_family: str | None = None
  group: str | None = None
  split: str | None = None


class _QueryLine(msgspec.Struct):
  """A line of the queries."""

  id: str = msgspec.field(name="_id")
  text: str
  metadata: _QueryMetadata


@dataclasses.dataclass(frozen=True)
class _LineChecks:
  """Checks of the values of one line; every error names line and field."""

  location: str
  timeline: Timeline | None

  def make_error(self, field: str, problem: Note | str) -> FolderError:
    return FolderError(
      Note(
        "problem.at",
        place=self.location,
        problem=Note("problem.at", place=field, problem=problem),
      )
    )

  def check_text(self, field: str, value: str) -> str:
    """Returns a text that is neither empty nor holds half a character."""
    if not value.strip():
      raise self.make_error(field, Note("problem.beir.empty"))
    try:
      value.encode()
    except UnicodeEncodeError:
      raise self.make_error(field, Note("problem.beir.surrogate")) from None
    return value

  def check_choice(
    self, field: str, value: str | None, choices: Collection[str], default: str
  ) -> str:
    """Returns a value that is one of `choices`; empty means the default."""
    if not value or value == default:
      return default
    if value not in choices:
      raise self.make_error(
        field,
        Note("problem.beir.choice", value=value, names=", ".join(choices)),
      )
    return value

  def parse_key(self, field: str, text: str) -> TimeKey:
    """Returns a key that is a month of the timeline."""
    try:
      key = TimeKey.parse(text)
    except ValueError as error:
      raise self.make_error(field, notes.of_error(error)) from None
    if key not in self.timeline:
      problem = _explain_missing_month(key, self.timeline)
      raise self.make_error(field, f"{text!r}: {problem}")
    return key


def _explain_missing_month(key: TimeKey, timeline: Timeline) -> str:
  """Returns a hint on the keys that the timeline has."""
  if key.reign > len(timeline.reigns):
    return f"timeline {timeline.name} has reigns 1-{len(timeline.reigns)}"
  years = timeline.reigns[key.reign - 1].years
  if key.year > years:
    name = timeline.full_reign_name(key.reign)
    return f"reign {key.reign} ({name}) has years 1-{years}"
  return (
    "no such leap month; name it in `leap_months` of "
    f"{provenance.METADATA_FILE}"
  )


def _read_lines(
  path: epath.Path, line_type: type[_Line], timeline: Timeline | None
) -> Iterator[tuple[_LineChecks, _Line]]:
  """Yields (checks, line) of a JSON-lines file; all ids are different."""
  line_by_id: dict[str, int] = {}
  with path.open("rb") as file:
    for line_number, content in enumerate(file, start=1):
      if not content.strip():
        continue
      checks = _LineChecks(f"{path}:{line_number}", timeline)
      line = _parse_line(content, line_type, checks.location)
      checks.check_text("_id", line.id)
      if not _ID_PATTERN.fullmatch(line.id):
        raise checks.make_error(
          "_id", Note("problem.beir.blank", value=line.id)
        )
      if line.id in line_by_id:
        raise checks.make_error(
          "_id",
          Note("problem.beir.twice", value=line.id, line=line_by_id[line.id]),
        )
      line_by_id[line.id] = line_number
      yield checks, line


def _parse_line(content: bytes, line_type: type[_Line], location: str) -> _Line:
  """Returns a line as `line_type`; unknown members are skipped."""
  try:
    # Editors of some systems open a file with a byte order mark. Python's
    # reader and not msgspec's, which reports half a surrogate pair as a line
    # that was cut.
    fields = json.loads(content.decode("utf-8-sig"))
  except (ValueError, RecursionError) as error:
    raise FolderError(
      Note("problem.beir.json", place=location, message=error)
    ) from None
  try:
    return msgspec.convert(fields, line_type)
  except msgspec.ValidationError as error:
    message = provenance.describe_mismatch(error)
    raise FolderError(f"{location}: {message}") from None


def _read_records(
  path: epath.Path, timeline: Timeline
) -> Iterator[tuple[Record, str]]:
  """Yields every record with its split."""
  for position, (checks, line, metadata) in enumerate(
    _read_corpus(path, timeline)
  ):
    if line.start is None:
      raise checks.make_error("metadata.start", "missing")
    key = checks.parse_key("metadata.start", line.start)
    if line.end is not None and key != checks.parse_key(
      "metadata.end", line.end
    ):
      raise checks.make_error(
        "metadata.end",
        f"differs from start {key}; a record is filed under one month",
      )
    score = 1.0 if metadata.match_score is None else metadata.match_score
    # Written so that NaN, which Python's JSON reader accepts, is refused too.
    if not 0 <= score <= 1:
      raise checks.make_error(
        "metadata.match_score", Note("problem.beir.fraction")
      )
    record = Record(
      record_id=line.record_id,
      text=line.text,
      source=line.source,
      kind=line.kind or EVENT,
      key=key,
      order=position if metadata.order is None else metadata.order,
      version=metadata.version or "",
      match_score=float(score),
    )
    yield record, line.split or "test"


def _read_queries(
  path: epath.Path, timeline: Timeline
) -> dict[str, tuple[Query, str | None]]:
  """Returns id -> query without positives, and its split if it names one."""
  queries_by_id = {}
  for checks, line in _read_lines(path, _QueryLine, timeline):
    metadata = line.metadata
    start = checks.parse_key("metadata.start", metadata.start)
    end = start
    if metadata.end is not None:
      end = checks.parse_key("metadata.end", metadata.end)
    if end < start:
      raise checks.make_error(
        "metadata.end", Note("problem.beir.before", end=end, start=start)
      )
    interval = Interval(start, end)
    is_single_month = interval.start == interval.end
    family = checks.check_choice(
      "metadata.family",
      metadata.family,
      (POINT, WINDOW),
      POINT if is_single_month else WINDOW,
    )
    if family == POINT and not is_single_month:
      raise checks.make_error(
        "metadata.family",
        f"a {POINT} asks for one month, not {interval.start} to "
        f"{interval.end}; {WINDOW} does",
      )
    split = checks.check_choice(
      "metadata.split", metadata.split, _SPLIT_NAMES, ""
    )
    paper_families = (POINT, GAP) if family == POINT else (WINDOW,)
    query = Query(
      query_id=line.id,
      text=checks.check_text("text", line.text),
      family=family,
      group=metadata.group or "",
      interval=interval,
      paper_family=checks.check_choice(
        "metadata.paper_family", metadata.paper_family, paper_families, ""
      ),
    )
    queries_by_id[query.query_id] = query, _SPLIT_NAMES.get(split)
  return queries_by_id


def _attach_positives(
  folder: epath.Path,
  queries_by_id: Mapping[str, tuple[Query, str | None]],
  kinds: Mapping[str, str],
) -> dict[str, tuple[Query, ...]]:
  """Returns split -> queries with their positives, in the order asked."""
  positives: dict[str, list[str]] = {}
  split_by_id = {
    query_id: split for query_id, (_, split) in queries_by_id.items()
  }
  # The file of qrels decides the split of a query that names none.
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
          f"{location}: query-id: {query_id!r} belongs to "
          f"{split_by_id[query_id]}"
        )
      split_by_id[query_id] = split
      # A judgement of 0 gives the query a split and no positive.
      if score <= 0:
        continue
      if kinds[record_id] not in ANSWERING_KINDS:
        raise FolderError(
          f"{location}: corpus-id: {record_id!r} is a {kinds[record_id]}, "
          "which answers nothing; kind should be "
          f"{' or '.join(ANSWERING_KINDS)}"
        )
      positives.setdefault(query_id, []).append(record_id)
  queries: dict[str, list[Query]] = {split: [] for split in SPLITS}
  for query_id, (query, _) in queries_by_id.items():
    if split_by_id[query_id] is not None:
      answers = tuple(sorted(positives.get(query_id, ())))
      # A point that no event answers is a gap.
      is_gap = query.family == POINT and all(
        kinds[record_id] != EVENT for record_id in answers
      )
      queries[split_by_id[query_id]].append(
        dataclasses.replace(
          query,
          positives=answers,
          paper_family=query.paper_family or (GAP if is_gap else query.family),
        )
      )
  if queries_by_id and not positives:
    raise FolderError(
      f"{folder}: no score in {', '.join(QRELS_FILES.values())} is above 0, "
      "so no query has an answer"
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


def _read_qrels(path: epath.Path) -> Iterator[tuple[str, str, str, int]]:
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
        raise FolderError(
          Note("problem.table.utf8_reason", file=location, message=error.reason)
        ) from None
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
      match = _SCORE_PATTERN.fullmatch(score)
      if match is None:
        raise FolderError(f"{location}: score: {score!r} is not a whole number")
      if (query_id, record_id) in judged_pairs:
        raise FolderError(
          f"{location}: {query_id!r} and {record_id!r} are judged twice"
        )
      judged_pairs.add((query_id, record_id))
      yield location, query_id, record_id, int(match[1])
