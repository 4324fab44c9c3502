"""Source files of the `rebuilt` data set, each checked by size and sha256.

Why: the texts are public but not ours to ship, and a file that was cut short
or changed since would give other months without a word. `checksums.tsv` names
every file by URL (repository, commit and path), size, sha256 and the name it
has in a folder of sources. Called by the builder.
"""

from __future__ import annotations

import hashlib
import os
import pathlib
from collections.abc import Mapping

from ctd_jax_datasets.chunqiutr.sources import SourceError
from tensorflow_datasets.core.download import checksums

ENVIRONMENT_VARIABLE = "CTD_JAX_SOURCES"
CHECKSUMS = pathlib.Path(__file__).with_name("checksums.tsv")


def known_files(
  path: pathlib.Path = CHECKSUMS,
) -> dict[str, tuple[str, checksums.UrlInfo]]:
  """Returns name in a sources folder -> (URL, size and sha256)."""
  return {
    info.filename: (url, info)
    for url, info in checksums.load_url_infos(path).items()
  }


def sources_folder(named: str | os.PathLike | None) -> pathlib.Path | None:
  """Returns the folder to read sources from, None to download them.

  Args:
    named: by the user; without it the environment variable
      `CTD_JAX_SOURCES` counts.

  Raises:
    SourceError: if the folder does not exist.
  """
  named = named or os.environ.get(ENVIRONMENT_VARIABLE)
  if not named:
    return None
  folder = pathlib.Path(named).expanduser()
  if not folder.is_dir():
    raise SourceError(
      f"{folder}: no such folder; --sources (or {ENVIRONMENT_VARIABLE}) names "
      "the folder that holds zuozhuan_KR1e0001/ and the others"
    )
  return folder


def files_of_folder(
  folder: pathlib.Path,
  known: Mapping[str, tuple[str, checksums.UrlInfo]],
) -> dict[str, pathlib.Path]:
  """Returns name -> path of every known file, after checking all of them.

  Raises:
    SourceError: naming the first file that is missing or differs, with the
      expected and the found size and sha256.
  """
  paths = {}
  for name, (url, info) in sorted(known.items()):
    path = folder / name
    if not path.is_file():
      raise SourceError(f"{path}: missing; it is {url}")
    content = path.read_bytes()
    found = hashlib.sha256(content).hexdigest()
    if found != info.checksum:
      raise SourceError(
        f"{path}: expected {int(info.size)} bytes, sha256 {info.checksum}, "
        f"got {len(content)} bytes, sha256 {found}; fetch it again from {url}"
      )
    paths[name] = path
  return paths
