"""Text files on disk and in buckets, written whole or not at all.

A path is a string, a `pathlib` path or an `epath` path; `gs://bucket/name` is
as good as a local one.
"""

from __future__ import annotations

import contextlib
import io
import os
import pathlib
import stat
import tempfile
from collections.abc import Iterator

from etils import epath

AnyPath = pathlib.Path | epath.Path


def as_path(path: str | os.PathLike) -> AnyPath:
  """Returns a path with the methods of `pathlib`, local or of a bucket."""
  # str(pathlib.Path("gs://b")) has lost a slash: only strings and epath tell.
  if isinstance(path, pathlib.Path) or not _is_remote(path):
    return pathlib.Path(path)
  return epath.Path(path)


def _is_remote(path: str | os.PathLike) -> bool:
  return "://" in os.fspath(path)


@contextlib.contextmanager
def atomic_path(path: str | os.PathLike) -> Iterator[pathlib.Path]:
  """Gives a temporary local path whose file replaces `path` at the end.

  If anything is raised before, `path` is what it was.

  Args:
    path: folders on the way are made.
  """
  path = as_path(path)
  path.parent.mkdir(parents=True, exist_ok=True)
  if not isinstance(path, pathlib.Path):
    with tempfile.TemporaryDirectory() as folder:
      temporary = pathlib.Path(folder) / path.name
      yield temporary
      # Buckets replace an object in one step.
      path.write_bytes(temporary.read_bytes())
    return
  # In the same folder: os.replace is atomic within one file system only.
  with tempfile.TemporaryDirectory(
    dir=path.parent, prefix=f".{path.name}.", suffix=".tmp"
  ) as folder:
    temporary = pathlib.Path(folder) / path.name
    yield temporary
    # Some writers give 0600; a new file has what the umask leaves. To read the
    # umask is to change it for all threads, so that a new file tells.
    new_file = pathlib.Path(folder) / ".new"
    new_file.touch()
    os.chmod(temporary, stat.S_IMODE(new_file.stat().st_mode))
    os.replace(temporary, path)


def write_text(path: str | os.PathLike, text: str) -> None:
  """Writes a whole file or nothing.

  Args:
    path: folders on the way are made.
    text: written as UTF-8.
  """
  with atomic_path(path) as temporary:
    temporary.write_text(text, encoding="utf-8")


def read_text(path: str | os.PathLike) -> str:
  """Returns a UTF-8 file as text, its line ends as \\n.

  Raises:
    FileNotFoundError: if there is no such file.
    ValueError: naming the file and the byte, if it is not UTF-8.
  """
  data = as_path(path).read_bytes()
  try:
    text = data.decode("utf-8")
  except UnicodeDecodeError as error:
    raise ValueError(
      f"{path}: not UTF-8 at byte {error.start}; save the file as UTF-8"
    ) from None
  # As open() reads text: \r\n and \r become \n.
  return io.StringIO(text, newline=None).read()
