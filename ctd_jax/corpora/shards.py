"""Shards of a dated corpus: Lance tables that are searched where they lie.

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
from types import ModuleType
from typing import Any

import msgspec
import pyarrow as pa
from pyarrow import parquet

import ctd_jax
from ctd_jax.corpora import corpus_files
from ctd_jax.corpora.corpus_files import (
  DATES_FOLDER,
  SHARDS_FOLDER,
  VECTORS_FOLDER,
  CorpusFile,
)

TABLE = "rows"
DAYS = ("first_julian_day", "last_julian_day")
COLUMNS = ("work", "row", "text", "common_era", "edtf", "probability", *DAYS)
_SUFFIX = ".lance"
_VERSION = 1  # raised when the same is made into other shards
# Fewer rows are compared one by one, which is as fast; the codes of the index
# are learned from as many.
_MIN_INDEXED_ROWS = 65_536
_ROWS_OF_LIST = 4096  # vectors that share a centroid
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


def import_lancedb() -> ModuleType:
  """Returns LanceDB, which comes with an extra.

  Raises:
    ValueError: if it is not installed.
  """
  try:
    import lancedb
  except ModuleNotFoundError as error:
    raise ValueError(
      f"shards need {error.name}: pip install 'ctd_jax[lance]'"
    ) from None
  return lancedb


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


def count_lists(num_rows: int) -> int:
  """Returns the number of lists of vectors of a shard; 0 without an index."""
  return 0 if num_rows < _MIN_INDEXED_ROWS else num_rows // _ROWS_OF_LIST


def list_shards(folder: pathlib.Path) -> list[pathlib.Path]:
  """Returns the folders of the shards of a corpus, in order.

  Args:
    folder: of the corpus.

  Raises:
    FileNotFoundError: if it has none.
  """
  paths = sorted((folder / SHARDS_FOLDER).glob(f"*{_SUFFIX}"))
  if not paths:
    raise FileNotFoundError(
      f"{folder}: no {SHARDS_FOLDER}/*{_SUFFIX}; they are made by ctd-jax "
      "corpora --encoder=... --shard_rows=1000000"
    )
  return paths


def write_shard(folder: str, shard: Shard) -> str:
  """Writes a shard, unless it is there, and returns its name.

  Args:
    folder: of the corpus, with dates and vectors of the works.
    shard: of `plan_shards`.

  Raises:
    ValueError: if LanceDB is not installed.
  """
  lancedb = import_lancedb()
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
  for path in (folder / SHARDS_FOLDER).glob("*"):
    if path.name not in names:
      shutil.rmtree(path)


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
  if num_lists := count_lists(num_rows):
    table.create_index(
      "vector",
      config=index.IvfPq(distance_type="dot", num_partitions=num_lists),
    )


@contextlib.contextmanager
def _atomic_folder(path: pathlib.Path) -> Iterator[pathlib.Path]:
  """Gives a temporary folder that becomes `path` at the end."""
  path.parent.mkdir(parents=True, exist_ok=True)
  temporary = pathlib.Path(
    tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
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
