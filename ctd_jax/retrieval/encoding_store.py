"""Encodings of a gallery in files: made in pieces, read where they are needed.

Why: a gallery may be larger than the memory, and encoding it longer than a
machine stays up. Every piece of it is some files that are written whole; what
is there when a run begins again is not encoded again. `ranking` keeps them
below `config.eval.vectors_dir`, in a folder named by what they follow from.

Axis: N texts.
"""

from __future__ import annotations

import hashlib
import pathlib
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from ctd_jax.models.calendar_heads import CalendarLogits
from ctd_jax.models.dual_encoder import Encoding
from ctd_jax.training import distributed
from ctd_jax.training.input_pipeline import Tokens
from ctd_jax.utils import files

_VERSION = 1  # raised when the same parameters give other encodings
PIECE = 65_536  # texts, a multiple of the blocks that a search reads
# The names of the files of each part.
_NAMES = Encoding(
  semantic="semantic",
  absolute="absolute",
  scalar="scalar",
  logits=CalendarLogits("reign_logits", "year_logits", "month_logits"),
  year_code="year_code",
  interval="interval",
)


class Pieces:
  """An array whose rows lie in several arrays; it gives out rows.

  Attributes:
    shape: of the whole, [N, ...].
    dtype: of all.
  """

  def __init__(self, parts: Sequence[np.ndarray]):
    """Takes the parts, in order; at least one."""
    self._parts = list(parts)
    self._starts = np.cumsum([0, *map(len, parts)])
    self.shape = (int(self._starts[-1]), *parts[0].shape[1:])
    self.dtype = parts[0].dtype

  def __len__(self) -> int:
    return self.shape[0]

  def __getitem__(self, rows: slice | np.ndarray) -> np.ndarray:
    """Returns rows, without copying where a slice lies in one part."""
    if isinstance(rows, slice):
      start, stop, step = rows.indices(len(self))
      first = max(0, int(np.searchsorted(self._starts, start, "right")) - 1)
      part = self._parts[min(first, len(self._parts) - 1)]
      if step == 1 and stop <= self._starts[first] + len(part):
        return part[start - self._starts[first] : stop - self._starts[first]]
    rows = np.arange(len(self))[rows]
    owners = np.searchsorted(self._starts, rows, "right") - 1
    found = np.empty((len(rows), *self.shape[1:]), self.dtype)
    for owner in np.unique(owners):
      mine = owners == owner
      found[mine] = self._parts[owner][rows[mine] - self._starts[owner]]
    return found


def fingerprint(params: Any, tokens: Tokens, config: Any) -> str:
  """Returns what tells encodings apart: parameters, texts and geometry.

  Args:
    params: of the dual encoder.
    tokens: of the texts.
    config: of the dual encoder; its repr names every field.
  """
  digest = hashlib.sha256(repr((_VERSION, config)).encode())
  # One array after the other: the whole model may not fit on one host.
  for leaf in (*jax.tree.leaves(params), tokens.ids, tokens.mask):
    leaf = np.ascontiguousarray(distributed.fetch(leaf))
    digest.update(str(leaf.shape).encode())
    digest.update(leaf)
  return digest.hexdigest()


def encode(
  folder: pathlib.Path,
  count: int,
  encode_rows: Callable[[slice], Encoding],
  piece: int = PIECE,
) -> Encoding:
  """Returns the encodings of all texts, as arrays mapped from files.

  Pieces that lie there are not made again; a cut-off leaves whole ones.

  Args:
    folder: of these encodings alone; see `fingerprint`.
    count: number of texts N, at least 1.
    encode_rows: gives the encodings of some texts; every process calls it.
    piece: texts encoded and written at once.
  """
  spans = [
    (start, min(start + piece, count)) for start in range(0, count, piece)
  ]
  for span in spans:
    paths = _paths(folder, span)
    there = all(path.exists() for path in jax.tree.leaves(paths))
    if not distributed.everywhere(there):
      found = encode_rows(slice(*span))
      if distributed.leads():
        jax.tree.map(_write, paths, found)
  distributed.wait_for_all("encodings in files")
  parts = [
    jax.tree.map(
      lambda path: np.load(path, mmap_mode="r"), _paths(folder, span)
    )
    for span in spans
  ]
  return jax.tree.map(lambda *leaves: Pieces(leaves), *parts)


def _paths(folder: pathlib.Path, span: tuple[int, int]) -> Encoding:
  """Returns the files of a piece."""
  return jax.tree.map(
    lambda name: folder / f"{name}.{span[0]:09}-{span[1]:09}.npy", _NAMES
  )


def _write(path: pathlib.Path, array: np.ndarray) -> None:
  with files.replacing(path) as temporary:
    np.save(temporary, array)
