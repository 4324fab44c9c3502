"""Files that a public repository holds, recognised by their git blob ids.

Why: a commit names the exact bytes of its files, so files can be checked
without anybody having downloaded them before. Called by `release` and by
whoever reads another file of that repository.
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
import pathlib
from collections.abc import Mapping

import tensorflow_datasets as tfds
from tensorflow_datasets.core.download import checksums

from ctd_jax_datasets.chunqiutr import fetch
from ctd_jax_datasets.chunqiutr.sources import SourceError

# Names the folder of the authors' files.
RELEASE_VARIABLE = "CTD_JAX_RELEASE"


@dataclasses.dataclass(frozen=True)
class Blob:
  """A file of a commit.

  Attributes:
    url: where its bytes are served.
    blob_id: by which git knows them.
  """

  url: str
  blob_id: str


def blob_id(content: bytes) -> str:
  """Returns the id that git gives to a file with this content."""
  head = f"blob {len(content)}\0".encode()
  return hashlib.sha1(head + content, usedforsecurity=False).hexdigest()


def files_of_folder(
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
    places = (folder / name, folder / inside_clone / name)
    found = next((place for place in places if place.is_file()), None)
    if found is None:
      missing.append(f"{name} (it is {url})")
    else:
      paths[name] = found
  if missing:
    raise SourceError(f"{folder}: missing {', '.join(missing)}")
  return paths


def urls_of(known: Mapping[str, Blob]) -> dict[str, str]:
  """Returns file name -> where its bytes are served."""
  return {name: blob.url for name, blob in known.items()}


def download_files(
  manager: tfds.download.DownloadManager, known: Mapping[str, Blob]
) -> dict[str, pathlib.Path]:
  """Returns name -> path of every known file, downloaded and checked.

  Raises:
    SourceError: if the network fails or a file has another blob id; such a
      file is removed, so that the next try downloads it again.
  """
  # fetch checks size and sha256 where they are recorded; here they are not.
  unchecked = checksums.UrlInfo(size=None, checksum=None, filename=None)
  paths = fetch.download_files(
    manager,
    {name: (blob.url, unchecked) for name, blob in known.items()},
    RELEASE_VARIABLE,
  )
  for name, path in paths.items():
    content = path.read_bytes()
    found = blob_id(content)
    if found != known[name].blob_id:
      path.unlink()
      raise SourceError(
        f"{known[name].url}: expected git blob {known[name].blob_id}, got "
        f"{found} ({len(content)} bytes); a file that was changed on purpose "
        "is read from a folder"
      )
  return paths
