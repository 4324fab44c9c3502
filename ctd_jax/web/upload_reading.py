"""Preview of an upload: what is recognised in it, before anything is built.

  python -m ctd_jax.web.upload_reading REQUEST

REQUEST is a JSON file with the fields of `ReadingRequest`. Texts are read in a
separate process, so that a bad file cannot take down the server.
"""

import collections
import contextlib
import dataclasses
import hashlib
import json
import os
import pathlib
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from typing import Any

import msgspec
from absl import logging

from ctd_jax.index import database, manifest
from ctd_jax.utils import files, notes
from ctd_jax.utils.notes import Note
from ctd_jax.web import job_files
from ctd_jax.web.upload_files import PREVIEW_FILE, Upload, UploadStore

_START_SECONDS = 12.0
_SECONDS_PER_SECTION_MONTH = 1e-6  # by order
# Of all the characters of the index: it learns from all.
_MODEL_SECONDS_PER_CHARACTER = 1e-4
_PASSAGE_SECONDS_PER_CHARACTER = 1e-4

MAX_MEMORY = 12 << 30  # bytes of addresses
_SAMPLE = 400_000  # characters of a work searched for dates
_MAX_WORKS = 60
_MAX_RECORDS, _MAX_HEADINGS, _MAX_NAMES = 8, 12, 24
_MAX_TEXT = 240  # characters of a record that are shown
# Preview of a text or work about which nothing is known.
EMPTY_PREVIEW = {
  "error": "",
  "error_key": "",
  "calendar": None,
  "calendar_error": "",
  "num_works": 0,
  "works": [],
  "seconds": 0.0,
}
_NO_DATES = {"manner": "", "warnings": []}
# For reading an upload: a minute of a slow machine, more for large ones.
_SECONDS, MAX_SECONDS = 60.0, 300.0
_SECONDS_PER_BYTE = 1e-5  # 50 times what a usual text takes
# Small uploads do not wait for large ones.
_MAX_SMALL = 1 << 20  # bytes
_REQUEST_FILE = "request.json"
_MAX_PREVIEW = 64 << 20  # bytes
_NICENESS = 5


def estimate_seconds(
  works: Sequence[dict[str, Any]], num_months: int, num_characters: int
) -> float:
  """Returns the time that dating the works takes on one free core.

  Measured by building 後漢紀 (210,000 characters, 1,247 sections) and 三國志
  (447,000) by order and 左氏傳說 by the model, one after the other, with the
  26,682 months of China: 63, 80 and 161 s.

  Args:
    num_characters: number of characters in the index so far.
  """
  num_characters += sum(work["num_characters"] for work in works)
  seconds = _START_SECONDS + num_characters * _PASSAGE_SECONDS_PER_CHARACTER
  if any(work["manner"] == "model" for work in works):
    seconds += num_characters * _MODEL_SECONDS_PER_CHARACTER
  for work in works:
    if work["manner"] == "order":
      num_sampled = max(work["num_sampled_characters"], 1)
      num_sections = work["num_sections"] * work["num_characters"] / num_sampled
      seconds += num_sections * num_months * _SECONDS_PER_SECTION_MONTH
  return seconds


def count_characters(folder: pathlib.Path) -> int:
  """Returns the number of characters in the records of an index."""
  with contextlib.closing(database.open_database(folder)) as connection:
    (total,) = connection.execute(
      "SELECT coalesce(sum(length(text)), 0) FROM records"
    ).fetchone()
  return total


def format_seconds(seconds: float) -> Note:
  """Returns a rough duration such as 40 s, 5 min or 2.5 h."""
  if seconds < 90:
    return Note("duration.s", number=max(round(seconds / 10), 1) * 10)
  if seconds < 5400:
    return Note("duration.min", number=round(seconds / 60))
  return Note("duration.h", number=round(seconds / 3600, 1))


@dataclasses.dataclass(frozen=True, kw_only=True)
class ReadingRequest:
  """Files to read, and options for reading them."""

  source: str  # as `sources.make_request` takes it
  root: str  # folder that messages are to leave out
  index: str  # folder of the index
  has_index: bool  # whether it has a calendar
  unit: str  # of plain text; "" as it looks
  encoding: str  # that files were converted from
  reigns: str  # calendar of an index without; "" as the text says
  output: str  # file that is written


def main() -> None:
  """Reads the request named by the argument."""
  values = json.loads(files.read_text(sys.argv[1]))
  resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY, MAX_MEMORY))
  write_preview(ReadingRequest(**values))


def write_preview(request: ReadingRequest) -> None:
  """Writes the preview of an upload, or why it cannot be read."""
  try:
    preview = make_preview(request)
  except (ValueError, OSError) as error:
    problem = notes.of_error(error)
    # The upload's folder and our flags.
    for hidden in (request.root + "/", request.root, "--add=", "beir:"):
      problem = problem.replace(hidden, "")
    preview = EMPTY_PREVIEW | {"error": msgspec.to_builtins(problem)}
  except (MemoryError, RecursionError) as error:
    problem = Note("problem.file.too_large", kind=type(error).__name__)
    preview = EMPTY_PREVIEW | {"error": problem.to_json()}
  content = json.dumps(preview, ensure_ascii=False)
  files.write_text(pathlib.Path(request.output), content, is_private=True)


def make_preview(request: ReadingRequest) -> dict[str, Any]:
  """Returns the recognised contents of an upload, as JSON values."""
  from ctd_jax.index import calendars
  from ctd_jax.index.building import source_calendars, sources

  folder = pathlib.Path(request.index)
  works = sources.make_request(
    folder, request.source, request.unit or None
  ).read(folder)
  preview: dict[str, Any] = EMPTY_PREVIEW | {"num_works": len(works)}
  calendar = None
  if request.has_index:
    calendar = calendars.load_index_calendar(folder)
  else:
    try:
      calendar = source_calendars.choose_calendar(
        works, request.reigns or None
      ).calendar
    except (ValueError, FileNotFoundError) as error:
      problem = notes.of_error(error)
      preview["calendar_error"] = msgspec.to_builtins(problem)
  if calendar is not None:
    _check_months(works, calendar)
    preview["calendar"] = {
      "name": calendar.timeline.name,
      "first": calendars.name_month(calendar, 0),
      "last": calendars.name_month(calendar, len(calendar) - 1),
    }
  preview["works"] = [
    _describe_work(work, calendar) for work in works[:_MAX_WORKS]
  ]
  if calendar is not None:
    preview["seconds"] = estimate_seconds(
      preview["works"],
      len(calendar),
      count_characters(folder) if request.has_index else 0,
    )
  return preview


def _check_months(works: Sequence[Any], calendar: Any) -> None:
  """Raises ValueError if a record's months are not in the calendar."""
  from ctd_jax.index.building import group_dating

  dater = group_dating.WorkDater(calendar, group_dating.DatingChoices(), works)
  for work in works:
    if not work.is_text:
      dater.read_known_months(work)


def _describe_work(work: Any, calendar: Any) -> dict[str, Any]:
  """Returns the preview of a work."""
  items = work.entries or work.records
  records, headings = [], []
  for item in items:
    is_heading = item.is_heading if work.is_text else item.kind == "heading"
    (headings if is_heading else records).append(item)
  description = {
    "name": work.name,
    "title": work.title,
    "format": work.text_format,
    "left_out": msgspec.to_builtins(work.left_out),
    "num_records": len(records),
    "num_headings": len(headings),
    "num_characters": sum(len(item.text) for item in items),
    "headings": [item.text[:_MAX_TEXT] for item in headings[:_MAX_HEADINGS]],
    "records": [
      {
        "text": item.text[:_MAX_TEXT],
        "length": len(item.text),
        "place": str(item.place),
        "headings": list(item.headings),
      }
      for item in records[:_MAX_RECORDS]
    ],
  }
  dates = _NO_DATES if calendar is None else _describe_dates(work, calendar)
  return description | dates


def _describe_dates(work: Any, calendar: Any) -> dict[str, Any]:
  """Returns how a work would be dated, and the dates that it prints."""
  from ctd_jax.dating.chronicle import (
    chronicle_dating,
    dating_warnings,
    eras,
    section_reading,
  )
  from ctd_jax.dating.chronicle import sections as sections_lib
  from ctd_jax.index.building import work_dating

  entries = _take_sample(work.entries or work_dating.make_entries(work.records))
  sections = chronicle_dating.read_all_sections(entries, calendar)
  names = collections.Counter(
    values[0]
    for section in sections
    for statement, *values in section.statements
    if statement in ("year", "era") and values[0]
  )
  unknown = collections.Counter(
    era.name
    for entry in entries
    for era in eras.find_unknown_eras(entry.text, calendar)
  )
  marks = (section_reading.match_stream_mark(entry.text) for entry in entries)
  streams = collections.Counter(mark[1] for mark in marks if mark)
  return {
    "manner": work_dating.choose_manner(work, calendar),
    "num_sampled": len(entries),
    "num_sampled_characters": sum(len(entry.text) for entry in entries),
    "num_sections": len(sections),
    "num_dates": sum(bool(section.statements) for section in sections),
    "num_years": sum(
      section.kind in (sections_lib.YEAR, sections_lib.NAMED)
      for section in sections
    ),
    "num_known": sum(
      bool(record.start or record.end) for record in work.records
    ),
    "reigns": names.most_common(_MAX_NAMES),
    "unknown": unknown.most_common(_MAX_NAMES),
    "streams": streams.most_common(_MAX_NAMES),
    "warnings": msgspec.to_builtins(
      dating_warnings.list_lacking(entries, sections, calendar)
    ),
  }


def _take_sample(entries: Sequence[Any]) -> list[Any]:
  """Returns the first entries, up to `_SAMPLE` characters."""
  sample, num_characters = [], 0
  for entry in entries:
    sample.append(entry)
    num_characters += len(entry.text)
    if num_characters > _SAMPLE:
      break
  return sample


class UploadReader:
  """Reads uploads in separate processes."""

  def __init__(
    self,
    index: pathlib.Path,
    store: UploadStore,
    max_seconds: float = MAX_SECONDS,
  ):
    self._index = index.expanduser().absolute()
    self._store = store
    self._max_seconds = max_seconds
    self._lock = threading.Lock()
    self._threads: dict[str, threading.Thread] = {}
    self._processes: set[subprocess.Popen] = set()
    self._is_closed = False

  def read(
    self, upload: Upload, is_built: bool = False
  ) -> dict[str, Any] | None:
    """Returns the preview of an upload; starts reading and returns None if
    needed.

    Args:
      is_built: keeps the preview from before the build.
    """
    request = self._make_request(upload)
    mark = hashlib.sha256(_encode(request).encode()).hexdigest()
    path = self._store.folder_of(upload) / PREVIEW_FILE
    preview = _find_preview(path, None if is_built else mark)
    if preview is not None:
      return preview
    with self._lock:
      thread = self._threads.get(upload.name)
      if not (self._is_closed or (thread and thread.is_alive())):
        thread = threading.Thread(
          target=self._run,
          args=(request, mark, path, upload.num_bytes),
          daemon=True,
        )
        self._threads[upload.name] = thread
        thread.start()
    return None

  def close(self) -> None:
    """Ends the reading processes."""
    with self._lock:
      self._is_closed = True
      for process in self._processes:
        _kill(process)

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

  def _run(
    self,
    request: ReadingRequest,
    mark: str,
    path: pathlib.Path,
    num_bytes: int,
  ) -> None:
    """Reads an upload in a process and writes its preview."""
    lock = ".reading" if num_bytes > _MAX_SMALL else ".reading-small"
    seconds = min(_SECONDS + num_bytes * _SECONDS_PER_BYTE, self._max_seconds)
    with self._store.lock(lock):
      # Another server of the index may have read it meanwhile.
      if self._is_closed or _find_preview(path, mark) is not None:
        return
      try:
        preview = self._read(request, seconds)
      except OSError as error:  # the upload was discarded in the meantime
        logging.warning("upload cannot be read: %s", error)
        return
      if self._is_closed or not path.parent.exists():
        return
      content = json.dumps(preview | {"request": mark}, ensure_ascii=False)
      files.write_text(path, content, is_private=True)

  def _read(self, request: ReadingRequest, seconds: float) -> dict[str, Any]:
    request_path = pathlib.Path(request.root) / _REQUEST_FILE
    files.write_text(request_path, _encode(request), is_private=True)
    with self._lock:
      if self._is_closed:
        return EMPTY_PREVIEW | {"error_key": "upload.broken_off"}
      process = subprocess.Popen(
        (*job_files.PYTHON, "ctd_jax.web.upload_reading", str(request_path)),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
        preexec_fn=lambda: os.nice(_NICENESS),
      )
      self._processes.add(process)
    try:
      _, log = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
      _kill(process)
      process.communicate()
      return EMPTY_PREVIEW | {"error_key": "upload.too_long"}
    finally:
      self._processes.discard(process)
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


def _encode(request: ReadingRequest) -> str:
  return json.dumps(dataclasses.asdict(request), ensure_ascii=False)


def _find_preview(
  path: pathlib.Path, mark: str | None
) -> dict[str, Any] | None:
  """Returns the preview in a file, or None."""
  try:
    preview = json.loads(files.read_limited(path, _MAX_PREVIEW))
  except (OSError, ValueError, RecursionError):
    return None
  is_whole = isinstance(preview, dict) and {*EMPTY_PREVIEW} <= {*preview}
  is_wanted = is_whole and mark in (None, preview.get("request"))
  return preview if is_wanted else None


def _kill(process: subprocess.Popen) -> None:
  with contextlib.suppress(ProcessLookupError):
    os.killpg(process.pid, signal.SIGKILL)


if __name__ == "__main__":
  main()
