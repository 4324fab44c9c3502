"""The authors' trained feed-forward networks as models of ours.

Their repository holds baseline_weights/benchmark_N/ffnn.pth (MIT): a zip of
PyTorch whose members data/0 to data/5 are the weights and biases of three
layers, fp32. Only these bytes are read; the pickle beside them is not. Support
vectors, trees and least squares are pickles as a whole, so they are left out.

Source: github.com/krishgoel/chronocept-baseline-models, fc375d6: models/ffnn.py
(layers), utils/dataloader.py (fields, [CLS] vectors, z-scores), and the
notebooks (128 tokens).
"""

import itertools
import os
import pathlib
import zipfile

import ml_collections
import numpy as np
import tensorflow_datasets as tfds

from ctd_jax.tasks.chronocept.features import AXES_GIVEN, TargetScaler
from ctd_jax.tasks.chronocept.regressors import Arrays
from ctd_jax_datasets.chronocept import sample_records
from ctd_jax_datasets.common import source_files
from ctd_jax_datasets.common.source_files import Blob

FILE = "ffnn.pth"
_URL = (
  "https://raw.githubusercontent.com/krishgoel/chronocept-baseline-models/"
  "fc375d6b340b0d243b3a0ea7a984d0984b618ebc/baseline_weights"
)
# Name of the model (its data set) -> file.
BLOBS = {
  f"chronocept/{benchmark}": Blob(f"{_URL}/{benchmark}/{FILE}", blob_id)
  for benchmark, blob_id in (
    ("benchmark_1", "85d6bedc999801121dc94700acef84303005cf14"),
    ("benchmark_2", "2f52b1bc43d1079fbb19e2dc7213cbb2a65aa16e"),
  )
}
_NUM_FIELDS = 1 + len(sample_records.AXES)
_WIDTH = 768 * _NUM_FIELDS  # of bert-base-uncased


def load_published(
  name: str, sources: str | os.PathLike | None = None
) -> tuple[ml_collections.ConfigDict, tuple[Arrays, TargetScaler]]:
  """Returns the config and the model of published weights.

  Args:
    name: key of `BLOBS`.
    sources: folder `baseline_weights` of a clone, or one with the file; by
      default $CTD_JAX_RELEASE, or the file is downloaded.

  Raises:
    SourceError: if the file is missing, cannot be downloaded or is another.
  """
  sources = sources or os.environ.get(source_files.RELEASE_FOLDER_VARIABLE)
  cache = pathlib.Path("~/.cache/ctd_jax/chronocept").expanduser()
  manager = tfds.download.DownloadManager(
    download_dir=str(cache), force_checksums_validation=False
  )
  paths = source_files.locate_blobs(manager, {FILE: BLOBS[name]}, sources)
  arrays = read_weights(paths[FILE])
  benchmark = name.partition("/")[2]
  # The models predict z-scores; the published statistics of train undo them.
  train = sample_records.read_target_statistics()[benchmark]["train"]
  config = ml_collections.ConfigDict(
    {
      "name": "ffnn",
      "dataset": name,
      "axes": AXES_GIVEN,
      "encoder": "google-bert/bert-base-uncased",
      "protocol": "paper",
      "paper_max_length": 128,
      "model": {
        "kind": "ffnn",
        "hidden_size": len(arrays["Dense_0/bias"]),
        "dropout": 0.0,
      },
    }
  )
  return config, (
    arrays,
    TargetScaler(np.array(train.mean), np.array(train.sd)),
  )


def read_weights(path: pathlib.Path) -> Arrays:
  """Returns the arrays of an ffnn.pth, named as in `networks.FeedForward`.

  Raises:
    SourceError: if the file is not a zip of three layers of these sizes.
  """
  try:
    with zipfile.ZipFile(path) as archive:
      # The folder in the zip has the name that the file had when it was saved.
      folder = archive.namelist()[0].partition("/")[0]
      members = [
        np.frombuffer(archive.read(f"{folder}/data/{number}"), "<f4")
        for number in range(6)
      ]
    hidden = len(members[1])
    widths = (_WIDTH, hidden, hidden // 2, len(sample_records.TARGETS))
    arrays = {}
    for layer, (width, next_width) in enumerate(itertools.pairwise(widths)):
      # PyTorch keeps [out, in].
      kernel = members[2 * layer].reshape(next_width, width)
      arrays[f"Dense_{layer}/kernel"] = kernel.T
      arrays[f"Dense_{layer}/bias"] = members[2 * layer + 1].reshape(next_width)
  except (zipfile.BadZipFile, KeyError, IndexError, ValueError) as error:
    raise source_files.SourceError(
      f"{path}: not the authors' feed-forward network: {error}"
    ) from None
  return arrays
