"""Store of encodings: a gallery in files, written and read in chunks.

A gallery may be larger than the memory, and encoding it may outlast the
machine. Every chunk is a few files that are written whole; a run that begins
again does not encode them again. The folder is named by a fingerprint of
parameters, texts and geometry.

Axes: N texts, n rows of them.
"""

from __future__ import annotations

import hashlib
import pathlib
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from ctd_jax.models.calendar_heads import CalendarLogits
from ctd_jax.models.encoding import Encoding
from ctd_jax.models.time_gaussian import Gaussians
from ctd_jax.training import distributed
from ctd_jax.training.input_pipeline import Tokens
from ctd_jax.utils import files

_VERSION = 1  # raised when the same parameters give other encodings
CHUNK_SIZE = 65_536  # texts of a file
# Names of the files of a chunk, one for every leaf of an encoding.
_FILE_NAMES = Encoding(
  semantic="semantic",
  absolute="absolute",
  scalar="scalar",
  logits=CalendarLogits("reign_logits", "year_logits", "month_logits"),
  year_code="year_code",
  gaussian=Gaussians("gaussian_mean", "gaussian_log_variance"),
  interval="interval",
)


class ChunkedArray:
  """Array whose rows lie in several arrays, each mapped from a file.

  Attributes:
    shape: of the whole, [N, ...].
    dtype: of every chunk.
  """

  def __init__(self, chunks: Sequence[np.ndarray]):
    """Joins the chunks, in order; at least one."""
    self._chunks = list(chunks)
    self._chunk_starts = np.cumsum([0, *map(len, chunks)])
    self.shape = (int(self._chunk_starts[-1]), *chunks[0].shape[1:])
    self.dtype = chunks[0].dtype

  def __len__(self) -> int:
    return self.shape[0]

  def __getitem__(self, rows: slice | np.ndarray) -> np.ndarray:
    """Returns rows; a slice within one chunk is not copied."""
    if isinstance(rows, slice):
      start, stop, step = rows.indices(len(self))
      chunk_index = max(
        0, int(np.searchsorted(self._chunk_starts, start, "right")) - 1
      )
      chunk = self._chunks[min(chunk_index, len(self._chunks) - 1)]
      if step == 1 and stop <= self._chunk_starts[chunk_index] + len(chunk):
        return chunk[
          start - self._chunk_starts[chunk_index] : stop
          - self._chunk_starts[chunk_index]
        ]
      rows = np.arange(start, stop, step)
    else:
      rows = np.arange(len(self))[rows]  # of negative numbers, or of a mask
    chunk_of_row = np.searchsorted(self._chunk_starts, rows, "right") - 1
    selected_rows = np.empty((len(rows), *self.shape[1:]), self.dtype)
    for chunk_number in np.unique(chunk_of_row):
      is_in_chunk = chunk_of_row == chunk_number
      selected_rows[is_in_chunk] = self._chunks[chunk_number][
        rows[is_in_chunk] - self._chunk_starts[chunk_number]
      ]
    return selected_rows


def fingerprint_encodings(params: Any, tokens: Tokens, config: Any) -> str:
  """Returns a hash of all that encodings depend on, hexadecimal.

  Args:
    params: of the dual encoder.
    tokens: of the texts.
    config: of the dual encoder; its repr names every field.
  """
  digest = hashlib.sha256(repr((_VERSION, config)).encode())
  # Array by array: a sharded model may not fit on one host.
  for leaf in (*jax.tree.leaves(params), tokens.ids, tokens.mask):
    leaf = np.ascontiguousarray(distributed.fetch_to_host(leaf))
    digest.update(str(leaf.shape).encode())
    digest.update(leaf.reshape(-1).view(np.uint8))  # bf16 is no buffer
  return digest.hexdigest()


def encode_to_files(
  folder: pathlib.Path,
  num_texts: int,
  encode_rows: Callable[[slice], Encoding],
  chunk_size: int = CHUNK_SIZE,
) -> Encoding:
  """Returns the encodings of all texts, as arrays mapped from files.

  Chunks that are there are not encoded again; an interrupted run leaves whole
  chunks.

  Args:
    folder: of these encodings alone; see `fingerprint_encodings`.
    num_texts: number of texts N, at least 1.
    encode_rows: encodes the texts of a slice; every process calls it.
    chunk_size: texts encoded and written at once.
  """
  spans = [
    (start, min(start + chunk_size, num_texts))
    for start in range(0, num_texts, chunk_size)
  ]
  for span in spans:
    paths = _chunk_paths(folder, span)
    is_complete = all(path.exists() for path in jax.tree.leaves(paths))
    # All or none: encoding is a collective of all processes.
    if not distributed.is_true_in_all_processes(is_complete):
      encoding = encode_rows(slice(*span))
      if distributed.is_coordinator():
        jax.tree.map(_write_array, paths, encoding)
  distributed.wait_for_all("encodings in files")
  encodings = [
    jax.tree.map(
      lambda path: np.load(path, mmap_mode="r"), _chunk_paths(folder, span)
    )
    for span in spans
  ]
  return jax.tree.map(lambda *leaves: ChunkedArray(leaves), *encodings)


def _chunk_paths(folder: pathlib.Path, span: tuple[int, int]) -> Encoding:
  """Returns the files of a chunk."""
  return jax.tree.map(
    lambda name: folder / f"{name}.{span[0]:09}-{span[1]:09}.npy", _FILE_NAMES
  )


def _write_array(path: pathlib.Path, array: np.ndarray) -> None:
  with files.atomic_path(path) as temporary:
    np.save(temporary, array)
