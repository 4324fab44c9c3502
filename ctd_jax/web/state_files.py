"""Files of the state of a job or an upload: on the disk when they are written.

One that is damaged, by a full disk or by hand, is left where it is and logged;
the others are shown as if it were not there.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import os
import pathlib
from collections.abc import Iterator
from typing import TypeVar

import msgspec
from absl import logging

from ctd_jax.utils import files

_MAX_LOGGED = 1_000  # damaged files that are logged once and not at every look

_State = TypeVar("_State")


def read_state(
  path: pathlib.Path, kind: type[_State], **expected: str
) -> _State | None:
  """Returns what a file has; None, and logged, if it cannot be read.

  Args:
    path: of the file.
    kind: dataclass of its members; those it does not know are passed over.
    **expected: members whose value the place of the file gives.
  """
  try:
    state = msgspec.json.decode(path.read_bytes(), type=kind)
  except FileNotFoundError:
    return None
  # Bytes that are no UTF-8 are a ValueError.
  except (OSError, ValueError, RecursionError, msgspec.DecodeError) as error:
    _log_damaged(path, str(error))
    return None
  for name, value in expected.items():
    if (found := getattr(state, name)) != value:
      _log_damaged(path, f"{name} {found!r}, expected {value!r}")
      return None
  return state


def write_state(path: pathlib.Path, state: object) -> None:
  """Writes a file, whole or not at all, and waits until it is on the disk.

  Args:
    path: of the file.
    state: a dataclass.
  """
  content = msgspec.json.format(msgspec.json.encode(state), indent=1)
  with files.atomic_path(path) as temporary, temporary.open("wb") as file:
    file.write(content + b"\n")
    file.flush()
    os.fsync(file.fileno())
  folder = os.open(path.parent, os.O_RDONLY)
  try:
    os.fsync(folder)
  finally:
    os.close(folder)


@contextlib.contextmanager
def hold_lock(folder: pathlib.Path, name: str) -> Iterator[None]:
  """Holds a lock, against other processes of the index too.

  Args:
    folder: made if it is not there.
    name: of the file in it that is locked.
  """
  folder.mkdir(parents=True, exist_ok=True)
  with (folder / name).open("wb") as file:
    fcntl.flock(file, fcntl.LOCK_EX)
    yield


@functools.lru_cache(_MAX_LOGGED)
def _log_damaged(path: pathlib.Path, problem: str) -> None:
  logging.error("%s: cannot be read, passed over: %s", path, problem)
