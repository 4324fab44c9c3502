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
from ctd_jax.chronology.annals import ANSWERING_KINDS, EVENT, KINDS, Record
from ctd_jax.chronology.timelines import Interval, TimeKey, Timeline
from ctd_jax.utils import files
from ctd_jax_datasets import provenance
from ctd_jax_datasets.provenance import FolderError

PREFIX = "beir:"
CORPUS = "corpus.jsonl"
QUERIES = "queries.jsonl"
HEADER = "query-id\tcorpus-id\tscore"
# BEIR calls validation dev.
QRELS = {
  split: f"qrels/{'dev' if split == 'validation' else split}.tsv"
  for split in SPLITS
}
_SPLIT_NAMES = {"dev": "validation"} | {split: split for split in SPLITS}
_ID = re.compile(r"\S+")
_TYPES = {str: "string", int: "whole number", float: "number"}

ABOUT = f"""\
BEIR: `{CORPUS}`, `{QUERIES}`, `qrels/*.tsv` (validation is
`dev`). The time keys and all else that is known of a text stand in its
`metadata`. To a retriever of track T0 that is the answer, not the question:
index `text` alone.

    python -m ctd_jax.evaluate --dataset={PREFIX}FOLDER --baselines_only \\
      --workdir=RUN
    python -m ctd_jax.train --config=... --config.dataset={PREFIX}FOLDER \\
      --workdir=RUN
"""


def write(benchmark: Benchmark, folder: pathlib.Path) -> None:
  """Writes corpus, queries and qrels into `folder`."""
  corpus = [
    _dump(
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
  files.write_text(folder / CORPUS, "".join(corpus))
  queries = [
    _dump(
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
    for split, asked in benchmark.queries.items()
    for query in asked
  ]
  files.write_text(folder / QUERIES, "".join(queries))
  for split, asked in benchmark.queries.items():
    lines = [
      f"{query.query_id}\t{positive}\t1\n"
      for query in asked
      for positive in query.positives
    ]
    if lines:
      files.write_text(folder / QRELS[split], HEADER + "\n" + "".join(lines))


def _dump(
  text_id: str,
  text: str,
  metadata: Mapping[str, Any],
  fields: Mapping[str, str] | None = None,
) -> str:
  row = {"_id": text_id, **(fields or {}), "text": text, "metadata": metadata}
  return json.dumps(row, ensure_ascii=False) + "\n"


def read(folder: pathlib.Path) -> Benchmark:
  """Returns the data set of a BEIR folder.

  Records are sorted by id; a query that no file of qrels names and that has no
  split of its own is not asked. A title stands before the text, as in BEIR.

  Raises:
    FileNotFoundError: if there is no such folder, or a file is missing.
    FolderError: naming file, line and field of what is wrong, and what would
      be right.
  """
  folder = folder.expanduser()
  judged = [name for name in QRELS.values() if (folder / name).exists()]
  _check_files(folder, judged)
  name, timeline = provenance.read(folder, [CORPUS, QUERIES, *judged])
  rows = sorted(
    _read_records(folder / CORPUS, timeline),
    key=lambda row: row[0].record_id,
  )
  kinds = {record.record_id: record.kind for record, _ in rows}
  asked = _read_queries(folder / QUERIES, timeline)
  queries = _judge(folder, asked, kinds)
  return Benchmark(
    name=name,
    timeline=timeline,
    records=tuple(record for record, _ in rows),
    record_splits=tuple(split for _, split in rows),
    queries=queries,
  )


def _check_files(folder: pathlib.Path, judged: list[str]) -> None:
  for name in (CORPUS, QUERIES):
    if not (folder / name).is_file():
      raise FileNotFoundError(
        f"{PREFIX}{folder}: no {name} there; a BEIR folder has {CORPUS}, "
        f"{QUERIES} and {QRELS['test']}"
      )
  found = {f"qrels/{path.name}" for path in folder.glob("qrels/*.tsv")}
  unknown = sorted(found - {*QRELS.values()})
  if unknown or not judged:
    raise FolderError(
      f"{folder}: {f'unknown {unknown[0]}' if unknown else 'no qrels'}; "
      f"expected {', '.join(QRELS.values())}"
    )


@dataclasses.dataclass(frozen=True)
class _Row:
  """One line of a JSON file; whatever is wrong names the line and field."""

  place: str
  fields: Mapping[str, Any]

  def error(self, field: str, problem: str) -> FolderError:
    return FolderError(f"{self.place}: {field}: {problem}")

  def get(self, field: str, kind: type, default: Any = None) -> Any:
    """Returns a field (`a.b` is b of a), checked for its type."""
    value: Any = self.fields
    for name in field.split("."):
      value = value.get(name) if isinstance(value, dict) else None
    if value is None:
      if default is None:
        raise self.error(field, f"missing; expected a {_TYPES[kind]}")
      return default
    # Whole numbers count as fractions; true and false are neither.
    kinds = (int, float) if kind is float else kind
    if not isinstance(value, kinds) or isinstance(value, bool):
      raise self.error(field, f"{value!r} should be a {_TYPES[kind]}")
    return value

  def text(self, field: str) -> str:
    """Returns a field that may not be empty, nor half a character."""
    value = self.get(field, str)
    if not value.strip():
      raise self.error(field, "is empty")
    try:
      value.encode()
    except UnicodeEncodeError:
      raise self.error(field, "holds half of a surrogate pair") from None
    return value

  def choice(self, field: str, known: Any, default: str) -> str:
    """Returns a field that is one of `known`; empty means the default."""
    value = self.get(field, str, default) or default
    if value != default and value not in known:
      raise self.error(field, f"{value!r} is none of {', '.join(known)}")
    return value

  def share(self, field: str, default: float) -> float:
    """Returns a field that is a number from 0 to 1."""
    value = self.get(field, float, default)
    if not 0 <= value <= 1:
      raise self.error(field, "should be a number from 0 to 1")
    return float(value)

  def key(
    self, field: str, timeline: Timeline, default: TimeKey | None = None
  ) -> TimeKey:
    """Returns a field that is a month of the timeline."""
    text = self.get(field, str, default and str(default))
    try:
      key = TimeKey.parse(text)
    except ValueError as error:
      raise self.error(field, str(error)) from None
    if key not in timeline:
      raise self.error(field, f"{text!r}: {_what_exists(key, timeline)}")
    return key


def _what_exists(key: TimeKey, timeline: Timeline) -> str:
  """Returns what the timeline has instead of the month `key`."""
  if key.reign > len(timeline.reigns):
    return f"timeline {timeline.name} has reigns 1-{len(timeline.reigns)}"
  years = timeline.reigns[key.reign - 1].years
  if key.year > years:
    name = timeline.full_name(key.reign)
    return f"reign {key.reign} ({name}) has years 1-{years}"
  return (
    f"no such leap month; name it in `leap_months` of {provenance.METADATA}"
  )


def _rows(path: pathlib.Path) -> Iterator[_Row]:
  """Yields the objects of a JSON-lines file, ids checked and all different."""
  lines: dict[str, int] = {}
  with path.open("rb") as file:
    for number, line in enumerate(file, start=1):
      if not line.strip():
        continue
      place = f"{path}:{number}"
      try:
        # Editors of some systems open a file with a byte order mark.
        fields = json.loads(line.decode("utf-8-sig"))
      except (ValueError, RecursionError) as error:
        raise FolderError(f"{place}: not JSON in UTF-8: {error}") from None
      if not isinstance(fields, dict):
        raise FolderError(
          f'{place}: should be an object such as {{"_id": "r1", "text": ...}}'
        )
      row = _Row(place, fields)
      text_id = row.text("_id")
      if not _ID.fullmatch(text_id):
        raise row.error(
          "_id", f"{text_id!r}: run files are split at white space"
        )
      if text_id in lines:
        raise row.error(
          "_id", f"{text_id!r} occurs in line {lines[text_id]} as well"
        )
      lines[text_id] = number
      yield row


def _read_records(
  path: pathlib.Path, timeline: Timeline
) -> Iterator[tuple[Record, str]]:
  """Yields every record with its split."""
  for position, row in enumerate(_rows(path)):
    key = row.key("metadata.start", timeline)
    if row.key("metadata.end", timeline, key) != key:
      raise row.error(
        "metadata.end",
        f"differs from start {key}; a record is filed under one month",
      )
    title = row.get("title", str, "")
    record = Record(
      record_id=row.text("_id"),
      text=f"{title} {row.text('text')}" if title else row.text("text"),
      source=row.get("metadata.source", str, ""),
      kind=row.choice("metadata.kind", KINDS, EVENT),
      key=key,
      order=row.get("metadata.order", int, position),
      version=row.get("metadata.version", str, ""),
      match_score=row.share("metadata.match_score", 1.0),
    )
    split = row.choice("metadata.split", _SPLIT_NAMES, "test")
    yield record, _SPLIT_NAMES[split]


def _read_queries(
  path: pathlib.Path, timeline: Timeline
) -> dict[str, tuple[Query, str | None]]:
  """Returns id -> query without positives, and its split if it names one."""
  found = {}
  for row in _rows(path):
    start = row.key("metadata.start", timeline)
    end = row.key("metadata.end", timeline, start)
    if end < start:
      raise row.error("metadata.end", f"{end} lies before start {start}")
    family = row.choice(
      "metadata.family", (POINT, WINDOW), POINT if start == end else WINDOW
    )
    split = row.choice("metadata.split", _SPLIT_NAMES, "")
    if family == POINT and start != end:
      raise row.error(
        "metadata.family",
        f"a {POINT} asks for one month, not {start} to {end}; {WINDOW} does",
      )
    query = Query(
      query_id=row.text("_id"),
      text=row.text("text"),
      family=family,
      group=row.get("metadata.group", str, ""),
      interval=Interval(start, end),
      paper_family=row.choice(
        "metadata.paper_family",
        (POINT, GAP) if family == POINT else (WINDOW,),
        "",
      ),
    )
    found[query.query_id] = query, _SPLIT_NAMES.get(split)
  return found


def _judge(
  folder: pathlib.Path,
  asked: Mapping[str, tuple[Query, str | None]],
  kinds: Mapping[str, str],
) -> dict[str, tuple[Query, ...]]:
  """Returns split -> queries with their positives, in the order asked."""
  positives: dict[str, list[str]] = {}
  split_of = {query_id: split for query_id, (_, split) in asked.items()}
  for split, name in QRELS.items():
    path = folder / name
    for place, query_id, record_id, score in _judgements(path):
      if query_id not in asked:
        raise FolderError(
          f"{place}: query-id: {query_id!r} is not in {QUERIES}"
        )
      if record_id not in kinds:
        raise FolderError(
          f"{place}: corpus-id: {record_id!r} is not in {CORPUS}"
        )
      if split_of[query_id] not in (None, split):
        raise FolderError(
          f"{place}: query-id: {query_id!r} belongs to {split_of[query_id]}"
        )
      split_of[query_id] = split
      if score <= 0:
        continue
      if kinds[record_id] not in ANSWERING_KINDS:
        raise FolderError(
          f"{place}: corpus-id: {record_id!r} is a {kinds[record_id]}, which "
          f"answers nothing; kind should be {' or '.join(ANSWERING_KINDS)}"
        )
      positives.setdefault(query_id, []).append(record_id)
  queries: dict[str, list[Query]] = {split: [] for split in SPLITS}
  for query_id, (query, _) in asked.items():
    if split_of[query_id] is not None:
      answers = tuple(sorted(positives.get(query_id, ())))
      queries[split_of[query_id]].append(_answered(query, answers, kinds))
  unasked = [name for name, split in split_of.items() if split is None]
  if unasked:
    logging.warning(
      "%s: %d of %d queries are in no file of qrels and left out; first: %s",
      folder / QUERIES,
      len(unasked),
      len(asked),
      unasked[0],
    )
  return {split: tuple(rows) for split, rows in queries.items()}


def _answered(
  query: Query, positives: tuple[str, ...], kinds: Mapping[str, str]
) -> Query:
  """Returns the query with its positives; a point without event is a gap."""
  empty = all(kinds[record_id] != EVENT for record_id in positives)
  gap = GAP if query.family == POINT and empty else query.family
  return dataclasses.replace(
    query, positives=positives, paper_family=query.paper_family or gap
  )


def _judgements(path: pathlib.Path) -> Iterator[tuple[str, str, str, int]]:
  """Yields (file:line, query id, record id, score); none if no file is."""
  if not path.exists():
    return
  seen = set()
  with path.open("rb") as file:
    for number, line in enumerate(file, start=1):
      place = f"{path}:{number}"
      try:
        cells = line.decode("utf-8-sig").rstrip("\r\n").split("\t")
      except UnicodeDecodeError as error:
        raise FolderError(f"{place}: not UTF-8: {error.reason}") from None
      if number == 1:
        # Readers of BEIR pass over the first line, whatever it holds.
        if "\t".join(cells) != HEADER:
          raise FolderError(f"{place}: should be the header {HEADER!r}")
        continue
      if cells == [""]:
        continue
      if len(cells) != 3:
        raise FolderError(f"{place}: {len(cells)} columns; expected {HEADER!r}")
      query_id, record_id, score = cells
      if not re.fullmatch(r"-?\d{1,9}", score):
        raise FolderError(f"{place}: score: {score!r} is no whole number")
      if (query_id, record_id) in seen:
        raise FolderError(
          f"{place}: {query_id!r} and {record_id!r} are judged twice"
        )
      seen.add((query_id, record_id))
      yield place, query_id, record_id, int(score)
