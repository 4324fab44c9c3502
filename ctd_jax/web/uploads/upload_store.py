"""Uploads: texts that a reader has brought, from their files to a build.

`uploads/NAME/` of an index has the files of one, in a folder of the name that
its works get, and `upload.json`. An upload is a preview until it is built; then
it is kept, so that its works can be dated again from it. If the build ends
without success it is a preview again. One that nobody had built or discarded is
removed after a day.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import pathlib
import secrets
import shutil
import time
from collections.abc import Sequence
from typing import IO

from absl import logging

from ctd_jax.web import state_files
from ctd_jax.web.errors import PageError
from ctd_jax.web.uploads import upload_archives, upload_files
from ctd_jax.web.uploads.upload_archives import BroughtFile

UPLOADS_FOLDER = "uploads"
UPLOAD_FILE = "upload.json"
PREVIEW_FILE = "preview.json"
PREVIEW, ACCEPTED = STATES = ("preview", "accepted")
_TEMPORARY = ".new-"
_LOCK, _READING_LOCK = ".lock", ".reading"
_MAX_AGE = 86_400  # seconds that a preview is kept
_MAX_TEMPORARY_AGE = 3_600
_MAX_SAME_NAME = 1_000
_DEFAULT_NAME = "text"
_SENT = ("key", "sha256", "title", "settings")  # by which one is known again


@dataclasses.dataclass(frozen=True, kw_only=True)
class UploadSettings:
  """How an upload is to be read and dated.

  Attributes:
    unit: of plain text, "line" or "paragraph"; "" as the text looks.
    encoding: that its files were converted from; "" if none was.
    reigns: calendar of an index that is yet to be built; "" as the text says.
    in_order: names of works that go forward in time.
    undated: names of works that do not.
  """

  unit: str = ""
  encoding: str = ""
  reigns: str = ""
  in_order: tuple[str, ...] = ()
  undated: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, kw_only=True)
class Upload:
  """Texts that were brought.

  Attributes:
    name: of the folder, in addresses.
    title: that its works are named after.
    source: what `ctd-jax index --add` takes them from, below the folder.
    is_beir: whether that is a folder in the form of BEIR.
    state: one of `STATES`.
    created: time, ISO 8601 of UTC.
    num_files: that were taken.
    num_bytes: of them.
    left_out: names of files that were not taken.
    settings: how they are read and dated.
    job_key: of the form by which the build was started; "" before.
    job_id: of the build; "" before.
    key: of the form by which it was brought.
    sha256: of the files as they were brought.
  """

  name: str
  title: str
  source: str
  is_beir: bool
  state: str
  created: str
  num_files: int
  num_bytes: int
  left_out: tuple[str, ...]
  settings: UploadSettings
  job_key: str = ""
  job_id: str = ""
  key: str = ""
  sha256: str = ""

  def __post_init__(self):
    """Refuses a state and a time that no upload has.

    Raises:
      ValueError: naming them.
    """
    if self.state not in STATES:
      raise ValueError(f"state {self.state!r}, expected one of {STATES}")
    if datetime.datetime.fromisoformat(self.created).tzinfo is None:
      raise ValueError(f"created {self.created}, expected a time of UTC")


class UploadStore:
  """The uploads of an index."""

  def __init__(self, folder: pathlib.Path, max_bytes: int):
    """Keeps where uploads lie.

    Args:
      folder: of the index, which may be yet to be built.
      max_bytes: of an upload, unpacked.
    """
    self._folder = folder.expanduser().absolute() / UPLOADS_FOLDER
    self._max_bytes = max_bytes

  def folder_of(self, upload: Upload) -> pathlib.Path:
    """Returns the folder of an upload."""
    return self._folder / upload.name

  def source_of(self, upload: Upload) -> str:
    """Returns what `ctd-jax index --add` takes an upload from."""
    path = self.folder_of(upload) / upload.source
    return f"beir:{path}" if upload.is_beir else str(path)

  def add(
    self,
    files: Sequence[tuple[str, IO[bytes]]],
    title: str,
    settings: UploadSettings,
    key: str = "",
  ) -> Upload:
    """Keeps files as a preview, or returns that which the form has made.

    Args:
      files: name and contents of each.
      title: that the works are named after; that of the files if "".
      settings: how they are to be read.
      key: of the form, "" of none; one that is sent again with other files
        makes another preview.

    Raises:
      PageError: as of `open_files` and `upload_files.write_files`.
    """
    self.remove_leftovers()
    brought = upload_archives.open_files(files, upload_files.MAX_FILES)
    title = upload_files.make_safe_name(title or _find_title(brought))
    title = title or _DEFAULT_NAME
    self._folder.mkdir(parents=True, exist_ok=True)
    temporary = self._folder / f"{_TEMPORARY}{secrets.token_hex(8)}"
    try:
      (temporary / title).mkdir(parents=True)
      written = upload_files.write_files(
        temporary / title, brought, self._max_bytes
      )
      upload = Upload(
        name=title,
        title=title,
        source=_find_source(title, written.paths),
        is_beir=upload_files.CORPUS_FILE in written.paths,
        state=PREVIEW,
        created=_format_now(),
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

  def lock_reading(self) -> contextlib.AbstractContextManager[None]:
    """Holds the lock of whoever reads an upload, in any process."""
    return state_files.hold_lock(self._folder, _READING_LOCK)

  def _lock(self) -> contextlib.AbstractContextManager[None]:
    return state_files.hold_lock(self._folder, _LOCK)

  def _name(self, upload: Upload, temporary: pathlib.Path) -> Upload:
    """Gives an upload a name that no other has; it is kept once."""
    with self._lock():
      for previous in self.list() if upload.key else ():
        if all(
          getattr(previous, name) == getattr(upload, name) for name in _SENT
        ):
          return previous
      for number in range(1, _MAX_SAME_NAME):
        name = upload.title + f"-{number}" * (number > 1)
        if not (self._folder / name).exists():
          upload = dataclasses.replace(upload, name=name)
          self._write(upload, temporary)
          temporary.rename(self._folder / name)
          return upload
    raise PageError(422, "error.upload.twice", {"name": upload.title})

  def get(self, name: str) -> Upload | None:
    """Returns an upload; None if none of that name can be read."""
    if name not in self._list_names():  # a path from outside is none of these
      return None
    path = self._folder / name / UPLOAD_FILE
    return state_files.read_state(path, Upload, name=name)

  def list(self) -> list[Upload]:
    """Returns the uploads, the newest first."""
    uploads = [
      upload for name in self._list_names() if (upload := self.get(name))
    ]
    return sorted(uploads, key=lambda it: it.created, reverse=True)

  def change(self, upload: Upload, **changes: object) -> Upload:
    """Returns an upload with changes, which are kept.

    Args:
      upload: of the store.
      **changes: new values of its attributes.

    Raises:
      PageError: 404, if it was discarded.
    """
    with self._lock():
      # Another process may have discarded or changed it meanwhile.
      newest = self.get(upload.name)
      if newest is None:
        raise PageError(404, "error.upload.none", {"name": upload.name})
      newest = dataclasses.replace(newest, **changes)
      self._write(newest, self.folder_of(newest))
    return newest

  def discard(self, upload: Upload) -> None:
    """Removes an upload that was not built.

    Raises:
      PageError: 409, if it was.
    """
    with self._lock():
      newest = self.get(upload.name) or upload
      if newest.state != PREVIEW:
        raise PageError(409, "error.upload.built")
      shutil.rmtree(self.folder_of(upload), ignore_errors=True)

  def remove_leftovers(self) -> None:
    """Removes what nobody has come back to."""
    for path in self._folder.glob(f"{_TEMPORARY}*"):
      # It may have become an upload since, or another process removes it.
      with contextlib.suppress(FileNotFoundError):
        if time.time() - path.stat().st_mtime > _MAX_TEMPORARY_AGE:
          shutil.rmtree(path, ignore_errors=True)
    now = datetime.datetime.now(datetime.UTC)
    for upload in self.list():
      age = now - datetime.datetime.fromisoformat(upload.created)
      # One whose build has failed may be built again: it waits for its reader.
      is_left = upload.state == PREVIEW and not upload.job_id
      if is_left and age.total_seconds() > _MAX_AGE:
        logging.info("upload %s is removed: it was not built", upload.name)
        shutil.rmtree(self.folder_of(upload), ignore_errors=True)

  def _list_names(self) -> list[str]:
    try:
      paths = list(self._folder.iterdir())
    except FileNotFoundError:
      return []
    return [
      path.name
      for path in paths
      if path.is_dir() and not path.name.startswith(".")
    ]

  def _write(self, upload: Upload, folder: pathlib.Path) -> None:
    state_files.write_state(folder / UPLOAD_FILE, upload)


def _find_title(files: Sequence[BroughtFile]) -> str:
  """Returns what an upload is called: its folder, or its first file."""
  file = files[0]
  if file.archive is not None:
    top = upload_files.find_top_folder(file.list_names())
    if top:
      return top
  return pathlib.PurePath(file.name).stem


def _find_source(title: str, paths: Sequence[str]) -> str:
  """Returns the file of a text that has one, else the folder of all."""
  if len(paths) == 1 and paths[0] != upload_files.CORPUS_FILE:
    return f"{title}/{paths[0]}"
  return title


def _format_now() -> str:
  return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
