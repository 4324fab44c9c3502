"""Names of the data sets and their TFDS builders."""

from __future__ import annotations

import os

import tensorflow_datasets as tfds

from ctd_jax_datasets.chronocept import chronocept_dataset_builder
from ctd_jax_datasets.ctm import ctm_dataset_builder
from ctd_jax_datasets.zztj import zztj_dataset_builder

DATASET_NAMES = (
  "chunqiutr/mini",
  "chunqiutr/rebuilt",
  "chunqiutr/release",
  *(
    f"zztj/{config.name}"
    for config in zztj_dataset_builder.Builder.BUILDER_CONFIGS
  ),
  *(
    f"chronocept/{config.name}"
    for config in chronocept_dataset_builder.Builder.BUILDER_CONFIGS
  ),
  *(
    f"ctm/{config.name}"
    for config in ctm_dataset_builder.Builder.BUILDER_CONFIGS
  ),
)


def make_builder(
  name: str, data_dir: str | os.PathLike | None = None
) -> tfds.core.DatasetBuilder:
  """Returns the builder of a data set, which need not be built.

  Args:
    name: e.g. `chunqiutr/mini`.
    data_dir: where data sets lie; None means the default of TFDS.

  Raises:
    ValueError: if there is no such data set; the message lists all.
  """
  if name not in DATASET_NAMES:
    raise ValueError(
      f"no data set {name!r}; there are {', '.join(DATASET_NAMES)}"
    )
  if data_dir is not None:
    data_dir = os.path.expanduser(data_dir)
  return tfds.builder(name, data_dir=data_dir)
