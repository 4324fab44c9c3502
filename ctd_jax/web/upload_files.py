"""Uploaded files and archives, and the store that keeps them.

Nothing uploaded is trusted: names, sizes and counts are checked before
anything is written, and archives never write outside their folder.
"""

from __future__ import annotations

import codecs
import contextlib
import dataclasses
import datetime
import hashlib
import os
import pathlib
import re
import secrets
import shutil
import stat
import time
import unicodedata
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from typing import IO, Any

from absl import logging

from ctd_jax.utils import files
from ctd_jax.web import job_files
from ctd_jax.web.requests import PageError

ARCHIVE_SUFFIX = ".zip"
MAX_ENTRIES = 20_000  # in the archives of an upload, folders included
_MAX_LIST_BYTES = 4 << 20  # of file lists: about 200 bytes per entry
_END_BYTES = 1 << 17  # slack: `zipfile` reads less than this to find the list
_UTF8_FLAG = 0x800

MAX_FILES = 2_000
CORPUS_FILE = "corpus.jsonl"  # marks a BEIR folder
# Files an index can be built from; others are left out.
SUFFIXES = (
  *(".txt", ".text", ".md", ".markdown", ".xml", ".tei", ".org"),
  *(".jsonl", ".json", ".tsv"),
)
# Encodings that `texts.files` guesses, besides UTF-8.
ENCODINGS = ("gb18030", "big5", "shift_jis", "euc_kr")
_MAX_DEPTH = 12
_MAX_NAME_BYTES = 150
_CHUNK = 1 << 16
_LEFT_OUT = re.compile(r"(?:readme|licen[cs]e|copying)\b", re.IGNORECASE)
_UNSAFE = re.compile(r"""[\x00-\x1f\x7f-\x9f\\/:*?"'<>|,;%#&\s]+""")
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
UPLOAD_FILE = "upload.json"
PREVIEW_FILE = "preview.json"
PREVIEW, ACCEPTED = STATES = ("preview", "accepted")
_TEMPORARY = ".new-"
_MAX_AGE = 86_400  # seconds a preview is kept
_MAX_TEMPORARY_AGE = 3_600
_MAX_SAME_NAME = 1_000
_DEFAULT_NAME = "text"
_SENT = ("key", "sha256", "title", "settings")  # the same: sent twice


@dataclasses.dataclass(frozen=True)
class BroughtFile:
  """An uploaded file."""

  name: str  # on the reader's machine
  file: IO[bytes]
  archive: zipfile.ZipFile | None = None  # None for a plain file

  def list_names(self) -> list[str]:
    """Returns the names of the files in an archive, without those of macOS."""
    return [
      read_entry_name(entry)
      for entry in self.archive.infolist()
      if not (entry.is_dir() or entry.filename.startswith("__MACOSX/"))
    ]


def open_files(
  files: Sequence[tuple[str, IO[bytes]]], max_files: int
) -> list[BroughtFile]:
  """Returns the uploaded files, with archives opened.

  Args:
    files: name and content of each.
    max_files: limit that error messages name.

  Raises:
    PageError: 413 for archives with too many files, 422 for a damaged one.
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
  """Returns the name of a ZIP entry; older programs write names in GBK."""
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
  """A file is longer than allowed."""


class _LimitedFile:
  """A file that refuses to be read beyond a limit until it is released."""

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
    """Lifts the limit and returns the number of bytes read so far."""
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
    NotImplementedError,  # a newer version of the format
  ) as error:
    raise PageError(
      422, "error.upload.damaged", {"name": name[:200]}
    ) from error


@dataclasses.dataclass(frozen=True, kw_only=True)
class WrittenFiles:
  """Files written from an upload."""

  paths: tuple[str, ...]  # below the upload's folder, sorted
  num_bytes: int  # of all files
  left_out: tuple[str, ...]  # names of files not kept
  sha256: str  # of paths and contents together


def make_safe_name(name: str) -> str:
  """Returns a name that is safe for a file or folder; "" if nothing is left."""
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
  """Writes the uploaded files, archives unpacked, below a folder.

  Args:
    max_bytes: limit for all files together, unpacked.

  Raises:
    PageError: 413 if the upload is too large, 422 naming a file to refuse.
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
  """Source of a file's bytes."""

  name: str  # in error messages
  file: IO[bytes]  # the file, or the archive that holds `entry`
  entry: zipfile.ZipInfo | None = None
  archive: zipfile.ZipFile | None = None

  def read_chunks(self) -> Iterator[bytes]:
    """Yields the bytes of the file in chunks."""
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
  """Rewrites files in another encoding as UTF-8."""
  texts = {}
  for path in sorted(folder.rglob("*")):
    content = path.read_bytes() if path.is_file() else b""
    # UTF-16 with a byte order mark is read as it is.
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
      continue
    try:
      content.decode("utf-8")
    except UnicodeDecodeError:
      texts[path] = _decode(content, encoding, path.relative_to(folder))
  for path, text in texts.items():
    files.write_text(path, text, is_private=True)


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


def _find_top(paths: Sequence[pathlib.PurePosixPath]) -> str:
  """Returns the single folder that holds all paths of an archive, or ""."""
  tops = {path.parts[0] for path in paths}
  is_folder = all(len(path.parts) > 1 for path in paths)
  return tops.pop() if len(tops) == 1 and is_folder else ""


def _list_archive(
  file: BroughtFile, left_out: list[str]
) -> list[tuple[pathlib.PurePosixPath, _Content]]:
  """Returns path and content of the files of an archive that are kept."""
  contents = []
  for entry in file.archive.infolist():
    if entry.is_dir():
      continue
    name = read_entry_name(entry)
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
  """Returns a safe path, or None after noting that the file is left out."""
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


@dataclasses.dataclass(frozen=True, kw_only=True)
class UploadSettings:
  """Options for reading and dating an upload."""

  unit: str = ""  # of plain text: "line", "paragraph" or "" to detect
  encoding: str = ""  # that files were converted from; "" for none
  # Calendar for a new index; "" to take it from the text.
  reigns: str = ""
  in_order: tuple[str, ...] = ()  # works whose records are in order of time
  undated: tuple[str, ...] = ()  # works whose records are not

  def __post_init__(self):
    """Raises ValueError for a calendar that is a file."""
    if not job_files.is_calendar(self.reigns):
      raise ValueError(f"reigns {self.reigns[:200]!r}, expected a calendar")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Upload:
  """Uploaded texts."""

  name: str  # of the folder and in addresses
  title: str  # its works are named after it
  source: str  # path for `ctd-jax index --add`, below the folder
  is_beir: bool  # source is a BEIR folder
  state: str  # one of `STATES`
  created: str  # time in UTC, ISO 8601
  num_files: int  # files kept
  num_bytes: int  # of the files kept
  left_out: tuple[str, ...]  # names of files not kept
  settings: UploadSettings  # how to read and date them
  job_key: str = ""  # of the form that started the build
  job_id: str = ""  # of the build; "" before it
  key: str = ""  # of the form that sent the upload
  sha256: str = ""  # of the files as uploaded

  def __post_init__(self):
    """Raises ValueError for a state or time that no upload has."""
    if self.state not in STATES:
      raise ValueError(f"state {self.state!r}, expected one of {STATES}")
    if datetime.datetime.fromisoformat(self.created).tzinfo is None:
      raise ValueError(f"created {self.created}, expected a time of UTC")


class UploadStore:
  """The uploads of an index, kept in its folder."""

  def __init__(self, folder: pathlib.Path, max_bytes: int, space: int):
    """Sets the folder of the index.

    Args:
      max_bytes: of an upload, unpacked.
      space: bytes of all uploads together.
    """
    self._folder = folder.expanduser().absolute() / job_files.UPLOADS_FOLDER
    self._max_bytes = max_bytes
    self._space = space

  def folder_of(self, upload: Upload) -> pathlib.Path:
    """Returns the folder of an upload."""
    return self._folder / upload.name

  def source_of(self, upload: Upload) -> str:
    """Returns the value of `ctd-jax index --add` for an upload."""
    path = self.folder_of(upload) / upload.source
    return f"beir:{path}" if upload.is_beir else str(path)

  def add(
    self,
    files: Sequence[tuple[str, IO[bytes]]],
    title: str,
    settings: UploadSettings,
    key: str = "",
  ) -> Upload:
    """Returns the preview made from files; a form sent twice makes one preview.

    Args:
      files: name and content of each.
      title: title of the works; taken from the file names if empty.
      key: key of the form; "" if no form sent it.
    """
    self.remove_leftovers()
    brought = open_files(files, MAX_FILES)
    title = make_safe_name(title or _find_title(brought))
    title = title or _DEFAULT_NAME
    self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    self._check_space()
    temporary = self._folder / f"{_TEMPORARY}{secrets.token_hex(8)}"
    try:
      (temporary / title).mkdir(parents=True)
      written = write_files(temporary / title, brought, self._max_bytes)
      is_beir = CORPUS_FILE in written.paths
      is_file = len(written.paths) == 1 and not is_beir
      upload = Upload(
        name=title,
        title=title,
        source=f"{title}/{written.paths[0]}" if is_file else title,
        is_beir=is_beir,
        state=PREVIEW,
        created=job_files.format_now(),
        num_files=len(written.paths),
        num_bytes=written.num_bytes,
        left_out=written.left_out,
        settings=settings,
        key=key,
        sha256=written.sha256,
      )
      return self._name(upload, temporary)
    finally:
      shutil.rmtree(temporary, ignore_errors=True)

  def lock(
    self, name: str = ".lock"
  ) -> contextlib.AbstractContextManager[None]:
    """Holds a lock of the uploads, across processes."""
    return job_files.hold_lock(self._folder, name)

  def _name(self, upload: Upload, temporary: pathlib.Path) -> Upload:
    """Moves an upload to a free name; an identical one is returned instead."""
    files.make_private(temporary)
    with self.lock():
      for previous in self.list() if upload.key else ():
        if all(
          getattr(previous, name) == getattr(upload, name) for name in _SENT
        ):
          return previous
      self._check_space()  # with this one, and those of others meanwhile
      for number in range(1, _MAX_SAME_NAME):
        name = upload.title + f"-{number}" * (number > 1)
        if not (self._folder / name).exists():
          upload = dataclasses.replace(upload, name=name)
          job_files.write_state(temporary / UPLOAD_FILE, upload)
          temporary.rename(self._folder / name)
          return upload
    raise PageError(422, "error.upload.twice", {"name": upload.title})

  def _check_space(self) -> None:
    """Raises a 413 PageError if the uploads take more than their space."""
    num_bytes = 0
    for parent, _, names in os.walk(self._folder):
      for name in names:
        with contextlib.suppress(FileNotFoundError):  # discarded meanwhile
          num_bytes += os.lstat(os.path.join(parent, name)).st_size
    if num_bytes > self._space:
      raise PageError(
        413,
        "error.upload.space",
        {"used": f"{num_bytes >> 20:,}", "limit": f"{self._space >> 20:,}"},
      )

  def get(self, name: str) -> Upload | None:
    """Returns an upload, or None if it is missing or unreadable."""
    if name not in self._list_names():  # also refuses paths that lead elsewhere
      return None
    path = self._folder / name / UPLOAD_FILE
    upload = job_files.read_state(path, Upload, name=name)
    if upload is None:
      return None
    try:
      for inner in (upload.source, upload.title):
        files.inside(path.parent, inner)
    except ValueError as error:
      job_files.log_damaged(path, str(error))
      return None
    return upload

  def list(self) -> list[Upload]:
    """Returns the uploads, newest first."""
    uploads = [
      upload for name in self._list_names() if (upload := self.get(name))
    ]
    return sorted(uploads, key=lambda it: it.created, reverse=True)

  def change(self, upload: Upload, **changes: object) -> Upload:
    """Returns an upload with changed attributes, saved to disk."""
    with self.lock():
      # Another process may have changed or discarded it.
      newest = self.get(upload.name)
      if newest is None:
        raise PageError(404, "error.upload.none", {"name": upload.name})
      newest = dataclasses.replace(newest, **changes)
      job_files.write_state(self.folder_of(newest) / UPLOAD_FILE, newest)
    return newest

  def discard(self, upload: Upload) -> None:
    """Removes an upload."""
    with self.lock():
      newest = self.get(upload.name) or upload
      if newest.state != PREVIEW:
        raise PageError(409, "error.upload.built")
      shutil.rmtree(self.folder_of(upload), ignore_errors=True)

  def remove_leftovers(self) -> None:
    """Removes unfinished uploads and old previews."""
    for path in self._folder.glob(f"{_TEMPORARY}*"):
      # It may have become an upload, or another process removed it.
      with contextlib.suppress(FileNotFoundError):
        if time.time() - path.stat().st_mtime > _MAX_TEMPORARY_AGE:
          shutil.rmtree(path, ignore_errors=True)
    now = datetime.datetime.now(datetime.UTC)
    for upload in self.list():
      age = now - datetime.datetime.fromisoformat(upload.created)
      # After a failed build it stays, so that the reader can build again.
      is_left = upload.state == PREVIEW and not upload.job_id
      if is_left and age.total_seconds() > _MAX_AGE:
        logging.info("upload %s is removed: it was not built", upload.name)
        shutil.rmtree(self.folder_of(upload), ignore_errors=True)

  def _list_names(self) -> list[str]:
    return [
      path.name
      for path in self._folder.glob("*/")
      if not path.name.startswith(".")
    ]


def _find_title(files: Sequence[BroughtFile]) -> str:
  """Returns the name of the top folder of an upload, or of its first file."""
  file = files[0]
  names = file.list_names() if file.archive else ()
  top = _find_top([pathlib.PurePosixPath(name) for name in names])
  return top or pathlib.PurePath(file.name).stem
