"""Requests of sources: what was added to an index, as its works remember it.

A path inside of the folder of the index, such as that of an upload, is
remembered from there, so that the folder may be moved; any other as a whole.
"""

from __future__ import annotations

import functools
import os
import pathlib
from collections.abc import Iterable, Sequence

import msgspec

from ctd_jax.index.building import corpus_reading
from ctd_jax.index.building.source_works import SourceWork
from ctd_jax.utils.beam import MapItems

DATASET, BEIR, TEXTS = "dataset", "beir", "texts"


class SourceRequest(msgspec.Struct, frozen=True, kw_only=True):
  """What is to be read, and how.

  Attributes:
    kind: a data set, a BEIR folder, or texts.
    source: name of the data set, else the path.
    unit: of plain text; found from the text if None.
    hidden_splits: splits of data sets whose months are not to be used.
    data_dir: folder of the built data sets; that of TFDS if None.
  """

  kind: str
  source: str
  unit: str | None = None
  hidden_splits: tuple[str, ...] = ()
  data_dir: str | None = None

  def find_path(self, folder: pathlib.Path) -> pathlib.Path | None:
    """Returns where the source lies; None of a data set.

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
    return (
      f"{corpus_reading.BEIR_PREFIX}{path}" if self.kind == BEIR else f"{path}"
    )

  def read(self, folder: pathlib.Path) -> list[SourceWork]:
    """Returns the works of the source.

    Args:
      folder: of the index.

    Raises:
      FileNotFoundError: as of `corpus_reading.read_source`.
      ValueError: likewise.
    """
    return corpus_reading.read_source(
      self.format_argument(folder),
      self.unit,
      self.hidden_splits,
      self.data_dir,
    )


def make_request(
  folder: pathlib.Path,
  source: str,
  unit: str | None = None,
  hidden_splits: Iterable[str] = (),
  data_dir: str | os.PathLike | None = None,
) -> SourceRequest:
  """Returns what is remembered of a source that is added.

  Args:
    folder: of the index.
    source: as of `corpus_reading.read_source`.
    unit: likewise.
    hidden_splits: likewise.
    data_dir: likewise.
  """
  path = source.removeprefix(corpus_reading.BEIR_PREFIX)
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
  """Returns a path from the folder of the index if it is inside, else whole.

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
) -> list[list[SourceWork]]:
  """Returns the works of each source.

  Args:
    requests: the sources.
    folder: of the index.
    map_items: maps texts, if there are several; data sets are read here, for
      workers may not see them.

  Raises:
    FileNotFoundError: as of `corpus_reading.read_source`.
    ValueError: likewise.
  """
  texts = [request for request in requests if request.kind == TEXTS]
  read = functools.partial(_read_request, folder=folder)
  works_of_texts = iter((map_items if len(texts) > 1 else map)(read, texts))
  return [
    next(works_of_texts) if request.kind == TEXTS else request.read(folder)
    for request in requests
  ]


def _read_request(
  request: SourceRequest, *, folder: pathlib.Path
) -> list[SourceWork]:
  return request.read(folder)
