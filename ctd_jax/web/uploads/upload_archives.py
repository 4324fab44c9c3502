"""Archives of an upload: opened once, and their lists of entries limited.

`zipfile` makes an object of every entry of the list before it says how many
there are; a list may have as many bytes as the upload. What is read of an
archive while it is opened is limited for that, and for all archives together.
"""

from __future__ import annotations

import dataclasses
import zipfile
from collections.abc import Sequence
from typing import IO, Any

from ctd_jax.web.errors import PageError

ARCHIVE_SUFFIX = ".zip"
MAX_ENTRIES = 20_000  # of the archives of an upload, folders and all
_MAX_LIST_BYTES = 4 << 20  # about 200 bytes for each of them
_END_BYTES = 1 << 17  # what may be read to find the list, more than `zipfile`
_UTF8_FLAG = 0x800


@dataclasses.dataclass(frozen=True)
class BroughtFile:
  """A file as it was brought.

  Attributes:
    name: that it has on the reader's machine.
    file: its contents.
    archive: None of a file that is none.
  """

  name: str
  file: IO[bytes]
  archive: zipfile.ZipFile | None = None

  def list_names(self) -> list[str]:
    """Returns the names of the files in an archive, those of macOS left out."""
    return [
      read_entry_name(entry)
      for entry in self.archive.infolist()
      if not (entry.is_dir() or entry.filename.startswith("__MACOSX/"))
    ]


def open_files(
  files: Sequence[tuple[str, IO[bytes]]], max_files: int
) -> list[BroughtFile]:
  """Returns files, of which the archives are opened.

  Args:
    files: name and contents of each.
    max_files: that an upload may have, for errors.

  Raises:
    PageError: 413 for archives of too many files; 422 naming one that is none.
  """
  opened = []
  num_entries, num_bytes = 0, 0
  for name, file in files:
    if not name.lower().endswith(ARCHIVE_SUFFIX):
      opened.append(BroughtFile(name, file))
      continue
    limited = _LimitedFile(file, _MAX_LIST_BYTES - num_bytes)
    archive = _open_archive(name, limited, max_files)
    num_bytes += limited.release()
    num_entries += len(archive.infolist())
    if num_entries > MAX_ENTRIES:
      raise PageError(
        413, "error.upload.files", {"number": num_entries, "limit": max_files}
      )
    opened.append(BroughtFile(name, file, archive))
  return opened


def read_entry_name(entry: zipfile.ZipInfo) -> str:
  """Returns the name of an entry; those of older programs are in GBK.

  Args:
    entry: of an archive.
  """
  if entry.flag_bits & _UTF8_FLAG:
    return entry.filename
  try:
    content = entry.filename.encode("cp437")
  except UnicodeEncodeError:
    return entry.filename
  for encoding in ("utf-8", "gb18030"):
    try:
      return content.decode(encoding)
    except UnicodeDecodeError:
      continue
  return entry.filename


class _TooLongError(Exception):
  """More is to be read than is allowed."""


class _LimitedFile:
  """File of which only so much may be read, until it is released."""

  def __init__(self, file: IO[bytes], limit: int):
    self._file = file
    self._limit: int | None = limit
    self._num_read = 0

  def __getattr__(self, name: str) -> Any:
    return getattr(self._file, name)

  def read(self, size: int = -1) -> bytes:
    if self._limit is None:
      return self._file.read(size)
    if self._num_read + size > self._limit + _END_BYTES:
      raise _TooLongError
    content = self._file.read(size)
    self._num_read += len(content)
    return content

  def release(self) -> int:
    """Returns how many bytes were read, and allows any from now on."""
    self._limit = None
    return self._num_read


def _open_archive(
  name: str, file: _LimitedFile, max_files: int
) -> zipfile.ZipFile:
  try:
    return zipfile.ZipFile(file)
  except _TooLongError as error:
    raise PageError(
      413, "error.upload.list", {"name": name[:200], "limit": max_files}
    ) from error
  except (
    *(zipfile.BadZipFile, OSError, ValueError),
    NotImplementedError,  # of a later version of the format
  ) as error:
    raise PageError(
      422, "error.upload.damaged", {"name": name[:200]}
    ) from error
