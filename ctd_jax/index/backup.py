"""Backup of an index: one archive, and an index made from it.

The archive (zip) holds what cannot be made again: corrections, uploads, the
sources of all works, the months of the calendar, and the records as JSON lines.
`backup.json` has the manifest and the size and hash of every other member. Data
sets and encoders are named, not copied. `restore_index` puts the members into a
new folder and has `repair` make the rest again.
"""

import contextlib
import dataclasses
import datetime
import hashlib
import json
import os
import pathlib
import shutil
import sqlite3
import stat
import zipfile
import zlib
from collections.abc import Iterable, Iterator

import msgspec

import ctd_jax
from ctd_jax.index import (
  calendars,
  correction_journal,
  corrections,
  database,
  manifest,
  repair,
)
from ctd_jax.index.building.sources import DatedWith, SourceRequest
from ctd_jax.index.building.staged_works import (
  DATE_COLUMNS,
  TEXT_COLUMNS,
)
from ctd_jax.index.manifest import Manifest, ManifestFile
from ctd_jax.index.repair import RepairResult
from ctd_jax.index.titles import TITLES_FILE
from ctd_jax.utils import files

FORMAT = 1
BACKUP_FILE = "backup.json"
_UPLOADS = "uploads"
_SOURCES, _RECORDS = "sources", "records"
_PARTS = (
  *(_UPLOADS, _SOURCES, _RECORDS, calendars.CALENDAR_FOLDER),
  *(correction_journal.JOURNAL_FILE, TITLES_FILE),
)
_MAX_DESCRIPTION = 1 << 28  # bytes of backup.json
_CHUNK = 1 << 20


class _BackupFormat(msgspec.Struct):
  """The one field that every version has."""

  format: int


class _Backup(msgspec.Struct, frozen=True):
  """Content of backup.json."""

  format: int
  made_with: str  # version of ctd_jax
  made: str  # ISO 8601 in UTC
  # Paths of sources are those in the archive.
  manifest: Manifest
  members: dict[str, ManifestFile]


@dataclasses.dataclass(frozen=True)
class BackupResult:
  """A backup that was written."""

  num_members: int
  num_bytes: int  # of the archive
  notes: tuple[str, ...]  # what is only named, or has changed


def write_backup(folder: pathlib.Path, path: pathlib.Path) -> BackupResult:
  """Writes the backup of an index; a server or a build may be running.

  Raises:
    DamagedIndexError: if something to save is damaged.
    FileExistsError: if there is a file already.
  """
  if path.exists():
    raise FileExistsError(f"--backup={path}: exists; name a new file")
  manifest.read_manifest(folder)  # another version is refused here
  with (
    files.atomic_path(path, is_private=True) as temporary,
    zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED) as archive,
    contextlib.closing(database.open_database(folder)) as connection,
  ):
    connection.execute("BEGIN")  # all from one state of the index
    writer = _Writer(folder, archive)
    index_manifest, _ = database.read_committed(folder, connection)
    index_manifest = writer.add_sources(index_manifest)
    writer.add_records(connection, index_manifest)
    writer.add_calendar(index_manifest)
    writer.add_corrections()
    writer.add_titles()
    writer.add_uploads()
    backup = _Backup(
      format=FORMAT,
      made_with=ctd_jax.__version__,
      made=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
      manifest=index_manifest,
      members=writer.members,
    )
    archive.writestr(BACKUP_FILE, msgspec.json.encode(backup))
  return BackupResult(
    len(writer.members), path.stat().st_size, tuple(writer.notes)
  )


class _Writer:
  """Adds the parts of an index to an archive."""

  def __init__(self, folder: pathlib.Path, archive: zipfile.ZipFile):
    self._folder, self._archive = folder, archive
    self._places: dict[pathlib.Path, str] = {}
    self._copied: set[pathlib.Path] = set()
    self.members: dict[str, ManifestFile] = {}
    self.notes: list[str] = []

  def _add(self, name: str, chunks: Iterable[bytes]) -> None:
    digest, size = hashlib.sha256(), 0
    with self._archive.open(name, "w", force_zip64=True) as file:
      for chunk in chunks:
        file.write(chunk)
        digest.update(chunk)
        size += len(chunk)
    self.members[name] = ManifestFile(size, digest.hexdigest())

  def _add_file(self, name: str, path: pathlib.Path) -> None:
    with path.open("rb") as file:
      self._add(name, iter(lambda: file.read(_CHUNK), b""))

  def _add_tree(self, name: str, path: pathlib.Path) -> None:
    if path.is_file():
      self._add_file(name, path)
    for part in sorted(path.rglob("*")):
      inner = part.relative_to(path)
      is_hidden = any(step.startswith(".") for step in inner.parts)
      if part.is_file() and not is_hidden:
        self._add_file(f"{name}/{inner.as_posix()}", part)

  def add_sources(self, index_manifest: Manifest) -> Manifest:
    """Adds the sources of all works; returns the manifest with their places."""
    works = []
    checked: dict[SourceRequest, dict[str, str]] = {}
    for work in index_manifest.works:
      dated_with = work["dated_with"]
      request = msgspec.convert(dated_with["source"], SourceRequest)
      if request not in checked:
        checked[request] = self._hash_works(request)
        if request.find_path(self._folder) is None:
          self.notes.append(f"{request.source}: a data set, named, not copied")
      # What an index of a stranger names may be a file of yours. Only the text
      # that it was made from is copied.
      is_same = checked[request].get(work["name"]) == work["sha256"]
      if not is_same:
        self.notes.append(
          f"{work['name']}: its source {request.source} is gone or has changed "
          "since it was added; its records are in the backup"
        )
      path = request.find_path(self._folder)
      if path is not None:
        request = msgspec.structs.replace(
          request, source=self._add_source(path, is_same)
        )
      changes = {"source": msgspec.to_builtins(request)}
      if dated_with.get("fixed"):
        fixed = self._folder / dated_with["fixed"]
        is_same = (
          fixed.is_file()
          and manifest.hash_file(fixed).sha256 == dated_with["fixed_sha256"]
        )
        changes["fixed"] = self._add_source(fixed, is_same)
      works.append(work | {"dated_with": dated_with | changes})
    if dense := index_manifest.dense:
      self.notes.append(
        f"vectors: by the encoder {dense.path}, which is named and not copied"
      )
    return msgspec.structs.replace(index_manifest, works=works)

  def _hash_works(self, request: SourceRequest) -> dict[str, str]:
    try:
      works = request.read(self._folder)
      return {work.name: work.hash_contents() for work in works}
    except (ValueError, OSError) as error:
      self.notes.append(f"{request.source}: cannot be read: {error}")
      return {}

  def _add_source(self, path: pathlib.Path, is_same: bool) -> str:
    """Returns the place of a source, relative to the index.

    Args:
      is_same: whether it is what the index was made from, and is added, once.
    """
    path = pathlib.Path(os.path.abspath(path))
    uploads = pathlib.Path(os.path.abspath(self._folder / _UPLOADS))
    if path.is_relative_to(uploads):
      return f"{_UPLOADS}/{path.relative_to(uploads).as_posix()}"
    if path not in self._places:
      self._places[path] = f"{_SOURCES}/{len(self._places) + 1}/{path.name}"
    if is_same and path not in self._copied:
      self._copied.add(path)
      self._add_tree(self._places[path], path)
    return self._places[path]

  def add_records(
    self, connection: sqlite3.Connection, index_manifest: Manifest
  ) -> None:
    """Adds the records of every work, a line each."""
    columns = (*TEXT_COLUMNS, *DATE_COLUMNS)
    for number, work in enumerate(index_manifest.works, 1):
      first = work["first_row"]
      cursor = connection.execute(
        f"SELECT {', '.join(columns)} FROM records "
        "WHERE row >= ? AND row < ? ORDER BY row",
        (first, first + work["num_records"]),
      )
      self._add(
        f"{_RECORDS}/{number}.jsonl",
        (
          json.dumps(
            dict(zip(columns, row, strict=True)), ensure_ascii=False
          ).encode("utf-8", "surrogatepass")
          + b"\n"
          for row in cursor
        ),
      )

  def add_calendar(self, index_manifest: Manifest) -> None:
    """Adds the months of the calendar."""
    for name in (calendars.TIMELINE_FILE, calendars.MONTHS_FILE):
      name = f"{calendars.CALENDAR_FOLDER}/{name}"
      self._add_file(name, self._folder / name)
      if self.members[name] != index_manifest.files[name]:
        raise manifest.DamagedIndexError(self._folder / name, "damaged")

  def add_corrections(self) -> None:
    """Adds the corrections, as their journal has them."""
    store = corrections.CorrectionStore(self._folder)
    for error in store.check():
      raise error
    if store.path.is_file():
      with contextlib.closing(corrections.connect(store.path)) as connection:
        rows = correction_journal.read_rows(connection)
      self._add(
        correction_journal.JOURNAL_FILE, correction_journal.format_lines(rows)
      )

  def add_titles(self) -> None:
    """Adds the titles that readers have edited."""
    path = self._folder / TITLES_FILE
    if path.is_file():
      self._add_file(TITLES_FILE, path)

  def add_uploads(self) -> None:
    """Adds the uploads; what is being sent is left out."""
    uploads = self._folder / _UPLOADS
    for path in sorted(uploads.glob("*/")):
      if not path.name.startswith(".") and not path.is_symlink():
        files.check_tree(path)
        self._add_tree(f"{_UPLOADS}/{path.name}", path)


def restore_index(path: pathlib.Path, folder: pathlib.Path) -> RepairResult:
  """Makes an index from a backup; the folder must be new or empty.

  Raises:
    FileNotFoundError: if there is no such archive.
    ValueError: if it is not a backup, or a member is damaged.
  """
  if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
    raise ValueError(
      f"--index={folder}: not empty; name a new folder to restore to"
    )
  if not path.is_file():
    raise FileNotFoundError(f"--restore={path}: no such file")
  folder = pathlib.Path(os.path.abspath(folder))
  # If a restore is killed, the next one removes this folder.
  target = folder.with_name(f".{folder.name}.restoring")
  shutil.rmtree(target, ignore_errors=True)
  target.mkdir(parents=True)
  try:
    with _open_archive(path) as archive:
      backup = _read_backup(path, archive)
      needed = sum(entry.bytes for entry in backup.members.values())
      free = shutil.disk_usage(target).free
      if needed > free:
        raise ValueError(
          f"--restore={path}: unpacks to {needed:,} bytes; {folder.parent} has "
          f"{free:,} free"
        )
      for name in backup.members:
        if not name.startswith(f"{_RECORDS}/"):
          _extract(archive, path, name, backup, files.inside(target, name))
      _check_sources(path, backup, target)
      manifest.write_manifest(target, manifest.encode_manifest(backup.manifest))
      corrections.mend_file(target)
      result = repair.repair_index(target)
      for number, work in enumerate(backup.manifest.works, 1):
        if work["name"] in result.removed:
          name = f"{_RECORDS}/{number}.jsonl"
          lost = repair.name_lost_file(target, work["name"])
          _extract(archive, path, name, backup, lost)
    os.rename(target, folder)
  finally:
    shutil.rmtree(target, ignore_errors=True)

  def name_final_folder(lines: Iterable[str]) -> tuple[str, ...]:
    return tuple(line.replace(str(target), str(folder)) for line in lines)

  # All that is made again was missing.
  done = [line for line in result.done if not line.endswith("missing")]
  done.append(f"{target}: restored from {path}")
  return RepairResult(
    done=name_final_folder(done),
    problems=name_final_folder(result.problems),
    removed=result.removed,
  )


@contextlib.contextmanager
def _open_archive(path: pathlib.Path) -> Iterator[zipfile.ZipFile]:
  try:
    with zipfile.ZipFile(path) as archive:
      yield archive
  except (zipfile.BadZipFile, zlib.error, EOFError) as error:
    raise ValueError(f"--restore={path}: damaged: {error}") from error


def _read_backup(path: pathlib.Path, archive: zipfile.ZipFile) -> _Backup:
  """Returns the description, after checking the list of members by it."""
  infos = {info.filename: info for info in archive.infolist()}
  if len(infos) != len(archive.infolist()):
    raise ValueError(f"--restore={path}: has a member twice")
  description = infos.pop(BACKUP_FILE, None)
  if description is None:
    raise ValueError(
      f"--restore={path}: no {BACKUP_FILE} in it; expected a file that "
      "--backup wrote"
    )
  if description.file_size > _MAX_DESCRIPTION:
    raise ValueError(f"--restore={path}: {BACKUP_FILE} is too large")
  try:
    content = archive.read(description)
    version = msgspec.json.decode(content, type=_BackupFormat).format
    if version != FORMAT:
      raise ValueError(
        f"--restore={path}: a backup of format {version}, this version reads "
        f"{FORMAT}"
      )
    backup = msgspec.json.decode(content, type=_Backup)
  except (msgspec.DecodeError, UnicodeDecodeError) as error:
    raise ValueError(
      f"--restore={path}: {BACKUP_FILE} is damaged: {error}"
    ) from error
  for name in sorted(infos.keys() ^ backup.members.keys()):
    raise ValueError(
      f"--restore={path}: {name[:200]!r} is missing, or not a member that "
      f"{BACKUP_FILE} has"
    )
  for name, info in infos.items():
    mode = info.external_attr >> 16
    if (
      info.is_dir()
      or info.flag_bits & 1
      or (stat.S_IFMT(mode) not in (0, stat.S_IFREG))
      or info.file_size != backup.members[name].bytes
      or (name.split("/")[0] not in _PARTS)
    ):
      raise ValueError(
        f"--restore={path}: {name[:200]!r} is no part of a backup, or not of "
        f"the size that {BACKUP_FILE} has"
      )
  return backup


def _extract(
  archive: zipfile.ZipFile,
  path: pathlib.Path,
  name: str,
  backup: _Backup,
  target: pathlib.Path,
) -> None:
  """Writes a member to a file, if it is what was saved."""
  expected = backup.members[name]
  target.parent.mkdir(parents=True, exist_ok=True)
  digest, size = hashlib.sha256(), 0
  with archive.open(name) as source, target.open("xb") as file:
    # A member may unpack to more than the archive says.
    while size <= expected.bytes and (chunk := source.read(_CHUNK)):
      file.write(chunk)
      digest.update(chunk)
      size += len(chunk)
  if ManifestFile(size, digest.hexdigest()) != expected:
    raise ValueError(
      f"--restore={path}: {name} is damaged; expected {expected.bytes:,} bytes "
      f"of sha256 {expected.sha256[:12]}"
    )
  if name.split("/")[0] in (_UPLOADS, correction_journal.JOURNAL_FILE):
    files.make_private(target)


def _check_sources(
  path: pathlib.Path, backup: _Backup, folder: pathlib.Path
) -> None:
  """Raises ValueError if a work would be read from outside of the archive."""
  for work in backup.manifest.works:
    dated_with = msgspec.convert(work["dated_with"], DatedWith, strict=False)
    request = dated_with.source
    names = [dated_with.fixed] if dated_with.fixed else []
    if request.find_path(folder) is not None:
      names.append(request.source)
    for name in names:
      if name.split("/")[0] not in (_SOURCES, _UPLOADS):
        raise ValueError(
          f"--restore={path}: {work['name']} is read from {name}, which is not "
          "in the archive"
        )
      files.inside(folder, name)
