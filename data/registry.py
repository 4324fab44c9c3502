"""Names of the data sets and their TFDS builders."""

from __future__ import annotations

import dataclasses
import difflib
import os

import tensorflow_datasets as tfds

from ctd_jax_datasets.chronocept import chronocept_dataset_builder
from ctd_jax_datasets.chunqiutr import chunqiutr_dataset_builder
from ctd_jax_datasets.ctm import ctm_dataset_builder
from ctd_jax_datasets.zztj import zztj_dataset_builder

_BUILDERS = {
  "chunqiutr": chunqiutr_dataset_builder.Builder,
  "zztj": zztj_dataset_builder.Builder,
  "chronocept": chronocept_dataset_builder.Builder,
  "ctm": ctm_dataset_builder.Builder,
}
# In the order in which messages and documentation list them.
DATASET_NAMES = tuple(
  f"{name}/{config.name}"
  for name, builder in _BUILDERS.items()
  for config in builder.BUILDER_CONFIGS
)


@dataclasses.dataclass(frozen=True)
class Licence:
  """Terms of what a data set holds."""

  identifier: str  # as the hub of Hugging Face abbreviates it
  statement: str  # the same in words


_EDITIONS_LICENCE = Licence(
  "cc-by-sa-4.0",
  "The texts are in the public domain; the digital editions they are read "
  "from, Kanripo and Wikisource, are under CC BY-SA.",
)
_LICENCES = {
  "chunqiutr/mini": Licence("apache-2.0", "Invented by ctd_jax; Apache-2.0."),
  "chunqiutr/rebuilt": _EDITIONS_LICENCE,
  "zztj/rebuilt": _EDITIONS_LICENCE,
}
_UNKNOWN_LICENCE = Licence(
  "unknown", "That of the files it was made from, which ctd_jax does not know."
)


def get_licence(name: str) -> Licence:
  """Returns the licence of a data set, also of one that is not ours."""
  return _LICENCES.get(name, _UNKNOWN_LICENCE)


def make_builder(
  name: str, data_dir: str | os.PathLike | None = None
) -> tfds.core.DatasetBuilder:
  """Returns the builder of a data set, which need not be built.

  Args:
    name: e.g. `chunqiutr/mini`.
    data_dir: folder of the data sets, `gs://` too; None means the default of
      TFDS.

  Raises:
    ValueError: if there is no such data set; the message suggests the nearest
      name and lists all.
  """
  if name not in DATASET_NAMES:
    nearest = difflib.get_close_matches(name, DATASET_NAMES, n=1)
    suggestion = f"did you mean {nearest[0]!r}? " if nearest else ""
    raise ValueError(
      f"no data set {name!r}; {suggestion}there are {', '.join(DATASET_NAMES)}"
    )
  if data_dir is not None:
    data_dir = os.path.expanduser(data_dir)
  return tfds.builder(name, data_dir=data_dir)


def check_file_format(builder: tfds.core.DatasetBuilder) -> None:
  """Checks that a data set that is built can be read without TensorFlow.

  Raises:
    ValueError: if TFDS was told to store it in another format than ours.
  """
  file_format = builder.info.file_format
  if file_format is not tfds.core.FileFormat.ARRAY_RECORD:
    raise ValueError(
      f"{builder.data_path} is stored as {file_format.value}, not as "
      "array_record; build it again: python -m ctd_jax_datasets.build "
      f"{builder.name}/{builder.builder_config.name} --overwrite"
    )
