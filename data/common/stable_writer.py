"""Writer of examples whose bytes depend on the examples alone.

An example is a protocol buffer with a map, and a map is written in an order
that differs from process to process. Without this writer two builds of one data
set could be compared only after reading them.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

import tensorflow_datasets as tfds
from tensorflow_datasets.proto import tf_example_pb2


class StableWriter(tfds.core.ExampleWriter):
  """Writer of TFDS that puts the features of an example in order."""

  def write(
    self, path: str | os.PathLike, examples: Iterable[tuple[object, bytes]]
  ):
    """Writes a shard, see `tfds.core.ExampleWriter`.

    Args:
      path: of the shard.
      examples: (key, serialized example), in the order to be stored.
    """
    stable_examples = (
      (key, _serialize_deterministic(example)) for key, example in examples
    )
    return super().write(path, stable_examples)


def _serialize_deterministic(example: bytes) -> bytes:
  example_proto = tf_example_pb2.Example.FromString(example)
  # Deterministic: maps are written in the order of their keys.
  return example_proto.SerializeToString(deterministic=True)
