"""Saved state: nested dataclasses of arrays as .npy files and one JSON file.

Large arrays are files of their own, which are mapped into memory when they are
read; the small ones share one .npz. Nothing is executed when a folder is read:
JSON names the dataclass of every part, and only those given are made.
"""

from __future__ import annotations

import dataclasses
import json
import pathlib
import zipfile
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import scipy.sparse

from ctd_jax.utils import files

VERSION = 1
STATE_FILE, SMALL_FILE = "state.json", "small.npz"
_SMALL_BYTES = 65_536  # arrays up to this size share a file


def write_state(folder: pathlib.Path, state: Any) -> None:
  """Writes nested dataclasses, arrays, tuples and plain values.

  Args:
    folder: made if it lacks.
    state: a dataclass.

  Raises:
    FileExistsError: if the folder holds something.
    TypeError: if a value is of another type.
  """
  folder.mkdir(parents=True, exist_ok=True)
  if any(folder.iterdir()):
    raise FileExistsError(f"{folder}: not empty; a state needs a new folder")
  arrays: dict[str, np.ndarray] = {}
  tree = _describe(state, "", arrays)
  small = {}
  for name, array in arrays.items():
    if array.nbytes <= _SMALL_BYTES:
      small[name] = array
    else:
      np.save(folder / f"{name}.npy", array, allow_pickle=False)
  np.savez(folder / SMALL_FILE, **small)
  # Last, so that a folder with it is whole.
  files.write_text(
    folder / STATE_FILE,
    json.dumps({"version": VERSION, "state": tree}, ensure_ascii=False),
  )


def read_state(folder: pathlib.Path, classes: Sequence[type]) -> Any:
  """Returns what `write_state` wrote, large arrays mapped into memory.

  Args:
    folder: of the state.
    classes: dataclasses that may be made.

  Raises:
    FileNotFoundError: if the folder has no state.
    ValueError: naming the file that is damaged or of another version.
  """
  path = folder / STATE_FILE
  if not path.is_file():
    raise FileNotFoundError(f"{path}: missing; save a state there first")
  try:
    content = json.loads(files.read_text(path))
    version, tree = content["version"], content["state"]
  except (ValueError, KeyError, TypeError) as error:
    raise ValueError(f"{path}: damaged ({error}); save it again") from error
  if version != VERSION:
    raise ValueError(f"{path}: version {version}, this is {VERSION}")
  try:
    with np.load(folder / SMALL_FILE, allow_pickle=False) as arrays:
      small = dict(arrays)
  except (OSError, ValueError, zipfile.BadZipFile) as error:
    raise ValueError(f"{folder / SMALL_FILE}: damaged ({error})") from error
  by_name = {each.__name__: each for each in classes}
  try:
    return _restore(tree, folder, small, by_name)
  except (KeyError, TypeError) as error:
    raise ValueError(f"{path}: damaged ({error}); save it again") from error


def _describe(value: Any, name: str, arrays: dict[str, np.ndarray]) -> Any:
  """Returns a value as JSON has it, its arrays put aside by name."""
  if value is None or isinstance(value, bool | int | float | str):
    return value
  if isinstance(value, np.ndarray):
    arrays[name] = value
    return {"array": name}
  if isinstance(value, scipy.sparse.csr_array):
    parts = (value.data, value.indices, value.indptr)
    return {
      "sparse": [
        _describe(part, f"{name}.{key}", arrays)
        for key, part in zip("dip", parts, strict=True)
      ],
      "shape": list(value.shape),
    }
  if isinstance(value, tuple):
    return {
      "tuple": [
        _describe(item, f"{name}.{index}", arrays)
        for index, item in enumerate(value)
      ]
    }
  if dataclasses.is_dataclass(value):
    return {
      "class": type(value).__name__,
      "fields": {
        field.name: _describe(
          getattr(value, field.name), f"{name}.{field.name}".strip("."), arrays
        )
        for field in dataclasses.fields(value)
      },
    }
  raise TypeError(f"{name}: a {type(value).__name__} cannot be saved")


def _restore(
  tree: Any,
  folder: pathlib.Path,
  small: Mapping[str, np.ndarray],
  classes: Mapping[str, type],
) -> Any:
  if not isinstance(tree, dict):
    return tree
  if "array" in tree:
    return _load_array(tree["array"], folder, small)
  if "sparse" in tree:
    parts = [_restore(part, folder, small, classes) for part in tree["sparse"]]
    return scipy.sparse.csr_array(tuple(parts), shape=tuple(tree["shape"]))
  if "tuple" in tree:
    return tuple(
      _restore(item, folder, small, classes) for item in tree["tuple"]
    )
  fields = {
    name: _restore(item, folder, small, classes)
    for name, item in tree["fields"].items()
  }
  return classes[tree["class"]](**fields)


def _load_array(
  name: str, folder: pathlib.Path, small: Mapping[str, np.ndarray]
) -> np.ndarray:
  if name in small:
    return small[name]
  path = folder / f"{name}.npy"
  try:
    # As a plain array: a slice of a `memmap` costs several times as much.
    return np.asarray(np.load(path, mmap_mode="r", allow_pickle=False))
  except (OSError, ValueError, EOFError) as error:
    raise ValueError(f"{path}: missing or damaged ({error})") from error
