"""Tokens of texts, one text after the other, in memory or in a mapped file.

Processes of a machine that map one file share its memory, and read the pages
that they need. What tokenises a text takes hundreds of times as long.

Axes: N texts, C tokens of all texts.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import pathlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from absl import logging
from jaxtyping import Int, Int32, Int64

from ctd_jax.models.tokenizer import TextTokenizer
from ctd_jax.utils import files

_FORMAT = b"1"  # of the files; part of their names' fingerprint


@dataclasses.dataclass(frozen=True)
class TokenStore:
  """Tokens of texts.

  Attributes:
    ids: of all tokens, text after text.
    lengths: tokens of each text.
    path: of the file that `ids` is mapped from; None = it is in memory.
  """

  ids: Int32[np.ndarray, " C"]
  lengths: Int32[np.ndarray, " N"]
  path: pathlib.Path | None = None

  @functools.cached_property
  def starts(self) -> Int64[np.ndarray, " N"]:
    """Position of the first token of each text."""
    return np.cumsum(self.lengths, dtype=np.int64) - self.lengths

  def copy_texts(
    self,
    texts: Int[np.ndarray, " _"],
    cells: Int[np.ndarray, " _"],
    target: Int32[np.ndarray, " _"],
  ) -> None:
    """Copies texts into a flat array.

    Args:
      texts: their numbers.
      cells: where each begins; see `spread`.
      target: is written to.
    """
    lengths = self.lengths[texts]
    tokens = spread(self.starts[texts], lengths)
    target[spread(cells, lengths)] = self.ids[tokens]

  def __getstate__(self) -> dict[str, Any]:
    """Returns what another process is sent: of a file, its path."""
    ids = self.ids if self.path is None else None
    return {"ids": ids, "lengths": self.lengths, "path": self.path}

  def __setstate__(self, state: dict[str, Any]) -> None:
    """Takes what `__getstate__` returned."""
    if state["path"] is not None:
      state["ids"] = np.load(state["path"], mmap_mode="r")
    vars(self).update(state)


def spread(
  starts: Int[np.ndarray, " N"], lengths: Int[np.ndarray, " N"]
) -> Int64[np.ndarray, " _"]:
  """Returns start, start + 1, ... of each text, as many as it has tokens."""
  ends = np.cumsum(lengths, dtype=np.int64)
  total = int(ends[-1]) if len(ends) else 0
  return np.arange(total) + np.repeat(starts - (ends - lengths), lengths)


def read_or_tokenize(
  folder: pathlib.Path,
  tokenizer: TextTokenizer,
  texts: Sequence[str],
  max_length: int,
  prefix: str,
) -> tuple[TokenStore, Int32[np.ndarray, " N"]] | None:
  """Returns the tokens of texts, and the tokens that each has uncut.

  None, and a warning, where the folder lacks them and cannot be written to.

  Args:
    folder: has a file for every tokenizer, length and sequence of texts;
      others are added.
    tokenizer: vocabulary.
    texts: N texts.
    max_length: tokens that a text is cut to.
    prefix: stands before every text.
  """
  name = _fingerprint(tokenizer, texts, max_length, prefix)
  # The tokens come last: where they are, the lengths are.
  lengths_path, ids_path = (
    folder / f"{name}.lengths.npy",
    folder / f"{name}.npy",
  )
  if not ids_path.exists():
    rows, full_lengths = tokenizer.tokenize(texts, max_length, prefix)
    lengths = np.array([len(row) for row in rows], np.int32)
    ids = np.concatenate([*rows, np.zeros(0, np.int32)])
    try:
      _save(lengths_path, np.stack([lengths, full_lengths]))
      _save(ids_path, ids)
    except OSError as error:
      logging.warning("tokens are not kept in %s: %s", folder, error)
      return None
    logging.info("wrote the tokens of %d texts to %s", len(texts), ids_path)
  lengths, full_lengths = np.load(lengths_path)
  ids = np.load(ids_path, mmap_mode="r")
  return TokenStore(ids, lengths, ids_path), full_lengths


def _save(path: pathlib.Path, array: np.ndarray) -> None:
  with files.atomic_path(path) as temporary:
    np.save(temporary, array)


def _fingerprint(
  tokenizer: TextTokenizer,
  texts: Sequence[str],
  max_length: int,
  prefix: str,
) -> str:
  """Returns a name that two inputs share only if their tokens are the same."""
  digest = hashlib.sha256(_FORMAT)
  for text in (tokenizer.fingerprint, str(max_length), prefix, *texts):
    data = text.encode()
    digest.update(len(data).to_bytes(8, "little"))
    digest.update(data)
  return digest.hexdigest()[:32]
