"""Location of the published files, on the hub or in a folder.

The hub names files by branch, so their content may change. After a first
download `build --register_checksums` writes their sizes and sha256 into
`checksums.tsv` beside this module, and later downloads are checked against it.
"""

from __future__ import annotations

import os
import pathlib

import tensorflow_datasets as tfds
from tensorflow_datasets.core.download import checksums

from ctd_jax_datasets.common import git_blobs, source_files

HUB_URL = "https://huggingface.co/datasets/krishgoel/chronocept/resolve/main"
CHECKSUMS = pathlib.Path(__file__).with_name("checksums.tsv")
# Split -> file name in the folder of a benchmark.
SPLIT_FILES = {
  "train": "train.json",
  "validation": "valid.json",
  "test": "test.json",
}
# TFDS accepts any download of a URL without size and checksum.
_UNREGISTERED = checksums.UrlInfo(size=None, checksum=None, filename=None)


def locate_published_files(
  manager: tfds.download.DownloadManager,
  benchmark: str,
  folder: str | os.PathLike | None = None,
) -> dict[str, pathlib.Path]:
  """Returns split -> path of the files of a benchmark.

  Args:
    manager: downloads the files if no folder is given.
    benchmark: benchmark_1 or benchmark_2, a folder on the hub.
    folder: contains the three files, or the benchmark's folder with them.
      Checksums are not compared; `summary` reports other sizes.

  Raises:
    SourceError: if a file is missing, cannot be downloaded, or differs from
      the registered checksum.
  """
  urls = {
    name: f"{HUB_URL}/{benchmark}/{name}" for name in SPLIT_FILES.values()
  }
  if folder is not None:
    paths = git_blobs.find_folder_files(folder, urls)
  else:
    registered = (
      checksums.load_url_infos(CHECKSUMS) if CHECKSUMS.exists() else {}
    )
    paths = source_files.download_files(
      manager,
      {
        name: (url, registered.get(url, _UNREGISTERED))
        for name, url in urls.items()
      },
      git_blobs.RELEASE_FOLDER_VARIABLE,
    )
  return {split: paths[name] for split, name in SPLIT_FILES.items()}
