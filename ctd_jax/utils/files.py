"""Files on disk and in buckets, typed CSV rows, and provenance of results.

A path is a string, a `pathlib` path or an `epath` path, and may be in a bucket
(`gs://bucket/name`).
"""

from __future__ import annotations

import contextlib
import csv
import hashlib
import io
import os
import pathlib
import re
import shlex
import stat
import subprocess
import sys
import tempfile
import typing
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from typing import IO, TYPE_CHECKING, Any, TypeVar

import msgspec
from absl import logging
from etils import epath

if TYPE_CHECKING:
  import numpy as np

_MAX_ARRAYS = 1 << 30  # bytes of an .npz file, unpacked
_BLOCK = 1 << 22  # bytes that are read at once
AnyPath = pathlib.Path | epath.Path


def as_path(path: str | os.PathLike) -> AnyPath:
  """Returns a path with the methods of `pathlib`, local or in a bucket."""
  # str(pathlib.Path("gs://b")) has lost a slash: only strings and epath tell.
  if isinstance(path, pathlib.Path) or "://" not in os.fspath(path):
    return pathlib.Path(path)
  return epath.Path(path)


def inside(folder: str | os.PathLike, name: str | os.PathLike) -> AnyPath:
  """Returns `folder / name`, for a name that a file of a stranger gives.

  Raises:
    ValueError: if the name leads out of the folder, by `..`, as an absolute
      path or through a symbolic link.
  """
  path = folder = as_path(folder)
  for part in split_name(folder, name):
    path = path / part
    if isinstance(path, pathlib.Path) and path.is_symlink():
      raise ValueError(f"{path} is a symbolic link; expected a file or folder")
  return path


def split_name(
  folder: str | os.PathLike, name: str | os.PathLike
) -> tuple[str, ...]:
  """Returns the parts of a name in a folder, which may be links.

  Raises:
    ValueError: if the name leads out of the folder.
  """
  name = os.fspath(name)
  parts = pathlib.PurePosixPath(name).parts
  # A colon starts a bucket's address, and a backslash parts names elsewhere.
  if not parts or parts[0] == "/" or ".." in parts or "://" in name:
    raise ValueError(f"{name[:200]!r} leads out of {folder}")
  if "\0" in name or "\\" in name:
    raise ValueError(f"{name[:200]!r} in {folder} is not the name of a file")
  return parts


def check_tree(folder: str | os.PathLike) -> None:
  """Raises ValueError if a folder holds more than files and folders.

  In the folder of a stranger a link may lead to files of yours, and a pipe has
  its reader wait for ever.
  """
  pending = [os.fspath(folder)]
  while pending:
    path = pending.pop()
    try:
      entries = [*os.scandir(path)]
    except FileNotFoundError:  # another process has removed it
      continue
    except PermissionError as error:
      # What another user keeps private cannot be read either, unless only the
      # list is forbidden.
      if os.access(path, os.X_OK):
        raise ValueError(f"{path}: cannot be listed") from error
      continue
    for entry in entries:
      if entry.is_dir(follow_symlinks=False):
        pending.append(entry.path)
      elif not entry.is_file(follow_symlinks=False) and os.path.lexists(entry):
        raise ValueError(
          f"{entry.path} is a link or a special file, which may lead out of "
          "the folder; expected only files and folders there"
        )


def read_limited(path: str | os.PathLike, max_bytes: int) -> bytes:
  """Returns the content of a file.

  Raises:
    ValueError: if it is larger than `max_bytes`.
  """
  with as_path(path).open("rb") as file:
    content = file.read(max_bytes + 1)
  if len(content) > max_bytes:
    raise ValueError(f"{path}: larger than the {max_bytes:,} bytes expected")
  return content


def load_arrays(path: str | os.PathLike) -> dict[str, np.ndarray]:
  """Returns the arrays of an .npz file; objects, which are code, are refused.

  Raises:
    ValueError: if it is damaged, or larger unpacked than any of ours.
  """
  import numpy as np  # here: --help is fast without it

  try:
    with zipfile.ZipFile(path) as archive:
      num_bytes = sum(entry.file_size for entry in archive.infolist())
    if num_bytes > _MAX_ARRAYS:
      raise ValueError(f"{num_bytes:,} bytes unpacked")
    with np.load(path, allow_pickle=False) as arrays:
      return dict(arrays)
  # zlib and NumPy raise what they like; MemoryError for the shape of a liar.
  except Exception as error:
    raise ValueError(f"{path}: damaged ({error})") from error


def open_private(path: str | os.PathLike, mode: str) -> IO[Any]:
  """Opens a file as `open` does; a new one can only be read by its owner."""
  return open(path, mode, opener=lambda it, flags: os.open(it, flags, 0o600))


def make_private(*paths: pathlib.Path) -> None:
  """Lets only their owner read files, and folders with all that they hold.

  Files that are missing, or belong to somebody else, stay as they are.
  """
  pending = [*paths]
  while pending:
    path = pending.pop()
    with contextlib.suppress(FileNotFoundError, PermissionError):
      mode = path.lstat().st_mode
      if stat.S_ISDIR(mode):
        path.chmod(0o700)
        pending += path.iterdir()
      elif stat.S_ISREG(mode):
        path.chmod(0o600)


# What would break a line of a table or log, or its encoding.
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


def printable_name(path: str | os.PathLike) -> str:
  r"""Returns a path that can be shown: `\xff` for a byte that is not text.

  It equals the path unless that has such bytes, or control characters.
  """

  def escape(match: re.Match) -> str:
    character = match[0].encode("utf-8", "surrogateescape")
    return "".join(f"\\x{byte:02x}" for byte in character)

  return _UNPRINTABLE.sub(escape, os.fspath(path))


@contextlib.contextmanager
def atomic_path(
  path: str | os.PathLike, is_private: bool = False
) -> Iterator[pathlib.Path]:
  """Yields a temporary local path whose file replaces `path` at the end.

  If an error is raised, `path` is left as it was. Parent folders are created.

  Args:
    is_private: whether only its owner may read a local file.
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
    # Some writers give 0600; a new file has what the umask leaves. Reading the
    # umask would change it for all threads, so a new file shows it.
    new_file = pathlib.Path(folder) / ".new"
    new_file.touch()
    mode = 0o600 if is_private else stat.S_IMODE(new_file.stat().st_mode)
    os.chmod(temporary, mode)
    # After a power cut the file is the old or the new one, and never empty.
    sync(temporary)
    os.replace(temporary, path)
  sync(path.parent)


def map_array(path: str | os.PathLike) -> np.ndarray:
  """Returns the array of a .npy file, mapped into memory read-only.

  Raises:
    OSError: if it cannot be opened.
    ValueError: if it is not such a file, or holds Python objects.
  """
  # Here and not above: most commands need no arrays to say what is wrong.
  import numpy as np

  try:
    # As a plain array: a slice of a `memmap` costs several times as much.
    return np.asarray(np.lib.format.open_memmap(path, mode="r"))
  except (ImportError, OSError):  # of the system, not of the file
    raise
  except Exception as error:  # a header may hold anything
    raise ValueError(f"damaged ({error})") from error


def hash_file(path: str | os.PathLike) -> str:
  """Returns the sha256 of a file, hexadecimal."""
  digest = hashlib.sha256()
  with as_path(path).open("rb") as file:
    while block := file.read(_BLOCK):
      digest.update(block)
  return digest.hexdigest()


def sync(path: str | os.PathLike) -> None:
  """Waits until a file, or the names in a folder, are on disk."""
  descriptor = os.open(path, os.O_RDONLY)
  try:
    os.fsync(descriptor)
  finally:
    os.close(descriptor)


def write_text(
  path: str | os.PathLike, text: str, is_private: bool = False
) -> None:
  """Writes a UTF-8 file as `atomic_path` does; parent folders are created."""
  with atomic_path(path, is_private) as temporary:
    temporary.write_text(text, encoding="utf-8")


def read_text(path: str | os.PathLike) -> str:
  r"""Returns a UTF-8 file as text, with line ends as \n.

  Raises:
    FileNotFoundError: if there is no such file.
    ValueError: if it is not UTF-8; the message names file and byte.
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


_DELIMITER_NAMES = {",": "commas", ";": "semicolons", "\t": "tabs"}


def _name_other_delimiter(columns: Sequence[str], delimiter: str) -> str:
  """Returns a hint if a header has another delimiter, else ""."""
  for sign, name in _DELIMITER_NAMES.items():
    if sign != delimiter and any(sign in column for column in columns):
      wanted = _DELIMITER_NAMES[delimiter]
      return f"; its columns are separated by {name}, expected {wanted}"
  return ""


Row = TypeVar("Row", bound=msgspec.Struct)


def read_csv_rows(
  path: str | os.PathLike, row_type: type[Row], delimiter: str = ","
) -> Iterator[tuple[int, Row]]:
  """Yields (line number, row) of a CSV file with a header.

  An empty cell is None. A field with a default needs no column. Columns that
  are not fields are ignored; if columns may be left out, the log lists them:
  one may be misspelt.

  Args:
    row_type: msgspec struct; cells are converted to its fields' types.

  Raises:
    ValueError: if a cell is wrong; the message names file, line and column.
  """
  types = typing.get_type_hints(row_type)  # without the bounds of `Annotated`
  fields = msgspec.structs.fields(row_type)
  numbers = [
    field.encode_name
    for field in fields
    if float in (types[field.name], *typing.get_args(types[field.name]))
  ]
  required = [field.encode_name for field in fields if field.required]
  optional = [field.encode_name for field in fields if not field.required]
  text = read_text(path).removeprefix("\ufeff")
  reader = csv.DictReader(
    io.StringIO(text), delimiter=delimiter, skipinitialspace=True
  )
  try:
    reader.fieldnames = [name.strip() for name in reader.fieldnames or ()]
    columns = [n for n in (*required, *optional) if n in reader.fieldnames]
    missing = [name for name in required if name not in columns]
    if missing:
      raise ValueError(
        f"{path}:1: no column {', '.join(missing)}; expected the header "
        f"{delimiter.join(required)}"
        + (f" and, if you have them, {', '.join(optional)}" if optional else "")
        + f"; the file has {', '.join(reader.fieldnames) or 'none'}"
        + _name_other_delimiter(reader.fieldnames, delimiter)
      )
    unread = [name for name in reader.fieldnames if name not in columns]
    if optional and unread:
      logging.info("%s: columns not read: %s", path, ", ".join(unread))
    for cells in reader:
      # DictReader files surplus cells under None and fills missing ones with
      # it; a text with an unquoted comma is the usual reason.
      if None in cells or None in cells.values():
        raise ValueError(
          f"{path}:{reader.line_num}: expected {len(reader.fieldnames)} "
          "columns; quote cells that hold a comma"
        )
      cells = {name: cells[name].strip() or None for name in columns}
      values = dict(cells)
      for name in numbers:
        # msgspec reads numbers as JSON has them: neither .5 nor 5. nor +5.
        with contextlib.suppress(KeyError, TypeError, ValueError):
          values[name] = float(cells[name])
      try:
        row = msgspec.convert(values, row_type, strict=False)
      except msgspec.ValidationError as error:
        message = _describe_error(error, cells)
        raise ValueError(f"{path}:{reader.line_num}: {message}") from None
      yield reader.line_num, row
  except csv.Error as error:  # a cell without end, or a NUL
    raise ValueError(
      f"{path}: after line {reader.line_num}: {error}; is there a quotation "
      "mark that is never closed?"
    ) from None


def _describe_error(
  error: msgspec.ValidationError, cells: Mapping[str, Any]
) -> str:
  """Returns the message with the column's name and the cell's text."""
  message, _, column = str(error).rpartition(" - at `$.")
  if not message:
    return str(error)  # of the row as a whole
  column = column.removesuffix("`")
  if cells[column] is None:
    return f"{column} is empty"
  return f"{column}={cells[column]!r}: {message}"


def command_line() -> str:
  """Returns the command line of this process as a user would type it."""
  module = pathlib.Path(sys.argv[0]).stem
  return shlex.join(["python", "-m", f"ctd_jax.{module}", *sys.argv[1:]])


def code_commit() -> str:
  """Returns the commit of the running code, with -dirty if it was changed.

  Outside a checkout of its own, as in an image, it is $CTD_JAX_COMMIT or "".
  """
  given_commit = os.environ.get("CTD_JAX_COMMIT", "")
  package = pathlib.Path(__file__).resolve().parents[1]

  def run_git(*arguments: str) -> str:
    return subprocess.run(
      ["git", "-C", str(package), *arguments],
      capture_output=True,
      text=True,
      check=True,
    ).stdout.strip()

  try:
    # An installed package may be inside somebody else's checkout.
    if pathlib.Path(run_git("rev-parse", "--show-toplevel")) != package.parent:
      return given_commit
    changed_files = run_git("status", "--porcelain", "--untracked-files=no")
    return run_git("rev-parse", "HEAD") + "-dirty" * bool(changed_files)
  except (OSError, subprocess.CalledProcessError):
    return given_commit


def read_tsv_rows(
  path: pathlib.Path, columns: Sequence[str] | None = None
) -> list[dict[str, str]]:
  """Returns the rows of a TSV file with a header, as column -> cell.

  Args:
    columns: expected header; None accepts any.

  Raises:
    ValueError: if the header is another one, or a line has other columns than
      the header; the message names file and line.
  """
  rows = []
  with path.open(encoding="utf-8-sig", newline="") as file:
    # QUOTE_NONE: quotation marks belong to the text of a cell.
    table = csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
    if columns is not None and table.fieldnames != list(columns):
      raise ValueError(
        f"{path}, line 1: columns {', '.join(table.fieldnames or ['missing'])} "
        f"should be {', '.join(columns)}, separated by tabs"
      )
    for line, row in enumerate(table, start=2):
      # DictReader passes over empty lines; callers count lines by rows. It
      # files surplus cells under None and fills missing ones with it.
      if table.line_num != line or None in row or None in row.values():
        raise ValueError(
          f"{path}, line {line}: should have the columns {table.fieldnames}"
        )
      rows.append(row)
  return rows


def read_wording(path: pathlib.Path) -> dict[str, dict[str, tuple[str, ...]]]:
  """Returns table -> key -> texts of a file of word lists and templates.

  Texts keep the order of their lines: a draw picks one by its position, so
  another order makes another data set.

  Args:
    path: a TSV file with the columns table, key and text.
  """
  wording: dict[str, dict[str, tuple[str, ...]]] = {}
  for row in read_tsv_rows(path):
    texts_by_key = wording.setdefault(row["table"], {})
    texts_by_key[row["key"]] = (
      *texts_by_key.get(row["key"], ()),
      row["text"],
    )
  return wording
