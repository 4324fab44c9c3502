"""Journal: an append-only file of records by key that survives a kill.

A run asks thousands of questions, some of which cost money. Every record is on
disk before the next one begins, so a resumed run does only the missing work.
Replies of models, answers and games have a journal each, with one JSON object
a line: {"key": ..., "value": ...}.

A kill can cut off only the last line. The next opening drops it, and its work
is done again. Any other line that cannot be read, or a key that occurs twice,
is an edit by hand and an error.
"""

from __future__ import annotations

import fcntl
import json
import os
import pathlib
import threading
from collections.abc import Iterator
from typing import Any


class Journal:
  """Records by key, in memory and on disk; safe between threads.

  Attributes:
    path: path of the file.
  """

  def __init__(self, path: str | os.PathLike):
    """Opens or creates a journal and locks it against other processes.

    Args:
      path: path of the JSON lines; missing parent folders are created.

    Raises:
      ValueError: naming the file and the line at fault; or if another process
        holds the lock.
    """
    self.path = pathlib.Path(path)
    self.path.parent.mkdir(parents=True, exist_ok=True)
    self._lock = threading.Lock()
    self._file = open(self.path, "a+b")  # noqa: SIM115 closed by close()
    try:
      # Released with the file, so a killed process leaves no lock behind.
      fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
      self._records = self._read_records()
    except BlockingIOError:
      self._file.close()
      raise ValueError(
        f"{self.path}: another run is writing to it; wait for its end or "
        "choose another folder"
      ) from None
    except BaseException:
      self._file.close()
      raise

  def __enter__(self) -> Journal:
    return self

  def __exit__(self, *unused) -> None:
    self.close()

  def __contains__(self, key: str) -> bool:
    return key in self._records

  def __getitem__(self, key: str) -> Any:
    return self._records[key]

  def __len__(self) -> int:
    return len(self._records)

  def __iter__(self) -> Iterator[str]:
    return iter(self._records)

  def append(self, key: str, value: Any) -> None:
    """Adds a record; it is on disk when this returns.

    Args:
      key: must be new.
      value: any JSON value.

    Raises:
      ValueError: if the key exists.
    """
    line = json.dumps({"key": key, "value": value}, ensure_ascii=False)
    with self._lock:
      if key in self._records:
        raise ValueError(f"{self.path}: {key!r} is there already")
      self._file.write(line.encode() + b"\n")
      self._file.flush()
      # A reply that cost money must survive a crash of the machine, too.
      os.fsync(self._file.fileno())
      self._records[key] = value

  def close(self) -> None:
    """Closes the file and lets others write to it."""
    self._file.close()

  def _read_records(self) -> dict[str, Any]:
    """Returns the records on disk; truncates an incomplete last line."""
    self._file.seek(0)
    content = self._file.read()
    num_complete_bytes = content.rfind(b"\n") + 1
    if num_complete_bytes < len(content):
      self._file.truncate(num_complete_bytes)
    records: dict[str, Any] = {}
    for line_number, line in enumerate(
      content[:num_complete_bytes].splitlines(), start=1
    ):
      try:
        record = json.loads(line)
        key, value = record["key"], record["value"]
      except (KeyError, TypeError, ValueError):
        raise ValueError(
          f"{self.path}, line {line_number}: expected an object with the "
          "fields key and value"
        ) from None
      if key in records:
        raise ValueError(
          f"{self.path}, line {line_number}: {key!r} stands twice"
        )
      records[key] = value
    return records
