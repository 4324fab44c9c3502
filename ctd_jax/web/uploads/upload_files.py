"""Files of an upload: safe names, unpacked archives, limits.

Nothing here trusts a name or a size that a file or an archive gives: parts of
paths are made safe, `..` and links are refused, and bytes are counted as they
are written.
"""

from __future__ import annotations

import codecs
import dataclasses
import hashlib
import pathlib
import re
import stat
import unicodedata
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from typing import IO

from ctd_jax.utils import files as file_tools
from ctd_jax.web.errors import PageError
from ctd_jax.web.uploads import upload_archives
from ctd_jax.web.uploads.upload_archives import BroughtFile

MAX_FILES = 2_000
CORPUS_FILE = "corpus.jsonl"  # of a folder in the form of BEIR
# What an index is built from; other files are left out.
SUFFIXES = (
  *(".txt", ".text", ".md", ".markdown", ".xml", ".tei", ".org"),
  *(".jsonl", ".json", ".tsv"),
)
# Other than UTF-8, as `texts.files` guesses them.
ENCODINGS = ("gb18030", "big5", "shift_jis", "euc_kr")
_MAX_DEPTH = 12
_MAX_NAME_BYTES = 150
_CHUNK = 1 << 16
_LEFT_OUT = re.compile(r"(?:readme|licen[cs]e|copying)\b", re.IGNORECASE)
_UNSAFE = re.compile(r"""[\x00-\x1f\x7f-\x9f\\/:*?"'<>|,;%#&\s]+""")
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)


@dataclasses.dataclass(frozen=True, kw_only=True)
class WrittenFiles:
  """What was written of an upload.

  Attributes:
    paths: of the files below their folder, in order.
    num_bytes: of all.
    left_out: names of the files that were not taken.
    sha256: of paths and contents.
  """

  paths: tuple[str, ...]
  num_bytes: int
  left_out: tuple[str, ...]
  sha256: str


def make_safe_name(name: str) -> str:
  """Returns a name as a folder or file can have it; "" if nothing is left.

  Args:
    name: as it was given.
  """
  name = unicodedata.normalize("NFC", name)
  name = "".join(
    character
    for character in _UNSAFE.sub("_", name)
    if unicodedata.category(character) not in ("Cf", "Cs", "Co", "Cn")
  ).strip("._- ")
  stem, dot, suffix = name.rpartition(".")
  if not dot or len(suffix) > 10:
    stem, suffix = name, ""
  room = _MAX_NAME_BYTES - len(dot + suffix)
  stem = stem.encode()[:room].decode("utf-8", "ignore")
  return f"{stem}.{suffix}" if suffix else stem


def write_files(
  folder: pathlib.Path, files: Sequence[BroughtFile], max_bytes: int
) -> WrittenFiles:
  """Writes the files of an upload, those of archives too, below a folder.

  Args:
    folder: that is there and empty.
    files: as they were brought.
    max_bytes: of all together, unpacked.

  Raises:
    PageError: 413 for too much; 422 naming a file that cannot be taken.
  """
  left_out: list[str] = []
  contents: list[tuple[pathlib.PurePosixPath, _Content]] = []
  for file in files:
    last = re.split(r"[\\/]", file.name)[-1]
    if file.archive is not None:
      contents += _list_archive(file, left_out)
    elif path := _check_path(last, file.name, left_out):
      contents.append((path, _Content(file.name, file.file)))
  if not contents:
    raise PageError(
      422, "error.upload.empty", {"suffixes": ", ".join(SUFFIXES)}
    )
  if len(contents) > MAX_FILES:
    raise PageError(
      413, "error.upload.files", {"number": len(contents), "limit": MAX_FILES}
    )
  return _write_contents(folder, contents, max_bytes, left_out)


@dataclasses.dataclass(frozen=True)
class _Content:
  """What a file has.

  Attributes:
    name: for errors.
    file: that is read, an archive if there is an entry.
    entry: of the archive.
    archive: likewise.
  """

  name: str
  file: IO[bytes]
  entry: zipfile.ZipInfo | None = None
  archive: zipfile.ZipFile | None = None

  def read_chunks(self) -> Iterator[bytes]:
    """Yields the bytes, as far as they are asked for."""
    if self.entry is None:
      self.file.seek(0)
      yield from iter(lambda: self.file.read(_CHUNK), b"")
      return
    try:
      with self.archive.open(self.entry) as file:
        yield from iter(lambda: file.read(_CHUNK), b"")
    except (
      *(zipfile.BadZipFile, zlib.error, RuntimeError),
      *(NotImplementedError, EOFError, OSError),
    ) as error:
      raise PageError(
        422, "error.upload.damaged", {"name": self.name[:200]}
      ) from error


def _write_contents(
  folder: pathlib.Path,
  contents: Sequence[tuple[pathlib.PurePosixPath, _Content]],
  max_bytes: int,
  left_out: list[str],
) -> WrittenFiles:
  top = _find_top([path for path, _ in contents])
  num_bytes = 0
  digest = hashlib.sha256()
  paths: set[str] = set()
  for path, content in contents:
    inner = path.relative_to(top) if top else path
    target = folder / inner
    if str(inner) in paths:
      raise PageError(422, "error.upload.twice", {"name": str(inner)})
    paths.add(str(inner))
    digest.update(f"\n{inner}\n".encode())
    try:
      target.parent.mkdir(parents=True, exist_ok=True)
      with target.open("xb") as file:
        for chunk in content.read_chunks():
          num_bytes += len(chunk)
          if num_bytes > max_bytes:
            raise PageError(
              413, "error.upload.bytes", {"limit": max_bytes >> 20}
            )
          file.write(chunk)
          digest.update(chunk)
    except (FileExistsError, NotADirectoryError) as error:
      raise PageError(
        422, "error.upload.twice", {"name": str(inner)}
      ) from error
  return WrittenFiles(
    paths=tuple(sorted(paths)),
    num_bytes=num_bytes,
    left_out=tuple(left_out),
    sha256=digest.hexdigest(),
  )


def convert_files(folder: pathlib.Path, encoding: str) -> None:
  """Writes as UTF-8 what is in another encoding.

  Args:
    folder: of the files.
    encoding: one of `ENCODINGS`.

  Raises:
    PageError: 422, naming the file that is in neither; none is changed then.
  """
  texts = {}
  for path in sorted(folder.rglob("*")):
    content = path.read_bytes() if path.is_file() else b""
    # Of UTF-16 the reader of texts knows the mark of the byte order.
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
      continue
    try:
      content.decode("utf-8")
    except UnicodeDecodeError:
      texts[path] = _decode(content, encoding, path.relative_to(folder))
  for path, text in texts.items():
    file_tools.write_text(path, text)


def _decode(content: bytes, encoding: str, name: pathlib.PurePath) -> str:
  try:
    return content.decode(encoding)
  except UnicodeDecodeError as error:
    raise PageError(
      422,
      "error.upload.encoding",
      {
        "name": str(name),
        "encoding": encoding.upper(),
        "position": error.start,
      },
    ) from error


def find_top_folder(paths: Sequence[str]) -> str:
  """Returns the folder that holds all paths of an archive; "" if none does.

  Args:
    paths: as the archive gives them.
  """
  return _find_top([pathlib.PurePosixPath(path) for path in paths])


def _find_top(paths: Sequence[pathlib.PurePosixPath]) -> str:
  tops = {path.parts[0] for path in paths}
  is_folder = all(len(path.parts) > 1 for path in paths)
  return tops.pop() if len(tops) == 1 and is_folder else ""


def _list_archive(
  file: BroughtFile, left_out: list[str]
) -> list[tuple[pathlib.PurePosixPath, _Content]]:
  """Returns path and content of the files of an archive that are taken.

  Raises:
    PageError: 422 if it has what it must not have.
  """
  contents = []
  for entry in file.archive.infolist():
    if entry.is_dir():
      continue
    name = upload_archives.read_entry_name(entry)
    if stat.S_ISLNK(entry.external_attr >> 16):
      raise PageError(422, "error.upload.link", {"name": name[:200]})
    path = _check_path(name, name, left_out)
    if path is None:
      continue
    if entry.flag_bits & 1 or entry.compress_type not in _METHODS:
      raise PageError(422, "error.upload.damaged", {"name": name[:200]})
    contents.append((path, _Content(name, file.file, entry, file.archive)))
  return contents


def _check_path(
  path: str, name: str, left_out: list[str]
) -> pathlib.PurePosixPath | None:
  """Returns a path of safe names; None, and noted, if the file is left out.

  Raises:
    PageError: 422, for a path that leads out of its folder.
  """
  parts = [part for part in path.replace("\\", "/").split("/") if part != "."]
  is_absolute = not parts or not parts[0] or re.match("[A-Za-z]:", parts[0])
  if is_absolute or ".." in parts or "\0" in path or len(parts) > _MAX_DEPTH:
    raise PageError(422, "error.upload.path", {"name": name[:200]})
  is_hidden = any(part.startswith((".", "__MACOSX")) for part in parts)
  last = parts[-1]
  if (
    is_hidden
    or _LEFT_OUT.match(last)
    or pathlib.PurePath(last.lower()).suffix not in SUFFIXES
  ):
    left_out.append(name[:200])
    return None
  safe = [make_safe_name(part) or "_" for part in parts]
  return pathlib.PurePosixPath(*safe)
