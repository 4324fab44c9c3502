"""Folder of a dated corpus: parquet files that are written whole or not at all.

  corpus.json             works, and sources that could not be read or dated;
                          written last
  dates/NAME.parquet      a row for each section of a work, the fields of
                          `DatedSection`
  vectors/NAME.parquet    a vector for each of these rows, in their order
  links/NAME.parquet      a row for each section of another work that one of
                          these is linked to; see `links.linking`
  shards/NAME.lance       both, of many works, to be searched; see `shards`

A file says in its metadata what it was made from, and what came of it. Whatever
was made from the same is not made again, so that a run that was broken off goes
on; and nothing in a file depends on when or where it was made, nor, but of
links, beside what.
"""

from __future__ import annotations

import hashlib
import pathlib
import re
import shutil
import types
import typing
from collections.abc import Sequence
from typing import Any, TypeVar

import msgspec
import numpy as np
import pyarrow as pa
from absl import logging
from jaxtyping import Float32
from pyarrow import parquet

from ctd_jax.dating.chronicle_output.dated_sections import DatedSection
from ctd_jax.utils import files

CORPUS_FILE = "corpus.json"
DATES_FOLDER, VECTORS_FOLDER, LINKS_FOLDER = FOLDERS = (
  "dates",
  "vectors",
  "links",
)
SHARDS_FOLDER = "shards"
_SUFFIX = ".parquet"
_FINGERPRINT, _OUTCOME = b"ctd_jax.fingerprint", b"ctd_jax.outcome"  # metadata
_NAME_DIGITS = 12
_MAX_NAME = 40  # characters of a work in the name of its file
_MAX_NAMED = 5  # of a list in an error
_SCALAR_TYPES = {
  str: pa.string(),
  bool: pa.bool_(),
  int: pa.int64(),
  float: pa.float64(),
}


Outcome = TypeVar("Outcome", bound=msgspec.Struct)


class WorkOutcome(msgspec.Struct, frozen=True, kw_only=True):
  """What became of a work, or of a source that holds none.

  Attributes:
    source: path of the file or folder.
    work: identifier; "" of a source that cannot be read.
    title: of the work.
    name: of its files, without suffix; "" if it has none.
    sections: number of rows.
    characters: of their texts.
    reading: what was read and left out, in words.
    warnings: what a reader of the dates should know.
    error: why there are no dates; "" if there are.
    fingerprint: of all that the dates were made from.
  """

  source: str
  work: str = ""
  title: str = ""
  name: str = ""
  sections: int = 0
  characters: int = 0
  reading: str = ""
  warnings: tuple[str, ...] = ()
  error: str = ""
  fingerprint: str = ""


class LinkCounts(msgspec.Struct, frozen=True, kw_only=True):
  """What came of the links of a work, or of several.

  Attributes:
    links: number of rows.
    linked_sections: that have a link.
    cut_sections: that have more links than are kept of a section.
  """

  links: int = 0
  linked_sections: int = 0
  cut_sections: int = 0


class CorpusLinks(LinkCounts, frozen=True, kw_only=True):
  """Links of a corpus, and what was left out.

  Attributes:
    fingerprint: of all that they were made from.
    read_sections: that hold a string, and are no headings.
    max_sections: that may hold a string for it to count.
    shared_strings: that two sections hold, or more.
    common_strings: of these, the ones that more than `max_sections` hold.
    common_occurrences: sections of each of these, added up.
    min_weight: of the strings that linked sections share.
  """

  fingerprint: str
  read_sections: int
  max_sections: int
  shared_strings: int
  common_strings: int
  common_occurrences: int
  min_weight: float


class CorpusFile(msgspec.Struct, frozen=True, kw_only=True):
  """Content of corpus.json.

  Attributes:
    version: of ctd_jax.
    reigns: calendar, as it was asked for.
    encoder: sha256 of the encoder of the vectors; "" without.
    works: that are dated, by source and identifier.
    failed: sources and works that are not, likewise.
    links: between works; None if none were asked for.
  """

  version: str
  reigns: str
  encoder: str = ""
  works: tuple[WorkOutcome, ...] = ()
  failed: tuple[WorkOutcome, ...] = ()
  links: CorpusLinks | None = None

  @property
  def sections(self) -> int:
    """Number of rows of all works."""
    return sum(work.sections for work in self.works)


def name_work(source: str, work: str) -> str:
  """Returns the name of the files of a work.

  Args:
    source: path that it was read from.
    work: identifier.
  """
  readable = re.sub(r"[^\w-]+", "_", work)[-_MAX_NAME:].strip("_") or "work"
  digest = hashlib.sha256(f"{source}\n{work}".encode()).hexdigest()
  return f"{readable}-{digest[:_NAME_DIGITS]}"


def find_path(folder: pathlib.Path, kind: str, name: str) -> pathlib.Path:
  """Returns the path of a file of a work.

  Args:
    folder: of the corpus.
    kind: of `FOLDERS`.
    name: as of `name_work`.
  """
  return folder / kind / (name + _SUFFIX)


def read_outcome(
  path: pathlib.Path,
  fingerprint: str,
  outcome_type: type[Outcome] = WorkOutcome,
) -> Outcome | None:
  """Returns what came of a work; None if its file is to be made.

  Args:
    path: of the file.
    fingerprint: of all that it is to be made from.
    outcome_type: `LinkCounts` of links.
  """
  if not path.is_file():
    return None
  metadata = parquet.read_schema(path).metadata or {}
  if metadata.get(_FINGERPRINT) != fingerprint.encode():
    return None
  return msgspec.json.decode(metadata[_OUTCOME], type=outcome_type)


def write_dates(
  path: pathlib.Path,
  outcome: WorkOutcome,
  rows: Sequence[DatedSection],
  fingerprint: str,
) -> None:
  """Writes the rows of a work.

  Args:
    path: of the file.
    outcome: of the work.
    rows: of its sections, in order.
    fingerprint: of all that they were made from.
  """
  records = [
    {"work": outcome.work, "row": number, **msgspec.to_builtins(row)}
    for number, row in enumerate(rows)
  ]
  table = pa.Table.from_pylist(records, _DATES_SCHEMA)
  write_table(path, table, outcome, fingerprint)


def write_vectors(
  path: pathlib.Path,
  outcome: WorkOutcome,
  vectors: Float32[np.ndarray, "n D"],
  fingerprint: str,
) -> None:
  """Writes the vectors of a work.

  Args:
    path: of the file.
    outcome: of the work.
    vectors: of its rows, in order.
    fingerprint: of all that they were made from.
  """
  count, width = vectors.shape
  table = pa.table(
    {
      "work": pa.repeat(pa.scalar(outcome.work), count),
      "row": np.arange(count),
      "vector": pa.FixedSizeListArray.from_arrays(vectors.ravel(), width),
    }
  )
  write_table(path, table, outcome, fingerprint)


def write_table(
  path: pathlib.Path,
  table: pa.Table,
  outcome: msgspec.Struct,
  fingerprint: str,
) -> None:
  """Writes a table of a work, whole.

  Args:
    path: of the file.
    table: a row for each of its sections, or links.
    outcome: what came of it, which `read_outcome` reads.
    fingerprint: of all that it was made from.
  """
  table = table.replace_schema_metadata(
    {
      _FINGERPRINT: fingerprint.encode(),
      _OUTCOME: msgspec.json.encode(outcome),
    }
  )
  with files.atomic_path(path) as temporary:
    parquet.write_table(table, temporary, compression="zstd")


def read_texts(path: pathlib.Path) -> list[str]:
  """Returns the texts of the rows of a work."""
  return parquet.read_table(path, columns=["text"])["text"].to_pylist()


def write_corpus_file(folder: pathlib.Path, corpus: CorpusFile) -> None:
  """Writes corpus.json and removes the files of works that it has not."""
  content = msgspec.json.format(msgspec.json.encode(corpus), indent=1)
  files.write_text(folder / CORPUS_FILE, content.decode() + "\n")
  used = {work.name for work in corpus.works}
  has_kind = {
    DATES_FOLDER: True,
    VECTORS_FOLDER: bool(corpus.encoder),
    LINKS_FOLDER: corpus.links is not None,
  }
  for kind in FOLDERS:
    removed = 0
    for path in (folder / kind).glob(".*.tmp"):
      shutil.rmtree(path, ignore_errors=True)  # of a process that was killed
    for path in (folder / kind).glob(f"*{_SUFFIX}"):
      if path.stem not in used or not has_kind[kind]:
        path.unlink()
        removed += 1
    if removed and kind == LINKS_FOLDER and corpus.links is None:
      logging.warning(
        "%s: links of %d works removed, no --links is given", folder, removed
      )


def read_corpus_file(folder: pathlib.Path) -> CorpusFile:
  """Returns what corpus.json of a folder says.

  Raises:
    FileNotFoundError: if there is none.
    ValueError: naming the file, if it is damaged.
  """
  path = folder / CORPUS_FILE
  try:
    return msgspec.json.decode(path.read_bytes(), type=CorpusFile)
  except msgspec.MsgspecError as error:
    raise ValueError(f"{path}: damaged ({error}); remove it") from error


def check_folder(folder: pathlib.Path) -> None:
  """Raises an error if a folder holds what is not of a corpus.

  Raises:
    ValueError: naming what it holds.
  """
  if folder.exists() and not folder.is_dir():
    raise ValueError(f"--out={folder}: a file; name a folder")
  names = {path.name for path in folder.iterdir()} if folder.exists() else set()
  others = sorted(
    name
    for name in names - {CORPUS_FILE, SHARDS_FOLDER, *FOLDERS}
    if name[0] != "."
  )
  if others:
    raise ValueError(
      f"--out={folder}: holds {', '.join(others[:_MAX_NAMED])}; name an empty "
      "folder or one that is yet to be made"
    )


def _find_arrow_type(annotation: Any) -> pa.DataType:
  """Returns the type of a column, of the annotation of a field."""
  if annotation in _SCALAR_TYPES:
    return _SCALAR_TYPES[annotation]
  arguments = typing.get_args(annotation)
  if isinstance(annotation, types.UnionType):  # of a type and None
    return _find_arrow_type(next(x for x in arguments if x is not type(None)))
  if typing.get_origin(annotation) is tuple:
    return pa.list_(_find_arrow_type(arguments[0]))
  return pa.struct(_list_fields(annotation))


def _list_fields(struct: type[msgspec.Struct]) -> list[pa.Field]:
  annotations = typing.get_type_hints(struct)
  return [
    pa.field(name, _find_arrow_type(annotation))
    for name, annotation in annotations.items()
  ]


_DATES_SCHEMA = pa.schema(
  [
    pa.field("work", pa.string()),
    pa.field("row", pa.int64()),
    *_list_fields(DatedSection),
  ]
)
