"""Reader of uploads: processes that write previews, one at a time."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import threading
from typing import Any

from absl import logging

from ctd_jax.index.storage import manifest
from ctd_jax.utils import files
from ctd_jax.web.uploads.upload_reading import EMPTY_PREVIEW, ReadingRequest
from ctd_jax.web.uploads.upload_store import PREVIEW_FILE, Upload, UploadStore

MAX_SECONDS = 300.0
_REQUEST_FILE = "request.json"
_NICENESS = 5


class UploadReader:
  """Reads uploads in processes, so that a bad file cannot hang the server."""

  def __init__(
    self,
    index: pathlib.Path,
    store: UploadStore,
    max_seconds: float = MAX_SECONDS,
  ):
    """Starts nothing yet.

    Args:
      index: folder of the index.
      store: of the uploads.
      max_seconds: that reading an upload may take.
    """
    self._index = index.expanduser().absolute()
    self._store = store
    self._max_seconds = max_seconds
    self._lock = threading.Lock()
    self._threads: dict[str, threading.Thread] = {}
    self._process: subprocess.Popen | None = None
    self._is_closed = False

  def read(
    self, upload: Upload, is_built: bool = False
  ) -> dict[str, Any] | None:
    """Returns the preview of an upload; None, and begun, if it is yet to be.

    Args:
      upload: of the store.
      is_built: whether its works are in the index; what was shown before they
        were stays.
    """
    request = self._make_request(upload)
    mark = self._hash(request)
    path = self._store.folder_of(upload) / PREVIEW_FILE
    preview = _find_preview(path, None if is_built else mark)
    if preview is not None:
      return preview
    with self._lock:
      thread = self._threads.get(upload.name)
      if not (self._is_closed or (thread and thread.is_alive())):
        thread = threading.Thread(
          target=self._run, args=(request, mark, path), daemon=True
        )
        self._threads[upload.name] = thread
        thread.start()
    return None

  def close(self) -> None:
    """Ends the process that reads."""
    with self._lock:
      self._is_closed = True
      if self._process is not None:
        _kill(self._process)

  def _make_request(self, upload: Upload) -> ReadingRequest:
    folder = self._store.folder_of(upload)
    settings = upload.settings
    return ReadingRequest(
      source=self._store.source_of(upload),
      root=str(folder),
      index=str(self._index),
      has_index=(self._index / manifest.MANIFEST_FILE).exists(),
      unit=settings.unit,
      encoding=settings.encoding,
      reigns=settings.reigns,
      output=str(folder / f"{PREVIEW_FILE}.new"),
    )

  def _hash(self, request: ReadingRequest) -> str:
    content = json.dumps(dataclasses.asdict(request), ensure_ascii=False)
    return hashlib.sha256(content.encode()).hexdigest()

  def _run(
    self, request: ReadingRequest, mark: str, path: pathlib.Path
  ) -> None:
    """Has a process read an upload, and writes what it says."""
    with self._store.lock_reading():
      # Another server of the index may have read it meanwhile.
      if self._is_closed or _find_preview(path, mark) is not None:
        return
      try:
        preview = self._read(request)
      except OSError as error:  # the upload was discarded in the meantime
        logging.warning("upload cannot be read: %s", error)
        return
      if self._is_closed or not path.parent.exists():
        return
      content = json.dumps(preview | {"request": mark}, ensure_ascii=False)
      files.write_text(path, content)

  def _read(self, request: ReadingRequest) -> dict[str, Any]:
    request_path = pathlib.Path(request.root) / _REQUEST_FILE
    files.write_text(
      request_path, json.dumps(dataclasses.asdict(request), ensure_ascii=False)
    )
    with self._lock:
      if self._is_closed:
        return EMPTY_PREVIEW | {"error_key": "upload.broken_off"}
      self._process = process = subprocess.Popen(
        (
          sys.executable,
          "-m",
          "ctd_jax.web.uploads.upload_reading",
          str(request_path),
        ),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
        preexec_fn=lambda: os.nice(_NICENESS),
      )
    try:
      _, log = process.communicate(timeout=self._max_seconds)
    except subprocess.TimeoutExpired:
      _kill(process)
      process.communicate()
      return EMPTY_PREVIEW | {"error_key": "upload.too_long"}
    finally:
      self._process = None
    output = pathlib.Path(request.output)
    try:
      return json.loads(files.read_text(output))
    except (FileNotFoundError, ValueError):
      logging.error(
        "reading %s ended with %s: %s",
        request.source,
        process.returncode,
        log.decode("utf-8", "replace")[-2000:],
      )
      return EMPTY_PREVIEW | {"error_key": "upload.failed"}
    finally:
      output.unlink(missing_ok=True)


def _find_preview(
  path: pathlib.Path, mark: str | None
) -> dict[str, Any] | None:
  """Returns the preview of a file; None if there is none.

  Args:
    path: of the file.
    mark: of what it has to be the preview of; None of anything.
  """
  try:
    preview = json.loads(files.read_text(path))
  except (FileNotFoundError, ValueError):
    return None
  is_whole = isinstance(preview, dict) and {*EMPTY_PREVIEW} <= {*preview}
  is_wanted = is_whole and mark in (None, preview.get("request"))
  return preview if is_wanted else None


def _kill(process: subprocess.Popen) -> None:
  with contextlib.suppress(ProcessLookupError):
    os.killpg(process.pid, signal.SIGKILL)
