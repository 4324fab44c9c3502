"""Samples of Chronocept by the name of a data set or of a folder.

Models read the same `Sample`s from a built data set and from the published
files.
"""

from __future__ import annotations

import os
import pathlib

from ctd_jax_datasets import build, registry
from ctd_jax_datasets.chronocept import examples, hub, records
from ctd_jax_datasets.chronocept.samples import Sample

JSON_PREFIX = "json:"


def load_samples(
  name: str,
  data_dir: str | os.PathLike | None = None,
  sources: str | os.PathLike | None = None,
) -> dict[str, list[Sample]]:
  """Returns split -> samples.

  Args:
    name: e.g. `chronocept/synthetic_1`, which is built if it is missing; or
      `json:FOLDER`, a folder with train.json, valid.json and test.json.
    data_dir: folder of data sets; None means the default of TFDS.
    sources: folder of the published files, see `build.build_dataset`.

  Raises:
    ValueError: if there is no such data set, or naming file, record, id and
      field at fault.
    FileNotFoundError: if a file of the folder is missing.
  """
  if name.startswith(JSON_PREFIX):
    # The published files themselves: no data set is built.
    folder = pathlib.Path(name.removeprefix(JSON_PREFIX)).expanduser()
    return records.read_splits(
      {
        split: folder / file_name
        for split, file_name in hub.SPLIT_FILES.items()
      }
    )
  # The registry also holds data sets of other tasks.
  chronocept_names = [
    n for n in registry.DATASET_NAMES if n.startswith("chronocept/")
  ]
  if name not in chronocept_names:
    raise ValueError(
      f"no data set {name!r}; there are {', '.join(chronocept_names)} and "
      f"{JSON_PREFIX}FOLDER"
    )
  return examples.read_samples(build.build_dataset(name, data_dir, sources))
