"""Published weights into the parameters of our encoders, and back.

`tensor_names` says which tensor is which parameter. A parameter is read slice
by slice to where its sharding puts it, and written tensor by tensor: the host
never holds the whole model.
"""

from __future__ import annotations

import dataclasses
import functools
import pathlib
import re
from collections.abc import Iterable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ctd_jax.models.pretrained import geometry, hub_folders, tensor_names
from ctd_jax.models.pretrained.geometry import EncoderConfig
from ctd_jax.models.pretrained.hub_folders import TensorFiles

# Number of a layer inside the name of a tensor.
_NUMBER = re.compile(r"(?<=\.)\d+(?=\.)")


@dataclasses.dataclass(frozen=True)
class Parameter:
  """A parameter of our encoder and the tensors that hold it.

  Attributes:
    shape: of the parameter.
    tensors: name of its tensor, or of one tensor for each layer of a stacked
      parameter.
    is_stacked: whether the first axis counts layers.
    is_transposed: whether the tensors are [out, in], as torch stores kernels.
  """

  shape: tuple[int, ...]
  tensors: tuple[str, ...]
  is_stacked: bool
  is_transposed: bool

  @property
  def tensor_shape(self) -> tuple[int, ...]:
    """Shape of each tensor as stored."""
    shape = self.shape[1:] if self.is_stacked else self.shape
    return shape[::-1] if self.is_transposed else shape


def load_params(
  folder: pathlib.Path,
  config: EncoderConfig,
  sharding: Any = None,
  dtype: str = "float32",
) -> Any:
  """Returns the parameters of `config.make_encoder()` from a folder.

  Args:
    folder: with model.safetensors, or shards and their index.
    config: geometry, without adapters.
    sharding: one for all parameters, or a tree of them; None = the first
      device.
    dtype: of the parameters.

  Raises:
    FileNotFoundError: if a file is missing.
    ValueError: if a file is cut off or of another format; one message names
      every tensor that is missing, unexpected or of another shape.
  """
  tensor_files = TensorFiles(folder)
  shapes = abstract_params(config)
  stored_names = tensor_names.map_stored_names(
    tensor_files.shapes, tensor_names.tensor_table(config)
  )
  parameters = _describe_parameters(config, shapes)
  _check_tensors(folder, config, parameters, tensor_files.shapes, stored_names)
  if sharding is None or isinstance(sharding, jax.sharding.Sharding):
    # The same for every leaf of the tree.
    default_sharding = sharding or jax.sharding.SingleDeviceSharding(
      jax.devices()[0]
    )
    sharding = jax.tree.map(lambda _: default_sharding, shapes)

  # The callback is asked for one shard after another, so the host holds no
  # more than the largest shard.
  def read_parameter(
    parameter: Parameter, leaf_sharding: jax.sharding.Sharding
  ) -> jax.Array:
    return jax.make_array_from_callback(
      parameter.shape,
      leaf_sharding,
      lambda i: _read_shard(tensor_files, stored_names, parameter, i).astype(
        jnp.dtype(dtype), copy=False
      ),
    )

  return jax.tree.map(read_parameter, parameters, sharding)


def save_encoder(
  folder: pathlib.Path,
  config: EncoderConfig,
  params: Any,
  max_shard_bytes: int = 5_000_000_000,
) -> None:
  """Writes config.json and the weights of an encoder, fp32.

  Args:
    folder: made if needed.
    config: geometry.
    params: of `config.make_encoder()`, on any devices.
    max_shard_bytes: size of one file, and the most that the host holds.
  """
  hub_folders.write_tensors(
    folder,
    {
      name: (
        parameter.tensor_shape,
        functools.partial(to_stored_tensor, parameter, leaf, row),
      )
      for parameter, leaf in zip(
        jax.tree.leaves(_describe_parameters(config, params)),
        jax.tree.leaves(params),
        strict=True,
      )
      for row, name in enumerate(parameter.tensors)
    },
    max_shard_bytes,
  )
  geometry.write_encoder_config(folder, config)


def abstract_params(config: EncoderConfig) -> Any:
  """Returns shapes and types of the parameters of `config.make_encoder()`."""
  text = jax.ShapeDtypeStruct((1, 1), jnp.int32)
  # Nothing is computed: a 7B encoder has shapes on any host.
  init = config.make_encoder().init
  return jax.eval_shape(init, jax.random.key(0), text, text)["params"]


def _describe_parameters(config: EncoderConfig, shapes: Any) -> Any:
  """Returns a `Parameter` for every leaf of `shapes`, as the same tree."""
  table = tensor_names.tensor_table(config)

  def describe(path: tuple[Any, ...], leaf: Any) -> Parameter:
    # E.g. layer_3 / attention / query / kernel, or layers / ... if scanned.
    first, *middle, last = (entry.key for entry in path)
    name, _, number = first.partition("_")
    is_stacked = name == "layers"
    layers = range(config.num_layers) if is_stacked else (number,)
    if name in ("layer", "layers"):
      first = "layer"
    tensor_name = (
      f"{table['/'.join((first, *middle))]}.{tensor_names.LEAVES[last]}"
    )
    return Parameter(
      shape=leaf.shape,
      tensors=tuple(tensor_name.format(i=i) for i in layers),
      is_stacked=is_stacked,
      is_transposed=last == "kernel",
    )

  return jax.tree_util.tree_map_with_path(describe, shapes)


def _check_tensors(
  folder: pathlib.Path,
  config: EncoderConfig,
  parameters: Any,
  shapes: Mapping[str, tuple[int, ...]],
  stored_names: Mapping[str, str],
) -> None:
  """Raises a ValueError that names every tensor that does not fit."""
  expected = {
    name: parameter.tensor_shape
    for parameter in jax.tree.leaves(parameters)
    for name in parameter.tensors
  }
  missing = expected.keys() - stored_names.keys()
  unexpected = {
    stored_names[name]
    for name in stored_names.keys() - expected.keys()
    if not tensor_names.UNUSED_NAMES.match(stored_names[name])
  }
  misshapen = [
    f"{stored_names[name]} {shapes[stored_names[name]]} instead of "
    f"{expected[name]}"
    for name in sorted(expected.keys() & stored_names.keys())
    if shapes[stored_names[name]] != expected[name]
  ]
  problems = [
    f"{problem}: {', '.join(tensor_names)}"
    for problem, tensor_names in (
      ("missing", _abridge_names(missing)),
      ("unexpected", _abridge_names(unexpected)),
      ("of another shape", _abridge_names(misshapen)),
    )
    if tensor_names
  ]
  if problems:
    raise ValueError(
      f"the weights in {folder} are not those of a {type(config).__name__} of "
      f"{config.num_layers} layers as its config.json says; tensors "
      + "; ".join(problems)
    )


def _abridge_names(names: Iterable[str]) -> list[str]:
  """Returns the names, those that differ only in the layer as one entry."""
  groups: dict[str, list[str]] = {}
  for name in sorted(names):
    groups.setdefault(_NUMBER.sub("N", name), []).append(name)
  return [
    group[0] if len(group) == 1 else f"{name} ({len(group)} times)"
    for name, group in groups.items()
  ]


def _read_shard(
  tensor_files: TensorFiles,
  stored_names: Mapping[str, str],
  parameter: Parameter,
  index: tuple[slice, ...],
) -> np.ndarray:
  """Returns one shard of a parameter, fp32."""
  tensors = parameter.tensors
  if parameter.is_stacked:
    # The first axis of the index selects layers, which are tensors.
    tensors, index = tensors[index[0]], index[1:]
  if parameter.is_transposed:
    index = index[::-1]  # of the stored [out, in]
  arrays = [
    tensor_files.read_tensor(stored_names[name], index) for name in tensors
  ]
  if parameter.is_transposed:
    arrays = [array.T for array in arrays]
  return np.stack(arrays) if parameter.is_stacked else arrays[0]


def to_stored_tensor(
  parameter: Parameter, leaf: jax.Array, row: int
) -> np.ndarray:
  """Returns a tensor as it is stored, fp32."""
  tensor = np.asarray(leaf[row] if parameter.is_stacked else leaf, np.float32)
  # safetensors stores arrays in C order; a transpose is only a view.
  return np.ascontiguousarray(tensor.T) if parameter.is_transposed else tensor
