"""Names of the data sets and their TFDS builders."""

from __future__ import annotations

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
