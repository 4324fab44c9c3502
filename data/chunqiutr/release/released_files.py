"""The three released files: URLs, git blob ids, download."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Mapping

import tensorflow_datasets as tfds

from ctd_jax_datasets.chunqiutr.release.schema import (
  MONTHS_FILE,
  QUERIES_FILE,
  SPLITS_FILE,
)
from ctd_jax_datasets.common import git_blobs

# Commit of the public repository; it fixes the bytes of the files.
_COMMIT = "c0d3e5aa039ce24516eaa33ceedea2c54711fcec"
_URL = f"https://raw.githubusercontent.com/xbdxwyh/ChunQiuTR/{_COMMIT}/dataset"
FILES: Mapping[str, git_blobs.Blob] = {
  name: git_blobs.Blob(f"{_URL}/{name}", blob_id)
  for name, blob_id in (
    (MONTHS_FILE, "f5791ada9cd1ee2253101ac45fe7bb210d974b9e"),
    (QUERIES_FILE, "164b938c7ab37b6793897448834d52e428897718"),
    (SPLITS_FILE, "6c192cc28b047c14ccbc34fb2fb25fb5d32faac9"),
  )
}


def resolve_files(
  manager: tfds.download.DownloadManager,
  folder: str | os.PathLike | None = None,
) -> dict[str, pathlib.Path]:
  """Returns name -> path of the three files.

  Args:
    manager: downloads them, if no folder is named.
    folder: that holds them, or a clone of the authors' repository. Files that
      differ from the released ones are accepted; `read` reports them.

  Raises:
    SourceError: if one is missing, cannot be downloaded, or was downloaded and
      is not the released one.
  """
  if folder is not None:
    return git_blobs.find_folder_files(folder, git_blobs.get_urls(FILES))
  return git_blobs.download_blobs(manager, FILES)
