"""Sources of an index: what is read, before it is dated.

chunqiutr/rebuilt   a data set that has been built; each of its sources is a
                    work
beir:FOLDER         corpus.jsonl; `metadata.start` and `end` are optional
PATH                a text or a folder: plain, Markdown, TEI, Kanripo
"""

from __future__ import annotations

import dataclasses
import difflib
import functools
import hashlib
import os
import pathlib
from collections.abc import Collection, Iterable, Mapping, Sequence

import msgspec

from ctd_jax import texts
from ctd_jax.benchmark.benchmark import SPLITS
from ctd_jax.chronology.reigns import Timeline
from ctd_jax.dating.chronicle import chronicle_input
from ctd_jax.index.database import TEXT
from ctd_jax.texts import TextError
from ctd_jax.texts.works import Entry
from ctd_jax.utils import files
from ctd_jax.utils.beam import MapItems
from ctd_jax.utils.notes import Note

NO_POSITION = -1  # of a record whose order in its work is not known
DATASET, BEIR, TEXTS = "dataset", "beir", "texts"  # kinds of sources
_BEIR_PREFIX = "beir:"


@dataclasses.dataclass(frozen=True, slots=True)
class SourceRecord:
  """A record as it is read.

  Attributes:
    record_id: unique within its work.
    text: as printed.
    kind: event, no_event, neg_comment, text or heading.
    place: where it is printed; "" if unknown.
    headings: above it, the highest first.
    position: order in its work, or `NO_POSITION`.
    start: its first known month as written; None if none is known.
    end: its last known month; None if there is only one.
    location: where it was read, for errors.
    is_hidden: whether the months are known and must not be used.
  """

  record_id: str
  text: str
  kind: str
  place: str = ""
  headings: tuple[str, ...] = ()
  position: int = NO_POSITION
  start: str | None = None
  end: str | None = None
  location: str = ""
  is_hidden: bool = False


@dataclasses.dataclass(frozen=True, kw_only=True)
class SourceWork:
  """A work as it is read: records, or entries that are yet to be cut.

  Attributes:
    name: by which flags call it, unique in an index.
    title: as the edition gives it.
    source: path or data set.
    text_format: mandoku, tei, markdown, plain, beir or dataset.
    records: of a data set, in the order of the work if it has one.
    entries: of a text, in order; sections of these become its records.
    timeline: calendar of the written months; None if they have none.
    group: name of what was added together, and is dated together.
    reading: what was read and left out, in words.
    left_out: what of the text is not read as records.
    request: what it was read from; None if nobody needs to read it again.
  """

  name: str
  title: str
  source: str
  text_format: str
  records: Sequence[SourceRecord] = ()
  entries: Sequence[Entry] = ()
  timeline: Timeline | None = None
  group: str = ""
  reading: str = ""
  left_out: tuple[Note, ...] = ()
  request: SourceRequest | None = None

  @property
  def is_text(self) -> bool:
    """Whether it is a text, whose dates cut it into records."""
    return bool(self.entries)

  @property
  def has_order(self) -> bool:
    """Whether its records stand in an order."""
    return self.is_text or any(
      record.position != NO_POSITION for record in self.records
    )

  def hash_contents(self) -> str:
    """Returns the sha256 of all that was read."""
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
  """What is to be read, and how, as the works of an index remember it.

  Attributes:
    kind: a data set, a BEIR folder, or texts.
    source: name of the data set, else the path: from the folder of the index
      if it lies inside, such as an upload, so that the folder may be moved.
    unit: of plain text, "line" or "paragraph"; found from the text if None.
    hidden_splits: splits of data sets whose months must not be used.
    data_dir: folder of the built data sets; that of TFDS if None.
  """

  kind: str
  source: str
  unit: str | None = None
  hidden_splits: tuple[str, ...] = ()
  data_dir: str | None = None

  def find_path(self, folder: pathlib.Path) -> pathlib.Path | None:
    """Returns the path of the source; None for a data set.

    Args:
      folder: of the index.
    """
    return None if self.kind == DATASET else folder / self.source

  def format_argument(self, folder: pathlib.Path) -> str:
    """Returns the source as --add takes it.

    Args:
      folder: of the index.
    """
    path = self.find_path(folder)
    if path is None:
      return self.source
    return f"{_BEIR_PREFIX}{path}" if self.kind == BEIR else f"{path}"

  def read(self, folder: pathlib.Path) -> list[SourceWork]:
    """Returns the works of the source.

    Args:
      folder: of the index.

    Raises:
      FileNotFoundError: as in `read_source`.
      ValueError: as in `read_source`.
    """
    works = read_source(
      self.format_argument(folder),
      self.unit,
      self.hidden_splits,
      self.data_dir,
    )
    return [dataclasses.replace(work, request=self) for work in works]


def make_request(
  folder: pathlib.Path,
  source: str,
  unit: str | None = None,
  hidden_splits: Iterable[str] = (),
  data_dir: str | os.PathLike | None = None,
) -> SourceRequest:
  """Returns what an index remembers of a source.

  Args:
    folder: of the index.
    source: as in `read_source`.
    unit: as in `read_source`.
    hidden_splits: as in `read_source`.
    data_dir: as in `read_source`.
  """
  path = source.removeprefix(_BEIR_PREFIX)
  if path != source:
    kind = BEIR
  else:
    kind = TEXTS if pathlib.Path(path).expanduser().exists() else DATASET
  return SourceRequest(
    kind=kind,
    source=source if kind == DATASET else shorten_path(folder, path),
    unit=unit,
    hidden_splits=tuple(hidden_splits),
    data_dir=data_dir and os.path.abspath(os.path.expanduser(data_dir)),
  )


def shorten_path(folder: pathlib.Path, path: str | os.PathLike) -> str:
  """Returns a path relative to the folder of the index if inside, else whole.

  Args:
    folder: of the index.
    path: of a source.
  """
  whole = pathlib.Path(os.path.abspath(os.path.expanduser(path)))
  inside = pathlib.Path(os.path.abspath(folder))
  if whole.is_relative_to(inside):
    return whole.relative_to(inside).as_posix()
  return str(whole)


def read_requests(
  requests: Sequence[SourceRequest],
  folder: pathlib.Path,
  map_items: MapItems[SourceRequest, list[SourceWork]] = map,
) -> list[SourceWork]:
  """Returns the works of all sources.

  Args:
    requests: the sources.
    folder: of the index.
    map_items: maps texts, if there are several. Data sets are read here,
      because workers may not see them.

  Raises:
    FileNotFoundError: as in `read_source`.
    ValueError: as in `read_source`.
  """
  of_texts = [request for request in requests if request.kind == TEXTS]
  read = functools.partial(_read_request, folder=folder)
  works_of_texts = iter(
    (map_items if len(of_texts) > 1 else map)(read, of_texts)
  )
  works = []
  for request in requests:
    is_text = request.kind == TEXTS
    works += next(works_of_texts) if is_text else request.read(folder)
  return works


def _read_request(
  request: SourceRequest, *, folder: pathlib.Path
) -> list[SourceWork]:
  return request.read(folder)


def read_source(
  source: str,
  unit: str | None = None,
  hidden_splits: Collection[str] = (),
  data_dir: str | os.PathLike | None = None,
) -> list[SourceWork]:
  """Returns the works of a data set, a BEIR folder, a file or a folder.

  Args:
    source: as the module says.
    unit: of plain text, "line" or "paragraph"; found from the text if None.
    hidden_splits: splits of a data set whose months must not be used.
    data_dir: folder of the built data sets; that of TFDS if None.

  Raises:
    FileNotFoundError: if there is no such file, folder or data set.
    ValueError: if something cannot be read, with its file and line.
  """
  if source.startswith(_BEIR_PREFIX):
    return _read_beir(source, hidden_splits)
  path = pathlib.Path(source).expanduser()
  if path.exists():
    return _read_texts(path, unit)
  return _read_dataset(source, hidden_splits, data_dir)


def _read_texts(path: pathlib.Path, unit: str | None) -> list[SourceWork]:
  try:
    works = texts.read_works(path, unit=unit)
  except TextError as error:
    if str(error).startswith(str(path)):
      note = Note("problem.of_flag", flag="--add=", problem=error)
    else:
      note = Note("problem.at", place=f"--add={path}", problem=error)
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
  from ctd_jax_datasets import load, registry

  if name not in registry.DATASET_NAMES:
    nearest = difflib.get_close_matches(name, registry.DATASET_NAMES, n=1)
    hint = f"; did you mean {nearest[0]}?" if nearest else ""
    raise FileNotFoundError(
      f"--add={name}: no such file or folder, nor a data set "
      f"({', '.join(registry.DATASET_NAMES)}), nor {_BEIR_PREFIX}FOLDER{hint}"
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


def _read_beir(source: str, hidden_splits: Collection[str]) -> list[SourceWork]:
  from ctd_jax_datasets.common import beir, provenance

  _check_splits(hidden_splits)
  folder = source.removeprefix(_BEIR_PREFIX)
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
  metadata = provenance.read_metadata(files.as_path(folder).expanduser())
  return _make_works(name, source, BEIR, records, timeline, metadata.titles)


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
  """Returns a work for each source of a data set, its records in order."""
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
