"""Shards of a dated corpus: Lance tables that are searched where they lie.

  shards/shards.json      names of the shards, once all of them are there
  shards/NAME.lance       rows of consecutive works: the date and text of each
                          section, its days and its vector; an index over the
                          vectors, and one over the first and the last days

Each is made by itself, here or by a worker, and is there whole or not at all. A
search reads the lists of vectors that it needs, so that no process holds a
corpus. Vectors are of length 1 and compared by their inner product.

Source: Jégou, Douze, Schmid 2011, "Product quantization for nearest neighbor
search", for the index over the vectors.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import os
import pathlib
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import pyarrow as pa
from absl import logging
from pyarrow import parquet

import ctd_jax
from ctd_jax.corpora import corpus_files
from ctd_jax.corpora.corpus_files import (
  DATES_FOLDER,
  SHARDS_FOLDER,
  VECTORS_FOLDER,
  CorpusFile,
)
from ctd_jax.retrieval import lance_tables
from ctd_jax.utils import files

TABLE = "rows"
DAYS = ("first_julian_day", "last_julian_day")
COLUMNS = ("work", "row", "text", "common_era", "edtf", "probability", *DAYS)
LIST_FILE = "shards.json"
_SUFFIX = ".lance"
_TEMPORARY_SUFFIX = ".tmp"
_VERSION = 1  # raised when the same is made into other shards
_NAME_DIGITS = 12


class Shard(msgspec.Struct, frozen=True, kw_only=True):
  """Works that are searched together.

  Attributes:
    name: of its folder, without suffix; of what it is made from.
    works: names of the files of its works, in order.
    rows: number of their sections.
  """

  name: str
  works: tuple[str, ...]
  rows: int


def plan_shards(corpus: CorpusFile, shard_rows: int) -> list[Shard]:
  """Returns the shards of a corpus, in the order of its works.

  Args:
    corpus: with vectors.
    shard_rows: sections of a shard, which has its last work whole.
  """
  shards, works, rows = [], [], 0
  for index, work in enumerate(corpus.works):
    works.append(work)
    rows += work.sections
    if rows >= shard_rows or index == len(corpus.works) - 1:
      digest = hashlib.sha256(
        f"{_VERSION} {ctd_jax.__version__} {corpus.encoder}".encode()
      )
      for member in works:
        digest.update(f"\n{member.name} {member.fingerprint}".encode())
      shards.append(
        Shard(
          name=f"{len(shards):05}-{digest.hexdigest()[:_NAME_DIGITS]}",
          works=tuple(member.name for member in works),
          rows=rows,
        )
      )
      works, rows = [], 0
  return shards


def list_shards(folder: pathlib.Path) -> list[pathlib.Path]:
  """Returns the folders of the shards of a corpus, in order.

  Args:
    folder: of the corpus.

  Raises:
    FileNotFoundError: if it has none, or not all of them yet.
  """
  path = folder / SHARDS_FOLDER / LIST_FILE
  if not path.exists():
    raise FileNotFoundError(
      f"{folder}: no finished shards; they are made, and gone on with, by "
      "ctd-jax corpora --encoder=... --shard_rows=1000000"
    )
  names = msgspec.json.decode(path.read_bytes(), type=list[str])
  return [folder / SHARDS_FOLDER / (name + _SUFFIX) for name in names]


def write_list(folder: pathlib.Path, shards: Sequence[Shard]) -> None:
  """Says that all shards of a corpus are there.

  Args:
    folder: of the corpus.
    shards: all of them.
  """
  content = msgspec.json.encode([shard.name for shard in shards]).decode()
  files.write_text(folder / SHARDS_FOLDER / LIST_FILE, content + "\n")


def remove_list(folder: pathlib.Path) -> None:
  """Says that the shards of a corpus are not those that it will have.

  Args:
    folder: of the corpus.
  """
  (folder / SHARDS_FOLDER / LIST_FILE).unlink(missing_ok=True)


def write_shard(folder: str, shard: Shard) -> str:
  """Writes a shard, unless it is there, and returns its name.

  Args:
    folder: of the corpus, with dates and vectors of the works.
    shard: of `plan_shards`.

  Raises:
    ValueError: if LanceDB is not installed.
  """
  lancedb = lance_tables.import_lancedb("--shard_rows")
  path = pathlib.Path(folder) / SHARDS_FOLDER / (shard.name + _SUFFIX)
  if path.exists():
    return shard.name
  with _atomic_folder(path) as temporary:
    table = lancedb.connect(temporary).create_table(
      TABLE, _read_rows(pathlib.Path(folder), shard)
    )
    _index_columns(table, shard.rows)
  return shard.name


def remove_others(folder: pathlib.Path, shards: Sequence[Shard]) -> None:
  """Removes shards that a corpus has no more, and what a killed process left.

  Args:
    folder: of the corpus.
    shards: that stay.
  """
  names = {shard.name + _SUFFIX for shard in shards}
  removed = 0
  for path in (folder / SHARDS_FOLDER).glob("*"):
    is_ours = path.suffix in (_SUFFIX, _TEMPORARY_SUFFIX) and path.is_dir()
    if is_ours and path.name not in names:
      try:
        shutil.rmtree(path)
      except OSError as error:  # a reader has it open, on some file systems
        logging.warning("%s: cannot be removed, %s", path, error)
      removed += path.suffix == _SUFFIX
  if removed:
    reason = "are another corpus's" if shards else "no --shard_rows is given"
    logging.warning("%s: %d shards removed, %s", folder, removed, reason)


def _read_rows(folder: pathlib.Path, shard: Shard) -> pa.RecordBatchReader:
  """Returns the rows of a shard with their vectors, read work by work."""
  tables = (_read_work(folder, name) for name in shard.works)
  first = next(tables)
  batches = (
    batch
    for table in itertools.chain([first], tables)
    for batch in table.to_batches()
  )
  return pa.RecordBatchReader.from_batches(first.schema, batches)


def _read_work(folder: pathlib.Path, name: str) -> pa.Table:
  """Returns the rows of a work with their vectors."""
  dates, vectors = (
    corpus_files.find_path(folder, kind, name)
    for kind in (DATES_FOLDER, VECTORS_FOLDER)
  )
  rows = parquet.read_table(dates, columns=list(COLUMNS))
  column = parquet.read_table(vectors, columns=["vector"])["vector"]
  return rows.append_column("vector", column).replace_schema_metadata()


def _index_columns(table: Any, num_rows: int) -> None:
  """Makes the indexes of a table."""
  from lancedb import index

  for name in DAYS:
    table.create_index(name, config=index.BTree())
  if num_lists := lance_tables.count_lists(num_rows):
    table.create_index(
      "vector",
      config=index.IvfPq(distance_type="dot", num_partitions=num_lists),
    )


@contextlib.contextmanager
def _atomic_folder(path: pathlib.Path) -> Iterator[pathlib.Path]:
  """Gives a temporary folder that becomes `path` at the end."""
  path.parent.mkdir(parents=True, exist_ok=True)
  temporary = pathlib.Path(
    tempfile.mkdtemp(
      dir=path.parent, prefix=f".{path.name}.", suffix=_TEMPORARY_SUFFIX
    )
  )
  try:
    yield temporary
    temporary.chmod(path.parent.stat().st_mode & 0o777)
    with contextlib.suppress(OSError):
      if not path.exists():  # by a worker that was taken for dead
        os.rename(temporary, path)
    if not path.exists():
      raise OSError(f"{path}: cannot be written")
  finally:
    shutil.rmtree(temporary, ignore_errors=True)
