"""Folders of published encoders: finds them, reads and writes their tensors.

Tensors are read slice by slice, so that no more of a large model is in memory
than the devices at hand need.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import pathlib
import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import huggingface_hub
import msgspec
import numpy as np
import safetensors
from safetensors import numpy as safetensors_numpy

from ctd_jax.utils import files

CONFIG_FILE = "config.json"
WEIGHTS_FILE = "model.safetensors"
INDEX_FILE = "model.safetensors.index.json"
# Files fetched for a hub id. Other formats of the same weights stay there.
_DOWNLOAD_PATTERNS = (
  *("*.json", "*.safetensors", "1_Pooling/*"),
  *("*.txt", "*.model"),  # vocabularies without a tokenizer.json
)
_HUB_ID = re.compile(r"[\w.-]+/[\w.-]+")
_FLOAT_TYPES = ("F32", "F16", "BF16", "F64")  # as safetensors names them

_Content = TypeVar("_Content")


class _WeightIndex(msgspec.Struct):
  """Content of model.safetensors.index.json: the file of every tensor."""

  weight_map: dict[str, str]


def is_hub_id(source: str | os.PathLike[str]) -> bool:
  """Returns whether a source looks like a hub id, "owner/name"."""
  return _HUB_ID.fullmatch(str(source)) is not None


def find_model_folder(source: str | os.PathLike[str]) -> pathlib.Path:
  """Returns the local folder of a model.

  Args:
    source: a folder, or a hub id "owner/name", which is downloaded once. The
      variables of the hub's library hold, such as HF_HOME and HF_HUB_OFFLINE.

  Raises:
    FileNotFoundError: if there is no such folder and no such model.
  """
  folder = pathlib.Path(source).expanduser()
  if folder.is_dir():
    return folder
  if not is_hub_id(source):
    raise FileNotFoundError(
      f"{source}: no such folder; expected a folder with {CONFIG_FILE} and "
      f"{WEIGHTS_FILE}, or a hub id like owner/name"
    )
  try:
    snapshot_folder = huggingface_hub.snapshot_download(
      str(source), allow_patterns=list(_DOWNLOAD_PATTERNS)
    )
  except Exception as error:  # network, proxy and hub errors share no base
    reason = str(error).strip().splitlines()[0] if str(error).strip() else error
    raise FileNotFoundError(
      f"{source}: neither a folder here nor a model that the hub gave "
      f"({type(error).__name__}: {reason})"
    ) from error
  return pathlib.Path(snapshot_folder)


def read_json(
  path: pathlib.Path, schema: type[_Content] = dict[str, Any]
) -> _Content:
  """Returns the content of a JSON file.

  Args:
    path: of the file.
    schema: type of the content; fields that it does not name are skipped.

  Raises:
    FileNotFoundError: if there is no such file.
    ValueError: if it is not JSON, or a field is missing or of another type.
  """
  if not path.is_file():
    raise FileNotFoundError(f"no {path.name} in {path.parent}")
  try:
    return msgspec.json.decode(path.read_bytes(), type=schema)
  except msgspec.ValidationError as error:
    raise ValueError(f"{path}: {error}") from error
  except msgspec.DecodeError as error:
    raise ValueError(f"{path} is not JSON: {error}") from error


class TensorFiles:
  """Tensors of a model folder by name, with their shapes."""

  shapes: Mapping[str, tuple[int, ...]]

  def __init__(self, folder: pathlib.Path):
    """Opens model.safetensors, or every shard that the index names.

    Raises:
      FileNotFoundError: naming all files that are missing.
      ValueError: if a file is cut off or not a safetensors file, or a tensor of
        the index is in no file.
    """
    self.folder = folder
    names_by_file = _list_weight_files(folder)
    self._files = {path: _open_weights(path) for path in sorted(names_by_file)}
    self._file_by_tensor = {
      name: file
      for file in self._files.values()
      for name in file.keys()  # noqa: SIM118
    }
    absent_names = sorted(
      name
      for names in names_by_file.values()
      for name in names
      if name not in self._file_by_tensor
    )
    if absent_names:
      raise ValueError(
        f"{folder / INDEX_FILE} names tensors that no file holds: "
        f"{', '.join(absent_names)}"
      )
    self.shapes = {
      name: tuple(file.get_slice(name).get_shape())
      for name, file in self._file_by_tensor.items()
    }

  def read_tensor(self, name: str, index: tuple[slice, ...]) -> np.ndarray:
    """Returns a slice of a tensor, fp32; `index` has a slice for each axis.

    Raises:
      ValueError: if the tensor holds no floats, e.g. if it is quantised.
    """
    view = self._file_by_tensor[name].get_slice(name)
    if view.get_dtype() not in _FLOAT_TYPES:
      raise ValueError(  # e.g. the integers of a quantised model
        f"{self.folder}: {name} holds {view.get_dtype()}; expected one of "
        f"{', '.join(_FLOAT_TYPES)}"
      )
    return np.asarray(view[index]).astype(np.float32)


def hash_weights(folder: pathlib.Path) -> str:
  """Returns a hash of the weight files of a folder, hexadecimal."""
  digest = hashlib.sha256()
  for path in sorted(_list_weight_files(folder)):
    with path.open("rb") as file:
      digest.update(hashlib.file_digest(file, "sha256").digest())
  return digest.hexdigest()


def _list_weight_files(folder: pathlib.Path) -> dict[pathlib.Path, list[str]]:
  """Returns the weight files, with the tensors that the index names in each."""
  if (folder / WEIGHTS_FILE).is_file():
    return {folder / WEIGHTS_FILE: []}
  if not (folder / INDEX_FILE).is_file():
    other_formats = sorted(
      path.name for path in folder.iterdir() if path.suffix in (".bin", ".h5")
    )
    raise FileNotFoundError(
      f"no {WEIGHTS_FILE} and no {INDEX_FILE} in {folder}"
      + (
        f"; {', '.join(other_formats)} is of a format not read here"
        if other_formats
        else ""
      )
    )
  weight_map = read_json(folder / INDEX_FILE, _WeightIndex).weight_map
  if not weight_map:
    raise ValueError(f"{folder / INDEX_FILE}: weight_map names no tensor")
  names_by_file: dict[pathlib.Path, list[str]] = {}
  for name, file in weight_map.items():
    names_by_file.setdefault(folder / file, []).append(name)
  missing = sorted(path.name for path in names_by_file if not path.is_file())
  if missing:
    raise FileNotFoundError(
      f"{folder / INDEX_FILE} names files that are not there: "
      f"{', '.join(missing)}"
    )
  return names_by_file


def read_tensors(path: pathlib.Path) -> dict[str, np.ndarray]:
  """Returns all tensors of a safetensors file by name.

  Raises:
    FileNotFoundError: if there is no such file.
    ValueError: if it is damaged.
  """
  if not path.is_file():
    raise FileNotFoundError(f"no {path.name} in {path.parent}")
  with _open_weights(path) as weights:
    return {
      name: weights.get_tensor(name)
      for name in weights.keys()  # noqa: SIM118
    }


def _open_weights(path: pathlib.Path) -> Any:
  try:
    return safetensors.safe_open(str(path), framework="numpy")
  except safetensors.SafetensorError as error:
    raise ValueError(
      f"{path} is cut off or no safetensors file: {error}"
    ) from error


def write_tensors(
  folder: pathlib.Path,
  tensors: Mapping[str, tuple[tuple[int, ...], Callable[[], np.ndarray]]],
  max_shard_bytes: int,
) -> None:
  """Writes model.safetensors, or shards and their index.

  Every file appears whole or not at all, the index last.

  Args:
    folder: made if needed.
    tensors: shape of each tensor, and a function that returns it, fp32; it is
      called when its file is written.
    max_shard_bytes: of one file; a larger tensor gets a file of its own.
  """
  folder.mkdir(parents=True, exist_ok=True)
  split = huggingface_hub.split_state_dict_into_shards_factory(
    {name: shape for name, (shape, _) in tensors.items()},
    get_storage_size=lambda shape: 4 * math.prod(shape),  # fp32
    filename_pattern="model{suffix}.safetensors",
    max_shard_size=max_shard_bytes,
  )
  for file, names in split.filename_to_tensors.items():
    write_tensor_file(
      folder / file, {name: tensors[name][1]() for name in names}
    )
  if split.is_sharded:
    index = {"metadata": split.metadata, "weight_map": split.tensor_to_filename}
    files.write_text(folder / INDEX_FILE, json.dumps(index, indent=2) + "\n")


def write_tensor_file(
  path: pathlib.Path, tensors: dict[str, np.ndarray]
) -> None:
  """Writes a file of tensors, whole or not at all."""
  with files.atomic_path(path) as temporary:
    # transformers refuses a file without the format in its metadata.
    safetensors_numpy.save_file(tensors, temporary, metadata={"format": "pt"})
