"""Sources of an index, as read and before they are dated.

chunqiutr/rebuilt   a built data set; each of its sources is a work
beir:FOLDER         corpus.jsonl; `metadata.start` and `end` are optional
PATH                a text or a folder: plain, Markdown, TEI, Kanripo, table
"""

from __future__ import annotations

import dataclasses
import difflib
import functools
import hashlib
import os
import pathlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from ctd_jax import texts
from ctd_jax.benchmark.benchmark import SPLITS
from ctd_jax.chronology.reigns import Timeline
from ctd_jax.dating.chronicle import chronicle_input
from ctd_jax.index.database import DATABASE_FILE, TEXT, IndexedWork
from ctd_jax.texts import TextError
from ctd_jax.texts.works import Entry
from ctd_jax.utils import files
from ctd_jax.utils.beam import MapItems
from ctd_jax.utils.notes import Note

NO_POSITION = -1  # of a record whose order in its work is not known
DATASET, BEIR, TEXTS = "dataset", "beir", "texts"  # kinds of sources
_BEIR_PREFIX = "beir:"
REIGNS_MARK = ":reigns="  # after a source, before its calendar


@dataclasses.dataclass(frozen=True, slots=True)
class SourceRecord:
  """A record as read."""

  record_id: str  # unique within its work
  text: str
  kind: str  # event, no_event, neg_comment, text or heading
  place: str = ""  # where it is printed
  headings: tuple[str, ...] = ()  # outermost first
  position: int = NO_POSITION  # order in its work, or `NO_POSITION`
  start: str | None = None  # first known month as written
  end: str | None = None  # last known month as written
  location: str = ""  # where it was read, for errors
  is_hidden: bool = False  # months are known but must not be used


@dataclasses.dataclass(frozen=True, kw_only=True)
class SourceWork:
  """A work as read: records of a data set, or entries of a text still uncut."""

  name: str  # for flags, unique in an index
  title: str  # as the edition gives it
  source: str  # path or data set
  text_format: str  # mandoku, tei, markdown, plain, beir or dataset
  records: Sequence[SourceRecord] = ()
  entries: Sequence[Entry] = ()
  timeline: Timeline | None = None  # calendar of the written months
  group: str = ""  # what was added, and is dated, together
  reading: str = ""  # what was read, and what left out
  left_out: tuple[Note, ...] = ()  # parts of the text not read as records
  request: SourceRequest | None = None  # None if it need never be read again

  @property
  def is_text(self) -> bool:
    """Whether it is a text, to be cut into records by its dates."""
    return bool(self.entries)

  @property
  def has_order(self) -> bool:
    """Whether its records have an order."""
    return self.is_text or any(
      record.position != NO_POSITION for record in self.records
    )

  def hash_contents(self) -> str:
    """Returns the sha256 of everything that was read."""
    digest = hashlib.sha256(f"{self.title}\n{self.text_format}\n".encode())
    if self.timeline is not None:
      digest.update(repr(self.timeline.reigns).encode())
    for entry in self.entries:
      parts = (entry.text, str(entry.place), entry.kind, entry.headings)
      digest.update(repr(parts).encode())
    for record in self.records:
      parts = (
        *(record.record_id, record.text, record.kind, record.position),
        *(record.start, record.end, record.is_hidden),
      )
      digest.update(repr(parts).encode("utf-8", "surrogatepass"))
    return digest.hexdigest()


class SourceRequest(msgspec.Struct, frozen=True, kw_only=True):
  """Source and reading options of a work, as the index remembers them."""

  kind: str  # data set, BEIR folder, or texts
  # Name or path; relative to the index if inside it, so that the folder can be
  # moved.
  source: str
  unit: str | None = None  # of plain text: line or paragraph
  columns: str | None = None  # of a table, see `texts.table`
  hidden_splits: tuple[str, ...] = ()  # their months must not be used
  data_dir: str | None = None  # None for TFDS's own
  reigns: str | None = None  # calendar of these works, see `make_request`

  def find_path(self, folder: pathlib.Path) -> pathlib.Path | None:
    """Returns the path of the source; None for a data set."""
    return None if self.kind == DATASET else folder / self.source

  def format_argument(self, folder: pathlib.Path) -> str:
    """Returns the source as --add takes it."""
    path = self.find_path(folder) or self.source
    prefix = _BEIR_PREFIX if self.kind == BEIR else ""
    mark = f"{REIGNS_MARK}{self.reigns}" if self.reigns else ""
    return f"{prefix}{path}{mark}"

  def read(self, folder: pathlib.Path) -> list[SourceWork]:
    """Returns the works of the source; errors name file and line."""
    path = self.find_path(folder)
    if self.kind == TEXTS:
      works = _read_texts(path, self.unit, self.columns)
    elif self.kind == BEIR:
      works = _read_beir(path, self.hidden_splits)
    else:
      works = _read_dataset(self.source, self.hidden_splits, self.data_dir)
    return [dataclasses.replace(work, request=self) for work in works]


class DatedWith(msgspec.Struct, frozen=True, kw_only=True):
  """Inputs that a work was dated with, besides its text."""

  source: SourceRequest | None = None
  manner: str | None = None  # order or undated, if asked for
  fixed: str | None = None  # path of the --fixed file
  fixed_sha256: str | None = None
  corrections: tuple[int, ...] = ()  # ids of those in the dates
  # Id of a correction that fitted no record -> why.
  left_out: dict[int, Any] = {}
  # Hash of the names that the model dated together; "" of others.
  beside: str = ""
  # Rows of the reigns of its calendar; () for all of the index.
  reigns: tuple[int, ...] = ()


def read_dated_with(work: IndexedWork | None) -> DatedWith | None:
  """Returns the inputs that a work was dated with; None without a work."""
  if work is None:
    return None
  try:
    return msgspec.json.decode(work.dated_with, type=DatedWith)
  except msgspec.DecodeError as error:
    raise ValueError(
      f"{DATABASE_FILE}: damaged, where it says how {work.name} was dated: "
      f"{error}"
    ) from error


def make_request(
  folder: pathlib.Path,
  source: str,
  unit: str | None = None,
  hidden_splits: Iterable[str] = (),
  data_dir: str | os.PathLike | None = None,
  columns: str | None = None,
) -> SourceRequest:
  """Returns the request for a data set, a BEIR folder, a file or a folder.

  Args:
    folder: folder of the index.
    unit: unit of plain text, "line" or "paragraph"; detected if None.
    hidden_splits: splits of a data set whose months must not be used.
    data_dir: folder of the built data sets; TFDS's own if None.
    columns: columns of a table, see `texts.table`.
    source: it may end in `:reigns=NAME`, the calendar of its works: one of the
      index's tables, or polities with + between them.
  """
  source, _, reigns = source.partition(REIGNS_MARK)
  path = source.removeprefix(_BEIR_PREFIX)
  if path != source:
    kind = BEIR
  else:
    kind = TEXTS if pathlib.Path(path).expanduser().exists() else DATASET
  return SourceRequest(
    kind=kind,
    source=source if kind == DATASET else shorten_path(folder, path),
    unit=unit,
    columns=columns,
    hidden_splits=tuple(hidden_splits),
    data_dir=data_dir and os.path.abspath(os.path.expanduser(data_dir)),
    reigns=reigns.replace("+", ",") or None,
  )


def shorten_path(folder: pathlib.Path, path: str | os.PathLike) -> str:
  """Returns a path relative to the index's folder if inside, else absolute."""
  whole = pathlib.Path(os.path.abspath(os.path.expanduser(path)))
  inside = pathlib.Path(os.path.abspath(folder))
  if whole.is_relative_to(inside):
    return whole.relative_to(inside).as_posix()
  return str(whole)


def _read_request(
  request: SourceRequest, folder: pathlib.Path
) -> list[SourceWork]:
  # Not the method itself: `utils.beam` goes by the annotation of the argument.
  return request.read(folder)


def read_requests(
  requests: Sequence[SourceRequest],
  folder: pathlib.Path,
  map_items: MapItems[SourceRequest, list[SourceWork]] = map,
) -> list[SourceWork]:
  """Returns the works of all sources.

  Args:
    map_items: maps over texts if there are several.
  """
  # Data sets are read in this process, because workers may not see them.
  of_texts = [request for request in requests if request.kind == TEXTS]
  read = functools.partial(_read_request, folder=folder)
  map_texts = map_items if len(of_texts) > 1 else map
  works_of_texts = iter(map_texts(read, of_texts))
  works = []
  for request in requests:
    is_text = request.kind == TEXTS
    works += next(works_of_texts) if is_text else request.read(folder)
  return works


def _read_texts(
  path: pathlib.Path, unit: str | None, columns: str | None
) -> list[SourceWork]:
  try:
    works = texts.read_works(path, unit=unit, columns=columns)
  except TextError as error:
    name = files.printable_name(path)
    if str(error).startswith(name):
      note = Note("problem.of_flag", flag="--add=", problem=error)
    else:
      note = Note("problem.at", place=f"--add={name}", problem=error)
    raise ValueError(note) from error
  result = []
  for work in works:
    entries = chronicle_input.list_records(work)
    if not any(not entry.is_heading for entry in entries):
      raise ValueError(
        Note(
          "problem.file.no_record",
          file=f"--add={path}",
          work=work.title,
          format=work.text_format,
        )
      )
    result.append(
      SourceWork(
        name=work.identifier,
        title=work.title,
        source=str(path),
        text_format=work.text_format,
        entries=entries,
        group=work.identifier,
        reading=chronicle_input.summarize_reading(work),
        left_out=tuple(chronicle_input.list_left_out(work)),
      )
    )
  return result


def _read_dataset(
  name: str,
  hidden_splits: Collection[str],
  data_dir: str | os.PathLike | None,
) -> list[SourceWork]:
  # Here and not above: data sets need TFDS, and texts do not.
  from ctd_jax_datasets import build, load

  if name not in build.DATASET_NAMES:
    nearest = difflib.get_close_matches(name, build.DATASET_NAMES, n=1)
    hint = f"; did you mean {nearest[0]}?" if nearest else ""
    raise FileNotFoundError(
      f"--add={name}: no such file or folder, nor a data set "
      f"({', '.join(build.DATASET_NAMES)}), nor {_BEIR_PREFIX}FOLDER{hint}"
    )
  _check_splits(hidden_splits)
  benchmark = load.load_benchmark(name, data_dir)
  records: dict[str, list[SourceRecord]] = {}
  for record, split in zip(
    benchmark.records, benchmark.record_splits, strict=True
  ):
    records.setdefault(record.source, []).append(
      SourceRecord(
        record_id=record.record_id,
        text=record.text,
        kind=record.kind,
        position=record.order,
        start=str(record.key),
        is_hidden=split in hidden_splits,
      )
    )
  return _make_works(
    name, name, DATASET, records, benchmark.timeline, benchmark.titles
  )


def _read_beir(
  folder: pathlib.Path, hidden_splits: Collection[str]
) -> list[SourceWork]:
  from ctd_jax_datasets.common import beir, provenance

  _check_splits(hidden_splits)
  name, timeline, lines = beir.read_corpus_lines(folder)
  records: dict[str, list[SourceRecord]] = {}
  for line in lines:
    records.setdefault(line.source, []).append(
      SourceRecord(
        record_id=line.record_id,
        text=line.text,
        kind=line.kind or TEXT,
        position=line.order,
        start=line.start,
        end=line.end,
        location=line.location,
        is_hidden=bool(line.split) and line.split in hidden_splits,
      )
    )
  titles = provenance.read_metadata(files.as_path(folder)).titles
  source = f"{_BEIR_PREFIX}{folder}"
  return _make_works(name, source, BEIR, records, timeline, titles)


def _check_splits(splits: Collection[str]) -> None:
  for split in splits:
    if split not in SPLITS:
      raise ValueError(f"--hide={split}: expected some of {', '.join(SPLITS)}")


def _make_works(
  name: str,
  source: str,
  text_format: str,
  records: Mapping[str, list[SourceRecord]],
  timeline: Timeline | None,
  titles: Mapping[str, str],
) -> list[SourceWork]:
  return [
    SourceWork(
      name=f"{name}/{work}" if work else name,
      title=titles.get(work, work) or name,
      source=source,
      text_format=text_format,
      records=sorted(of_work, key=lambda record: record.position),
      timeline=timeline,
      group=name,
      reading=f"{text_format}, {len(of_work):,} records",
    )
    for work, of_work in sorted(records.items())
  ]
