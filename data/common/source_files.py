"""Source files in a folder or downloaded, checked by size and sha256.

The texts are public but not ours to ship, and a file that was cut short or
changed would silently give other months. A table `checksums.tsv` names every
file by URL (repository, commit and path), size, sha256 and its name in a folder
of sources; TFDS reads the same table.
"""

from __future__ import annotations

import hashlib
import os
import pathlib
import re
import shutil
import sys
import urllib.request
from collections.abc import Callable, Mapping, Sequence

import tensorflow_datasets as tfds
from absl import app, flags
from tensorflow_datasets.core.download import checksums, download_manager

from ctd_jax_datasets.common.errors import SourceError

ENVIRONMENT_VARIABLE = "CTD_JAX_SOURCES"
_TIMEOUT_S = 30  # seconds for the first request
_MISMATCH = re.compile(r"Artifact (\S+), downloaded to (.+?), has wrong")


def read_file_infos(
  table: pathlib.Path,
) -> dict[str, tuple[str, checksums.UrlInfo]]:
  """Returns name in a sources folder -> (URL, size and sha256).

  Args:
    table: a `checksums.tsv` of TFDS: URL, size, sha256 and name.
  """
  return {
    info.filename: (url, info)
    for url, info in checksums.load_url_infos(table).items()
  }


def resolve_sources_folder(
  user_folder: str | os.PathLike | None,
) -> pathlib.Path | None:
  """Returns the folder to read sources from, None to download them.

  Args:
    user_folder: by the user; without it the environment variable
      `CTD_JAX_SOURCES` counts.

  Raises:
    SourceError: if the folder does not exist.
  """
  user_folder = user_folder or os.environ.get(ENVIRONMENT_VARIABLE)
  if not user_folder:
    return None
  folder = pathlib.Path(user_folder).expanduser()
  if not folder.is_dir():
    raise SourceError(
      f"{folder}: no such folder; --sources (or {ENVIRONMENT_VARIABLE}) names "
      "the folder of the source texts that checksums.tsv lists"
    )
  return folder


def run_on_sources(main: Callable[[pathlib.Path], None]) -> None:
  """Runs a script that reads source texts: its one flag is --sources.

  What cannot be read ends it with a line.

  Args:
    main: is given the folder.
  """
  # Defined here: a program that imports the script must not accept the flag.
  sources_flag = flags.DEFINE_string(
    "sources",
    None,
    "Folder of source texts; by default the environment variable "
    f"{ENVIRONMENT_VARIABLE}. Example: --sources=corpus/raw",
  )

  def run_main(argv: Sequence[str]) -> None:
    if len(argv) != 1:
      raise app.UsageError("no arguments, only --sources")
    try:
      folder = resolve_sources_folder(sources_flag.value)
      if folder is None:
        raise SourceError(
          "name the folder of source texts with --sources or "
          f"{ENVIRONMENT_VARIABLE}"
        )
      main(folder)
    except SourceError as error:
      sys.exit(f"error: {error}")

  app.run(run_main)


def check_folder_files(
  folder: pathlib.Path,
  file_infos: Mapping[str, tuple[str, checksums.UrlInfo]],
) -> dict[str, pathlib.Path]:
  """Returns name -> path of every known file, after checking all of them.

  Raises:
    SourceError: naming the first file that is missing or differs, with the
      expected and the found size and sha256.
  """
  paths = {}
  for name, (url, info) in sorted(file_infos.items()):
    path = folder / name
    if not path.is_file():
      raise SourceError(f"{path}: missing; it is {url}")
    _check_file(path, path, url, info)
    paths[name] = path
  return paths


def download_files(
  manager: tfds.download.DownloadManager,
  file_infos: Mapping[str, tuple[str, checksums.UrlInfo]],
  variable: str = ENVIRONMENT_VARIABLE,
) -> dict[str, pathlib.Path]:
  """Returns name -> path of every known file, downloaded and checked by TFDS.

  Args:
    manager: downloads.
    file_infos: name -> (URL, size and sha256, None where they are not known).
    variable: that may name a folder of these files instead, for messages.

  Raises:
    SourceError: if the network or a checksum fails. A file that differs is
      removed; those that were whole stay in the download folder.
  """
  urls = {name: url for name, (url, _) in file_infos.items()}
  try:
    # TFDS tries for minutes before it gives up; one request tells at once.
    probe = urllib.request.Request(next(iter(urls.values())), method="HEAD")
    urllib.request.urlopen(probe, timeout=_TIMEOUT_S).close()
    paths = manager.download(urls)  # checks size and sha256 itself
  except download_manager.NonMatchingChecksumError as error:
    # The message begins "Artifact URL, downloaded to PATH, has wrong".
    url, path = _MISMATCH.match(str(error)).groups()
    try:
      (info,) = (
        info for known_url, info in file_infos.values() if known_url == url
      )
      _check_file(pathlib.Path(path), url, url, info)
      raise SourceError(f"{url}: {error}") from None
    finally:
      # TFDS downloads into a folder NAME.tmp.RANDOM/ of each file's own.
      shutil.rmtree(pathlib.Path(path).parent, ignore_errors=True)
  except OSError as error:
    reason = " ".join(str(error).split())
    raise SourceError(
      f"{next(iter(urls.values()))} cannot be downloaded ({reason}); name a "
      f"folder that holds {next(iter(urls))} with --sources or {variable}"
    ) from None
  return {name: pathlib.Path(path) for name, path in paths.items()}


def _check_file(
  path: pathlib.Path, display_name: object, url: str, info: checksums.UrlInfo
) -> None:
  """Raises SourceError about `display_name` if the sha256 is another."""
  content = path.read_bytes()
  digest = hashlib.sha256(content).hexdigest()
  if digest != info.checksum:
    raise SourceError(
      f"{display_name}: expected {int(info.size)} bytes, sha256 "
      f"{info.checksum}, got {len(content)} bytes, sha256 {digest}; "
      f"fetch it again from {url}"
    )


def select_folder_files(
  files: Mapping[str, pathlib.Path], folder: str
) -> list[pathlib.Path]:
  """Returns the paths whose name begins with `folder`, in order of name."""
  paths = [files[name] for name in sorted(files) if name.startswith(folder)]
  if not paths:
    raise SourceError(f"no source file of {folder}/ was given")
  return paths
