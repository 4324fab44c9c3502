"""Files of a public repository, recognised by their git blob ids.

A commit fixes the exact bytes of its files, so files can be checked without
anybody having downloaded them before.
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
import pathlib
from collections.abc import Mapping

import tensorflow_datasets as tfds
from tensorflow_datasets.core.download import checksums

from ctd_jax_datasets.common import source_files
from ctd_jax_datasets.common.errors import SourceError

RELEASE_FOLDER_VARIABLE = "CTD_JAX_RELEASE"  # names the authors' files' folder


@dataclasses.dataclass(frozen=True)
class Blob:
  """A file of a commit.

  Attributes:
    url: where its bytes are served.
    blob_id: by which git knows them.
  """

  url: str
  blob_id: str


def compute_blob_id(content: bytes) -> str:
  """Returns the id that git gives to a file with this content."""
  head = f"blob {len(content)}\0".encode()
  return hashlib.sha1(head + content, usedforsecurity=False).hexdigest()


def find_folder_files(
  folder: str | os.PathLike, urls: Mapping[str, str]
) -> dict[str, pathlib.Path]:
  """Returns name -> path of every known file in a folder of the user's.

  The folder may be a clone of the repository: then the files lie below it as
  they do there. Their content is not compared, it may have been corrected.

  Args:
    folder: of the files, or of a clone.
    urls: file name -> where the public has it.

  Raises:
    SourceError: naming the folder and every file that is missing.
  """
  folder = pathlib.Path(folder).expanduser()
  if not folder.is_dir():
    raise SourceError(
      f"{folder}: no such folder; it should hold {', '.join(urls)}"
    )
  paths, missing = {}, []
  for name, url in urls.items():
    inside_clone = pathlib.PurePosixPath(url).parent.name
    candidate_paths = (folder / name, folder / inside_clone / name)
    existing_path = next(
      (
        candidate_path
        for candidate_path in candidate_paths
        if candidate_path.is_file()
      ),
      None,
    )
    if existing_path is None:
      missing.append(f"{name} (it is {url})")
    else:
      paths[name] = existing_path
  if missing:
    raise SourceError(f"{folder}: missing {', '.join(missing)}")
  return paths


def get_urls(blobs: Mapping[str, Blob]) -> dict[str, str]:
  """Returns file name -> where its bytes are served."""
  return {name: blob.url for name, blob in blobs.items()}


def download_blobs(
  manager: tfds.download.DownloadManager, blobs: Mapping[str, Blob]
) -> dict[str, pathlib.Path]:
  """Returns name -> path of every known file, downloaded and checked.

  Raises:
    SourceError: if the network fails or a file has another blob id; such a
      file is removed, so that the next try downloads it again.
  """
  # fetch checks size and sha256 where they are recorded; here they are not.
  unchecked = checksums.UrlInfo(size=None, checksum=None, filename=None)
  paths = source_files.download_files(
    manager,
    {name: (blob.url, unchecked) for name, blob in blobs.items()},
    RELEASE_FOLDER_VARIABLE,
  )
  for name, path in paths.items():
    content = path.read_bytes()
    actual_id = compute_blob_id(content)
    if actual_id != blobs[name].blob_id:
      path.unlink()
      raise SourceError(
        f"{blobs[name].url}: expected git blob {blobs[name].blob_id}, got "
        f"{actual_id} ({len(content)} bytes); a file that was changed on "
        "purpose is read from a folder"
      )
  return paths
